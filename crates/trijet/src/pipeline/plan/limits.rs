//! The limits of a run with chunks, and the part of the run that needs the most time.
//!
//! A run is compared with three limits. Each limit adds one more cost that no run of the plan can
//! avoid:
//!
//! 1. the time of the bytes at the rates of the link, or the time of the kernels if the kernels
//!    take longer;
//! 2. the cost of each copy of the plan beyond the time of its bytes;
//! 3. the upload of the first chunk and the download of the last chunk: the other direction and the
//!    kernels cannot run beside these copies.
//!
//! A run is limited by the part that would need the most time if it ran alone. The observed time of
//! an engine is not its time alone, because engines that work at the same time slow each other.
#![forbid(unsafe_code)]

use super::Plan;
use super::calibrate::{Calibration, Copies};
use crate::base::ledger::Engine;
use crate::base::units::{Bytes, Nanos};
use crate::trace::host_engines::HostEngine;
use crate::trace::limit::{Limit, Need};
use crate::trace::metrics::{EngineMetrics, Metrics};
use std::cmp::Reverse;
use std::fmt;

/// Times count as equal if they differ by less than one fiftieth. Smaller differences are noise of
/// the calibration.
const NEARLY: u64 = 50;

/// Maximum slowdown of an engine while other engines work, as numerator and denominator. The
/// largest observed slowdown was 1.16, in a run for which each engine was also measured alone
/// (`overlap-4gib.txt`).
pub(in crate::pipeline) const STRETCH: [u64; 2] = [5, 4];

/// Three limits of a run. Each limit is at least as long as the previous limit. `Display` prints
/// the limits as a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The least time of the bytes on the link, or of the kernels if the kernels take longer. The
    /// cost of each copy is not included. Equals [`Report::bound`](crate::Report::bound), unless
    /// that is `None`.
    pub bound: Nanos,
    /// The bound, including the cost of each copy of the plan.
    pub with_copies: Nanos,
    /// `with_copies`, including fill and drain: the first upload and the last download run alone.
    pub with_ends: Nanos,
    /// Whether the limits are limits of the copies only. If true, the kernels may need more time
    /// than the limits: they were not measured alone, and were busy for longer than the copies
    /// need.
    pub of_copies_only: bool,
    is_of_kernels: bool,
}

impl Limits {
    /// `with_ends` divided by the elapsed time of a run: 1 is perfect. `None` without an elapsed
    /// time.
    #[must_use]
    pub fn reached(&self, elapsed: Nanos) -> Option<f64> {
        (elapsed.0 > 0).then(|| self.with_ends.0 as f64 / elapsed.0 as f64)
    }

    /// A line that compares a run with the limits.
    #[must_use]
    pub fn compared(&self, elapsed: Nanos) -> String {
        let of = if self.of_copies_only { " of the copies" } else { "" };
        let reached = self.reached(elapsed).unwrap_or(0.0);
        format!("limits{of}: {self}, which is {reached:.2} of this run's {elapsed}")
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = if self.is_of_kernels { "kernels" } else { "link" };
        write!(
            f,
            "{first} {}, with the cost of each copy {}, with fill and drain {}",
            self.bound, self.with_copies, self.with_ends
        )
    }
}

/// The least times of the copies of a run.
#[derive(Debug, Clone, Copy)]
pub(in crate::pipeline) struct CopyTimes {
    limits: Limits,
    /// The time of all uploads alone and of all downloads alone, with the cost of each copy.
    directions: [(Engine, Nanos); 2],
    /// The time of the first upload plus the time of the last download.
    ends: Nanos,
}

impl CopyTimes {
    /// The times of the copies of a plan, which has an upload and a download for each chunk.
    pub(in crate::pipeline) fn new(
        link: &Calibration,
        plan: &Plan,
        all_in: Bytes,
        all_out: Bytes,
    ) -> Self {
        let count = plan.chunks.len() as u64;
        let (row_in, row_out) =
            (all_in.0 / plan.rows_in().max(1), all_out.0 / plan.rows_out().max(1));
        let first = plan.chunks.first().map_or(0, |chunk| chunk.rows_in() * row_in);
        let last = plan.chunks.last().map_or(0, |chunk| chunk.rows_out() * row_out);
        let (up, down) = (Copies { count, bytes: all_in }, Copies { count, bytes: all_out });
        let ends = (Bytes(first), Bytes(last));
        Self {
            limits: Limits {
                bound: link.bound(all_in, all_out),
                with_copies: link.bound_with_copies(up, down),
                with_ends: link.bound_with_fill_and_drain(up, down, ends),
                of_copies_only: true,
                is_of_kernels: false,
            },
            directions: [
                (Engine::Upload, link.uploads_alone(up)),
                (Engine::Download, link.downloads_alone(down)),
            ],
            ends: link.fill_and_drain(ends.0, ends.1),
        }
    }

    /// The time of the copies of both directions at once, with the cost of each copy.
    pub(in crate::pipeline) fn both(&self) -> Nanos {
        self.limits.with_copies
    }

    /// The limits of the copies without kernels.
    pub(in crate::pipeline) fn limits(&self) -> Limits {
        self.limits
    }

    /// The limits of copies and kernels. `alone` is the time that the kernels need. If `alone` is
    /// `None`, the kernels were not measured alone, and the limits of the copies are returned. In
    /// this case, `busy`, the time in which the kernels were busy, decides whether the kernels may
    /// need more time than these limits.
    pub(in crate::pipeline) fn limits_with(&self, alone: Option<Nanos>, busy: Nanos) -> Limits {
        let Limits { bound, with_copies, with_ends, .. } = self.limits;
        let Some(kernels) = alone else {
            return Limits { of_copies_only: busy > with_copies, ..self.limits };
        };
        Limits {
            bound: bound.max(kernels),
            with_copies: with_copies.max(kernels),
            with_ends: with_ends.max(Nanos(kernels.0 + self.ends.0)),
            of_copies_only: false,
            is_of_kernels: kernels > bound,
        }
    }
}

/// An estimate of the time that a part of a run needs alone: at least `least`, and at most `most`.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    limit: Limit,
    least: Nanos,
    most: Nanos,
}

impl Estimate {
    fn known(limit: Limit, time: Nanos) -> Self {
        Self { limit, least: time, most: time }
    }

    fn observed(limit: Limit, time: Nanos) -> Self {
        let [stretched, alone] = STRETCH;
        Self { least: Nanos(time.0 * alone / stretched), ..Self::known(limit, time) }
    }

    fn of(engine: &EngineMetrics) -> Self {
        let estimate = if engine.isolated { Self::known } else { Self::observed };
        estimate(Limit::Engine(engine.engine), engine.work)
    }

    fn is_known(&self) -> bool {
        self.least >= self.most
    }
}

/// Whether a time exceeds another time by more than noise.
fn exceeds(time: Nanos, other: Nanos) -> bool {
    time.0 > other.0 + other.0 / NEARLY
}

/// The time that the copies need. The limit is one direction if this direction alone needs as much
/// time as both directions at once, and more time than the other direction alone. Otherwise the
/// limit is the link.
fn of_copies(metrics: &Metrics, times: Option<&CopyTimes>) -> Option<Estimate> {
    let copies = |e: &&EngineMetrics| matches!(e.engine.1, Engine::Upload | Engine::Download);
    let longest = metrics.engines.iter().filter(copies).max_by_key(|e| e.work)?;
    if let Some(times) = times {
        let [(_, up), (_, down)] = times.directions;
        let (direction, alone) = if up > down { times.directions[0] } else { times.directions[1] };
        let is_direction = !exceeds(times.both(), alone) && exceeds(alone, up.min(down));
        let limit = match is_direction {
            true => Limit::Engine((longest.engine.0, direction)),
            false => Limit::Link,
        };
        return Some(Estimate::known(limit, times.both()));
    }
    let need = Estimate::of(longest);
    let other = metrics.engines.iter().filter(copies).find(|e| e.engine != longest.engine);
    let is_link = other.is_some_and(|other| match need.is_known() {
        true => !exceeds(longest.work, other.work),
        // If two directions were busy for about the same time, they slowed each other.
        false => other.work.0 * STRETCH[0] / STRETCH[1] >= need.most.0,
    });
    Some(if is_link { Estimate { limit: Limit::Link, ..need } } else { need })
}

/// The part of a run that needs the most time alone, and the part that needs the second most.
/// `host` returns the busy time of an engine of the host.
///
/// If the kernels were not measured alone, they may have been busy for longer because copies ran
/// beside them. The kernels are the limit if they need more time than the copies even without the
/// largest possible slowdown ([`STRETCH`]). Otherwise the copies are the limit, if a calibration
/// gives their time. Without a calibration, the copies are the limit only if they need at least the
/// busy time of the kernels. In all other cases the limit is unclear.
pub(in crate::pipeline) fn needs(
    metrics: &Metrics,
    times: Option<&CopyTimes>,
    host: impl Fn(HostEngine) -> Nanos,
) -> Option<Need> {
    let copies = of_copies(metrics, times);
    let is_other = |e: &&EngineMetrics| !matches!(e.engine.1, Engine::Upload | Engine::Download);
    let other = metrics.engines.iter().filter(is_other).max_by_key(|e| e.work).map(Estimate::of);
    let mut of_device = match (copies, other) {
        (Some(copies), Some(other)) => {
            let (larger, smaller) =
                if copies.most >= other.most { (copies, other) } else { (other, copies) };
            if other.least > copies.most {
                [Some(other), Some(copies)]
            } else if copies.least >= other.most || times.is_some() {
                [Some(copies), Some(other)]
            } else {
                [Some(Estimate { limit: Limit::Unclear, ..larger }), Some(smaller)]
            }
        }
        (one, other) => [one.or(other), None],
    };
    of_device[0]?;
    // The first part needs more time, so it slowed the second part. So the second part needs only
    // its least time.
    if let [_, Some(second)] = &mut of_device {
        second.most = second.least;
    }
    let [writer, sync] = [HostEngine::Writer, HostEngine::Sync].map(&host);
    let of_host = [
        Estimate::known(Limit::Host(HostEngine::Reader), host(HostEngine::Reader)),
        Estimate::known(Limit::of_output(writer, sync), Nanos(writer.0 + sync.0)),
    ];
    let mut all: Vec<Estimate> = of_device.into_iter().flatten().chain(of_host).collect();
    // If times are equal, the engine of the device comes before the engine of the host.
    all.sort_by_key(|one| Reverse(one.most));
    let next = all.get(1).filter(|next| next.most.0 > 0).map(|next| (next.limit, next.most));
    all.first().map(|first| Need { limit: first.limit, time: first.most, next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dag::{Dag, Kernels};
    use crate::base::id::DeviceId;
    use crate::pipeline::plan::schedule::Schedule;
    use crate::pipeline::plan::{Chunk, ChunkChoice};
    use crate::trace::metrics::{Parameters, measure};
    use std::iter::zip;

    const GIB: Bytes = Bytes(1 << 30);
    const ENGINES: [Engine; 3] = [Engine::Upload, Engine::Compute, Engine::Download];

    fn us(time: u64) -> Nanos {
        Nanos(time * 1000)
    }

    /// The copies of 1 GiB in each direction in chunks of 1 MiB. The link has 55 GB/s in one
    /// direction alone, and 50 GB/s in each direction if both are busy. The rates are whole
    /// microseconds per MiB.
    fn in_small_chunks() -> CopyTimes {
        let link = Calibration {
            bytes: GIB,
            upload: us(19 * 1024),
            download: us(19 * 1024),
            duplex: us(21 * 1024),
            upload_copy: Nanos(2_600),
            download_copy: Nanos(2_600),
            duplex_copy: Nanos(3_600),
        };
        let rows = |index| index..index + 1;
        let chunk = |index| Chunk { index, rows: rows(index), input: rows(index) };
        let plan = Plan {
            schedule: Schedule::RoleStreams,
            depth: 3,
            chunk_rows: 1,
            chunk_choice: ChunkChoice::Caller,
            chunks: (0..1024).map(chunk).collect(),
        };
        CopyTimes::new(&link, &plan, GIB, GIB)
    }

    /// The metrics of engines with these works. The flag of a work is true if the work was measured
    /// alone.
    fn figures(works: [(u64, bool); 3]) -> Metrics {
        let dag = Dag::new(&[], Kernels::Several);
        let mut metrics = measure(&[], &dag, Some(0..1), &Parameters::default());
        metrics.engines = zip(ENGINES, works)
            .map(|(engine, (work, isolated))| EngineMetrics {
                engine: (DeviceId(0), engine),
                busy: us(work),
                work: us(work),
                isolated,
                contention: None,
                ops: 1024,
            })
            .collect();
        metrics
    }

    fn named(works: [(u64, bool); 3], times: Option<&CopyTimes>) -> Option<&'static str> {
        let host = |engine| if engine == HostEngine::Writer { us(20_000) } else { Nanos(0) };
        needs(&figures(works), times, host).map(|need| need.limit.name())
    }

    #[test]
    fn the_limits_of_small_chunks_are_bytes_then_copies_then_ends() {
        let Limits { bound, with_copies, with_ends, .. } = in_small_chunks().limits();
        // There are 1024 pairs of copies, and each pair costs 3.6 us.
        assert_eq!((bound, with_copies), (us(21 * 1024), Nanos(25_190_400)));
        // One upload and one download run alone, and not as a pair at the same time.
        assert_eq!(with_ends.0, with_copies.0 - (21_000 + 3_600) + 2 * (19_000 + 2_600));
    }

    /// Once, kernels were busy during copies for longer than the copies need, and the report named
    /// compute as the limit.
    #[test]
    fn busy_kernels_are_named_only_where_contention_does_not_explain_it() {
        let (times, link) = (in_small_chunks(), Some("the link in both directions"));
        let busy = |kernels| [(22_000, true), (kernels, false), (22_000, true)];
        for kernels in [2_000, 25_200, 31_400] {
            assert_eq!(named(busy(kernels), Some(&times)), link, "busy for {kernels} us");
        }
        assert_eq!(named(busy(31_500), Some(&times)), Some("compute"));
        let alone = |kernels| [(22_000, true), (kernels, true), (22_000, true)];
        assert_eq!(named(alone(25_100), Some(&times)), link);
        assert_eq!(named(alone(25_200), Some(&times)), Some("compute"));
    }

    #[test]
    fn without_a_calibration_near_busy_times_name_nothing() {
        let link = Some("the link in both directions");
        for (works, name) in [
            ([24_000, 19_000, 25_000], link),
            ([24_000, 20_100, 25_000], Some("the limit is not known")),
            ([25_000, 25_500, 25_000], Some("the limit is not known")),
            ([20_000, 25_500, 20_000], Some("compute")),
            ([30_000, 20_000, 25_000], link),
            ([32_000, 20_000, 25_000], Some("upload")),
            ([10_000, 10_000, 15_000], Some("the writer on the host")),
        ] {
            assert_eq!(named(works.map(|work| (work, false)), None), name, "{works:?}");
        }
        // In one stream, all engines are measured alone.
        for (works, name) in [
            ([25_000, 25_500, 20_000], Some("compute")),
            ([25_500, 25_000, 20_000], Some("upload")),
            ([25_500, 20_000, 25_400], link),
        ] {
            assert_eq!(named(works.map(|work| (work, true)), None), name, "{works:?}");
        }
        let need = needs(&figures([(0, true); 3]), None, |_| us(3000)).expect("a need");
        assert_eq!((need.limit, need.time), (Limit::Output, us(6000)));
        assert_eq!(need.next, Some((Limit::Host(HostEngine::Reader), us(3000))));
    }

    #[test]
    fn kernels_count_in_the_limits_as_far_as_they_are_known() {
        let times = in_small_chunks();
        let copies = times.limits();
        let known = times.limits_with(Some(us(30_000)), us(31_000));
        assert_eq!((known.bound, known.with_copies), (us(30_000), us(30_000)));
        assert_eq!(known.with_ends.0, 30_000_000 + 2 * (19_000 + 2_600));
        assert!(!known.of_copies_only && known.to_string().starts_with("kernels 30.00 ms, "));
        let hidden = times.limits_with(None, us(25_100));
        assert_eq!(hidden, Limits { of_copies_only: false, ..copies });
        assert_eq!(times.limits_with(None, us(25_200)), copies);
        assert_eq!((copies.reached(Nanos(0)), copies.reached(copies.with_ends)), (None, Some(1.0)));
    }
}
