//! A part of a list, whose limits come from memory of a device.
#![forbid(unsafe_code)]

/// The elements from `begin` to before `end`, as far as there are any.
pub(super) fn part(all: &[u32], begin: u32, end: u32) -> &[u32] {
    let end = (end as usize).min(all.len());
    &all[(begin as usize).min(end)..end]
}
