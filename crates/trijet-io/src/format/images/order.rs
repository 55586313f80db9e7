//! The natural order of file names. Numbers in names are compared by value, so `im2` precedes
//! `im10`.
//!
//! The crate `alphanumeric-sort` is not used, because it reverses the order of some characters
//! after equal numbers.

use std::ffi::{OsStr, OsString};

/// A part of a name: one byte that is not a digit, or a whole number. The fields are the byte, the
/// number of digits, and the digits, without leading zeros. For a number, the byte is `0`, so a
/// number is sorted among other bytes like a digit.
type Token = (u8, usize, Vec<u8>);

/// Sorts names in their natural order. Names that differ only in leading zeros are in the order of
/// their bytes.
pub(in crate::format) fn sort(names: &mut [OsString]) {
    names.sort();
    names.sort_by_cached_key(|name| tokens(name));
}

fn tokens(name: &OsStr) -> Vec<Token> {
    let mut rest = name.as_encoded_bytes();
    let mut tokens = Vec::new();
    while let Some((&first, after)) = rest.split_first() {
        if !first.is_ascii_digit() {
            tokens.push((first, 0, Vec::new()));
            rest = after;
            continue;
        }
        let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        tokens.push((b'0', end - zeros, digits[zeros..].to_vec()));
        rest = after;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let ordered = [
            "0.png",
            "00.png",
            "01.png",
            "1.png",
            "2.png",
            "10.png",
            "a.png",
            "a1.png",
            "a1b2.png",
            "a1b10.png",
            "a2.png",
            "a99999999999999999998.png",
            "a99999999999999999999.png",
        ];
        let ordered: Vec<OsString> = ordered.map(OsString::from).to_vec();
        let mut names = ordered.clone();
        names.reverse();
        sort(&mut names);
        assert_eq!(names, ordered);
    }
}
