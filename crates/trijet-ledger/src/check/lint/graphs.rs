//! Remarks about launches of graphs.
#![forbid(unsafe_code)]

use super::run::LintRun;
use crate::base::dag::{DagNode, Edge};
use crate::base::ledger::Op;
use crate::base::lint::{Lint, Rule};
use crate::base::units::Nanos;
use std::collections::{BTreeSet, HashMap};

/// The label of a launch of a graph begins with this text. No kernel has a space in its name.
const LABEL: &str = "graph ";

/// The number and the label of the graph that an entry launches. Ledgers before version 6 have only
/// the label.
fn graph_of(op: &Op) -> Option<(Option<u64>, &str)> {
    let old = || op.label.starts_with(LABEL).then_some((None, &*op.label));
    op.graph.map(|graph| (Some(graph), "")).or_else(old)
}

/// Launches of one graph in several streams that waited for each other (law A31), though nothing
/// else held them back.
///
/// Saved: for each such launch, the time in which only the previous launch of the graph held this
/// launch back.
pub(super) fn serialized(run: &LintRun<'_>) -> Vec<Lint> {
    let mut last = HashMap::new();
    let (mut saved, mut concerned, mut lanes) = (0, Vec::new(), BTreeSet::new());
    let other_laws = |edge| matches!(edge, Edge::Lane | Edge::Event | Edge::Legacy);
    for (index, op) in run.ops.iter().enumerate() {
        let (Some(graph), Some(ran)) = (graph_of(op), run.dag.work(index)) else { continue };
        let Some(before) = last.insert((op.device, graph), index) else { continue };
        let (Some(earlier), Some(enqueued)) = (run.dag.work(before), run.dag.enqueued(index))
        else {
            continue;
        };
        let (lane, other) = (op.position.lane, run.ops[before].position.lane);
        let held = run.dag.last_before(DagNode::work(index), other_laws);
        let held = held.map_or(0, |(node, _)| run.dag.span(node).end);
        let ready = held.max(enqueued);
        if lane != other && ready < earlier.end && ran.start >= earlier.end {
            saved += earlier.end - ready;
            concerned.push(index);
            lanes.extend([lane, other]);
        }
    }
    if !run.is_enough(Rule::GraphSerialized, saved) {
        return Vec::new();
    }
    let (count, streams) = (concerned.len(), lanes.len());
    let text = format!(
        "{count} launches of a graph in {streams} streams waited {} in total for its launches in the \
         other streams: a graph runs once at a time",
        Nanos(saved)
    );
    vec![run.lint(Rule::GraphSerialized, saved, concerned, text)]
}
