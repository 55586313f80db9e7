//! The timeline of a report: a page, and traces for Perfetto and Chrome.
#![forbid(unsafe_code)]

use super::Report;
use crate::base::ledger::{LedgerNote, Named, Op, OpKind};
use crate::base::units::count;
use crate::check::{Finding, Names, Party};
use crate::device::driver::Clock;
use crate::trace::html::{HazardNote, Page};
use crate::trace::{chrome, perfetto};
use std::borrow::Cow;

impl Report {
    /// The run in one sentence, for a terminal or a page.
    #[must_use]
    pub fn verdict(&self) -> String {
        match &self.summary {
            Some(summary) => summary.verdict(),
            None if self.clock == Clock::Model => {
                format!("{} modelled, not traced", self.elapsed)
            }
            None => format!("{} measured, not traced", self.elapsed),
        }
    }

    /// The operations of the trace with the times at which the engines worked, as far as these
    /// times are known.
    #[must_use]
    pub fn timeline(&self) -> Vec<Op> {
        self.settled(&self.dag())
    }

    /// The trace in the format of Perfetto, with arrows along the critical path and marks for
    /// findings.
    #[must_use]
    pub fn perfetto(&self) -> Vec<u8> {
        let path = self.summary.as_ref().map_or_else(Vec::new, |s| s.critical.edges());
        perfetto::trace(&self.timeline(), &path, &self.notes())
    }

    /// The trace as Chrome JSON, with Kineto's names.
    #[must_use]
    pub fn chrome(&self) -> String {
        chrome::trace(&self.timeline())
    }

    /// The page of a traced run.
    ///
    /// ```
    /// use trijet::testing::WORK;
    /// use trijet::Pipeline;
    /// use trijet::pipeline::Schedule;
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
    ///     .run()?
    ///     .checked();
    /// assert!(report.verdict().contains("; 0 hazards, "));
    /// // A page writes microseconds with their sign.
    /// let verdict = report.verdict().replace(" us ", " \u{b5}s ");
    /// assert!(report.page().render().contains(&verdict));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn page(&self) -> Page<'static> {
        Page {
            title: format!("{} on {}", self.plan.schedule_name(), self.device),
            summary: self.summary.clone(),
            advice: self.advice().iter().map(ToString::to_string).collect(),
            hazards: self.notes(),
            provenance: self.provenance(),
            ops: Cow::Owned(self.timeline()),
            calls: None,
        }
    }

    /// The checker's findings about operations of the trace, as texts for the page.
    fn notes(&self) -> Vec<HazardNote> {
        let Some(found) = &self.found else { return Vec::new() };
        let names = self.names();
        let note = |finding: &Finding| {
            Some(HazardNote {
                text: finding.text(&names),
                first: finding.first.as_ref().and_then(|party| self.index_of(party)),
                second: self.index_of(&finding.second)?,
            })
        };
        found.findings.iter().filter_map(note).collect()
    }

    /// The index of the operation of the trace that a finding names; `None` if the operation is not
    /// in the trace. The index in `party` is tried first. This index can be wrong, because a
    /// checker that runs with the program also counts operations of other runs and threads. Then
    /// the operation is found by its position and kind.
    fn index_of(&self, party: &Party) -> Option<usize> {
        let is = |op: &Op| op.position == party.position && op.kind == party.kind;
        let index = usize::try_from(party.op).expect("a ledger in memory");
        match self.ops.get(index) {
            Some(op) if is(op) => Some(index),
            _ => self.ops.iter().position(is),
        }
    }

    /// The names that the texts of findings use. A stream has the name that the program gave it. A
    /// stream without a name has its number.
    #[must_use]
    pub fn names(&self) -> Names {
        let of_stream = |op: &&Op| op.kind == OpKind::Note(LedgerNote::Name { of: Named::Stream });
        let given = self.ops.iter().filter(of_stream);
        let lanes = given.map(|op| (op.position.lane, op.label.clone().into_owned())).collect();
        Names { lanes, audience: self.audience, ..Names::default() }
    }

    fn provenance(&self) -> Vec<(String, String)> {
        let plan = &self.plan;
        let o = self.ordering;
        let mut rows = vec![
            ("device", self.device.clone()),
            ("times", [vec![self.clock_words().to_owned()], self.warnings()].concat().join("; ")),
            ("schedule", plan.schedule_name().to_owned()),
            ("chunks", format!("{}, in {}", self.chunks(), count(plan.slots() as u64, "slot"))),
            ("bytes", format!("{} in, {} out", self.bytes_in, self.bytes_out)),
            (
                "ordering",
                format!(
                    "{}, {}, {}",
                    count(o.waits, "wait"),
                    count(o.records, "record"),
                    count(o.over_waits, "over-wait")
                ),
            ),
            ("trace", format!("{} entries, of all operations of the run", self.ops.len())),
        ];
        if let Some(limits) = self.limits {
            let words = limits.compared(self.elapsed);
            let words = words.strip_prefix("limits: ").unwrap_or(&words);
            rows.push(("limits", words.to_owned()));
        }
        if let Some(used) = self.memory_use {
            let words = used.to_string();
            let words = words.strip_prefix("device memory: ").unwrap_or(&words);
            rows.push(("device memory", words.to_owned()));
        }
        let traced = self.summary.as_ref().map(|summary| summary.metrics.elapsed());
        if traced.is_some_and(|traced| traced != self.elapsed) {
            rows.push(("without a trace", format!("{}, the median of its runs", self.elapsed)));
        }
        for host in self.engines.iter().filter(|engine| engine.of_the_host()) {
            rows.push((host.name, format!("{} on the host", host.busy)));
        }
        if let Some(found) = &self.found {
            rows.push(("checked", found.summary()));
        }
        rows.push(("trijet", env!("CARGO_PKG_VERSION").to_owned()));
        rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
