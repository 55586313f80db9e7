//! Page-locked memory of the program, and the copies that may still use it.
//!
//! From the return of an asynchronous copy until the host may know that it is complete, the memory
//! is protected: against writes while the copy reads it, and against all accesses while it writes
//! it. An access in between becomes an entry of the call file, and its reader decides whether the
//! copy was complete. So too long a protection costs a fault, and no false finding, while too short
//! a one misses an access. The order of streams is therefore only computed roughly here, and rather
//! too much of it than too little.
//!
//! Of a large copy only its first and last pages are protected, because the time of a protection
//! grows with its pages.

use super::functions::Function;
use super::protection::{self, RANGES_MAX};
use crate::call_file::{Head, PER_THREAD};
use crate::stream_key::{NON_BLOCKING, StreamKey};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// The number of pages at each end of a large copy that are protected.
const PAGES: usize = 16;
/// Maximum number of streams that an event or a stream knows apart.
const STREAMS_MAX: usize = 1024;
/// Maximum number of copies of a graph whose memory is protected.
const CAPTURED_MAX: usize = 256;
/// `CU_MEMHOSTREGISTER_IOMEMORY` and `CU_MEMHOSTREGISTER_READ_ONLY`: memory whose protection before
/// was another one than for reads and writes.
const UNUSUAL: u64 = 4 | 8;
/// The effect of a function of the driver on page-locked memory. The numbers are the places of
/// arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryEffect {
    /// Nothing.
    None,
    /// Makes a stream with flags.
    NewStream(usize),
    /// Makes page-locked memory: address, bytes, and flags for registered memory.
    PageLocked(Option<usize>),
    /// Ends the page-locking of the memory at the first argument.
    Unlocked,
    /// An asynchronous copy: target, source, bytes, and the place of the stream.
    Copy(usize),
    /// A part of a batch of copies: stream, number, and of each target, source and bytes.
    Batch,
    /// Records an event in a stream.
    Record,
    /// A stream waits for an event.
    WaitInStream,
    /// The stream at this place waits for something that may come from any stream.
    WaitForAny(usize),
    /// Other work in the stream at this place, or in the one of the last word.
    Work(usize),
    WorkOfLast,
    /// Work from which the host may learn how far the stream is.
    Tells,
    /// A context ends, with its page-locked memory.
    ContextGone,
    /// The host waits for a stream, or finds it complete.
    WaitForStream,
    /// The host waits for the event at this place, or finds it complete.
    WaitForEvent(usize),
    /// The host finds both events complete.
    ElapsedTime,
    /// The host waits for its default stream.
    WaitForDefault,
    /// The host may wait for everything.
    WaitForAll,
    /// A capture begins or ends.
    BeginCapture,
    EndCapture,
    /// Makes a program of a graph: the places of the program and of the graph.
    Instantiate(usize, usize),
    LaunchGraph,
    ForgetGraph,
    ForgetProgram,
    ForgetEvent,
    ForgetStream,
}

/// The effect of a function.
pub(super) fn effect(function: &Function) -> MemoryEffect {
    match function.name {
        "cuStreamCreate" | "cuStreamCreateWithPriority" => MemoryEffect::NewStream(1),
        "cuGreenCtxStreamCreate" => MemoryEffect::NewStream(2),
        "cuMemAllocHost_v2" | "cuMemHostAlloc" => MemoryEffect::PageLocked(None),
        "cuMemHostRegister_v2" => MemoryEffect::PageLocked(Some(2)),
        "cuMemFreeHost" | "cuMemHostUnregister" => MemoryEffect::Unlocked,
        "cuMemcpyAsync" | "cuMemcpyHtoDAsync_v2" | "cuMemcpyDtoHAsync_v2" => MemoryEffect::Copy(3),
        "cuMemcpyWithAttributesAsync" => MemoryEffect::Copy(4),
        "cuMemcpyBatchAsync" | "cuMemcpyBatchAsync_v2" => MemoryEffect::Batch,
        "cuEventRecord" | "cuEventRecordWithFlags" => MemoryEffect::Record,
        "cuStreamWaitEvent" => MemoryEffect::WaitInStream,
        "cuStreamSynchronize" | "cuStreamQuery" => MemoryEffect::WaitForStream,
        "cuEventSynchronize" | "cuEventQuery" => MemoryEffect::WaitForEvent(0),
        "cuEventElapsedTime" | "cuEventElapsedTime_v2" => MemoryEffect::ElapsedTime,
        "cuMemFree_v2" | "cuCtxSynchronize" | "cuCtxSynchronize_v2" => MemoryEffect::WaitForAll,
        "cuStreamBeginCapture_v2" | "cuStreamBeginCaptureToGraph" => MemoryEffect::BeginCapture,
        "cuStreamEndCapture" => MemoryEffect::EndCapture,
        "cuGraphInstantiateWithFlags"
        | "cuGraphInstantiateWithParams"
        | "cuGraphExecUpdate"
        | "cuGraphExecUpdate_v2" => MemoryEffect::Instantiate(0, 1),
        "cuGraphLaunch" => MemoryEffect::LaunchGraph,
        "cuGraphDestroy" => MemoryEffect::ForgetGraph,
        "cuGraphExecDestroy" => MemoryEffect::ForgetProgram,
        "cuCtxDestroy_v2" | "cuDevicePrimaryCtxRelease_v2" | "cuDevicePrimaryCtxReset_v2" => {
            MemoryEffect::ContextGone
        }
        "cuLaunchHostFunc" | "cuStreamAddCallback" | "cuSignalExternalSemaphoresAsync" => {
            MemoryEffect::Tells
        }
        name if name.starts_with("cuStreamWriteValue") => MemoryEffect::Tells,
        "cuEventDestroy_v2" => MemoryEffect::ForgetEvent,
        "cuStreamDestroy_v2" => MemoryEffect::ForgetStream,
        "cuMemAllocAsync" => MemoryEffect::Work(2),
        "cuMemAllocFromPoolAsync" => MemoryEffect::Work(3),
        "cuWaitExternalSemaphoresAsync" => MemoryEffect::WaitForAny(3),
        name if name.starts_with("cuStreamWaitValue") || name.starts_with("cuStreamBatchMemOp") => {
            MemoryEffect::WaitForAny(0)
        }
        name if name.starts_with("cuMemcpy") || name.starts_with("cuMemset") => {
            match name.contains("Async") {
                true => MemoryEffect::WorkOfLast,
                false => MemoryEffect::WaitForDefault,
            }
        }
        _ => MemoryEffect::None,
    }
}

/// The stream of a handle in a call.
pub(super) fn key(handle: u64, head: &Head) -> StreamKey {
    StreamKey::new(handle, head.context, head.thread, head.flags & PER_THREAD != 0)
}

/// The copies that a stream, an event or the host may know to be complete, by their numbers.
#[derive(Debug, Clone, Default)]
struct Completed {
    /// Copies up to this number, in all streams.
    all: u64,
    /// Copies up to this number, in streams that the legacy stream waits for.
    blocking: u64,
    by_stream: HashMap<StreamKey, u64>,
}

impl Completed {
    fn add(&mut self, other: &Self) {
        self.all = self.all.max(other.all);
        self.blocking = self.blocking.max(other.blocking);
        if self.by_stream.len() > STREAMS_MAX {
            let last = self.by_stream.drain().map(|(_, number)| number).max();
            self.all = self.all.max(last.unwrap_or(0));
        }
        for (stream, number) in &other.by_stream {
            let known = self.by_stream.entry(*stream).or_default();
            *known = (*known).max(*number);
        }
    }
}

/// A protected range, and the last copy that uses it.
#[derive(Debug)]
struct ProtectedPart {
    range: Range<usize>,
    is_readable: bool,
    /// The index in the table of the handler.
    place: usize,
    copy: u64,
    stream: StreamKey,
    is_blocking: bool,
}

/// The state of the page-locked memory.
#[derive(Debug)]
pub(super) struct HostMemory {
    page: usize,
    /// The ends of the areas by their starts.
    areas: BTreeMap<usize, usize>,
    non_blocking: HashSet<StreamKey>,
    streams: HashMap<StreamKey, Completed>,
    events: HashMap<u64, Completed>,
    /// The last copy before the last work in a legacy stream.
    before_legacy: u64,
    parts: Vec<ProtectedPart>,
    /// The number of the last copy.
    copies: u64,
    /// The capture that a stream is a part of, and the one in which an event was recorded.
    capturing: HashMap<StreamKey, u64>,
    captured_events: HashMap<u64, u64>,
    captures: u64,
    /// The copies of the open captures, of graphs and of their programs.
    captured: HashMap<u64, Vec<CopyWords>>,
    graphs: HashMap<u64, Vec<CopyWords>>,
    programs: HashMap<u64, Vec<CopyWords>>,
}

/// Target, source and bytes.
type CopyWords = [u64; 3];

impl HostMemory {
    /// `page` is the number of bytes of a page.
    pub(super) fn new(page: usize) -> Self {
        Self {
            page,
            areas: BTreeMap::new(),
            non_blocking: HashSet::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            before_legacy: 0,
            parts: Vec::new(),
            copies: 0,
            capturing: HashMap::new(),
            captured_events: HashMap::new(),
            captures: 0,
            captured: HashMap::new(),
            graphs: HashMap::new(),
            programs: HashMap::new(),
        }
    }

    /// Notes a call that has succeeded, or that begins to free memory.
    pub(super) fn note(&mut self, effect: MemoryEffect, head: &Head, words: &[u64]) {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let stream = |at| key(word(at), head);
        match effect {
            MemoryEffect::None => {}
            MemoryEffect::NewStream(flags) => {
                if word(flags) & NON_BLOCKING == 0 {
                    self.non_blocking.remove(&stream(0));
                } else {
                    self.non_blocking.insert(stream(0));
                }
            }
            MemoryEffect::PageLocked(flags) => {
                if flags.is_none_or(|at| word(at) & UNUSUAL == 0) {
                    self.lock(word(0), word(1));
                }
            }
            MemoryEffect::Unlocked => self.unlock(word(0)),
            MemoryEffect::Copy(at) => self.copy(stream(at), &words[..3.min(words.len())]),
            MemoryEffect::Batch => {
                for one in words.get(2..).unwrap_or(&[]).chunks_exact(3) {
                    self.copy(stream(0), one);
                }
            }
            MemoryEffect::Record => self.record(word(0), stream(1)),
            MemoryEffect::WaitInStream => {
                if let Some(capture) = self.captured_events.get(&word(1)) {
                    self.capturing.insert(stream(0), *capture);
                    return;
                }
                if let Some(known) = self.events.get(&word(1)).cloned() {
                    self.streams.entry(stream(0)).or_default().add(&known);
                }
            }
            MemoryEffect::WaitForAny(at) => {
                // A batch may also write values.
                self.open_all();
                let all = self.copies;
                self.streams.entry(stream(at)).or_default().all = all;
            }
            MemoryEffect::Work(at) => self.work(stream(at)),
            MemoryEffect::WorkOfLast => self.work(stream(words.len().saturating_sub(1))),
            // Its wait may be no call of the driver, so the program may use the memory rightly.
            MemoryEffect::Tells => self.open_all(),
            MemoryEffect::ContextGone => {
                self.open_all();
                self.areas.clear();
            }
            MemoryEffect::WaitForStream => self.wait_for(stream(0)),
            MemoryEffect::WaitForDefault => self.wait_for(key(0, head)),
            MemoryEffect::WaitForEvent(at) => {
                if let Some(known) = self.events.get(&word(at)).cloned() {
                    self.open_known(&known);
                }
            }
            MemoryEffect::ElapsedTime => {
                self.note(MemoryEffect::WaitForEvent(1), head, words);
                self.note(MemoryEffect::WaitForEvent(2), head, words);
            }
            MemoryEffect::WaitForAll => self.open_all(),
            MemoryEffect::ForgetEvent => {
                self.captured_events.remove(&word(0));
                self.events.remove(&word(0));
            }
            MemoryEffect::ForgetStream => drop(self.streams.remove(&stream(0))),
            _ => self.note_graph(effect, head, words),
        }
    }

    /// Notes a call about a capture or a graph.
    fn note_graph(&mut self, effect: MemoryEffect, head: &Head, words: &[u64]) {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let stream = |at| key(word(at), head);
        match effect {
            MemoryEffect::BeginCapture => {
                self.captures += 1;
                self.capturing.insert(stream(0), self.captures);
            }
            MemoryEffect::EndCapture => {
                let Some(capture) = self.capturing.remove(&stream(0)) else { return };
                self.capturing.retain(|_, other| *other != capture);
                self.captured_events.retain(|_, other| *other != capture);
                let copies = self.captured.remove(&capture).unwrap_or_default();
                self.graphs.insert(word(1), copies);
            }
            MemoryEffect::Instantiate(program, graph) => {
                let copies = self.graphs.get(&word(graph)).cloned().unwrap_or_default();
                self.programs.insert(word(program), copies);
            }
            MemoryEffect::LaunchGraph => {
                for copy in self.programs.get(&word(0)).cloned().unwrap_or_default() {
                    self.copy(stream(1), &copy);
                }
                self.work(stream(1));
            }
            MemoryEffect::ForgetGraph => drop(self.graphs.remove(&word(0))),
            MemoryEffect::ForgetProgram => drop(self.programs.remove(&word(0))),
            _ => {}
        }
    }

    /// Notes work in a stream.
    pub(super) fn work(&mut self, stream: StreamKey) {
        if stream.is_legacy() {
            self.before_legacy = self.copies;
        }
    }

    fn lock(&mut self, address: u64, bytes: u64) {
        let (Ok(start), Ok(bytes)) = (usize::try_from(address), usize::try_from(bytes)) else {
            return;
        };
        if let Some(end) = start.checked_add(bytes)
            && start != 0
        {
            self.areas.insert(start, end);
        }
    }

    fn unlock(&mut self, address: u64) {
        let Ok(start) = usize::try_from(address) else { return };
        if let Some(end) = self.areas.remove(&start) {
            self.open_where(|part| part.range.start < end && start < part.range.end);
        }
    }

    /// The page-locked memory that has this range.
    fn is_page_locked(&self, range: &Range<usize>) -> bool {
        let area = self.areas.range(..=range.start).next_back();
        area.is_some_and(|(_, end)| *end >= range.end)
    }

    /// A copy: target, source and bytes. A captured one uses the memory at the launches of the
    /// graph.
    fn copy(&mut self, stream: StreamKey, words: &[u64]) {
        let &[to, from, bytes] = words else { return };
        if let Some(capture) = self.capturing.get(&stream) {
            let captured = self.captured.entry(*capture).or_default();
            if captured.len() < CAPTURED_MAX {
                captured.push([to, from, bytes]);
            }
            return;
        }
        self.copies += 1;
        for (address, is_readable) in [(to, false), (from, true)] {
            let (Ok(start), Ok(bytes)) = (usize::try_from(address), usize::try_from(bytes)) else {
                continue;
            };
            let Some(end) = start.checked_add(bytes) else { continue };
            if self.is_page_locked(&(start..end)) {
                for range in
                    ends(start.next_multiple_of(self.page)..end - end % self.page, self.page)
                {
                    self.protect(range, is_readable, stream);
                }
            }
        }
        self.work(stream);
    }

    fn protect(&mut self, range: Range<usize>, mut is_readable: bool, stream: StreamKey) {
        let is_within =
            |one: &ProtectedPart| one.range.start >= range.start && one.range.end <= range.end;
        let is_blocking = !self.non_blocking.contains(&stream);
        let copy = self.copies;
        // A buffer that is used again and again stays protected.
        if let Some(same) = self.parts.iter_mut().find(|one| one.range == range)
            && (is_readable || !same.is_readable)
            && !protection::is_open(same.place)
        {
            (same.copy, same.stream, same.is_blocking) = (copy, stream, is_blocking);
            return;
        }
        if !protection::prepare() {
            return;
        }
        // The former copies may still be running.
        is_readable &= self
            .parts
            .iter()
            .filter(|one| is_within(one))
            .all(|one| one.is_readable || protection::is_open(one.place));
        self.parts.retain(|one| {
            let is_kept = !is_within(one);
            if !is_kept {
                protection::forget(one.place);
            }
            is_kept
        });
        let is_free = |place: &usize| self.parts.iter().all(|one| one.place != *place);
        let Some(place) = (0..RANGES_MAX).find(is_free) else { return };
        // A failure leaves the range open.
        if protection::protect(place, &range, is_readable) {
            self.parts.push(ProtectedPart { range, is_readable, place, copy, stream, is_blocking });
        }
    }

    fn known_in(&self, stream: StreamKey) -> Completed {
        let is_blocking = |one: &StreamKey| !self.non_blocking.contains(one);
        let mut known = self.streams.get(&stream).cloned().unwrap_or_default();
        known.by_stream.insert(stream, self.copies);
        // A legacy stream waits for the blocking streams, and they wait for it.
        if stream.is_legacy() {
            known.blocking = self.copies;
        } else if is_blocking(&stream) {
            known.blocking = known.blocking.max(self.before_legacy);
        }
        for (other, of_other) in &self.streams {
            if (stream.is_legacy() && is_blocking(other))
                || (other.is_legacy() && is_blocking(&stream))
            {
                known.add(of_other);
            }
        }
        // A program that makes streams all the time.
        if known.by_stream.len() > STREAMS_MAX {
            known = Completed { all: self.copies, ..Completed::default() };
        }
        known
    }

    fn record(&mut self, event: u64, stream: StreamKey) {
        if let Some(capture) = self.capturing.get(&stream) {
            self.captured_events.insert(event, *capture);
            return;
        }
        self.captured_events.remove(&event);
        if self.parts.is_empty() {
            self.events.remove(&event);
        } else {
            self.events.insert(event, self.known_in(stream));
        }
        self.work(stream);
    }

    fn wait_for(&mut self, stream: StreamKey) {
        if !self.parts.is_empty() {
            self.open_known(&self.known_in(stream));
        }
    }

    /// Opens the memory of copies that may be complete.
    fn open_known(&mut self, known: &Completed) {
        self.open_where(|one| {
            let of_stream = known.by_stream.get(&one.stream).is_some_and(|last| one.copy <= *last);
            of_stream || one.copy <= known.all || (one.is_blocking && one.copy <= known.blocking)
        });
    }

    /// Opens all protected memory.
    pub(super) fn open_all(&mut self) {
        self.open_where(|_| true);
    }

    fn open_where(&mut self, is_wanted: impl Fn(&ProtectedPart) -> bool) {
        let (opened, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.parts).into_iter().partition(is_wanted);
        for one in &opened {
            protection::open(one.place, &one.range);
            for other in &kept {
                let part =
                    other.range.start.max(one.range.start)..other.range.end.min(one.range.end);
                if !part.is_empty() {
                    protection::protect_part(other.place, &part);
                }
            }
        }
        self.parts = kept;
        if self.parts.is_empty() {
            self.streams.clear();
            self.events.clear();
        }
    }
}

/// The first and the last pages of a range of whole pages.
fn ends(range: Range<usize>, page: usize) -> Vec<Range<usize>> {
    let bytes = PAGES * page;
    match range.end.checked_sub(range.start) {
        None | Some(0) => Vec::new(),
        Some(all) if all <= 2 * bytes => vec![range],
        Some(_) => vec![range.start..range.start + bytes, range.end - bytes..range.end],
    }
}
