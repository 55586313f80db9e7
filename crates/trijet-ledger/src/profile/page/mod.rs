//! The page of a traced program: the figures of each device, and a timeline of all processes.
#![forbid(unsafe_code)]

mod graphs;
mod ranges;
mod timeline;

use super::chosen::environment::DeviceEnvironment;
use super::device::{DeviceProfile, KernelStream};
use super::model::Gains;
use super::process::ProcessProfile;
use super::program::Profile;
use super::ranks::{Rank, RankJob};
use super::steps::FiguresOf;
use super::text::{contradiction, percent, shown, step_sentences, without_work};
use crate::base::units::Nanos;
use crate::trace::activity::ProcessTrace;
use crate::trace::html::{
    Bar, BarPart, FigureTable, Look, Note, NoteLink, NoteName, ProgramPage, Section,
};
use crate::trace::{count, percent_of, rate};
use graphs::graphs_section;
use ranges::ranges_section;
use std::ops::Range;
use timeline::{TimelineBuilder, group};

/// Maximum number of names of communicating kernels that a page lists.
const KERNELS_MAX: usize = 10;
/// Maximum number of devices whose figures a page has.
const SECTIONS_MAX: usize = 64;

/// The title and the window of the page of a program.
#[derive(Debug, Clone, Default)]
pub struct PageOptions {
    /// The title of the page, such as the traced command.
    pub title: String,
    /// The part of the trace that the timeline shows, as times since the first activity of the
    /// trace. The default is the whole trace.
    pub window: Option<Range<Nanos>>,
}

/// The page of a traced program as HTML. `profile` has the processes of `traces`, in the same
/// order.
///
/// ```
/// use trijet_ledger::profile::{FiguresOf, PageOptions, Profile, analyse, page};
/// let mut traces = [trijet_ledger::trace::activity::ProcessTrace::default()];
/// let processes = traces.iter_mut().map(|trace| analyse(trace, FiguresOf::Steps));
/// let profile = Profile::of(processes.collect());
/// let page = page(&traces, &profile, &PageOptions::default());
/// assert!(page.starts_with(b"<!doctype html>"));
/// ```
#[must_use]
pub fn page(traces: &[ProcessTrace], profile: &Profile, options: &PageOptions) -> Vec<u8> {
    let processes = &profile.processes;
    let origin = profile.life().map_or(0, |life| life.start);
    let window = options.window.as_ref().map_or(0..u64::MAX, |window| {
        origin.saturating_add(window.start.0)..origin.saturating_add(window.end.0)
    });
    let (timeline, hidden) = TimelineBuilder::new(origin, window).build(traces, processes);
    let mut remarks = Vec::new();
    if let Some(window) = &options.window {
        remarks.push(format!(
            "The timeline shows the trace from {} to {}. The figures do not depend on that time.",
            window.start, window.end
        ));
    }
    if hidden > 0 {
        remarks.push(format!("{hidden} streams, threads and levels of named ranges have no row."));
    }
    remarks.extend(shown(processes).flat_map(remarks_of));
    remarks.extend(without_work(processes).map(|line| {
        let mut line = format!("{line}.");
        line.replace_range(..1, "P");
        line
    }));
    let devices = processes.iter().flat_map(|one| one.devices.iter().map(move |d| (one, d)));
    if devices.clone().count() > SECTIONS_MAX {
        remarks.push(format!("The figures cover the first {SECTIONS_MAX} devices."));
    }
    ProgramPage {
        title: options.title.clone(),
        verdict: verdict(processes),
        remarks,
        ranks: profile.jobs.iter().take(SECTIONS_MAX).flat_map(ranks).collect(),
        sections: devices
            .take(SECTIONS_MAX)
            .map(|(one, d)| section(one, d, origin))
            .chain(processes.iter().filter_map(ranges_section).take(SECTIONS_MAX))
            .chain(processes.iter().filter_map(graphs_section).take(SECTIONS_MAX))
            .collect(),
        provenance: provenance(processes),
        timeline,
        detail: "Make a page of a shorter time to see each of them: `trijet trace --read FILE -o \
                 part.html --from 12s --to 13s`."
            .to_owned(),
    }
    .render()
    .into_bytes()
}

/// Remarks about the trace of a process that a reader of the page needs.
fn remarks_of(process: &ProcessProfile) -> Vec<String> {
    let number = process.process;
    let mut remarks: Vec<String> =
        process.troubles.iter().map(|t| format!("Process {number}: not traced: {t}")).collect();
    if process.end.is_none() && process.interface != 0 {
        remarks.push(format!(
            "Process {number}: the end of the trace is missing, because the process was killed, \
             aborted or called _exit, or because the disk was full."
        ));
    }
    if let Some(end) = process.end.filter(|end| end.dropped.max(end.unknown).max(end.declined) > 0)
    {
        remarks.push(format!(
            "Process {number}: {} activities were dropped, {} could not be read, {} buffers were declined.",
            end.dropped, end.unknown, end.declined
        ));
    }
    if process.left_out > 0 {
        let count = process.left_out;
        remarks
            .push(format!("Process {number}: {count} activities beyond the limit were left out."));
    }
    remarks.extend(
        process
            .contradictions
            .iter()
            .map(|found| format!("Process {number}: {}.", contradiction(found))),
    );
    remarks.extend(process.notes.iter().map(|note| format!("Process {number}: {note}")));
    if process.untimed > 0 {
        remarks.push(format!(
            "Process {number}: {} operations have no times, because they were unfinished at the end.",
            process.untimed
        ));
    }
    remarks
}

fn verdict(processes: &[ProcessProfile]) -> String {
    let devices: Vec<&DeviceProfile> = processes.iter().flat_map(|one| &one.devices).collect();
    let busy = devices.iter().map(|device| percent(device.busy, device.elapsed));
    let costly = devices.iter().flat_map(|device| &device.findings).max_by_key(|f| f.saves());
    let cost = costly.map_or(String::new(), |finding| {
        format!("; the most costly remark is {}, {}", finding.rule.name(), finding.saves())
    });
    match devices.as_slice() {
        [] => "no operation on a GPU was traced".to_owned(),
        [one] => {
            let limit = one.limit();
            let busy = percent_of(one.busy, one.elapsed);
            let part = part(one);
            format!("{part} on a GPU, busy {busy} of it; {limit}{cost}")
        }
        all => {
            let longest = all.iter().map(|one| one.elapsed).fold(Nanos(0), Nanos::max);
            let (least, most) = (busy.clone().fold(100.0, f64::min), busy.fold(0.0, f64::max));
            let busy = match (format!("{least:.0}"), format!("{most:.0}")) {
                (least, most) if least == most => least,
                (least, most) => format!("{least} to {most}"),
            };
            let working = processes.iter().filter(|one| !one.devices.is_empty()).count();
            format!(
                "{longest} on {} GPUs of {working} processes, busy {busy} % of it{cost}",
                all.len()
            )
        }
    }
}

/// The part of the run that the figures of a device are about, in words.
fn part(device: &DeviceProfile) -> String {
    match &device.steps {
        Some(steps) if device.extent == FiguresOf::Steps => {
            format!("{} steps in {}", steps.count, device.elapsed)
        }
        _ => device.elapsed.to_string(),
    }
}

fn provenance(processes: &[ProcessProfile]) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    for one in shown(processes) {
        rows.push((
            format!("process {}", one.process),
            format!(
                "{} activities and {} calls in {}; CUPTI {} took {} of that time; command: {}",
                one.activities, one.calls, one.span, one.interface, one.overhead, one.command
            ),
        ));
    }
    rows.push(("trijet".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    rows
}

fn section(process: &ProcessProfile, device: &DeviceProfile, origin: u64) -> Section {
    let mut whole = vec![BarPart::new(Look::Busy, "busy", device.busy)];
    for idle in device.idle.parts() {
        let look = match idle.key {
            "idle_waiting_for_the_gpu" => Look::Waiting,
            "idle_outside_of_cuda" => Look::Other,
            _ => Look::Host,
        };
        whole.push(BarPart::new(look, format!("idle, the host {}", idle.host), idle.time));
    }
    let limiting = device.limiting().map(|engine| engine.name);
    let mut bars = vec![Bar { name: "GPU".to_owned(), limits: false, parts: whole }];
    for engine in &device.engines {
        let mut words = format!("busy, {} operations", engine.operations);
        if engine.bytes.0 > 0 {
            words += &format!(", {} at {}", engine.bytes, rate(engine.bytes, engine.busy));
        }
        let rest = Nanos(device.elapsed.0.saturating_sub(engine.busy.0));
        bars.push(Bar {
            name: engine.name.to_owned(),
            limits: limiting == Some(engine.name),
            parts: vec![
                BarPart::new(Look::Busy, words, engine.busy),
                BarPart::new(Look::Other, "not busy", rest),
            ],
        });
    }
    let on_page = |place: &Range<u64>| {
        let span = place.start.saturating_sub(origin)..place.end.saturating_sub(origin);
        NoteLink::to_time(&span, Nanos(span.end - span.start).to_string())
    };
    let notes = device.findings.iter().map(|finding| Note {
        cost: finding.cost.to_string(),
        name: NoteName::Rule(finding.rule.name()),
        text: format!(
            "{} x {}: {}{}",
            finding.count,
            finding.rule.title(),
            finding.seen,
            finding
                .gain
                .map_or(String::new(), |gain| format!("; a replay with the fix saves {gain}"))
        ),
        fix: Some(finding.fix),
        links: finding.places.iter().map(on_page).collect(),
    });
    let kernels = device.kernels.iter().take(KERNELS_MAX).map(|kernel| {
        vec![kernel.name.clone(), kernel.total.to_string(), kernel.launches.to_string()]
    });
    Section {
        title: group(process.process, device.device),
        lines: lines(device),
        bars,
        notes: notes.collect(),
        table: FigureTable {
            head: ["kernel", "total time", "launches"].map(str::to_owned).to_vec(),
            rows: kernels.collect(),
        },
    }
}

/// The sentences about a device.
fn lines(device: &DeviceProfile) -> Vec<String> {
    let DeviceProfile { elapsed, streams, idle, .. } = device;
    let of = match device.extent {
        FiguresOf::Steps => "start of the first step to the end of the last",
        FiguresOf::Whole => "first operation to the last",
    };
    let mut lines = vec![format!(
        "{elapsed} from the {of}, on {}; idle {} in {}",
        count(*streams as u64, "stream"),
        idle.total,
        count(idle.gaps as u64, "gap")
    )];
    lines.extend(step_sentences(device));
    lines.extend(device.limit_sentence());
    lines.extend(device.kernel_stream.map(KernelStream::sentence));
    lines.extend(device.stream_pairs.iter().map(|pair| format!("streams {}", pair.sentence())));
    lines.extend(device.gains.iter().flat_map(Gains::sentences));
    lines.extend(device.environment.iter().flat_map(DeviceEnvironment::sentences));
    lines
}

/// The figures of the ranks of a job.
fn ranks(job: &RankJob) -> [Section; 2] {
    let bar = |rank: &Rank| Bar {
        name: rank.name.clone(),
        limits: false,
        parts: vec![
            BarPart::new(
                Look::Busy,
                "beside kernels",
                Nanos(rank.communication.0 - rank.exposed.0),
            ),
            BarPart::new(Look::Exposed, "exposed transfer", rank.transfer),
            BarPart::new(Look::Waiting, "waiting for a later rank", rank.waiting),
            BarPart::new(Look::Other, "exposed, unknown", rank.unknown),
        ],
    };
    let times = |rank: &Rank| {
        let place = format!("process {}, GPU {}", rank.process, rank.device);
        let row = [rank.name.clone(), place, rank.communication.to_string()];
        let exposed = [rank.exposed, rank.waiting, rank.transfer, rank.unknown];
        let late = [rank.last.to_string(), rank.late.to_string(), rank.awaited.to_string()];
        row.into_iter().chain(exposed.map(|time| time.to_string())).chain(late).collect()
    };
    let head = ["rank", "GPU", "busy", "exposed", "waiting", "transfer", "unknown"];
    let figures = Section {
        title: format!("Communication of {} ranks", job.ranks.len()),
        lines: job.sentences().to_vec(),
        bars: job.ranks.iter().map(bar).collect(),
        notes: Vec::new(),
        table: FigureTable {
            head: head
                .iter()
                .chain(&["last in", "late by", "awaited"])
                .map(|&h| h.into())
                .collect(),
            rows: job.ranks.iter().map(times).collect(),
        },
    };
    let kernels = job.by_name.iter().take(KERNELS_MAX).map(|kernel| {
        vec![kernel.name.clone(), kernel.exposed.to_string(), kernel.count.to_string()]
    });
    let kernels = Section {
        title: "Kernels that communicate, by exposed time on all ranks".to_owned(),
        table: FigureTable {
            head: ["kernel", "exposed", "launches"].map(str::to_owned).to_vec(),
            rows: kernels.collect(),
        },
        ..Section::default()
    };
    [figures, kernels]
}
