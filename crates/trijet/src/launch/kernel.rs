//! A kernel: declared once, loaded once per device, launched with checked arguments.
//!
//! The declaration is the only `unsafe` code of a user. The declaration promises three things: the
//! code has these parameters, the code touches only the bytes of its arguments in the declared way,
//! and the twin computes the same.

use super::args::Args;
use super::compiled::Compiled;
use super::params::ArgsFor;
use super::spec::{Exactness, KernelSpec, Shape};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::HostStep;
use crate::device::args::ArgBlock;
use crate::device::code::Code;
use crate::device::driver::{Action, Image, Launch};
use crate::device::launch_config::LaunchLimits;
use crate::device::loaded::{Loaded, LoadedModule};
use crate::device::{LaunchConfig, Occupancy, ptx};
use crate::log::calling;
use crate::stream::shared::OpenDevice;
use crate::stream::{Device, Stream};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A kernel with parameters `P`: [`Dynamic`](super::Dynamic), or a tuple. The tuple may have
/// scalars, [`Read`](super::Read), [`Write`](super::Write) and [`Update`](super::Update). It may
/// also have each of the last three in a [`Ptr`](super::Ptr) or a [`Tiled`](super::Tiled).
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

/// A kernel without the types of its parameters. Only the collection of the arguments needs the
/// types. The later steps of a launch do not.
struct Untyped {
    spec: KernelSpec,
    number: OnceLock<usize>,
    /// The scanned PTX of a declaration with PTX. The first device that loads the kernel sets this
    /// field.
    ptx: OnceLock<Arc<ptx::Module>>,
    /// The PTX of a declaration with CUDA C++.
    compiled: Compiled,
}

impl<P> fmt::Debug for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("name", &self.code.spec.name).finish_non_exhaustive()
    }
}

impl<P> Kernel<P> {
    /// Declares a kernel. `examples/own_kernel.rs` declares two kernels: one with a twin, which
    /// runs on every device, and one that takes a plain pointer and runs in any grid. A twin takes
    /// its arguments with [`Tile::args`](crate::kernels::Tile::args).
    ///
    /// # Safety
    /// The entry point has exactly the parameters `P`: each span as a pointer followed by a 64-bit
    /// length in elements, each [`Ptr`](super::Ptr) as a pointer alone, and each
    /// [`Tiled`](super::Tiled) as a tensor map. The entry point touches no bytes outside its spans,
    /// and does not write to a [`Read`](super::Read). The caller of a launch chooses the boxes of a
    /// tiling. A copy of a box fills as many bytes of shared memory as the box has: see
    /// [`ArgBlock::tiled`]. All of this holds for every list of arguments that the check of the
    /// declaration accepts, with every configuration that its shape computes or accepts.
    ///
    /// If the entry point has a `griddepcontrol.wait`, it may be launched as a
    /// [dependent](LaunchConfig::dependent) launch. Then each thread uses memory of other kernels
    /// only after its own wait, or after the wait of another thread. In the second case, barriers
    /// order the wait before the use. Each block waits before it ends. The library checks this rule
    /// on the paths of the PTX. If a path breaks the rule, the library refuses dependent launches,
    /// unless the declaration [promises](KernelSpec::trust_wait) that the kernel obeys the rule.
    ///
    /// Safe code may launch a kernel with the parameters [`Dynamic`](super::Dynamic) with any list
    /// of arguments. The list may have any number of arguments in any order, scalars of any value,
    /// which may be addresses, and any spans, read or written. The entry point must obey the rules
    /// above for every list that `check` accepts. So `check` has to refuse a list that lacks an
    /// argument. It has to refuse a list that has a scalar in the position of a span, or a
    /// read-only span where the kernel writes. [`ArgBlock::count`] returns the number of arguments,
    /// and [`ArgBlock::spans`] the index and the mode of each span.
    #[must_use]
    pub const unsafe fn declare(spec: KernelSpec) -> Self {
        let code = Untyped {
            spec,
            number: OnceLock::new(),
            ptx: OnceLock::new(),
            compiled: Compiled::new(),
        };
        Self { code, params: PhantomData }
    }

    /// The name of the entry point.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.code.spec.name
    }

    /// The code of the kernel, for other programs that launch the kernel.
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
    fn loaded<'d>(
        &self,
        device: &'d OpenDevice,
        site: &'static Location<'static>,
    ) -> Result<&'d Loaded> {
        match device.kernels.get(self.number()) {
            Some(loaded) => Ok(loaded),
            None => self.load(device, site).map_err(|error| device.failed(error)),
        }
    }

    #[cold]
    fn load<'d>(
        &self,
        device: &'d OpenDevice,
        site: &'static Location<'static>,
    ) -> Result<&'d Loaded> {
        let begun = device.domain.log().begin_call();
        let module = self.module(device)?;
        let spec = &self.spec;
        let driver = device.domain.driver();
        let function = driver
            .function(module.handle, &spec.name, spec.shared_bytes_max, spec.twin)
            .map_err(|error| self.absent(device, error))?;
        let entry = module.ptx.as_deref().and_then(|ptx| ptx.entry(&spec.name));
        let loaded = Loaded::new(function, driver.parameters(function)?, entry, spec.wait);
        let loaded = device.kernels.set(self.number(), loaded);
        if let Some(begun) = begun {
            device.domain.log().note_call(begun, HostStep::Load, device.id, |op| {
                op.label = Cow::Owned(spec.name.to_string());
                op.site = Some(site.into());
            });
        }
        Ok(loaded)
    }

    /// Returns the module of the code. Loads the module if the device does not have it yet. Kernels
    /// with equal code share a module.
    fn module(&self, device: &OpenDevice) -> Result<LoadedModule> {
        let mut modules =
            device.modules.lock().expect("no thread panicked while it held this lock");
        if let Some(module) = modules.get(&self.spec.code) {
            return Ok(module.clone());
        }
        let file = self.spec.file_name();
        let load = |image| device.domain.driver().module_load(device.id, &file, image);
        let accept = |module: Arc<ptx::Module>| match ptx::refusal(&module, &device.info) {
            Some(found) => {
                let refused = Error::new(ErrorKind::Compile, "load", format!("{file}: {found}"));
                Err(refused.on(device.id))
            }
            None => Ok(Some(module)),
        };
        let (ptx, handle) = match &self.spec.code {
            Code::Ptx(text) => {
                let scanned = self.ptx.get_or_init(|| Arc::new(ptx::scan(text)));
                (accept(Arc::clone(scanned))?, load(Image::Ptx(text))?)
            }
            Code::Cubin(bytes) => (None, load(Image::Cubin(bytes))?),
            Code::Source(source) if device.info.compute.0 > 0 => {
                let compute = device.info.compute;
                let compile = || crate::device::compile(source, &file, compute);
                let compiled = self.compiled.get(compute, compile)?;
                (accept(compiled.module)?, load(Image::Compiled(&compiled.text))?)
            }
            // A host device compiles no source. It runs only the twin of the kernel.
            Code::Source(source) => (None, load(Image::Ptx(source))?),
        };
        let module = LoadedModule { handle, ptx };
        modules.insert(self.spec.code.clone(), module.clone());
        Ok(module)
    }

    /// Turns the error `NotFound` of the driver into an error that names the entry and the entries
    /// that the code has.
    #[cold]
    fn absent(&self, device: &OpenDevice, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let Ok(Some(entries)) = self.spec.entries(device.info.compute) else {
            return error.context(self.spec.file_name());
        };
        let told = self.spec.absent(&entries);
        match error.code() {
            Some(code) => told.with_code(code).on(device.id),
            None => told.on(device.id),
        }
    }

    /// The configuration that follows from the arguments.
    #[inline]
    fn config(&self, args: &ArgBlock) -> Result<LaunchConfig> {
        const THREADS: u32 = 256;
        let per_thread = match self.spec.shape {
            Shape::Elements { per_thread } => per_thread,
            Shape::Computed(shape) => return shape(args),
            Shape::Given(_) => {
                let why =
                    "its configuration does not follow from its arguments; call `launch_with`";
                return Err(self.refused(why));
            }
        };
        let written = args.spans().iter().filter(|arg| arg.mode.writes());
        let longest = written.map(|arg| arg.elements).max().unwrap_or(0);
        // Most kernels take the first arm, which divides by a constant. The division in the second
        // arm costs as much as half a launch.
        match per_thread {
            0 | 1 => LaunchConfig::covering(longest, u64::from(THREADS), THREADS),
            more => LaunchConfig::covering(longest, u64::from(THREADS) * u64::from(more), THREADS),
        }
    }

    /// Refuses a configuration of the caller that the device or the declaration does not allow. A
    /// grid with a side of 0 is allowed, because such a launch does nothing.
    fn check_given(
        &self,
        config: &LaunchConfig,
        args: &ArgBlock,
        limits: LaunchLimits,
    ) -> Result<()> {
        let Shape::Given(check) = self.spec.shape else {
            let why = "its configuration follows from its arguments; call `launch`";
            return Err(self.refused(why));
        };
        let mut grid = config.grid;
        grid.iter_mut().zip(config.cluster).for_each(|(side, cluster)| {
            *side = if *side == 0 { cluster.max(1) } else { *side };
        });
        let some = LaunchConfig { grid, ..*config };
        some.check(limits).map_err(|why| self.refused(&why))?;
        let (asked, most) = (config.shared_bytes, self.spec.shared_bytes_max);
        if asked > most {
            return Err(self.refused(&format!(
                "the launch asks for {asked} bytes of dynamic shared memory; the declaration \
                 allows at most {most}"
            )));
        }
        check(args, config).map_err(|why| self.refused(&why))
    }

    /// Refuses a launch whose clusters do not fit onto the device, and a cooperative launch whose
    /// blocks do not fit at the same time. The driver would also refuse these launches, but would
    /// not name the reason.
    fn check_room(
        &self,
        device: &OpenDevice,
        loaded: &Loaded,
        config: &LaunchConfig,
    ) -> Result<()> {
        let room = device.domain.driver().occupancy(loaded.function, config);
        let room = room.map_err(|error| device.failed(error))?;
        let multiprocessors = u64::from(device.info.multiprocessors);
        config.check_room(room, multiprocessors).map_err(|why| self.refused(&why))
    }

    /// Refuses tilings on a GPU that does not support tilings. Twins on a host device support
    /// tilings.
    #[cold]
    fn check_tiled(&self, compute: (u32, u32)) -> Result<()> {
        let (host, since) = ((0, 0), (9, 0));
        if compute == host || compute >= since {
            return Ok(());
        }
        let (major, minor) = compute;
        let why =
            format!("tilings need compute capability 9.0, and the device has {major}.{minor}");
        Err(self.refused(&why))
    }

    #[cold]
    fn refused(&self, why: &str) -> Error {
        let cause = format!("`{}`: {why}", self.spec.name);
        Error::new(ErrorKind::InvalidValue, "launch", cause)
    }
}

fn limits(device: &OpenDevice) -> LaunchLimits {
    let info = &device.info;
    LaunchLimits { block_threads_max: info.block_threads_max, compute: info.compute }
}

impl Device {
    /// Loads a kernel now. The first use of a kernel can block every stream until running work ends
    /// (law [A42](crate::laws#a42)), so load the kernel before a pipeline starts.
    ///
    /// Before the driver gets PTX, the library compares the PTX with the device and its driver; see
    /// [`PtxRule`](crate::kernels::PtxRule). This includes PTX that is compiled from a source.
    /// Cubins and fatbins are not scanned.
    ///
    /// ```
    /// use trijet::kernels::{Code, KernelSpec, Shape};
    /// use trijet::{Device, ErrorKind, Kernel, Select};
    /// const PTX: &str = ".version 8.0
    /// .target sm_80
    /// .address_size 64
    /// .visible .entry sort() { .shared .b8 tile[65536]; ret; }";
    /// let spec = KernelSpec::new("sort", Code::ptx(PTX), Shape::Given(|_, _| Ok(())));
    /// // SAFETY: it has no parameters, and touches no memory but its own.
    /// let sort = unsafe { Kernel::<()>::declare(spec) };
    /// let refused = Device::open(Select::Host(0))?.load(&sort).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Compile);
    /// assert!(refused.to_string().contains("65536 bytes of static shared memory"), "{refused}");
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Compile`, with the rule, the value and the limit, or with the message of the compiler;
    /// `NotFound` for code without the entry; `NoTwin`; `Unsupported` without a compiler.
    #[track_caller]
    pub fn load<P>(&self, kernel: &Kernel<P>) -> Result<()> {
        calling::refuse("load")?;
        kernel.code.loaded(self.shared(), Location::caller()).map(|_| ())
    }

    /// The size in bytes of each parameter of a kernel's entry point. Loads the kernel if
    /// necessary. `None` on a host device and on a driver before CUDA 12.4, where the sizes are
    /// unknown. Where the sizes are known, a launch with other numbers or sizes of arguments is
    /// refused.
    ///
    /// # Errors
    /// The errors of [`Device::load`].
    #[track_caller]
    pub fn parameters<P>(&self, kernel: &Kernel<P>) -> Result<Option<Vec<usize>>> {
        calling::refuse("parameters")?;
        let loaded = kernel.code.loaded(self.shared(), Location::caller())?;
        Ok(loaded.parameters.as_deref().map(<[usize]>::to_vec))
    }
}

impl Device {
    /// The numbers of blocks and of clusters of a kernel that can run at the same time with this
    /// configuration, if the device does nothing else. The grid of the configuration is ignored.
    /// Loads the kernel if necessary.
    ///
    /// ```
    /// use trijet::kernels::AXPY;
    /// use trijet::{Device, LaunchConfig, Select};
    /// let device = Device::open(Select::Auto)?;
    /// let config = LaunchConfig::new([1, 1, 1], [256, 1, 1]);
    /// let room = device.occupancy(&AXPY, &config)?;
    /// let resident = room.blocks * device.info().multiprocessors;
    /// assert!(resident > 0, "the largest grid of a cooperative launch");
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for blocks or clusters that no device allows; `Unsupported` for clusters on a
    /// driver that has none; the errors of [`Device::load`].
    #[track_caller]
    pub fn occupancy<P>(&self, kernel: &Kernel<P>, config: &LaunchConfig) -> Result<Occupancy> {
        calling::refuse("occupancy")?;
        let (shared, kernel) = (self.shared(), &kernel.code);
        let whole = LaunchConfig { grid: config.cluster.map(|side| side.max(1)), ..*config };
        whole.check(limits(shared)).map_err(|why| kernel.refused(&why))?;
        let loaded = kernel.loaded(shared, Location::caller())?;
        let room = shared.domain.driver().occupancy(loaded.function, &whole);
        room.map_err(|error| shared.failed(error))
    }
}

impl Stream {
    /// Launches a kernel whose configuration follows from its arguments. A launch over no elements
    /// does nothing.
    ///
    /// # Errors
    /// `InvalidValue`, with the name of the kernel, for arguments that its declaration refuses,
    /// before the driver is called; `NoTwin` on the host device; an error of the driver.
    #[track_caller]
    pub fn launch<'a, P, A: ArgsFor<'a, P>>(&self, kernel: &Kernel<P>, args: A) -> Result<()> {
        calling::refuse("launch")?;
        let mut collected = Args::new();
        args.push_all(&mut collected)?;
        self.launch_untyped(&kernel.code, None, &collected, Location::caller())
    }

    /// Launches a kernel with a configuration that the caller chooses. The kernel must be declared
    /// with [`Shape::Given`]. A grid with a side of 0 does nothing.
    ///
    /// ```
    /// use trijet::kernels::{Code, Update, KernelSpec, Ptr, Shape};
    /// use trijet::{Device, Kernel, LaunchConfig, Select};
    ///
    /// /// A kernel of another program: it takes a plain pointer and a count.
    /// const CODE: &str = r#"extern "C" __global__ void twice(float* x, int n) {
    ///     for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    ///         x[i] *= 2;
    /// }"#;
    /// static TWICE: Kernel<(Ptr<Update<f32>>, i32)> = {
    ///     // The loop covers `n` elements with any number of threads.
    ///     let shape = Shape::Given(|_, _| Ok(()));
    ///     let spec = KernelSpec::new("twice", Code::source(CODE), shape).check(|args| {
    ///         let (elements, n) = (args.spans()[0].elements, args.scalar::<i32>(1));
    ///         let covers = u64::try_from(n).is_ok_and(|n| n <= elements);
    ///         let refusal = || format!("n is {n}, and x has {elements} elements");
    ///         covers.then_some(()).ok_or_else(refusal)
    ///     });
    ///     // SAFETY: it takes (float*, int), and writes x[..n] only. The check refuses an `n`
    ///     // beyond the end of x.
    ///     unsafe { Kernel::declare(spec) }
    /// };
    ///
    /// let device = Device::open(Select::Auto)?;
    /// let s = device.stream()?;
    /// let mut x = s.upload(&[1.0_f32, 2.0, 3.0])?;
    /// let config = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
    /// let refused = s.launch_with(&TWICE, config, (&mut x, 4)).unwrap_err();
    /// assert!(refused.to_string().contains("n is 4, and x has 3 elements"), "{refused}");
    /// if device.info().compute.0 > 0 {
    ///     s.launch_with(&TWICE, config, (&mut x, 3))?;
    ///     assert_eq!(s.download(&x)?, [2.0, 4.0, 6.0]);
    /// }
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue`, with the name of the kernel, for arguments or a configuration that the
    /// device, the declaration or the PTX refuses, before the driver is called; `NoTwin` on the
    /// host device; an error of the driver.
    #[track_caller]
    pub fn launch_with<'a, P, A: ArgsFor<'a, P>>(
        &self,
        kernel: &Kernel<P>,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        calling::refuse("launch")?;
        let mut collected = Args::new();
        args.push_all(&mut collected)?;
        self.launch_untyped(&kernel.code, Some(config), &collected, Location::caller())
    }

    fn launch_untyped(
        &self,
        kernel: &Untyped,
        given: Option<LaunchConfig>,
        args: &Args<'_>,
        site: &'static Location<'static>,
    ) -> Result<()> {
        (kernel.spec.check)(&args.block).map_err(|why| kernel.refused(&why))?;
        let device = self.lane().device;
        if let Some(arg) = args.block.spans().iter().find(|a| !a.span.is_reached_by(device)) {
            return Err(kernel.refused(&format!(
                "{device} cannot access {}; enable peer access or copy it first",
                arg.span
            )));
        }
        if let Some(config) = &given {
            kernel.check_given(config, &args.block, limits(self.device()))?;
        }
        if !args.block.tiled().is_empty() {
            kernel.check_tiled(self.device().info.compute)?;
        }
        let loaded = kernel.loaded(self.device(), site)?;
        loaded.check(&args.block).map_err(|why| kernel.refused(&why))?;
        let mut config = match given {
            Some(config) => config,
            None => kernel.config(&args.block)?,
        };
        if let Some(priority) = &mut config.priority {
            let (patient, urgent) = self.device().info.priorities;
            *priority = (*priority).clamp(urgent, patient);
        }
        if config.grid.contains(&0) {
            return Ok(());
        }
        if let Some(number) = args.block.tiled().iter().position(|arg| arg.tiling.is_empty()) {
            return Err(kernel.refused(&format!("the matrix of tiling {number} has no elements")));
        }
        loaded.check_config(&config).map_err(|why| kernel.refused(&why))?;
        if config.dependent && !LaunchConfig::has_dependents(self.device().info.compute) {
            config.dependent = false;
        }
        if config.needs_room() {
            kernel.check_room(self.device(), loaded, &config)?;
        }
        let name = &kernel.spec.name;
        let launch = Launch { function: loaded.function, name, config, args: &args.block };
        self.enqueue(Action::Launch(launch), &args.uses, site)
    }
}
