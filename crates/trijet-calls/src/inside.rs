//! The checkers of the insides of graphs: two for each graph, as for the program (`judged`).

use crate::reader::{CHAINS_AFTER, LedgerPart, Step};
use trijet_ledger::base::id::LaneId;
use trijet_ledger::base::ledger::{Declared, LedgerNote};
use trijet_ledger::check::{CheckOptions, Checker, Finding, FindingClass};

/// Maximum number of findings of a level that are kept.
const FINDINGS_MAX: usize = 1000;

/// The findings about the insides of graphs.
#[derive(Debug, Clone, Default)]
pub(crate) struct InsideFindings {
    pub(crate) declared: Vec<Finding>,
    pub(crate) possible: Vec<Finding>,
    /// The number of findings of `declared` that were not kept.
    pub(crate) more: u64,
}

/// The checkers of the graph whose entries are read, and the findings of the graphs before.
#[derive(Debug, Clone, Default)]
pub(crate) struct GraphChecker {
    now: Option<Box<[Checker; 2]>>,
    findings: InsideFindings,
    found: usize,
}

impl GraphChecker {
    /// The number of findings so far, including those that are not kept.
    pub(crate) fn found(&self) -> usize {
        self.found
    }

    /// Reads an entry with its number in the ledger.
    pub(crate) fn push(&mut self, step: Step, number: u64) {
        let start = || {
            // A copy inside of a graph holds up no host thread, whatever drivers were seen to do.
            let mut one = Checker::new(CheckOptions::new().findings_max(FINDINGS_MAX));
            one.skip(number);
            Box::new([one.clone(), one])
        };
        let [declared, possible] = &mut **self.now.get_or_insert_with(start);
        let Step { mut op, possible: may, part, .. } = step;
        declared.push(&op);
        if part == LedgerPart::Programmatic {
            // For the checker of possible conflicts, it is no wait.
            op.kind = LedgerNote::Gone { event: u64::MAX }.into();
        }
        if !may.is_empty() {
            op.accesses.extend(may);
            op.declared = Declared::All;
        }
        possible.push(&op);
    }

    /// Ends the entries of a graph.
    pub(crate) fn end(&mut self) {
        let Some(now) = self.now.take() else { return };
        let [declared, possible] = *now;
        self.found += declared.found() + possible.found();
        let InsideFindings { declared: sure, possible: further, more } = &mut self.findings;
        let verdict = declared.finish();
        *more += verdict.more + keep(verdict.findings, sure);
        keep(possible.finish().findings, further);
    }

    pub(crate) fn finish(mut self) -> InsideFindings {
        self.end();
        self.findings
    }
}

/// Keeps findings, and returns the number of those that are not kept.
fn keep(new: Vec<Finding>, kept: &mut Vec<Finding>) -> u64 {
    let room = FINDINGS_MAX.saturating_sub(kept.len());
    let left_out = new.len().saturating_sub(room);
    kept.extend(new.into_iter().take(room).map(explained));
    left_out as u64
}

/// A finding in the words of graphs.
fn explained(mut finding: Finding) -> Finding {
    let first = finding.first.as_ref().map(|first| first.op);
    let is_of_order = matches!(
        finding.class,
        FindingClass::Race(_) | FindingClass::UseBeforeAlloc | FindingClass::FreeRacesUse
    );
    if let Some(first) = first.filter(|_| is_of_order) {
        let second = finding.second.op;
        finding.known = format!("no path of edges of the graph leads from #{first} to #{second}");
        finding.fix = format!(
            "add an edge; in a capture, record an event after #{first}, and make the stream of \
             #{second} wait for it"
        );
        finding.rules = match finding.class {
            FindingClass::UseBeforeAlloc => vec!["A21", "A31"],
            FindingClass::FreeRacesUse => vec!["A22", "A31"],
            _ => vec!["A31"],
        };
    }
    finding
}

/// The name of a chain of nodes.
pub(crate) fn chain_name(lane: LaneId) -> Option<String> {
    let number = lane.0.checked_sub(CHAINS_AFTER)?;
    Some(format!("chain {number} of a graph"))
}
