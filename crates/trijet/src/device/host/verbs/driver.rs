//! The verbs of the driver contract. The file `actions` has the operations.
#![forbid(unsafe_code)]

use super::actions::{BLOCK_THREADS_MAX, check_spans};
use super::calls::Call;
use super::occupancy::{self, occupancy};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::{
    Action, Activities, Clock, Core, DeviceInfo, Driver, EventHandle, Form, FunctionHandle, Image,
    Interop, ModuleHandle, Peers, PollProgress, PoolAccess, PoolAttribute, PoolHandle, Pools,
    Profiler, Readiness, Script, Simulation, StreamHandle, StreamKind, Timing,
};
use crate::device::host::HostDriver;
use crate::device::host::config::Executor;
use crate::device::host::engine::events::LegacyRecord;
use crate::device::host::engine::ids::Points;
use crate::device::host::engine::queues::Queues;
use crate::device::host::engine::slot::Kind;
use crate::device::host::engine::touches::Object;
use crate::device::host::engine::work::OpWork;
use crate::device::host::engine::{activity, refuse, sharing};
use crate::device::host::fault::{FaultKind, Verb};
use crate::device::host::order::May;
use crate::device::host::run::HostRun;
use crate::device::host::run::turn::Switch;
use crate::device::host::shared::Function;
use crate::device::launch_config::LaunchConfig;
use crate::device::launch_config::Occupancy;
use crate::device::memory::{Memory, Space};
use crate::device::region::HostBytes;
use crate::device::twin::Twin;
use std::ffi::c_void;
use std::ptr::without_provenance_mut;

/// Maximum shared memory of a block in bytes, for a kernel that does not request more.
const SHARED_BYTES: u32 = 48 << 10;
/// Maximum shared memory of a block in bytes, for a kernel that requests it when it is loaded.
const SHARED_BYTES_OPTIN: u32 = 227 << 10;

/// A rate of the cost model in whole bytes per second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(rate: f64) -> u64 {
    rate as u64
}

impl Core for HostDriver {
    fn device_count(&self) -> Result<u32> {
        Ok(self.config.devices)
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo> {
        self.check_device("device info", device)?;
        let (name, clock) = match &self.config.executor {
            Executor::Threads => ("host device (CPU threads)", Clock::Processor),
            Executor::Virtual(_) => ("host device (modelled H200)", Clock::Model),
        };
        Ok(DeviceInfo {
            name: name.to_owned(),
            compute: (0, 0),
            multiprocessors: u32::try_from(self.shared.threads).unwrap_or(u32::MAX),
            copy_engines: 2,
            hardware_queues: sharing::queues_of(&self.config),
            memory: self.config.memory,
            priorities: (0, -5),
            block_threads_max: BLOCK_THREADS_MAX,
            shared_bytes: SHARED_BYTES,
            shared_bytes_optin: SHARED_BYTES_OPTIN,
            multiprocessor_threads_max: occupancy::THREADS_MAX,
            multiprocessor_blocks_max: occupancy::BLOCKS_MAX,
            multiprocessor_shared_bytes: occupancy::SHARED_BYTES,
            multiprocessor_registers: None,
            warp_threads: occupancy::WARP,
            cluster_blocks_max: LaunchConfig::cluster_blocks_max((0, 0)),
            l2: None,
            memory_bus_bits: None,
            memory_clock_khz: None,
            memory_bytes_per_s: (clock == Clock::Model)
                .then(|| whole(self.config.cost.memory_rate)),
            driver_version: 0,
            integrated: clock == Clock::Processor,
            clock,
        })
    }

    fn memory_info(&self, device: DeviceId) -> Result<(Bytes, Bytes)> {
        self.check_device("memory info", device)?;
        let state = self.shared.lock();
        state.queues.check_lost(device)?;
        Ok(state.pools.free_bytes(device))
    }

    fn synchronize(&self, device: DeviceId) -> Result<()> {
        self.refuse_captured_device(device)?;
        let state = self.begin(Verb::Synchronize, device)?;
        state.touch(Object::Pools, true);
        self.wait_device("synchronize", state, device).map(drop)
    }

    fn stream_create(
        &self,
        device: DeviceId,
        kind: StreamKind,
        priority: i32,
    ) -> Result<StreamHandle> {
        let mut state = self.begin(Verb::StreamCreate, device)?;
        state.touch(Object::Pools, true);
        state.touch(Object::Legacy(device.0), true);
        Ok(state.queues.stream_create(device, kind, priority.clamp(-5, 0)))
    }

    fn stream_legacy(&self, device: DeviceId) -> Result<StreamHandle> {
        self.check_device("legacy stream", device)?;
        Ok(Queues::legacy(device))
    }

    fn stream_per_thread(&self, device: DeviceId) -> Result<StreamHandle> {
        self.check_device("per-thread stream", device)?;
        Ok(Queues::per_thread(device))
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        state.queues.stream_destroy(stream)
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        self.refuse_captured("stream synchronize", stream)?;
        let Call { state, slot, .. } = self.begin_on(Verb::Synchronize, stream)?;
        state.touch(Object::Pools, true);
        self.wait_slot("stream synchronize", state, slot, Switch::Threads).map(drop)
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<Readiness> {
        self.refuse_captured("stream query", stream)?;
        let Call { state, slot, .. } = self.begin_on(Verb::Query, stream)?;
        let mut state = self.catch_up(state)?;
        state.queues.check_lost(state.queues.slots[slot.index()].device)?;
        let points = state.queues.points_of(slot);
        let clock = state.queues.clock_of(&points);
        Ok(state.observe(&points, &clock))
    }

    fn stream_wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        if self.capture_waits(stream, event)? {
            return Ok(());
        }
        let Call { mut state, slot, .. } = self.begin_on(Verb::StreamWait, stream)?;
        let now = state.call_time(&self.shared.clock, |cost| cost.event_call);
        state.touch(Object::Event(event.0), false);
        state.touch_queue(slot);
        state.queues.stream_wait(slot, event, now)?;
        self.wake(&mut state);
        Ok(())
    }

    fn event_create(&self, device: DeviceId, timing: Timing) -> Result<EventHandle> {
        let mut state = self.begin(Verb::EventCreate, device)?;
        state.touch(Object::Pools, true);
        Ok(state.queues.event_create(device, timing))
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        self.forget_captured_event(event);
        let mut state = self.enter();
        state.touch(Object::Event(event.0), true);
        state.queues.event_destroy(event)
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        if self.capture_records(event, stream)? {
            return Ok(());
        }
        let call = self.begin_on(Verb::EventRecord, stream)?;
        let never = call.never_completes();
        let Call { mut state, slot, .. } = call;
        let now = state.call_time(&self.shared.clock, |cost| cost.event_call);
        state.touch(Object::Event(event.0), true);
        state.touch_queue(slot);
        let legacy = if state.may(May::LegacyRecordHolds) {
            LegacyRecord::Barrier
        } else {
            LegacyRecord::Bare
        };
        if never {
            let stuck = state.queues.hold("event record", slot, now, OpWork::Mark, &[])?;
            state.attach_fault(stuck, FaultKind::NeverCompletes);
        }
        state.queues.event_record(event, slot, now, legacy)?;
        self.wake(&mut state);
        Ok(())
    }

    fn event_query(&self, event: EventHandle) -> Result<Readiness> {
        self.refuse_captured_event("event query", event)?;
        let (_state, incomplete) = self.query_event(event)?;
        Ok(incomplete.map_or(Readiness::Ready, |_| Readiness::NotReady))
    }

    fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        self.refuse_captured_event("event synchronize", event)?;
        let op = "event synchronize";
        let mut state = self.enter();
        let device = state.queues.device_of_event(op, event)?;
        self.count_call(&mut state, Verb::Synchronize, device)?;
        state.touch(Object::Event(event.0), false);
        state.touch(Object::Pools, true);
        let Some((point, clock)) = state.queues.snapshot(op, event)? else { return Ok(()) };
        let points = Points::from_slice(&[point]);
        let state = self.wait_for(op, state, &points, &clock, Switch::Threads)?;
        state.queues.check_lost(device)
    }

    fn event_elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Nanos> {
        let state = self.turn();
        let state = self.catch_up(state)?;
        let ((home, from), (other, to)) =
            (state.queues.event_time(from)?, state.queues.event_time(to)?);
        if home != other {
            return Err(refuse::handle(
                "event elapsed",
                format!("the events belong to {home} and {other}"),
            ));
        }
        Ok(Nanos(to.0.saturating_sub(from.0)))
    }

    fn device_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        let mut state = self.begin(Verb::DeviceAlloc, device)?;
        state.touch(Object::Pools, true);
        state.pools.plain_alloc(device, bytes)
    }

    fn device_free(&self, memory: &Memory) -> Result<()> {
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        let op = "device free";
        let Space::Device(device) = memory.space() else {
            let cause = format!("{} cannot be freed as device memory", memory.space());
            return Err(refuse::value(op, cause));
        };
        if state.pools.holds_plain(memory) {
            if state.may(May::FreeWaits) {
                state = self.block_for_device(op, state, device)?;
            }
        } else if !state.pools.holds(memory) {
            let cause = format!("{:#x} is not the address of a live allocation", memory.address());
            return Err(refuse::value(op, cause));
        }
        state.pools.release(memory, None);
        Ok(())
    }

    fn pinned_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        let state = self.begin(Verb::PinnedAlloc, device)?;
        drop(state);
        let host = HostBytes::zeroed(bytes.0).ok_or_else(|| {
            refuse::memory("pinned", format!("the system cannot allocate {bytes}"))
        })?;
        self.shared.lock().pools.pin(host.address());
        Ok(Memory::new(Space::Pinned, host.address(), bytes.0, Some(host)))
    }

    fn pinned_free(&self, memory: &Memory) -> Result<()> {
        let mut state = self.enter();
        if memory.space() != Space::Pinned || !state.pools.unpin(memory.address()) {
            let cause =
                format!("{:#x} is not the address of live page-locked memory", memory.address());
            return Err(refuse::value("pinned free", cause));
        }
        if state.may(May::FreeWaits) {
            for device in (0..self.config.devices).map(DeviceId) {
                state = self.block_for_device("pinned free", state, device)?;
            }
        }
        // The bytes are freed with the last token.
        Ok(())
    }

    fn module_load(&self, device: DeviceId, label: &str, _: Image<'_>) -> Result<ModuleHandle> {
        let mut state = self.begin(Verb::ModuleLoad, device)?;
        state.touch(Object::Pools, true);
        Ok(ModuleHandle(state.modules.insert((device, label.to_owned()))))
    }

    fn function(
        &self,
        module: ModuleHandle,
        entry: &str,
        shared_bytes: u32,
        twin: Option<Twin>,
    ) -> Result<FunctionHandle> {
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        let (device, label) = Self::module_of(&state, module)?;
        state.queues.check_lost(*device)?;
        let Some(twin) = twin else {
            let cause = format!("kernel `{entry}` ({label}) has no host twin; run it on a GPU");
            return Err(Error::new(ErrorKind::NoTwin, "function", cause));
        };
        if shared_bytes > SHARED_BYTES_OPTIN {
            let cause = format!(
                "`{entry}` requests {shared_bytes} bytes of shared memory; at most \
                 {SHARED_BYTES_OPTIN} are available"
            );
            return Err(refuse::value("function", cause));
        }
        let device = *device;
        if state.may(May::LoadWaits) {
            state = self.block_for_device("function", state, device)?;
        }
        let shared_bytes = shared_bytes.max(SHARED_BYTES);
        let function = Function { device, name: entry.into(), twin, shared_bytes };
        self.shared.functions.set(state.functions, function);
        state.functions += 1;
        Ok(FunctionHandle(state.functions as u64))
    }

    fn occupancy(&self, function: FunctionHandle, config: &LaunchConfig) -> Result<Occupancy> {
        self.function_of(function)?;
        Ok(occupancy(config, self.shared.threads as u64))
    }

    /// A host device has no sizes of parameters to compare: a twin reads its arguments by type.
    fn parameters(&self, _: FunctionHandle) -> Result<Option<Vec<usize>>> {
        Ok(None)
    }

    fn submit(&self, stream: StreamHandle, action: &Action<'_>) -> Result<()> {
        if self.capture_takes(stream, action)? {
            return Ok(());
        }
        match action {
            Action::Alloc { pool, bytes, memory } => {
                memory.set(Some(self.alloc(stream, *pool, *bytes)?));
                Ok(())
            }
            Action::Free(memory) => self.free(stream, memory),
            Action::Copy { dst, src, form } => {
                check_spans(dst, src)?;
                match form {
                    Form::Async => self.copy_async(stream, dst, src),
                    Form::Sync => self.copy_sync(stream, dst, src),
                }
            }
            Action::Batch { copies, order } => self.copy_batch(stream, copies, *order),
            Action::Fill { dst, value, form: Form::Async } => self.fill(stream, dst, *value),
            Action::Fill { dst, value, form: Form::Sync } => self.fill_sync(stream, dst, *value),
            Action::Launch(launch) => self.launch(stream, launch),
            Action::HostFn { run, touches } => self.host_fn(stream, run, touches),
            Action::Graph { graph, .. } => self.graph_launch(stream, *graph),
            Action::Foreign { work, .. } => {
                let cause =
                    format!("`{}` is work of another library; run it on a GPU", work.name());
                Err(Error::new(ErrorKind::NoTwin, "foreign work", cause))
            }
        }
    }
}

impl Pools for HostDriver {
    fn pool_create(&self, device: DeviceId, max: Bytes) -> Result<PoolHandle> {
        self.check_device("pool create", device)?;
        let mut state = self.enter();
        state.queues.check_lost(device)?;
        state.touch(Object::Pools, true);
        Ok(state.pools.create(device, max))
    }

    fn pool_destroy(&self, pool: PoolHandle) -> Result<()> {
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        state.pools.destroy(pool)
    }

    fn pool_default(&self, device: DeviceId) -> Result<PoolHandle> {
        self.check_device("default pool", device)?;
        Ok(self.enter().pools.default_of(device))
    }

    fn pool_current(&self, device: DeviceId) -> Result<PoolHandle> {
        self.check_device("current pool", device)?;
        let state = self.enter();
        state.touch(Object::Pools, false);
        Ok(state.pools.current_of(device))
    }

    fn pool_set_current(&self, device: DeviceId, pool: PoolHandle) -> Result<()> {
        self.check_device("set current pool", device)?;
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        state.pools.set_current(device, pool)
    }

    fn pool_get(&self, pool: PoolHandle, attribute: PoolAttribute) -> Result<u64> {
        let state = self.enter();
        let mut state = self.catch_up(state)?;
        state.touch(Object::Pools, false);
        let device = state.pools.home("pool attribute", pool)?;
        self.count_call(&mut state, Verb::PoolQuery, device)?;
        state.pools.attribute(pool, attribute)
    }

    fn pool_set(&self, pool: PoolHandle, attribute: PoolAttribute, value: u64) -> Result<()> {
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        state.pools.set_attribute(pool, attribute, value)
    }

    fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        let state = self.enter();
        let mut state = self.catch_up(state)?;
        state.touch(Object::Pools, true);
        let keeps_unseen = state.may(May::TrimKeepsUnseen);
        let state = &mut *state;
        state.pools.trim(&state.queues, pool, keep, keeps_unseen)
    }
}

impl Peers for HostDriver {
    fn pool_set_access(
        &self,
        pool: PoolHandle,
        device: DeviceId,
        access: PoolAccess,
    ) -> Result<()> {
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        state.pools.set_access(pool, device, access)
    }

    fn pool_access(&self, pool: PoolHandle, device: DeviceId) -> Result<PoolAccess> {
        let mut state = self.enter();
        state.touch(Object::Pools, false);
        state.pools.access(pool, device)
    }

    fn peer_possible(&self, device: DeviceId, peer: DeviceId) -> Result<bool> {
        self.check_device("peer access", device)?;
        self.check_device("peer access", peer)?;
        Ok(device != peer && self.config.links)
    }

    fn peer_enable(&self, device: DeviceId, peer: DeviceId) -> Result<()> {
        self.check_device("peer enable", device)?;
        self.check_device("peer enable", peer)?;
        if !self.config.links {
            let cause = format!("there is no link between {device} and {peer}");
            return Err(refuse::other("peer enable", 217, cause));
        }
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        state.pools.peer_enable(device, peer)
    }

    fn peer_disable(&self, device: DeviceId, peer: DeviceId) -> Result<()> {
        self.check_device("peer disable", device)?;
        self.check_device("peer disable", peer)?;
        let mut state = self.enter();
        state.touch(Object::Pools, true);
        state.pools.peer_disable(device, peer)
    }
}

impl Interop for HostDriver {
    fn stream_to_raw(&self, stream: StreamHandle) -> *mut c_void {
        number_to_raw(stream.0)
    }

    fn stream_from_raw(
        &self,
        device: DeviceId,
        raw: *mut c_void,
    ) -> Result<(StreamHandle, StreamKind)> {
        let op = "stream from raw";
        self.check_device(op, device)?;
        let stream = StreamHandle(raw.addr() as u64);
        let mut state = self.enter();
        let found = &mut *state;
        let slot = found.queues.resolve(op, stream, || found.baton.thread_key())?;
        let slot = &found.queues.slots[slot.index()];
        let kind = match slot.kind {
            Kind::NonBlocking => StreamKind::NonBlocking,
            Kind::Blocking => StreamKind::Blocking,
            Kind::Legacy => {
                return Err(refuse::value(
                    op,
                    "the handle is the legacy stream; open it with `Device::legacy_stream`",
                ));
            }
        };
        if slot.device != device {
            return Err(refuse::value(
                op,
                format!("the stream belongs to {}, not to {device}", slot.device),
            ));
        }
        Ok((stream, kind))
    }

    fn event_to_raw(&self, event: EventHandle) -> *mut c_void {
        number_to_raw(event.0)
    }

    fn event_from_raw(&self, _: DeviceId, raw: *mut c_void) -> EventHandle {
        EventHandle(raw.addr() as u64)
    }

    fn follow_device(&self, _: StreamHandle) -> Result<()> {
        Err(refuse::unsupported("follow device", "no other library enqueues on a host device"))
    }

    fn memory_from_raw(&self, space: Space, address: u64, bytes: Bytes) -> Result<Memory> {
        if let Space::Device(device) = space {
            self.check_device("memory from raw", device)?;
        }
        HostBytes::of_others(address, bytes.0)
            .map(|host| Memory::new(space, address, bytes.0, Some(host)))
            .ok_or_else(|| refuse::value("memory from raw", "the address is null"))
    }
}

impl Profiler for HostDriver {
    fn activity_begin(&self) -> Result<()> {
        self.shared.lock().queues.collector.begin()
    }

    fn activity_tag(&self, tag: Option<u64>) {
        activity::set_tag(tag);
    }

    fn activity_time(&self) -> Result<Nanos> {
        Ok(self.host_time())
    }

    fn activity_take(&self) -> Result<Activities> {
        self.shared.lock().queues.collector.take()
    }
}

impl Simulation for HostDriver {
    fn event_poll(&self, event: EventHandle) -> Result<PollProgress> {
        self.refuse_captured_event("event query", event)?;
        // The lock is kept until `advance`. Otherwise another thread could complete the remaining
        // operations, and `advance` would find nothing to do.
        let (state, incomplete) = self.query_event(event)?;
        let Some(point) = incomplete else { return Ok(PollProgress::Ready) };
        if matches!(state.run, HostRun::Threads(_)) {
            return Ok(PollProgress::Later);
        }
        self.advance("event poll", state, point)?;
        Ok(PollProgress::Again)
    }

    fn host_time(&self) -> Nanos {
        let state = self.shared.lock();
        match &state.run {
            HostRun::Threads(_) => self.shared.clock.now(),
            HostRun::Timed(simulation) => simulation.host_time(),
            HostRun::Stepped(stepper) => stepper.now(),
        }
    }

    fn script(&self, threads: Vec<Script<'_>>) {
        self.run_script(threads);
    }

    fn pause(&self) {
        self.pause_thread();
    }
}

impl Driver for HostDriver {
    fn profiler(&self) -> Option<&dyn Profiler> {
        Some(self)
    }

    fn simulation(&self) -> Option<&dyn Simulation> {
        Some(self)
    }
}

/// A handle of the host device in the form of a raw handle: a number in place of a pointer.
fn number_to_raw(number: u64) -> *mut c_void {
    without_provenance_mut(usize::try_from(number).unwrap_or(usize::MAX))
}
