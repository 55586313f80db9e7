//! `trijet overlap --drop-wait`: runs the job with one wait left out, and draws the wrong pixels.
#![forbid(unsafe_code)]

use super::job::Job;
use super::stack::Pixel;
use crate::args::OverlapOptions;
use crate::cmd::document::print_json;
use crate::cmd::print;
use crate::cmd::progress::Progress;
use crate::cmd::verdict::{Live, finding as json};
use crate::picture::{Crop, write_difference};
use crate::timeline;
use std::process::ExitCode;
use trijet::check::{Finding, Names};
use trijet::pipeline::Schedule;
use trijet::testing;
use trijet::trace::{Engine, Position, count};
use trijet::{Clock, Error, ErrorKind, Report, Result};
use trijet_io::{NewFile, shown};
use trijet_tools::progress::Steps;

/// The side of the picture, in pixels.
const SIDE: usize = 512;

/// The number of progress steps that [`run`] shows.
pub(super) const STEPS: u64 = 2;

pub(super) fn run<T: Pixel>(
    job: &mut Job<T>,
    number: u64,
    options: &OverlapOptions,
    picture: &NewFile,
    trace: Option<&timeline::Target>,
    progress: &Progress,
    mut steps: Steps<'_>,
) -> Result<ExitCode> {
    steps.begin("computing the right result");
    job.result.write()?.fill(T::SENTINEL);
    job.pipeline(Schedule::OneStream).untraced().run()?;
    let expected = job.result.read()?.to_vec();
    steps.begin("computing without the wait");
    job.result.write()?.fill(T::SENTINEL);
    let report = job.pipeline(Schedule::RoleStreams).drop_wait(number).run()?;
    let report = report.checked();
    progress.clear();
    let Some(dropped) = testing::dropped_wait(&job.device) else {
        let waits = report.ordering.waits;
        let cause = format!("there is no wait {number}: the run has {}", count(waits, "wait"));
        return Err(Error::new(ErrorKind::InvalidValue, "drop-wait", cause));
    };
    let found = job.result.read()?;
    let differ = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
    let findings = report.found().map_or(&[][..], |verdict| &verdict.findings);
    let races: Vec<_> = findings.iter().filter(|finding| finding.conflict.is_some()).collect();
    let names = report.names();
    let waiter = operation_name(&report, dropped.position);
    let awaited = operation_name(&report, dropped.on);
    let picture = if differ > 0 {
        draw(job, &found, &expected, picture)?;
        Some(picture.path().to_string_lossy().into_owned())
    } else {
        None
    };
    if let Some(trace) = trace {
        trace.write(&report, &format!("{}, without wait {number}", job.description()))?;
    }
    let verdict = Live::of(&job.device);
    if options.json {
        let mut value = serde_json::json!({
            "job": job.description(),
            "device": report.device,
            "wait": number,
            "waits": report.ordering.waits,
            "waiter": waiter,
            "awaited": awaited,
            "pixels_wrong": differ,
            "picture": picture,
            "findings": races.iter().map(|race| json(race, &names)).collect::<Vec<_>>(),
        });
        verdict.add_to(&mut value);
        print_json("overlap", &value)?;
        return Ok(verdict.exit_code());
    }
    print(job.description())?;
    print(format_args!("{}: {}", report.device, report.clock_words()))?;
    print(format_args!(
        "wait {number} of {} was left out: {waiter} does not wait for {awaited}",
        report.ordering.waits
    ))?;
    match picture {
        Some(path) => {
            let pixels = expected.len();
            print(format_args!(
                "{differ} of {pixels} pixels are wrong; {path} shows them in white"
            ))?;
        }
        None => print(unharmed(report.clock, number))?,
    }
    print_races(&races, &names)?;
    if let Some(trace) = trace {
        print(format_args!("timeline: {}", shown(trace.path())))?;
    }
    verdict.print()?;
    Ok(verdict.exit_code())
}

/// Explains why no pixel is wrong.
fn unharmed(clock: Clock, number: u64) -> String {
    let advice = match number {
        1 | 2 => "",
        _ => "; --drop-wait 1 and --drop-wait 2 do damage",
    };
    match clock {
        Clock::Model => format!(
            "no pixel is wrong, so no picture is written: on the model the order is the same in \
             each run, and this order is right even without the wait{advice}"
        ),
        Clock::Device | Clock::Processor => format!(
            "no pixel is wrong, so no picture is written: in this run the order was right by \
             chance{advice}"
        ),
    }
}

/// Prints the first race in full, and the number of the other races.
fn print_races(races: &[&Finding], names: &Names) -> Result<()> {
    match races.split_first() {
        Some((race, more)) => {
            print(format_args!(
                "the checker, which examines the calls and not the results, reports:\n\n{}",
                race.text(names)
            ))?;
            match more.len() {
                0 => Ok(()),
                more => {
                    let more = count(more as u64, "more finding");
                    print(format_args!("and {more} without this wait"))
                }
            }
        }
        // Another wait may order the same two operations, for example the wait of a staged copy.
        None => {
            print("the checker reports nothing: every conflict is ordered even without this wait")
        }
    }
}

/// The name of the operation at `position` for messages, such as "the upload of chunk 3".
fn operation_name(report: &Report, position: Position) -> String {
    let op = report.ops.iter().find(|op| op.position == position && op.label != "event");
    let Some(op) = op else { return "an operation before the first chunk".to_owned() };
    let stage = match op.engine {
        Engine::Upload => "the upload".to_owned(),
        Engine::Download => "the download".to_owned(),
        Engine::Compute => format!("the kernel `{}`", op.label),
        _ => format!("`{}`", op.label),
    };
    let chunk = op.chunk.map_or_else(String::new, |chunk| format!(" of chunk {chunk}"));
    stage + &chunk
}

/// Draws the neighbourhood of the first wrong pixel.
fn draw<T: Pixel>(job: &Job<T>, found: &[T], expected: &[T], into: &NewFile) -> Result<()> {
    let width = job.images.width as usize;
    let rows = found.len() / width;
    let first = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
    let (top, left) = (first / width, first % width);
    let crop = Crop {
        left: left.saturating_sub(SIDE / 2).min(width.saturating_sub(SIDE)),
        top: top.saturating_sub(SIDE / 2).min(rows.saturating_sub(SIDE)),
        width: SIDE.min(width),
        height: SIDE.min(rows),
    };
    write_difference(into, T::pixels(found), T::pixels(expected), width, crop).map(|_| ())
}
