//! Names of streams, allocations and events, as reports print them.
#![forbid(unsafe_code)]

use super::hazard::Party;
use crate::base::audience::Audience;
use crate::base::id::{BlockId, LaneId};
use crate::base::ledger::{HostStep, OpKind, SignalStep, Site, StreamClass};
use std::collections::BTreeMap;

/// Names to print in reports. Anything without a name is printed as a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Names of streams, by lane.
    pub lanes: BTreeMap<LaneId, String>,
    /// Names of allocations, by the number of the allocation.
    pub blocks: BTreeMap<BlockId, String>,
    /// Names of events, by the driver's handle.
    pub events: BTreeMap<u64, String>,
    /// The reader of the reports. For a user of a command, a report names the chunk of an operation
    /// in place of the line that enqueued it, and leaves out the numbers of events and positions.
    pub audience: Audience,
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
        match (named, self.audience) {
            (Some(name), _) => format!("event `{name}`"),
            (None, Audience::Author) => format!("event {event}"),
            (None, Audience::User) => "an event".to_owned(),
        }
    }

    /// A position of a stream, for a sentence that states up to where another stream follows this
    /// stream.
    pub(super) fn up_to(&self, position: u64) -> String {
        match self.audience {
            Audience::Author => format!("up to pos {position}"),
            Audience::User => "up to an earlier operation".to_owned(),
        }
    }

    /// The name of the stream of a party.
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
        if let OpKind::Signal(SignalStep::Use { inside: Some(at), .. }) = party.kind {
            return format!("the host function at pos {} of {}", at.seq, self.stream(party));
        }
        if party.waits_or_signals() {
            format!("thread {thread}")
        } else if party.kind == OpKind::Host(HostStep::Access) {
            format!("thread {thread} (#{op})")
        } else if party.is_of_thread() {
            format!("op #{op} `{label}` of thread {thread}")
        } else {
            let chunk = self.chunk(party);
            let chunk = chunk.map_or_else(String::new, |chunk| format!(" of chunk {chunk}"));
            format!("op #{op} `{label}`{chunk} on {}", self.stream(party))
        }
    }

    /// The chunk of the party, if the reader is a user.
    fn chunk(&self, party: &Party) -> Option<u64> {
        party.chunk.filter(|_| self.audience == Audience::User)
    }

    /// The line of the program that enqueued the party, if the reader knows the program.
    pub(super) fn site<'a>(&self, party: &'a Party) -> Option<&'a Site> {
        party.site.as_ref().filter(|_| self.audience == Audience::Author)
    }

    /// The place of the call, in words. For an author: the line of the program, and the position or
    /// the thread. For a user: the chunk, and the stream or the thread.
    pub(super) fn place(&self, party: &Party) -> String {
        let thread = format!("thread {}", party.thread);
        let stream = self.stream(party);
        let stream = stream.trim_matches('`');
        if self.audience == Audience::User {
            return match (self.chunk(party), party.is_of_thread()) {
                (Some(chunk), true) => format!("for chunk {chunk} ({thread})"),
                (Some(chunk), false) => format!("for chunk {chunk} ({stream})"),
                (None, true) => format!("by {thread}"),
                (None, false) => format!("on {stream}"),
            };
        }
        let site = self.site(party);
        let site = site.map_or_else(|| "at an unknown place".to_owned(), |s| format!("at {s}"));
        if party.is_of_thread() {
            return format!("{site} ({thread})");
        }
        format!("{site} ({stream}, pos {})", party.position.seq)
    }
}
