//! The data of a timeline in a page: the items as columns, and the rows of their tracks.
#![forbid(unsafe_code)]

use super::super::json::string;
use super::columns::{ColumnCode, Columns};
use super::item::{Item, Sheet, TrackKind};
use super::merge::{Merged, merged};
use std::borrow::Cow;

/// Maximum number of rows of a track. If items need more rows, the further items share the last
/// row, in which they may hide each other.
const ROWS_MAX: usize = 48;
/// Maximum size of the data of a page, in bytes. The rest of the page takes much less than 1 MB, so
/// a page has at most 20 MB.
const BYTES_MAX: usize = 19_000_000;
/// An attempt with fewer items aims at this share of [`BYTES_MAX`].
const MARGIN: f64 = 0.9;
/// The smallest share of the items that one attempt keeps.
const SHRINK_MIN: f64 = 0.05;
/// Maximum number of attempts with fewer items. An attempt fails if the data of its items are
/// larger than expected.
const TRIES_MAX: usize = 6;

/// The bits of the column `flags`.
pub(super) const TIMED: u8 = 1;
pub(super) const CALLED: u8 = 2;
pub(super) const UNDECLARED: u8 = 4;
pub(super) const CRITICAL: u8 = 8;
pub(super) const CRITICAL_CALL: u8 = 16;

/// Properties of items that only some timelines have.
#[derive(Default)]
pub(super) struct More<'a> {
    /// For each item, flags that do not follow from the item itself.
    pub(super) flags: Vec<u8>,
    /// The names of further columns, each with a number for each item.
    pub(super) columns: Vec<(&'static str, Vec<u64>)>,
    /// The order of the streams, as pairs of indices of items.
    pub(super) edges: Vec<(usize, usize)>,
    /// Idle times: the number of an engine's track, the start and the length in nanoseconds, and
    /// the number of the cause.
    pub(super) gaps: Vec<[u64; 4]>,
    /// Members of the JSON object, each with a comma before it.
    pub(super) members: Cow<'a, str>,
    /// The number of each item in texts and links. `None` for its index.
    pub(super) numbers: Option<Vec<u64>>,
    /// The indices of the items that a link or a mark names, sorted. These items are not merged.
    pub(super) named: Vec<usize>,
}

/// The data of a timeline in a page.
pub(super) struct SheetData {
    /// The part that the script reads first, as JSON.
    pub(super) json: String,
    /// The columns, in base64.
    pub(super) columns: String,
    /// A sentence about the merged items, if any were merged.
    pub(super) note: Option<String>,
}

impl SheetData {
    fn size(&self) -> usize {
        self.json.len() + self.columns.len()
    }
}

impl Sheet {
    /// The data of the timeline. If the data would be too large, short neighbours are merged.
    pub(super) fn data(&self, more: &More<'_>) -> SheetData {
        self.data_within(more, BYTES_MAX)
    }

    pub(super) fn data_within(&self, more: &More<'_>, limit: usize) -> SheetData {
        let mut data = self.packed(more, None);
        let mut wanted = self.items.len() as f64;
        for _ in 0..TRIES_MAX {
            if data.size() <= limit {
                break;
            }
            // All names remain, even if only a few items remain.
            let left = limit.saturating_sub(data.json.len());
            wanted *= (MARGIN * left as f64 / data.columns.len() as f64).clamp(SHRINK_MIN, MARGIN);
            data = self.packed(more, Some(&merged(&self.items, &more.named, wanted)));
        }
        data
    }

    fn packed(&self, more: &More<'_>, fewer: Option<&Merged>) -> SheetData {
        let items = fewer.map_or(&self.items, |fewer| &fewer.items);
        // Maps the index of an item in `items` to its index in `self.items`.
        let first = |index: usize| fewer.map_or(index, |fewer| fewer.first[index]);
        let mut columns = Columns::default();
        let flags = (0..items.len()).map(|index| {
            let flag = |set: bool, bit: u8| if set { bit } else { 0 };
            let own = more.flags.get(first(index)).copied().unwrap_or(0);
            let item = &items[index];
            u64::from(flag(item.work.is_some(), TIMED) | flag(item.call.is_some(), CALLED) | own)
        });
        columns.add("flags", ColumnCode::Plain, flags);
        columns.add("kind", ColumnCode::Plain, items.iter().map(|item| u64::from(item.kind)));
        columns.add("label", ColumnCode::Plain, items.iter().map(|item| u64::from(item.label)));
        let span = |time: Option<(u64, u64)>| time.unwrap_or((0, 0));
        columns.add_spans(["begin", "took"], items.iter().map(|item| span(item.work)));
        columns.add_spans(["call", "calling"], items.iter().map(|item| span(item.call)));
        columns.add("bytes", ColumnCode::Plain, items.iter().map(|item| item.bytes));
        let rows = self.rows(items, &mut columns);
        for (name, values) in &more.columns {
            columns.add(
                name,
                ColumnCode::Difference,
                (0..items.len()).map(|index| values[first(index)]),
            );
        }
        let edges = self.edges(more, fewer);
        columns.add("from", ColumnCode::Difference, edges.iter().map(|(from, _)| *from as u64));
        columns.add("to", ColumnCode::Difference, edges.iter().map(|(_, to)| *to as u64));
        let shown = fewer.map_or(0, |fewer| fewer.grain);
        let gaps: Vec<&[u64; 4]> = more.gaps.iter().filter(|gap| gap[2] >= shown).collect();
        for (field, name) in ["gapTrack", "gapFrom", "gapTook", "gapCause"].iter().enumerate() {
            columns.add(name, ColumnCode::Difference, gaps.iter().map(|gap| gap[field]));
        }
        if fewer.is_some() || more.numbers.is_some() {
            let number = |index| more.numbers.as_ref().map_or(index as u64, |all| all[index]);
            let numbers = (0..items.len()).map(|index| number(first(index)));
            columns.add("number", ColumnCode::Difference, numbers);
        }
        if let Some(fewer) = fewer {
            columns.add("stands", ColumnCode::Plain, fewer.stands.iter().copied());
            columns.add("busy", ColumnCode::Plain, fewer.busy.iter().copied());
        }
        let (heads, columns) = columns.finish();
        let list = |words: &[String]| words.iter().map(|w| string(w)).collect::<Vec<_>>().join(",");
        let json = format!(
            "{{\"count\":{},\"rows\":[{rows}],\"columns\":[{heads}],\"labels\":[{}],\"kinds\":[{}]{}}}",
            items.len(),
            list(&self.labels),
            list(&self.kinds),
            more.members
        );
        SheetData { json, columns, note: fewer.map(Merged::note) }
    }

    /// The edges between the items after merging, without edges from an item to itself.
    fn edges<'a>(&self, more: &'a More<'_>, fewer: Option<&Merged>) -> Cow<'a, [(usize, usize)]> {
        let Some(fewer) = fewer else { return Cow::Borrowed(&more.edges) };
        let now = |index: usize| fewer.now[index];
        let edges = more.edges.iter().map(|(from, to)| (now(*from), now(*to)));
        let mut edges: Vec<_> = edges.filter(|(from, to)| from != to).collect();
        edges.sort_unstable_by_key(|(from, to)| (*to, *from));
        edges.dedup();
        edges.into()
    }

    /// The rows of the tracks as JSON. Adds a column for each kind of track: the row of each item,
    /// counted from 1, or 0 if the item lies on no track of the kind.
    fn rows(&self, items: &[Item], columns: &mut Columns) -> String {
        let mut text = Vec::new();
        let kinds = [TrackKind::Engine, TrackKind::Stream, TrackKind::Thread];
        let mut rows = kinds.map(|_| vec![0_u64; items.len()]);
        let mut members = kinds.map(|kind| members(items, kind, self.tracks.len()));
        for (number, track) in self.tracks.iter().enumerate() {
            let kind = track.kind as usize;
            let its = &mut members[kind][number];
            let of = assigned(items, track.kind, its);
            let count = of.iter().max().map_or(0, |most| most + 1);
            for (index, row) in its.iter().zip(&of) {
                rows[kind][*index as usize] = (text.len() + row + 1) as u64;
            }
            let word = ["engine", "stream", "thread"][kind];
            let (group, name) = (string(&track.group), string(&track.name));
            for row in 0..count {
                text.push(format!(
                    "{{\"kind\":\"{word}\",\"first\":{},\"group\":{group},\"name\":{name}}}",
                    row == 0
                ));
            }
        }
        for (name, rows) in ["engineRow", "streamRow", "threadRow"].into_iter().zip(rows) {
            columns.add(name, ColumnCode::Plain, rows.into_iter());
        }
        text.join(",")
    }
}

/// For each track of a kind, by its number: the indices of its items.
fn members(items: &[Item], kind: TrackKind, tracks: usize) -> Vec<Vec<u32>> {
    let mut members = vec![Vec::new(); tracks];
    for (index, item) in (0_u32..).zip(items) {
        let track = usize::try_from(item.track(kind)).unwrap_or(usize::MAX);
        if let Some(list) = members.get_mut(track).filter(|_| item.time(kind).is_some()) {
            list.push(index);
        }
    }
    members
}

/// Sorts the items of a track by time. Returns the row of each item, in the sorted order. Items of
/// one row do not overlap, except in the last of [`ROWS_MAX`] rows.
fn assigned(items: &[Item], kind: TrackKind, its: &mut [u32]) -> Vec<usize> {
    let at = |index: u32| items[index as usize].time(kind).unwrap_or((0, 0));
    its.sort_by_key(|index| (at(*index), *index));
    let mut free: Vec<u64> = Vec::new();
    let row = |index: &u32| {
        let (begin, end) = at(*index);
        let row = free.iter().position(|free| *free <= begin).unwrap_or(free.len());
        let row = row.min(ROWS_MAX - 1);
        match free.get_mut(row) {
            Some(free) => *free = end.max(*free),
            None => free.push(end),
        }
        row
    };
    its.iter().map(row).collect()
}
