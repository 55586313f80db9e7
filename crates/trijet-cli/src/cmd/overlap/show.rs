//! The comparison as text: a table of the schedules, and a drawing of the first chunks.
#![forbid(unsafe_code)]

use super::job::ScheduleResult;
use crate::cmd::print;
use trijet::pipeline::Calibration;
use trijet::trace::rate;
use trijet::trace::timeline::{extent, staircase};
use trijet::{Bytes, Device, Report, Result};

/// The columns of the drawing.
const WIDTH: usize = 68;
/// The chunks that the drawing shows, few enough that each of them is visible.
const CHUNKS_MAX: u64 = 12;

/// Prints the whole comparison. `computed` says what this machine did for modelled times.
pub(super) fn table(
    computed: Option<&str>,
    calibration: &Calibration,
    device: &Device,
    results: &[ScheduleResult],
) -> Result<()> {
    let Some(first) = results.first() else { return Ok(()) };
    print(format_args!("{}: {}", first.report.device, first.report.clock_words()))?;
    computed.map_or(Ok(()), print)?;
    print(calibration)?;
    // The bytes depend on the chunk size because of the halos. The bound printed here is that of
    // the last schedule, which is the one that is drawn.
    let report = results.last().map_or(&first.report, |result| &result.report);
    let copies = calibration.bound(report.bytes_in, report.bytes_out);
    if let (Some(bound), Some(kernels)) = (report.bound, report.engine("compute")) {
        let kernels = kernels.work();
        print(format_args!(
            "bound {bound}: copies in both directions {copies}, kernels alone {kernels}"
        ))?;
    }
    print("")?;
    print(format_args!(
        "{:<13}{:>10}{:>7}{:>12}{:>12}{:>10}{:>9}  result",
        "schedule", "chunk", "slots", "elapsed", "in", "of bound", "overlap"
    ))?;
    for ScheduleResult { report, digest } in results {
        print(format_args!("{}  {digest}", row(report)))?;
    }
    print("")?;
    if let Some(ScheduleResult { report: best, .. }) = results.last() {
        print_timeline(best)?;
        print("")?;
        if let Some(limits) = best.limits {
            print(limits.compared(best.elapsed))?;
        }
        if let Some(summary) = best.summary() {
            let summary = summary.to_string();
            let same = summary_is_of_the_row(best);
            print(if same { "the same run:" } else { "one more run, traced:" })?;
            print(summary.trim_end())?;
            let is_printed = |warning: &String| summary.contains(warning.as_str());
            for warning in best.warnings().iter().filter(|warning| !is_printed(warning)) {
                print(format_args!("times: {warning}"))?;
            }
        }
        if best.ordering.over_waits > 0 {
            print(format_args!(
                "{} waits waited for a later operation than necessary",
                best.ordering.over_waits
            ))?;
        }
    }
    let pool = device.memory_stats()?;
    print(format_args!(
        "heap (scratch memory and slots): {} reserved, at most {} used",
        pool.reserved, pool.used_high
    ))
}

/// Whether the traced run is the one whose time is in the table.
fn summary_is_of_the_row(report: &Report) -> bool {
    report.summary().is_some_and(|summary| summary.metrics.elapsed() == report.elapsed)
}

/// A row of the table.
fn row(report: &Report) -> String {
    let plan = &report.plan;
    let rows = report.rows.max(1);
    let chunk = Bytes(plan.chunk_rows * (report.bytes_out.0 / rows));
    let share = |value: Option<f64>| {
        value.map_or("-".to_owned(), |v| format!("{:.3}", (v * 1e3).round() / 1e3 + 0.0))
    };
    format!(
        "{:<13}{:>10}{:>7}{:>12}{:>12}{:>10}{:>9}",
        plan.schedule_name(),
        chunk.to_string(),
        plan.depth,
        report.elapsed.to_string(),
        rate(report.bytes_in, report.elapsed),
        share(report.efficiency()),
        share(report.overlap()),
    )
}

fn print_timeline(report: &Report) -> Result<()> {
    let first: Vec<_> = report
        .ops
        .iter()
        .filter(|op| op.chunk.is_some_and(|chunk| chunk < CHUNKS_MAX))
        .cloned()
        .collect();
    let Some(window) = extent(&first) else { return Ok(()) };
    let shown = CHUNKS_MAX.min(report.plan.chunks.len() as u64);
    print(format_args!(
        "{}, the first {shown} chunks, one symbol each; `.` is idle time",
        report.plan.schedule_name()
    ))?;
    print(staircase(&first, window, WIDTH).trim_end())
}
