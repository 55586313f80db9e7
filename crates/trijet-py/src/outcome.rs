//! The report of a job.

use crate::verdict::Verdict;
use pyo3::prelude::*;
use trijet::trace::summary::Loss;
use trijet_io::{Input, Target, shown};
use trijet_map::Chain;

/// The reports of the devices of a job, and the state of its output.
#[pyclass(frozen)]
pub(crate) struct Report {
    reports: Vec<trijet::Report>,
    job: String,
    kept_rows: u64,
    is_complete: bool,
    left_out: Vec<String>,
    verdict: Option<Verdict>,
    damaged: Vec<(String, String)>,
}

/// A cause of lost time, the seconds, and what to do.
#[derive(IntoPyObject)]
pub(crate) struct LossForm(String, f64, Option<&'static str>);

/// The parts of a [`Report`] that are not reports of devices.
pub(crate) struct JobState {
    pub(crate) job: String,
    pub(crate) kept_rows: u64,
    pub(crate) is_complete: bool,
    pub(crate) left_out: Vec<String>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) damaged: Vec<(String, String)>,
}

impl JobState {
    /// The state of a complete job from files to files.
    pub(crate) fn of_files(input: &Input, target: &Target, chain: &Chain, kept_rows: u64) -> Self {
        Self {
            job: format!("{}: {}, {}", shown(target.path()), target.array(), chain.description()),
            kept_rows,
            is_complete: true,
            left_out: input.left_out().iter().chain(target.left_out()).cloned().collect(),
            verdict: None,
            damaged: Vec::new(),
        }
    }
}

impl Report {
    pub(crate) fn new(reports: Vec<trijet::Report>, state: JobState) -> Self {
        let JobState { job, kept_rows, is_complete, left_out, verdict, damaged } = state;
        Self { reports, job, kept_rows, is_complete, left_out, verdict, damaged }
    }

    /// The device that took longest.
    fn slowest(&self) -> Option<&trijet::Report> {
        self.reports.iter().max_by_key(|report| report.elapsed)
    }
}

#[pymethods]
impl Report {
    /// The bound of the run divided by its time; `None` if no bound is known.
    #[getter]
    fn fraction(&self) -> Option<f64> {
        let report = self.slowest()?;
        report.limits.and_then(|limits| limits.reached(report.elapsed))
    }

    /// The part that limited the run: `link`, `upload`, `download`, `compute`, `reader`, `writer`,
    /// `sync`, `output`, `calls`, `none` or `unclear`. `None` if nothing was run.
    #[getter]
    fn limit(&self) -> Option<&'static str> {
        self.slowest()?.limit.map(trijet::trace::limit::Limit::key)
    }

    /// The time of the run in seconds.
    #[getter]
    fn elapsed(&self) -> f64 {
        self.slowest().map_or(0.0, |report| report.elapsed.seconds())
    }

    /// The number of rows that the run has computed.
    #[getter]
    fn rows(&self) -> u64 {
        self.reports.iter().map(|report| report.rows).sum()
    }

    /// The array and the operations of the job.
    #[getter]
    fn job(&self) -> &str {
        &self.job
    }

    /// The number of rows of an earlier run that were kept.
    #[getter]
    fn kept_rows(&self) -> u64 {
        self.kept_rows
    }

    /// The bytes that the run has read from the source.
    #[getter]
    fn bytes_in(&self) -> u64 {
        self.reports.iter().map(|report| report.bytes_in.0).sum()
    }

    /// The bytes that the run has written to the target.
    #[getter]
    fn bytes_out(&self) -> u64 {
        self.reports.iter().map(|report| report.bytes_out.0).sum()
    }

    /// Whether the target is complete. Otherwise other processes may still write their rows.
    #[getter]
    fn is_complete(&self) -> bool {
        self.is_complete && self.damaged.is_empty()
    }

    /// Parts of the source that the target does not have.
    #[getter]
    fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    /// The damaged images that were skipped, each with its name and the reason.
    #[getter]
    fn damaged(&self) -> Vec<(String, String)> {
        self.damaged.clone()
    }

    /// The verdict of the checker as text; `None` without `check=True`.
    #[getter]
    fn verdict(&self) -> Option<&str> {
        self.verdict.as_ref().map(|verdict| verdict.text.as_str())
    }

    /// Whether the checker has found no error. True without `check=True`.
    #[getter]
    fn is_clean(&self) -> bool {
        self.verdict.as_ref().is_none_or(|verdict| verdict.is_clean)
    }

    /// The names of the devices.
    #[getter]
    fn devices(&self) -> Vec<String> {
        self.reports.iter().map(|report| report.device.clone()).collect()
    }

    /// The time that the run lost, by cause: the cause, the seconds, and what to do.
    #[getter]
    fn losses(&self) -> Vec<LossForm> {
        let of = |report: &trijet::Report| {
            let losses = report.summary().map(|summary| summary.losses.clone());
            losses.unwrap_or_default()
        };
        let words = |loss: Loss| LossForm(loss.cause.to_string(), loss.time.seconds(), loss.fix);
        self.reports.iter().flat_map(of).map(words).collect()
    }

    /// The figures of the command's `--json`, as JSON.
    fn json(&self) -> String {
        let all: Vec<_> = self.reports.iter().map(trijet_cli::json_of_report).collect();
        serde_json::Value::from(all).to_string()
    }

    /// The report in a few lines.
    fn brief(&self) -> String {
        let reports = self.reports.iter().map(trijet::Report::brief);
        let lines = std::iter::once(self.job.clone()).chain(reports);
        let lines =
            lines.chain(self.verdict.iter().map(|verdict| format!("check: {}", verdict.text)));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Every figure of the report.
    fn full(&self) -> String {
        let reports = self.reports.iter().map(ToString::to_string);
        std::iter::once(self.job.clone()).chain(reports).collect::<Vec<_>>().join("\n")
    }

    /// The page with the timeline of the slowest device, as HTML; `None` if nothing was run.
    fn page(&self) -> Option<String> {
        let mut page = self.slowest()?.page();
        page.title = self.job.clone();
        Some(page.render())
    }

    fn __str__(&self) -> String {
        self.brief()
    }
}
