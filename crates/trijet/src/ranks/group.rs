//! The state that the threads of a rank share, and the work of these threads with the frames of
//! other ranks.
//!
//! One thread per connection reads frames. One more thread sends heartbeats; on rank 0, this thread
//! also ends calls that a rank does not make in time. The first loss of a rank is kept. Rank 0
//! reports this loss to all other ranks, and each later call of a rank returns the loss as its
//! error.
#![forbid(unsafe_code)]

use super::frames::{Answer, Call, Frame};
use super::join::ProcessRank;
use super::steps::{Step, Steps, named};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::fork;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind as Kind};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The time between two heartbeats. The shortest timeout is five times as long.
pub(crate) const BEAT: Duration = Duration::from_millis(200);
/// A rank waits up to the timeout plus this time for an answer of rank 0. So rank 0 can report
/// which rank is late before the wait ends.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// An object that ends with the group: a communicator.
pub(crate) trait Dependent: Send + Sync + std::fmt::Debug {
    /// The channel of the communicator, and the number of collectives that its device has reached.
    fn reached(&self) -> (u64, u64);
    /// Marks the device of the communicator as lost, because the group has ended. The results of
    /// pending work may have any values.
    fn lose(&self, error: &Error);
    /// Ends the pending work that waits for other ranks.
    fn abort(&self, error: &Error);
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) own: ProcessRank,
    /// The id of the process that joined. A child of `fork` has another id. The child shares the
    /// connections of its parent, but has none of the threads of its parent.
    process: u32,
    /// The write half of each connection. The key is the rank at the other end.
    links: BTreeMap<usize, Mutex<TcpStream>>,
    state: Mutex<State>,
    pub(super) changed: Condvar,
    /// The number of calls so far. The lock is held during a call, so there is one call at a time.
    turn: Mutex<u64>,
    /// Rank 0 holds this lock while it sends an answer or a loss to all ranks and stores the answer
    /// or the loss for itself. So all ranks get answers and losses in the same order.
    telling: Mutex<()>,
    dependents: Mutex<Vec<Weak<dyn Dependent>>>,
    /// Held while announcements are sent. So a goodbye is sent after all earlier announcements.
    flushing: Mutex<()>,
}

/// Messages that one rank has sent in one channel.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) begun: Vec<u8>,
    pub(super) whole: VecDeque<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) lost: Option<Error>,
    /// Whether a loss was found. The loss is first sent to the other ranks, and then stored in
    /// `lost`.
    is_losing: bool,
    is_closing: bool,
    has_left: Vec<bool>,
    /// Whether the connection to rank 0 has ended after the goodbye of rank 0. Then no more
    /// messages arrive.
    pub(super) is_cut: bool,
    /// On rank 0: the calls that wait for other ranks. The key is the rank that made the call.
    calls: BTreeMap<usize, Call>,
    /// On rank 0: the time of the first call in `calls`; `None` if `calls` is empty.
    since: Option<Instant>,
    answer: Option<Answer>,
    /// The messages for this rank. The key is the channel and the rank of the sender.
    pub(super) inboxes: BTreeMap<(u64, usize), Inbox>,
    /// Announcements of communicators and collectives that are not yet sent to rank 0.
    outbox: Vec<Frame>,
    /// On rank 0: the collectives that ranks have called.
    steps: Steps,
    /// Collectives for which this rank waits and that all ranks have called: the channel and the
    /// number of each collective.
    agreed: BTreeSet<(u64, u64)>,
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), Kind::WouldBlock | Kind::TimedOut)
}

/// Compares the calls of all ranks with the call of rank 0, and returns the answer to all ranks.
fn compare(calls: &BTreeMap<usize, Call>) -> Answer {
    let own = &calls[&0];
    for (rank, call) in calls {
        if call.what != own.what || call.number != own.number {
            return Err(format!(
                "rank {rank} makes call {} `{}`, but rank 0 makes call {} `{}`",
                call.number, call.what, own.number, own.what
            ));
        }
        if call.value != own.value {
            let (what, value, right) = (&call.what, call.value, own.value);
            return Err(format!("`{what}` is {value} on rank {rank}, and {right} on rank 0"));
        }
    }
    Ok(own.bytes.clone())
}

impl Group {
    /// Starts the threads of a rank: one per connection, and one for heartbeats.
    pub(super) fn start(
        own: ProcessRank,
        streams: BTreeMap<usize, TcpStream>,
    ) -> Result<Arc<Self>> {
        let cannot = |error: io::Error| {
            let cause = format!("a thread for a connection cannot be started: {error}");
            Error::new(ErrorKind::Io, "join ranks", cause).caused_by(error)
        };
        let mut links = BTreeMap::new();
        for (rank, stream) in &streams {
            links.insert(*rank, Mutex::new(stream.try_clone().map_err(cannot)?));
        }
        let state = State {
            lost: None,
            is_losing: false,
            is_closing: false,
            has_left: vec![false; own.count],
            is_cut: false,
            calls: BTreeMap::new(),
            since: None,
            answer: None,
            inboxes: BTreeMap::new(),
            outbox: Vec::new(),
            steps: Steps::default(),
            agreed: BTreeSet::new(),
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let group = Arc::new(Self {
            own,
            process: std::process::id(),
            links,
            state,
            changed,
            turn: Mutex::new(0),
            telling: Mutex::new(()),
            dependents: Mutex::default(),
            flushing: Mutex::new(()),
        });
        for (peer, stream) in streams {
            let shared = Arc::clone(&group);
            let thread = std::thread::Builder::new().name(format!("trijet-rank-{peer}"));
            thread.spawn(move || shared.read(peer, stream)).map_err(cannot)?;
        }
        let shared = Arc::clone(&group);
        let thread = std::thread::Builder::new().name("trijet-beat".to_owned());
        thread.spawn(move || shared.beat()).map_err(cannot)?;
        Ok(group)
    }

    /// Whether this process is a child of the process that joined. A child must not lock, because a
    /// thread of the parent may have held the lock at the fork. A child must not send, because the
    /// parent uses the connections.
    fn is_forked(&self) -> bool {
        fork::is_child() || std::process::id() != self.process
    }

    /// Refuses the call if this process is a child of `fork`.
    pub(crate) fn refuse(&self, op: &'static str) -> Result<()> {
        if !self.is_forked() {
            return Ok(());
        }
        let cause = "the process was forked after the ranks had joined, and their connections belong to the parent; join \
                     after the fork, or start another program with exec";
        Err(Error::new(ErrorKind::Forked, op, cause))
    }

    /// The number of calls that this rank has made.
    pub(crate) fn calls(&self) -> u64 {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        if let Err(error) = self.refuse("ranks") {
            return Some(error);
        }
        self.lock().lost.as_ref().map(Error::again)
    }

    /// Whether the group has ended or is about to end.
    pub(crate) fn is_losing(&self) -> bool {
        !self.is_forked() && self.lock().is_losing
    }

    pub(super) fn send(&self, to: usize, frame: &Frame) {
        let Some(link) = self.links.get(&to) else { return };
        let mut stream = link.lock().unwrap_or_else(PoisonError::into_inner);
        // A failed write is not reported here: the thread that reads from this connection notices
        // the end of the connection. After a timeout, only a part of the frame may be written, so
        // the connection is useless. The shutdown lets the reading thread notice the end.
        if frame.write(&mut *stream).is_err_and(|error| is_late(&error)) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    fn send_all(&self, frame: &Frame) {
        self.links.keys().for_each(|rank| self.send(*rank, frame));
    }

    /// Adds a communicator that ends with the group. If the group has already ended, the
    /// communicator ends at once.
    pub(crate) fn attach(&self, dependent: &Arc<impl Dependent + 'static>) {
        let weak = Arc::downgrade(dependent);
        let mut all = self.dependents.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(weak);
        drop(all);
        if let Some(error) = self.failure() {
            dependent.lose(&error);
            dependent.abort(&error);
        }
    }

    fn dependents(&self) -> Vec<Arc<dyn Dependent>> {
        let all = self.dependents.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Ends the group with this loss, unless there was an earlier loss. Sends the loss to the other
    /// ranks, and then stores the loss.
    pub(crate) fn lose(&self, cause: String) {
        if self.is_forked() {
            return;
        }
        let mut state = self.lock();
        // Rank 0 reports a loss even after it has left.
        if state.is_losing || (state.is_closing && self.own.rank != 0) {
            return;
        }
        state.is_losing = true;
        drop(state);
        let error = Error::new(ErrorKind::PeerLost, "ranks", cause.clone());
        // The devices are marked as lost before their work is aborted. So no result of aborted work
        // is used.
        self.dependents().iter().for_each(|one| one.lose(&error));
        let telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        match self.own.rank {
            0 => self.send_all(&Frame::Lost(cause)),
            _ => self.send(0, &Frame::Lost(cause)),
        }
        self.lock().lost = Some(error.again());
        self.changed.notify_all();
        drop(telling);
        // An abort waits for the device, which may never finish. So a separate thread makes the
        // abort.
        let dependents = self.dependents();
        let abort = move || {
            for one in dependents {
                one.lose(&error);
                one.abort(&error);
            }
        };
        // If the thread cannot be started, nothing is aborted, and calls keep waiting for NCCL.
        drop(std::thread::Builder::new().name("trijet-abort".to_owned()).spawn(abort));
    }

    fn read(&self, peer: usize, mut stream: TcpStream) {
        let ProcessRank { count, timeout, .. } = self.own;
        loop {
            match Frame::read(&mut stream) {
                Ok(Frame::Beat(reached)) => self.reach(peer, &reached),
                Ok(Frame::Open(channel, ranks)) => self.open(channel, ranks),
                Ok(Frame::Step(channel, number, step)) => self.step(peer, (channel, number), step),
                Ok(Frame::Agreed(channel, number)) => self.agree((channel, number)),
                Ok(Frame::Part(part)) => self.pass(part),
                Ok(Frame::Leave(channel)) => self.quit(peer, channel),
                Ok(Frame::Call(call)) => self.arrive(peer, call),
                Ok(Frame::Answer(answer)) => self.answer(answer),
                Ok(Frame::Lost(cause)) => self.lose(cause),
                Ok(Frame::Goodbye) => {
                    self.leave(peer, &stream);
                    // After its goodbye, rank 0 still passes messages on, until the last rank has
                    // left or the process of rank 0 ends. So this thread reads on.
                    if peer != 0 {
                        return;
                    }
                }
                Err(error) if self.lock().has_left[peer] => {
                    if is_late(&error) {
                        continue;
                    }
                    self.lock().is_cut = true;
                    return self.changed.notify_all();
                }
                Err(error) if is_late(&error) => {
                    let cause = format!(
                        "rank {peer} of {count} is frozen or cannot be reached: it has sent nothing for {timeout:?}"
                    );
                    return self.lose(cause);
                }
                Err(error) => {
                    let cause = format!(
                        "rank {peer} of {count} has ended: its connection closed ({error})"
                    );
                    return self.lose(cause);
                }
            }
        }
    }

    fn answer(&self, answer: Answer) {
        self.lock().answer = Some(answer);
        self.changed.notify_all();
    }

    fn leave(&self, peer: usize, stream: &TcpStream) {
        let mut state = self.lock();
        state.has_left[peer] = true;
        let cause = self.left_out(&state).or_else(|| self.missed(&state));
        drop(state);
        self.changed.notify_all();
        if let Some(cause) = cause {
            self.lose(cause);
        }
        // The connection thread of the peer waits for this shutdown. The shutdown fails if the peer
        // has already ended.
        if peer != 0 {
            drop(stream.shutdown(Shutdown::Write));
        }
    }

    /// On rank 0: describes a rank that has left the group although other ranks wait for its call.
    /// `None` if there is no such rank.
    fn left_out(&self, state: &State) -> Option<String> {
        let what = &state.calls.values().next()?.what;
        let is_gone = |rank: &usize| state.has_left[*rank] && !state.calls.contains_key(rank);
        let gone = (0..self.own.count).find(is_gone)?;
        Some(format!("rank {gone} of {} has left before `{what}`", self.own.count))
    }

    /// On rank 0: notes the call of a rank, and answers when all ranks have called.
    fn arrive(&self, rank: usize, call: Call) {
        let mut state = self.lock();
        state.calls.insert(rank, call);
        state.since.get_or_insert_with(Instant::now);
        if let Some(cause) = self.left_out(&state) {
            drop(state);
            return self.lose(cause);
        }
        if state.calls.len() < self.own.count {
            return;
        }
        let calls = std::mem::take(&mut state.calls);
        state.since = None;
        drop(state);
        let answer = compare(&calls);
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        self.send_all(&Frame::Answer(answer.clone()));
        self.answer(answer);
    }

    /// Sends heartbeats and announcements until this process leaves the group. On rank 0, ends the
    /// group if a rank does not make a call in time.
    fn beat(&self) {
        let ProcessRank { rank, count, timeout } = self.own;
        let mut last = Instant::now();
        loop {
            let state = self.lock();
            let goes_on = |state: &mut State| !state.is_closing && state.outbox.is_empty();
            let left = BEAT.saturating_sub(last.elapsed());
            let waited = self.changed.wait_timeout_while(state, left, goes_on);
            let state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.is_closing {
                return;
            }
            drop(state);
            self.flush();
            if last.elapsed() < BEAT {
                continue;
            }
            last = Instant::now();
            let reached: Vec<(u64, u64)> =
                self.dependents().iter().map(|one| one.reached()).collect();
            if rank == 0 {
                self.reach(0, &reached);
            }
            let state = self.lock();
            let is_late = state.since.is_some_and(|since| since.elapsed() > timeout);
            let late = state.calls.values().next().filter(|_| is_late).map(|call| {
                let missing = (0..count).filter(|rank| !state.calls.contains_key(rank));
                let missing = named(&missing.collect::<Vec<_>>(), count);
                format!("{missing} did not call `{}` within {timeout:?}", call.what)
            });
            let late = late.or_else(|| state.steps.missing(&state.has_left, timeout, last));
            let present: Vec<usize> =
                self.links.keys().copied().filter(|rank| !state.has_left[*rank]).collect();
            drop(state);
            if let Some(cause) = late {
                self.lose(cause);
            }
            let beat = Frame::Beat(reached);
            present.into_iter().for_each(|rank| self.send(rank, &beat));
        }
    }

    /// Sends the announcements. When this function returns, all earlier announcements of this
    /// thread are sent.
    pub(super) fn flush(&self) {
        let _flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = std::mem::take(&mut self.lock().outbox);
        frames.into_iter().for_each(|frame| self.tell(frame));
    }

    /// Passes an announcement to rank 0.
    fn tell(&self, frame: Frame) {
        match (self.own.rank, frame) {
            (0, Frame::Open(channel, ranks)) => self.open(channel, ranks),
            (0, Frame::Step(channel, number, step)) => self.step(0, (channel, number), step),
            (0, Frame::Leave(channel)) => self.quit(0, channel),
            (0, _) => {}
            (_, frame) => self.send(0, &frame),
        }
    }

    fn open(&self, channel: u64, ranks: Vec<u32>) {
        let ranks = ranks.into_iter().map(|rank| usize::try_from(rank).unwrap_or(usize::MAX));
        let ranks: Vec<usize> = ranks.collect();
        if ranks.iter().all(|rank| *rank < self.own.count) {
            self.lock().steps.open(channel, ranks, Instant::now());
        }
    }

    fn step(&self, rank: usize, at: (u64, u64), step: Step) {
        let mut state = self.lock();
        let outcome = state.steps.arrive(rank, at, step, Instant::now());
        let cause = outcome.as_ref().err().cloned().or_else(|| self.missed(&state));
        drop(state);
        // Rank 0 sends the agreement to the other ranks before it notes the agreement for itself.
        // After this note, rank 0 may leave, and its process may end.
        let waiting = outcome.into_iter().flatten();
        let (own, others): (Vec<_>, Vec<_>) = waiting.partition(|rank| *rank == self.own.rank);
        others.into_iter().for_each(|rank| self.send(rank, &Frame::Agreed(at.0, at.1)));
        if !own.is_empty() {
            self.agree(at);
        }
        cause.into_iter().for_each(|cause| self.lose(cause));
    }

    fn agree(&self, at: (u64, u64)) {
        self.lock().agreed.insert(at);
        self.changed.notify_all();
    }

    /// Waits until all ranks have called a collective that this rank has announced. `at` is the
    /// channel and the number of the collective. Returns an error if rank 0 has found a difference.
    pub(crate) fn await_agreement(&self, at: (u64, u64)) -> Result<()> {
        self.refuse("ranks")?;
        self.flush();
        let ProcessRank { count, timeout, .. } = self.own;
        let waits = |state: &mut State| {
            !state.agreed.contains(&at) && state.lost.is_none() && !state.is_cut
        };
        let waited = self.changed.wait_timeout_while(self.lock(), timeout + GRACE, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if let Some(error) = &state.lost {
            return Err(error.again());
        }
        if state.agreed.remove(&at) {
            return Ok(());
        }
        let cause = match state.is_cut {
            true => format!("rank 0 of {count}, which compares collectives, has left"),
            false => format!("rank 0 of {count} did not compare collectives within {timeout:?}"),
        };
        drop(state);
        Err(self.ended(cause))
    }

    /// Ends the group because of `cause`, and returns the error of the group. If the group had
    /// ended before, returns the earlier error.
    pub(super) fn ended(&self, cause: String) -> Error {
        self.lose(cause.clone());
        self.failure().unwrap_or_else(|| Error::new(ErrorKind::PeerLost, "ranks", cause))
    }

    fn quit(&self, rank: usize, channel: u64) {
        let mut state = self.lock();
        state.steps.quit(rank, channel);
        let cause = self.missed(&state);
        drop(state);
        cause.into_iter().for_each(|cause| self.lose(cause));
    }

    /// On rank 0: describes a collective that a rank did not call before the rank left the group or
    /// dropped the communicator.
    fn missed(&self, state: &State) -> Option<String> {
        let State { steps, has_left, .. } = state;
        let any_left = has_left.contains(&true) || steps.has_quitters();
        any_left.then(|| steps.missing(has_left, self.own.timeout, Instant::now())).flatten()
    }

    fn reach(&self, rank: usize, reached: &[(u64, u64)]) {
        let mut state = self.lock();
        for (channel, number) in reached {
            state.steps.reach(rank, *channel, *number, Instant::now());
        }
    }

    /// Adds an announcement for rank 0: a communicator that this rank has, or a collective that it
    /// calls.
    pub(crate) fn announce(&self, frame: Frame) {
        if self.is_forked() {
            return;
        }
        self.lock().outbox.push(frame);
        self.changed.notify_all();
    }

    /// Ends the group because of `cause`, for example a message of a wrong length, and returns the
    /// error of the group. In most cases, rank 0 finds a clearer cause at the same time. So this
    /// call first waits up to [`GRACE`] for a loss from rank 0.
    pub(crate) fn unfit(&self, cause: String) -> Error {
        if let Err(error) = self.refuse("ranks") {
            return error;
        }
        let waits = |state: &mut State| state.lost.is_none();
        drop(self.changed.wait_timeout_while(self.lock(), GRACE, waits));
        self.ended(cause)
    }

    /// Makes a call together with all other ranks, and returns the bytes of rank 0.
    pub(super) fn call(&self, what: &str, value: u64, bytes: &[u8]) -> Result<Vec<u8>> {
        self.refuse("ranks")?;
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let ProcessRank { rank, count, timeout } = self.own;
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let call = Call { number: *turn, what: what.to_owned(), value, bytes: bytes.to_vec() };
        *turn += 1;
        match rank {
            0 => self.arrive(0, call),
            _ => self.send(0, &Frame::Call(call)),
        }
        let waits = |state: &mut State| {
            state.answer.is_none() && state.lost.is_none() && !(rank != 0 && state.has_left[0])
        };
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, timeout + GRACE, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        // If there are an answer and a loss, this call returns the answer. The next call returns
        // the loss.
        if let Some(answer) = state.answer.take() {
            return answer.map_err(|cause| Error::new(ErrorKind::InvalidValue, "ranks", cause));
        }
        if let Some(error) = &state.lost {
            return Err(error.again());
        }
        let cause = if state.has_left[0] {
            format!("rank 0 of {count} has left before `{what}`")
        } else {
            format!("rank 0 of {count} did not answer `{what}` within {timeout:?}")
        };
        drop(state);
        Err(self.ended(cause))
    }

    /// Leaves the group: sends a goodbye to the other ranks.
    pub(super) fn close(&self) {
        if self.is_forked() {
            return;
        }
        self.lock().is_closing = true;
        self.flush();
        self.changed.notify_all();
        self.send_all(&Frame::Goodbye);
        // Rank 0 keeps passing messages on. The threads of rank 0 end when all other ranks have
        // left.
        if self.own.rank == 0 {
            let mut state = self.lock();
            state.has_left[0] = true;
            let cause = self.missed(&state);
            drop(state);
            return cause.into_iter().for_each(|cause| self.lose(cause));
        }
        for link in self.links.values() {
            let stream = link.lock().unwrap_or_else(PoisonError::into_inner);
            // The shutdown fails if the peer has already closed the connection.
            drop(stream.shutdown(Shutdown::Write));
        }
    }
}
