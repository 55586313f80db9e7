//! Findings about waits for signals that may never end.
#![forbid(unsafe_code)]

use super::explain::{Context, find};
use super::hazard::{Finding, FindingClass, Party};
use super::order::{Actor, Hop, Stuck};

impl Context<'_> {
    /// The finding about waits for signals that may never end. `culprit` is the operation that lost
    /// the context, if the context was lost.
    pub(super) fn stuck(&self, stuck: &Stuck, culprit: Option<u64>) -> Option<Finding> {
        let hop = stuck.hops.first()?;
        let class = match stuck.first {
            _ if stuck.hops.iter().any(|hop| hop.need.is_limited()) => FindingClass::WaitGivesUp,
            Some(_) => FindingClass::DeadlockRisk,
            None => FindingClass::Deadlock,
        };
        let second = find(self.parties, hop.answer)?.clone();
        let mut finding = Finding::new(class, second, Vec::new());
        finding.first = Some(find(self.parties, hop.need.op)?.clone());
        match stuck.first {
            Some(first) => self.risky(hop, first, &mut finding),
            None if self.is_alone(&stuck.hops) => self.unanswered(hop, culprit, &mut finding),
            None => self.cyclic(&stuck.hops, &mut finding),
        }
        Some(finding)
    }

    /// Explains a host function that waits for a signal of another host function. The waiting host
    /// function may run first (law A28).
    fn risky(&self, hop: &Hop, first: u64, finding: &mut Finding) {
        let waiter = self.order.host_fn_op(hop.need.by);
        let (waits, sets) = (self.host_fn(waiter), self.host_fn(Some(first)));
        let streams = (self.stream_of(waiter), self.stream_of(Some(first)));
        finding.known = format!(
            "nothing orders {waits} after {sets}; if {waits} runs first, its wait may keep {sets} \
             from running"
        );
        finding.fix = format!(
            "record an event on {} after #{first} and make {} wait for it before #{}",
            streams.1,
            streams.0,
            waiter.unwrap_or(hop.need.op)
        );
        finding.rules = vec!["A28"];
    }

    /// Whether only the waiting thread or host function could still set the signal.
    fn is_alone(&self, hops: &[Hop]) -> bool {
        let [hop] = hops else { return false };
        hop.by == hop.need.by && !find(self.parties, hop.answer).is_some_and(Party::sets_signal)
    }

    /// Explains a wait for a signal that nothing can set any more.
    fn unanswered(&self, hop: &Hop, culprit: Option<u64>, finding: &mut Finding) {
        let signal = hop.need.signal;
        let never_run = self.order.never_run();
        let lost = never_run.first().and_then(|op| find(self.parties, *op));
        let Some(lost) = lost.filter(|_| culprit.is_some()) else {
            finding.known = format!(
                "{} waits; no other thread or host function can set signal {signal} any more",
                self.actor(hop.need.by)
            );
            finding.fix = format!(
                "set signal {signal} on a thread that still runs, or in a host function that comes \
                 before the wait"
            );
            finding.rules = vec!["A2"];
            return;
        };
        finding.second = lost.clone();
        let by = culprit.and_then(|op| find(self.parties, op));
        let by = by.map_or_else(
            || "the device was lost".to_owned(),
            |by| format!("{} failed", self.entry_text(by)),
        );
        finding.known = format!("{by}; after that, no host function is called");
        finding.fix =
            "wait for the signal with a time limit, and also wait for the stream, which reports \
             the loss"
                .to_owned();
        finding.rules = vec!["A29"];
    }

    /// Explains a cycle of waits. Each wait can only end after the next wait of the cycle has
    /// ended.
    fn cyclic(&self, hops: &[Hop], finding: &mut Finding) {
        let mut words: Vec<String> = Vec::new();
        let mut say = |word: String| {
            if words.last() != Some(&word) {
                words.push(word);
            }
        };
        // The thread or host function that could set the signal of a wait is in the next wait of
        // the cycle. For the last wait, the next one is the first.
        let last = hops.last().map(|hop| hop.by);
        last.into_iter().for_each(|by| say(self.actor(by)));
        for hop in hops {
            if let Actor::HostFn(..) = hop.need.by {
                say(self.stream_of(self.order.host_fn_op(hop.need.by)));
            }
            say(self.actor(hop.need.by));
            say(self.actor(hop.by));
        }
        finding.known = format!("each waits for the next: {}", words.join(" -> "));
        for hop in hops {
            let Some(learned) = hop.learned else { continue };
            let place = self.place(learned);
            finding.known += &format!("; {} waits {place}", self.actor(hop.by));
        }
        let (Some(hop), Some(last)) = (hops.first(), hops.last()) else { return };
        let signal = hop.need.signal;
        finding.fix = match (hop.learned.or(last.learned), finding.second.sets_signal()) {
            (Some(wait), _) => {
                format!("set signal {signal} before the wait at #{wait}, or on another thread")
            }
            (None, true) => {
                format!("set signal {signal} at a point that does not follow #{}", hop.need.op)
            }
            (None, false) => format!("set signal {signal} before #{}", finding.second.op),
        };
        let has_host_fn = hops.iter().any(|hop| matches!(hop.need.by, Actor::HostFn(..)));
        finding.rules = if has_host_fn { vec!["A27", "A28"] } else { vec!["A2"] };
    }

    fn actor(&self, by: Actor) -> String {
        match by {
            Actor::Thread(thread) => {
                let thread = self.order.thread(thread);
                thread
                    .map_or_else(|| "a thread".to_owned(), |thread| format!("thread {}", thread.id))
            }
            Actor::HostFn(..) => match self.order.host_fn_op(by) {
                Some(op) => format!("host function #{op}"),
                None => "a host function".to_owned(),
            },
        }
    }

    fn party(&self, op: Option<u64>) -> Option<&Party> {
        find(self.parties, op?)
    }

    fn host_fn(&self, op: Option<u64>) -> String {
        match op {
            Some(op) => format!("host function #{op} on {}", self.stream_of(Some(op))),
            None => "the host function".to_owned(),
        }
    }

    fn stream_of(&self, op: Option<u64>) -> String {
        let stream = self.party(op).map(|party| self.names.stream(party));
        stream.unwrap_or_else(|| "its stream".to_owned())
    }
}
