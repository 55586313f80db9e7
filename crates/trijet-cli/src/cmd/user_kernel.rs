//! A user's own kernel: its file, its entry point and its arguments.
//!
//! This is the only unsafe code of the command. Users who name a kernel on the command line are
//! responsible for it, as for any program that they run.

use crate::args::{KernelArg, Scalar};
use std::borrow::Cow;
use std::path::Path;
use trijet::kernels::{ArgBlock, Code, Dynamic, KernelSpec, Shape};
use trijet::{Args, Element, Error, ErrorKind, Kernel, Result, Stream, View, ViewMut};
use trijet_cli::digest::Digest;

/// Checks that the first arguments are a span that the kernel reads and a span that it writes.
fn one_in_one_out(args: &ArgBlock) -> std::result::Result<(), String> {
    let spans: Vec<_> = args.spans().iter().map(|arg| (arg.index, arg.mode.writes())).collect();
    if spans == [(0, false), (2, true)] {
        return Ok(());
    }
    Err("the arguments must begin with one span to read and one span to write".to_owned())
}

/// A kernel from a file.
#[derive(Debug)]
pub(super) struct UserKernel {
    kernel: Kernel<Dynamic>,
    args: Vec<KernelArg>,
    /// A description of everything that the result depends on, for the journal.
    pub(super) description: String,
}

impl UserKernel {
    pub(super) fn read(path: &Path, entry: &str, args: &[KernelArg]) -> Result<Self> {
        let name = path.display();
        let bytes = std::fs::read(path).map_err(|e| {
            Error::new(ErrorKind::Io, "kernel", format!("{name}: {e}")).caused_by(e)
        })?;
        let digest = Digest::of(&bytes).value();
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| {
                Error::new(ErrorKind::Compile, "kernel", format!("{name} is not UTF-8 text"))
            })
        };
        let code = match path.extension().and_then(|e| e.to_str()) {
            Some("cu") => Code::Source(text(bytes)?),
            Some("ptx") => Code::Ptx(text(bytes)?),
            Some("cubin") => Code::Cubin(Cow::Owned(bytes)),
            _ => {
                let cause = format!("{name}: unknown extension; use .cu, .ptx or .cubin");
                return Err(Error::new(ErrorKind::InvalidValue, "kernel", cause));
            }
        };
        let shape = Shape::Elements { per_thread: 1 };
        let spec = KernelSpec::with_name(entry.to_owned(), code, shape).check(one_in_one_out);
        // SAFETY: the user is responsible for a kernel with the parameters that the help describes,
        // which stays within the given lengths.
        let kernel = unsafe { Kernel::declare(spec) };
        let listed: Vec<_> = args.iter().map(|a| format!("{}={}", a.name, a.value)).collect();
        let description =
            format!("kernel {entry} {digest:016x} {}", listed.join(" ")).trim_end().to_owned();
        Ok(Self { kernel, args: args.to_vec(), description })
    }

    /// Loads the kernel, so that its errors are reported before anything is written.
    pub(super) fn load(&self, device: &trijet::Device) -> Result<()> {
        device.load(&self.kernel)
    }

    /// Enqueues the kernel for one chunk. With a halo, `frame` holds the length of a row and the
    /// number of rows before the chunk.
    pub(super) fn launch<T: Element>(
        &self,
        stream: &Stream,
        x: View<'_, T>,
        y: ViewMut<'_, T>,
        frame: Option<(u64, u64)>,
    ) -> Result<()> {
        let mut args = Args::new().read(x)?.write(y)?;
        if let Some((row_len, rows_before)) = frame {
            args = args.scalar(row_len)?.scalar(rows_before)?;
        }
        for arg in &self.args {
            args = match arg.value {
                Scalar::F32(v) => args.scalar(v)?,
                Scalar::F64(v) => args.scalar(v)?,
                Scalar::I32(v) => args.scalar(v)?,
                Scalar::I64(v) => args.scalar(v)?,
                Scalar::U32(v) => args.scalar(v)?,
                Scalar::U64(v) => args.scalar(v)?,
            };
        }
        stream.launch(&self.kernel, args)
    }
}
