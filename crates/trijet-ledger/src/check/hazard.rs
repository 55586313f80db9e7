//! Findings, and their classes.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, DeviceId, Position};
use crate::base::ledger::{
    HostStep, Op, OpKind, SignalStep, Signalled, Site, StreamClass, StreamWork,
};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// How two accesses to the same bytes conflict, in the order of their calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Conflict {
    /// The later access reads bytes that the earlier access writes.
    Raw,
    /// The later access overwrites bytes that the earlier access reads.
    War,
    /// Both accesses write.
    Waw,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// In some order that CUDA allows, the program computes another result, hangs, or has undefined
    /// behaviour.
    Error,
    /// No order that CUDA allows is wrong, but the program probably does not do what was intended.
    Warning,
}

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingClass {
    /// Two operations conflict, and nothing orders them.
    Race(Conflict),
    /// A use that does not follow the allocation (law [A21](crate::laws#a21)).
    UseBeforeAlloc,
    /// A use of memory of a heap that does not follow an earlier use of the same bytes by another
    /// allocation.
    ReuseRacesUse,
    /// A free that does not follow a use (laws [A22](crate::laws#a22) and [A24](crate::laws#a24)).
    FreeRacesUse,
    /// A use that was enqueued after the call that frees the memory (law [A22](crate::laws#a22)).
    UseAfterFree,
    /// A second free of one allocation.
    DoubleFree,
    /// An allocation that was never freed.
    Leak,
    /// A read of bytes that nothing has written since their allocation.
    ReadUninit,
    /// An operation and the host, or two host threads, conflict, and nothing orders them.
    Host(Conflict),
    /// Host memory was freed while an operation may still use it.
    FreeInFlight,
    /// A stream waited for an event that had not been recorded (law [A5](crate::laws#a5)).
    WaitUnrecorded,
    /// Two threads use one event, and at least one of the threads records the event. Nothing orders
    /// the two calls (law [A45](crate::laws#a45)).
    EventUnordered,
    /// Copies of one batch depend on each other (law [A19](crate::laws#a19)).
    BatchDependent,
    /// A host function called the driver (law [A28](crate::laws#a28)).
    ApiCall,
    /// An operation failed, and the context was lost (law [A40](crate::laws#a40)).
    Sticky,
    /// A wait for a signal that is set only after the wait.
    Deadlock,
    /// A wait for a signal that ends, or may end, only because its time limit is over. Without the
    /// limit, the wait would be a deadlock.
    WaitGivesUp,
    /// A host function waits for a signal that another host function sets. The waiting host
    /// function may run first (law [A28](crate::laws#a28)).
    DeadlockRisk,
}

impl FindingClass {
    /// All classes.
    pub const ALL: [Self; 22] = [
        Self::Race(Conflict::Raw),
        Self::Race(Conflict::War),
        Self::Race(Conflict::Waw),
        Self::UseBeforeAlloc,
        Self::ReuseRacesUse,
        Self::FreeRacesUse,
        Self::UseAfterFree,
        Self::DoubleFree,
        Self::Leak,
        Self::ReadUninit,
        Self::Host(Conflict::Raw),
        Self::Host(Conflict::War),
        Self::Host(Conflict::Waw),
        Self::FreeInFlight,
        Self::WaitUnrecorded,
        Self::EventUnordered,
        Self::BatchDependent,
        Self::ApiCall,
        Self::Sticky,
        Self::Deadlock,
        Self::WaitGivesUp,
        Self::DeadlockRisk,
    ];

    /// The name of the class in reports and filters, which never changes.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Race(Conflict::Raw) => "RACE/RAW",
            Self::Race(Conflict::War) => "RACE/WAR",
            Self::Race(Conflict::Waw) => "RACE/WAW",
            Self::UseBeforeAlloc => "LIFETIME/USE-BEFORE-ALLOC",
            Self::ReuseRacesUse => "LIFETIME/REUSE-RACES-USE",
            Self::FreeRacesUse => "LIFETIME/FREE-RACES-USE",
            Self::UseAfterFree => "LIFETIME/USE-AFTER-FREE",
            Self::DoubleFree => "LIFETIME/DOUBLE-FREE",
            Self::Leak => "LIFETIME/LEAK",
            Self::ReadUninit => "INIT/READ-UNINIT",
            Self::Host(Conflict::Raw) => "HOST/RAW",
            Self::Host(Conflict::War) => "HOST/WAR",
            Self::Host(Conflict::Waw) => "HOST/WAW",
            Self::FreeInFlight => "HOST/FREE-IN-FLIGHT",
            Self::WaitUnrecorded => "SYNC/WAIT-UNRECORDED",
            Self::EventUnordered => "SYNC/EVENT-UNORDERED",
            Self::BatchDependent => "BATCH/DEPENDENT",
            Self::ApiCall => "CALLBACK/API-CALL",
            Self::Sticky => "ERROR/STICKY",
            Self::Deadlock => "DEADLOCK",
            Self::WaitGivesUp => "SYNC/WAIT-GIVES-UP",
            Self::DeadlockRisk => "DEADLOCK-RISK",
        }
    }

    /// The severity of findings of this class.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::Leak
            | Self::ReadUninit
            | Self::WaitUnrecorded
            | Self::EventUnordered
            | Self::WaitGivesUp => Severity::Warning,
            Self::Race(_)
            | Self::Host(_)
            | Self::UseBeforeAlloc
            | Self::ReuseRacesUse
            | Self::FreeRacesUse
            | Self::FreeInFlight
            | Self::UseAfterFree
            | Self::DoubleFree
            | Self::BatchDependent
            | Self::ApiCall
            | Self::Sticky
            | Self::Deadlock
            | Self::DeadlockRisk => Severity::Error,
        }
    }
}

/// An entry of the ledger that a finding names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Party {
    /// The index of the entry in the trace, from 0.
    pub op: u64,
    /// The kind of the entry.
    pub kind: OpKind,
    /// The name of the operation.
    pub label: Cow<'static, str>,
    /// The line of the program that made the call.
    pub site: Option<Site>,
    /// The chunk of a pipeline that the operation belongs to.
    pub chunk: Option<u64>,
    /// The lane of the entry, and its number in that lane. If the entry is outside of streams, the
    /// position has no meaning.
    pub position: Position,
    /// The name that the program gave the stream of the entry.
    pub stream_name: Option<Arc<str>>,
    /// The class of the entry's stream.
    pub stream: StreamClass,
    /// The device of the entry's lane.
    pub device: DeviceId,
    /// The host thread that made the call.
    pub thread: u64,
}

impl Party {
    pub(super) fn new(op: &Op, index: u64, stream_name: Option<Arc<str>>) -> Self {
        Self {
            op: index,
            kind: op.kind,
            label: op.label.clone(),
            site: op.site.clone(),
            chunk: op.chunk,
            position: op.position,
            stream_name,
            stream: op.stream,
            device: op.device,
            thread: op.thread,
        }
    }

    /// Whether the entry is a step of the host thread itself: it is neither in a stream nor inside
    /// a host function.
    #[must_use]
    pub fn is_of_thread(&self) -> bool {
        let inside = matches!(self.kind, OpKind::Signal(SignalStep::Use { inside: Some(_), .. }));
        !inside && !self.kind.is_in_stream()
    }

    /// Whether the entry is a use of a signal, a wait of the host, or the start of a call that
    /// waits.
    pub(super) fn waits_or_signals(&self) -> bool {
        matches!(
            self.kind,
            OpKind::Signal(SignalStep::Use { .. })
                | OpKind::Host(HostStep::Sync { .. } | HostStep::Begin)
        )
    }

    /// Whether the entry sets a signal.
    pub(super) fn sets_signal(&self) -> bool {
        matches!(self.kind, OpKind::Signal(SignalStep::Use { what: Signalled::Set, .. }))
    }

    /// Whether the entry runs code of the host.
    pub(super) fn is_of_host(&self) -> bool {
        matches!(self.kind, OpKind::Host(HostStep::Access) | OpKind::Work(StreamWork::HostFn))
    }
}

/// The results of two racing operations, in both orders of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Witness {
    /// The byte of the allocation that the results are taken from.
    pub byte: u64,
    /// The value of the byte in the order of the trace: the value that the reading operation reads
    /// or, if both operations write, the value after the second write.
    pub kept: u32,
    /// The same value if the second operation comes before the first.
    pub swapped: u32,
}

/// One mistake that the checker found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of the finding.
    pub class: FindingClass,
    /// How the two accesses conflict, if the finding is about two accesses.
    pub conflict: Option<Conflict>,
    /// The call that came first. `None` if the finding is about one call, or if the first call is
    /// no longer kept.
    pub first: Option<Party>,
    /// The call that is wrong, or that revealed the mistake.
    pub second: Party,
    /// The allocation that the calls use, if there is one.
    pub block: Option<BlockId>,
    /// The name that the program gave the allocation.
    pub block_name: Option<Arc<str>>,
    /// The bytes of the allocation, as sorted, disjoint ranges.
    pub ranges: Vec<Range<u64>>,
    /// The order that is known, and why it is not enough.
    pub known: String,
    /// The change that corrects the program.
    pub fix: String,
    /// The laws that the finding rests on.
    pub rules: Vec<&'static str>,
    /// The results of both orders, if the finding has a witness.
    pub witness: Option<Witness>,
}

impl Finding {
    /// A finding with empty texts, for the caller to complete.
    pub(super) fn new(class: FindingClass, second: Party, rules: Vec<&'static str>) -> Self {
        Self {
            class,
            conflict: None,
            first: None,
            second,
            block: None,
            block_name: None,
            ranges: Vec::new(),
            known: String::new(),
            fix: String::new(),
            rules,
            witness: None,
        }
    }

    /// Adds bytes, and merges ranges that touch.
    pub(super) fn add_range(&mut self, range: Range<u64>) {
        self.ranges.push(range);
        self.ranges.sort_unstable_by_key(|range| range.start);
        self.ranges.dedup_by(|right, left| {
            let touches = right.start <= left.end;
            if touches {
                left.end = left.end.max(right.end);
            }
            touches
        });
    }
}
