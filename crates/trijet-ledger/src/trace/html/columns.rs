//! Columns of numbers in a page. Each column is split into planes: plane n has byte n of each
//! number, counted from the lowest byte. All planes are deflated together, and written in base64.
//!
//! Similar numbers have equal high bytes, so a plane of high bytes deflates to almost nothing. A
//! plane of low bytes is noise, which deflate keeps at its length. A browser unpacks a plane
//! without looking at single bits.
#![forbid(unsafe_code)]

use std::fmt::Write;

/// The largest integer that a script represents exactly: 104 days in nanoseconds.
const NUMBER_MAX: u64 = (1 << 53) - 1;
/// The level of deflate. Higher levels take much longer and save about one percent.
const LEVEL: u8 = 6;

/// The code of a column: how each number is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ColumnCode {
    /// Each number is stored as it is.
    Plain = 0,
    /// For each number, the difference from the previous number is stored.
    Difference = 1,
}

/// The columns of a page. The script `unpack.js` unpacks them.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// For each column: its name, its code, its number of planes, the size of its largest number in
    /// bytes, and its length.
    heads: String,
    planes: Vec<u8>,
}

/// The number of bytes of a number.
fn width(number: u64) -> u32 {
    (u64::BITS - number.leading_zeros()).div_ceil(8)
}

/// The difference of `value` from `before` in zigzag code, in which the lowest bit has the sign.
fn signed(value: u64, before: u64) -> u64 {
    let difference = value.cast_signed() - before.cast_signed();
    (difference << 1 ^ difference >> 63).cast_unsigned()
}

impl Columns {
    /// Adds a column. A number that a script cannot represent becomes the largest number that a
    /// script can represent.
    pub(crate) fn add(&mut self, name: &str, code: ColumnCode, values: impl Iterator<Item = u64>) {
        let mut most = 0;
        let mut before = 0;
        let coded = values.map(|value| {
            let value = value.min(NUMBER_MAX);
            most = most.max(value);
            match code {
                ColumnCode::Plain => value,
                ColumnCode::Difference => signed(value, std::mem::replace(&mut before, value)),
            }
        });
        let coded: Vec<u64> = coded.collect();
        self.push(name, code as u32, &coded, most);
    }

    /// Adds a column of starts and a column of lengths. A start is coded as the difference from the
    /// end of the previous span.
    pub(crate) fn add_spans(
        &mut self,
        [begin, length]: [&str; 2],
        spans: impl Iterator<Item = (u64, u64)>,
    ) {
        let (mut begins, mut lengths, mut most, mut longest, mut free) =
            (Vec::new(), Vec::new(), 0, 0, 0);
        for (start, end) in spans {
            let start = start.min(NUMBER_MAX / 2);
            let took = end.saturating_sub(start).min(NUMBER_MAX / 2);
            (most, longest) = (most.max(start), longest.max(took));
            begins.push(signed(start, free));
            lengths.push(took);
            free = start + took;
        }
        self.push(length, ColumnCode::Plain as u32, &lengths, longest);
        self.push(begin, 2, &begins, most);
    }

    fn push(&mut self, name: &str, code: u32, coded: &[u64], most: u64) {
        let planes = width(coded.iter().copied().max().unwrap_or(0));
        let comma = if self.heads.is_empty() { "" } else { "," };
        write!(self.heads, "{comma}[\"{name}\",{code},{planes},{},{}]", width(most), coded.len())
            .expect("writing to a string");
        for plane in 0..planes {
            self.planes.extend(coded.iter().map(|number| (number >> (8 * plane)).to_le_bytes()[0]));
        }
    }

    /// The heads as the content of a list in JSON, and all columns in base64.
    pub(crate) fn finish(self) -> (String, String) {
        (self.heads, base64(&miniz_oxide::deflate::compress_to_vec(&self.planes, LEVEL)))
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - group.len()));
        for digit in 0..4 {
            let sextet = word >> (18 - 6 * digit) & 63;
            text.push(if digit > group.len() { '=' } else { char::from(DIGITS[sextet as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (plain, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }

    #[test]
    fn a_column_has_differences_with_their_sign_in_planes_of_bytes() {
        let mut columns = Columns::default();
        // 3, -2 and +400 are coded as 6, 3 and 800.
        columns.add("a", ColumnCode::Difference, [3, 1, 401].into_iter());
        // The second span begins 5 after the end of the first.
        columns.add_spans(["b", "c"], [(10, 20), (25, 26)].into_iter());
        columns.add("d", ColumnCode::Plain, [u64::MAX].into_iter());
        assert_eq!(
            columns.heads,
            "[\"a\",1,2,2,3],[\"c\",0,1,1,2],[\"b\",2,1,1,2],[\"d\",0,7,7,1]"
        );
        let numbers = [6, 3, 32, 0, 0, 3, 10, 1, 20, 10];
        assert_eq!(columns.planes[..10], numbers);
        assert_eq!(columns.planes[10..], [255, 255, 255, 255, 255, 255, 31]);
    }
}
