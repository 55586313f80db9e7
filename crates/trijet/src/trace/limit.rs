//! What limits a run: one answer for the terminal, the page and JSON.
//!
//! Two measures must agree. The engine that needs the most time limits, and so does the one that the
//! critical path consists of. Where they disagree, or where the next one on the path is near, there is no
//! single limit.
#![forbid(unsafe_code)]

use crate::base::ledger::Engine;
use crate::base::units::Nanos;
use crate::trace::critical::{Category, CriticalPath, engine_name};
use crate::trace::host_engines::HostEngine;
use crate::trace::metrics::DeviceEngine;
use std::cmp::Reverse;

/// The share of the run by which what limits exceeds the next one on the critical path.
pub const MARGIN: f64 = 0.1;

/// What no run with the same work can be faster than.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// An engine of a device.
    Engine(DeviceEngine),
    /// The link, which uploads and downloads share: the two directions together need more time than
    /// any engine alone, or both need the same.
    Link,
    /// An engine of the host.
    Host(HostEngine),
    /// The calls of the thread that enqueues, and what it does between them.
    Calls,
    /// Several do, and these two by nearly the same time.
    NoSingle([&'static str; 2]),
    /// It is not known: no engine was measured alone, and the engines that were busy the longest may
    /// have slowed each other.
    Unclear,
}

impl Limit {
    /// The name in JSON: that of an engine, `link`, `reader`, `writer`, `sync`, `calls`, `none` if there is
    /// no single limit, or `unclear`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Engine(engine) => engine_name(engine.1),
            Self::Link => "link",
            Self::Host(engine) => engine.name(),
            Self::Calls => "calls",
            Self::NoSingle(_) => "none",
            Self::Unclear => "unclear",
        }
    }

    /// The two nearest, if there is no single limit.
    #[must_use]
    pub fn nearest(self) -> Option<[&'static str; 2]> {
        match self {
            Self::NoSingle(nearest) => Some(nearest),
            Self::Engine(_) | Self::Link | Self::Host(_) | Self::Calls | Self::Unclear => None,
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
            Self::Calls => "the calls of the host",
            Self::NoSingle(_) => "no single limit",
            Self::Unclear => "unclear from busy times",
        }
    }
}

/// What a step of the critical path counts for. `copies` are one thing if the link limits.
fn part(category: Category, copies: bool) -> Option<Part> {
    match category {
        Category::Engine(Engine::Upload | Engine::Download) if copies => Some(Part::Link),
        Category::Engine(engine) => Some(Part::Engine(engine)),
        Category::Host(engine) => Some(Part::Host(engine)),
        Category::Enqueue
        | Category::Sync
        | Category::Alloc
        | Category::Copy
        | Category::Load
        | Category::User => Some(Part::Calls),
        Category::Launch | Category::Unknown | Category::Start | Category::Tail => None,
    }
}

/// A part of a critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Engine(Engine),
    Link,
    Host(HostEngine),
    Calls,
}

impl Part {
    fn of(limit: Limit) -> Option<Self> {
        match limit {
            Limit::Engine(engine) => Some(Self::Engine(engine.1)),
            Limit::Link => Some(Self::Link),
            Limit::Host(engine) => Some(Self::Host(engine)),
            Limit::Calls => Some(Self::Calls),
            Limit::NoSingle(_) | Limit::Unclear => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Engine(engine) => engine_name(engine),
            Self::Link => "the link",
            Self::Host(engine) => engine.name(),
            Self::Calls => Limit::Calls.name(),
        }
    }
}

/// What limits a run of this length: `by_need`, the one that needs the most time, if the critical path
/// agrees. The calls of the host and the synchronisation of the output work beside nothing, so the path
/// alone decides about them.
pub(crate) fn agreed(by_need: Option<Limit>, path: &CriticalPath, elapsed: Nanos) -> Option<Limit> {
    let by_need = by_need?;
    let mut parts: Vec<(Part, u64)> = Vec::new();
    for (category, time) in &path.by_category {
        let Some(part) = part(*category, by_need == Limit::Link) else { continue };
        match parts.iter_mut().find(|(other, _)| *other == part) {
            Some((_, sum)) => *sum += time.0,
            None => parts.push((part, time.0)),
        }
    }
    parts.sort_by_key(|(_, time)| Reverse(*time));
    let Some((first, longest)) = parts.first().copied() else { return Some(by_need) };
    let second = parts.get(1).copied();
    let lead = longest - second.map_or(0, |(_, time)| time);
    let leads = lead as f64 >= MARGIN * elapsed.0 as f64;
    let alone = match first {
        Part::Calls => Some(Limit::Calls),
        Part::Host(HostEngine::Sync) => Some(Limit::Host(HostEngine::Sync)),
        Part::Engine(_) | Part::Link | Part::Host(_) => None,
    };
    let needed = Part::of(by_need);
    Some(match (alone, needed) {
        (Some(limit), _) if leads => limit,
        (None, None) => by_need,
        (None, Some(needed)) if needed == first && leads => by_need,
        (_, needed) => {
            let other = needed.filter(|part| *part != first).or(second.map(|(part, _)| part));
            match other {
                Some(other) => Limit::NoSingle([first.name(), other.name()]),
                None => by_need,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::DeviceId;

    const COMPUTE: Limit = Limit::Engine((DeviceId(0), Engine::Compute));

    /// The limit of a run of 100 ns whose path has these parts, in nanoseconds.
    fn found(by_need: Limit, parts: &[(Category, u64)]) -> Limit {
        let by_category = parts.iter().map(|(category, time)| (*category, Nanos(*time))).collect();
        let path = CriticalPath { by_category, ..CriticalPath::default() };
        agreed(Some(by_need), &path, Nanos(100)).expect("a limit")
    }

    #[test]
    fn an_engine_limits_only_if_the_path_agrees_by_a_margin() {
        let (compute, writer) =
            (Category::Engine(Engine::Compute), Category::Host(HostEngine::Writer));
        assert_eq!(found(COMPUTE, &[(compute, 55), (writer, 45)]), COMPUTE);
        let near = Limit::NoSingle(["compute", "writer"]);
        assert_eq!(found(COMPUTE, &[(compute, 54), (writer, 45)]), near);
        let other = Limit::NoSingle(["writer", "compute"]);
        assert_eq!(found(COMPUTE, &[(compute, 10), (writer, 90)]), other);
        assert_eq!(found(COMPUTE, &[(compute, 90)]), COMPUTE);
        assert_eq!(found(COMPUTE, &[]), COMPUTE, "nothing is known of the path");
    }

    #[test]
    fn copies_in_both_directions_count_together_if_the_link_limits() {
        let (up, down) = (Category::Engine(Engine::Upload), Category::Engine(Engine::Download));
        let compute = Category::Engine(Engine::Compute);
        let path = [(up, 30), (down, 25), (compute, 35)];
        assert_eq!(found(Limit::Link, &path), Limit::Link);
        let upload = Limit::Engine((DeviceId(0), Engine::Upload));
        assert_eq!(found(upload, &path), Limit::NoSingle(["compute", "upload"]));
    }

    #[test]
    fn the_path_alone_decides_about_calls_and_sync() {
        let sync = Category::Host(HostEngine::Sync);
        let compute = Category::Engine(Engine::Compute);
        assert_eq!(found(COMPUTE, &[(sync, 60), (compute, 30)]), Limit::Host(HostEngine::Sync));
        let calls = [(Category::Enqueue, 30), (Category::User, 40), (compute, 20)];
        assert_eq!(found(Limit::Unclear, &calls), Limit::Calls);
        assert_eq!(found(Limit::Unclear, &[(compute, 90)]), Limit::Unclear);
    }

    #[test]
    fn time_before_and_after_all_work_limits_nothing() {
        let compute = Category::Engine(Engine::Compute);
        let path = [(Category::Start, 50), (compute, 30), (Category::Tail, 20)];
        assert_eq!(found(COMPUTE, &path), COMPUTE);
    }
}
