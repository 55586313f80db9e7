//! Remarks about performance: programs that compute the right thing more slowly than they need.
//!
//! Every rule has a faulty program that it finds, and a corrected one on which it is silent. Each says
//! how much following its fix would save at most: from measured intervals, by the formula in its
//! comment. The savings of several rules overlap, so they do not add up. What a rule needs and the
//! ledger of a run does not hold, it does not guess: then it is silent.
//!
//! Imports: `base`. Imported by: whoever reports.
#![forbid(unsafe_code)]

mod copies;
mod host;
mod memory;
mod run;
mod streams;

pub use crate::base::lint::{Lint, Rule};

use crate::base::dag::{Dag, Kernels};
use crate::base::ledger::Op;
use run::Run;

/// All remarks about a run, most to save first.
///
/// ```
/// use trijet::trace::dag::{Dag, Kernels};
/// use trijet::check::lint::lints;
/// assert!(lints(&[], &Dag::new(&[], Kernels::Several)).is_empty());
/// ```
#[must_use]
pub fn lints(ops: &[Op], dag: &Dag) -> Vec<Lint> {
    let run = Run::new(ops, dag);
    let rules: [fn(&Run<'_>) -> Vec<Lint>; 13] = [
        copies::pageable,
        copies::sync_copy,
        copies::small_copy,
        copies::starved,
        memory::sync_alloc,
        memory::pool_thrash,
        memory::first_use_load,
        host::over_sync,
        host::late,
        streams::legacy_barrier,
        streams::redundant_wait,
        streams::no_overlap,
        streams::too_many,
    ];
    let mut found: Vec<Lint> = rules.iter().flat_map(|rule| rule(&run)).collect();
    found.sort_by_key(|lint| (std::cmp::Reverse(lint.saved), lint.rule));
    found
}

/// All remarks about a run of which only the records are at hand.
#[must_use]
pub fn lints_of(ops: &[Op], kernels: Kernels) -> Vec<Lint> {
    lints(ops, &Dag::new(ops, kernels))
}
