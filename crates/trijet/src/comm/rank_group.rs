//! The state that the threads of a rank share, and what they do with frames of other ranks.
//!
//! One thread for each connection reads. One more thread sends heartbeats, and, on rank 0, ends calls that a rank does not make.
//! The first loss of a rank stays: rank 0 tells it to all others, and each later call of a rank returns it.
#![forbid(unsafe_code)]

use super::rank_frames::{Answer, Call, Frame};
use super::rank_join::{Place, named};
use crate::base::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind as Kind};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time between two heartbeats. The shortest timeout is five of these.
pub(super) const BEAT: Duration = Duration::from_millis(200);
/// How much longer than the timeout a rank waits for an answer of rank 0, which knows better which rank is late.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Group {
    pub(super) place: Place,
    /// The write half of the connection to each rank.
    links: BTreeMap<usize, Mutex<TcpStream>>,
    state: Mutex<State>,
    changed: Condvar,
    /// Held during a call, so that there is one at a time.
    turn: Mutex<u64>,
    /// Held while rank 0 tells all ranks something, itself included. So an answer that one rank has seen is there on all ranks before a
    /// loss that follows from it.
    telling: Mutex<()>,
}

#[derive(Debug)]
struct State {
    lost: Option<Error>,
    /// A loss is told to the other ranks, and then becomes `lost`.
    is_losing: bool,
    is_closing: bool,
    has_left: Vec<bool>,
    /// On rank 0: the calls that ranks have made, and since when there is one.
    calls: BTreeMap<usize, Call>,
    since: Option<Instant>,
    answer: Option<Answer>,
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), Kind::WouldBlock | Kind::TimedOut)
}

/// The answer to the calls of all ranks. They are compared with that of rank 0.
fn compare(calls: &BTreeMap<usize, Call>) -> Answer {
    let own = &calls[&0];
    for (rank, call) in calls {
        if call.what != own.what || call.number != own.number {
            return Err(format!(
                "rank {rank} makes call {} `{}`, and rank 0 call {} `{}`",
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
    /// Starts the threads of a rank over its connections.
    pub(super) fn start(place: Place, streams: BTreeMap<usize, TcpStream>) -> Result<Arc<Self>> {
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
            has_left: vec![false; place.count],
            calls: BTreeMap::new(),
            since: None,
            answer: None,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let group = Arc::new(Self {
            place,
            links,
            state,
            changed,
            turn: Mutex::new(0),
            telling: Mutex::new(()),
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.lock().lost.as_ref().map(Error::again)
    }

    fn send(&self, to: usize, frame: &Frame) {
        let Some(link) = self.links.get(&to) else { return };
        let mut stream = link.lock().unwrap_or_else(PoisonError::into_inner);
        // A refused write is no news: the thread that reads finds the end of the connection, perhaps behind a goodbye. After a
        // part of a frame the connection is useless, and its end is what that thread finds.
        if frame.write(&mut *stream).is_err_and(|error| is_late(&error)) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    fn send_all(&self, frame: &Frame) {
        self.links.keys().for_each(|rank| self.send(*rank, frame));
    }

    /// Keeps the first loss, after rank 0 has told it to the others.
    fn lose(&self, cause: String) {
        let mut state = self.lock();
        if state.is_losing || state.is_closing {
            return;
        }
        state.is_losing = true;
        drop(state);
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        if self.place.rank == 0 {
            self.send_all(&Frame::Lost(cause.clone()));
        }
        self.lock().lost = Some(Error::new(ErrorKind::PeerLost, "ranks", cause));
        self.changed.notify_all();
    }

    fn read(&self, peer: usize, mut stream: TcpStream) {
        let Place { count, timeout, .. } = self.place;
        loop {
            match Frame::read(&mut stream) {
                Ok(Frame::Beat) => {}
                Ok(Frame::Call(call)) => self.arrive(peer, call),
                Ok(Frame::Answer(answer)) => self.answer(answer),
                Ok(Frame::Lost(cause)) => self.lose(cause),
                Ok(Frame::Goodbye) => return self.leave(peer, &stream),
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
        let cause = self.left_out(&state);
        drop(state);
        self.changed.notify_all();
        if let Some(cause) = cause {
            self.lose(cause);
        }
        // The other end waits for this before it ends its thread. It may be gone already.
        drop(stream.shutdown(Shutdown::Write));
    }

    /// On rank 0: a rank that has left without the call that others make.
    fn left_out(&self, state: &State) -> Option<String> {
        let what = &state.calls.values().next()?.what;
        let is_gone = |rank: &usize| state.has_left[*rank] && !state.calls.contains_key(rank);
        let gone = (0..self.place.count).find(is_gone)?;
        Some(format!("rank {gone} of {} has left before `{what}`", self.place.count))
    }

    /// Rank 0 takes a call of a rank, and answers when it has those of all.
    fn arrive(&self, rank: usize, call: Call) {
        let mut state = self.lock();
        state.calls.insert(rank, call);
        state.since.get_or_insert_with(Instant::now);
        if let Some(cause) = self.left_out(&state) {
            drop(state);
            return self.lose(cause);
        }
        if state.calls.len() < self.place.count {
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

    /// Sends heartbeats until the end, and ends a call on rank 0 that a rank does not make.
    fn beat(&self) {
        let Place { count, timeout, .. } = self.place;
        loop {
            let state = self.lock();
            let goes_on = |state: &mut State| !state.is_closing;
            let waited = self.changed.wait_timeout_while(state, BEAT, goes_on);
            let state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.is_closing {
                return;
            }
            let is_late = state.since.is_some_and(|since| since.elapsed() > timeout);
            let late = state.calls.values().next().filter(|_| is_late).map(|call| {
                let missing = (0..count).filter(|rank| !state.calls.contains_key(rank));
                let missing = named(&missing.collect::<Vec<_>>(), count);
                format!("{missing} did not come to `{}` within {timeout:?}", call.what)
            });
            let present: Vec<usize> =
                self.links.keys().copied().filter(|rank| !state.has_left[*rank]).collect();
            drop(state);
            if let Some(cause) = late {
                self.lose(cause);
            }
            present.into_iter().for_each(|rank| self.send(rank, &Frame::Beat));
        }
    }

    /// Makes a call together with all other ranks.
    pub(super) fn call(&self, what: &str, value: u64, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let Place { rank, count, timeout } = self.place;
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
        // A loss after the answer is one of the next call.
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
        self.lose(cause.clone());
        Err(self.failure().unwrap_or_else(|| Error::new(ErrorKind::PeerLost, "ranks", cause)))
    }

    /// Says goodbye to the other ranks.
    pub(super) fn close(&self) {
        self.lock().is_closing = true;
        self.changed.notify_all();
        self.send_all(&Frame::Goodbye);
        for link in self.links.values() {
            let stream = link.lock().unwrap_or_else(PoisonError::into_inner);
            // The other end may have closed the connection already.
            drop(stream.shutdown(Shutdown::Write));
        }
    }
}
