//! Ledgers written by hand, in the notation of the catalogue of hazards: streams `A`, `B`, `C`
//! (non-blocking), `BLOCKING_A`, `BLOCKING_B` and `LEGACY` of device 0, and `FAR` of device 1.

use std::borrow::Cow;
use trijet::check::{CheckOptions, FindingClass, Verdict, check_with};
use trijet::trace::{
    Access, Asked, BlockId, Declared, DeviceId, Engine, Handled, HostStep, LaneId, LedgerNote,
    MemoryCall, Mode, Op, OpKind, OrderedBy, Place, Position, SignalStep, Signalled, Site,
    StreamClass, StreamMark, StreamWork, WaitOutcome, Waited,
};

pub(crate) const A: u32 = 0;
pub(crate) const B: u32 = 1;
pub(crate) const C: u32 = 2;
pub(crate) const BLOCKING_A: u32 = 3;
pub(crate) const BLOCKING_B: u32 = 4;
pub(crate) const LEGACY: u32 = 5;
pub(crate) const FAR: u32 = 6;

/// Blocks of memory: on a device, page-locked and pageable.
pub(crate) const D: u64 = 1;
pub(crate) const D2: u64 = 2;
pub(crate) const H: u64 = 3;
pub(crate) const G: u64 = 4;

/// Events.
pub(crate) const E: u64 = 100;
pub(crate) const F: u64 = 101;

pub(crate) fn part(block: u64, range: std::ops::Range<u64>, mode: Mode) -> Access {
    let place = match block {
        H => Place::Pinned,
        G => Place::Pageable,
        _ => Place::Device,
    };
    Access { block: BlockId(block), place, range, mode, ordered: OrderedBy::Program }
}

pub(crate) fn r(block: u64) -> Access {
    part(block, 0..64, Mode::Read)
}

pub(crate) fn w(block: u64) -> Access {
    part(block, 0..64, Mode::Write)
}

/// The same access, ordered by the library.
pub(crate) fn tracked(access: Access) -> Access {
    Access { ordered: OrderedBy::Library, ..access }
}

/// A ledger, and the options of its check.
#[derive(Clone, Default)]
pub(crate) struct Log {
    pub(crate) ops: Vec<Op>,
    seqs: [u64; 8],
    pub(crate) options: CheckOptions,
    thread: u64,
}

pub(crate) fn log() -> Log {
    Log::default()
}

impl Log {
    fn push(
        mut self,
        kind: impl Into<OpKind>,
        lane: u32,
        label: &'static str,
        accesses: &[Access],
    ) -> Self {
        let stream = match lane {
            LEGACY => StreamClass::Legacy,
            BLOCKING_A | BLOCKING_B => StreamClass::Blocking,
            _ => StreamClass::NonBlocking,
        };
        let line = u32::try_from(self.ops.len()).expect("a short ledger") + 1;
        let site = Site { file: Cow::Borrowed("src/main.rs"), line, column: 5 };
        let device = DeviceId(u32::from(lane == FAR));
        let position = Position { lane: LaneId(lane), seq: self.seqs[lane as usize] };
        self.ops.push(Op {
            stream,
            accesses: accesses.iter().cloned().collect(),
            label: Cow::Borrowed(label),
            site: Some(site),
            thread: self.thread,
            ..Op::new(kind, Engine::None, device, position)
        });
        self
    }

    pub(crate) fn work(
        mut self,
        kind: StreamWork,
        lane: u32,
        label: &'static str,
        accesses: &[Access],
    ) -> Self {
        self.seqs[lane as usize] += 1;
        self.push(kind, lane, label, accesses)
    }

    /// A kernel.
    pub(crate) fn k(self, lane: u32, accesses: &[Access]) -> Self {
        self.work(StreamWork::Kernel, lane, "kernel", accesses)
    }

    /// A launch of the graph with this number.
    pub(crate) fn launch(mut self, lane: u32, graph: u64, accesses: &[Access]) -> Self {
        self = self.work(StreamWork::Kernel, lane, "graph", accesses);
        self.ops.last_mut().expect("one was pushed").graph = Some(graph);
        self
    }

    /// A kernel whose accesses are not declared.
    pub(crate) fn undeclared(mut self, lane: u32) -> Self {
        self = self.k(lane, &[]);
        self.ops.last_mut().expect("one was pushed").declared = Declared::Nothing;
        self
    }

    pub(crate) fn copy(self, lane: u32, to: u64, from: u64) -> Self {
        self.work(StreamWork::Copy, lane, "copy", &[r(from), w(to)])
    }

    pub(crate) fn alloc(self, lane: u32, block: u64) -> Self {
        self.work(StreamWork::Alloc, lane, "alloc", &[w(block)])
    }

    pub(crate) fn free(self, lane: u32, block: u64) -> Self {
        self.work(StreamWork::Free, lane, "free", &[w(block)])
    }

    pub(crate) fn rec(self, event: u64, lane: u32) -> Self {
        self.push(StreamMark::Record { event, by: Asked::User }, lane, "event", &[])
    }

    pub(crate) fn wait(self, event: u64, lane: u32) -> Self {
        let on = Position { lane: LaneId(77), seq: 1 << 40 };
        self.push(StreamMark::Wait { event, on, by: Asked::User }, lane, "event", &[])
    }

    /// `to` waits for the work that was enqueued in `from` until now.
    pub(crate) fn edge(self, event: u64, from: u32, to: u32) -> Self {
        self.rec(event, from).wait(event, to)
    }

    pub(crate) fn host(self, access: Access) -> Self {
        self.push(HostStep::Access, A, "host", &[access])
    }

    /// An allocation or a free outside of stream order.
    pub(crate) fn at_call(self, kind: MemoryCall, access: Access) -> Self {
        self.push(kind, A, "at the call", &[access])
    }

    pub(crate) fn synced(self, what: Waited, lane: u32, outcome: WaitOutcome) -> Self {
        self.push(HostStep::Sync { what, outcome }, lane, "sync", &[])
    }

    pub(crate) fn sync(self, lane: u32) -> Self {
        self.synced(Waited::Stream, lane, WaitOutcome::Complete)
    }

    pub(crate) fn esync(self, event: u64) -> Self {
        self.synced(Waited::Event(event), A, WaitOutcome::Complete)
    }

    /// A host function.
    pub(crate) fn host_fn(self, lane: u32) -> Self {
        self.work(StreamWork::HostFn, lane, "host function", &[])
    }

    /// The thread sets, waits for, finds or drops a signal.
    pub(crate) fn signal(self, signal: u64, what: Signalled) -> Self {
        self.push(SignalStep::Use { signal, what, inside: None }, A, "signal", &[])
    }

    /// The host function with this number in its stream sets, waits for or finds a signal.
    pub(crate) fn inside(self, lane: u32, seq: u64, signal: u64, what: Signalled) -> Self {
        let at = Position { lane: LaneId(lane), seq };
        let kind = SignalStep::Use { signal, what, inside: Some(at) };
        let mut this = self.push(kind, lane, "signal", &[]);
        let op = this.ops.last_mut().expect("one was pushed");
        (op.position, op.thread) = (at, 99);
        this
    }

    /// A new stream gets the lane.
    pub(crate) fn open(self, lane: u32) -> Self {
        self.push(HostStep::Open, lane, "stream", &[])
    }

    /// The library found the event complete.
    pub(crate) fn settled(self, event: u64) -> Self {
        self.push(LedgerNote::Settled { event }, A, "settled", &[])
    }

    /// The start of a call that may wait.
    pub(crate) fn begin(self, lane: u32) -> Self {
        self.push(HostStep::Begin, lane, "copy", &[])
    }

    /// A call that had begun returned an error.
    pub(crate) fn failed(self, lane: u32) -> Self {
        self.push(HostStep::Failed, lane, "copy", &[])
    }

    pub(crate) fn copy_now(self, lane: u32, to: u64, from: u64) -> Self {
        self.work(StreamWork::CopyNow, lane, "copy", &[r(from), w(to)])
    }

    /// The host function with this number in its stream has returned.
    pub(crate) fn ran(self, lane: u32, seq: u64) -> Self {
        let mut this = self.push(LedgerNote::Ran, lane, "host function", &[]);
        let op = this.ops.last_mut().expect("one was pushed");
        (op.position.seq, op.thread) = (seq, 99);
        this
    }

    /// The thread ends.
    pub(crate) fn ends(self) -> Self {
        self.push(LedgerNote::ThreadGone, A, "thread", &[])
    }

    /// The thread makes, clones, uses or drops a handle of a signal.
    pub(crate) fn handle(self, signal: u64, handle: u64, what: Handled) -> Self {
        self.push(SignalStep::Handle { signal, handle, what, inside: None }, A, "signal", &[])
    }

    /// The host function with this number in its stream uses a handle.
    pub(crate) fn uses_inside(self, lane: u32, seq: u64, signal: u64, handle: u64) -> Self {
        let inside = Some(Position { lane: LaneId(lane), seq });
        let kind = SignalStep::Handle { signal, handle, what: Handled::Used, inside };
        self.push(kind, lane, "signal", &[])
    }

    /// The thread with this number makes the later calls.
    pub(crate) fn by(mut self, thread: u64) -> Self {
        self.thread = thread;
        self
    }

    /// A call reports that the context is lost.
    pub(crate) fn fault(self, culprit: Option<Position>) -> Self {
        self.push(HostStep::Fault { culprit }, A, "synchronize", &[])
    }

    pub(crate) fn with(mut self, change: impl FnOnce(CheckOptions) -> CheckOptions) -> Self {
        self.options = change(self.options);
        self
    }

    pub(crate) fn verdict(&self) -> Verdict {
        check_with(&self.ops, self.options.clone())
    }

    /// Demands findings of exactly these classes, with a witness for each conflict.
    #[track_caller]
    pub(crate) fn finds(&self, classes: &[FindingClass]) -> Verdict {
        let verdict = self.verdict();
        let found: Vec<FindingClass> =
            verdict.findings.iter().map(|finding| finding.class).collect();
        assert_eq!(found, classes, "{verdict}");
        for finding in verdict.findings.iter().filter(|finding| finding.conflict.is_some()) {
            let witness = finding.witness.expect("a pair has two orders");
            assert_ne!(witness.kept, witness.swapped, "{finding:?}");
        }
        verdict
    }

    #[track_caller]
    pub(crate) fn is_silent(&self) {
        self.finds(&[]);
    }
}
