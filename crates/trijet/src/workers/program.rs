//! A program for workers. Each kind of its tasks has a body in CUDA C++ and a body in Rust for the
//! host device.
use super::twin::{self, Kinds};
use crate::device::args::ArgBlock;
use crate::device::launch_config::LaunchConfig;
use crate::device::twin::{Cost, Twin};
use crate::launch::{CheckArgs, Code, Dynamic, Kernel, KernelSpec, Shape, any_lengths};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

const ATOMICS: &str = include_str!("device/atomics.cuh");
const SCHEDULER: &str = include_str!("device/scheduler.cuh");

/// The declaration of a program.
#[derive(Clone, Copy)]
pub struct ProgramSpec {
    name: &'static str,
    bodies: &'static str,
    parameters: &'static str,
    ptx: Option<&'static str>,
    worker_threads: u32,
    blocks_min: u32,
    check: CheckArgs,
}

impl fmt::Debug for ProgramSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The number of threads of a block, if a worker is a warp.
const BLOCK: u32 = 256;
const WARP: u32 = 32;

impl ProgramSpec {
    /// A program with the entry point `name`, whose workers are warps. `parameters` are the
    /// parameters of the program in CUDA C++, such as `"u64* sums, u64 length, u32 cut"`. Each span
    /// is a pointer and a 64-bit length. `bodies` has a function
    /// `DEV void name(Worker& w, const Args& args, u64 payload)` for each kind of task. The members
    /// of `Args` are the parameters.
    #[must_use]
    pub const fn new(name: &'static str, bodies: &'static str, parameters: &'static str) -> Self {
        let (ptx, check) = (None, any_lengths as CheckArgs);
        Self { name, bodies, parameters, ptx, worker_threads: WARP, blocks_min: 4, check }
    }

    /// Adds the PTX of the program, so that no run-time compiler is needed.
    #[must_use]
    pub const fn ptx(mut self, text: &'static str) -> Self {
        self.ptx = Some(text);
        self
    }

    /// Makes each block a worker, instead of each warp. A block has `threads` threads: a multiple
    /// of 32, at most 1024.
    ///
    /// # Panics
    /// If `threads` is another number.
    #[must_use]
    pub const fn blocks(mut self, threads: u32) -> Self {
        assert!(
            threads.is_multiple_of(WARP) && threads > 0 && threads <= 1024,
            "a worker is a block of whole warps"
        );
        self.worker_threads = threads;
        self
    }

    /// Makes the compiler limit the registers, so that `blocks` blocks fit onto a multiprocessor.
    /// The default is 4 blocks. A block has 256 threads, or the number that [`ProgramSpec::blocks`]
    /// sets. With more blocks, some workers run tasks while others look for tasks. A body that
    /// needs many registers is faster with fewer blocks.
    #[must_use]
    pub const fn blocks_min(mut self, blocks: u32) -> Self {
        self.blocks_min = blocks;
        self
    }

    /// Sets a check of the arguments of a launch. A launch is refused if `check` returns an error.
    /// The arguments of the program come first in the list that `check` gets.
    #[must_use]
    pub const fn check(mut self, check: CheckArgs) -> Self {
        self.check = check;
        self
    }
}

/// A program for workers. `K` has the kinds of its tasks. `P` has its parameters, in the same form
/// as for a [`Kernel`].
pub struct Program<K, P> {
    spec: ProgramSpec,
    kernel: OnceLock<Kernel<Dynamic>>,
    types: PhantomData<fn(K, P)>,
}

impl<K, P> fmt::Debug for Program<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

impl<K: Kinds, P> Program<K, P> {
    /// Declares a program.
    ///
    /// # Safety
    /// The parameters match `P`, in order. Each body touches no bytes outside of the spans of the
    /// arguments, writes no bytes of a [`Read`](crate::kernels::Read), and makes only tasks of
    /// kinds that exist. These rules hold for every list of arguments that the check accepts. They
    /// hold for every payload and all fields of an initial task, and for every payload of a task
    /// that a body makes. If tasks that run at the same time access the same bytes, and one of them
    /// writes, these tasks use only atomic operations. In CUDA C++, all lanes of the worker's first
    /// warp call [`Worker::spawn`](super::Worker::spawn) together. The bodies of the twin do the
    /// same as the bodies in CUDA C++.
    #[must_use]
    pub const unsafe fn declare(spec: ProgramSpec) -> Self {
        Self { spec, kernel: OnceLock::new(), types: PhantomData }
    }
}

impl<K: Kinds, P> Program<K, P> {
    /// The name of the entry point.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// The source of the whole kernel in CUDA C++, which needs no header.
    #[must_use]
    pub fn source(&self) -> String {
        let ProgramSpec { name, bodies, parameters, worker_threads, blocks_min, .. } = self.spec;
        let names: Vec<&str> = parameters
            .split(',')
            .filter_map(|one| one.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next())
            .filter(|name| !name.is_empty())
            .collect();
        let members: String = parameters
            .split(',')
            .filter(|one| !one.trim().is_empty())
            .map(|one| format!("{}; ", one.trim()))
            .collect();
        let (mut constants, mut cases) = (String::new(), String::new());
        for (number, (kind, _)) in (1..).zip(K::KINDS) {
            constants.push_str(&format!("enum : u32 {{ {} = {number} }};\n", kind.to_uppercase()));
            let call = format!("{kind}(w, args, task & PAYLOAD)");
            cases.push_str(&format!("    case {number}: {call}; break;\n"));
        }
        let comma = if names.is_empty() { "" } else { ", " };
        let arguments = names.join(", ");
        let block = if worker_threads > WARP { worker_threads } else { BLOCK };
        let warps = block / WARP;
        format!(
            "{ATOMICS}\n#define WORKER_THREADS {worker_threads}\n#define WARPS {warps}\nstruct Args {{ {members}}};\n{SCHEDULER}\n\
             {constants}{bodies}\n\
             template <> DEV void run_task<Args>(Worker& w, const Args& args, u64 task) {{\n  \
             switch (task >> 56) {{\n{cases}  }}\n}}\n\
             extern \"C\" __global__ void __launch_bounds__({block}, {blocks_min}) {name}({parameters}{comma}\
             const __grid_constant__ Setup of_setup, u32* of_state, u64, u64* of_tasks, u64, const u64* of_list, u64 of_listed, \
             const u32* of_graph, u64, u32* of_counters, u64, u64 of_host) {{\n  \
             const Args of_args = {{ {arguments} }};\n  \
             const Shared of_all = {{ of_setup, of_state, of_tasks, of_listed ? of_list : nullptr, of_graph, of_counters, (u32*)of_host }};\n  \
             work(of_args, of_all);\n}}\n"
        )
    }

    /// The kernel of the program. The first call makes the kernel.
    pub(super) fn kernel(&self) -> &Kernel<Dynamic> {
        self.kernel.get_or_init(|| {
            let code = match self.spec.ptx {
                Some(ptx) => Code::ptx(ptx),
                None => Code::Source(Cow::Owned(self.source())),
            };
            let twin = Twin { tile_elements: |_| u64::MAX, run: twin::run::<K>, cost };
            let shape = Shape::Given(|_, _| Ok(()));
            let spec = KernelSpec::new(self.spec.name, code, shape).check(self.spec.check);
            // SAFETY: the caller of `Program::declare` vouches for the parameters and the bodies.
            // The scheduler around them takes the arguments that `Stream::run_workers` appends, and
            // uses the words that `Setup` places.
            unsafe { Kernel::declare(spec.twin(twin)) }
        })
    }

    /// The configuration of a launch of `blocks` blocks.
    pub(super) fn config(&self, blocks: u32) -> LaunchConfig {
        let threads =
            if self.spec.worker_threads > WARP { self.spec.worker_threads } else { BLOCK };
        LaunchConfig::new([blocks, 1, 1], [threads, 1, 1]).cooperative()
    }

    /// The number of workers of a block.
    pub(super) fn workers_of_block(&self) -> u32 {
        if self.spec.worker_threads > WARP { 1 } else { BLOCK / WARP }
    }
}

fn cost(args: &ArgBlock) -> Cost {
    Cost { bytes: args.spans().iter().map(crate::device::args::SpanArg::bytes).sum(), ops: 0 }
}
