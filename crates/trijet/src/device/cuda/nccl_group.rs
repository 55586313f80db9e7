//! Communicators of NCCL, and the calls that enqueue their work.

use super::nccl::{
    ById, Config, Handle, IN_PROGRESS, Nccl, ResultCode, UniqueId, functions, unsupported,
};
use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The function of NCCL that executes a [`Call`]. Element types and operations are given by the
/// numbers of NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NcclVerb {
    AllReduce {
        operation: c_int,
    },
    Broadcast {
        root: usize,
    },
    Reduce {
        operation: c_int,
        root: usize,
    },
    /// Each device sends `count` elements.
    AllGather,
    /// Each device receives `count` elements.
    ReduceScatter {
        operation: c_int,
    },
    Send {
        to: usize,
    },
    Receive {
        from: usize,
    },
}

/// A call for one device. The call reads `count` elements at the address `from`, and writes to the
/// address `into`. An address that the function does not use is 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// The index of the device among the devices of this process.
    pub(crate) member: usize,
    pub(crate) verb: NcclVerb,
    pub(crate) from: u64,
    pub(crate) into: u64,
    pub(crate) count: usize,
    pub(crate) element: c_int,
}

/// The communicators of a group: one for each of its devices in this process.
#[derive(Debug)]
pub(crate) struct NcclGroup {
    nccl: &'static Nccl,
    /// NCCL writes the handle of a communicator when the communicator is ready. This may be long
    /// after the call that makes the communicator.
    communicators: Box<[AtomicPtr<c_void>]>,
    /// The error that every call returns once the communicators have ended; `None` before.
    ended: Option<Error>,
}

// SAFETY: NCCL allows calls on a communicator from any thread, one at a time. The functions of this
// file that use a communicator take `&mut self`. This does not hold if a later function takes
// `&self` and calls NCCL.
unsafe impl Send for NcclGroup {}

fn number(value: usize, what: &'static str) -> Result<c_int> {
    c_int::try_from(value).map_err(|_| {
        Error::new(
            ErrorKind::InvalidValue,
            "NCCL",
            format!("{what} {value} is more than NCCL can count"),
        )
    })
}

fn unset(count: usize) -> Box<[AtomicPtr<c_void>]> {
    (0..count).map(|_| AtomicPtr::new(null_mut())).collect()
}

impl Drop for NcclGroup {
    /// Communicators that were not ended leak. The memory of their handles leaks as well, because
    /// NCCL may still write to it.
    fn drop(&mut self) {
        if self.ended.is_none() {
            std::mem::forget(std::mem::take(&mut self.communicators));
        }
    }
}

impl NcclGroup {
    /// Makes one communicator for each of `devices`, which are numbers of devices of the driver.
    /// These devices are all devices of the group.
    pub(crate) fn new(devices: &[u32]) -> Result<Self> {
        let nccl = functions()?;
        let ordinals: Vec<c_int> = devices
            .iter()
            .map(|device| {
                c_int::try_from(*device)
                    .map_err(|_| unsupported("a device number is more than NCCL can count".into()))
            })
            .collect::<Result<_>>()?;
        let count = number(ordinals.len(), "devices")?;
        let mut handles = vec![null_mut(); ordinals.len()];
        // SAFETY: both arrays have `count` entries, and the call writes the array `handles`. NCCL
        // uses the primary contexts of the devices, as this library does.
        let code = unsafe { (nccl.init_all)(handles.as_mut_ptr(), count, ordinals.as_ptr()) };
        nccl.demand(code, "ncclCommInitAll")?;
        let communicators = handles.into_iter().map(AtomicPtr::new).collect();
        Ok(Self { nccl, communicators, ended: None })
    }

    /// Makes the identifier of a communicator of several processes. Only one of the processes calls
    /// this function.
    pub(crate) fn unique_id() -> Result<UniqueId> {
        let nccl = functions()?;
        let mut id = [0; 128];
        // SAFETY: the call writes the local variable `id`, which is as large as a `ncclUniqueId`.
        let code = unsafe { (nccl.unique_id)(&raw mut id) };
        nccl.demand(code, "ncclGetUniqueId")?;
        Ok(id)
    }

    /// Starts to make the communicator of this process for the device that is current. `rank` is
    /// the number of this process among `count` processes. The communicator can be used once
    /// [`NcclGroup::is_complete`] returns true.
    pub(crate) fn of_rank(id: UniqueId, rank: usize, count: usize) -> Result<Self> {
        let nccl = functions()?;
        let (rank, count) = (number(rank, "rank")?, number(count, "ranks")?);
        let mut config = Config::without_waits();
        let group = Self { nccl, communicators: unset(1), ended: None };
        let slot = group.communicators[0].as_ptr();
        // SAFETY: the call reads `config` before it returns. It writes the slot now or later, and
        // the other arguments are values. The slot lives until the communicator has ended, or for
        // ever. This does not hold if `drop` frees the slot before.
        let code = unsafe { (nccl.init_rank)(slot, count, ById(id), rank, &raw mut config) };
        nccl.demand(code, "ncclCommInitRankConfig")?;
        Ok(group)
    }

    /// Starts to make communicators of parts of the group. For each device of this process,
    /// `colors` has the number of the part, and `ranks` has the index of the device in the whole
    /// group. The devices of a part are ordered by this index.
    pub(crate) fn split(&mut self, colors: &[u32], ranks: &[usize]) -> Result<Vec<(u32, Self)>> {
        let nccl = self.nccl;
        let mut parts: Vec<(u32, Self)> = Vec::new();
        for color in colors {
            if parts.iter().all(|part| part.0 != *color) {
                let count = colors.iter().filter(|one| *one == color).count();
                parts.push((*color, Self { nccl, communicators: unset(count), ended: None }));
            }
        }
        self.grouped("ncclCommSplit", |group| {
            for (color, part) in &parts {
                let own = (0..colors.len()).filter(|at| colors[*at] == *color);
                for (at, slot) in own.zip(&part.communicators) {
                    let (color, key) =
                        (number(*color as usize, "part")?, number(ranks[at], "rank")?);
                    let (whole, slot) = (group.handle(at), slot.as_ptr());
                    // SAFETY: the communicator is live. The call writes the slot now or later. The
                    // slot lives until the new communicator has ended, or for ever, as in
                    // `of_rank`. Without a configuration, the new communicator has the
                    // configuration of the old one.
                    let code = unsafe { (nccl.split)(whole, color, key, slot, null_mut()) };
                    nccl.demand(code, "ncclCommSplit")?;
                }
            }
            Ok(())
        })?;
        Ok(parts)
    }

    fn handle(&self, at: usize) -> Handle {
        self.communicators[at].load(Ordering::Acquire)
    }

    /// Makes calls as one group of NCCL, which enqueues them when the group ends.
    fn grouped(
        &mut self,
        name: &'static str,
        calls: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.demand_live()?;
        // SAFETY: the call takes no pointer. The calls of a group are enqueued when the group ends.
        let begun = unsafe { (self.nccl.begin)() };
        self.nccl.demand(begun, "ncclGroupStart")?;
        let outcome = calls(self);
        // SAFETY: the call takes no pointer. A group that has started must end, even after an
        // error.
        let ended = unsafe { (self.nccl.end)() };
        outcome?;
        self.nccl.demand(ended, name)
    }

    /// Enqueues the calls as one group, each in the stream of its device.
    ///
    /// # Safety
    /// - Each address has as many elements as its call states.
    /// - From now until the work in the stream is complete, other code uses these elements only as
    ///   NCCL allows.
    /// - Each stream is a live stream of its device.
    pub(crate) unsafe fn run(&mut self, calls: &[Call], streams: &[*mut c_void]) -> Result<()> {
        self.grouped("ncclGroupEnd", |group| {
            for call in calls {
                let (communicator, stream) = (group.handle(call.member), streams[call.member]);
                // SAFETY: our caller vouches for the memory and the stream.
                let code = unsafe { group.call(call, communicator, stream) }?;
                group.nccl.demand(code, "a call of NCCL")?;
            }
            Ok(())
        })
    }

    /// # Safety
    /// As for [`NcclGroup::run`].
    unsafe fn call(&self, call: &Call, on: Handle, stream: *mut c_void) -> Result<ResultCode> {
        let (from, into) = (call.from as *const c_void, call.into as *mut c_void);
        let (nccl, count, element) = (self.nccl, call.count, call.element);
        Ok(match call.verb {
            NcclVerb::AllReduce { operation } => {
                // SAFETY: our caller vouches for the memory and the stream. The communicator is
                // live, because only functions with `&mut self` end it.
                unsafe { (nccl.all_reduce)(from, into, count, element, operation, on, stream) }
            }
            NcclVerb::Broadcast { root } => {
                let root = number(root, "rank")?;
                // SAFETY: memory, stream and communicator as for `all_reduce`. The addresses `from`
                // and `into` are equal. The root only reads the memory.
                unsafe { (nccl.broadcast)(from, into, count, element, root, on, stream) }
            }
            NcclVerb::Reduce { operation, root } => {
                let root = number(root, "rank")?;
                // SAFETY: memory, stream and communicator as for `all_reduce`. Only the root writes
                // at `into`, which is null on the other ranks.
                unsafe { (nccl.reduce)(from, into, count, element, operation, root, on, stream) }
            }
            NcclVerb::AllGather => {
                // SAFETY: memory, stream and communicator as for `all_reduce`. The memory at `into`
                // has room for the elements of all ranks.
                unsafe { (nccl.all_gather)(from, into, count, element, on, stream) }
            }
            NcclVerb::ReduceScatter { operation } => {
                // SAFETY: memory, stream and communicator as for `all_reduce`. The memory at `from`
                // has the elements for all ranks.
                unsafe { (nccl.reduce_scatter)(from, into, count, element, operation, on, stream) }
            }
            NcclVerb::Send { to } => {
                let to = number(to, "rank")?;
                // SAFETY: memory, stream and communicator as for `all_reduce`. The call only reads
                // the memory.
                unsafe { (nccl.send)(from, count, element, to, on, stream) }
            }
            NcclVerb::Receive { from } => {
                let from = number(from, "rank")?;
                // SAFETY: memory, stream and communicator as for `all_reduce`. The call writes
                // `count` elements.
                unsafe { (nccl.receive)(into, count, element, from, on, stream) }
            }
        })
    }

    /// Whether NCCL has finished all calls so far. When NCCL has finished a call, the work of the
    /// call is enqueued. Only calls of a group from [`NcclGroup::of_rank`], or of a part of such a
    /// group, can be unfinished when they return.
    ///
    /// # Errors
    /// The error of a call, or of work that was enqueued.
    pub(crate) fn is_complete(&mut self) -> Result<bool> {
        self.demand_live()?;
        let mut is_complete = true;
        for at in 0..self.communicators.len() {
            let (handle, mut state) = (self.handle(at), 0);
            if handle.is_null() {
                is_complete = false;
                continue;
            }
            // SAFETY: the communicator is live; the call writes the local variable `state`.
            let code = unsafe { (self.nccl.async_error)(handle, &raw mut state) };
            self.nccl.demand(code, "ncclCommGetAsyncError")?;
            self.nccl.demand(state, "an earlier call")?;
            is_complete &= state != IN_PROGRESS;
        }
        Ok(is_complete)
    }

    fn demand_live(&self) -> Result<()> {
        self.ended.as_ref().map_or(Ok(()), |error| Err(error.again()))
    }

    /// Ends the communicators. The caller makes sure that no work is pending, because NCCL would
    /// wait for the work.
    pub(crate) fn destroy(&mut self) {
        self.end(
            Error::new(ErrorKind::Closed, "NCCL", "the communicator is closed"),
            self.nccl.destroy,
        );
    }

    /// Ends the communicators and their pending work. The results of the pending work are
    /// undefined. Later calls return `why`.
    pub(crate) fn abort(&mut self, why: &Error) {
        self.end(why.again(), self.nccl.abort);
    }

    fn end(&mut self, why: Error, call: unsafe extern "C" fn(Handle) -> ResultCode) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(why);
        for slot in &self.communicators {
            let handle = slot.swap(null_mut(), Ordering::AcqRel);
            if handle.is_null() {
                continue;
            }
            // SAFETY: the communicator is live and leaves its slot with this call, which is
            // `ncclCommDestroy` or `ncclCommAbort`. If the call is refused, the communicator leaks.
            let _code = unsafe { call(handle) };
        }
    }
}
