//! A user's own kernel: its file, its entry point and its arguments.
//!
//! The code is compiled before a device is opened, so its errors are reported even without a GPU.
//!
//! Only this file of the command has unsafe code. Users who name a kernel on the command line are
//! responsible for it, as for any program that they run.

use crate::values::{KernelArg, Scalar};
use std::borrow::Cow;
use std::path::Path;
use trijet::kernels::{ArgBlock, Code, Dynamic, KernelSpec, Shape};
use trijet::{Args, Device, Element, Error, ErrorKind, Kernel, Result, Stream, View, ViewMut};
use trijet_cli::digest::Digest;
use trijet_io::{Dtype, file_error, shown};

/// Checks that the first arguments are a span that the kernel reads and a span that it writes.
fn one_in_one_out(args: &ArgBlock) -> std::result::Result<(), String> {
    let spans: Vec<_> = args.spans().iter().map(|arg| (arg.index, arg.mode.writes())).collect();
    if spans == [(0, false), (2, true)] {
        return Ok(());
    }
    Err("the arguments must begin with one span to read and one span to write".to_owned())
}

/// The compute capability for which the code is compiled as a check, before a device is opened.
/// After a device is opened, the code is compiled for the device.
const FIRST_COMPUTE: (u32, u32) = (9, 0);

/// The result of the check of a kernel's code before a device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    /// CUDA C++ that compiles and has the kernel.
    Compiled,
    /// PTX, or a complete binary, in which the kernel was found. The entries of a fatbin are not
    /// known, so a fatbin may lack the kernel.
    Found,
    /// Not checked, because there is no run-time compiler.
    No,
}

/// A kernel from a file.
#[derive(Debug)]
pub(super) struct UserKernel {
    file: String,
    checked: Checked,
    kernel: Kernel<Dynamic>,
    args: Vec<KernelArg>,
    /// A description of everything that the result depends on, for the journal.
    pub(super) description: String,
}

/// The type of the elements in CUDA C++.
fn element(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::U8 => "unsigned char",
        Dtype::U16 => "unsigned short",
        Dtype::U32 => "unsigned int",
        Dtype::I32 => "int",
        Dtype::U64 => "unsigned long long",
        Dtype::I64 => "long long",
        Dtype::F16 => "__half",
        Dtype::F32 => "float",
        Dtype::F64 => "double",
        Dtype::BF16 => "__nv_bfloat16",
    }
}

/// The source, after a line that defines `TRIJET_T` as the type of the elements. The line numbers
/// of the source do not change.
fn for_elements(dtype: Dtype, source: &str) -> String {
    format!("#define TRIJET_T {}\n#line 1\n{source}", element(dtype))
}

/// The parameters of a kernel as `trijet map` passes them: each with its declaration in CUDA C++
/// and its size in bytes.
fn parameters(dtype: Dtype, has_halo: bool, args: &[KernelArg]) -> Vec<(String, usize)> {
    let t = element(dtype);
    let mut list = vec![
        (format!("const {t}* x"), 8),
        ("unsigned long long x_len".to_owned(), 8),
        (format!("{t}* y"), 8),
        ("unsigned long long y_len".to_owned(), 8),
    ];
    if has_halo {
        list.extend(
            ["row_len", "rows_before"].map(|name| (format!("unsigned long long {name}"), 8)),
        );
    }
    for arg in args {
        let (kind, bytes) = match arg.value {
            Scalar::F32(_) => ("float", 4),
            Scalar::F64(_) => ("double", 8),
            Scalar::I32(_) => ("int", 4),
            Scalar::I64(_) => ("long long", 8),
            Scalar::U32(_) => ("unsigned int", 4),
            Scalar::U64(_) => ("unsigned long long", 8),
        };
        list.push((format!("{kind} {}", arg.name), bytes));
    }
    list
}

impl UserKernel {
    /// Reads a kernel from a file. The kernel must be for elements of the type `dtype`.
    pub(super) fn read(path: &Path, entry: &str, args: &[KernelArg], dtype: Dtype) -> Result<Self> {
        let name = shown(path);
        let bytes = std::fs::read(path).map_err(|error| file_error::io("kernel", path, error))?;
        let digest = Digest::of(&bytes).value();
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).map_err(|_| {
                Error::new(ErrorKind::Compile, "kernel", format!("{name} is not UTF-8 text"))
            })
        };
        let code = match path.extension().and_then(|e| e.to_str()) {
            Some("cu") => Code::Source(for_elements(dtype, &text(bytes)?).into()),
            Some("ptx") => Code::Ptx(text(bytes)?.into()),
            Some("cubin") => Code::Cubin(Cow::Owned(bytes)),
            _ => {
                let cause = format!("{name}: unknown extension; use .cu, .ptx or .cubin");
                return Err(Error::new(ErrorKind::InvalidValue, "kernel", cause));
            }
        };
        let is_source = matches!(code, Code::Source(_));
        let shape = Shape::Elements { per_thread: 1 };
        let file = name.to_string();
        let spec = KernelSpec::with_name(entry.to_owned(), code, shape).file(file.clone());
        let spec = spec.check(one_in_one_out);
        let checked = match spec.check_code(FIRST_COMPUTE) {
            Ok(()) if is_source => Checked::Compiled,
            Ok(()) => Checked::Found,
            Err(error) if error.kind() == ErrorKind::Unsupported => Checked::No,
            Err(error) => return Err(error),
        };
        // SAFETY: the user is responsible for the kernel. It must have the parameters that the help
        // describes, and must access no element outside of the given lengths.
        let kernel = unsafe { Kernel::declare(spec) };
        let listed: Vec<_> = args.iter().map(|a| format!("{}={}", a.name, a.value)).collect();
        let description =
            format!("kernel {entry} {digest:016x} {}", listed.join(" ")).trim_end().to_owned();
        Ok(Self { file, checked, kernel, args: args.to_vec(), description })
    }

    /// Loads the kernel and compares its parameters, so that errors are reported before anything is
    /// written.
    pub(super) fn load(&self, device: &Device, dtype: Dtype, has_halo: bool) -> Result<()> {
        if device.info().compute.0 == 0 {
            return Err(Error::new(ErrorKind::NoDevice, "kernel", self.needs_gpu()));
        }
        let Some(found) = device.parameters(&self.kernel)? else { return Ok(()) };
        let expected = parameters(dtype, has_halo, &self.args);
        if expected.iter().map(|parameter| parameter.1).eq(found.iter().copied()) {
            return Ok(());
        }
        let list: Vec<&str> = expected.iter().map(|parameter| parameter.0.as_str()).collect();
        let sizes: Vec<String> = found.iter().map(ToString::to_string).collect();
        let cause = format!(
            "{}: expected `{name}({})`, which has {} parameters, but `{name}` has {} ({} bytes)",
            self.file,
            list.join(", "),
            list.len(),
            sizes.len(),
            sizes.join(", "),
            name = self.kernel.name(),
        );
        Err(Error::new(ErrorKind::InvalidValue, "kernel", cause))
    }

    /// Whether the code was checked, and found correct, before a device was opened.
    pub(super) fn is_checked(&self) -> bool {
        self.checked != Checked::No
    }

    /// The result of the check of the code, for a message on a host without a GPU.
    pub(super) fn needs_gpu(&self) -> String {
        let (file, (major, minor)) = (&self.file, FIRST_COMPUTE);
        let known = match self.checked {
            Checked::Compiled => {
                format!("{file} compiles for compute capability {major}.{minor}")
            }
            Checked::Found => format!("{file} has the kernel `{}`", self.kernel.name()),
            Checked::No => format!("{file}: no run-time compiler was found to compile it"),
        };
        format!("{known}; a GPU is needed to run the kernel, but none was found")
    }

    /// Enqueues the kernel for one chunk. `frame` is for kernels with a halo: the number of
    /// elements of a row, and the number of rows of the input before the chunk.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of the compiler have the line numbers of the file.
    #[test]
    fn the_type_of_the_elements_is_defined_before_the_first_line() {
        let source = |dtype| for_elements(dtype, "typedef TRIJET_T T;");
        let text = "#define TRIJET_T unsigned char\n#line 1\ntypedef TRIJET_T T;";
        assert_eq!(source(Dtype::U8), text);
        assert!(source(Dtype::U16).starts_with("#define TRIJET_T unsigned short\n"));
        assert!(source(Dtype::F32).starts_with("#define TRIJET_T float\n"));
    }
}
