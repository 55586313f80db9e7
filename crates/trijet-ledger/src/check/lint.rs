//! Remarks about performance: habits that make a correct program slower than it needs to be.
//!
//! Each rule is tested with a faulty program, for which it has a remark, and with a corrected
//! program, for which it has no remark. A remark states the maximum time that its fix can save. The
//! comment of the rule has the formula, whose inputs are measured intervals. The savings of several
//! rules overlap, so they do not add up. A rule does not guess: if the ledger lacks what the rule
//! needs, there is no remark.
#![forbid(unsafe_code)]

mod copies;
mod graphs;
mod host;
mod memory;
mod queues;
mod run;
mod streams;

pub use crate::base::lint::{FoundIn, Lint, Rule};

use crate::base::dag::{Dag, Kernels};
use crate::base::ledger::Op;
use crate::base::units::Nanos;
use run::LintRun;

/// All remarks about a run, with the largest saving first. `hardware_queues` is the number of
/// queues to which the driver assigned the streams (`DeviceInfo::hardware_queues`). Without it,
/// there is no remark about queues that streams share.
///
/// ```
/// use trijet::trace::dag::{Dag, Kernels};
/// use trijet::check::lint::lints;
/// assert!(lints(&[], &Dag::new(&[], Kernels::Several), None).is_empty());
/// ```
#[must_use]
pub fn lints(ops: &[Op], dag: &Dag, hardware_queues: Option<u32>) -> Vec<Lint> {
    all(&LintRun::new(ops, dag, hardware_queues))
}

/// Returns the remarks as [`lints`] does, for a run whose thread waited for engines of the host: a
/// reader, a writer, the synchronization with the disk. `waited` is the time of these waits. If
/// these waits explain idle time, the idle time is no reason for a remark about the code of the
/// program or about its schedule.
pub fn lints_beside_host(
    ops: &[Op],
    dag: &Dag,
    hardware_queues: Option<u32>,
    waited: Nanos,
) -> Vec<Lint> {
    let mut run = LintRun::new(ops, dag, hardware_queues);
    run.host_waited = Some(waited);
    all(&run)
}

fn all(run: &LintRun<'_>) -> Vec<Lint> {
    let rules: [fn(&LintRun<'_>) -> Vec<Lint>; 15] = [
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
        queues::shared,
        graphs::serialized,
    ];
    let mut found: Vec<Lint> = rules.iter().flat_map(|rule| rule(run)).collect();
    found.sort_by_key(|lint| (std::cmp::Reverse(lint.saved), lint.rule));
    found
}

/// All remarks about a run, from its entries alone. There are no remarks about hardware queues.
#[must_use]
pub fn lints_of(ops: &[Op], kernels: Kernels) -> Vec<Lint> {
    lints(ops, &Dag::new(ops, kernels), None)
}
