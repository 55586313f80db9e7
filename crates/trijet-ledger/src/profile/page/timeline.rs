//! The timeline on the page of a traced program: the engines and streams of each device, and the
//! calls of each thread.
#![forbid(unsafe_code)]

use crate::profile::activities::is_timed;
use crate::profile::engine::{Communicating, engine};
use crate::profile::names::{clean, readable};
use crate::profile::process::ProcessProfile;
use crate::trace::activity::{Activity, ActivityKind, NameId, ProcessTrace};
use crate::trace::html::{DistinctWords, Item, NO_TRACK, Sheet, TimelineTrack, TrackKind};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Maximum number of tracks of a timeline. Further streams and threads have none.
const TRACKS_MAX: usize = 600;
/// Maximum number of all tracks of a timeline. Beyond [`TRACKS_MAX`], only engines get tracks.
const ALL_TRACKS_MAX: usize = 2 * TRACKS_MAX;
/// The heading of the tracks of a device.
pub(super) fn group(process: u32, device: u32) -> String {
    format!("process {process}, GPU {device}")
}

/// The key of a track. First the index of the process, and the device (`None` for the host). Then 0
/// for an engine, 1 for a stream, or 2 for a thread. Then the number of the engine, the numbers of
/// the context and the stream, or the number of the thread with 0 for its calls and a higher number
/// for its named ranges. Tracks are drawn in the order of their keys.
pub(super) type TrackKey = (usize, Option<u32>, u8, u32, u32);

/// Builds the timeline of a traced program.
pub(super) struct TimelineBuilder {
    origin: u64,
    window: Range<u64>,
    pub(super) sheet: Sheet,
    tracks: BTreeMap<TrackKey, (u32, TimelineTrack)>,
    pub(super) kinds: DistinctWords,
    labels: Labels,
    pub(super) hidden: usize,
}

/// The label of a row of a thread, with the name of the thread if it is known.
pub(super) fn thread_label(what: &str, trace: &ProcessTrace, thread: u32) -> String {
    match trace.thread_name(thread) {
        Some(name) => format!("{what} {thread} ({})", clean(name)),
        None => format!("{what} {thread}"),
    }
}

impl TimelineBuilder {
    pub(super) fn new(origin: u64, window: Range<u64>) -> Self {
        Self {
            origin,
            window,
            sheet: Sheet::default(),
            tracks: BTreeMap::new(),
            kinds: DistinctWords::default(),
            labels: Labels::default(),
            hidden: 0,
        }
    }

    /// The timeline, and the number of streams and threads that have no track in it.
    pub(super) fn build(
        mut self,
        traces: &[ProcessTrace],
        processes: &[ProcessProfile],
    ) -> (Sheet, usize) {
        let works = processes.iter().any(|process| !process.devices.is_empty());
        for (number, (trace, process)) in traces.iter().zip(processes).enumerate() {
            if !works || !process.devices.is_empty() {
                self.add(number, trace);
            }
        }
        // The numbers of the tracks follow the order of their keys.
        let mut order = vec![NO_TRACK; self.tracks.len()];
        for (place, (number, track)) in (0_u32..).zip(self.tracks.into_values()) {
            order[number as usize] = place;
            self.sheet.tracks.push(track);
        }
        for item in &mut self.sheet.items {
            for track in [&mut item.engine, &mut item.stream, &mut item.thread] {
                *track = order.get(*track as usize).copied().unwrap_or(NO_TRACK);
            }
        }
        // Neighbouring items of a track are similar, so the items take less space in this order.
        self.sheet.items.sort_unstable_by_key(|item| {
            let begin = item.work.or(item.call).map_or(0, |time| time.0);
            (item.engine, item.stream, item.thread, begin)
        });
        (self.sheet.labels, self.sheet.kinds) = (self.labels.all.words, self.kinds.words);
        (self.sheet, self.hidden)
    }

    pub(super) fn track(&mut self, key: TrackKey, track: impl FnOnce() -> TimelineTrack) -> u32 {
        if let Some((number, _)) = self.tracks.get(&key) {
            return *number;
        }
        let track = track();
        let limit = if track.kind == TrackKind::Engine { ALL_TRACKS_MAX } else { TRACKS_MAX };
        if self.tracks.len() >= limit {
            return NO_TRACK;
        }
        let number = u32::try_from(self.tracks.len()).unwrap_or(NO_TRACK);
        self.tracks.insert(key, (number, track));
        number
    }

    /// The start and the end of an activity in nanoseconds, on the clock of the page. `None` if no
    /// part of the activity is in the window.
    fn time(&self, one: &Activity) -> Option<(u64, u64)> {
        is_timed(one).then(|| self.on_page(&(one.begin.0..one.end.0))).flatten()
    }

    /// A time of the trace on the clock of the page, if a part of it is in the window.
    pub(super) fn on_page(&self, time: &Range<u64>) -> Option<(u64, u64)> {
        (time.start < self.window.end && time.end > self.window.start)
            .then(|| (time.start.saturating_sub(self.origin), time.end.saturating_sub(self.origin)))
    }

    /// The number of the label with this text.
    pub(super) fn label(&mut self, text: &str) -> u32 {
        self.labels.all.number(text)
    }

    fn add(&mut self, number: usize, trace: &ProcessTrace) {
        // The numbers of names are valid only within one process.
        self.labels.of.clear();
        let communicating = Communicating::of(trace);
        let process = trace.process;
        let calls = self.calls(number, trace);
        let mut taken = vec![false; calls.items.len()];
        let mut missing: Vec<(u32, u32)> = Vec::new();
        for one in &trace.activities {
            let (Some(engine), Some(work)) = (engine(one, &communicating), self.time(one)) else {
                continue;
            };
            let group = || group(process, one.device);
            let device = Some(one.device);
            let on_engine = self.track((number, device, 0, engine as u32, 0), || TimelineTrack {
                kind: TrackKind::Engine,
                group: group(),
                name: engine.name().to_owned(),
            });
            let on_stream =
                self.track((number, device, 1, one.context, one.stream), || TimelineTrack {
                    kind: TrackKind::Stream,
                    group: group(),
                    name: stream_name(trace, one),
                });
            if on_stream == NO_TRACK {
                missing.push((one.context, one.stream));
            }
            let call = calls.of(one.correlation);
            let is_first = call.is_some_and(|call| !std::mem::replace(&mut taken[call], true));
            let call = call.map(|call| &calls.items[call]);
            let (label, kind) = (self.labels.number(trace, one), self.kinds.number(engine.name()));
            self.sheet.items.push(Item {
                work: Some(work),
                call: call.and_then(|call| call.call),
                bytes: one.bytes,
                label,
                kind,
                engine: on_engine,
                stream: on_stream,
                thread: call.filter(|_| is_first).map_or(NO_TRACK, |call| call.thread),
            });
        }
        self.add_ranges(number, trace);
        missing.sort_unstable();
        missing.dedup();
        self.hidden += missing.len();
        let alone = calls.items.into_iter().zip(taken).filter(|(_, taken)| !taken);
        self.sheet.items.extend(alone.map(|(item, _)| item));
    }

    /// The calls of a process, except calls made inside other calls.
    fn calls(&mut self, number: usize, trace: &ProcessTrace) -> PageCalls {
        let is_call = |one: &&Activity| matches!(one.kind, ActivityKind::Call(_)) && is_timed(one);
        let mut found: Vec<&Activity> = trace.activities.iter().filter(is_call).collect();
        found.sort_by_key(|one| (one.thread, one.begin, Reverse(one.end)));
        let kind = self.kinds.number("call");
        let mut calls = PageCalls { items: Vec::new(), by_correlation: Vec::new() };
        let mut outer: Option<(u32, u64)> = None;
        let mut missing: Option<u32> = None;
        for one in found {
            let Some(time) = self.time(one) else { continue };
            if outer.is_none_or(|(thread, end)| thread != one.thread || one.end.0 > end) {
                outer = Some((one.thread, one.end.0));
                let thread = self.track((number, None, 2, one.thread, 0), || TimelineTrack {
                    kind: TrackKind::Thread,
                    group: format!("process {}, host", trace.process),
                    name: thread_label("thread", trace, one.thread),
                });
                // The calls are sorted by thread, so each thread without a track is counted once.
                if thread == NO_TRACK && missing.replace(one.thread) != Some(one.thread) {
                    self.hidden += 1;
                }
                let label = self.labels.number(trace, one);
                let (call, work, bytes) = (Some(time), None, 0);
                let (engine, stream) = (NO_TRACK, NO_TRACK);
                calls.items.push(Item { work, call, bytes, label, kind, engine, stream, thread });
            }
            let index = u32::try_from(calls.items.len() - 1).unwrap_or(u32::MAX);
            calls.by_correlation.push((one.correlation, index));
        }
        calls.by_correlation.sort_by_key(|(correlation, _)| *correlation);
        calls
    }
}

fn stream_name(trace: &ProcessTrace, one: &Activity) -> String {
    let is_legacy = trace
        .contexts
        .iter()
        .any(|context| (context.context, context.null_stream) == (one.context, one.stream));
    format!("{} {}", if is_legacy { "legacy stream" } else { "stream" }, one.stream)
}

/// The calls of a process as items.
struct PageCalls {
    items: Vec<Item>,
    by_correlation: Vec<(u32, u32)>,
}

impl PageCalls {
    /// The index in `items` of the call with this correlation number.
    fn of(&self, correlation: u32) -> Option<usize> {
        let after = self.by_correlation.partition_point(|(number, _)| *number <= correlation);
        let (number, index) = *self.by_correlation.get(after.checked_sub(1)?)?;
        usize::try_from(index)
            .ok()
            .filter(|index| number == correlation && *index < self.items.len())
    }
}

/// The labels of activities, each of them once.
#[derive(Default)]
struct Labels {
    /// For each name of the current process, the number of its label.
    of: HashMap<Option<NameId>, u32>,
    all: DistinctWords,
}

impl Labels {
    fn number(&mut self, trace: &ProcessTrace, one: &Activity) -> u32 {
        let key = one
            .name
            .filter(|_| !matches!(one.kind, ActivityKind::Copy { .. } | ActivityKind::Fill));
        if let Some(number) = self.of.get(&key).filter(|_| key.is_some()) {
            return *number;
        }
        let word = match one.kind {
            ActivityKind::Copy { from, to, .. } => {
                format!("copy from {from:?} to {to:?}").to_lowercase()
            }
            ActivityKind::Fill => "fill".to_owned(),
            _ => readable(trace.name(one)),
        };
        let number = self.all.number(&word);
        if key.is_some() {
            self.of.insert(key, number);
        }
        number
    }
}
