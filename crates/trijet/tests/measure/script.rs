//! Ledgers written by hand.

use std::collections::BTreeMap;
use std::ops::Range;
use trijet::Nanos;
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::{
    Asked, DeviceId, Engine, HostStep, LaneId, Op, OpKind, Position, StreamMark, StreamWork, Times,
    WaitOutcome, Waited,
};

pub(crate) fn times(span: Range<u64>) -> Times {
    Times { begin: Nanos(span.start), end: Nanos(span.end) }
}

/// Entries in the order of their calls, by one thread.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) ops: Vec<Op>,
    numbers: BTreeMap<u32, u64>,
}

impl Script {
    fn push(&mut self, kind: impl Into<OpKind>, engine: Engine, lane: u32, seq: u64) -> &mut Op {
        let position = Position { lane: LaneId(lane), seq };
        let plain = Op::new(kind, engine, DeviceId(0), position);
        self.ops.push(Op { label: "op".into(), thread: 1, ..plain });
        self.ops.last_mut().expect("one was pushed")
    }

    fn number(&mut self, lane: u32) -> &mut u64 {
        self.numbers.entry(lane).or_insert(0)
    }

    /// An operation of an engine that ran during `span`.
    pub(crate) fn work(&mut self, engine: Engine, lane: u32, span: Range<u64>) -> &mut Op {
        *self.number(lane) += 1;
        let seq = *self.number(lane);
        let kind = if engine == Engine::Compute { StreamWork::Kernel } else { StreamWork::Copy };
        let op = self.push(kind, engine, lane, seq);
        op.times = Some(times(span));
        op
    }

    /// An operation of an engine, with the time of its call.
    pub(crate) fn called(
        &mut self,
        engine: Engine,
        lane: u32,
        call: Range<u64>,
        span: Range<u64>,
    ) -> &mut Op {
        let op = self.work(engine, lane, span);
        op.call = Some(times(call));
        op
    }

    pub(crate) fn record(&mut self, event: u64, lane: u32) -> &mut Op {
        let seq = *self.number(lane);
        self.push(StreamMark::Record { event, by: Asked::User }, Engine::None, lane, seq)
    }

    pub(crate) fn wait(&mut self, event: u64, on: (u32, u64), lane: u32) -> &mut Op {
        let seq = *self.number(lane) + 1;
        let on = Position { lane: LaneId(on.0), seq: on.1 };
        self.push(StreamMark::Wait { event, on, by: Asked::User }, Engine::None, lane, seq)
    }

    /// Later operations of `to` follow the earlier ones of `from`.
    pub(crate) fn order(&mut self, event: u64, from: u32, to: u32) {
        let seq = *self.number(from);
        self.record(event, from);
        self.wait(event, (from, seq), to);
    }

    pub(crate) fn sync(&mut self, what: Waited, lane: u32, call: Range<u64>) -> &mut Op {
        let seq = *self.number(lane);
        let kind = HostStep::Sync { what, outcome: WaitOutcome::Complete };
        let op = self.push(kind, Engine::None, lane, seq);
        op.call = Some(times(call));
        op
    }

    /// Adds a call of the host that concerns no stream.
    pub(crate) fn call(&mut self, kind: impl Into<OpKind>, call: Range<u64>) -> &mut Op {
        let op = self.push(kind, Engine::None, u32::MAX, 0);
        op.call = Some(times(call));
        op
    }

    pub(crate) fn alloc(&mut self, lane: u32, call: Range<u64>) -> &mut Op {
        *self.number(lane) += 1;
        let seq = *self.number(lane);
        let op = self.push(StreamWork::Alloc, Engine::None, lane, seq);
        op.call = Some(times(call));
        op
    }

    pub(crate) fn dag(&self) -> Dag {
        Dag::new(&self.ops, Kernels::Several)
    }
}
