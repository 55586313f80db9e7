//! Lines for a terminal: none is wider than it, and none breaks within a word.
#![forbid(unsafe_code)]

use std::io::{IsTerminal, stdout};
use textwrap::{Options, WordSplitter, fill, termwidth};

/// How far the rest of a line stands behind its start.
const REST: usize = 4;

/// The lines, broken to fit into the terminal. Other outputs have each line as a whole, so that scripts find it.
pub(super) fn wrapped(lines: &str) -> String {
    if stdout().is_terminal() { to_width(lines, termwidth()) } else { lines.to_owned() }
}

fn to_width(lines: &str, width: usize) -> String {
    let line = |line: &str| {
        if textwrap::core::display_width(line) <= width {
            return line.to_owned();
        }
        let start = line.len() - line.trim_start().len();
        let rest = " ".repeat(start.min(width / 2) + REST);
        // A word stays whole: it may be a path or an option.
        let options = Options::new(width)
            .break_words(false)
            .word_splitter(WordSplitter::NoHyphenation)
            .subsequent_indent(&rest);
        fill(line, options)
    };
    lines.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_breaks_between_words_and_its_rest_is_indented() {
        let text = "short\n  --chunk is too small for the work of each call of the host";
        let expected =
            "short\n  --chunk is too small for the\n      work of each call of the\n      host";
        assert_eq!(to_width(text, 30), expected);
    }

    #[test]
    fn a_word_stays_whole_and_a_table_that_fits_is_left_alone() {
        let table = "a    b\n  1    2";
        assert_eq!(to_width(table, 10), table);
        assert_eq!(to_width("see /a/long/path/to/a/file", 10), "see\n    /a/long/path/to/a/file");
    }
}
