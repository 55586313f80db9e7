//! The actions of the driver contract: one function for each kind.
#![forbid(unsafe_code)]

use super::calls::Call;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::panic::caught;
use crate::base::units::Bytes;
use crate::device::args::ArgBlock;
use crate::device::driver::{
    Conditional, CopySpans, HostFn, Launch, Mode, OwnedNode, PoolHandle, SourceOrder, StreamHandle,
};
use crate::device::host::engine::queues::Queues;
use crate::device::host::engine::refuse;
use crate::device::host::engine::touches::Object;
use crate::device::host::engine::work::{ConditionalBody, HostFnCall, KernelWork, OpWork};
use crate::device::host::fault::{FaultKind, Verb};
use crate::device::host::memory::pools::Pools;
use crate::device::host::order::May;
use crate::device::host::{Function, HostDriver};
use crate::device::launch_config::LaunchLimits;
use crate::device::memory::{self, Memory, Span};
use crate::device::twin::{Cost, check_disjoint};
use std::sync::Arc;

/// Maximum number of threads of a block. Host devices have the limits of a GPU, so that a GPU
/// accepts every shape that a host device accepts.
pub(super) const BLOCK_THREADS_MAX: u32 = 1024;

impl HostDriver {
    pub(in crate::device::host) fn alloc(
        &self,
        stream: StreamHandle,
        pool: Option<PoolHandle>,
        bytes: Bytes,
    ) -> Result<Memory> {
        let mut call = self.begin_on(Verb::Alloc, stream)?;
        let slot = call.slot;
        let state = &mut *call.state;
        let device = state.queues.slots[slot.index()].device;
        let pool = pool.unwrap_or_else(|| state.pools.current_of(device));
        let run = &mut state.run;
        let found = state.pools.alloc(&state.queues, slot, pool, bytes, |what| run.may(what))?;
        state.touch(Object::Pools, true);
        state.touch_queue(slot);
        for slot in &found.depends_on {
            state.touch_progress(state.queues.end_of(*slot));
        }
        if !found.waits.is_empty() {
            let waits = Pools::nodes_of(&state.queues, &found.waits);
            self.push_hold(call, &waits)?;
        }
        Ok(found.memory)
    }

    pub(in crate::device::host) fn free(
        &self,
        stream: StreamHandle,
        memory: &Memory,
    ) -> Result<()> {
        let call = self.begin_on(Verb::Free, stream)?;
        let slot = call.slot;
        call.state.touch(Object::Pools, true);
        if !call.state.pools.holds(memory) && !call.state.pools.holds_plain(memory) {
            let cause = format!("{:#x} is not the address of a live allocation", memory.address());
            return Err(refuse::value("free", cause));
        }
        let (mut state, _) = self.push(call, OpWork::Free(memory.clone()), &[])?;
        let point = state.queues.end_of(slot);
        state.pools.release(memory, Some(point));
        Ok(())
    }

    pub(in crate::device::host) fn copy_batch(
        &self,
        stream: StreamHandle,
        copies: &[CopySpans],
        order: SourceOrder,
    ) -> Result<()> {
        copies.iter().try_for_each(|copy| check_spans(&copy.dst, &copy.src))?;
        if Queues::is_legacy(stream) || copies.iter().any(|copy| copy.src.bytes() == 0) {
            let cause = "a batch cannot be enqueued in the legacy stream, and each of its copies \
                         needs at least one byte";
            return Err(refuse::value("copy batch", cause));
        }
        self.copy_many(stream, copies, order)
    }

    pub(in crate::device::host) fn fill(
        &self,
        stream: StreamHandle,
        dst: &Span,
        value: u8,
    ) -> Result<()> {
        let call = self.begin_on(Verb::Fill, stream)?;
        call.check_reach(call.device(), dst)?;
        self.push(call, OpWork::Fill { dst: dst.clone(), value }, &[]).map(drop)
    }

    pub(in crate::device::host) fn host_fn(
        &self,
        stream: StreamHandle,
        run: &HostFn,
        touches: &[(Span, Mode)],
    ) -> Result<()> {
        let mut call = self.begin_on(Verb::HostFn, stream)?;
        // Law A28: host functions of independent streams may run one after the other.
        let serial = call.state.may(May::HostFnsSerial);
        let last = call.state.queues.last_host_fn.filter(|_| serial);
        let work = OpWork::HostFn(HostFnCall { run: Arc::clone(run), touches: touches.into() });
        let (mut state, id) = self.push(call, work, last.as_slice())?;
        state.queues.last_host_fn = Some(id);
        Ok(())
    }

    pub(super) fn launch(&self, stream: StreamHandle, launch: &Launch<'_>) -> Result<()> {
        let (function, asked) = self.asked(launch)?;
        let mut call = self.begin_on(Verb::Launch, stream)?;
        let device = call.device();
        demand_home(function, device)?;
        let has_stray = strays(&call, launch.args);
        let queues = &mut call.state.queues;
        let mut kernel = queues.kernel(&function.name, function.twin, launch.args, launch.config);
        (kernel.tile_elements, kernel.cost) = asked;
        kernel.linked = linked(launch.args);
        let (mut state, id) = self.push(call, OpWork::Kernel(kernel), &[])?;
        if has_stray {
            state.attach_fault(id, FaultKind::Faults);
        }
        Ok(())
    }

    /// Checks a launch. Returns the kernel, and the tile size and the cost that its twin computes.
    fn asked(&self, launch: &Launch<'_>) -> Result<(&Function, (u64, Cost))> {
        let config = launch.config;
        let limits = LaunchLimits { block_threads_max: BLOCK_THREADS_MAX, compute: (0, 0) };
        if let Err(why) = config.check(limits) {
            return Err(refuse::value("launch", format!("`{}`: {why}", launch.name)));
        }
        check_disjoint(launch.name, launch.args)?;
        let function = self.function_of(launch.function)?;
        let (name, twin) = (&function.name, function.twin);
        if config.shared_bytes > function.shared_bytes {
            let (asked, most) = (config.shared_bytes, function.shared_bytes);
            let cause = format!(
                "the launch of `{name}` asks for {asked} bytes of shared memory, but the kernel \
                 was loaded for at most {most}"
            );
            return Err(refuse::value("launch", cause));
        }
        // Functions of the user are called here, where no lock of the driver is held.
        let ask = || ((twin.tile_elements)(launch.args), (twin.cost)(launch.args));
        let asked = caught(ask).map_err(|words| {
            let cause =
                format!("the twin of `{name}` panicked in `tile_elements` or `cost`: {words}");
            Error::new(ErrorKind::Panicked, "launch", cause)
        })?;
        Ok((function, asked))
    }

    /// Enqueues a conditional node as one operation.
    pub(super) fn conditional(&self, stream: StreamHandle, parts: &Conditional) -> Result<()> {
        let body = self.body(parts)?;
        let call = self.begin_on(Verb::Launch, stream)?;
        self.push(call, OpWork::Conditional(Box::new(body)), &[]).map(drop)
    }

    /// The operations of a conditional node, including the operations of nested conditional nodes.
    fn body(&self, parts: &Conditional) -> Result<ConditionalBody> {
        let mut works = Vec::new();
        for (node, _) in &parts.body {
            works.push(match node {
                OwnedNode::Copy { dst, src } => {
                    check_spans(dst, src)?;
                    OpWork::Copy(CopySpans { dst: dst.clone(), src: src.clone() })
                }
                OwnedNode::Fill { dst, value } => OpWork::Fill { dst: dst.clone(), value: *value },
                OwnedNode::Kernel { function, name, config, args } => {
                    let launch = Launch { function: *function, name, config: *config, args };
                    let (found, (tile_elements, cost)) = self.asked(&launch)?;
                    let (name, twin, linked) = (Arc::clone(&found.name), found.twin, linked(args));
                    let (args, config) = (ArgBlock::clone(args), *config);
                    let kernel =
                        KernelWork { name, twin, args, config, tile_elements, cost, linked };
                    OpWork::Kernel(Box::new(kernel))
                }
                OwnedNode::Conditional(inner) => OpWork::Conditional(Box::new(self.body(inner)?)),
                OwnedNode::HostFn(_) | OwnedNode::Captured(_) => {
                    let cause = format!(
                        "a conditional node cannot contain this operation: {}",
                        node.node().label()
                    );
                    return Err(refuse::unsupported("conditional", cause));
                }
            });
        }
        let Conditional { repeats, condition, touches, .. } = parts;
        let (condition, mut touches) = (condition.clone(), touches.clone());
        touches.push((condition.clone(), Mode::Read));
        Ok(ConditionalBody { repeats: *repeats, condition, works, touches })
    }
}

/// Refuses a kernel that was loaded on another device.
fn demand_home(function: &Function, device: DeviceId) -> Result<()> {
    let (name, home) = (&function.name, function.device);
    if home == device {
        return Ok(());
    }
    let cause = format!("`{name}` was loaded on {home}, and the stream belongs to {device}");
    Err(refuse::handle("launch", cause))
}

/// Whether a launch uses memory that the device cannot use. Such a launch succeeds, and its kernel
/// faults (law A39).
fn strays(call: &Call<'_>, args: &ArgBlock) -> bool {
    let mut memories = args.spans().iter().map(|arg| arg.span.memory());
    !memories.all(|memory| call.state.pools.reaches(call.device(), memory))
}

/// The number of bytes of host memory that a kernel reads, or the number of bytes that it writes,
/// whichever is larger.
fn linked(args: &ArgBlock) -> u64 {
    let of_host = args.spans().iter().filter(|arg| arg.span.memory().space().is_host());
    let (reads, writes) = of_host.fold((0, 0), |(reads, writes): (u64, u64), arg| {
        let bytes = |moves: bool| if moves { arg.span.bytes() } else { 0 };
        (reads + bytes(arg.mode != Mode::Write), writes + bytes(arg.mode.writes()))
    });
    reads.max(writes)
}

/// Refuses a copy between spans that differ in length or overlap.
pub(super) fn check_spans(dst: &Span, src: &Span) -> Result<()> {
    if dst.bytes() == src.bytes() && !dst.overlaps(src) {
        return Ok(());
    }
    Err(refuse::value("copy", memory::mismatch(dst, src)))
}
