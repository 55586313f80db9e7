//! Names of streams, allocations and events, as reports print them.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::hazard::Party;
use crate::base::id::{BlockId, LaneId};
use crate::base::ledger::{OpKind, StreamClass};
use std::collections::BTreeMap;

/// Names to print in reports. Anything without a name is printed as a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Names of streams, by lane.
    pub lanes: BTreeMap<LaneId, String>,
    /// Names of allocations.
    pub blocks: BTreeMap<BlockId, String>,
    /// Names of events, by the driver's handle.
    pub events: BTreeMap<u64, String>,
}

impl Names {
    /// The name or the number of the stream of a lane, in backticks.
    #[must_use]
    pub fn lane(&self, lane: LaneId) -> String {
        self.lanes
            .get(&lane)
            .map_or_else(|| format!("`stream {}`", lane.0), |name| format!("`{name}`"))
    }

    /// The name or the number of an allocation.
    #[must_use]
    pub fn block(&self, block: BlockId) -> String {
        let named = self.blocks.get(&block);
        named.map_or_else(|| format!("block{}", block.0), Clone::clone)
    }

    pub(super) fn event(&self, event: u64) -> String {
        let named = self.events.get(&event);
        named.map_or_else(|| format!("event {event}"), |name| format!("event `{name}`"))
    }

    /// The stream of a party.
    pub(super) fn stream(&self, party: &Party) -> String {
        match party.stream {
            _ if self.lanes.contains_key(&party.position.lane) => self.lane(party.position.lane),
            _ if party.stream_name.is_some() => {
                format!("`{}`", party.stream_name.as_deref().unwrap_or(""))
            }
            StreamClass::Legacy => "the legacy stream".to_owned(),
            StreamClass::PerThread | StreamClass::Blocking | StreamClass::NonBlocking => {
                self.lane(party.position.lane)
            }
        }
    }

    /// The party as the subject of a sentence.
    pub(super) fn describe(&self, party: &Party) -> String {
        let Party { op, label, thread, .. } = party;
        if let OpKind::Signal { inside: Some(at), .. } = party.kind {
            return format!("the host function at pos {} of {}", at.seq, self.stream(party));
        }
        if party.waits_or_signals() {
            format!("thread {thread}")
        } else if party.kind == OpKind::Host {
            format!("thread {thread} (#{op})")
        } else if party.is_of_thread() {
            format!("op #{op} `{label}` of thread {thread}")
        } else {
            format!("op #{op} `{label}` on {}", self.stream(party))
        }
    }

    /// Where the party was enqueued: the line of the program, and its position or thread.
    pub(super) fn place(&self, party: &Party) -> String {
        let site = party.site.as_ref();
        let site = site.map_or_else(|| "at an unknown place".to_owned(), |s| format!("at {s}"));
        if party.is_of_thread() {
            return format!("{site} (thread {})", party.thread);
        }
        format!("{site} ({}, pos {})", self.stream(party).trim_matches('`'), party.position.seq)
    }
}
