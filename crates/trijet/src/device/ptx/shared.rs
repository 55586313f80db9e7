//! Variables in shared memory, and the memory that they take.
#![forbid(unsafe_code)]

/// A variable in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variable<'a> {
    pub(super) name: &'a str,
    pub(super) bytes: u64,
    pub(super) align: u64,
}

/// The size in bytes of a type such as `.b8`, `.f32` or `.f16x2`; `None` for other words.
pub(super) fn type_bytes(kind: &str) -> Option<u64> {
    let digits = kind.strip_prefix('.')?.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let (bits, lanes) = digits.split_once('x').unwrap_or((digits, "1"));
    let (bits, lanes): (u64, u64) = (bits.parse().ok()?, lanes.parse().ok()?);
    // `.e4m3x2` and similar types are not types of variables.
    let is_known = [8, 16, 32, 64, 128].contains(&bits) && (1..=4).contains(&lanes);
    is_known.then(|| bits / 8 * lanes)
}

/// The number of elements of a vector type such as `.v4`.
pub(super) fn vector(kind: &str) -> Option<u64> {
    kind.strip_prefix(".v")?.parse().ok().filter(|lanes| [2, 4, 8].contains(lanes))
}

/// The value of a whole number. The number is decimal, or is written as in C with `0x`, `0b` or
/// `0`. It may end with `U`.
pub(super) fn whole(number: &str) -> Option<u64> {
    let digits = number.trim_end_matches('U');
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    u64::from_str_radix(digits, radix).ok()
}

/// The offset in bytes of the end of the last variable. The variables are placed one after another,
/// from offset `used`. Each variable starts at a multiple of its alignment. The assembler uses the
/// order of the text. Measured with ptxas 13.0: variables of 8, 1, 20, 4 and 4 bytes occupy 56
/// bytes if the third and the fourth variable are aligned to 16 bytes.
pub(super) fn laid_out<'a>(used: u64, variables: impl Iterator<Item = &'a Variable<'a>>) -> u64 {
    variables.fold(used, |used, variable| {
        let begin = used.checked_next_multiple_of(variable.align.max(1)).unwrap_or(u64::MAX);
        begin.saturating_add(variable.bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_variables_is_that_of_the_assembler() {
        let of = |all: &[(u64, u64)]| {
            let all: Vec<_> =
                all.iter().map(|&(bytes, align)| Variable { name: "", bytes, align }).collect();
            laid_out(0, all.iter())
        };
        // The figures come from ptxas 13.0.88.
        assert_eq!(of(&[(1, 1), (16, 16), (1, 1)]), 33);
        assert_eq!(of(&[(8, 8), (1, 1), (20, 16), (4, 16), (4, 4)]), 56);
        assert_eq!(of(&[(u64::MAX, 1), (1, 16)]), u64::MAX);
        assert_eq!(of(&[(1, 0)]), 1);
    }

    #[test]
    fn types_and_numbers_have_their_values() {
        let bytes = [".b8", ".u16", ".bf16", ".f32", ".f16x2", ".s64", ".b128"].map(type_bytes);
        assert_eq!(bytes, [1, 2, 2, 4, 4, 8, 16].map(Some));
        assert_eq!([".pred", ".texref", "b8", ".b", ".b7", ".f16x9"].map(type_bytes), [None; 6]);
        assert_eq!([".v2", ".v4", ".v3", ".visible"].map(vector), [Some(2), Some(4), None, None]);
        let values = ["0", "24576", "0x10", "010", "0b11", "8U"].map(whole);
        assert_eq!(values, [0, 24_576, 16, 8, 3, 8].map(Some));
        assert_eq!(["", "U", "09", "0x", "99999999999999999999", "1.5"].map(whole), [None; 6]);
    }
}
