//! Pairs of streams: for how long the work of two streams ran at the same time, and why not for
//! longer.
//!
//! An operation counts as enqueued from the start of its call to its end. If two streams have work
//! enqueued at the same time, but do not run it at the same time, something on the device orders
//! the work. A trace does not have the waits between streams, so it does not show the reason.
#![forbid(unsafe_code)]

use super::calls::ProgramCalls;
use super::operations::Operations;
use crate::base::units::Nanos;
use crate::trace::Union;
use crate::trace::activity::Activity;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// The number of streams whose pairs are compared: the ones with the most work.
const STREAMS_MAX: usize = 8;
/// Maximum number of pairs in a profile.
const PAIRS_MAX: usize = 3;
/// Two streams are concurrent if they share this part of the time of the shorter one, in percent.
/// The host is the reason that they are not, if they share this part of the time in which both have
/// work enqueued.
const CONCURRENT: u64 = 50;
/// The host is also the reason if work of both streams is enqueued for at most this part of the
/// time of the shorter one, in percent.
const IN_TURN: u64 = 10;

/// Whether two streams worked at the same time, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairVerdict {
    /// They ran at the same time for at least half of the time of the shorter one.
    Concurrent,
    /// The host enqueued work for one stream when the work of the other was complete, for most of
    /// the time of the shorter one.
    HostInTurn,
    /// Both had work enqueued at the same time, and the device ran it one after the other.
    DeviceInTurn,
}

impl PairVerdict {
    /// The name in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent",
            Self::HostInTurn => "host_in_turn",
            Self::DeviceInTurn => "device_in_turn",
        }
    }

    /// The verdict in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent",
            Self::HostInTurn => {
                "in turn, because the host enqueues for one when the other has finished"
            }
            Self::DeviceInTurn => {
                "in turn on the device: an event, the legacy stream, one copy engine, or full \
                 multiprocessors"
            }
        }
    }
}

/// Two streams of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPair {
    /// The numbers of the streams.
    pub streams: [u32; 2],
    /// The time in which an operation of each stream ran.
    pub ran: [Nanos; 2],
    /// The time in which operations of both streams ran.
    pub together: Nanos,
    /// The time in which both streams had operations that were enqueued and not complete.
    pub enqueued: Nanos,
    /// Whether the streams worked at the same time.
    pub verdict: PairVerdict,
}

/// The times of a stream.
struct StreamTimes {
    stream: u32,
    ran: Union,
    enqueued: Union,
}

fn judged(ran: [Nanos; 2], together: Nanos, enqueued: Nanos) -> PairVerdict {
    let shorter = ran[0].min(ran[1]).0;
    let part = |time: Nanos| time.0.saturating_mul(100);
    if part(together) >= shorter.saturating_mul(CONCURRENT) {
        PairVerdict::Concurrent
    } else if part(enqueued) <= shorter.saturating_mul(IN_TURN)
        || part(together) >= enqueued.0.saturating_mul(CONCURRENT)
    {
        PairVerdict::HostInTurn
    } else {
        PairVerdict::DeviceInTurn
    }
}

/// The pairs of streams that had work enqueued at the same time for the longest, and of these the
/// pairs with the most work. Streams of different contexts are not compared.
pub(super) fn pairs(operations: &Operations<'_>, calls: &ProgramCalls) -> Vec<StreamPair> {
    let mut by_stream: BTreeMap<(u32, u32), Vec<&Activity>> = BTreeMap::new();
    for &one in &operations.all {
        by_stream.entry((one.context, one.stream)).or_default().push(one);
    }
    let window = Union::of([operations.window.clone()]);
    let enqueued = |one: &&Activity| -> Range<u64> {
        let call = calls.enqueuing(one).map_or(one.begin.0, |call| call.time.start);
        call.min(one.begin.0)..one.end.0
    };
    let times = |((context, stream), its): ((u32, u32), Vec<&Activity>)| {
        let ran = operations.ran(its.iter().copied());
        let enqueued = Union::of(its.iter().map(enqueued)).and(&window);
        (context, StreamTimes { stream, ran, enqueued })
    };
    let mut streams: Vec<(u32, StreamTimes)> = by_stream.into_iter().map(times).collect();
    streams.sort_by_key(|(_, one)| (Reverse(one.ran.length()), one.stream));
    streams.truncate(STREAMS_MAX);
    let mut found = Vec::new();
    for (place, (context, a)) in streams.iter().enumerate() {
        for (_, b) in streams[place + 1..].iter().filter(|(other, _)| other == context) {
            let ran = [a.ran.length(), b.ran.length()];
            let together = a.ran.and(&b.ran).length();
            let enqueued = a.enqueued.and(&b.enqueued).length();
            let verdict = judged(ran, together, enqueued);
            let streams = [a.stream, b.stream];
            found.push(StreamPair { streams, ran, together, enqueued, verdict });
        }
    }
    found.sort_by_key(|one| (Reverse(one.enqueued), Reverse(one.ran[0].min(one.ran[1]))));
    found.truncate(PAIRS_MAX);
    found
}
