//! Merges items that are too close together for a screen, if a page would be too large otherwise.
#![forbid(unsafe_code)]

use super::item::{Item, NO_TRACK};
use crate::base::units::Nanos;

/// A smaller number of items. Some items replace several of the original items.
pub(super) struct Merged {
    pub(super) items: Vec<Item>,
    /// For each item, by its index: the index of the first original item that it replaces.
    pub(super) first: Vec<usize>,
    /// For each item, by its index: the number of original items that it replaces.
    pub(super) stands: Vec<u64>,
    /// For each item, by its index: the sum in nanoseconds of the times of the original items that
    /// it replaces.
    pub(super) busy: Vec<u64>,
    /// For each original item, by its index: the index of the item that replaces it.
    pub(super) now: Vec<usize>,
    /// The maximum time in nanoseconds that a merged item covers.
    pub(super) grain: u64,
}

impl Merged {
    /// A sentence about the merged items.
    pub(super) fn note(&self) -> String {
        let several = self.stands.iter().filter(|stands| **stands > 1);
        let (into, of) = several.fold((0_u64, 0), |(n, sum), stands| (n + 1, sum + stands));
        format!(
            "{of} short operations and calls are drawn as {into} merged items of at most {} each",
            Nanos(self.grain)
        )
    }
}

/// A part of an item: its operation, or its call.
#[derive(Clone, Copy)]
struct ItemPart {
    item: u32,
    is_call: bool,
    tracks: (u32, u32),
    begin: u64,
    end: u64,
}

/// The parts of all items that can be merged, by track and time. Parts of named items are left out.
fn parts(items: &[Item], named: &[usize]) -> Vec<ItemPart> {
    let mut parts = Vec::new();
    for (number, item) in (0_u32..).zip(items) {
        if named.binary_search(&(number as usize)).is_ok() {
            continue;
        }
        if let Some((begin, end)) = item.work {
            let tracks = (item.engine, item.stream);
            parts.push(ItemPart { item: number, is_call: false, tracks, begin, end });
        } else if let Some((begin, end)) = item.call {
            let tracks = (item.thread, NO_TRACK);
            parts.push(ItemPart { item: number, is_call: true, tracks, begin, end });
        }
    }
    parts.sort_unstable_by_key(|part| (part.is_call, part.tracks, part.begin, part.item));
    parts
}

/// The numbers of consecutive parts that one item can replace: parts of the same tracks that lie
/// within `grain` nanoseconds.
fn runs(parts: &[ItemPart], grain: u64) -> impl Iterator<Item = usize> {
    let mut rest = parts;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let fits = |part: &&ItemPart| {
            (part.is_call, part.tracks) == (first.is_call, first.tracks)
                && part.end.max(first.end) - first.begin <= grain
        };
        let length = 1 + rest[1..].iter().take_while(fits).count();
        rest = &rest[length..];
        Some(length)
    })
}

/// Merges short neighbours until about `wanted` items are left. Bisection finds a grain
/// ([`Merged::grain`]) that leaves so few items, and is close to the smallest such grain.
pub(super) fn merged(items: &[Item], named: &[usize], wanted: f64) -> Merged {
    // A call and its operation have different neighbours, so they become separate items first.
    let whole = Detached::of(items, named);
    let parts = parts(&whole.items, named);
    let fixed = whole.items.len() - parts.len();
    let count = |grain: u64| (fixed + runs(&parts, grain).count()) as f64;
    let (mut low, mut high) = (0_u32, u64::BITS);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if count(1 << middle) <= wanted { high = middle } else { low = middle }
    }
    let grain = if high == u64::BITS { u64::MAX } else { 1 << high };
    // The smallest such grain lies between this power of two and the next smaller one.
    let (mut under, mut grain) = (grain / 2, grain);
    for _ in 0..3 {
        let middle = under.midpoint(grain);
        if count(middle) <= wanted { grain = middle } else { under = middle }
    }
    whole.merge(&parts, grain, items.len())
}

/// Items whose calls are items of their own.
struct Detached {
    items: Vec<Item>,
    /// For each item, by its index: the index of the original item.
    from: Vec<usize>,
}

impl Detached {
    fn of(items: &[Item], named: &[usize]) -> Self {
        let mut detached = Self { items: items.to_vec(), from: (0..items.len()).collect() };
        for (number, item) in items.iter().enumerate() {
            let both = item.work.is_some() && item.call.is_some() && item.thread != NO_TRACK;
            if both && named.binary_search(&number).is_err() {
                let call = Item {
                    work: None,
                    bytes: 0,
                    engine: NO_TRACK,
                    stream: NO_TRACK,
                    ..item.clone()
                };
                detached.items.push(call);
                detached.from.push(number);
                (detached.items[number].call, detached.items[number].thread) = (None, NO_TRACK);
            }
        }
        detached
    }

    fn merge(self, parts: &[ItemPart], grain: u64, before: usize) -> Merged {
        let mut merged = Merged {
            items: Vec::new(),
            first: Vec::new(),
            stands: Vec::new(),
            busy: Vec::new(),
            now: vec![0; before],
            grain,
        };
        let length = |item: &Item| {
            let (begin, end) = item.work.or(item.call).unwrap_or((0, 0));
            end - begin
        };
        let mut is_part = vec![false; self.items.len()];
        let mut rest = parts;
        for count in runs(parts, grain) {
            let (run, after) = rest.split_at(count);
            rest = after;
            let its = || run.iter().map(|part| part.item as usize);
            its().for_each(|index| is_part[index] = true);
            let longest = its().max_by_key(|index| length(&self.items[*index])).unwrap_or(0);
            let end = run.iter().map(|part| part.end).max().unwrap_or(0);
            let mut item = self.items[longest].clone();
            let time = Some((run[0].begin, end));
            if run[0].is_call {
                item.call = time
            } else {
                item.work = time
            }
            item.bytes = its().fold(0, |sum, index| self.items[index].bytes.saturating_add(sum));
            its().filter(|index| *index < before).for_each(|i| merged.now[i] = merged.items.len());
            merged.first.push(self.from[run[0].item as usize]);
            merged.stands.push(count as u64);
            merged.busy.push(its().fold(0, |sum, i| length(&self.items[i]).saturating_add(sum)));
            merged.items.push(item);
        }
        for (index, item) in self.items.into_iter().enumerate().filter(|(i, _)| !is_part[*i]) {
            if index < before {
                merged.now[index] = merged.items.len();
            }
            merged.first.push(self.from[index]);
            merged.stands.push(1);
            merged.busy.push(length(&item));
            merged.items.push(item);
        }
        merged
    }
}
