//! The verdict on a history: a race, a use outside the life of its memory, an unnecessary wait, or
//! a right history with counts of what was judged.

use crate::calls::{By, Call, History, Verb, What};
use crate::closure::{Closure, Nodes, Trust, Use, host, uses, work};
use crate::program::StreamKind;
use std::collections::BTreeMap;
use std::fmt;

/// Counts of what was judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Pairs of accesses where one writes bytes that the other uses.
    pub(crate) conflicts: u64,
    /// Waits of the ordering.
    pub(crate) waits: u64,
    /// Waits that cover more than necessary: the last work that the wait covers has no conflict
    /// with the work that waits.
    pub(crate) over_waits: u64,
    /// Waits that a later wait before the same work makes unnecessary.
    pub(crate) subsumed: u64,
    /// Waits that are implied by the order of default streams and of calls that wait. The ordering
    /// does not use all of that order.
    pub(crate) idle: u64,
    /// Claims that work is complete for a thread.
    pub(crate) claims: u64,
}

/// A fault in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Two conflicting accesses have no order.
    Race(usize, usize),
    /// Copies of one batch depend on each other (law A19).
    InsideBatch(usize),
    /// A use was enqueued before its allocation or after its free (laws A21 and A22).
    Life(usize, usize),
    /// A wait of the ordering that earlier calls imply.
    Implied(usize),
    /// A wait of the ordering before work that has no conflict with the awaited work.
    Needless(usize),
    /// The library claims that the work of a call is complete, and no call shows that.
    Unproven(usize, usize),
}

/// The message about a wrong history.
#[derive(Debug)]
pub(crate) struct Report<'a>(pub(crate) &'a History, pub(crate) Wrong);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |call: usize| self.0.line(call);
        match self.1 {
            Wrong::Race(a, b) => write!(f, "no order between\n  {}\n  {}", line(a), line(b)),
            Wrong::InsideBatch(a) => write!(f, "copies depend on each other in\n  {}", line(a)),
            Wrong::Life(a, b) => {
                write!(f, "a use outside the life of its memory:\n  {}\n  {}", line(a), line(b))
            }
            Wrong::Implied(a) => write!(f, "a wait that earlier calls imply:\n  {}", line(a)),
            Wrong::Needless(a) => {
                write!(f, "a wait for work that no later operation needs:\n  {}", line(a))
            }
            Wrong::Unproven(a, b) => {
                write!(f, "claims too much:\n  {}\n  that is complete: {}", line(a), line(b))
            }
        }
    }
}

/// The order of accesses. Memory that the library orders may rely on the order of this run, because
/// the library chooses its waits in the run. Other memory relies on the laws alone.
pub(crate) struct Orders {
    run: Closure,
    /// `None` if no memory is ordered by hand.
    laws: Option<Closure>,
}

impl Orders {
    pub(crate) fn new(history: &History) -> Self {
        let mut accesses = history.calls.iter().flat_map(|call| call.what.accesses());
        let by_hand = accesses.any(|access| access.by_hand);
        let laws = by_hand.then(|| Closure::new(history, Trust::Laws));
        Self { run: Closure::new(history, Trust::Run), laws }
    }

    /// Whether the first use ends before the second starts. The call `later` makes the second use.
    pub(crate) fn orders(&self, history: &History, a: &Use, (later, b): (usize, &Use)) -> bool {
        // Frees and guards wait for earlier uses of manual memory too.
        let waits = matches!(
            history.calls[later].what,
            What::Host { .. } | What::Work { verb: Verb::Free, .. }
        );
        match &self.laws {
            Some(laws) if b.access.by_hand && !waits => laws.orders(a.end, b.begin),
            _ => self.run.orders(a.end, b.begin),
        }
    }
}

struct Judge<'a> {
    history: &'a History,
    /// The uses of each call.
    uses: Vec<Vec<Use>>,
    /// The counts so far.
    seen: Seen,
}

/// Demands that every conflict is ordered, that every use is within the life of its memory, that
/// every wait of the ordering is needed, and that the library claims no more than it can know.
pub(crate) fn judge(history: &History) -> Result<Seen, Wrong> {
    let uses = (0..history.calls.len()).map(|call| uses(history, call)).collect();
    let mut judge = Judge { history, uses, seen: Seen::default() };
    judge.lives()?;
    judge.batches()?;
    judge.conflicts(&Orders::new(history))?;
    let visible = Closure::new(history, Trust::Library);
    judge.waits(&visible)?;
    judge.claims(&visible)?;
    Ok(judge.seen)
}

impl Judge<'_> {
    /// Laws A21 and A22, for the order of calls. Accesses must also follow the allocation and
    /// precede the free. This is judged as conflicts, because both write the whole block.
    fn lives(&self) -> Result<(), Wrong> {
        let mut first: BTreeMap<u64, usize> = BTreeMap::new();
        let mut freed: BTreeMap<u64, usize> = BTreeMap::new();
        for (call, uses) in self.uses.iter().enumerate() {
            let verb = match &self.history.calls[call].what {
                What::Work { verb, .. } => Some(*verb),
                _ => None,
            };
            for block in uses.iter().map(|used| used.access.block) {
                let earlier = *first.entry(block).or_insert(call);
                if verb == Some(Verb::Alloc) && earlier != call {
                    return Err(Wrong::Life(earlier, call));
                }
                if let Some(free) = freed.get(&block) {
                    return Err(Wrong::Life(*free, call));
                }
                if verb == Some(Verb::Free) {
                    freed.insert(block, call);
                }
            }
        }
        Ok(())
    }

    fn batches(&self) -> Result<(), Wrong> {
        for (call, uses) in self.uses.iter().enumerate() {
            let is_batch =
                matches!(self.history.calls[call].what, What::Work { verb: Verb::Batch(_), .. });
            let depends = |(n, used): (usize, &Use)| {
                uses[..n].iter().any(|other| used.access.conflicts(&other.access))
            };
            if is_batch && uses.iter().enumerate().any(depends) {
                return Err(Wrong::InsideBatch(call));
            }
        }
        Ok(())
    }

    fn conflicts(&mut self, orders: &Orders) -> Result<(), Wrong> {
        let mut by_block: BTreeMap<u64, Vec<(usize, &Use)>> = BTreeMap::new();
        for (call, uses) in self.uses.iter().enumerate() {
            for used in uses {
                by_block.entry(used.access.block).or_default().push((call, used));
            }
        }
        for uses in by_block.values() {
            for (n, (later, b)) in uses.iter().enumerate() {
                for (earlier, a) in &uses[..n] {
                    if earlier == later || !a.access.conflicts(&b.access) {
                        continue;
                    }
                    self.seen.conflicts += 1;
                    if !orders.orders(self.history, a, (*later, b)) {
                        return Err(Wrong::Race(*earlier, *later));
                    }
                }
            }
        }
        Ok(())
    }

    fn is_work(&self, node: usize) -> bool {
        let is_of_work = matches!(self.history.calls[node / 2].what, What::Work { .. });
        node % 2 == 1 && is_of_work
    }

    fn conflict(&self, a: usize, b: usize) -> bool {
        let meets = |used: &Use| self.uses[b].iter().any(|o| used.access.conflicts(&o.access));
        self.uses[a].iter().any(meets)
    }

    /// The first work of the stream after a wait, by the same thread: the wait was made for it.
    fn consumer(&self, wait: usize) -> Option<usize> {
        let Self { history, .. } = self;
        let (thread, stream) = (history.calls[wait].thread, history.calls[wait].what.stream());
        (wait + 1..history.calls.len()).find(|call| {
            let call = &history.calls[*call];
            call.thread == thread
                && call.what.stream() == stream
                && matches!(call.what, What::Work { .. })
        })
    }

    /// Whether all order comes from streams, events and waits of threads.
    fn is_plain(&self) -> bool {
        let waits = |call: &Call| {
            matches!(
                call.what,
                What::Work { verb: Verb::CopyNow | Verb::FillNow | Verb::Batch(_), .. }
            )
        };
        let calls = &self.history.calls;
        let mut streams = calls.iter().filter_map(|call| call.what.stream());
        streams.all(|stream| self.history.lanes[stream].kind == StreamKind::NonBlocking)
            && !calls.iter().any(waits)
    }

    fn waits(&mut self, closure: &Closure) -> Result<(), Wrong> {
        for (call, made) in self.history.calls.iter().enumerate() {
            if !matches!(made.what, What::Wait { by: By::Ordering, .. }) {
                continue;
            }
            self.seen.waits += 1;
            let record = closure.waited[&call].ok_or(Wrong::Implied(call))?;
            let new = self.news(closure.before(work(record)), &closure.without[&call]);
            if new.is_empty() {
                if self.is_plain() {
                    return Err(Wrong::Implied(call));
                }
                self.seen.idle += 1;
                continue;
            }
            let consumer = self.consumer(call).ok_or(Wrong::Needless(call))?;
            let is_needed = |work: &usize| self.conflict(*work, consumer);
            if !new.iter().any(is_needed) {
                if self.is_plain() {
                    return Err(Wrong::Needless(call));
                }
                self.seen.idle += 1;
                continue;
            }
            let stream = self.history.calls[record].what.stream();
            let on_stream = |work: &&usize| self.history.calls[**work].what.stream() == stream;
            let last = new.iter().rev().find(on_stream);
            let is_given = |work: &usize| self.later_wait_gives(closure, call, consumer, *work);
            // A record of the legacy stream also stands for blocking streams, and their work may be
            // needed.
            let is_over = last.is_some_and(|last| !is_needed(last));
            let is_subsumed = new.iter().all(is_given);
            self.seen.over_waits += u64::from(is_over);
            self.seen.subsumed += u64::from(is_subsumed);
        }
        Ok(())
    }

    /// Whether a wait after `wait` and before `consumer`, in the same stream, stands for `of`.
    fn later_wait_gives(&self, closure: &Closure, wait: usize, consumer: usize, of: usize) -> bool {
        let stream = self.history.calls[wait].what.stream();
        let mut later = closure.waited.range(wait + 1..consumer);
        later.any(|(other, record)| {
            let is_here = self.history.calls[*other].what.stream() == stream;
            is_here && record.is_some_and(|record| closure.orders(work(of), work(record)))
        })
    }

    /// The calls whose work a wait adds to what would be complete without it.
    fn news(&self, waited: &Nodes, without: &Nodes) -> Vec<usize> {
        let nodes = waited.iter().filter(|node| self.is_work(*node) && !without.contains(*node));
        nodes.map(|node| node / 2).collect()
    }

    fn claims(&mut self, closure: &Closure) -> Result<(), Wrong> {
        for (call, made) in self.history.calls.iter().enumerate() {
            for known in &made.known {
                self.seen.claims += 1;
                if !closure.orders(work(*known), host(call)) {
                    return Err(Wrong::Unproven(call, *known));
                }
            }
        }
        Ok(())
    }
}
