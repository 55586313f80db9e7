//! The exposed communication of one rank, split into waits for later ranks, transfers, and times
//! whose cause is unknown.
#![forbid(unsafe_code)]

use super::collectives::Communication;
use super::matching::{CLOCKS_NS, RankSpan};
use crate::trace::Union;
use std::ops::Range;

/// The conclusion about the ranks of a collective from its starts and ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// All ranks started within the error between the clocks.
    Together,
    /// One or more ranks started later, and the other ranks waited.
    Late {
        /// The start in nanoseconds of the kernel on the rank that started last.
        begun: u64,
        /// The index of the rank that started last, and the time in nanoseconds of the last start
        /// of another rank. `None` if two or more ranks started last within the error of the times.
        alone: Option<(usize, u64)>,
    },
    /// The starts are too close together, or the ends too far apart, for a conclusion.
    Unclear,
}

impl Arrival {
    /// The arrival at a collective with these times.
    pub(super) fn of(times: &[Range<u64>]) -> Self {
        let Some(span) = RankSpan::of(times) else { return Self::Unclear };
        let (begun, apart) = (span.last_begin, span.begins());
        // The ends of one collective's kernels differ for other reasons than a late rank. The
        // starts may differ for these reasons too. A difference of the starts counts only if it is
        // at least twice the difference of the ends.
        let error = CLOCKS_NS.max(span.ends().saturating_mul(2));
        if apart < CLOCKS_NS {
            return Self::Together;
        }
        if apart < error || span.ends() > span.transfer() / 2 {
            return Self::Unclear;
        }
        let last = times.iter().position(|time| time.start == begun);
        let alone = last.and_then(|last| {
            let others = times.iter().enumerate().filter(|(at, _)| *at != last);
            let before = others.map(|(_, time)| time.start).max()?;
            (begun - before >= error).then_some((last, before))
        });
        Self::Late { begun, alone }
    }
}

/// The part of a kernel in which its rank waited.
#[derive(Debug)]
pub(super) struct RankWait {
    pub(super) time: Range<u64>,
    /// The time in nanoseconds after which the rank waited for `awaited` alone. Before this time,
    /// the rank waited for several ranks.
    pub(super) alone_from: u64,
    pub(super) awaited: Option<usize>,
}

/// The parts of the communication of a rank.
#[derive(Debug, Default)]
pub(super) struct ExposedParts {
    pub(super) waits: Vec<RankWait>,
    transfers: Vec<Range<u64>>,
    unknown: Vec<Range<u64>>,
}

impl ExposedParts {
    /// Adds the kernel of this rank in a collective. `rank` returns the index of a rank in the job
    /// for the index of the rank in the collective.
    pub(super) fn add(
        &mut self,
        time: &Range<u64>,
        arrival: &Arrival,
        rank: impl Fn(usize) -> usize,
    ) {
        match arrival {
            Arrival::Together => self.transfers.push(time.clone()),
            Arrival::Unclear => self.unknown.push(time.clone()),
            Arrival::Late { begun, alone } => {
                self.transfers.push(*begun..time.end);
                if time.start < *begun {
                    let alone_from = alone.map_or(*begun, |(_, from)| from).max(time.start);
                    let awaited = alone.map(|(late, _)| rank(late));
                    self.waits.push(RankWait { time: time.start..*begun, alone_from, awaited });
                }
            }
        }
    }

    /// Adds the kernels of a stream that have no match.
    pub(super) fn add_unmatched(&mut self, stream: &Union, matched: &Union) {
        self.unknown.extend(stream.minus(matched).intervals().iter().cloned());
    }

    /// Splits the exposed communication of the rank.
    pub(super) fn split(&self, communication: &Communication) -> Split {
        let exposed = &communication.exposed;
        let transfer = Union::of(self.transfers.iter().cloned()).and(exposed);
        let unknown = Union::of(self.unknown.iter().cloned());
        let unknown = Union::all([&unknown, &communication.others]).and(exposed).minus(&transfer);
        let waiting = exposed.minus(&transfer).minus(&unknown);
        Split { transfer, unknown, waiting }
    }
}

/// The exposed communication of a rank in three parts, which do not overlap and sum to the exposed
/// communication.
#[derive(Debug)]
pub(super) struct Split {
    /// The time in which at least one collective had started on all of its ranks.
    pub(super) transfer: Union,
    /// The part of the remaining time in which at least one kernel ran that matches no collective.
    pub(super) unknown: Union,
    /// The time in which all running communication kernels waited for a later rank.
    pub(super) waiting: Union,
}
