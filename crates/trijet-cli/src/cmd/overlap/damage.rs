//! What one wait is good for: the same job without it, and the result as a picture.
#![forbid(unsafe_code)]

use super::job::Job;
use super::stack::Pixel;
use crate::args::OverlapOptions;
use crate::cmd::check::finding as json;
use crate::cmd::print;
use std::fs;
use std::path::Path;
use trijet::base::id::Position;
use trijet::pipeline::{Report, Schedule};
use trijet::{Error, ErrorKind, Result};
use trijet_cli::picture::{Crop, write_difference};

/// The side of the picture.
const SIDE: usize = 512;

pub(super) fn run<T: Pixel>(job: &mut Job<T>, number: u64, options: &OverlapOptions) -> Result<()> {
    if let Some(input) = &options.input {
        spare(input, &options.picture)?;
    }
    job.result.write()?.fill(T::SPOILT);
    job.pipeline(Schedule::OneStream).unrecorded().run()?;
    let right = job.result.read()?.to_vec();
    job.result.write()?.fill(T::SPOILT);
    let report = job.pipeline(Schedule::RoleStreams).drop_wait(number).run()?.checked();
    let Some(dropped) = job.device.dropped_wait() else {
        let waits = report.ordering.waits;
        let cause = format!("the run has {waits} waits, and number {number} was asked for");
        return Err(Error::new(ErrorKind::InvalidValue, "drop-wait", cause));
    };
    let found = job.result.read()?;
    let differ = found.iter().zip(&right).filter(|(a, b)| a != b).count();
    let findings = report.found().map_or(&[][..], |verdict| &verdict.findings);
    let races: Vec<_> = findings.iter().filter(|finding| finding.conflict.is_some()).collect();
    let names = report.names();
    let waiter = name(&report, dropped.position);
    let awaited = name(&report, dropped.on);
    let picture = if differ > 0 {
        draw(job, &found, &right, &options.picture)?;
        Some(options.picture.display().to_string())
    } else {
        None
    };
    if options.json {
        let value = serde_json::json!({
            "wait": number,
            "waits": report.ordering.waits,
            "waiter": waiter,
            "awaited": awaited,
            "pixels_wrong": differ,
            "picture": picture,
            "findings": races.iter().map(|race| json(race, &names)).collect::<Vec<_>>(),
        });
        print(format_args!("{value:#}"))?;
        return Ok(());
    }
    print(job.words())?;
    print(format_args!("{}: {}", report.device, report.clock_words()))?;
    print(format_args!(
        "wait {number} of {} left out: {waiter} does not wait for {awaited}",
        report.ordering.waits
    ))?;
    match picture {
        Some(path) => {
            print(format_args!(
                "{differ} of {} pixels are wrong; {path} shows them bright",
                right.len()
            ))?;
        }
        None => print("no pixel is wrong: this time the order held by luck")?,
    }
    match races.split_first() {
        Some((race, more)) => {
            print(format_args!("the checker, from the calls alone:\n\n{}", race.text(&names)))?;
            if !more.is_empty() {
                print(format_args!("and {} more that the same wait would order", more.len()))?;
            }
        }
        // The device's own waits, as of a copy that is staged, may order the two as well.
        None => print("the checker: everything is ordered without it too")?,
    }
    Ok(())
}

/// Refuses a picture that would replace the input or join its images.
fn spare(input: &Path, picture: &Path) -> Result<()> {
    let source = fs::canonicalize(input).ok();
    let inside = |path: &Path| {
        let path = fs::canonicalize(path).ok();
        path.zip(source.as_ref()).is_some_and(|(path, source)| path.starts_with(source))
    };
    let folder = match picture.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if inside(picture) || inside(folder) {
        let (picture, input) = (picture.display(), input.display());
        let cause = format!("{picture}: the picture would change the input {input}");
        return Err(Error::new(ErrorKind::InvalidValue, "picture", cause));
    }
    Ok(())
}

/// An operation in words.
fn name(report: &Report, position: Position) -> String {
    let op = report.ops.iter().find(|op| op.position == position && op.label != "event");
    match op {
        Some(op) => match op.chunk {
            Some(chunk) => format!("`{}` of chunk {chunk} ({position})", op.label),
            None => format!("`{}` ({position})", op.label),
        },
        None => format!("an operation before the first chunk ({position})"),
    }
}

/// Draws the surroundings of the first wrong pixel.
fn draw<T: Pixel>(job: &Job<T>, found: &[T], right: &[T], path: &Path) -> Result<()> {
    let width = job.stack.width as usize;
    let rows = found.len() / width;
    let first = found.iter().zip(right).position(|(a, b)| a != b).unwrap_or(0);
    let (top, left) = (first / width, first % width);
    let crop = Crop {
        left: left.saturating_sub(SIDE / 2).min(width.saturating_sub(SIDE)),
        top: top.saturating_sub(SIDE / 2).min(rows.saturating_sub(SIDE)),
        width: SIDE.min(width),
        height: SIDE.min(rows),
    };
    write_difference(path, T::pixels(found), T::pixels(right), width, crop).map(|_| ())
}
