//! Waits for signals that can never end, and waits that end only if host functions run in the right
//! order.
//!
//! A [`Set`] (an act that sets a signal) answers a wait unless the set follows a wait that can
//! never end. So a loop removes the waits that can be answered until there are no more such waits.
//! Each wait that remains waits for another wait that remains, or for a signal that nothing can
//! set.
//!
//! If no entry of the trace sets a signal, the signal may still be set after the trace ends. A
//! thread that has not ended may set the signal after the wait that the thread is in. A host
//! function that has not returned may set the signal as well. The thread or host function must be
//! one that may have a handle of the signal.
//!
//! A wait with a limit ends without an answer, so only waits without a limit can hang. The loop
//! runs twice. The first time it runs over the waits without a limit, to find the waits that hang.
//! The second time it runs over all waits, to find the waits that only a limit ends.
#![forbid(unsafe_code)]

use super::handles::Holder;
use super::known::Known;
use super::signals::{Actor, HostFn, Patience, Set, Signals, State, UnansweredWait, Waiter};
use crate::base::id::Position;
use crate::base::vector_clock::VectorClock;
use std::collections::BTreeSet;

/// A wait of a cycle, and the [`Answer`] that could end the wait.
#[derive(Debug, Clone)]
pub(in crate::check) struct Hop {
    pub(in crate::check) need: UnansweredWait,
    /// The entry that sets the signal. If no entry sets the signal: the last known entry of `by`,
    /// usually the wait that `by` is in. Then `by` would have to set the signal after that entry.
    pub(in crate::check) answer: u64,
    /// The thread or host function that sets the signal, or would have to set the signal.
    pub(in crate::check) by: Actor,
    /// The entry at which `by` learned that the host function of the next wait is complete.
    pub(in crate::check) learned: Option<u64>,
}

/// Waits that may never end: the content of a finding.
#[derive(Debug, Clone)]
pub(in crate::check) struct Stuck {
    /// The waits of a cycle, or the one wait that ends only if host functions run in the right
    /// order.
    pub(in crate::check) hops: Vec<Hop>,
    /// If the order of host functions decides whether the wait ends: the entry of the host function
    /// that has to run before the waiting host function.
    pub(in crate::check) first: Option<u64>,
}

/// A [`Set`] that could answer a wait, or a point from which the signal could still be set.
#[derive(Debug, Clone, Copy)]
struct Answer<'a> {
    op: u64,
    by: Actor,
    clock: &'a VectorClock,
    /// Whether the answer is a [`Set`] in the trace. Otherwise the answer is a point from which the
    /// signal could still be set.
    is_set: bool,
}

/// The unanswered waits in `signals`, with the order in `known`. The order decides which [`Set`]s
/// may answer the waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenWaits<'a> {
    pub(super) known: &'a Known,
    pub(super) signals: &'a Signals,
}

impl<'a> OpenWaits<'a> {
    /// Whether a point with this clock follows the wait.
    fn follows(&self, clock: &VectorClock, need: &UnansweredWait) -> bool {
        let is_over = |lane: usize, seq| clock.covers(self.known.lanes.list[lane].stamp(seq));
        clock.covers(need.at) || matches!(need.by, Actor::HostFn(lane, seq) if is_over(lane, seq))
    }

    /// The entry of a host function that must run before the [`Set`] with this clock, although
    /// nothing orders that host function before the waiting host function. `None` if there is no
    /// such host function, or if a thread waits.
    fn risk(&self, need: &UnansweredWait, clock: &VectorClock) -> Option<u64> {
        let Actor::HostFn(own, seq) = need.by else { return None };
        let before = &self.signals.host_fn(own, seq)?.before.sure;
        self.signals.host_fns.iter().filter(|(lane, _)| **lane != own).find_map(|(lane, fns)| {
            let component = self.known.lanes.list[*lane].stamp(0).lane;
            let ended = clock.get(component);
            let begun = fns.inner.map_or(0, |(begun, _)| clock.get(begun));
            let is_open = |one: &&HostFn| {
                before.get(component) < one.seq && (one.seq <= ended || one.seq == begun)
            };
            fns.list.iter().rev().find(is_open).map(|one| one.op)
        })
    }

    /// Whether some [`Set`] answers the wait in every run.
    pub(super) fn is_answered(&self, need: &UnansweredWait) -> bool {
        let Some(held) = self.signals.by_id.get(&need.signal) else { return false };
        held.sets.iter().any(|set| {
            // A wait that ends by its limit does not delay the act that sets the signal for ever.
            let follows = |other: &UnansweredWait| {
                other.patience <= need.patience && self.follows(&set.clock.sure, other)
            };
            !self.signals.needs.values().any(follows) && self.risk(need, &set.clock.sure).is_none()
        })
    }

    /// The finding about a wait that the signal's first [`Set`] answered in this run. `None` if the
    /// wait would be answered in every other order of the host functions as well.
    pub(super) fn risk_of_first(&self, need: &UnansweredWait) -> Option<Stuck> {
        let set = self.signals.by_id.get(&need.signal)?.sets.first()?;
        let first = self.risk(need, &set.clock.sure)?;
        (!need.reported)
            .then(|| Stuck { hops: vec![hop(need, &answer(set), None)], first: Some(first) })
    }

    /// The [`Set`]s that could answer a wait. If the signal has no set, the points from which the
    /// signal could still be set. `None` if a host function without a known order may set the
    /// signal.
    fn answers(&self, need: &UnansweredWait) -> Option<Vec<Answer<'a>>> {
        let held = self.signals.by_id.get(&need.signal);
        let sets: Vec<_> = held.iter().flat_map(|held| &held.sets).map(answer).collect();
        if !sets.is_empty() {
            return Some(sets);
        }
        if self.signals.is_set_early(need.signal) || self.has_other_host_fn(need) {
            return None;
        }
        let threads = self.known.threads.list.iter().enumerate().filter(|(number, thread)| {
            !thread.is_gone && self.may_hold(need.signal, Actor::Thread(*number))
        });
        let threads = threads.map(|(number, thread)| {
            let own = self.signals.needs.values().find(|need| need.by == Actor::Thread(number));
            let last = own.map_or(need.op, |own| own.op);
            let (op, clock) = match &thread.blocked {
                Some((op, then)) => (*op, &then.sure),
                None => (last, &thread.known.sure),
            };
            Answer { op, by: Actor::Thread(number), clock, is_set: false }
        });
        // A host function that waits may set the signal after its wait.
        let others = self.signals.needs.values().filter(|other| other.by != need.by);
        let waiting = others.filter_map(|other| {
            let Actor::HostFn(lane, seq) = other.by else { return None };
            let host_fn = self.signals.host_fn(lane, seq)?;
            if host_fn.state == State::Ran || !self.may_hold(need.signal, other.by) {
                return None;
            }
            let clock = &host_fn.inside.as_ref()?.sure;
            Some(Answer { op: other.op, by: other.by, clock, is_set: false })
        });
        Some(threads.chain(waiting).collect())
    }

    /// Whether another host function may still set the signal. Only a host function counts that is
    /// in no wait, and that does not follow the wait `need`.
    fn has_other_host_fn(&self, need: &UnansweredWait) -> bool {
        let waiter = match need.by {
            Actor::HostFn(lane, seq) => self.signals.host_fn(lane, seq).map(|one| &one.before.sure),
            Actor::Thread(thread) => Some(&self.known.threads.list[thread].known.sure),
        };
        self.signals.host_fns.iter().any(|(lane, fns)| {
            let has_ended = |one: &HostFn| {
                let end = self.known.lanes.list[*lane].stamp(one.seq);
                one.state == State::Ran
                    || waiter.is_some_and(|waiter| waiter.covers(end))
                    || self.known.threads.list.iter().any(|thread| thread.known.sure.covers(end))
            };
            // A host function of a lost device does not begin any more (law A29).
            let never_begins =
                |one: &HostFn| self.signals.is_lost(self.known, *lane) && one.inside.is_none();
            fns.list.iter().any(|one| {
                let is_it = need.by == Actor::HostFn(*lane, one.seq);
                let waits =
                    self.signals.needs.keys().any(|key| key.1 == Actor::HostFn(*lane, one.seq));
                let may_set = || self.may_hold(need.signal, Actor::HostFn(*lane, one.seq));
                !is_it
                    && !waits
                    && !has_ended(one)
                    && !never_begins(one)
                    && !self.follows(&one.before.sure, need)
                    && may_set()
            })
        })
    }

    /// Whether the answer follows one of the waits in `open`.
    fn covers(&self, open: &BTreeSet<Waiter>, one: &Answer<'_>) -> bool {
        open.iter().any(|key| self.follows(one.clock, &self.signals.needs[key]))
    }

    /// The waits in `open` that nothing answers. Each of these waits is assumed to hold back
    /// everything that follows the wait.
    fn unanswered(&self, mut open: BTreeSet<Waiter>) -> BTreeSet<Waiter> {
        loop {
            let is_answered = |key: &&Waiter| {
                let answers = self.answers(&self.signals.needs[key]);
                answers.is_none_or(|all| all.iter().any(|one| !self.covers(&open, one)))
            };
            let answered: Vec<Waiter> = open.iter().filter(is_answered).copied().collect();
            if answered.is_empty() {
                return open;
            }
            open.retain(|key| !answered.contains(key));
        }
    }

    /// The findings about waits that may never end, or that end only by their limit.
    pub(super) fn stuck(&self) -> Vec<Stuck> {
        let all = || self.signals.needs.keys().copied();
        let endless = all().filter(|(.., patience)| *patience == Patience::Endless);
        let never = self.unanswered(endless.collect());
        let open = self.unanswered(all().collect());
        let mut found = self.risks(&never, Patience::Endless);
        found.extend(self.risks(&open, Patience::Limited));
        found.extend(self.cycles(&never));
        let gives_up = |stuck: &Stuck| stuck.hops.iter().any(|hop| hop.need.is_limited());
        found.extend(self.cycles(&open).into_iter().filter(gives_up));
        found
    }

    /// The findings about waits of this patience that end only if host functions run in the right
    /// order. The waits in `open` hold back everything that follows a wait in `open`.
    fn risks(&self, open: &BTreeSet<Waiter>, patience: Patience) -> Vec<Stuck> {
        let closed = self.signals.needs.iter().filter(|(key, need)| {
            need.patience == patience && !open.contains(key) && !need.reported
        });
        let risk = |need: &UnansweredWait| {
            let answers = self.answers(need)?;
            let real = answers.iter().filter(|one| {
                one.is_set && !self.covers(open, one) && !self.follows(one.clock, need)
            });
            let risks: Vec<_> = real.map(|one| (one, self.risk(need, one.clock))).collect();
            let (one, first) = risks.first()?;
            let all = risks.iter().all(|(_, risk)| risk.is_some());
            all.then(|| Stuck { hops: vec![hop(need, one, None)], first: *first })
        };
        closed.filter_map(|(_, need)| risk(need)).collect()
    }

    /// The findings about waits without any answer, and one finding for each cycle of other waits.
    fn cycles(&self, open: &BTreeSet<Waiter>) -> Vec<Stuck> {
        let mut found = Vec::new();
        let mut walked: BTreeSet<Waiter> = BTreeSet::new();
        for key in open {
            let need = &self.signals.needs[key];
            if self.answers(need).is_some_and(|answers| answers.is_empty()) {
                walked.insert(*key);
                if !need.reported {
                    let hop =
                        Hop { need: need.clone(), answer: need.op, by: need.by, learned: None };
                    found.push(Stuck { hops: vec![hop], first: None });
                }
            }
        }
        for start in open {
            let (mut path, mut key) = (Vec::<(Waiter, Hop)>::new(), *start);
            let begin = loop {
                if let Some(begin) = path.iter().position(|(other, _)| *other == key) {
                    break Some(begin);
                }
                // An earlier path has gone through this wait already.
                if !walked.insert(key) {
                    break None;
                }
                let Some((hop, next)) = self.next(&key, open) else { break None };
                path.push((key, hop));
                key = next;
            };
            let Some(begin) = begin else { continue };
            let hops: Vec<Hop> = path.drain(begin..).map(|(_, hop)| hop).collect();
            if !hops.iter().any(|hop| hop.need.reported) {
                found.push(Stuck { hops, first: None });
            }
        }
        found
    }

    /// The hop from the wait `key` to its answer, and the wait that the answer follows. This wait
    /// is `key` itself if the answer follows `key`; otherwise it is a wait in `open`.
    fn next(&self, key: &Waiter, open: &BTreeSet<Waiter>) -> Option<(Hop, Waiter)> {
        let need = &self.signals.needs[key];
        let answers = self.answers(need)?;
        let on_itself = answers.iter().find(|one| self.follows(one.clock, need));
        let one = on_itself.or(answers.first())?;
        let candidates = [key].into_iter().chain(open);
        let next = *candidates
            .into_iter()
            .find(|other| self.follows(one.clock, &self.signals.needs[other]))?;
        let learned = match (next.1, one.by) {
            (Actor::HostFn(lane, seq), Actor::Thread(thread)) => {
                let seen = self.signals.host_fn(lane, seq).map(|one| &one.known_by);
                let mut seen = seen.into_iter().flatten();
                seen.find(|(other, _)| *other == thread).map(|(_, op)| *op)
            }
            _ => None,
        };
        Some((hop(need, one, learned), next))
    }

    /// Whether the thread or host function `by` may have a handle of the signal.
    fn may_hold(&self, signal: u64, by: Actor) -> bool {
        let Self { known, signals } = self;
        let Some(mut live) = signals.handles.live(signal) else { return true };
        live.any(|handle| match (handle.holder, by) {
            (Holder::Anyone, _) => true,
            // The thread that made the handle may have moved it into the host function.
            (Holder::Thread(_), Actor::HostFn(..)) if !handle.is_used => true,
            (Holder::Thread(id), _) if known.threads.has_ended(id) => true,
            (Holder::Thread(id), Actor::Thread(thread)) => known.threads.list[thread].id == id,
            (Holder::Thread(_), Actor::HostFn(..)) => false,
            (Holder::HostFn(at), _) if self.has_run(at) => true,
            (Holder::HostFn(at), Actor::HostFn(lane, seq)) => {
                let number = signals.host_fn(lane, seq).map(|one| one.number);
                known.lanes.list[lane].id == at.lane && number == Some(at.seq)
            }
            (Holder::HostFn(_), Actor::Thread(_)) => false,
        })
    }

    /// Whether the host function at the position has returned. A host function that is no longer
    /// kept has returned.
    fn has_run(&self, at: Position) -> bool {
        let Self { known, signals } = self;
        match signals.host_fn_at(known, at) {
            Some(Actor::HostFn(lane, seq)) => {
                signals.host_fn(lane, seq).is_none_or(|one| one.state == State::Ran)
            }
            // The entry of the call that enqueues the host function may still come.
            _ => known.lanes.edges.find(at.lane).is_some() && !signals.is_early(at),
        }
    }
}

fn answer(set: &Set) -> Answer<'_> {
    Answer { op: set.op, by: set.by, clock: &set.clock.sure, is_set: true }
}

fn hop(need: &UnansweredWait, answer: &Answer<'_>, learned: Option<u64>) -> Hop {
    Hop { need: need.clone(), answer: answer.op, by: answer.by, learned }
}
