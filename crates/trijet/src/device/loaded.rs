//! A kernel that is loaded on a device, and the check that a launch passes the parameters of the
//! kernel.
//!
//! The driver reads the bytes of all parameters of the kernel, even if the launch passes fewer. A
//! launch with the same sizes of arguments as the last accepted launch compares only one number.
#![forbid(unsafe_code)]

use super::args::ArgBlock;
use super::driver::{FunctionHandle, ModuleHandle};
use super::launch_config::LaunchConfig;
use super::ptx;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The value of [`Loaded::accepted`] before any arguments are accepted.
const NONE_YET: u64 = u64::MAX;

/// A loaded module.
#[derive(Debug, Clone)]
pub(crate) struct LoadedModule {
    pub(crate) handle: ModuleHandle,
    /// The scanned PTX. `None` for a cubin, and for a source on a host device, because a host
    /// device compiles no sources.
    pub(crate) ptx: Option<Arc<ptx::Module>>,
}

/// A loaded kernel.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) function: FunctionHandle,
    /// The size of each parameter in bytes, if the driver knows them.
    pub(crate) parameters: Option<Box<[usize]>>,
    /// The entry of the kernel in the PTX; `None` without PTX.
    entry: Option<ptx::Entry>,
    /// The reason to believe that the kernel waits for its predecessor: its PTX, or a promise.
    wait: ptx::WaitProof,
    /// Whether the PTX refuses some configurations of a launch. Few kernels have such PTX.
    is_demanding: bool,
    /// The [signature](ArgBlock::signature) of the last arguments that were accepted.
    accepted: AtomicU64,
}

impl Loaded {
    pub(crate) fn new(
        function: FunctionHandle,
        parameters: Option<Vec<usize>>,
        entry: Option<&ptx::Entry>,
        wait: ptx::WaitProof,
    ) -> Self {
        let parameters = parameters.map(Vec::into_boxed_slice);
        let is_demanding = entry.is_some_and(ptx::Entry::is_demanding);
        let accepted = AtomicU64::new(NONE_YET);
        Self { function, parameters, entry: entry.cloned(), wait, is_demanding, accepted }
    }

    /// Refuses a configuration that the PTX of the kernel does not allow.
    ///
    /// # Errors
    /// See [`ptx::Entry::check`].
    #[inline(always)]
    pub(crate) fn check_config(&self, config: &LaunchConfig) -> Result<(), String> {
        if config.dependent {
            self.check_dependent()?;
        }
        if !self.is_demanding {
            return Ok(());
        }
        self.entry.as_ref().map_or(Ok(()), |entry| entry.check(config))
    }

    /// Refuses a dependent launch of a kernel that is not known to wait before it uses memory.
    #[cold]
    fn check_dependent(&self) -> Result<(), String> {
        match &self.entry {
            Some(entry) => entry.check_dependent(self.wait),
            None => {
                let why = "no PTX shows that the kernel waits for earlier work, so a dependent \
                           launch of it is refused";
                Err(why.to_owned())
            }
        }
    }

    /// Refuses arguments that differ from the kernel's parameters in number or in a size.
    ///
    /// # Errors
    /// Names the parameters of the kernel, and the arguments that the launch passes.
    #[inline(always)]
    pub(crate) fn check(&self, args: &ArgBlock) -> Result<(), String> {
        // A signature in `accepted` makes no other memory visible, so no ordering is needed.
        if self.accepted.load(Ordering::Relaxed) == args.signature() {
            return Ok(());
        }
        self.compare(args)
    }

    #[cold]
    fn compare(&self, args: &ArgBlock) -> Result<(), String> {
        if let Some(parameters) = &self.parameters {
            let given = || args.sizes().iter().map(|size| usize::from(*size));
            if !given().eq(parameters.iter().copied()) {
                return Err(format!(
                    "the kernel has {}, but the launch passes {}",
                    list(parameters.iter(), "parameter"),
                    list(given(), "argument")
                ));
            }
        }
        self.accepted.store(args.signature(), Ordering::Relaxed);
        Ok(())
    }
}

/// The number of `sizes`, the name `thing`, and the sizes in bytes, as text for a message:
/// `2 arguments of 8, 4 bytes`.
fn list<T: Display>(sizes: impl ExactSizeIterator<Item = T>, thing: &str) -> String {
    let count = sizes.len();
    let sizes = sizes.map(|size| size.to_string()).collect::<Vec<_>>().join(", ");
    match count {
        0 => format!("no {thing}s"),
        1 => format!("1 {thing} of {sizes} bytes"),
        _ => format!("{count} {thing}s of {sizes} bytes"),
    }
}
