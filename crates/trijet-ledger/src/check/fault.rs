//! The finding about the loss of a context: the operation that failed or the operations that may
//! have failed, and the host functions that will never run.
#![forbid(unsafe_code)]

use super::explain::{Context, find};
use super::hazard::{Finding, FindingClass, Party};
use crate::base::id::{LaneId, Position};
use crate::base::ledger::Op;

/// Maximum number of host functions that a finding lists.
const LISTED_MAX: usize = 3;

/// The loss of a context.
pub(super) struct ContextFault {
    pub(super) finding: Finding,
    /// The operation that failed, if its entry is still kept.
    pub(super) first: Option<u64>,
    /// The number of kept operations after the operation that failed.
    pub(super) poisoned: u64,
}

impl Context<'_> {
    /// The finding about a loss of the context (law A40). `this` is the current entry. This entry
    /// reported the loss to the thread with the index `thread`.
    pub(super) fn fault(
        &self,
        this: Party,
        op: &Op,
        thread: usize,
        culprit: Option<Position>,
    ) -> ContextFault {
        let mut finding = Finding::new(FindingClass::Sticky, this, vec!["A40"]);
        let mut work = self.parties.iter().filter(|party| party.kind.is_work());
        let found = work.find(|party| Some(party.position) == culprit);
        let first = found.map(|party| party.op);
        let is_later =
            |party: &&Party| first.is_some_and(|first| party.op > first) && party.kind.is_work();
        let poisoned = self.parties.iter().filter(is_later).count() as u64;
        finding.first = found.cloned();
        finding.known = match (&finding.first, culprit) {
            (Some(first), _) => format!(
                "{} failed; {poisoned} later operations have no valid result, whatever they report",
                self.entry_text(first)
            ),
            (None, Some(at)) => format!("{at} failed; the ledger no longer has its entry"),
            (None, None) => self.suspects(op, thread),
        };
        self.never_run(&mut finding);
        finding.fix =
            "repair the operation that failed first; no result after it is valid".to_owned();
        ContextFault { finding, first, poisoned }
    }

    /// For each stream, the earliest operation that the thread does not know to be complete.
    fn suspects(&self, op: &Op, thread: usize) -> String {
        let open = self.order.in_flight(op.device, thread);
        let said = open.iter().map(|(lane, known)| self.suspect(*lane, *known));
        let said: Vec<String> = said.collect();
        if said.is_empty() {
            return "the thread that met the loss knew that all traced operations of the device \
                    were complete"
                .to_owned();
        }
        format!(
            "one of these operations failed, or a later operation of the same stream: {}",
            said.join(", ")
        )
    }

    fn suspect(&self, lane: LaneId, known: u64) -> String {
        let is_open = |party: &&Party| {
            party.kind.is_work() && party.position.lane == lane && party.position.seq > known
        };
        let open = self.parties.iter().filter(is_open).min_by_key(|party| party.position.seq);
        let name = |party: &Party| self.names.stream(party);
        match open.filter(|party| party.position.seq == known + 1) {
            Some(first) => format!("{} on {}", self.entry_text(first), name(first)),
            None => {
                let stream = open.map_or_else(|| self.names.lane(lane), name);
                format!("an operation after pos {known} on {stream}")
            }
        }
    }

    /// Adds the host functions that have not begun: after the loss they are never called (law A29).
    fn never_run(&self, finding: &mut Finding) {
        let pending = self.order.never_run();
        let known = pending.iter().filter_map(|op| find(self.parties, *op));
        let listed: Vec<String> =
            known.take(LISTED_MAX).map(|party| self.entry_text(party)).collect();
        if listed.is_empty() {
            return;
        }
        finding.rules.push("A29");
        finding.known += &format!("; these host functions never run: {}", listed.join(", "));
        if pending.len() > listed.len() {
            finding.known += &format!(" and {} more", pending.len() - listed.len());
        }
    }

    /// An entry as text: its number, its label and its line of the program.
    pub(super) fn entry_text(&self, party: &Party) -> String {
        let Party { op, label, .. } = party;
        let site = self.names.site(party).map_or_else(String::new, |site| format!(" ({site})"));
        format!("#{op} `{label}`{site}")
    }
}
