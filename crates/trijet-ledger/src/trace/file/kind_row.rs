//! The kind of an entry in a ledger file, as one list of kinds. Each kind keeps its number in the
//! list, so a new kind is added at the end.
#![forbid(unsafe_code)]

use crate::base::id::Position;
use crate::base::ledger::{
    Asked, Handled, HostStep, LedgerNote, MemoryCall, Named, OpKind, SignalStep, Signalled,
    SourceOrder, StreamMark, StreamWork, WaitOutcome, Waited,
};
use serde::{Deserialize, Serialize};

/// The kind of an entry, with its fields in the order of the file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum KindRow {
    Alloc,
    Free,
    Copy,
    CopyNow,
    Batch(SourceOrder),
    Fill,
    FillNow,
    Kernel,
    HostFn,
    AllocNow,
    FreeNow,
    Fault(Option<Position>),
    Record(u64, Asked),
    Sync(Waited, WaitOutcome),
    Access,
    Call(CallRow),
    Gone(u64),
    Open,
    Wait(u64, Position, Asked),
    Signal(u64, Signalled, Option<Position>),
    Begin,
    Ran,
    Settled(u64),
    Name(Named),
    ThreadGone,
    Handle(u64, u64, Handled, Option<Position>),
    Lent,
    FromHeap(u64),
    ToHeap,
}

/// A call of the host that has no number of its own in the list of kinds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum CallRow {
    Load,
    Release,
    Refused,
    Failed,
}

impl From<OpKind> for KindRow {
    fn from(kind: OpKind) -> Self {
        match kind {
            OpKind::Work(StreamWork::Alloc) => Self::Alloc,
            OpKind::Work(StreamWork::Free) => Self::Free,
            OpKind::Work(StreamWork::Copy) => Self::Copy,
            OpKind::Work(StreamWork::CopyNow) => Self::CopyNow,
            OpKind::Work(StreamWork::Batch(order)) => Self::Batch(order),
            OpKind::Work(StreamWork::Fill) => Self::Fill,
            OpKind::Work(StreamWork::FillNow) => Self::FillNow,
            OpKind::Work(StreamWork::Kernel) => Self::Kernel,
            OpKind::Work(StreamWork::HostFn) => Self::HostFn,
            OpKind::Mark(StreamMark::Record { event, by }) => Self::Record(event, by),
            OpKind::Mark(StreamMark::Wait { event, on, by }) => Self::Wait(event, on, by),
            OpKind::Memory(MemoryCall::AllocNow) => Self::AllocNow,
            OpKind::Memory(MemoryCall::FreeNow) => Self::FreeNow,
            OpKind::Memory(MemoryCall::FromHeap { place }) => Self::FromHeap(place),
            OpKind::Memory(MemoryCall::ToHeap) => Self::ToHeap,
            OpKind::Host(HostStep::Sync { what, outcome }) => Self::Sync(what, outcome),
            OpKind::Host(HostStep::Access) => Self::Access,
            OpKind::Host(HostStep::Lent) => Self::Lent,
            OpKind::Host(HostStep::Begin) => Self::Begin,
            OpKind::Host(HostStep::Failed) => Self::Call(CallRow::Failed),
            OpKind::Host(HostStep::Open) => Self::Open,
            OpKind::Host(HostStep::Load) => Self::Call(CallRow::Load),
            OpKind::Host(HostStep::Release) => Self::Call(CallRow::Release),
            OpKind::Host(HostStep::Refused) => Self::Call(CallRow::Refused),
            OpKind::Host(HostStep::Fault { culprit }) => Self::Fault(culprit),
            OpKind::Signal(SignalStep::Use { signal, what, inside }) => {
                Self::Signal(signal, what, inside)
            }
            OpKind::Signal(SignalStep::Handle { signal, handle, what, inside }) => {
                Self::Handle(signal, handle, what, inside)
            }
            OpKind::Note(LedgerNote::Gone { event }) => Self::Gone(event),
            OpKind::Note(LedgerNote::Ran) => Self::Ran,
            OpKind::Note(LedgerNote::Settled { event }) => Self::Settled(event),
            OpKind::Note(LedgerNote::Name { of }) => Self::Name(of),
            OpKind::Note(LedgerNote::ThreadGone) => Self::ThreadGone,
        }
    }
}

impl From<KindRow> for OpKind {
    fn from(row: KindRow) -> Self {
        match row {
            KindRow::Alloc => Self::Work(StreamWork::Alloc),
            KindRow::Free => Self::Work(StreamWork::Free),
            KindRow::Copy => Self::Work(StreamWork::Copy),
            KindRow::CopyNow => Self::Work(StreamWork::CopyNow),
            KindRow::Batch(order) => Self::Work(StreamWork::Batch(order)),
            KindRow::Fill => Self::Work(StreamWork::Fill),
            KindRow::FillNow => Self::Work(StreamWork::FillNow),
            KindRow::Kernel => Self::Work(StreamWork::Kernel),
            KindRow::HostFn => Self::Work(StreamWork::HostFn),
            KindRow::AllocNow => Self::Memory(MemoryCall::AllocNow),
            KindRow::FreeNow => Self::Memory(MemoryCall::FreeNow),
            KindRow::Fault(culprit) => Self::Host(HostStep::Fault { culprit }),
            KindRow::Record(event, by) => Self::Mark(StreamMark::Record { event, by }),
            KindRow::Sync(what, outcome) => Self::Host(HostStep::Sync { what, outcome }),
            KindRow::Access => Self::Host(HostStep::Access),
            KindRow::Call(CallRow::Load) => Self::Host(HostStep::Load),
            KindRow::Call(CallRow::Release) => Self::Host(HostStep::Release),
            KindRow::Call(CallRow::Refused) => Self::Host(HostStep::Refused),
            KindRow::Call(CallRow::Failed) => Self::Host(HostStep::Failed),
            KindRow::Gone(event) => Self::Note(LedgerNote::Gone { event }),
            KindRow::Open => Self::Host(HostStep::Open),
            KindRow::Wait(event, on, by) => Self::Mark(StreamMark::Wait { event, on, by }),
            KindRow::Signal(signal, what, inside) => {
                Self::Signal(SignalStep::Use { signal, what, inside })
            }
            KindRow::Begin => Self::Host(HostStep::Begin),
            KindRow::Ran => Self::Note(LedgerNote::Ran),
            KindRow::Settled(event) => Self::Note(LedgerNote::Settled { event }),
            KindRow::Name(of) => Self::Note(LedgerNote::Name { of }),
            KindRow::ThreadGone => Self::Note(LedgerNote::ThreadGone),
            KindRow::Handle(signal, handle, what, inside) => {
                Self::Signal(SignalStep::Handle { signal, handle, what, inside })
            }
            KindRow::Lent => Self::Host(HostStep::Lent),
            KindRow::FromHeap(place) => Self::Memory(MemoryCall::FromHeap { place }),
            KindRow::ToHeap => Self::Memory(MemoryCall::ToHeap),
        }
    }
}
