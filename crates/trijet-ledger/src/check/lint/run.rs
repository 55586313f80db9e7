//! The input of the rules: the entries of a run, its graph, and the times when each engine worked.
#![forbid(unsafe_code)]

use crate::base::dag::{Dag, by_engine};
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Op, OpKind, Place, Site, StreamWork};
use crate::base::lint::{Lint, Rule};
use crate::base::span::Union;
use crate::base::units::Nanos;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of entries that a remark lists.
const OPS_MAX: usize = 16;

/// The input of the rules.
pub(super) struct LintRun<'a> {
    pub(super) ops: &'a [Op],
    pub(super) dag: &'a Dag,
    pub(super) engines: Vec<((DeviceId, Engine), Vec<usize>)>,
    /// The times when each engine worked, in the order of `engines`.
    pub(super) busy: Vec<Union>,
    /// The number of hardware queues of each device, if the number is known.
    pub(super) hardware_queues: Option<u32>,
    /// The time in which the thread of the run waited for engines of the host, if that is known.
    pub(super) host_waited: Option<Nanos>,
    window: Range<u64>,
}

impl<'a> LintRun<'a> {
    pub(super) fn new(ops: &'a [Op], dag: &'a Dag, hardware_queues: Option<u32>) -> Self {
        let engines = by_engine(ops, dag);
        let busy: Vec<Union> = engines
            .iter()
            .map(|(_, list)| Union::of(list.iter().filter_map(|op| dag.work(*op))))
            .collect();
        let window = Union::all(&busy).hull().unwrap_or(0..0);
        Self { ops, dag, engines, busy, hardware_queues, host_waited: None, window }
    }

    /// The index in `engines` of the limiting engine: the engine that worked for the longest time.
    pub(super) fn limiting(&self) -> Option<usize> {
        (0..self.busy.len()).max_by_key(|engine| self.busy[*engine].length())
    }

    /// The times when the limiting engine was idle, from the first work of any engine to the last.
    pub(super) fn idle(&self) -> Union {
        let window = Union::of([self.window.clone()]);
        self.limiting().map_or_else(Union::default, |engine| window.minus(&self.busy[engine]))
    }

    /// Whether the thread waited for engines of the host for at least half of `saved`. Then this
    /// wait explains the idle time that a change would save.
    pub(super) fn is_of_host(&self, saved: u64) -> bool {
        self.host_waited.is_some_and(|waited| saved <= 2 * waited.0)
    }

    pub(super) fn elapsed(&self) -> u64 {
        self.window.end - self.window.start
    }

    /// Whether `saved` is a larger part of the run than the rule needs.
    pub(super) fn is_enough(&self, rule: Rule, saved: u64) -> bool {
        rule.is_enough(saved, self.elapsed())
    }

    pub(super) fn call_time(&self, op: usize) -> u64 {
        self.dag.call(op).map_or(0, |call| call.end - call.start)
    }

    /// The usual time of a call that enqueues: the median over kernels and copies of page-locked
    /// memory.
    pub(super) fn usual_call(&self) -> u64 {
        let plain = |op: &usize| {
            let kind = &self.ops[*op].kind;
            let pageable = self.ops[*op].accesses.iter().any(|a| a.place == Place::Pageable);
            matches!(kind, OpKind::Work(StreamWork::Kernel | StreamWork::Copy)) && !pageable
        };
        let mut times: Vec<u64> = (0..self.ops.len())
            .filter(plain)
            .filter_map(|op| self.dag.call(op).map(|call| call.end - call.start))
            .collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or(0)
    }

    /// The entries that `wanted` picks, grouped by their line of the program and their label.
    pub(super) fn by_place(&self, wanted: impl Fn(&Op) -> bool) -> Vec<Vec<usize>> {
        let mut places: BTreeMap<(Option<PlaceOf<'_>>, &str), Vec<usize>> = BTreeMap::new();
        for (index, op) in self.ops.iter().enumerate().filter(|(_, op)| wanted(op)) {
            places.entry((op.site.as_ref().map(place_of), &op.label)).or_default().push(index);
        }
        places.into_values().collect()
    }

    pub(super) fn lint(&self, rule: Rule, saved: u64, mut ops: Vec<usize>, text: String) -> Lint {
        let place = ops.first().and_then(|op| self.ops[*op].site.as_ref());
        let text = match place {
            Some(site) => format!("{text}, at {site}"),
            None => text,
        };
        ops.truncate(OPS_MAX);
        Lint { rule, saved: Nanos(saved), ops, text }
    }
}

type PlaceOf<'a> = (&'a str, u32, u32);

fn place_of(site: &Site) -> PlaceOf<'_> {
    (&site.file, site.line, site.column)
}
