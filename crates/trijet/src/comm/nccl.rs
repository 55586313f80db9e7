//! Collectives by NCCL, as operations of the streams of a communicator.
//!
//! One call enqueues work in the streams of all devices of this process. The work in each stream is
//! an operation that declares the memory of its device, so the work is ordered like all other
//! operations. The function of one operation enqueues the next operation. The function of the last
//! operation calls NCCL. Before this call, the waits of all streams are enqueued.
//!
//! Between processes, calls of NCCL do not block. This library queries NCCL until the calls are
//! enqueued. If the group of processes ends, the thread that notices the end first marks the device
//! as lost. Another thread then aborts the communicator.

use super::exchange::DeviceMessage;
use super::mail::Mail;
use super::member::Member;
use super::team::Team;
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::cuda::{NcclCall, NcclGroup, NcclVerb};
use crate::device::driver::{Collective, Readiness};
use crate::kernels::NcclNames;
use crate::memory::{Element, Uses, View, ViewMut};
use crate::ranks::Ranks;
use crate::ranks::group::{BEAT, Dependent};
use crate::stream::foreign::capture;
use crate::stream::{Device, Event};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

/// The number of `ncclUint8`, the element type for bytes.
const BYTES: i32 = 1;
/// The time for which the library queries without a pause whether a call of NCCL is enqueued. Most
/// calls are enqueued within this time.
const SPIN: Duration = Duration::from_micros(200);
/// The pause between two queries after [`SPIN`].
const PAUSE: Duration = Duration::from_micros(100);
/// Maximum time to wait until another thread has aborted a communicator. The abort waits for the
/// device.
const ABORT_MAX: Duration = Duration::from_secs(5);
/// Maximum number of collectives that have an event and that the device has not reached. The event
/// of a collective shows when the device reaches the collective.
const NOTED_MAX: usize = 1000;

/// The communicators of NCCL. One thread at a time uses them.
#[derive(Debug)]
pub(super) struct Nccl {
    group: Mutex<NcclGroup>,
    /// The state of this process in a communicator of several processes; `None` within one process.
    side: Option<ProcessSide>,
    /// Whether a graph contains work of NCCL. The end of a communicator would wait until no such
    /// graph exists.
    is_captured: AtomicBool,
}

/// The state of this process in a communicator of several processes.
#[derive(Debug)]
struct ProcessSide {
    ranks: Arc<Ranks>,
    channel: u64,
    device: Device,
    /// Collectives that the device has not reached, in ascending order of their numbers. Each entry
    /// has the number of a collective, and an event before the work of the collective.
    coming: Mutex<VecDeque<(u64, Event)>>,
    /// The number of collectives that the device has reached.
    reached: AtomicU64,
    is_aborted: Mutex<bool>,
    aborted: Condvar,
}

/// A collective, with the number of earlier collectives of the communicator.
#[derive(Debug, Clone, Copy)]
struct NumberedCall {
    collective: Collective,
    number: u64,
}

/// The work of a device in a collective.
struct DevicePart<'a> {
    uses: Uses<'a>,
    calls: Vec<NcclCall>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `run` with the context of a device, as work of another library.
fn foreign<R>(member: &Member, run: impl FnOnce() -> Result<R>) -> Result<R> {
    // SAFETY: `run` enqueues no work, because the callers below only make communicators.
    unsafe { member.kernels.foreign("NCCL", Uses::new(), |_| run()) }
}

impl ProcessSide {
    fn new(member: &Member, mail: &Mail) -> Self {
        Self {
            ranks: Arc::clone(&mail.group),
            channel: mail.channel,
            device: member.device.clone(),
            coming: Mutex::default(),
            reached: AtomicU64::new(0),
            is_aborted: Mutex::new(false),
            aborted: Condvar::new(),
        }
    }
}

impl ProcessSide {
    /// Records an event before the work of the collective `number`.
    fn note(&self, number: u64, member: &Member) -> Result<()> {
        let event = self.device.event()?;
        event.record(&member.kernels)?;
        let mut coming = locked(&self.coming);
        if coming.len() == NOTED_MAX {
            // The new event replaces the event of the collective before. If the newest collective
            // had no event, rank 0 would conclude that the device is late.
            coming.pop_back();
        }
        coming.push_back((number, event));
        Ok(())
    }

    /// Queries the events of collectives in the order of the collectives, and notes the number of
    /// collectives that the device has reached.
    fn look(&self) {
        let mut coming = locked(&self.coming);
        while let Some((number, event)) = coming.front()
            && matches!(event.query(), Ok(Readiness::Ready))
        {
            // `number` is counted from 0, and `reached` is a number of collectives.
            self.reached.store(number + 1, Ordering::Relaxed);
            coming.pop_front();
        }
    }
}

/// Notes again and again which collectives the device has reached, until the group ends. A separate
/// thread calls this function, because a query may wait for other calls of the driver, and
/// heartbeats must not wait.
fn watch(nccl: &Weak<Nccl>) {
    while let Some(nccl) = nccl.upgrade() {
        let Some(side) = nccl.side.as_ref().filter(|side| !side.ranks.0.is_losing()) else {
            return;
        };
        side.look();
        drop(nccl);
        park_timeout(BEAT);
    }
}

impl Dependent for Nccl {
    fn reached(&self) -> (u64, u64) {
        let of = |side: &ProcessSide| (side.channel, side.reached.load(Ordering::Relaxed));
        self.side.as_ref().map_or((0, 0), of)
    }

    fn lose(&self, error: &Error) {
        if let Some(ProcessSide { device, .. }) = &self.side {
            device.shared().domain.lose(device.id(), error);
        }
    }

    fn abort(&self, error: &Error) {
        locked(&self.group).abort(error);
        if let Some(side) = &self.side {
            *locked(&side.is_aborted) = true;
            side.aborted.notify_all();
        }
    }
}

impl Nccl {
    pub(super) fn new(members: &[Member]) -> Result<Self> {
        for member in members {
            let allowed = foreign(member, || Ok(()));
            allowed
                .map_err(|error| error.context("a communicator without `nccl()` needs no NCCL"))?;
        }
        let devices: Vec<u32> = members.iter().map(|member| member.device.id().0).collect();
        Ok(Self::of(NcclGroup::new(&devices)?, None))
    }

    fn of(group: NcclGroup, side: Option<ProcessSide>) -> Self {
        Self { group: Mutex::new(group), side, is_captured: AtomicBool::new(false) }
    }

    /// Opens the communicator of this process. If NCCL fails on one rank, all ranks return an
    /// error.
    pub(super) fn of_rank(member: &Member, mail: &Mail) -> Result<Arc<Self>> {
        let rank = mail.rank();
        let named = foreign(member, NcclGroup::unique_id)
            .map_err(|error| error.context("a communicator without `nccl()` needs no NCCL"));
        let said = match &named {
            Ok(id) => [&[1], &id[..]].concat(),
            Err(error) => [&[0], error.to_string().as_bytes()].concat(),
        };
        let all = mail.gather(&said)?;
        named?;
        if let Some((other, said)) = all.iter().enumerate().find(|(_, said)| said[..1] != [1]) {
            let cause = format!("rank {other}: {}", String::from_utf8_lossy(&said[1..]));
            return Err(Error::new(ErrorKind::Unsupported, "NCCL", cause));
        }
        let id = all[0][1..].try_into().map_err(|_| {
            Error::new(
                ErrorKind::InvalidValue,
                "NCCL",
                "the bytes that rank 0 sent are not an id of an NCCL communicator",
            )
        })?;
        let group = foreign(member, || NcclGroup::of_rank(id, rank, mail.processes.len()))?;
        Self::attached(group, ProcessSide::new(member, mail))
    }

    /// Adds the communicator to the group, and waits until NCCL has opened the communicator.
    fn attached(group: NcclGroup, side: ProcessSide) -> Result<Arc<Self>> {
        let nccl = Arc::new(Self::of(group, Some(side)));
        if let Some(side) = &nccl.side {
            side.ranks.0.attach(&nccl);
            let watched = Arc::downgrade(&nccl);
            let thread = std::thread::Builder::new().name("trijet-watch".to_owned());
            let started = thread.spawn(move || watch(&watched));
            started.map_err(|error| {
                let cause = format!("a thread cannot be started: {error}");
                Error::new(ErrorKind::Io, "communicator", cause).caused_by(error)
            })?;
        }
        nccl.with(|group| nccl.settle(group))?;
        Ok(nccl)
    }

    /// Opens the communicators of the parts, in ascending order of the numbers of the parts. For
    /// each part, `mails` has the connection to other processes.
    pub(super) fn split(
        &self,
        members: &[Member],
        parts: &[u32],
        ranks: &[usize],
        mails: &[Option<&Mail>],
    ) -> Result<Vec<Arc<Self>>> {
        let mut split = self.with(|group| {
            let split = foreign(&members[0], || group.split(parts, ranks))?;
            self.settle(group)?;
            Ok(split)
        })?;
        split.sort_unstable_by_key(|part| part.0);
        split
            .into_iter()
            .zip(mails)
            .map(|((_, group), mail)| match mail {
                Some(mail) => Self::attached(group, ProcessSide::new(&members[0], mail)),
                None => Ok(Arc::new(Self::of(group, None))),
            })
            .collect()
    }

    /// Calls `calls`, which makes calls of NCCL. If they do not complete in time, the group of
    /// processes ends.
    fn with<R>(&self, calls: impl FnOnce(&mut NcclGroup) -> Result<R>) -> Result<R> {
        let outcome = calls(&mut locked(&self.group));
        // The lock is released here, because the end of the group aborts the communicators, and
        // an abort takes this lock.
        match (&self.side, outcome) {
            (Some(ProcessSide { ranks, .. }), Err(error))
                if error.kind() == ErrorKind::PeerLost =>
            {
                ranks.0.lose(error.to_string());
                Err(ranks.failure().unwrap_or(error))
            }
            // NCCL may notice the end of another process before this library does. The error of
            // NCCL does not name the process, so `unfit` first waits for an error of the group.
            (Some(ProcessSide { ranks, .. }), Err(error)) if error.kind() == ErrorKind::Driver => {
                let (rank, count) = (ranks.rank(), ranks.count());
                Err(ranks.0.unfit(format!("on rank {rank} of {count}: {error}")))
            }
            (_, outcome) => outcome,
        }
    }

    /// Queries NCCL until all calls so far are enqueued.
    fn settle(&self, group: &mut NcclGroup) -> Result<()> {
        let since = Instant::now();
        while !group.is_complete()? {
            let Some(ProcessSide { ranks, .. }) = &self.side else { continue };
            if let Some(error) = ranks.failure() {
                return Err(error);
            }
            let (rank, count, timeout) = (ranks.rank(), ranks.count(), ranks.timeout());
            if since.elapsed() > timeout {
                let cause =
                    format!("a call of rank {rank} of {count} is not complete after {timeout:?}");
                return Err(Error::new(ErrorKind::PeerLost, "NCCL", cause));
            }
            match since.elapsed() < SPIN {
                true => std::hint::spin_loop(),
                false => park_timeout(PAUSE),
            }
        }
        Ok(())
    }

    /// Enqueues a collective. `parts` has the work of each device of this process.
    #[track_caller]
    fn run(&self, team: &Team<'_>, call: NumberedCall, parts: Vec<DevicePart<'_>>) -> Result<()> {
        let (mut uses, mut calls) = (Vec::new(), Vec::new());
        for part in parts {
            uses.push(part.uses);
            calls.extend(part.calls);
        }
        if let Some(first) = team.members.first().filter(|first| first.kernels.is_recorded()) {
            let devices: Vec<Device> =
                team.members.iter().map(|member| member.device.clone()).collect();
            self.is_captured.store(true, Ordering::Relaxed);
            let captured = self.with(|group| {
                capture(&devices, |streams| {
                    // SAFETY: each call uses the memory of a view that this operation declares, as
                    // in the other call of `run` below. This memory is an argument of the graph or
                    // memory of the graph. The graph refuses other memory, so the memory is alive
                    // in each launch.
                    unsafe { group.run(&calls, streams) }
                })
            })?;
            return first.kernels.record_captured(captured, call.collective.name(), &uses);
        }
        let mut streams = Vec::with_capacity(team.members.len());
        self.with(|group| {
            self.settle(group)?;
            nested(
                call.collective,
                team.members,
                &mut uses.into_iter(),
                &mut streams,
                &mut |streams| {
                    if let Some(side) = &self.side {
                        side.note(call.number, &team.members[0])?;
                    }
                    // SAFETY: each call uses the memory that the enclosing operation declares. The
                    // number of elements is right, because `Communicator` compared the lengths.
                    // This does not hold if a call has an address or a length that no declared view
                    // has. It does not hold either if NCCL's type is larger than the element; the
                    // type of `Reduction::NCCL` excludes this. The streams live as long as the
                    // members.
                    unsafe { group.run(&calls, streams) }?;
                    self.settle(group)
                },
            )
        })
    }

    #[track_caller]
    pub(super) fn all_reduce<T: Element>(
        &self,
        team: &Team<'_>,
        number: u64,
        NcclNames { element, operation, .. }: NcclNames<T>,
        data: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        let part = |(member, data): (usize, &mut ViewMut<'_, T>)| {
            let (from, count) = (data.address(), data.len());
            let verb = NcclVerb::AllReduce { operation };
            NcclCall { member, verb, from, into: from, count, element }
        };
        let calls: Vec<_> = data.iter_mut().enumerate().map(part).collect();
        let parts = data
            .iter_mut()
            .zip(calls)
            .map(|(data, call)| DevicePart { uses: Uses::new().update(data), calls: vec![call] });
        self.run(team, NumberedCall { collective: Collective::AllReduce, number }, parts.collect())
    }

    #[track_caller]
    pub(super) fn broadcast<T: Element>(
        &self,
        team: &Team<'_>,
        root: usize,
        number: u64,
        data: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        let at = team.local(root);
        let parts = data.iter_mut().enumerate().map(|(member, data)| {
            let (from, count) = (data.address(), data.len() * size_of::<T>());
            let verb = NcclVerb::Broadcast { root };
            let call = NcclCall { member, verb, from, into: from, count, element: BYTES };
            let uses = match at == Some(member) {
                true => Uses::new().read(&*data),
                false => Uses::new().write(data),
            };
            DevicePart { uses, calls: vec![call] }
        });
        self.run(team, NumberedCall { collective: Collective::Broadcast, number }, parts.collect())
    }

    #[track_caller]
    pub(super) fn reduce<T: Element>(
        &self,
        team: &Team<'_>,
        root: usize,
        number: u64,
        NcclNames { element, operation, .. }: NcclNames<T>,
        from: &[View<'_, T>],
        into: &mut [Option<ViewMut<'_, T>>],
    ) -> Result<()> {
        let parts = from.iter().zip(into).enumerate().map(|(member, (from, into))| {
            let verb = NcclVerb::Reduce { operation, root };
            let result = into.as_ref().map_or(0, ViewMut::address);
            let (address, count) = (from.address(), from.len());
            let call = NcclCall { member, verb, from: address, into: result, count, element };
            let uses = Uses::new().read(from);
            let uses = match into {
                Some(into) => uses.write(into),
                None => uses,
            };
            DevicePart { uses, calls: vec![call] }
        });
        self.run(team, NumberedCall { collective: Collective::Reduce, number }, parts.collect())
    }

    /// Runs a collective that reads one view and writes another view on each device.
    #[track_caller]
    fn moved<T: Element>(
        &self,
        team: &Team<'_>,
        call: NumberedCall,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
        calls: impl Fn(usize, u64, u64) -> Vec<NcclCall>,
    ) -> Result<()> {
        let parts = from.iter().zip(into).enumerate().map(|(member, (from, into))| {
            let calls = calls(member, from.address(), into.address());
            DevicePart { uses: Uses::new().read(from).write(into), calls }
        });
        self.run(team, call, parts.collect())
    }

    #[track_caller]
    pub(super) fn all_gather<T: Element>(
        &self,
        team: &Team<'_>,
        number: u64,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        let count = from[0].len() * size_of::<T>();
        self.moved(
            team,
            NumberedCall { collective: Collective::AllGather, number },
            from,
            into,
            |member, from, into| {
                vec![NcclCall {
                    member,
                    verb: NcclVerb::AllGather,
                    from,
                    into,
                    count,
                    element: BYTES,
                }]
            },
        )
    }

    #[track_caller]
    pub(super) fn reduce_scatter<T: Element>(
        &self,
        team: &Team<'_>,
        number: u64,
        NcclNames { element, operation, .. }: NcclNames<T>,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        let (count, verb) = (into[0].len(), NcclVerb::ReduceScatter { operation });
        self.moved(
            team,
            NumberedCall { collective: Collective::ReduceScatter, number },
            from,
            into,
            |member, from, into| vec![NcclCall { member, verb, from, into, count, element }],
        )
    }

    #[track_caller]
    pub(super) fn all_to_all<T: Element>(
        &self,
        team: &Team<'_>,
        number: u64,
        from: &[View<'_, T>],
        into: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        let count = from[0].len() / team.count * size_of::<T>();
        self.moved(
            team,
            NumberedCall { collective: Collective::AllToAll, number },
            from,
            into,
            |member, from, into| {
                let call = |rank: usize, verb| {
                    let by = (rank * count) as u64;
                    NcclCall {
                        member,
                        verb,
                        from: from + by,
                        into: into + by,
                        count,
                        element: BYTES,
                    }
                };
                let both = |rank| {
                    [
                        call(rank, NcclVerb::Send { to: rank }),
                        call(rank, NcclVerb::Receive { from: rank }),
                    ]
                };
                (0..team.count).flat_map(both).collect()
            },
        )
    }

    /// Sends messages. Each message has the rank of its sender and the rank of its receiver.
    #[track_caller]
    pub(super) fn exchange<T: Element>(
        &self,
        team: &Team<'_>,
        number: u64,
        out: &[DeviceMessage<View<'_, T>>],
        inward: &mut [DeviceMessage<ViewMut<'_, T>>],
    ) -> Result<()> {
        let empty = |_: &Member| DevicePart { uses: Uses::new(), calls: Vec::new() };
        let mut parts: Vec<DevicePart<'_>> = team.members.iter().map(empty).collect();
        let bytes = |len: usize| len * size_of::<T>();
        for DeviceMessage { from, to, data } in out {
            let (member, count) = (*from - team.first, bytes(data.len()));
            let part = &mut parts[member];
            part.uses = std::mem::take(&mut part.uses).read(data);
            let (verb, from) = (NcclVerb::Send { to: *to }, data.address());
            part.calls.push(NcclCall { member, verb, from, into: 0, count, element: BYTES });
        }
        for DeviceMessage { from, to, data } in inward {
            let (member, count) = (*to - team.first, bytes(data.len()));
            let part = &mut parts[member];
            let (verb, into) = (NcclVerb::Receive { from: *from }, data.address());
            part.calls.push(NcclCall { member, verb, from: 0, into, count, element: BYTES });
            part.uses = std::mem::take(&mut part.uses).write(data);
        }
        self.run(team, NumberedCall { collective: Collective::Exchange, number }, parts)
    }

    /// After the end of the group, waits up to [`ABORT_MAX`] until another thread has aborted the
    /// communicator. NCCL may crash a process that exits during the abort.
    pub(super) fn end(&self) {
        let Some(side) = self.side.as_ref().filter(|side| side.ranks.0.is_losing()) else { return };
        let pending = |is_aborted: &mut bool| !*is_aborted;
        drop(side.aborted.wait_timeout_while(locked(&side.is_aborted), ABORT_MAX, pending));
    }

    /// Ends the communicators of NCCL if no work is pending and no graph contains work of NCCL.
    /// Otherwise leaks the communicators, because their end would wait for this work.
    pub(super) fn close(&self, members: &[Member]) {
        let is_done = |member: &Member| matches!(member.kernels.query(), Ok(Readiness::Ready));
        if !self.is_captured.load(Ordering::Relaxed) && members.iter().all(is_done) {
            locked(&self.group).destroy();
        }
    }
}

/// Enqueues one operation in the stream of each member. The function of each operation enqueues the
/// next operation. The function of the last operation calls `run`.
#[track_caller]
fn nested<'a>(
    collective: Collective,
    members: &[Member],
    uses: &mut impl Iterator<Item = Uses<'a>>,
    streams: &mut Vec<*mut c_void>,
    run: &mut dyn FnMut(&[*mut c_void]) -> Result<()>,
) -> Result<()> {
    let (Some((member, members)), Some(own)) = (members.split_first(), uses.next()) else {
        return run(streams);
    };
    let inner = |stream| {
        streams.push(stream);
        nested(collective, members, uses, streams, run)
    };
    // SAFETY: the innermost call of `nested` enqueues NCCL's work for this stream in this stream.
    // NCCL accesses no memory of this library except the memory of `own`. This does not hold if a
    // call uses memory that `uses` does not declare.
    unsafe { member.kernels.foreign(collective, own, inner) }
}
