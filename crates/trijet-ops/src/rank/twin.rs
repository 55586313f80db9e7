//! The twin of the filter: the window of each element is gathered, and its rank is selected.
#![forbid(unsafe_code)]

use crate::keys::Keys;
use crate::window::{Place, Reach, WindowRows, columns, row_of};

/// Writes the elements of rank `rank` in the windows of the rows from `place.first_out` on to `y`.
pub(super) fn rank(place: &Place, reach: Reach, rank: u32, keys: Keys, x: &[u8], y: &mut [u8]) {
    let width = place.volumes.width;
    let Ok(row_bytes) = usize::try_from(width * u64::from(keys.bits / 8)) else { return };
    if row_bytes == 0 {
        return;
    }
    let columns = columns(width, reach.radius[2], reach.edges);
    let side = 2 * reach.radius[2] as usize + 1;
    let mut window = Vec::with_capacity(reach.size() as usize);
    for (row, out) in (place.first_out..).zip(y.chunks_exact_mut(row_bytes)) {
        let lines: Vec<Vec<u64>> = WindowRows::of(place, reach, row)
            .rows
            .iter()
            .map(|row| keys.line(row_of(x, *row, row_bytes), &columns))
            .collect();
        let found: Vec<u64> = (0..columns.len() - side + 1)
            .map(|column| {
                window.clear();
                for line in &lines {
                    window.extend_from_slice(&line[column..column + side]);
                }
                *window.select_nth_unstable(rank as usize).1
            })
            .collect();
        keys.write(&found, out);
    }
}
