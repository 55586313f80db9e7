//! The short report of a run: its time, the least time, its limit, and what to do.
#![forbid(unsafe_code)]

use super::Report;
use crate::base::units::{Bytes, Nanos, rate};
use crate::pipeline::plan::Chunk;
use crate::trace::limit::{LINK, Limit, OUTPUT};

impl Report {
    /// The report in three lines. The `Display` of [`Report`] prints the whole report.
    ///
    /// ```
    /// use trijet::Pipeline;
    /// use trijet::pipeline::rows_of;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let mut y: Vec<u8> = Vec::new();
    /// let report = Pipeline::on(&device).source(rows_of(vec![0u8; 8000], 10)).sink(&mut y).run()?;
    /// assert_eq!(report.brief().lines().count(), 3);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn brief(&self) -> String {
        let advice = self.advice();
        let to_do = match advice.first() {
            Some(first) => format!("to do: {first}"),
            None if self.summary.is_none() => {
                "the run was not traced, so it is not known what limits it".to_owned()
            }
            None => "to do: nothing; no known change saves 1 % of the time".to_owned(),
        };
        format!("{}\n{}\n{to_do}", self.pace(), self.limit_words())
    }

    /// A phrase with the number of input bytes that are read twice, because the inputs of
    /// neighbouring chunks overlap. Empty if no bytes are read twice.
    fn twice(&self) -> String {
        let chunks = &self.plan.chunks;
        let shared = |pair: &[Chunk]| pair[0].input.end.saturating_sub(pair[1].input.start);
        let rows: u64 = chunks.windows(2).map(shared).sum();
        let row = self.bytes_in.0 / self.plan.rows_in().max(1);
        match rows.saturating_mul(row) {
            0 => String::new(),
            bytes => format!(" ({} read twice: chunk inputs overlap)", Bytes(bytes)),
        }
    }

    /// A line with the time of the run, its rate, and the least time that the run needs.
    fn pace(&self) -> String {
        let pace = format!(
            "{}: {} for {} in{} and {} out, {} in",
            self.device,
            self.elapsed,
            self.bytes_in,
            self.twice(),
            self.bytes_out,
            rate(self.bytes_in, self.elapsed)
        );
        match self.limits.and_then(|limits| Some((limits.with_ends, limits.reached(self.elapsed)?)))
        {
            Some((least, reached)) => {
                let what = if self.limits.is_some_and(|limits| limits.of_copies_only) {
                    "the copies need at least"
                } else {
                    "the run needs at least"
                };
                format!("{pace}; {what} {least}, {:.0} % of the time", reached * 100.0)
            }
            None => pace,
        }
    }

    /// A line with the limit of the run, and the time of the limiting part.
    fn limit_words(&self) -> String {
        let Some(limit) = self.limit else { return "the limit is not known".to_owned() };
        // The traced run and the timed run may be two different runs.
        let traced = self.summary.as_ref().map_or(self.elapsed, |one| one.metrics.elapsed());
        let share = |time: Nanos| time.0 as f64 / traced.0.max(1) as f64 * 100.0;
        let part = |time: Nanos| format!(", busy for {time} ({:.0} %)", share(time));
        let need = |time: Nanos| format!(", which needs {time} ({:.0} %)", share(time));
        let link = self.summary.as_ref().and_then(|summary| summary.link);
        let time = |name| self.engine(name).map(|engine| engine.busy);
        let busy = |name| match (name, time("writer"), time("sync")) {
            (OUTPUT, Some(writer), sync) => part(Nanos(writer.0 + sync.map_or(0, |sync| sync.0))),
            (LINK, ..) => link.map_or(String::new(), need),
            _ => time(name).map_or(String::new(), part),
        };
        let name = limit.name();
        match limit {
            Limit::NoSingle([first, second]) => format!(
                "no single limit: {first}{}, and {second}{}, are nearest",
                busy(first),
                busy(second)
            ),
            Limit::Unclear => "the busy times do not show what limits the run".to_owned(),
            _ => format!("limited by {name}{}", busy(limit.key())),
        }
    }
}
