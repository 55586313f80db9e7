//! An all-reduce in a ring: each device sends only to the next device.
//!
//! With `n` devices, the data have `n` segments. The first half has `n - 1` steps. In each step,
//! each device sends a segment to the next device, which combines the segment with its own
//! elements. In the next step, that device sends the combined segment on. After the first half,
//! each device has the whole result of one segment. In the second half, these results go around the
//! ring. Segments are sent in chunks, so that a device combines a chunk while the next chunk
//! arrives.
#![forbid(unsafe_code)]

use super::chains::pair;
use crate::base::error::Result;
use crate::comm::team::Team;
use crate::kernels::Reduction;
use crate::memory::{AsView, Buffer, Element, ViewMut};
use std::ops::Range;

/// The desired number of chunks per segment, and the maximum number of slots per device. A slot has
/// a chunk that is not combined yet. With several slots, the link stays busy even if a kernel that
/// fills the device delays the combinations.
const CHUNKS: usize = 4;
/// Minimum and maximum number of bytes per chunk. In addition to the time for its bytes, each copy
/// costs about 2.6 us on the link.
const CHUNK_BYTES: [usize; 2] = [4 << 20, 16 << 20];

/// The indices of part `k` if `len` elements are cut into `count` parts. The lengths of two parts
/// differ by at most one element.
fn part(len: usize, count: usize, k: usize) -> Range<usize> {
    let (each, more) = (len / count, len % count);
    let begin = each * k + more.min(k);
    begin..begin + each + usize::from(k < more)
}

/// Cuts a range into ranges of `chunk` indices. The last of these ranges may be shorter.
fn chunks(range: Range<usize>, chunk: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(chunk).map(move |begin| begin..end.min(begin + chunk))
}

/// Slots on a device for chunks that arrive.
struct Landing<T> {
    slots: Vec<Buffer<T>>,
    next: usize,
}

#[track_caller]
pub(in crate::comm) fn all_reduce<T: Element, R: Reduction<T>>(
    team: &Team<'_>,
    data: &mut [ViewMut<'_, T>],
) -> Result<()> {
    let (count, len) = (team.count, data[0].len());
    if count == 1 {
        return Ok(());
    }
    let (segment, [least, most]) =
        (len.div_ceil(count), CHUNK_BYTES.map(|n| (n / size_of::<T>().max(1)).max(1)));
    let chunk = segment.div_ceil(CHUNKS).clamp(least, most).min(segment);
    let slots = segment.div_ceil(chunk).min(CHUNKS);
    let mut landings = Vec::with_capacity(team.members.len());
    for member in team.members {
        let slot = |_| member.kernels.alloc::<T>(chunk);
        landings.push(Landing { slots: (0..slots).map(slot).collect::<Result<_>>()?, next: 0 });
    }
    for step in 0..count - 1 {
        exchange(count, len, chunk, |from, to, at| {
            let Some(range) = at((from + count - step) % count) else { return Ok(()) };
            let (source, target) = pair(data, team.local(from), team.local(to));
            let source = source.map(|view| view.as_view().slice(range.clone()));
            let (Some(target), Some(at)) = (target, team.local(to)) else {
                return team.hop::<T>((from, to), source, None);
            };
            let Landing { slots, next } = &mut landings[at];
            let number = *next % slots.len();
            let slot = &mut slots[number];
            *next += 1;
            team.hop((from, to), source, Some(slot.slice_mut(..range.len())))?;
            let target = target.reborrow().slice(range.clone());
            R::combine(&team.members[at].kernels, slot.slice(..range.len()), target)
        })?;
    }
    for step in 0..count - 1 {
        exchange(count, len, chunk, |from, to, at| {
            let Some(range) = at((from + 1 + count - step) % count) else { return Ok(()) };
            let (source, target) = pair(data, team.local(from), team.local(to));
            let source = source.map(|view| view.as_view().slice(range.clone()));
            team.hop((from, to), source, target.map(|view| view.reborrow().slice(range)))
        })?;
    }
    Ok(())
}

/// Calls `send(from, to, at)` for each chunk and for each device `from`; `to` is the next device.
/// `at(k)` returns the current chunk of segment `k`, or `None` if segment `k` has fewer chunks.
fn exchange(
    count: usize,
    len: usize,
    chunk: usize,
    mut send: impl FnMut(usize, usize, &dyn Fn(usize) -> Option<Range<usize>>) -> Result<()>,
) -> Result<()> {
    for number in 0..part(len, count, 0).len().div_ceil(chunk) {
        for from in 0..count {
            let at = |segment| chunks(part(len, count, segment), chunk).nth(number);
            send(from, (from + 1) % count, &at)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_parts_follow_each_other_and_differ_by_one_at_most(len in 0usize..1000, count in 1usize..9) {
            let parts: Vec<_> = (0..count).map(|k| part(len, count, k)).collect();
            prop_assert_eq!((parts[0].start, parts[count - 1].end), (0, len));
            prop_assert!(parts.windows(2).all(|two| two[0].end == two[1].start));
            prop_assert!(parts.iter().all(|one| one.len() == len / count || one.len() == len / count + 1));
        }

        #[test]
        fn the_chunks_of_a_range_are_the_range(begin in 0usize..50, len in 0usize..50, chunk in 1usize..9) {
            let all: Vec<usize> = chunks(begin..begin + len, chunk).flatten().collect();
            prop_assert_eq!(all, (begin..begin + len).collect::<Vec<_>>());
        }
    }
}
