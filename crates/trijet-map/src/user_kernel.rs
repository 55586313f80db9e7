//! A user's own kernel: its file, its entry point and its arguments.
//!
//! The code is compiled before a device is opened, so its errors are reported even without a GPU.
//!
//! Only this file of the crate has unsafe code. Users who name a kernel are responsible for it, as
//! for any program that they run.

use crate::kernel_arg::{KernelArg, Scalar};
use crate::row_ratio::RowRatio;
use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;
use trijet::kernels::{ArgBlock, Code, Dynamic, KernelSpec, Shape};
use trijet::{Args, Device, Element, Error, ErrorKind, Kernel, Result, Stream, View, ViewMut};
use trijet_io::{Dtype, file_error, shown};
use trijet_ops::{Operation, RowsOfCall, Typed};
use xxhash_rust::xxh3::xxh3_64;

/// A kernel of the user in a file, with its options.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelFile {
    /// The file: CUDA C++ (`.cu`), PTX (`.ptx`) or a cubin (`.cubin`).
    pub file: PathBuf,
    /// The text of the file, for a file that exists only in the program. Its name is then used in
    /// messages.
    pub source: Option<String>,
    /// The name of the kernel in the file.
    pub entry: String,
    /// The further arguments of the kernel, in their order.
    pub args: Vec<KernelArg>,
    /// The number of rows that the kernel reads before and after the rows that it writes. `None`
    /// for a kernel that computes each element from one element.
    pub halo: Option<u64>,
    /// The type of the elements of the output, if it is not the type of the input.
    pub out_dtype: Option<Dtype>,
    /// The rows of the output, if they are not the rows of the input.
    pub out_rows: Option<RowRatio>,
}

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
pub(crate) struct UserKernel {
    file: String,
    checked: Checked,
    kernel: Kernel<Dynamic>,
    args: Vec<KernelArg>,
    /// The types of the elements of the input and of the output.
    types: ElementTypes,
    /// The number of rows before and after its own rows that the kernel reads. `None` if the kernel
    /// does not know the rows.
    halo: Option<u64>,
    rows: RowRatio,
    description: String,
}

/// The types of the elements of the input and of the output.
#[derive(Debug, Clone, Copy)]
struct ElementTypes {
    x: Dtype,
    y: Dtype,
}

/// The type of the elements in CUDA C++.
fn element(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::U8 => "unsigned char",
        Dtype::I8 => "signed char",
        Dtype::U16 => "unsigned short",
        Dtype::I16 => "short",
        Dtype::U32 => "unsigned int",
        Dtype::I32 => "int",
        Dtype::U64 => "unsigned long long",
        Dtype::I64 => "long long",
        Dtype::F16 => "trijet_f16",
        Dtype::BF16 => "trijet_bf16",
        Dtype::F32 => "float",
        Dtype::F64 => "double",
        Dtype::C64 => "float2",
        Dtype::C128 => "double2",
    }
}

/// The types of the elements f16 and bf16. The compiler has no such types, and it has no headers
/// that define them.
const HALVES: &str = include_str!("template/half.cuh");

/// The source, after lines that define `TRIJET_T` as the type of the elements of the input, and
/// `TRIJET_U` as the type of the elements of the output. The line numbers of the source do not
/// change.
fn for_elements(types: ElementTypes, source: &str) -> String {
    let (t, u) = (element(types.x), element(types.y));
    let is_half = |dtype| matches!(dtype, Dtype::F16 | Dtype::BF16);
    let halves = if is_half(types.x) || is_half(types.y) { HALVES } else { "" };
    format!("{halves}#define TRIJET_T {t}\n#define TRIJET_U {u}\n#line 1\n{source}")
}

/// The parameters of a kernel as `trijet map` passes them: each with its declaration in CUDA C++
/// and its size in bytes.
fn parameters(types: ElementTypes, has_rows: bool, args: &[KernelArg]) -> Vec<(String, usize)> {
    let mut list = vec![
        (format!("const {}* x", element(types.x)), 8),
        ("unsigned long long x_len".to_owned(), 8),
        (format!("{}* y", element(types.y)), 8),
        ("unsigned long long y_len".to_owned(), 8),
    ];
    if has_rows {
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
    /// Reads a kernel from its file. The kernel must be for elements of the type `dtype`.
    pub(crate) fn read(step: &KernelFile, dtype: Dtype) -> Result<Self> {
        let KernelFile { file: path, source, entry, args, halo, out_dtype, out_rows } = step;
        let types = ElementTypes { x: dtype, y: out_dtype.unwrap_or(dtype) };
        let rows = out_rows.unwrap_or_default();
        let name = shown(path);
        let bytes = match source {
            Some(source) => source.clone().into_bytes(),
            None => std::fs::read(path).map_err(|error| file_error::io("kernel", path, error))?,
        };
        let digest = xxh3_64(&bytes);
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).map_err(|_| {
                Error::new(ErrorKind::Compile, "kernel", format!("{name} is not UTF-8 text"))
            })
        };
        let code = match path.extension().and_then(|e| e.to_str()) {
            Some("cu") => Code::Source(for_elements(types, &text(bytes)?).into()),
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
        // A kernel whose output has other rows must know the rows.
        let halo = if rows.is_same() { *halo } else { Some(halo.unwrap_or(0)) };
        let (args, description) = (args.clone(), description_of(description, step));
        Ok(Self { file, checked, kernel, args, types, halo, rows, description })
    }

    /// Compares the parameters of the kernel with the expected ones.
    fn check_parameters(&self, device: &Device) -> Result<()> {
        let Some(found) = device.parameters(&self.kernel)? else { return Ok(()) };
        let expected = parameters(self.types, self.halo.is_some(), &self.args);
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
    pub(crate) fn is_checked(&self) -> bool {
        self.checked != Checked::No
    }

    /// The result of the check of the code, for a message on a host without a GPU.
    pub(crate) fn needs_gpu(&self) -> String {
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

    /// Enqueues the kernel for one chunk. `T` and `U` have the sizes of the elements.
    fn launch<T: Element, U: Element>(&self, call: KernelCall<'_>) -> Result<()> {
        let KernelCall { stream, x, y, row_len, rows_before } = call;
        let mut args = Args::new().read(x.cast::<T>()?)?.write(y.cast::<U>()?)?;
        if self.halo.is_some() {
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

    /// Enqueues the kernel for one chunk, with elements of the input of the size of `T`.
    fn launch_from<T: Element>(&self, call: KernelCall<'_>) -> Result<()> {
        match self.types.y.bytes() {
            1 => self.launch::<T, u8>(call),
            2 => self.launch::<T, u16>(call),
            4 => self.launch::<T, u32>(call),
            8 => self.launch::<T, u64>(call),
            _ => self.launch::<T, [u64; 2]>(call),
        }
    }
}

/// The arguments of a kernel for one chunk.
struct KernelCall<'a> {
    stream: &'a Stream,
    x: View<'a, u8>,
    y: ViewMut<'a, u8>,
    /// The number of elements of a row.
    row_len: u64,
    /// The number of rows of the input before the rows that belong to the first row of the output.
    rows_before: u64,
}

/// The description of a kernel with the options that change its result.
fn description_of(mut description: String, step: &KernelFile) -> String {
    if let Some(halo) = step.halo {
        description.push_str(&format!(" halo={halo}"));
    }
    if let Some(dtype) = step.out_dtype {
        description.push_str(&format!(" out-dtype={dtype}"));
    }
    if let Some(rows) = step.out_rows {
        description.push_str(&format!(" out-rows={rows}"));
    }
    description
}

impl Operation for UserKernel {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        let mut shape = x.shape.clone();
        let place = shape.len().saturating_sub(2);
        if let Some(height) = shape.get_mut(place)
            && !self.rows.is_same()
        {
            let rows = self.rows;
            *height = rows.output(*height).ok_or_else(|| {
                let cause =
                    format!("--out-rows {rows} does not divide the {height} rows of an image");
                Error::new(ErrorKind::InvalidValue, "kernel", cause)
            })?;
        }
        Ok(Typed::new(self.types.y, shape))
    }

    fn input_rows(&self, _: &Typed, y: Range<u64>) -> Range<u64> {
        let (own, halo) = (self.rows.input_rows(&y), self.halo.unwrap_or(0));
        own.start.saturating_sub(halo)..own.end.saturating_add(halo)
    }

    fn granule(&self, _: &Typed) -> u64 {
        self.rows.granule()
    }

    /// Loads the kernel and compares its parameters, so that errors are reported before anything is
    /// written.
    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        if device.info().compute.0 == 0 {
            return Err(Error::new(ErrorKind::NoDevice, "kernel", self.needs_gpu()));
        }
        self.check_parameters(device)
    }

    fn enqueue(
        &self,
        stream: &Stream,
        array: &Typed,
        rows: &RowsOfCall,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let row_len = array.stack()?.width;
        let rows_before = self.rows.input_rows(&rows.y).start.saturating_sub(rows.x.start);
        let call = KernelCall { stream, x, y, row_len, rows_before };
        match self.types.x.bytes() {
            1 => self.launch_from::<u8>(call),
            2 => self.launch_from::<u16>(call),
            4 => self.launch_from::<u32>(call),
            8 => self.launch_from::<u64>(call),
            _ => self.launch_from::<[u64; 2]>(call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of the compiler have the line numbers of the file.
    #[test]
    fn the_type_of_the_elements_is_defined_before_the_first_line() {
        let source = |x, y| for_elements(ElementTypes { x, y }, "typedef TRIJET_T T;");
        let text = "#define TRIJET_T unsigned char\n#define TRIJET_U float\n#line 1\ntypedef \
                    TRIJET_T T;";
        assert_eq!(source(Dtype::U8, Dtype::F32), text);
        let text = source(Dtype::U16, Dtype::U16);
        assert!(text.starts_with("#define TRIJET_T unsigned short\n"), "{text}");
        assert!(source(Dtype::C128, Dtype::C128).starts_with("#define TRIJET_T double2\n"));
        for (dtype, name) in [(Dtype::F16, "trijet_f16"), (Dtype::BF16, "trijet_bf16")] {
            for (source, letter) in
                [(source(dtype, Dtype::U8), 'T'), (source(Dtype::U8, dtype), 'U')]
            {
                let defined = format!("struct {name} {{");
                assert!(source.contains(&defined), "{source}");
                assert!(source.contains(&format!("#define TRIJET_{letter} {name}\n")), "{source}");
            }
        }
    }
}
