//! Collectives as chains: each device passes data on to the next device. The data are the elements
//! of a root that all devices get, or a partial result to which each device adds its own elements.
//!
//! The data are cut into chunks, so that a device passes a chunk on while the next chunk arrives.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::comm::team::Team;
use crate::kernels::Reduction;
use crate::memory::{AsView, Buffer, Element, View, ViewMut};
use std::ops::Range;

/// Maximum number of bytes per chunk.
const CHUNK_BYTES: usize = 16 << 20;

/// The chunks of `len` elements, as ranges of indices.
pub(super) fn chunks<T>(len: usize) -> impl Iterator<Item = Range<usize>> {
    let chunk = (CHUNK_BYTES / size_of::<T>().max(1)).max(1);
    (0..len).step_by(chunk).map(move |begin| begin..len.min(begin + chunk))
}

fn shifted(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

/// Sends the elements of the device `root` to all other devices.
#[track_caller]
pub(in crate::comm) fn broadcast<T: Element>(
    team: &Team<'_>,
    root: usize,
    data: &mut [ViewMut<'_, T>],
) -> Result<()> {
    let len = data[0].len();
    for range in chunks::<T>(len) {
        for step in 0..team.count - 1 {
            pass_on(team, (root + step) % team.count, &range, &range, data)?;
        }
    }
    Ok(())
}

/// Sends a range of elements from a device to the next device. A device of another process has no
/// view in `data`.
#[track_caller]
fn pass_on<T: Element>(
    team: &Team<'_>,
    from: usize,
    source: &Range<usize>,
    target: &Range<usize>,
    data: &mut [ViewMut<'_, T>],
) -> Result<()> {
    let to = (from + 1) % team.count;
    let (one, other) = pair(data, team.local(from), team.local(to));
    let source = one.map(|view| view.as_view().slice(source.clone()));
    team.hop((from, to), source, other.map(|view| view.reborrow().slice(target.clone())))
}

/// The views of two devices; `None` for a device of another process.
pub(super) fn pair<'v, 'd, T>(
    data: &'v mut [ViewMut<'d, T>],
    from: Option<usize>,
    to: Option<usize>,
) -> (Option<&'v mut ViewMut<'d, T>>, Option<&'v mut ViewMut<'d, T>>) {
    match (from, to) {
        (Some(from), Some(to)) => {
            let [from, to] = data.get_disjoint_mut([from, to]).expect("two devices");
            (Some(from), Some(to))
        }
        (Some(from), None) => (data.get_mut(from), None),
        (None, to) => (None, to.and_then(|to| data.get_mut(to))),
    }
}

/// Sends the elements of each device to all devices. `into` gets the elements of all devices, in
/// the order of the devices.
#[track_caller]
pub(in crate::comm) fn all_gather<T: Element>(
    team: &Team<'_>,
    from: &[View<'_, T>],
    into: &mut [ViewMut<'_, T>],
) -> Result<()> {
    let (count, len) = (team.count, from[0].len());
    for (at, (from, into)) in from.iter().zip(&mut *into).enumerate() {
        let own = shifted(&(0..len), (team.first + at) * len);
        team.members[at].copies.copy(from, &mut into.reborrow().slice(own))?;
    }
    for range in chunks::<T>(len) {
        for step in 0..count - 1 {
            for part in 0..count {
                let range = shifted(&range, part * len);
                pass_on(team, (part + step) % count, &range, &range, into)?;
            }
        }
    }
    Ok(())
}

/// Sends a part of the elements of each device to each device: part `k` of device `j` becomes part
/// `j` of device `k`.
#[track_caller]
pub(in crate::comm) fn all_to_all<T: Element>(
    team: &Team<'_>,
    from: &[View<'_, T>],
    into: &mut [ViewMut<'_, T>],
) -> Result<()> {
    let (count, len) = (team.count, from[0].len() / team.count);
    for shift in 0..count {
        for sender in 0..count {
            let receiver = (sender + shift) % count;
            let (given, got) = (receiver * len, sender * len);
            let source = team.local(sender).map(|at| from[at].slice(given..given + len));
            let target = team.local(receiver).map(|at| into[at].reborrow().slice(got..got + len));
            team.hop((sender, receiver), source, target)?;
        }
    }
    Ok(())
}

/// Combines the elements of all devices. The result of part `k` of `from` is then at the device
/// `roots[k]`. The elements are combined in the order of the devices, starting with the device
/// after the root. `into` has, for each device of this process, the memory for the result; `None`
/// if the device is not a root.
#[track_caller]
pub(in crate::comm) fn reduce<T: Element, R: Reduction<T>>(
    team: &Team<'_>,
    roots: &[usize],
    from: &[View<'_, T>],
    into: &mut [Option<ViewMut<'_, T>>],
) -> Result<()> {
    let (count, len) = (team.count, from[0].len() / roots.len());
    for range in chunks::<T>(len) {
        // For each part, the partial result. `None` while no device of this process has this
        // result.
        let mut sums: Vec<Option<Buffer<T>>> = roots.iter().map(|_| None).collect();
        for step in 0..count {
            for (part, root) in roots.iter().enumerate() {
                let rank = (root + 1 + step) % count;
                let here = shifted(&range, part * len);
                let own = |at: usize| from[at].slice(here.clone());
                let mut arrived = None;
                if step > 0 {
                    let before = (rank + count - 1) % count;
                    if let Some(member) = team.member(rank) {
                        arrived = Some(member.kernels.alloc::<T>(range.len())?);
                    }
                    let first = team.local(before).map(own).filter(|_| step == 1);
                    let source = first.or_else(|| sums[part].as_ref().map(Buffer::view));
                    team.hop((before, rank), source, arrived.as_mut().map(Buffer::view_mut))?;
                    sums[part] = None;
                }
                let Some(at) = team.local(rank) else { continue };
                let kernels = &team.members[at].kernels;
                let mut sum = match (rank == *root, step) {
                    (true, _) => None,
                    // The first device of a chain sends its own elements, and needs no memory for a
                    // result.
                    (false, 0) => continue,
                    (false, _) => Some(kernels.alloc::<T>(range.len())?),
                };
                let target = match (&mut sum, &mut into[at]) {
                    (Some(sum), _) => Some(sum.view_mut()),
                    (None, result) => {
                        result.as_mut().map(|all| all.reborrow().slice(range.clone()))
                    }
                };
                let Some(mut target) = target else { continue };
                kernels.copy(&own(at), &mut target)?;
                if let Some(arrived) = &arrived {
                    R::combine(kernels, arrived.view(), target)?;
                }
                sums[part] = sum;
            }
        }
    }
    Ok(())
}
