//! Signals: how host threads and host functions hand over to each other so that the record has it.
//!
//! A channel or a lock would do as well for the program, but nothing of it is in the record, so that a
//! checker can neither count it as an order nor see that two wait for each other. A signal calls
//! nothing of the driver, so that a host function may set it and wait for it (law A28).
//!
//! A record also has who made, cloned, used and dropped each handle: a thread without one cannot set
//! the signal.
#![forbid(unsafe_code)]

use super::device::Device;
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::{Engine, Handled, Op, OpKind, Signalled};
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

/// Something that is set once, and that host threads and host functions wait for. Clones are the same
/// signal.
///
/// What the one who sets it had done before comes before what follows the wait: for the program, and
/// for the checker. It gives nothing to the order of streams beyond that; in particular it stands for
/// no work that is pending. For a hand-over that repeats, one signal goes along with each item.
///
/// After the loss of a context no host function is called (law A29), so a signal that one should set is
/// never set: where that may happen, wait with a limit. In the virtual executor a thread that waits
/// without limit keeps the others from running.
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
    shared: Arc<Shared>,
    /// Its number among the handles of the signal; of no meaning if nothing was recorded then.
    handle: u64,
    /// The thread or host function that used it last while something was recorded.
    user: AtomicU64,
}

struct Shared {
    number: u64,
    /// Handles that were numbered.
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
    /// A signal that is not set, and that is in the records of this device's driver.
    #[must_use]
    pub fn signal(&self) -> Signal {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let shared = self.shared();
        let signal = Shared {
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
    fn new(shared: Arc<Shared>, what: Handled) -> Self {
        let mut handle = 0;
        if shared.tracers.is_on() {
            handle = shared.handles.fetch_add(1, Ordering::Relaxed) + 1;
            shared.note_handle(handle, what);
        }
        Self { shared, handle, user: AtomicU64::new(0) }
    }

    /// The calling thread or host function uses this handle. A record has that when another one did
    /// last.
    fn note_use(&self) {
        if !self.shared.tracers.is_on() {
            return;
        }
        let user = match calling::running() {
            // Far from the numbers of threads.
            Some(at) => !at.position.pack(),
            None => thread::number(),
        };
        if self.user.swap(user, Ordering::Relaxed) != user {
            self.shared.note_handle(self.handle, Handled::Used);
        }
    }

    /// Sets it, for good. Whoever waits goes on.
    #[track_caller]
    pub fn set(&self) {
        self.note_use();
        let mut is_set = self.lock();
        // Under the lock: nobody finds it set before that is in the record.
        self.shared.note(Signalled::Set, Some(Location::caller()));
        *is_set = true;
        self.shared.waiters.notify_all();
    }

    /// Waits until it is set.
    #[track_caller]
    pub fn wait(&self) {
        let site = Location::caller();
        self.note_use();
        self.shared.note(Signalled::Wait, Some(site));
        let is_set = self.shared.waiters.wait_while(self.lock(), |is_set| !*is_set);
        drop(is_set.expect("no code panics under this lock"));
        self.shared.note(Signalled::Found, Some(site));
    }

    /// Waits until it is set, but no longer than `limit`; whether it is set. To the checker this is a
    /// wait like any other: one that can only give up is a deadlock. To ask there is
    /// [`Signal::is_set`].
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
    #[must_use = "it may have given up"]
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        let site = Location::caller();
        self.note_use();
        self.shared.note(Signalled::Wait, Some(site));
        let waited = self.shared.waiters.wait_timeout_while(self.lock(), limit, |is_set| !*is_set);
        let is_set = *waited.expect("no code panics under this lock").0;
        if is_set {
            self.shared.note(Signalled::Found, Some(site));
        }
        is_set
    }

    /// Whether it is set. Who learns that it is, follows who set it.
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

impl Shared {
    fn note(&self, what: Signalled, site: Option<&'static Location<'static>>) {
        let signal = self.number;
        self.append(site, |inside| OpKind::Signal { signal, what, inside });
    }

    fn note_handle(&self, handle: u64, what: Handled) {
        let signal = self.number;
        self.append(None, |inside| OpKind::Handle { signal, handle, what, inside });
    }

    /// Appends a record of this kind, made for the host function that runs on the thread.
    fn append(
        &self,
        site: Option<&'static Location<'static>>,
        kind: impl Fn(Option<Position>) -> OpKind,
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
            let op = Op::new(kind(inside), Engine::None, device, inside.unwrap_or(NOWHERE));
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

impl Drop for Shared {
    fn drop(&mut self) {
        if calling::forked() {
            return;
        }
        self.note(Signalled::Gone, None);
    }
}
