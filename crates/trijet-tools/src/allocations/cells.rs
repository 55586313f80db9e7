//! The cells of a line of a CSV text. A quoted cell may contain commas.
#![forbid(unsafe_code)]

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

/// Splits lines into cells. The memory for the cells of a line is reused for the next line.
#[derive(Debug)]
pub(super) struct Cells {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Cells {
    /// A splitter for lines of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        // A line of commas only has one cell more than it has bytes.
        let reader = ReaderBuilder::new().terminator(Terminator::Any(b'\n')).build();
        Self { reader, text: vec![0; most + 1], ends: vec![0; most + 1] }
    }

    /// The cells of `line`, without the white space around them.
    ///
    /// # Errors
    /// If a quote has no end.
    pub(super) fn of(&mut self, line: &str) -> Result<Vec<&str>, String> {
        self.reader.reset();
        let (mut count, mut length, mut is_whole) = (0, 0, false);
        for part in [line, "\n"] {
            let (text, ends) = (&mut self.text[length..], &mut self.ends[count..]);
            let (read, _, bytes, cells) = self.reader.read_record(part.as_bytes(), text, ends);
            (count, length) = (count + cells, length + bytes);
            is_whole = read == ReadRecordResult::Record;
        }
        if !is_whole {
            return Err("a quote has no end in the line".to_owned());
        }
        let cell = |at: usize| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            std::str::from_utf8(&self.text[start..self.ends[at]]).map(str::trim)
        };
        (0..count).map(cell).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_those_between_commas_and_quotes() {
        let mut cells = Cells::new(16);
        for (line, expected) in [
            ("a,b", vec!["a", "b"]),
            (" a , \tb\r", vec!["a", "b"]),
            ("\"a,b\",\"c\"\"d\"", vec!["a,b", "c\"d"]),
            (",,", vec!["", "", ""]),
            (",,,,,,,,,,,,,,,,", vec![""; 17]),
            ("µ,\"µ\"", vec!["µ", "µ"]),
        ] {
            assert_eq!(cells.of(line).unwrap(), expected, "{line}");
        }
        assert!(cells.of("a,\"b").unwrap_err().contains("a quote has no end"));
        assert_eq!(cells.of("c").unwrap(), ["c"], "the quote of the line before is over");
    }
}
