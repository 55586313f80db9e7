//! A part of a list. The limits of the part come from memory of a device.
#![forbid(unsafe_code)]

/// The elements from `begin` up to, but not including, `end`, as far as they exist.
pub(super) fn part(all: &[u32], begin: u32, end: u32) -> &[u32] {
    let end = (end as usize).min(all.len());
    &all[(begin as usize).min(end)..end]
}
