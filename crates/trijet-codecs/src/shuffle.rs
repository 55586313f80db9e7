//! Shuffles of bytes: the bytes of elements by their position in the element.

use crate::error::Cause;

/// Bytes of a plane that are interleaved at once. The memory between the steps is cleared each
/// time, so larger tiles are slower for the short rows of a bit shuffle.
const TILE: usize = 128;

fn check(element: usize) -> Result<(), Cause> {
    if element == 0 { Err("an element has no bytes".into()) } else { Ok(()) }
}

/// Writes shuffled bytes as elements. Bytes that are no whole element stay at the end.
pub(crate) fn undo(element: usize, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    check(element)?;
    let count = input.len() / element;
    let whole = count * element;
    if count > 0 {
        interleave(element, input[..whole].chunks_exact(count), &mut output[..whole]);
    }
    output[whole..].copy_from_slice(&input[whole..]);
    Ok(input.len())
}

/// Writes elements as shuffled bytes. Bytes that are no whole element stay at the end.
pub(crate) fn apply(element: usize, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    check(element)?;
    let count = input.len() / element;
    let whole = count * element;
    if count > 0 {
        let planes = output[..whole].chunks_exact_mut(count);
        match element {
            1 => output[..whole].copy_from_slice(&input[..whole]),
            2 => separate_chunks::<2>(input, planes),
            4 => separate_chunks::<4>(input, planes),
            8 => separate_chunks::<8>(input, planes),
            _ => separate_any(element, &input[..whole], planes),
        }
    }
    output[whole..].copy_from_slice(&input[whole..]);
    Ok(input.len())
}

fn separate_chunks<'a, const N: usize>(input: &[u8], planes: impl Iterator<Item = &'a mut [u8]>) {
    let (elements, _) = input.as_chunks::<N>();
    for (byte, plane) in planes.enumerate().take(N) {
        for (to, from) in plane.iter_mut().zip(elements) {
            *to = from[byte];
        }
    }
}

fn separate_any<'a>(element: usize, input: &[u8], planes: impl Iterator<Item = &'a mut [u8]>) {
    for (byte, plane) in planes.enumerate() {
        for (to, from) in plane.iter_mut().zip(input[byte..].iter().step_by(element)) {
            *to = *from;
        }
    }
}

/// Writes elements from planes that have one byte of each. There is a plane for each byte of an
/// element, and all have one length.
pub(crate) fn interleave<'a>(
    element: usize,
    mut planes: impl Iterator<Item = &'a [u8]>,
    output: &mut [u8],
) {
    let mut next = || planes.next().unwrap_or_default();
    match element {
        1 => output.copy_from_slice(next()),
        2 => interleave_two(next(), next(), output),
        4 => interleave_planes([next(), next(), next(), next()], output, interleave_four),
        8 => {
            let planes = std::array::from_fn(|_| next());
            interleave_planes::<8>(planes, output, interleave_eight);
        }
        _ => {
            for byte in 0..element {
                let targets = output[byte..].iter_mut().step_by(element);
                for (to, from) in targets.zip(next()) {
                    *to = *from;
                }
            }
        }
    }
}

/// Interleaves planes tile by tile.
fn interleave_planes<const N: usize>(
    planes: [&[u8]; N],
    output: &mut [u8],
    tile: fn([&[u8]; N], &mut [u8]),
) {
    let mut start = 0;
    for output in output.chunks_mut(N * TILE) {
        let end = start + output.len() / N;
        tile(planes.map(|plane| &plane[start..end]), output);
        start = end;
    }
}

pub(crate) fn interleave_two(first: &[u8], second: &[u8], output: &mut [u8]) {
    let (pairs, _) = output.as_chunks_mut::<2>();
    for ((to, first), second) in pairs.iter_mut().zip(first).zip(second) {
        *to = [*first, *second];
    }
}

fn interleave_four(planes: [&[u8]; 4], output: &mut [u8]) {
    let length = 2 * planes[0].len();
    let (mut even, mut odd) = ([0; 2 * TILE], [0; 2 * TILE]);
    interleave_two(planes[0], planes[2], &mut even[..length]);
    interleave_two(planes[1], planes[3], &mut odd[..length]);
    interleave_two(&even[..length], &odd[..length], output);
}

/// Interleaves eight planes of at most a tile.
pub(crate) fn interleave_eight(planes: [&[u8]; 8], output: &mut [u8]) {
    let length = 4 * planes[0].len();
    let (mut even, mut odd) = ([0; 4 * TILE], [0; 4 * TILE]);
    let [a, b, c, d, e, f, g, h] = planes;
    interleave_four([a, c, e, g], &mut even[..length]);
    interleave_four([b, d, f, h], &mut odd[..length]);
    interleave_two(&even[..length], &odd[..length], output);
}
