//! The order of streams: events, and waits for something that may come from any stream.

use super::{CallReader, Step};
use crate::accesses::Touched;
use crate::file::Call;
use crate::streams::{StreamKey, StreamOf};
use trijet_ledger::base::id::Position;
use trijet_ledger::base::ledger::{Asked, Engine, LedgerNote, StreamMark, StreamWork};

/// An event of a stream that no call of the program names: the driver gives no event such a handle.
fn own_event(of: StreamOf) -> u64 {
    u64::MAX - u64::from(of.position.lane.0)
}

fn own_record(on: StreamOf) -> StreamMark {
    StreamMark::Record { event: own_event(on), by: Asked::User }
}

impl CallReader {
    pub(super) fn record(
        &mut self,
        call: &Call<'_>,
        (event, stream): (u64, u64),
        is_external: bool,
        add: &mut impl FnMut(Step),
    ) {
        let key = Self::key(call, stream);
        if is_external && let Some(capture) = self.graphs.capture(key) {
            capture.work.records.push(event);
            self.of_graphs.insert(event);
            return;
        }
        if self.graphs.record(key, event) {
            return;
        }
        self.of_graphs.remove(&event);
        let on = self.streams.of(key, call.context);
        self.recorded.insert(event, on.position);
        let mark = StreamMark::Record { event, by: Asked::User };
        add(Self::entry(mark, Engine::None, on, call));
    }

    pub(super) fn wait_in_stream(
        &mut self,
        call: &Call<'_>,
        (stream, event): (u64, u64),
        is_external: bool,
        add: &mut impl FnMut(Step),
    ) {
        let key = Self::key(call, stream);
        if is_external && let Some(capture) = self.graphs.capture(key) {
            capture.work.waits = true;
            return;
        }
        if self.graphs.wait(key, event) {
            return;
        }
        // The graph may have been launched in any stream.
        if self.of_graphs.contains(&event) {
            return self.follow_all(call, key, add);
        }
        let on = self.streams.of(key, call.context);
        let upto = self.recorded.get(&event).copied();
        let upto = upto.unwrap_or(Position { seq: 0, ..on.position });
        let mark = StreamMark::Wait { event, on: upto, by: Asked::User };
        add(Self::entry(mark, Engine::None, on, call));
    }

    /// A record in a stream for which blocking streams wait, if it is the legacy one.
    pub(super) fn hold_back(call: &Call<'_>, on: StreamOf, add: &mut impl FnMut(Step)) {
        add(Self::entry(own_record(on), Engine::None, on, call));
    }

    /// Makes a stream follow the present work of another stream.
    fn follow(call: &Call<'_>, from: StreamOf, to: StreamOf, add: &mut impl FnMut(Step)) {
        add(Self::entry(own_record(from), Engine::None, from, call));
        let event = own_event(from);
        let wait = StreamMark::Wait { event, on: from.position, by: Asked::User };
        add(Self::entry(wait, Engine::None, to, call));
    }

    /// A wait of a stream for something that may come from any stream, such as a value in memory.
    /// The stream follows all of them: an order that the program may lack, in place of an error
    /// that it has not.
    pub(super) fn wait_for_any(
        &mut self,
        call: &Call<'_>,
        stream: u64,
        add: &mut impl FnMut(Step),
    ) {
        let key = Self::key(call, stream);
        if let Some(mut capture) = self.graphs.capture(key) {
            return capture.wait_for_any();
        }
        self.counts.value_waits += 1;
        self.value_waiters.insert(key);
        self.note_wait_for_any(call, key);
        self.follow_all(call, key, add);
    }

    /// Notes that the later work of a stream may follow work that is enqueued later.
    pub(super) fn note_wait_for_any(&mut self, call: &Call<'_>, key: StreamKey) {
        let Position { lane, seq } = self.streams.of(key, call.context).position;
        self.waits_for_any.entry(lane).or_insert(seq);
    }

    /// Makes a stream follow the present work of all streams.
    pub(super) fn follow_all(
        &mut self,
        call: &Call<'_>,
        key: StreamKey,
        add: &mut impl FnMut(Step),
    ) {
        let to = self.streams.of(key, call.context);
        for from in self.streams.all().into_iter().filter(|from| *from != to) {
            Self::follow(call, from, to, add);
        }
    }

    /// A write of a value into memory, for which a stream may have waited before.
    pub(super) fn write_value(
        &mut self,
        call: &Call<'_>,
        stream: u64,
        touched: Vec<Touched>,
        add: &mut impl FnMut(Step),
    ) {
        self.work(call, stream, StreamWork::Fill, "write of a value", touched, add);
        self.signal(call, stream, add);
    }

    /// Something that a stream may have waited for before.
    pub(super) fn signal(&mut self, call: &Call<'_>, stream: u64, add: &mut impl FnMut(Step)) {
        let key = Self::key(call, stream);
        if let Some(mut capture) = self.graphs.capture(key) {
            return capture.wait_for_any();
        }
        self.may_tell = true;
        let from = self.streams.of(key, call.context);
        for waiter in self.value_waiters.clone().into_iter().filter(|waiter| *waiter != key) {
            let to = self.streams.of(waiter, call.context);
            Self::follow(call, from, to, add);
        }
    }

    pub(super) fn destroy_event(
        &mut self,
        call: &Call<'_>,
        event: u64,
        add: &mut impl FnMut(Step),
    ) {
        self.graphs.forget_event(event);
        self.of_graphs.remove(&event);
        self.recorded.remove(&event);
        let on = self.streams.of(StreamKey::Legacy(call.context), call.context);
        add(Self::entry(LedgerNote::Gone { event }, Engine::None, on, call));
    }
}
