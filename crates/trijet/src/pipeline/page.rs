//! A run's report as a page: the verdict, the engines, and what the limiting one lost.
#![forbid(unsafe_code)]

use super::report::{ENGINES, Report};
use crate::base::ledger::Engine;
use crate::base::units::Nanos;
use crate::device::driver::Clock;
use crate::trace::html::{Bar, Gap, Loss, Page};
use crate::trace::overlap::{Union, busy};
use crate::trace::timeline::extent;
use std::iter::once;
use std::ops::Range;

/// Why an engine idles, in the words of the page, and what helps.
const FILL: (&str, &str) = ("to fill", "Smaller first chunks start it earlier.");
const DRAIN: (&str, &str) = ("to drain", "Smaller last chunks let it work for longer.");
const WAITING: (&str, &str) =
    ("waiting for other engines", "More slots let the other engines run further ahead.");
const HOST: (&str, &str) =
    ("for the host or a launch", "Larger chunks need fewer calls; other threads may disturb.");

/// When an engine idled, and why: the split of `trace::overlap::exposed`, as intervals.
struct Idle {
    busy: Union,
    causes: [((&'static str, &'static str), Union); 4],
}

impl Report {
    /// The run in a sentence, for a terminal and for a page.
    #[must_use]
    pub fn verdict(&self) -> String {
        let how = if self.clock == Clock::Model { "modelled" } else { "measured" };
        let mut words = format!("{}: {} {how}", self.plan.schedule.name(), self.elapsed);
        match (self.bound, self.efficiency()) {
            (Some(bound), Some(efficiency)) => {
                words += &format!(", bound {bound}, efficiency {}", ratio(efficiency));
            }
            _ => words += ", bound not measured",
        }
        if let Some(overlap) = self.overlap() {
            words += &format!(", overlap {}", ratio(overlap));
        }
        if let Some(limiting) = self.limiting() {
            words += &format!("; limited by {}", limiting.name);
        }
        words
    }

    /// What a page shows of a recorded run. Hazards and the critical path are not among it; who has
    /// them fills them in.
    ///
    /// ```
    /// use trijet::kernels::WORK;
    /// use trijet::pipeline::{Pipeline, Schedule};
    /// use trijet::{Bytes, Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let input = device.pinned::<u32>(1 << 12)?;
    /// let mut output = device.pinned::<u32>(1 << 12)?;
    /// let report = Pipeline::on(&device)
    ///     .pinned_source(&input, 1)
    ///     .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (1, x, y)))
    ///     .pinned_sink(&mut output)
    ///     .schedule(Schedule::RoleStreams)
    ///     .chunk(Bytes(4 << 10))
    ///     .run()?;
    /// assert!(report.page().render().contains(&report.verdict()));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn page(&self) -> Page<'_> {
        let mut page = Page {
            title: format!("{} on {}", self.plan.schedule.name(), self.device),
            verdict: self.verdict(),
            provenance: self.provenance(),
            ops: &self.ops,
            ..Page::default()
        };
        let Some(window) = extent(&self.ops) else { return page };
        let limiting = self.limiting().map(|engine| engine.name);
        let device = self.ops[0].device;
        for (number, (engine, name)) in ENGINES.into_iter().enumerate() {
            let idle = self.idle(engine, &window);
            let mut parts = vec![("busy".to_owned(), idle.busy.length())];
            for ((cause, fix), when) in &idle.causes {
                parts.push(((*cause).to_owned(), when.length()));
                let gaps = when.intervals().iter();
                page.gaps.extend(gaps.map(|window| Gap {
                    device,
                    engine,
                    window: window.clone(),
                    cause: (*cause).to_owned(),
                }));
                let longest = when.intervals().iter().max_by_key(|gap| gap.end - gap.start);
                if let Some(window) = longest.filter(|_| limiting == Some(name)) {
                    page.losses.push(Loss {
                        lost: when.length(),
                        cause: format!("{name} idled {cause}."),
                        fix: (*fix).to_owned(),
                        window: window.clone(),
                    });
                }
            }
            if limiting == Some(name) {
                page.limiting = Some(number);
            }
            page.engines.push(Bar { name: name.to_owned(), parts });
        }
        page.losses.sort_by_key(|loss| std::cmp::Reverse(loss.lost));
        page
    }

    fn idle(&self, engine: Engine, window: &Range<u64>) -> Idle {
        let mine = busy(&self.ops, engine);
        let whole = Union::of([window.clone()]);
        let hull = mine.hull().unwrap_or(window.end..window.end);
        let inner = Union::of([hull.clone()]).minus(&mine);
        let others = ENGINES.iter().filter(|(other, _)| *other != engine);
        let others =
            Union::of(others.flat_map(|(other, _)| busy(&self.ops, *other).intervals().to_vec()));
        Idle {
            causes: [
                (FILL, whole.and(&Union::of(once(window.start..hull.start)))),
                (DRAIN, whole.and(&Union::of(once(hull.end..window.end)))),
                (WAITING, inner.and(&others)),
                (HOST, inner.minus(&others)),
            ],
            busy: mine,
        }
    }

    fn provenance(&self) -> Vec<(String, String)> {
        let plan = &self.plan;
        let recorded = extent(&self.ops).map_or(Nanos(0), |w| Nanos(w.end - w.start));
        let o = self.ordering;
        [
            ("device", self.device.clone()),
            ("times", [vec![self.clock_words().to_owned()], self.warnings()].concat().join("; ")),
            ("recorded run", format!("{recorded}, from the first operation to the last")),
            ("schedule", plan.schedule.name().to_owned()),
            ("chunks", format!("{}, in {} slots", plan.chunks.len(), plan.depth)),
            ("bytes", format!("{} in, {} out", self.bytes_in, self.bytes_out)),
            (
                "ordering",
                format!("{} waits, {} records, {} over-waits", o.waits, o.records, o.over_waits),
            ),
            ("trijet", env!("CARGO_PKG_VERSION").to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

/// Three digits, and no minus before a zero.
fn ratio(value: f64) -> String {
    format!("{:.3}", (value * 1e3).round() / 1e3 + 0.0)
}
