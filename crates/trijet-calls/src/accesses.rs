//! The bytes that a call reads and writes, as its arguments declare them.

use crate::file::Call;
use std::ops::Range;
use trijet_ledger::base::ledger::{Mode, Place};

/// Bytes that a call accesses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Touched {
    pub(crate) range: Range<u64>,
    pub(crate) mode: Mode,
    /// The kind of memory of bytes that belong to no allocation.
    pub(crate) elsewhere: Place,
    /// Whether the call accesses every byte of the range. If not, it accesses some of them.
    pub(crate) is_exact: bool,
}

/// Maximum number of rows of a box that count apart. A larger box counts as one range that is not
/// exact, with the bytes between its rows.
const ROWS_MAX: u64 = 4096;

fn touched(address: u64, bytes: u64, mode: Mode, elsewhere: Place) -> Option<Touched> {
    let range = address..address.checked_add(bytes)?;
    (address != 0 && bytes > 0).then_some(Touched { range, mode, elsewhere, is_exact: true })
}

/// A copy of `bytes` bytes.
pub(crate) fn copy(to: (u64, Place), from: (u64, Place), bytes: u64) -> Vec<Touched> {
    let read = touched(from.0, bytes, Mode::Read, from.1);
    let write = touched(to.0, bytes, Mode::Write, to.1);
    read.into_iter().chain(write).collect()
}

/// Rows of `width` bytes, each `pitch` bytes after the last one.
fn rows(address: u64, [width, count, pitch]: [u64; 3], mode: Mode, place: Place) -> Vec<Touched> {
    if count == 0 || width == 0 {
        return Vec::new();
    }
    if pitch == width || count > ROWS_MAX {
        let bytes = pitch.saturating_mul(count - 1).saturating_add(width);
        let whole = touched(address, bytes, mode, place);
        let whole = whole.map(|one| Touched { is_exact: pitch == width, ..one });
        // The first row is exact, so that the call has a place in any case.
        let first = touched(address, width, mode, place).filter(|_| pitch != width);
        return whole.into_iter().chain(first).collect();
    }
    let row = |row: u64| touched(address.checked_add(pitch.checked_mul(row)?)?, width, mode, place);
    (0..count).filter_map(row).collect()
}

/// A fill: the address, the pitch, the bytes of an element, the elements of a row and the rows.
pub(crate) fn fill(
    address: u64,
    pitch: u64,
    element: u64,
    width: u64,
    height: u64,
) -> Vec<Touched> {
    let width = width.saturating_mul(element);
    let pitch = if height > 1 { pitch } else { width };
    rows(address, [width, height, pitch], Mode::Write, Place::Device)
}

/// The values of `CUmemorytype`: memory of the host, of a device, and unified addresses. Arrays
/// have no addresses.
fn place(kind: u64) -> Option<Place> {
    match kind & 0xffff_ffff {
        1 | 4 => Some(Place::Pageable),
        2 => Some(Place::Device),
        _ => None,
    }
}

/// The fields of one side of a copy of a box, in words: the corner, the kind of memory, the
/// addresses of the host and of the device, the pitch, and the rows of a slice.
#[derive(Debug, Clone, Copy)]
struct Side {
    x: u64,
    y: u64,
    z: u64,
    kind: u64,
    host: u64,
    device: u64,
    pitch: u64,
    slice_rows: u64,
}

impl Side {
    fn touched(self, [width, height, depth]: [u64; 3], mode: Mode) -> Vec<Touched> {
        let Some(place) = place(self.kind) else { return Vec::new() };
        let base = if self.kind & 0xffff_ffff == 1 { self.host } else { self.device };
        if base == 0 || width == 0 || height == 0 || depth == 0 {
            return Vec::new();
        }
        let slice = self.pitch.saturating_mul(self.slice_rows);
        let first = self.y.saturating_mul(self.pitch).saturating_add(self.x);
        let first = base.saturating_add(first).saturating_add(self.z.saturating_mul(slice));
        if depth.saturating_mul(height) > ROWS_MAX && depth > 1 {
            let rows = self.pitch.saturating_mul(height.saturating_sub(1)).saturating_add(width);
            let bytes = slice.saturating_mul(depth - 1).saturating_add(rows);
            let whole = touched(first, bytes, mode, place);
            let whole = whole.map(|one| Touched { is_exact: false, ..one });
            return whole.into_iter().chain(touched(first, width, mode, place)).collect();
        }
        let mut all = Vec::new();
        for at in 0..depth {
            let from = first.saturating_add(at.saturating_mul(slice));
            all.extend(rows(from, [width, height, self.pitch], mode, place));
        }
        all
    }
}

/// A copy of a rectangle: `CUDA_MEMCPY2D`, 16 words from the argument `at` on.
pub(crate) fn rectangle(call: &Call<'_>) -> Vec<Touched> {
    let side = |first: usize| Side {
        x: call.word(first),
        y: call.word(first + 1),
        z: 0,
        kind: call.word(first + 2),
        host: call.word(first + 3),
        device: call.word(first + 4),
        pitch: call.word(first + 6),
        slice_rows: 0,
    };
    let size = [call.word(14), call.word(15), 1];
    [side(0).touched(size, Mode::Read), side(7).touched(size, Mode::Write)].concat()
}

/// A copy of a box: `CUDA_MEMCPY3D`, 25 words. `first` is its first word.
pub(crate) fn cuboid(call: &Call<'_>, first: usize) -> Vec<Touched> {
    let word = |at: usize| call.word(first + at);
    let side = |at: usize| Side {
        x: word(at),
        y: word(at + 1),
        z: word(at + 2),
        kind: word(at + 4),
        host: word(at + 5),
        device: word(at + 6),
        pitch: word(at + 9),
        slice_rows: word(at + 10),
    };
    let size = [word(22), word(23), word(24)];
    [side(0).touched(size, Mode::Read), side(11).touched(size, Mode::Write)].concat()
}
