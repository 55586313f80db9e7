//! The checksum of the structure of HDF5: Jenkins' lookup3 with the start value 0.

/// The bytes of a part of the state, and of the words that it adds.
const PART_BYTES: usize = 12;

/// The checksum lookup3 of Jenkins, with the start value 0. HDF5 has it for its structure.
#[must_use]
pub fn lookup3(bytes: &[u8]) -> u32 {
    let low = bytes.len() as u64 & u64::from(u32::MAX);
    let length = u32::try_from(low).expect("the upper bits are cleared");
    let mut state = [0xdead_beef_u32.wrapping_add(length); 3];
    // The last part has 1 to 12 bytes, and is mixed in another way.
    let whole = bytes.len().saturating_sub(1) / PART_BYTES * PART_BYTES;
    let (parts, last) = bytes.split_at(whole);
    for part in parts.as_chunks::<PART_BYTES>().0 {
        add(&mut state, part);
        mix(&mut state);
    }
    if last.is_empty() {
        return state[2];
    }
    let mut padded = [0; PART_BYTES];
    padded[..last.len()].copy_from_slice(last);
    add(&mut state, &padded);
    finish(state)
}

fn add(state: &mut [u32; 3], part: &[u8; PART_BYTES]) {
    for (word, more) in state.iter_mut().zip(part.as_chunks::<4>().0) {
        *word = word.wrapping_add(u32::from_le_bytes(*more));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [a, b, c] = state;
    for turn in [[4, 6, 8], [16, 19, 4]] {
        *a = a.wrapping_sub(*c) ^ c.rotate_left(turn[0]);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(turn[1]);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(turn[2]);
        *b = b.wrapping_add(*a);
    }
}

fn finish(state: [u32; 3]) -> u32 {
    let [mut a, mut b, mut c] = state;
    let step = |x: &mut u32, y: u32, turn: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(turn));
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of `lookup3.c` for the start value 0.
    #[test]
    fn the_checksum_is_lookup3() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
