//! A kernel: declared once, loaded once per device, launched with checked arguments.
//!
//! The declaration is the only `unsafe` a user writes: it vouches that the code has these
//! parameters, touches only the bytes it is given and only in the declared way, and that the twin
//! computes the same.

use super::args::{Args, ArgsFor};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::{HostCall, OpKind};
use crate::device::args::ArgBlock;
use crate::device::driver::{Action, FunctionHandle, Image, Launch, ModuleHandle};
use crate::device::twin::Twin;
use crate::log::calling;
use crate::stream::shared::Shared;
use crate::stream::{Device, Stream};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The code of a kernel.
#[derive(Debug, Clone)]
pub enum Code {
    /// PTX, compiled by the driver.
    Ptx(Cow<'static, str>),
    /// A cubin or fatbin.
    Cubin(Cow<'static, [u8]>),
    /// CUDA C++, compiled by the run-time compiler, which must be installed.
    Source(Cow<'static, str>),
}

/// How exactly the kernel and its twin agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Exactness {
    /// Bit for bit.
    Exact,
    /// To this relative tolerance.
    Relative(f64),
}

/// The shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
}

/// How the shape follows from the arguments.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// One thread for `per_thread` elements of the longest written span, in blocks of 256.
    Elements {
        /// Elements of one thread.
        per_thread: u32,
    },
    /// As the function says.
    Computed(fn(&ArgBlock) -> Result<Grid>),
}

/// Everything a declaration says.
#[derive(Debug, Clone)]
pub struct KernelSpec {
    /// The name of the entry point.
    pub name: Cow<'static, str>,
    /// The code.
    pub code: Code,
    /// How the shape follows from the arguments.
    pub shape: Shape,
    /// The most dynamic shared memory that a launch asks for.
    pub shared_bytes_max: u32,
    /// What the arguments must satisfy; the text says what they do not.
    pub check: fn(&ArgBlock) -> std::result::Result<(), String>,
    /// The host side, if it has one.
    pub twin: Option<Twin>,
    /// How exactly the two agree.
    pub exactness: Exactness,
}

/// A kernel with parameters `P`, a tuple of scalars and [`super::In`], [`super::Out`],
/// [`super::InOut`].
///
/// ```
/// use trijet::kernels::AXPY;
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// let (mut x, mut y) = (device.pinned::<f32>(3)?, device.pinned::<f32>(3)?);
/// x.write()?.copy_from_slice(&[1.0, 2.0, 3.0]);
/// y.write()?.copy_from_slice(&[10.0, 20.0, 30.0]);
/// s.launch(&AXPY, (2.0, &x, &mut y))?;
/// assert_eq!(&*y.read()?, &[12.0, 24.0, 36.0]);
/// # Ok::<(), trijet::Error>(())
/// ```
pub struct Kernel<P> {
    code: Untyped,
    params: PhantomData<fn(P)>,
}

/// A kernel without the types of its parameters: what a launch does once they are collected.
struct Untyped {
    spec: KernelSpec,
    number: OnceLock<usize>,
}

impl<P> fmt::Debug for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("name", &self.code.spec.name).finish_non_exhaustive()
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
/// The two lengths that differ.
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
    format!("spans of {first} and {other} elements; equal ones are needed")
}

impl<P> Kernel<P> {
    /// Declares a kernel.
    ///
    /// # Safety
    /// The entry point has exactly the parameters `P`, each span as a pointer followed by a
    /// 64-bit length in elements; it touches no bytes outside its spans, writes none of an
    /// [`super::In`], and is correct for every launch that `check` and `shape` let through.
    ///
    /// With the parameters [`super::Dynamic`] safe code may launch it with any list of arguments:
    /// of any number and order, with scalars of any value, of which one may be an address, and with
    /// any spans, read or written. The entry point must then keep to the above for every list that
    /// `check` accepts, so `check` has to refuse every list in which a scalar stands where a span is
    /// expected, a span is only read that the kernel writes, or an argument is missing: see
    /// [`ArgBlock::count`] and [`ArgBlock::spans`], with the place and the mode of each span.
    #[must_use]
    pub const unsafe fn declare(spec: KernelSpec) -> Self {
        let number = OnceLock::new();
        Self { code: Untyped { spec, number }, params: PhantomData }
    }

    /// The name of the entry point.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.code.spec.name
    }

    /// Its code, for other programs that want to launch it.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.code.spec.code
    }

    /// How exactly the kernel and its twin agree.
    #[must_use]
    pub fn exactness(&self) -> Exactness {
        self.code.spec.exactness
    }
}

impl Untyped {
    fn number(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        *self.number.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed))
    }

    #[inline]
    fn loaded(&self, device: &Shared, site: &'static Location<'static>) -> Result<FunctionHandle> {
        match device.kernels.get(self.number()) {
            Some(function) => Ok(*function),
            None => self.load(device, site).map_err(|error| device.failed(error)),
        }
    }

    #[cold]
    fn load(&self, device: &Shared, site: &'static Location<'static>) -> Result<FunctionHandle> {
        let begun = device.domain.log().begin_call();
        let module = self.module(device)?;
        let spec = &self.spec;
        let function = device.domain.driver().function(
            module,
            &spec.name,
            spec.shared_bytes_max,
            spec.twin,
        )?;
        device.kernels.set(self.number(), function);
        if let Some(begun) = begun {
            let kind = OpKind::Call(HostCall::Load);
            device.domain.log().note_call(begun, kind, device.id, |op| {
                op.label = Cow::Owned(spec.name.to_string());
                op.site = Some(site.into());
            });
        }
        Ok(function)
    }

    /// The module of the code; kernels that share a static text share it.
    fn module(&self, device: &Shared) -> Result<ModuleHandle> {
        let key = match &self.spec.code {
            Code::Ptx(Cow::Borrowed(text)) => text.as_ptr() as u64,
            // Addresses are far above the numbers of kernels.
            _ => self.number() as u64,
        };
        let mut modules = device.modules.lock().expect("no panic under this lock");
        if let Some(module) = modules.get(&key) {
            return Ok(*module);
        }
        let label = format!("module of `{}`", self.spec.name);
        let load = |image| device.domain.driver().module_load(device.id, &label, image);
        let module = match &self.spec.code {
            Code::Ptx(text) => load(Image::Ptx(text))?,
            Code::Cubin(bytes) => load(Image::Cubin(bytes))?,
            Code::Source(source) if device.info.compute.0 > 0 => {
                let name = format!("{}.cu", self.spec.name);
                load(Image::Ptx(&crate::device::compile(source, &name, device.info.compute)?))?
            }
            // Only its twin, if any, runs on the host device.
            Code::Source(source) => load(Image::Ptx(source))?,
        };
        modules.insert(key, module);
        Ok(module)
    }

    fn grid(&self, args: &ArgBlock) -> Result<Grid> {
        const THREADS: u32 = 256;
        let per_thread = match self.spec.shape {
            Shape::Elements { per_thread } => per_thread,
            Shape::Computed(shape) => return shape(args),
        };
        let written = args.spans().iter().filter(|arg| arg.mode.writes());
        let longest = written.map(|arg| arg.elements).max().unwrap_or(0);
        // Dividing by what need not be a power of two costs as much as half a launch.
        let blocks = match per_thread {
            0 | 1 => longest.div_ceil(u64::from(THREADS)),
            more => longest.div_ceil(u64::from(THREADS) * u64::from(more)),
        };
        match i32::try_from(blocks) {
            Ok(blocks) => {
                let grid = [blocks.cast_unsigned(), 1, 1];
                Ok(Grid { grid, block: [THREADS, 1, 1], shared_bytes: 0 })
            }
            Err(_) => {
                let name = &self.spec.name;
                let cause = format!("`{name}` over {longest} elements has too many blocks");
                Err(Error::new(ErrorKind::InvalidValue, "launch", cause))
            }
        }
    }

    #[cold]
    fn refused(&self, why: &str) -> Error {
        let cause = format!("`{}`: {why}", self.spec.name);
        Error::new(ErrorKind::InvalidValue, "launch", cause)
    }
}

impl Device {
    /// Loads a kernel now. The first use of one can hold back every stream until running work
    /// ends (law A42), so load before a pipeline starts.
    ///
    /// # Errors
    /// `Compile`, `NotFound`, `NoTwin`, or `Unsupported` without a compiler.
    #[track_caller]
    pub fn load<P>(&self, kernel: &Kernel<P>) -> Result<()> {
        calling::refuse("load")?;
        kernel.code.loaded(self.shared(), Location::caller()).map(|_| ())
    }
}

impl Stream {
    /// Launches a kernel. The shape follows from the arguments; a launch over no elements does
    /// nothing.
    ///
    /// # Errors
    /// `InvalidValue` for arguments that the kernel's declaration refuses, by name, before the
    /// driver is called; `NoTwin` on the host device; what the driver reports.
    #[track_caller]
    pub fn launch<'a, P, A: ArgsFor<'a, P>>(&self, kernel: &Kernel<P>, args: A) -> Result<()> {
        calling::refuse("launch")?;
        let mut collected = Args::new();
        args.push_all(&mut collected)?;
        self.launch_untyped(&kernel.code, &collected, Location::caller())
    }

    fn launch_untyped(
        &self,
        kernel: &Untyped,
        args: &Args<'_>,
        site: &'static Location<'static>,
    ) -> Result<()> {
        (kernel.spec.check)(&args.block).map_err(|why| kernel.refused(&why))?;
        let device = self.lane().device;
        if let Some(arg) = args.block.spans().iter().find(|a| !a.span.is_reached_by(device)) {
            return Err(kernel.refused(&format!("{} is out of reach of {device}", arg.span)));
        }
        let function = kernel.loaded(self.device(), site)?;
        let shape = kernel.grid(&args.block)?;
        if shape.grid.contains(&0) {
            return Ok(());
        }
        let launch = Launch {
            function,
            name: &kernel.spec.name,
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            args: &args.block,
        };
        self.enqueue(Action::Launch(launch), &args.uses, site).map(drop)
    }
}
