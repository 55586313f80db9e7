//! Signals: one-shot flags. A host thread or host function sets a signal to let another host thread
//! or host function continue.
//!
//! A channel or a lock could do the same, but its uses would have no entries in the ledger. The
//! checker could then neither treat the hand-over as an order nor find two threads that wait for
//! each other. A signal calls no function of the driver, so a host function may set it and wait for
//! it (law A28).
//!
//! The ledger also names the thread that makes, clones, uses and drops each handle. A thread
//! without a handle cannot set the signal, so the checker knows which threads can still set the
//! signal.
#![forbid(unsafe_code)]

use super::device::Device;
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::{Engine, Handled, Op, SignalStep, Signalled};
use crate::log::entry::calls_in;
use crate::log::names::NOWHERE;
use crate::log::tracers::Tracers;
use crate::log::{calling, thread};
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// A one-shot flag that host threads and host functions set and wait for. Clones are handles of the
/// same signal.
///
/// Everything that a thread does before it sets the signal happens before everything that another
/// thread does after it has waited for the signal. The checker uses this order too. A signal adds
/// nothing else to the order of streams. In particular, a signal does not stand for pending work.
/// To hand over several items one after another, send a new signal with each item.
///
/// After a context loss no host function is called (law [A29](crate::laws#a29)). So a signal that a
/// host function should set is never set. If a loss is possible, use [`Signal::wait_timeout`]. In
/// the virtual executor, a thread that waits without a limit keeps the other threads from running.
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let stream = device.stream()?;
/// let uploaded = device.signal();
/// let (h, mut x) = (device.pinned::<u8>(64)?, stream.alloc::<u8>(64)?);
/// stream.copy(&h, &mut x)?;
/// let sets = uploaded.clone();
/// stream.host_fn(move || sets.set())?;
/// uploaded.wait();
/// assert!(uploaded.is_set());
/// # Ok::<(), trijet::Error>(())
/// ```
pub struct Signal {
    shared: Arc<SignalShared>,
    /// The number of this handle among the handles of the signal; 0 if no tracer was attached when
    /// the handle was created.
    handle: u64,
    /// The last user of this handle while a tracer was attached: the number of a thread, or the
    /// complement of the position of a host function. 0 without such a user.
    user: AtomicU64,
}

struct SignalShared {
    number: u64,
    /// The number of handles that were created while a tracer was attached. These handles are
    /// numbered from 1.
    handles: AtomicU64,
    device: DeviceId,
    tracers: Arc<Tracers>,
    is_set: Mutex<bool>,
    waiters: Condvar,
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("number", &self.shared.number).finish_non_exhaustive()
    }
}

impl Device {
    /// A new signal, which is not set. Traces of this device's driver have entries about the calls
    /// of the signal.
    #[must_use]
    pub fn signal(&self) -> Signal {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let shared = self.shared();
        let signal = SignalShared {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            handles: AtomicU64::new(0),
            device: shared.id,
            tracers: Arc::clone(&shared.domain.log().tracers),
            is_set: Mutex::new(false),
            waiters: Condvar::new(),
        };
        Signal::new(Arc::new(signal), Handled::Made)
    }
}

impl Clone for Signal {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared), Handled::Cloned)
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.shared.note_handle(self.handle, Handled::Dropped);
    }
}

impl Signal {
    fn new(shared: Arc<SignalShared>, what: Handled) -> Self {
        let mut handle = 0;
        if shared.tracers.is_on() {
            handle = shared.handles.fetch_add(1, Ordering::Relaxed) + 1;
            shared.note_handle(handle, what);
        }
        Self { shared, handle, user: AtomicU64::new(0) }
    }

    /// Appends an entry, unless the last user of this handle was the calling thread or host
    /// function.
    fn note_use(&self) {
        if !self.shared.tracers.is_on() {
            return;
        }
        let user = match calling::running() {
            // The complement of a position is a large number, and numbers of threads are small. So
            // a host function and a thread never have equal numbers.
            Some(at) => !at.position.pack(),
            None => thread::number(),
        };
        if self.user.swap(user, Ordering::Relaxed) != user {
            self.shared.note_handle(self.handle, Handled::Used);
        }
    }

    /// Sets the signal. A signal cannot be reset. All threads that wait for the signal continue.
    #[track_caller]
    pub fn set(&self) {
        self.note_use();
        let mut is_set = self.lock();
        // The lock is held, so that no thread finds the signal set before the entry about the call
        // is in the ledger.
        self.shared.note(Signalled::Set, Some(Location::caller()));
        *is_set = true;
        self.shared.waiters.notify_all();
    }

    /// Waits until the signal is set.
    #[track_caller]
    pub fn wait(&self) {
        let site = Location::caller();
        self.note_use();
        self.shared.note(Signalled::Wait, Some(site));
        let is_set = self.shared.waiters.wait_while(self.lock(), |is_set| !*is_set);
        drop(is_set.expect("no code panics under this lock"));
        self.shared.note(Signalled::Found, Some(site));
    }

    /// Waits until the signal is set, but no longer than `limit`. Returns whether the signal is
    /// set. The checker warns of a wait that can end only by its limit. To test a signal without
    /// waiting, use [`Signal::is_set`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use trijet::{Device, Select};
    /// let signal = Device::open(Select::Host(0))?.signal();
    /// assert!(!signal.wait_timeout(Duration::ZERO));
    /// signal.set();
    /// assert!(signal.wait_timeout(Duration::ZERO));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[track_caller]
    #[must_use = "the wait may have reached its limit"]
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        let site = Location::caller();
        self.note_use();
        self.shared.note(Signalled::LimitedWait, Some(site));
        let waited = self.shared.waiters.wait_timeout_while(self.lock(), limit, |is_set| !*is_set);
        let is_set = *waited.expect("no code panics under this lock").0;
        if is_set {
            self.shared.note(Signalled::Found, Some(site));
        }
        is_set
    }

    /// Whether the signal is set. If true, everything that another thread did before it set the
    /// signal happens before everything that the calling thread does next.
    #[track_caller]
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.note_use();
        let is_set = *self.lock();
        if is_set {
            self.shared.note(Signalled::Found, Some(Location::caller()));
        }
        is_set
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.shared.is_set.lock().expect("no code panics under this lock")
    }
}

impl SignalShared {
    fn note(&self, what: Signalled, site: Option<&'static Location<'static>>) {
        let signal = self.number;
        self.append(site, |inside| SignalStep::Use { signal, what, inside });
    }

    fn note_handle(&self, handle: u64, what: Handled) {
        let signal = self.number;
        self.append(None, |inside| SignalStep::Handle { signal, handle, what, inside });
    }

    /// Appends an entry to every ledger. If the thread runs a host function, the entry belongs to
    /// that host function.
    fn append(
        &self,
        site: Option<&'static Location<'static>>,
        step: impl Fn(Option<Position>) -> SignalStep,
    ) {
        if !self.tracers.is_on() || calling::forked() {
            return;
        }
        let running = calling::running();
        let inside = running.map(|at| at.position);
        if running.is_none() {
            calls_in(&self.tracers);
        }
        self.tracers.note(|| {
            let device = running.map_or(self.device, |at| at.device);
            let op = Op::new(step(inside), Engine::None, device, inside.unwrap_or(NOWHERE));
            Op {
                stream: running.map_or(op.stream, |at| at.class),
                label: Cow::Borrowed("signal"),
                site: site.map(Into::into),
                thread: thread::number(),
                ..op
            }
        });
    }
}

impl Drop for SignalShared {
    fn drop(&mut self) {
        if calling::forked() {
            return;
        }
        self.note(Signalled::Gone, None);
    }
}
