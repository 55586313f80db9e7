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
mod streams;

use crate::base::dag::{Dag, Kernels, by_engine};
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Op, OpKind, Place, Site};
pub use crate::base::lint::{Lint, Rule};
use crate::base::span::Union;
use crate::base::units::Nanos;
use std::collections::BTreeMap;
use std::ops::Range;

/// As often as this at one place of the program is a loop.
const LOOP_MIN: usize = 3;
/// Records that a remark lists.
const OPS_MAX: usize = 16;

/// What the rules look at.
struct Run<'a> {
    ops: &'a [Op],
    dag: &'a Dag,
    engines: Vec<((DeviceId, Engine), Vec<usize>)>,
    /// When each engine worked, in the order of `engines`.
    busy: Vec<Union>,
    window: Range<u64>,
}

impl<'a> Run<'a> {
    fn new(ops: &'a [Op], dag: &'a Dag) -> Self {
        let engines = by_engine(ops, dag);
        let busy: Vec<Union> = engines
            .iter()
            .map(|(_, list)| Union::of(list.iter().filter_map(|op| dag.work(*op))))
            .collect();
        let window = Union::all(&busy).hull().unwrap_or(0..0);
        Self { ops, dag, engines, busy, window }
    }

    /// The engine that worked for the longest, by its place in the lists.
    fn limiting(&self) -> Option<usize> {
        (0..self.busy.len()).max_by_key(|engine| self.busy[*engine].length())
    }

    /// When the limiting engine was idle within the window.
    fn idle(&self) -> Union {
        let window = Union::of([self.window.clone()]);
        self.limiting().map_or_else(Union::default, |engine| window.minus(&self.busy[engine]))
    }

    fn elapsed(&self) -> u64 {
        self.window.end - self.window.start
    }

    fn call_time(&self, op: usize) -> u64 {
        self.dag.call(op).map_or(0, |call| call.end - call.start)
    }

    /// The usual time of a call that enqueues: the median of kernels' and page-locked copies'.
    fn usual_call(&self) -> u64 {
        let plain = |op: &usize| {
            let kind = &self.ops[*op].kind;
            let pageable = self.ops[*op].accesses.iter().any(|a| a.place == Place::Pageable);
            matches!(kind, OpKind::Kernel | OpKind::Copy) && !pageable
        };
        let mut times: Vec<u64> = (0..self.ops.len())
            .filter(plain)
            .filter_map(|op| self.dag.call(op).map(|call| call.end - call.start))
            .collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or(0)
    }

    /// Records that `wanted` picks, by their place in the program; without a place by their label.
    fn by_place(&self, wanted: impl Fn(&Op) -> bool) -> Vec<Vec<usize>> {
        let mut places: BTreeMap<(Option<PlaceOf<'_>>, &str), Vec<usize>> = BTreeMap::new();
        for (index, op) in self.ops.iter().enumerate().filter(|(_, op)| wanted(op)) {
            places.entry((op.site.as_ref().map(place_of), &op.label)).or_default().push(index);
        }
        places.into_values().collect()
    }

    fn lint(&self, rule: Rule, saved: u64, mut ops: Vec<usize>, text: String) -> Lint {
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

/// All remarks about a run, most to save first.
///
/// ```
/// use trijet::base::dag::{Dag, Kernels};
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
