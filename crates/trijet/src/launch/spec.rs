//! The declaration of a kernel: its code, its shape, the check of its arguments, its twin.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::device::LaunchConfig;
use crate::device::args::ArgBlock;
use crate::device::code::Code;
use crate::device::ptx::WaitProof;
use crate::device::twin::Twin;
use crate::device::{image, ptx};
use std::borrow::Cow;
use std::fmt;

/// How exactly the results of the kernel and its twin agree.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Exactness {
    /// The results are equal bit for bit.
    Exact,
    /// The results are equal up to this relative tolerance.
    Relative(f64),
}

/// A check of the arguments of a launch. The text of a refusal states what is wrong with the
/// arguments.
pub type CheckArgs = fn(&ArgBlock) -> std::result::Result<(), String>;

/// The origin of the configuration of a launch.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Shape {
    /// One thread for `per_thread` elements of the longest written span, in blocks of 256 threads.
    Elements {
        /// The number of elements per thread.
        per_thread: u32,
    },
    /// This function computes the configuration from the arguments.
    Computed(fn(&ArgBlock) -> Result<LaunchConfig>),
    /// The caller passes the configuration to [`Stream::launch_with`](crate::Stream::launch_with).
    /// This function refuses a configuration if the kernel is not correct with this configuration
    /// and these arguments. The text of the refusal is the reason.
    Given(fn(&ArgBlock, &LaunchConfig) -> std::result::Result<(), String>),
}

/// The declaration of a kernel.
#[derive(Clone)]
pub struct KernelSpec {
    pub(super) name: Cow<'static, str>,
    pub(super) file: Option<String>,
    pub(super) code: Code,
    pub(super) shape: Shape,
    pub(super) shared_bytes_max: u32,
    pub(super) check: CheckArgs,
    pub(super) twin: Option<Twin>,
    pub(super) exactness: Exactness,
    pub(super) wait: WaitProof,
}

impl KernelSpec {
    /// A kernel with the entry point `name` in `code`. It accepts arguments of any lengths, has no
    /// twin, and uses no dynamic shared memory.
    #[must_use]
    pub const fn new(name: &'static str, code: Code, shape: Shape) -> Self {
        Self::of(Cow::Borrowed(name), code, shape)
    }

    /// The same declaration as [`KernelSpec::new`], with a name that is known only at run time.
    #[must_use]
    pub const fn with_name(name: String, code: Code, shape: Shape) -> Self {
        Self::of(Cow::Owned(name), code, shape)
    }

    const fn of(name: Cow<'static, str>, code: Code, shape: Shape) -> Self {
        Self {
            name,
            file: None,
            code,
            shape,
            shared_bytes_max: 0,
            check: any_lengths,
            twin: None,
            exactness: Exactness::Exact,
            wait: WaitProof::Ptx,
        }
    }

    /// Sets the name of the file that the code was read from. Messages show this name.
    #[must_use]
    pub fn file(mut self, name: String) -> Self {
        self.file = Some(name);
        self
    }

    /// Checks the code without a device. CUDA C++ must compile for the compute capability
    /// `compute`, a binary must be complete, and the code must have the entry. The entries of a
    /// fatbin are not known, so they are not checked.
    ///
    /// # Errors
    /// `Unsupported` without the run-time compiler; `Compile` with the messages of the compiler,
    /// which name lines of the source, or with the damage of a binary; `NotFound` with the entries
    /// that the code has.
    pub fn check_code(&self, compute: (u32, u32)) -> Result<()> {
        match self.entries(compute)? {
            Some(names) if !names.iter().any(|entry| *entry == self.name) => {
                Err(self.absent(&names))
            }
            _ => Ok(()),
        }
    }

    /// The names of the entry points of the code; `None` if the names cannot be read from the code.
    pub(super) fn entries(&self, compute: (u32, u32)) -> Result<Option<Vec<String>>> {
        let names = |text: &str| {
            let module = ptx::scan(text);
            Some(module.entries().iter().map(|entry| entry.name().to_owned()).collect())
        };
        match &self.code {
            Code::Source(source) => {
                Ok(names(&crate::device::compile(source, &self.file_name(), compute)?))
            }
            Code::Ptx(text) => Ok(names(text)),
            Code::Cubin(bytes) => image::entries(bytes).map_err(|why| {
                let cause = format!("{}: {why}", self.file_name());
                Error::new(ErrorKind::Compile, "load", cause)
            }),
        }
    }

    /// The name of the file with the code. Without a file, the name is made from the name of the
    /// kernel.
    pub(super) fn file_name(&self) -> String {
        let extension = match self.code {
            Code::Ptx(_) => "ptx",
            Code::Cubin(_) => "cubin",
            Code::Source(_) => "cu",
        };
        self.file.clone().unwrap_or_else(|| format!("{}.{extension}", self.name))
    }

    /// The error for code that has these entries and lacks the entry of the kernel.
    #[cold]
    pub(super) fn absent(&self, entries: &[String]) -> Error {
        let names: Vec<String> = entries.iter().map(|entry| format!("`{entry}`")).collect();
        let found = match &names[..] {
            [] => "it has no `extern \"C\" __global__` function".to_owned(),
            [one] => format!("its only kernel is {one}"),
            _ => format!("its kernels are {}", names.join(", ")),
        };
        let cause = format!("{} has no kernel `{}`: {found}", self.file_name(), self.name);
        Error::new(ErrorKind::NotFound, "load", cause)
    }

    /// Refuses launches whose arguments `check` refuses.
    #[must_use]
    pub const fn check(mut self, check: CheckArgs) -> Self {
        self.check = check;
        self
    }

    /// Runs `twin` on the host device. A kernel without a twin needs a GPU.
    #[must_use]
    pub const fn twin(mut self, twin: Twin) -> Self {
        self.twin = Some(twin);
        self
    }

    /// States how exactly the kernel and its twin agree. The default is [`Exactness::Exact`].
    #[must_use]
    pub const fn exactness(mut self, exactness: Exactness) -> Self {
        self.exactness = exactness;
        self
    }

    /// Allows launches with up to `bytes` of dynamic shared memory for each block. For more than 48
    /// KiB, this sets the opt-in attribute of the kernel in the driver.
    #[must_use]
    pub const fn shared_bytes_max(mut self, bytes: u32) -> Self {
        self.shared_bytes_max = bytes;
        self
    }

    /// Promises that a [dependent](LaunchConfig::dependent) launch of the kernel is correct,
    /// although [`lint`](crate::kernels::lint) finds a use of memory before its
    /// `griddepcontrol.wait`, or a path without a wait. The use is correct if no kernel writes the
    /// memory, or if barriers order the use after the wait of another thread. The path is correct
    /// if no thread takes it. Without the promise, such a launch is refused. The promise is a part
    /// of the contract of [`Kernel::declare`](crate::Kernel::declare).
    #[must_use]
    pub const fn trust_wait(mut self) -> Self {
        self.wait = WaitProof::Promise;
        self
    }
}

impl fmt::Debug for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The code may have thousands of lines.
        f.debug_struct("KernelSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Accepts any arguments.
///
/// # Errors
/// Never.
pub fn any_lengths(_: &ArgBlock) -> std::result::Result<(), String> {
    Ok(())
}

/// Accepts arguments whose spans all have the same number of elements.
///
/// # Errors
/// The two lengths that differ, as text.
pub fn equal_lengths(args: &ArgBlock) -> std::result::Result<(), String> {
    let mut lengths = args.spans().iter().map(|arg| arg.elements);
    let Some(first) = lengths.next() else { return Ok(()) };
    match lengths.find(|length| *length != first) {
        Some(other) => Err(differ(first, other)),
        None => Ok(()),
    }
}

#[cold]
fn differ(first: u64, other: u64) -> String {
    format!("the spans have {first} and {other} elements; they must have the same number")
}
