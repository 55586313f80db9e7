//! The twin of minima and maxima: one pass over the rows of a window, then one along the row.
#![forbid(unsafe_code)]

use crate::keys::Keys;
use crate::window::{Place, Reach, WindowRows, columns, row_of};

/// Writes what `choose` leaves of the windows of the rows from `place.first_out` on to `y`.
pub(super) fn extremum(
    place: &Place,
    reach: Reach,
    keys: Keys,
    choose: fn(u64, u64) -> u64,
    x: &[u8],
    y: &mut [u8],
) {
    let width = place.volumes.width;
    let Ok(row_bytes) = usize::try_from(width * u64::from(keys.bits / 8)) else { return };
    if row_bytes == 0 {
        return;
    }
    let columns = columns(width, reach.radius[2], reach.edges);
    let side = 2 * reach.radius[2] as usize + 1;
    for (row, out) in (place.first_out..).zip(y.chunks_exact_mut(row_bytes)) {
        let rows = WindowRows::of(place, reach, row).rows;
        let lines = rows.iter().map(|row| keys.line(row_of(x, *row, row_bytes), &columns));
        let chosen = lines.reduce(|mut chosen, line| {
            chosen.iter_mut().zip(line).for_each(|(best, key)| *best = choose(*best, key));
            chosen
        });
        let Some(mut line) = chosen else { return };
        along(&mut line, side, choose);
        keys.write(&line, out);
    }
}

/// Replaces each key by what is left of the window of `side` keys that begins with it, and drops
/// the keys without a whole window. Each step doubles the number of keys that are combined.
fn along(line: &mut Vec<u64>, side: usize, choose: fn(u64, u64) -> u64) {
    let mut combined = 1;
    while combined < side {
        let step = combined.min(side - combined);
        for at in 0..line.len() - step {
            line[at] = choose(line[at], line[at + step]);
        }
        line.truncate(line.len() - step);
        combined += step;
    }
}
