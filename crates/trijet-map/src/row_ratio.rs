//! The rows of an output for rows of the input.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The number of rows of an output for a number of rows of the input, within each image, for a
/// kernel of the user. The default is one row for each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRatio {
    output: u64,
    input: u64,
}

impl Default for RowRatio {
    fn default() -> Self {
        Self { output: 1, input: 1 }
    }
}

impl RowRatio {
    /// The number of rows of the output that belong together.
    pub(crate) fn granule(self) -> u64 {
        self.output
    }

    /// Whether the output has the rows of the input.
    pub(crate) fn is_same(self) -> bool {
        self.output == self.input
    }

    /// The rows of the output for this number of rows of the input. `None` if the rows are not a
    /// multiple of the rows of the ratio.
    pub(crate) fn output(self, rows: u64) -> Option<u64> {
        let is_whole = rows.is_multiple_of(self.input);
        (rows / self.input).checked_mul(self.output).filter(|_| is_whole)
    }

    /// The rows of the input from which these rows of the output are computed.
    pub(crate) fn input_rows(self, rows: &Range<u64>) -> Range<u64> {
        let at = |group: u64| group.saturating_mul(self.input);
        at(rows.start / self.output)..at(rows.end.div_ceil(self.output))
    }
}

impl fmt::Display for RowRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.output, self.input)
    }
}

impl FromStr for RowRatio {
    type Err = String;

    /// Reads `OUT/IN`, such as `1/2`: one row for two rows. Both numbers are at least 1.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        let parts = text.split_once('/').and_then(|(output, input)| {
            Some(Self { output: number(output)?, input: number(input)? })
        });
        parts.ok_or_else(|| format!("`{text}` is not a ratio of rows such as 1/2"))
    }
}
