//! The content of any timeline: tracks, and items that lie on them.
//!
//! An item is an operation of a device with the call that enqueued it, or a call alone. An item
//! lies on up to three tracks: the track of its engine, the track of its stream, and the track of
//! the thread that made the call.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// The value in place of a track number for an item that lies on no track of a kind.
pub(crate) const NO_TRACK: u32 = u32::MAX;
/// The content of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrackKind {
    /// The times in which an engine worked.
    Engine,
    /// The times in which the operations of a stream ran.
    Stream,
    /// The times in which a thread of the host was in a call.
    Thread,
}

/// A track of a timeline.
#[derive(Debug, Clone)]
pub(crate) struct TimelineTrack {
    /// The content of the track.
    pub(crate) kind: TrackKind,
    /// The heading that the track shares with its neighbours, such as a process; may be empty.
    pub(crate) group: String,
    /// The name of the track.
    pub(crate) name: String,
}

/// An item of a timeline. Times are in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// Start and end of the operation in nanoseconds; `None` for a call alone.
    pub(crate) work: Option<(u64, u64)>,
    /// Start and end of the call in nanoseconds; `None` if they are unknown.
    pub(crate) call: Option<(u64, u64)>,
    /// The bytes that the operation moved.
    pub(crate) bytes: u64,
    /// The name, as an index into [`Sheet::labels`].
    pub(crate) label: u32,
    /// The kind, as an index into [`Sheet::kinds`].
    pub(crate) kind: u32,
    /// The track of the engine, or [`NO_TRACK`].
    pub(crate) engine: u32,
    /// The track of the stream, or [`NO_TRACK`].
    pub(crate) stream: u32,
    /// The track of the thread that made the call, or [`NO_TRACK`].
    pub(crate) thread: u32,
}

impl Item {
    /// The time of the item on tracks of this kind.
    pub(super) fn time(&self, kind: TrackKind) -> Option<(u64, u64)> {
        match kind {
            TrackKind::Engine | TrackKind::Stream => self.work,
            TrackKind::Thread => self.call,
        }
    }

    pub(super) fn track(&self, kind: TrackKind) -> u32 {
        match kind {
            TrackKind::Engine => self.engine,
            TrackKind::Stream => self.stream,
            TrackKind::Thread => self.thread,
        }
    }
}

/// The content of a timeline.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sheet {
    /// The tracks, in the order in which they are drawn.
    pub(crate) tracks: Vec<TimelineTrack>,
    /// The names of items.
    pub(crate) labels: Vec<String>,
    /// The kinds of items, in words.
    pub(crate) kinds: Vec<String>,
    /// The items. The page is smaller if neighbours are similar.
    pub(crate) items: Vec<Item>,
}

/// Distinct words, in the order in which they first appear.
#[derive(Debug, Default)]
pub(crate) struct DistinctWords {
    pub(crate) words: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl DistinctWords {
    /// The number of the word. A new word is added.
    pub(crate) fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = u32::try_from(self.words.len()).expect("a word has a number");
        self.words.push(word.to_owned());
        self.numbers.insert(word.to_owned(), number);
        number
    }
}
