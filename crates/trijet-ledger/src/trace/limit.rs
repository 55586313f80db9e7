//! The limit of a run: one answer for the terminal, the page and JSON.
//!
//! A part of the run is its limit only if two measures agree. First, the part is busy for longer
//! than every other part, by at least a margin. Second, no other part has more time on the critical
//! path than this part, by the margin or more. A part that is busy for nearly the whole run passes
//! the second measure if its time on the path is at least the margin: nothing else could make the
//! run much longer. If the measures do not agree, there is no single limit. The busy times decide
//! first, because they are nearly the same in equal runs, while the critical path may differ.
//!
//! The calls of the host have no busy time of their own, so the path alone decides about them. The
//! writer and the synchronisation count together. If the disk writes while the writer is busy, the
//! synchronisation has less left to do at the end. The split between the two varies from run to
//! run.
#![forbid(unsafe_code)]

use crate::base::ledger::Engine;
use crate::base::units::Nanos;
use crate::trace::critical::{Category, CriticalPath, engine_name};
use crate::trace::host_engines::HostEngine;
use crate::trace::metrics::DeviceEngine;
use std::cmp::Reverse;

/// Minimum difference between the time that the limit needs and the time that the next part needs,
/// as a share of the run.
pub const MARGIN: f64 = 0.15;

/// The name of the limit leaves out the writer if its time is at most this part of the time of
/// both, in percent.
const WRITER_LEAST: u64 = 10;
/// The name of the limit leaves out the synchronisation if it takes less than this time: it had
/// nothing to write. A file system in memory needs less for its calls, and a disk needs more.
const SYNC_LEAST: Nanos = Nanos(3_000_000);

/// The part of a run that limits it: no run with the same work takes less time than this part
/// needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// An engine of a device.
    Engine(DeviceEngine),
    /// The link, which uploads and downloads share. The two directions together need more time than
    /// any engine alone, or uploads and downloads need about the same time.
    Link,
    /// An engine of the host.
    Host(HostEngine),
    /// The output: the writer and the synchronisation with the disk together.
    Output,
    /// The thread that enqueues: its calls, and the program's code between them.
    Calls,
    /// No single part limits the run. These two parts are the nearest to being the limit.
    NoSingle([&'static str; 2]),
    /// The limit is not known, because no engine was measured alone, and the busiest engines may
    /// have slowed each other.
    Unclear,
}

impl Limit {
    /// The name in JSON: the name of an engine, `link`, `reader`, `writer`, `sync`, `output`,
    /// `calls`, `unclear`, or `none` if there is no single limit.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Engine(engine) => engine_name(engine.1),
            Self::Link => "link",
            Self::Host(engine) => engine.name(),
            Self::Output => "output",
            Self::Calls => "calls",
            Self::NoSingle(_) => "none",
            Self::Unclear => "unclear",
        }
    }

    /// The names of the two parts that are nearest to the limit, if there is no single limit.
    #[must_use]
    pub fn nearest(self) -> Option<[&'static str; 2]> {
        match self {
            Self::NoSingle(nearest) => Some(nearest),
            Self::Engine(_)
            | Self::Link
            | Self::Host(_)
            | Self::Output
            | Self::Calls
            | Self::Unclear => None,
        }
    }

    /// Whether an engine of the host is the limit, or a part of the limit.
    #[doc(hidden)]
    pub fn includes(self, engine: HostEngine) -> bool {
        self == Self::Host(engine) || (self == Self::Output && engine != HostEngine::Reader)
    }

    /// The limit of a run that its output limits: the writer, the synchronisation or both. `writer`
    /// and `sync` are the busy times of the two.
    #[doc(hidden)]
    pub fn of_output(writer: Nanos, sync: Nanos) -> Self {
        if sync < SYNC_LEAST {
            Self::Host(HostEngine::Writer)
        } else if writer.0.saturating_mul(100) <= (writer.0 + sync.0).saturating_mul(WRITER_LEAST) {
            Self::Host(HostEngine::Sync)
        } else {
            Self::Output
        }
    }

    /// The limit in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine(engine) => engine_name(engine.1),
            Self::Link => "the link in both directions",
            Self::Host(HostEngine::Reader) => "the reader on the host",
            Self::Host(HostEngine::Writer) => "the writer on the host",
            Self::Host(HostEngine::Sync) => "sync with the disk",
            Self::Output => "the output (writer and sync)",
            Self::Calls => "the calls of the host",
            Self::NoSingle(_) => "no single limit",
            Self::Unclear => "the limit is not known",
        }
    }
}

/// The part of a run that needs the most time, and the part that needs the second most time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// The part that needs the most time.
    pub limit: Limit,
    /// The time that this part needs.
    pub time: Nanos,
    /// The part that needs the second most time, and that time.
    pub next: Option<(Limit, Nanos)>,
}

/// A part of a critical path. If two parts are named, they are named in the order of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Reader,
    Link,
    Engine(Engine),
    Output,
    Calls,
}

impl Part {
    fn of(limit: Limit) -> Option<Self> {
        match limit {
            Limit::Engine(engine) => Some(Self::Engine(engine.1)),
            Limit::Link => Some(Self::Link),
            Limit::Host(HostEngine::Reader) => Some(Self::Reader),
            Limit::Host(HostEngine::Writer | HostEngine::Sync) | Limit::Output => {
                Some(Self::Output)
            }
            Limit::Calls => Some(Self::Calls),
            Limit::NoSingle(_) | Limit::Unclear => None,
        }
    }

    /// The part that a step of the path counts for; `None` if it counts for no part. If `copies` is
    /// true, uploads and downloads count for the link.
    fn of_step(category: Category, copies: bool) -> Option<Self> {
        match category {
            Category::Engine(Engine::Upload | Engine::Download) if copies => Some(Self::Link),
            Category::Engine(engine) => Some(Self::Engine(engine)),
            Category::Host(engine) => Self::of(Limit::Host(engine)),
            Category::Enqueue
            | Category::Sync
            | Category::Alloc
            | Category::Copy
            | Category::Load
            | Category::User => Some(Self::Calls),
            Category::Launch | Category::Unknown | Category::Start | Category::Tail => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Engine(engine) => engine_name(engine),
            Self::Link => LINK,
            Self::Reader => HostEngine::Reader.name(),
            Self::Output => OUTPUT,
            Self::Calls => Limit::Calls.name(),
        }
    }
}

/// The name of the link in both directions.
pub const LINK: &str = "link";
/// The name of the writer and the synchronisation together.
pub const OUTPUT: &str = "output";

/// The parts of the path and their times, the longest first.
fn parts(path: &CriticalPath, copies: bool) -> Vec<(Part, u64)> {
    let mut parts: Vec<(Part, u64)> = Vec::new();
    for (category, time) in &path.by_category {
        let Some(part) = Part::of_step(*category, copies) else { continue };
        match parts.iter_mut().find(|(other, _)| *other == part) {
            Some((_, sum)) => *sum += time.0,
            None => parts.push((part, time.0)),
        }
    }
    parts.sort_by_key(|(_, time)| Reverse(*time));
    parts
}

/// The limit of a run of length `elapsed`, by the needs of its parts and by its critical path.
pub(crate) fn agreed(need: Need, path: &CriticalPath, elapsed: Nanos) -> Limit {
    let Need { limit, time, next } = need;
    let leads =
        |one: u64, other: u64| one.saturating_sub(other) as f64 >= MARGIN * elapsed.0 as f64;
    let parts = parts(path, limit == Limit::Link);
    let Some((first, longest)) = parts.first().copied() else { return limit };
    let second = parts.get(1).map_or(0, |(_, time)| *time);
    if first == Part::Calls && leads(longest, second) {
        return Limit::Calls;
    }
    let Some(needed) = Part::of(limit) else { return limit };
    let next = next.and_then(|(next, time)| Some((Part::of(next)?, time.0)));
    let other = match next {
        Some((next, busy)) if !leads(time.0, busy) => next,
        _ => {
            let on_path = parts.iter().find(|(part, _)| *part == needed);
            let on_path = on_path.map_or(0, |(_, time)| *time);
            let contradicts = leads(longest, on_path);
            let is_whole_run = !leads(elapsed.0, time.0) && leads(on_path, 0);
            if is_whole_run || !contradicts {
                return limit;
            }
            first
        }
    };
    let (one, other) = (needed.min(other), needed.max(other));
    Limit::NoSingle([one.name(), other.name()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::DeviceId;

    const COMPUTE: Limit = Limit::Engine((DeviceId(0), Engine::Compute));

    const COMPUTES: Category = Category::Engine(Engine::Compute);
    const WRITES: Category = Category::Host(HostEngine::Writer);
    const SYNCS: Category = Category::Host(HostEngine::Sync);

    fn need(limit: Limit, time: u64, next: (Limit, u64)) -> Need {
        Need { limit, time: Nanos(time), next: Some((next.0, Nanos(next.1))) }
    }

    /// The limit of a run of 100 ns whose path has these parts, in nanoseconds.
    fn found(need: Need, parts: &[(Category, u64)]) -> Limit {
        let by_category = parts.iter().map(|(category, time)| (*category, Nanos(*time))).collect();
        let path = CriticalPath { by_category, ..CriticalPath::default() };
        agreed(need, &path, Nanos(100))
    }

    #[test]
    fn what_limits_is_busy_for_the_longest_by_a_margin() {
        let writer = Limit::Host(HostEngine::Writer);
        let path = [(COMPUTES, 50), (WRITES, 45)];
        assert_eq!(found(need(COMPUTE, 75, (writer, 60)), &path), COMPUTE);
        let near = Limit::NoSingle(["compute", "output"]);
        assert_eq!(found(need(COMPUTE, 74, (writer, 60)), &path), near);
        assert_eq!(found(need(writer, 74, (COMPUTE, 60)), &path), near, "in the same order");
        assert_eq!(found(need(COMPUTE, 10, (writer, 5)), &[]), COMPUTE, "there is no path");
    }

    #[test]
    fn nothing_else_is_longer_on_the_critical_path_by_a_margin() {
        let writer = Limit::Host(HostEngine::Writer);
        let other = Limit::NoSingle(["compute", "output"]);
        for (time, writes, limit) in
            [(80, 54, COMPUTE), (80, 55, other), (85, 55, other), (86, 55, COMPUTE)]
        {
            let found =
                found(need(COMPUTE, time, (writer, 40)), &[(COMPUTES, 40), (WRITES, writes)]);
            assert_eq!(found, limit, "it needs {time}, and the path has {writes}");
        }
    }

    /// On a busy processor, kernels were once busy for the whole run, and the path had none of
    /// them.
    #[test]
    fn a_part_that_the_critical_path_lacks_does_not_limit() {
        let other = Limit::NoSingle(["compute", "output"]);
        for (computes, limit) in [(0, other), (14, other), (15, COMPUTE)] {
            let path = [(COMPUTES, computes), (WRITES, 50)];
            let found = found(need(COMPUTE, 98, (Limit::Link, 40)), &path);
            assert_eq!(found, limit, "the path has {computes}");
        }
    }

    #[test]
    fn writer_and_sync_count_together() {
        let need = need(Limit::Output, 80, (COMPUTE, 50));
        assert_eq!(found(need, &[(WRITES, 30), (SYNCS, 30), (COMPUTES, 35)]), Limit::Output);
    }

    /// The time that the writer leaves for the synchronisation varies from run to run. In an
    /// earlier version, equal runs were limited by the writer or by the output.
    #[test]
    fn a_synchronisation_that_had_something_to_write_is_named() {
        let names = |writer_us: u64, sync_us: u64| {
            Limit::of_output(Nanos(writer_us * 1000), Nanos(sync_us * 1000)).key()
        };
        assert_eq!([names(0, 9000), names(1000, 9001)], ["sync", "sync"]);
        assert_eq!([names(1001, 9000), names(800_000, 3000)], ["output", "output"]);
        assert_eq!([names(9000, 2999), names(0, 0)], ["writer", "writer"]);
    }

    #[test]
    fn copies_in_both_directions_count_together_if_the_link_limits() {
        let (up, down) = (Category::Engine(Engine::Upload), Category::Engine(Engine::Download));
        let path = [(up, 30), (down, 25), (COMPUTES, 45)];
        assert_eq!(found(need(Limit::Link, 80, (COMPUTE, 45)), &path), Limit::Link);
        let upload = Limit::Engine((DeviceId(0), Engine::Upload));
        let named = found(need(upload, 80, (COMPUTE, 45)), &path);
        assert_eq!(named, Limit::NoSingle(["upload", "compute"]));
    }

    #[test]
    fn the_path_alone_decides_about_calls() {
        let calls = [(Category::Enqueue, 30), (Category::User, 40), (COMPUTES, 20)];
        let unclear = Need { limit: Limit::Unclear, time: Nanos(90), next: None };
        assert_eq!(found(unclear, &calls), Limit::Calls);
        assert_eq!(found(need(COMPUTE, 90, (Limit::Link, 10)), &calls), Limit::Calls);
        assert_eq!(found(unclear, &[(COMPUTES, 90)]), Limit::Unclear);
    }

    #[test]
    fn time_before_and_after_all_work_limits_nothing() {
        let path = [(Category::Start, 50), (COMPUTES, 30), (Category::Tail, 20)];
        assert_eq!(found(need(COMPUTE, 30, (Limit::Link, 0)), &path), COMPUTE);
    }
}
