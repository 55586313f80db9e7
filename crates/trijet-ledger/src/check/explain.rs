//! Explanations of a conflict: the order that is known, why it is not enough, and what to change.
#![forbid(unsafe_code)]

use super::hazard::{Conflict, FindingClass, Party};
use super::names::Names;
use super::options::{CheckOptions, Threads};
use super::order::{EntryOrder, Moment, Owner, RememberedWait, Stamp, Step, Thread};
use crate::base::ledger::{MemoryCall, OpKind, Place, StreamClass};

/// The state of the checker that findings are explained from.
pub(super) struct Context<'a> {
    pub(super) order: &'a EntryOrder,
    pub(super) names: &'a Names,
    pub(super) threads: Threads,
    /// The entries that the checker keeps, in the order of the ledger.
    pub(super) parties: &'a [Party],
}

/// Two conflicting accesses that nothing orders.
pub(super) struct ConflictingPair<'a> {
    pub(super) class: FindingClass,
    pub(super) conflict: Conflict,
    pub(super) first: &'a Party,
    pub(super) second: &'a Party,
    pub(super) place: Place,
    /// The stamp that a clock must cover to follow the first access.
    pub(super) at: Stamp,
    /// The position of the second access's entry in the order.
    pub(super) step: &'a Step,
    pub(super) moment: Moment,
}

/// The texts of an explanation.
#[derive(Debug, Default)]
pub(super) struct Explained {
    pub(super) known: String,
    pub(super) fix: String,
    pub(super) rules: Vec<&'static str>,
}

/// Why an earlier wait does not order the two accesses.
enum MissingOrder<'a> {
    /// The event of the wait was recorded before the first access.
    Predates(&'a RememberedWait),
    /// The event of the wait was recorded after the first access. Then the event was recorded
    /// again, in another stream, before the wait.
    Replaced(&'a RememberedWait),
    /// The event of the wait had not been recorded.
    Unrecorded(&'a RememberedWait),
}

/// The party of the entry `op`, if it is still kept.
pub(super) fn find(parties: &[Party], op: u64) -> Option<&Party> {
    parties.binary_search_by_key(&op, |party| party.op).ok().map(|index| &parties[index])
}

/// The wait that an explanation names as the cause of the missing order: the latest wait whose
/// event was recorded again. If there is no such wait: the latest wait whose event was recorded too
/// early. If there is no such wait either: the latest wait whose event was not recorded.
fn cause(waits: &[RememberedWait], at: Stamp) -> Option<MissingOrder<'_>> {
    let of_stream = |stamp: &(u64, Stamp)| stamp.1.lane == at.lane;
    let mut latest = waits.iter().rev();
    let replaced = |remembered: &&RememberedWait| {
        remembered.replaced.iter().any(|r| of_stream(r) && r.1.seq >= at.seq)
    };
    let predates = |remembered: &&RememberedWait| {
        remembered.recorded.iter().any(|r| of_stream(r) && r.1.seq < at.seq)
    };
    if let Some(remembered) = latest.clone().find(replaced) {
        return Some(MissingOrder::Replaced(remembered));
    }
    if let Some(remembered) = latest.clone().find(predates) {
        return Some(MissingOrder::Predates(remembered));
    }
    latest.find(|remembered| remembered.recorded.is_none()).map(MissingOrder::Unrecorded)
}

impl<'a> Context<'a> {
    pub(super) fn new(
        order: &'a EntryOrder,
        options: &'a CheckOptions,
        parties: &'a [Party],
    ) -> Self {
        Self { order, names: &options.names, threads: options.threads, parties }
    }
}

impl Context<'_> {
    /// The number of an entry, with its line of the program if that is known.
    pub(super) fn place(&self, op: u64) -> String {
        let site = find(self.parties, op).and_then(|party| self.names.site(party));
        site.map_or_else(|| format!("at #{op}"), |site| format!("at #{op}, {site}"))
    }

    pub(super) fn explain(&self, pair: &ConflictingPair<'_>) -> Explained {
        let mut said = match self.order.owner(pair.at) {
            Owner::Stream(_) if pair.moment == Moment::Work => self.between_streams(pair),
            Owner::Stream(_) => self.host_after_stream(pair),
            Owner::Thread(thread) => self.after_thread(pair, Some(thread)),
            Owner::Unknown => self.after_thread(pair, None),
        };
        match pair.class {
            FindingClass::UseBeforeAlloc => said.rules.insert(0, "A21"),
            FindingClass::FreeRacesUse => self.free(pair, &mut said),
            FindingClass::FreeInFlight => {
                said.fix =
                    format!("keep the memory until an event after #{} is complete", pair.first.op);
            }
            FindingClass::Race(_)
            | FindingClass::Host(_)
            | FindingClass::ReuseRacesUse
            | FindingClass::UseAfterFree
            | FindingClass::DoubleFree
            | FindingClass::Leak
            | FindingClass::ReadUninit
            | FindingClass::WaitUnrecorded
            | FindingClass::EventUnordered
            | FindingClass::BatchDependent
            | FindingClass::ApiCall
            | FindingClass::Sticky
            | FindingClass::Deadlock
            | FindingClass::WaitGivesUp
            | FindingClass::DeadlockRisk => {}
        }
        said
    }

    /// Completes the explanation of a free that does not follow a use.
    fn free(&self, pair: &ConflictingPair<'_>, said: &mut Explained) {
        if pair.second.kind == OpKind::Memory(MemoryCall::FreeNow) {
            said.known += "; cuMemFree does not synchronise with work in streams";
            said.fix = "free it in stream order, or synchronise with all users first".to_owned();
            said.rules.insert(0, "A24");
            return;
        }
        let streams = (self.names.stream(pair.second), self.names.stream(pair.first));
        said.fix = format!(
            "make {} wait for all users before #{}, or free on {} if the last user is on that \
             stream",
            streams.0, pair.second.op, streams.1
        );
        said.rules.insert(0, "A22");
    }

    /// The explanation if both accesses are by streams.
    fn between_streams(&self, pair: &ConflictingPair<'_>) -> Explained {
        let ConflictingPair { first, second, at, step, .. } = pair;
        let (a, b) = (self.names.stream(first), self.names.stream(second));
        let lane = step.lane.and_then(|lane| self.order.lane(lane));
        let waits = lane.map_or(&[][..], |lane| &lane.waits);
        let reached = self.reached(pair);
        let mut fix = format!(
            "record an event on {a} after #{} and make {b} wait for it before #{}",
            first.op, second.op
        );
        let (known, rules) = match cause(waits, *at) {
            Some(MissingOrder::Replaced(remembered)) => {
                let (event, last) =
                    (self.names.event(remembered.event), remembered.recorded.map_or(0, |r| r.0));
                fix = "use a separate event for each operation to wait for".to_owned();
                let wait = self.place(remembered.op);
                let last = self.place(last);
                let known = format!(
                    "{b} waits for {event} ({wait}), which was recorded on {a} after #{} and then \
                     recorded again ({last}): the wait is for the last record only",
                    first.op
                );
                (known, vec!["A4", "A7"])
            }
            Some(MissingOrder::Predates(remembered)) => {
                let (event, at) =
                    (self.names.event(remembered.event), remembered.recorded.map_or(0, |r| r.0));
                let record = self.place(at);
                let known = format!(
                    "{b} has waited for {a} only {} ({event}, recorded {record}, BEFORE #{})",
                    self.names.up_to(reached),
                    first.op
                );
                (known, vec!["A4", "A7"])
            }
            Some(MissingOrder::Unrecorded(remembered)) => {
                let (event, wait) = (self.names.event(remembered.event), self.place(remembered.op));
                fix =
                    format!("move the record of {event} before the wait, and after #{}", first.op);
                let known = format!(
                    "{b} waited for {event} ({wait}) before any record of the event, so the wait \
                     has no effect"
                );
                (known, vec!["A5"])
            }
            None => self.unrelated(pair, (&a, &b), reached),
        };
        if pair.conflict == Conflict::War {
            fix += ", or use one more buffer";
        }
        Explained { known, fix, rules }
    }

    /// The explanation for streams without a wait that could have ordered the two accesses.
    fn unrelated(
        &self,
        pair: &ConflictingPair<'_>,
        (a, b): (&str, &str),
        reached: u64,
    ) -> (String, Vec<&'static str>) {
        let classes = (pair.first.stream, pair.second.stream);
        match classes {
            (StreamClass::NonBlocking, StreamClass::Legacy) => {
                let known = format!("{a} is non-blocking: the legacy stream does not wait for it");
                (known, vec!["A13"])
            }
            (StreamClass::Legacy, StreamClass::NonBlocking) => {
                let known = format!("{b} is non-blocking: it does not wait for the legacy stream");
                (known, vec!["A13"])
            }
            _ if reached == 0 => (format!("nothing orders {b} after {a}"), vec!["A3"]),
            _ => (format!("{b} has waited for {a} only {}", self.names.up_to(reached)), vec!["A3"]),
        }
    }

    /// The position up to which the second access follows the stream of the first access.
    fn reached(&self, pair: &ConflictingPair<'_>) -> u64 {
        let known = self.order.before(pair.step, pair.moment).sure.get(pair.at.lane);
        let offset = match self.order.owner(pair.at) {
            Owner::Stream(lane) => lane.offset,
            Owner::Thread(_) | Owner::Unknown => 0,
        };
        known.saturating_add(offset)
    }

    /// The explanation if the first access is by a stream, and the second by the host.
    fn host_after_stream(&self, pair: &ConflictingPair<'_>) -> Explained {
        let ConflictingPair { first, second, at, step, .. } = pair;
        let (stream, reached) = (self.names.stream(first), self.reached(pair));
        let thread = self.order.thread(step.thread);
        let mut rules = vec!["A16"];
        let waits = thread.map_or(&[][..], |thread| &thread.waits);
        let mut known = match (cause(waits, *at), self.order.thread_that_knows(*at)) {
            (_, Some(other)) => {
                rules.push("A11");
                format!(
                    "thread {} has waited for #{}, but this wait orders calls of that thread only, \
                     and #{} is a call of thread {}",
                    other.id, first.op, second.op, second.thread
                )
            }
            (Some(MissingOrder::Predates(remembered)), _) => {
                rules.extend(["A4", "A8"]);
                let record = self.place(remembered.recorded.map_or(0, |r| r.0));
                let event = self.names.event(remembered.event);
                format!(
                    "thread {} has waited for {stream} only {} ({event}, recorded {record}, BEFORE \
                     #{})",
                    second.thread,
                    self.names.up_to(reached),
                    first.op
                )
            }
            _ if reached == 0 => format!("thread {} has not waited for {stream}", second.thread),
            _ => {
                let up_to = self.names.up_to(reached);
                format!("thread {} has waited for {stream} only {up_to}", second.thread)
            }
        };
        let pending = thread.and_then(|thread| thread.pending);
        if let Some(query) = pending.filter(|query| *query > first.op) {
            rules.push("A8");
            known +=
                &format!("; a call that found work pending ({}) orders nothing", self.place(query));
        }
        if pair.place == Place::Pageable {
            rules.push("A17");
            known += "; portability: a copy of pageable memory may continue after its call returns";
        }
        let fix = if second.is_of_host() {
            format!(
                "synchronise with an event on {stream} after #{} before the host touches the \
                 memory, or use two buffers in turn",
                first.op
            )
        } else {
            format!("synchronise with {stream} after #{}, before #{}", first.op, second.op)
        };
        Explained { known, fix, rules }
    }

    /// The explanation if the first access is by a host thread. `thread` is `None` if the checker
    /// no longer knows the thread.
    fn after_thread(&self, pair: &ConflictingPair<'_>, thread: Option<&Thread>) -> Explained {
        let ConflictingPair { first, second, .. } = pair;
        let one = thread.map_or(first.thread, |thread| thread.id);
        let mut known =
            format!("nothing orders thread {} after #{} of thread {one}", second.thread, first.op);
        if self.threads == Threads::Apart {
            known += " (starts, joins and locks of threads are not in the trace)";
        }
        let fix =
            format!("hand the memory from thread {one} to thread {} in between", second.thread);
        Explained { known, fix, rules: vec!["A2", "A11"] }
    }
}
