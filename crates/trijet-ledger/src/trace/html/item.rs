//! The content of any timeline: tracks, and items that lie on them.
//!
//! An item is one operation of a device with the call that enqueued it, or a call alone. It lies on
//! up to three tracks: the track of its engine, of its stream, and of the thread of its call.
#![forbid(unsafe_code)]

/// The number of a track that an item does not lie on.
pub const NO_TRACK: u32 = u32::MAX;
/// The content of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackKind {
    /// The times in which an engine worked.
    Engine,
    /// The times in which the operations of a stream ran.
    Stream,
    /// The times in which a thread of the host was in a call.
    Thread,
}

/// A track of a timeline.
#[derive(Debug, Clone)]
pub struct TimelineTrack {
    /// The content of the track.
    pub kind: TrackKind,
    /// The heading that the track shares with its neighbours, such as a process; may be empty.
    pub group: String,
    /// The name of the track.
    pub name: String,
}

/// An item of a timeline. Times are in nanoseconds.
#[derive(Debug, Clone)]
pub struct Item {
    /// Start and end of the operation; `None` for a call alone.
    pub work: Option<(u64, u64)>,
    /// Start and end of the call; `None` if they are unknown.
    pub call: Option<(u64, u64)>,
    /// The bytes that the operation moved.
    pub bytes: u64,
    /// The name, as an index into [`Sheet::labels`].
    pub label: u32,
    /// The kind, as an index into [`Sheet::kinds`].
    pub kind: u32,
    /// The track of the engine, or [`NO_TRACK`].
    pub engine: u32,
    /// The track of the stream, or [`NO_TRACK`].
    pub stream: u32,
    /// The track of the thread that made the call, or [`NO_TRACK`].
    pub thread: u32,
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
pub struct Sheet {
    /// The tracks, in the order in which they are drawn.
    pub tracks: Vec<TimelineTrack>,
    /// The names of items.
    pub labels: Vec<String>,
    /// The kinds of items, in words.
    pub kinds: Vec<String>,
    /// The items. Neighbours that are similar make a smaller page.
    pub items: Vec<Item>,
}
