//! The comparison as text: a table of the schedules, and a drawing of the first chunks.
#![forbid(unsafe_code)]

use super::job::ScheduleResult;
use crate::args::OverlapOptions;
use crate::cmd::print;
use trijet::pipeline::Calibration;
use trijet::trace::gaps::Cause;
use trijet::trace::summary::Loss;
use trijet::trace::timeline::{extent, staircase};
use trijet::trace::{count, percent_of, rate};
use trijet::{Bytes, Device, Nanos, Report, Result};

/// The number of columns of the drawing.
const WIDTH: usize = 68;
/// The number of chunks that the drawing shows. Each of these chunks is wide enough to be visible.
const CHUNKS_MAX: u64 = 12;

/// A loss is printed if it is at least 1 / `LEAST` of the elapsed time.
const LEAST: u64 = 100;

/// Prints the comparison: the drawing, the table, and the limiting engine. `computed` is the
/// sentence about the work of the processor, if the times are modelled.
pub(super) fn short(
    computed: Option<&str>,
    results: &[ScheduleResult],
    options: &OverlapOptions,
) -> Result<()> {
    let Some(ScheduleResult { report: best, .. }) = results.last() else { return Ok(()) };
    print(format_args!("{}: {}", best.device, best.clock_words()))?;
    computed.map_or(Ok(()), print)?;
    print("")?;
    print_timeline(best)?;
    print("")?;
    print_table(results)?;
    notes(results).iter().try_for_each(print)?;
    print("")?;
    print(format_args!(
        "the tuned schedule on {}",
        best.brief().lines().take(2).collect::<Vec<_>>().join("\n")
    ))?;
    let losses = losses(best, options);
    if losses.is_empty() || !best.advice().is_empty() {
        best.brief().lines().skip(2).try_for_each(print)?;
    }
    losses.iter().try_for_each(print)?;
    print("`--report full` prints every figure, and `trijet explain WORD` explains a word")
}

/// The largest losses of time, each with the reason and what to do.
fn losses(report: &Report, options: &OverlapOptions) -> Vec<String> {
    let Some(summary) = report.summary() else { return Vec::new() };
    let elapsed = summary.metrics.elapsed();
    let line = |words: &str, time: Nanos, rest: &str| {
        let is_worth = time.0 >= (elapsed.0 / LEAST).max(1);
        is_worth.then(|| format!("lost {time} ({}) to {words}{rest}", percent_of(time, elapsed)))
    };
    let is_end = |loss: &&Loss| matches!(loss.cause, Cause::Fill | Cause::Drain);
    let (ends, others): (Vec<&Loss>, Vec<&Loss>) = summary.losses.iter().partition(is_end);
    let larger = if options.input.is_some() { "input" } else { "--size" };
    let reason = format!(
        ": with {}, the first and the last chunk take a large part of the time; use a larger \
         {larger}",
        count(report.plan.chunks.len() as u64, "chunk")
    );
    let ends = line("fill and drain", Nanos(ends.iter().map(|loss| loss.time.0).sum()), &reason);
    let others = others.into_iter().filter_map(|loss| {
        let fix = loss.fix.map_or_else(String::new, |fix| format!("; {fix}"));
        line(&loss.cause.to_string(), loss.time, &fix)
    });
    ends.into_iter().chain(others).collect()
}

/// Prints every figure of the comparison.
pub(super) fn full(
    computed: Option<&str>,
    calibration: &Calibration,
    device: &Device,
    results: &[ScheduleResult],
    options: &OverlapOptions,
) -> Result<()> {
    let Some(first) = results.first() else { return Ok(()) };
    print(format_args!("{}: {}", first.report.device, first.report.clock_words()))?;
    computed.map_or(Ok(()), print)?;
    if let Some(ScheduleResult { report: best, .. }) = results.last() {
        print("")?;
        print_timeline(best)?;
        print("")?;
    }
    print(calibration)?;
    // The number of copied bytes depends on the chunk size, because the halos of the chunks are
    // copied several times. The printed bound belongs to the last schedule, which is also the
    // schedule that is drawn.
    let report = results.last().map_or(&first.report, |result| &result.report);
    let copies = calibration.bound(report.bytes_in, report.bytes_out);
    if let (Some(bound), Some(kernels)) = (report.bound, report.engine("compute")) {
        let kernels = kernels.work();
        print(format_args!(
            "bound {bound}: copies in both directions {copies}, kernels alone {kernels}"
        ))?;
    }
    print("")?;
    print_table(results)?;
    notes(results).iter().try_for_each(print)?;
    print("")?;
    if let Some(ScheduleResult { report: best, .. }) = results.last() {
        if let Some(limits) = best.limits {
            print(limits.compared(best.elapsed))?;
        }
        if let Some(summary) = best.summary() {
            let summary = summary.to_string();
            let same = summary_is_of_the_row(best);
            print(if same { "the same run:" } else { "one more run, traced:" })?;
            print(summary.trim_end())?;
            losses(best, options).iter().try_for_each(print)?;
            let is_printed = |warning: &String| summary.contains(warning.as_str());
            for warning in best.warnings().iter().filter(|warning| !is_printed(warning)) {
                print(format_args!("times: {warning}"))?;
            }
        }
        if best.ordering.over_waits > 0 {
            let waits = count(best.ordering.over_waits, "wait");
            print(format_args!("{waits} waited for a later operation than necessary"))?;
        }
    }
    let pool = device.memory_stats()?;
    print(format_args!(
        "heap (scratch memory and slots): {} reserved, at most {} used",
        pool.reserved, pool.used_high
    ))
}

/// Prints the table, and whether all schedules have the same result.
fn print_table(results: &[ScheduleResult]) -> Result<()> {
    print(format_args!(
        "{:<13}{:>10}{:>7}{:>12}{:>12}{:>10}{:>9}",
        "schedule", "chunk", "slots", "elapsed", "in", "of bound", "overlap"
    ))?;
    results.iter().try_for_each(|one| print(row(&one.report)))?;
    let hash = |one: &ScheduleResult| one.digest.to_string();
    let hashes: Vec<String> = results.iter().map(hash).collect();
    match hashes.first() {
        Some(first) if hashes.iter().all(|hash| hash == first) => {
            print(format_args!("all results are equal, with the hash {first}"))
        }
        _ => print(format_args!("WRONG: the results have the hashes {}", hashes.join(", "))),
    }
}

/// Explains rows of the table that may surprise: a schedule that is faster although its rate is
/// lower, and a schedule that is faster than `tuned`.
fn notes(results: &[ScheduleResult]) -> Vec<String> {
    let reports: Vec<&Report> = results.iter().map(|one| &one.report).collect();
    let Some((tuned, others)) = reports.split_last() else { return Vec::new() };
    let per_ns = |report: &Report| report.bytes_in.0 as f64 / report.elapsed.0.max(1) as f64;
    let is_odd = |a: &&Report, b: &&Report| a.elapsed < b.elapsed && per_ns(a) < per_ns(b);
    let odd = reports.iter().find_map(|a| Some((*a, *reports.iter().find(|b| is_odd(a, b))?)));
    let mut notes = Vec::new();
    if let Some((faster, slower)) = odd {
        notes.push(format!(
            "a chunk also reads the rows around it (halo), so the bytes, their rate and the bound \
             depend on the chunks: {} of input with {}, {} with {}",
            faster.bytes_in,
            faster.plan.schedule_name(),
            slower.bytes_in,
            slower.plan.schedule_name()
        ));
    }
    let fastest = others.iter().min_by_key(|report| report.elapsed);
    if let Some(fastest) = fastest.filter(|report| report.elapsed < tuned.elapsed) {
        notes.push(format!(
            "{} took {} less than tuned, which chooses its chunks and slots before it runs",
            fastest.plan.schedule_name(),
            Nanos(tuned.elapsed.0 - fastest.elapsed.0)
        ));
    }
    notes
}

/// Whether the time of this report in the table is the time of the traced run. Otherwise the time
/// in the table is the median of the runs without a trace.
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
    let shown = match report.plan.chunks.len() as u64 {
        1 => "its one chunk".to_owned(),
        all if all <= CHUNKS_MAX => format!("all {all} chunks"),
        _ => format!("the first {CHUNKS_MAX} chunks"),
    };
    print(format_args!(
        "{}, {shown}, one symbol each; `.` is idle time",
        report.plan.schedule_name()
    ))?;
    print(staircase(&first, window, WIDTH).trim_end())
}
