//! Loops over all elements of a buffer. Crates that are compiled with little optimisation call them
//! here.

/// Reverses the bytes of each part of `part` bytes. Bytes after the last whole part stay.
pub fn swap_in_place(part: usize, bytes: &mut [u8]) {
    match part {
        2 => swap_parts(bytes, |part| u16::from_ne_bytes(part).swap_bytes().to_ne_bytes()),
        4 => swap_parts(bytes, |part| u32::from_ne_bytes(part).swap_bytes().to_ne_bytes()),
        8 => swap_parts(bytes, |part| u64::from_ne_bytes(part).swap_bytes().to_ne_bytes()),
        _ => bytes.chunks_exact_mut(part.max(1)).for_each(<[u8]>::reverse),
    }
}

/// Replaces each part of `N` bytes. The loop has no branch, so the compiler makes vector
/// instructions of it.
fn swap_parts<const N: usize>(bytes: &mut [u8], swapped: impl Fn([u8; N]) -> [u8; N]) {
    let (parts, _) = bytes.as_chunks_mut::<N>();
    for part in parts {
        *part = swapped(*part);
    }
}

/// Fills a buffer with an element. Bytes after the last whole element stay.
pub fn fill(into: &mut [u8], element: &[u8]) {
    match *element {
        [] => {}
        [byte] => into.fill(byte),
        _ => into.chunks_exact_mut(element.len()).for_each(|one| one.copy_from_slice(element)),
    }
}

/// Copies every `step`-th element of `from`, beginning with the first, until `into` is full or
/// `from` ends. The elements have `element` bytes.
pub fn gather(element: usize, from: &[u8], step: usize, into: &mut [u8]) {
    match element {
        1 => gather_parts::<1>(from, step, into),
        2 => gather_parts::<2>(from, step, into),
        4 => gather_parts::<4>(from, step, into),
        8 => gather_parts::<8>(from, step, into),
        16 => gather_parts::<16>(from, step, into),
        _ => {
            let from = from.chunks_exact(element.max(1)).step_by(step.max(1));
            let into = into.chunks_exact_mut(element.max(1));
            into.zip(from).for_each(|(into, from)| into.copy_from_slice(from));
        }
    }
}

fn gather_parts<const N: usize>(from: &[u8], step: usize, into: &mut [u8]) {
    let (from, _) = from.as_chunks::<N>();
    let (into, _) = into.as_chunks_mut::<N>();
    for (place, element) in into.iter_mut().zip(from.iter().step_by(step.max(1))) {
        *place = *element;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize) -> Vec<u8> {
        (0..=250).cycle().take(count).collect()
    }

    #[test]
    fn each_part_is_reversed() {
        for part in 1..=16 {
            for count in [0, 1, 7, 64, 100] {
                let before = numbers(count);
                let mut expected = before.clone();
                expected.chunks_exact_mut(part).for_each(<[u8]>::reverse);
                let mut bytes = before;
                swap_in_place(part, &mut bytes);
                assert_eq!(bytes, expected, "parts of {part} in {count}");
            }
        }
    }

    #[test]
    fn every_place_gets_the_element() {
        for size in 1..=16 {
            let (element, mut bytes) = (numbers(size), vec![0; 5 * size]);
            fill(&mut bytes, &element);
            assert_eq!(bytes, element.repeat(5), "{size}");
        }
        fill(&mut [1], &[]);
    }

    #[test]
    fn each_step_has_an_element() {
        for size in 1..=16 {
            for step in 1..=5 {
                let from = numbers(size * 20);
                let mut into = vec![0; 4 * size];
                gather(size, &from, step, &mut into);
                let element = |at: usize| &from[at * step * size..][..size];
                let expected: Vec<u8> = (0..4).flat_map(element).copied().collect();
                assert_eq!(into, expected, "{size} bytes, step {step}");
            }
        }
    }
}
