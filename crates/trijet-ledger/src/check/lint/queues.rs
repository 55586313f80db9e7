//! Remarks about hardware queues that streams share.
#![forbid(unsafe_code)]

use super::run::LintRun;
use crate::base::crowd::{Crowd, KernelRun, crowd};
use crate::base::id::{DeviceId, LaneId};
use crate::base::ledger::{Engine, LedgerNote, Named, OpKind};
use crate::base::lint::{Lint, Rule};
use crate::base::units::Nanos;
use crate::check::names::Names;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of streams that a remark names.
const NAMED_MAX: usize = 8;

/// Kernels that were ready and waited while exactly as many kernels ran as there are hardware
/// queues (law A47). `base::crowd` states the evidence that is needed.
///
/// Saved: the time in which at least one of these kernels waited for this reason.
pub(super) fn shared(run: &LintRun<'_>) -> Vec<Lint> {
    let Some(queues) = run.hardware_queues else { return Vec::new() };
    let mut devices: BTreeMap<DeviceId, (Vec<usize>, Vec<KernelRun>)> = BTreeMap::new();
    // The last kernel of each stream, as an index into the list of its device.
    let mut last: HashMap<LaneId, usize> = HashMap::new();
    for (index, op) in run.ops.iter().enumerate() {
        let is_kernel = matches!(op.engine, Engine::Compute | Engine::Communication);
        if !is_kernel && op.engine != Engine::Host {
            continue;
        }
        let Some(enqueued) = run.dag.enqueued(index) else { continue };
        let (ops, runs) = devices.entry(op.device).or_default();
        if let Some(at) = last.get(&op.position.lane) {
            runs[*at].is_followed |= enqueued < runs[*at].ran.end;
        }
        let Some(ran) = run.dag.work(index).filter(|_| is_kernel) else {
            continue;
        };
        last.insert(op.position.lane, runs.len());
        let held = run.dag.held_by(index).map_or(0, |held| held.until);
        let ready = held.max(enqueued);
        let stream = usize::try_from(op.position.lane.0).unwrap_or(usize::MAX);
        runs.push(KernelRun { stream, ready, ran, is_followed: false });
        ops.push(index);
    }
    let names = names(run);
    let lint = |(ops, runs): (Vec<usize>, Vec<KernelRun>)| {
        let found = crowd(&runs, queues)?;
        let saved = found.waited.length();
        let concerned = found.runs.iter().map(|at| ops[*at]).collect();
        run.is_enough(Rule::QueueShared, saved.0).then(|| {
            run.lint(Rule::QueueShared, saved.0, concerned, text(&found, queues, saved, &names))
        })
    };
    devices.into_values().filter_map(lint).collect()
}

fn text(found: &Crowd, queues: u32, saved: Nanos, names: &Names) -> String {
    let lane = |stream: &usize| LaneId(u32::try_from(*stream).unwrap_or(u32::MAX));
    let named: Vec<String> =
        found.streams.iter().take(NAMED_MAX).map(|stream| names.lane(lane(stream))).collect();
    let more = found.streams.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{} streams had their next operation enqueued before a kernel ended, but there are only \
         {queues} hardware queues; {} kernels were ready but waited for {} in total, within \
         {saved} of the run, while exactly {queues} kernels ran: the kernels of {}{more}",
        found.in_row,
        found.runs.len(),
        found.sum,
        named.join(", ")
    )
}

/// The names of the streams. The last name of each stream counts.
fn names(run: &LintRun<'_>) -> Names {
    let mut names = Names::default();
    for op in run.ops {
        if op.kind == (OpKind::Note(LedgerNote::Name { of: Named::Stream })) {
            names.lanes.insert(op.position.lane, op.label.to_string());
        }
    }
    names
}
