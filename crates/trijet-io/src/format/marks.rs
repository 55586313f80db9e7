//! The names of formats that are not the first bytes of their files.

use crate::byte_order::ByteOrder;

/// The place of a name in a file, and the name.
pub(super) type FormatMark = (usize, &'static [u8]);

/// The name in the header of an MRC file. Four bytes later, the byte order follows.
pub(super) const MRC: FormatMark = (208, b"MAP");
/// The names in the headers of NIfTI-1 and NIfTI-2 files.
pub(super) const NIFTI_1: FormatMark = (344, b"n+1\0");
pub(super) const NIFTI_2: FormatMark = (4, b"n+2\0\r\n\x1a\n");

/// Whether a file with these first bytes has a name at its place.
pub(super) fn has_mark(start: &[u8], (at, name): FormatMark) -> bool {
    start.get(at..).is_some_and(|bytes| bytes.starts_with(name))
}

/// Whether a file with these first bytes is an MRC file.
pub(super) fn starts_like_mrc(start: &[u8]) -> bool {
    let stamp = start.get(MRC.0 + 4..).unwrap_or_default();
    has_mark(start, MRC) && byte_order_of_mrc(stamp).is_some()
}

/// The byte order of an MRC file with this machine stamp.
pub(super) fn byte_order_of_mrc(stamp: &[u8]) -> Option<ByteOrder> {
    match stamp {
        [0x44, 0x44 | 0x41, ..] => Some(ByteOrder::Little),
        [0x11, 0x11, ..] => Some(ByteOrder::Big),
        _ => None,
    }
}

/// Whether a file with these first bytes is a NIfTI file.
pub(super) fn starts_like_nifti(start: &[u8]) -> bool {
    [NIFTI_1, NIFTI_2].into_iter().any(|mark| has_mark(start, mark))
}
