//! The operations of a run as the sheet of its page.
#![forbid(unsafe_code)]

use super::super::json::string;
use super::super::tracks::{self, Shows, kind_name, span, track_name};
use super::item::{DistinctWords, Item, NO_TRACK, Sheet, TimelineTrack, TrackKind};
use super::look::Look;
use super::page::Page;
use super::sheet::{CRITICAL, CRITICAL_CALL, More, SheetData, UNDECLARED};
use crate::base::ledger::{Declared, Op};
use crate::base::span::Union;
use crate::trace::critical::Category;
use crate::trace::gaps::Cause;
use crate::trace::host_engines::{HostEngine, HostSummary};
use std::borrow::Cow;
use std::fmt::Write;

/// The data of the timeline of a run.
pub(super) fn data(page: &Page<'_>) -> SheetData {
    let ops = &*page.ops;
    let tracks = tracks::tracks(ops);
    let several = ops.windows(2).any(|pair| pair[0].device != pair[1].device);
    let mut on: [Vec<u32>; 3] = [(); 3].map(|()| vec![NO_TRACK; ops.len()]);
    let mut sheet = Sheet::default();
    let host = page.summary.as_ref().map_or(&[][..], |summary| &summary.host);
    let rows = rows(&tracks, host);
    for (number, row) in (0_u32..).zip(&rows) {
        let track = match row {
            TimelineRow::Host(one) => {
                let name = one.engine.name().to_owned();
                let (kind, group) = (TrackKind::Engine, String::new());
                sheet.tracks.push(TimelineTrack { kind, group, name });
                continue;
            }
            TimelineRow::Track(track) => &tracks[*track],
        };
        let (kind, device) = match track.shows {
            Shows::Engine(device, _) => (TrackKind::Engine, Some(device)),
            Shows::Stream(device, _) => (TrackKind::Stream, Some(device)),
            Shows::Thread(_) => (TrackKind::Thread, None),
        };
        let mut name = track_name(ops, track);
        if let Some(device) = device.filter(|_| several) {
            name = format!("{} {name}", device.0);
        }
        sheet.tracks.push(TimelineTrack { kind, group: String::new(), name });
        for index in track.rows.iter().flatten() {
            on[kind as usize][*index] = number;
        }
    }
    let [mut labels, mut kinds, mut sites] = [(); 3].map(|()| DistinctWords::default());
    let site: Vec<u64> = ops
        .iter()
        .map(|op| op.site.as_ref().map_or(Cow::Borrowed(""), |site| site.to_string().into()))
        .map(|site| u64::from(sites.number(&site)))
        .collect();
    sheet.items = ops
        .iter()
        .enumerate()
        .map(|(index, op)| Item {
            work: op.times.map(span),
            call: op.call.map(span),
            bytes: op.bytes,
            label: labels.number(&op.label),
            kind: kinds.number(kind_name(op)),
            engine: on[0][index],
            stream: on[1][index],
            thread: on[2][index],
        })
        .collect();
    let of_host = add_host(page, &rows, (&mut labels, &mut kinds), &mut sheet.items);
    (sheet.labels, sheet.kinds) = (labels.words, kinds.words);
    let mut more = more(page, &tracks, &rows, &sites.words, site);
    // The items of the engines of the host are no operations. Each of them has flags, and 0 in each
    // of `more.columns`.
    more.flags.extend(of_host);
    more.columns.iter_mut().for_each(|(_, column)| column.resize(sheet.items.len(), 0));
    sheet.data(&more)
}

/// Adds an item for each time in which an engine of the host worked. Returns the flags of these
/// items.
fn add_host(
    page: &Page<'_>,
    rows: &[TimelineRow<'_>],
    (labels, kinds): (&mut DistinctWords, &mut DistinctWords),
    items: &mut Vec<Item>,
) -> Vec<u8> {
    let mut flags = Vec::new();
    for (number, row) in (0_u32..).zip(rows) {
        let TimelineRow::Host(one) = row else { continue };
        let path = path_of(page, one.engine);
        let (label, kind) = (labels.number(one.engine.name()), kinds.number("work of the host"));
        for span in one.spans.intervals() {
            flags.push(if path.overlap(span) > 0 { CRITICAL } else { 0 });
            items.push(Item {
                work: Some((span.start, span.end)),
                call: None,
                bytes: 0,
                label,
                kind,
                engine: number,
                stream: NO_TRACK,
                thread: NO_TRACK,
            });
        }
    }
    flags
}

/// The times in which the critical path was work of an engine of the host.
fn path_of(page: &Page<'_>, engine: HostEngine) -> Union {
    let steps = page.summary.iter().flat_map(|summary| &summary.critical.steps);
    let own = steps.filter(|step| step.category == Category::Host(engine));
    Union::of(own.map(|step| step.span.clone()))
}

/// A row of the timeline: an engine of the host, or the track with an index.
enum TimelineRow<'a> {
    Host(&'a HostSummary),
    Track(usize),
}

/// The rows in the order of a job: the reader, the engines of devices, the writer and the disk,
/// then streams and threads.
fn rows<'a>(tracks: &[tracks::Track], host: &'a [HostSummary]) -> Vec<TimelineRow<'a>> {
    let (readers, others): (Vec<_>, Vec<_>) =
        host.iter().partition(|one| one.engine == HostEngine::Reader);
    let is_engine = |track: &&(usize, &tracks::Track)| matches!(track.1.shows, Shows::Engine(..));
    let numbered: Vec<_> = tracks.iter().enumerate().collect();
    let engines = numbered.iter().filter(is_engine).map(|(number, _)| TimelineRow::Track(*number));
    let rest = numbered
        .iter()
        .filter(|one| !is_engine(one))
        .map(|(number, _)| TimelineRow::Track(*number));
    let (readers, others) =
        (readers.into_iter().map(TimelineRow::Host), others.into_iter().map(TimelineRow::Host));
    readers.chain(engines).chain(others).chain(rest).collect()
}

/// The properties of the operations, except their times.
fn more(
    page: &Page<'_>,
    tracks: &[tracks::Track],
    rows: &[TimelineRow<'_>],
    sites: &[String],
    site: Vec<u64>,
) -> More<'static> {
    let ops = &*page.ops;
    let summary = page.summary.as_ref();
    let declared = |op: &Op| if op.declared == Declared::Nothing { UNDECLARED } else { 0 };
    let mut flags: Vec<u8> = ops.iter().map(declared).collect();
    for node in summary.map_or_else(Vec::new, |summary| summary.critical.nodes()) {
        flags[node.op()] |= if node.is_call() { CRITICAL_CALL } else { CRITICAL };
    }
    let slack = |op: usize| summary?.slack.get(op).copied().flatten();
    let column = |of: &dyn Fn(&Op) -> u64| ops.iter().map(of).collect::<Vec<u64>>();
    // 0 means no chunk, or no slack.
    let chunk = column(&|op| op.chunk.map_or(0, |chunk| chunk.saturating_add(1)));
    let slack = (0..ops.len()).map(|op| slack(op).map_or(0, |slack| slack.0.saturating_add(1)));
    let (gaps, causes) = gaps(page, tracks, rows);
    let sites: Vec<String> = sites.iter().map(|site| string(site)).collect();
    let mut members =
        format!(",\"sites\":[{}],\"causes\":[{causes}],\"hazards\":[", sites.join(","));
    let number = |index| page.number_of(index);
    let hazards = page.hazards.iter().map(|note| match note.first.map(number) {
        Some(first) => format!("[{first},{}]", number(note.second)),
        None => format!("[null,{}]", number(note.second)),
    });
    write!(members, "{}]", hazards.collect::<Vec<_>>().join(",")).expect("writing to a string");
    if page.calls.is_some() {
        members.push_str(",\"ofCalls\":true");
    }
    let notes = page.hazards.iter().flat_map(|note| note.first.into_iter().chain([note.second]));
    let lints =
        summary.iter().flat_map(|summary| &summary.lints).filter_map(|lint| lint.ops.first());
    let mut named: Vec<usize> = notes.chain(lints.copied()).collect();
    named.sort_unstable();
    More {
        flags,
        columns: vec![
            ("site", site),
            ("chunk", chunk),
            ("slack", slack.collect()),
            ("stream", column(&|op| u64::from(op.position.lane.0))),
            ("position", column(&|op| op.position.seq)),
        ],
        edges: tracks::edges(ops),
        gaps,
        members: members.into(),
        numbers: page.calls.clone(),
        named,
    }
}

/// The idle times of the tracks, each with one cause, and the causes as JSON. The parts of one gap
/// are in the order of their times.
fn gaps(
    page: &Page<'_>,
    tracks: &[tracks::Track],
    rows: &[TimelineRow<'_>],
) -> (Vec<[u64; 4]>, String) {
    let mut gaps = Vec::new();
    let mut causes: Vec<Cause> = Vec::new();
    for gap in page.summary.iter().flat_map(|summary| &summary.gaps) {
        let wanted = Shows::Engine(gap.engine.0, gap.engine.1);
        let is_wanted = |row: &TimelineRow<'_>| match row {
            TimelineRow::Track(track) => tracks[*track].shows == wanted,
            TimelineRow::Host(_) => false,
        };
        let Some(track) = rows.iter().position(is_wanted) else { continue };
        let mut from = gap.span.start;
        for (cause, part) in &gap.parts {
            let known = causes.iter().position(|known| known == cause);
            let number = known.unwrap_or_else(|| {
                causes.push(*cause);
                causes.len() - 1
            });
            gaps.push([track as u64, from, part.0, number as u64]);
            from += part.0;
        }
    }
    let causes = causes.iter().map(|cause| {
        let words = string(&cause.to_string());
        format!("[\"{}\",{words}]", Look::of_idle(*cause).class())
    });
    (gaps, causes.collect::<Vec<_>>().join(","))
}
