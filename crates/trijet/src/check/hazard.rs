//! What can be found, and a finding.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, DeviceId, Position};
use crate::base::ledger::{Op, OpKind, Site, StreamClass};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// How two accesses to the same bytes conflict, in the order of their calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Conflict {
    /// The later one reads what the earlier one writes.
    Raw,
    /// The later one overwrites what the earlier one reads.
    War,
    /// Both write.
    Waw,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// Some order that CUDA allows computes something else, or has no meaning.
    Error,
    /// No order is wrong because of it; it is hardly what was meant.
    Warning,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// Two operations conflict, and nothing orders them.
    Race(Conflict),
    /// A use that the allocation is not ordered before (law A21).
    UseBeforeAlloc,
    /// A free that a use is not ordered before (laws A22 and A24).
    FreeRacesUse,
    /// A use that was enqueued after the call that frees (law A22).
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
    /// A stream waited for an event that had not been recorded (law A5).
    WaitUnrecorded,
    /// Two threads record an event and record it or wait for it, without an order between the calls
    /// (law A45).
    EventUnordered,
    /// Copies of one batch depend on each other (law A19).
    BatchDependent,
    /// A host function called the driver (law A28).
    ApiCall,
    /// An operation failed and took the context with it (law A40).
    Sticky,
    /// A wait for a signal that is set only after the wait.
    Deadlock,
    /// A host function waits for what another one sets, and may be the first to run (law A28).
    DeadlockRisk,
}

impl Class {
    /// The name that reports and filters use. It does not change.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Race(Conflict::Raw) => "RACE/RAW",
            Self::Race(Conflict::War) => "RACE/WAR",
            Self::Race(Conflict::Waw) => "RACE/WAW",
            Self::UseBeforeAlloc => "LIFETIME/USE-BEFORE-ALLOC",
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
            Self::DeadlockRisk => "DEADLOCK-RISK",
        }
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::Leak | Self::ReadUninit | Self::WaitUnrecorded | Self::EventUnordered => {
                Severity::Warning
            }
            Self::Race(_)
            | Self::Host(_)
            | Self::UseBeforeAlloc
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

/// A record as findings name it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Party {
    /// Its index in the record, from 0.
    pub op: u64,
    /// What it is.
    pub kind: OpKind,
    /// Its name.
    pub label: Cow<'static, str>,
    /// Where in the program it was enqueued.
    pub site: Option<Site>,
    /// Its lane and number; of no meaning for what is in no stream.
    pub position: Position,
    /// The name that the program gave its stream.
    pub stream_name: Option<Arc<str>>,
    /// What kind of stream its lane is.
    pub stream: StreamClass,
    /// The device of its lane.
    pub device: DeviceId,
    /// The host thread that called.
    pub thread: u64,
}

impl Party {
    pub(super) fn new(op: &Op, index: u64, stream_name: Option<Arc<str>>) -> Self {
        Self {
            op: index,
            kind: op.kind.clone(),
            label: op.label.clone(),
            site: op.site.clone(),
            position: op.position,
            stream_name,
            stream: op.stream,
            device: op.device,
            thread: op.thread,
        }
    }

    /// It is in no stream and in no host function: the host thread itself does it.
    #[must_use]
    pub fn is_of_thread(&self) -> bool {
        let inside = matches!(self.kind, OpKind::Signal { inside: Some(_), .. });
        !inside && !self.kind.is_in_stream()
    }

    /// It is no operation: a use of a signal, a wait, or a call that waits.
    pub(super) fn waits_or_signals(&self) -> bool {
        matches!(self.kind, OpKind::Signal { .. } | OpKind::Sync { .. } | OpKind::Begin)
    }

    /// It runs code of the host.
    pub(super) fn is_of_host(&self) -> bool {
        matches!(self.kind, OpKind::Host | OpKind::HostFn)
    }
}

/// What the two orders of a race compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Witness {
    /// The byte of the allocation that is looked at.
    pub byte: u64,
    /// What is read there, or left there by two writes, in the order of the record.
    pub kept: u32,
    /// The same when the second operation comes before the first.
    pub swapped: u32,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub class: Class,
    /// How the two accesses conflict, when it is about two.
    pub conflict: Option<Conflict>,
    /// The call that came first; `None` when there is one only, or it is not remembered any more.
    pub first: Option<Party>,
    /// The call that is wrong, or that showed it.
    pub second: Party,
    /// The allocation.
    pub block: Option<BlockId>,
    /// The name that the program gave the allocation.
    pub block_name: Option<Arc<str>>,
    /// The bytes of it, in order and disjoint.
    pub ranges: Vec<Range<u64>>,
    /// What orders the two, and why that is not enough.
    pub known: String,
    /// What to change.
    pub fix: String,
    /// The laws that the finding rests on.
    pub rules: Vec<&'static str>,
    /// What the two orders compute.
    pub witness: Option<Witness>,
}

impl Finding {
    /// A finding of which the rest is still to be said.
    pub(super) fn new(class: Class, second: Party, rules: Vec<&'static str>) -> Self {
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

    /// Adds bytes, merging what touches.
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
