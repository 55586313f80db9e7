//! Lines for a terminal: none is wider than it, and none breaks within a word.
#![forbid(unsafe_code)]

use std::io::IsTerminal;
use textwrap::{Options, WordSplitter, fill, termwidth};

/// How far the rest of a line stands behind its start.
const REST: usize = 4;
/// The most columns of the first part of a line of a list: the rest of the line stands below its second part.
const LIST: usize = 14;
/// What stays in one line with the number before it.
const UNITS: [&str; 12] =
    ["%", "ns", "us", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "MB/s", "GB/s"];
/// A space at which a line does not break.
const FIXED: char = '\u{a0}';

/// The lines, broken to fit into the terminal that `stream` is. Other outputs have each line as a whole, so that
/// scripts find it.
pub(crate) fn wrapped(lines: &str, stream: &impl IsTerminal) -> String {
    if stream.is_terminal() { to_width(lines, termwidth()) } else { lines.to_owned() }
}

fn to_width(lines: &str, width: usize) -> String {
    let line = |line: &str| {
        if textwrap::core::display_width(line) <= width {
            return line.to_owned();
        }
        let start = line.len() - line.trim_start().len();
        let rest = second_part(line).unwrap_or(start.min(width / 2) + REST);
        let rest = " ".repeat(rest);
        // A word stays whole: it may be a path or an option.
        let options = Options::new(width)
            .break_words(false)
            .word_splitter(WordSplitter::NoHyphenation)
            .subsequent_indent(&rest);
        fill(&with_units(line), options).replace(FIXED, " ")
    };
    lines.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Where the second part of a line of a list begins: after a word and several spaces.
fn second_part(line: &str) -> Option<usize> {
    let gap = line.find("  ").filter(|gap| *gap > 0)?;
    let at = line.len() - line[gap..].trim_start().len();
    (at <= LIST).then_some(at)
}

/// The line, with no break between a number and its unit.
fn with_units(line: &str) -> String {
    let mut parts = line.split(' ').peekable();
    let mut text = String::new();
    while let Some(part) = parts.next() {
        text += part;
        if let Some(next) = parts.peek() {
            let unit = next.trim_end_matches([',', ';', ':', ')', '.']);
            let is_unit = part.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit);
            text.push(if is_unit { FIXED } else { ' ' });
        }
    }
    text
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
    fn a_number_keeps_its_unit_and_a_list_its_columns() {
        assert_eq!(to_width("efficiency 57 %; done", 15), "efficiency\n    57 %; done");
        let list = "gemm     products of matrices in chains";
        assert_eq!(to_width(list, 30), "gemm     products of matrices\n         in chains");
    }

    #[test]
    fn a_word_stays_whole_and_a_table_that_fits_is_left_alone() {
        let table = "a    b\n  1    2";
        assert_eq!(to_width(table, 10), table);
        assert_eq!(to_width("see /a/long/path/to/a/file", 10), "see\n    /a/long/path/to/a/file");
    }
}
