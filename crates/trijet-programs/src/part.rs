//! A part of a list, with limits that come from device memory and may be wrong.
#![forbid(unsafe_code)]

/// The elements from `begin` up to, but not including, `end`. Elements that do not exist are left
/// out.
pub(super) fn part(all: &[u32], begin: u32, end: u32) -> &[u32] {
    let end = (end as usize).min(all.len());
    &all[(begin as usize).min(end)..end]
}
