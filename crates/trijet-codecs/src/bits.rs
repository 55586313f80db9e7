//! The bits of elements by their position in the element, as rows of one bit of each element.

use crate::shuffle::{interleave, interleave_eight};

/// Bytes of a row that are read at once.
const GROUPS: usize = 128;

/// Elements whose bits are read at once.
const ELEMENTS: usize = 8 * GROUPS;

/// Bytes of an element for which all planes of a tile have memory here.
const PLANES_MAX: usize = 8;

/// Writes elements from rows of bits. Row n has bit n of each element, eight elements in a byte,
/// and the first of them in the lowest bit. The number of elements is a multiple of eight.
pub(crate) fn undo(element: usize, input: &[u8], output: &mut [u8]) {
    let row = input.len() / element / 8;
    let mut planes = [[0; ELEMENTS]; PLANES_MAX];
    for (start, output) in (0..row).step_by(GROUPS).zip(output.chunks_mut(ELEMENTS * element)) {
        let groups = GROUPS.min(row - start);
        if element <= PLANES_MAX {
            for (byte, plane) in planes[..element].iter_mut().enumerate() {
                read_plane(&input[8 * byte * row..], row, start..start + groups, plane);
            }
            interleave(element, planes.iter().map(|plane| &plane[..8 * groups]), output);
            continue;
        }
        for byte in 0..element {
            let plane = &mut planes[0];
            read_plane(&input[8 * byte * row..], row, start..start + groups, plane);
            let targets = output[byte..].iter_mut().step_by(element);
            targets.zip(plane).for_each(|(to, from)| *to = *from);
        }
    }
}

/// Reads one byte of each element: from eight rows of bits, at a range of their bytes.
fn read_plane(input: &[u8], row: usize, range: std::ops::Range<usize>, plane: &mut [u8; ELEMENTS]) {
    let groups = range.len();
    let mut rows = [[0; GROUPS]; 8];
    for (to, from) in rows.iter_mut().zip(input.chunks_exact(row)) {
        to[..groups].copy_from_slice(&from[range.clone()]);
    }
    exchange::<4>(&mut rows, 0x0f);
    exchange::<2>(&mut rows, 0x33);
    exchange::<1>(&mut rows, 0x55);
    interleave_eight(rows.each_ref().map(|row| &row[..]), plane);
}

/// Exchanges the upper bits of rows with the lower bits of the rows that are `STEP` rows below. The
/// three steps transpose eight rows of eight bits.
fn exchange<const STEP: usize>(rows: &mut [[u8; GROUPS]; 8], mask: u8) {
    for pair in rows.chunks_exact_mut(2 * STEP) {
        let (upper, lower) = pair.split_at_mut(STEP);
        for (upper, lower) in upper.iter_mut().zip(lower) {
            for (upper, lower) in upper.iter_mut().zip(lower) {
                let changed = ((*upper >> STEP) ^ *lower) & mask;
                *lower ^= changed;
                *upper ^= changed << STEP;
            }
        }
    }
}
