//! The table and the staircase.
#![forbid(unsafe_code)]

use super::job::Line;
use crate::cmd::print;
use trijet::base::units::rate;
use trijet::pipeline::{Calibration, Report};
use trijet::trace::timeline::{extent, staircase};
use trijet::{Bytes, Device, Result};

/// Columns of the drawing.
const WIDTH: usize = 72;
/// Chunks that the drawing shows, so that each is wide enough to be seen.
const CHUNKS: u64 = 12;

pub(super) fn table(
    job: &str,
    calibration: &Calibration,
    device: &Device,
    lines: &[Line],
) -> Result<()> {
    print(job)?;
    let Some(first) = lines.first() else { return Ok(()) };
    print(format_args!("{}: {}", first.report.device, first.report.clock_words()))?;
    print(calibration)?;
    // Halos make the bytes depend on the chunks: the bound is that of the last, which is drawn.
    let report = lines.last().map_or(&first.report, |line| &line.report);
    let copies = calibration.bound(report.bytes_in, report.bytes_out);
    if let (Some(bound), Some(kernels)) = (report.bound, report.engine("compute")) {
        let kernels = kernels.work();
        print(format_args!("bound {bound}: copies both ways {copies}, kernels alone {kernels}"))?;
    }
    print("")?;
    print(format_args!(
        "{:<13}{:>10}{:>7}{:>12}{:>12}{:>10}{:>9}  result",
        "schedule", "chunk", "slots", "elapsed", "in", "of bound", "overlap"
    ))?;
    for Line { report, hash, .. } in lines {
        print(format_args!("{}  {hash}", line(report)))?;
    }
    print("")?;
    if let Some(Line { report: best, .. }) = lines.last() {
        print_timeline(best)?;
        print("")?;
        if let Some(summary) = best.summary() {
            let summary = summary.to_string();
            print("one more run, with the times of every operation:")?;
            print(summary.trim_end())?;
            let said = |warning: &String| summary.contains(warning.as_str());
            for warning in best.warnings().iter().filter(|warning| !said(warning)) {
                print(format_args!("times: {warning}"))?;
            }
        }
        if best.ordering.over_waits > 0 {
            print(format_args!(
                "{} waits held for more than they had to",
                best.ordering.over_waits
            ))?;
        }
    }
    let pool = device.pool_stats()?;
    print(format_args!(
        "scratch and slots from the stream-ordered pool: {} reserved, {} used at most",
        pool.reserved, pool.used_high
    ))
}

fn line(report: &Report) -> String {
    let plan = &report.plan;
    let rows = report.rows.max(1);
    let chunk = Bytes(plan.chunk_rows * (report.bytes_out.0 / rows));
    let share = |value: Option<f64>| {
        value.map_or("-".to_owned(), |v| format!("{:.3}", (v * 1e3).round() / 1e3 + 0.0))
    };
    format!(
        "{:<13}{:>10}{:>7}{:>12}{:>12}{:>10}{:>9}",
        plan.schedule.name(),
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
        .filter(|op| op.chunk.is_some_and(|chunk| chunk < CHUNKS))
        .cloned()
        .collect();
    let Some(window) = extent(&first) else { return Ok(()) };
    let shown = CHUNKS.min(report.plan.chunks.len() as u64);
    print(format_args!(
        "{}, the first {shown} chunks, a symbol each; idle: .",
        report.plan.schedule.name()
    ))?;
    print(staircase(&first, window, WIDTH).trim_end())
}
