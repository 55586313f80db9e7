//! Breaks lines to the width of a terminal, but never within a word.
#![forbid(unsafe_code)]

use std::io::IsTerminal;
use textwrap::{Options, WordSplitter, fill, termwidth};

/// The additional indent of the second and later lines of a broken line, in columns.
const REST: usize = 4;
/// Units that stay on one line with the number that precedes them.
const UNITS: [&str; 12] =
    ["%", "ns", "us", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "MB/s", "GB/s"];
/// The start of a comment in a definition. If the comment is broken, each of its lines starts with
/// this prefix.
const COMMENT: &str = "# ";
/// The no-break space, at which a line is not broken.
const FIXED: char = '\u{a0}';

/// Breaks `lines` to the width of the terminal if `stream` is a terminal. Otherwise no line is
/// broken, so that scripts find whole lines.
pub(super) fn wrapped(lines: &str, stream: &impl IsTerminal) -> String {
    if stream.is_terminal() { to_width(lines, termwidth()) } else { lines.to_owned() }
}

fn to_width(lines: &str, width: usize) -> String {
    let line = |line: &str| {
        if textwrap::core::display_width(line) <= width {
            return line.to_owned();
        }
        let start = line.len() - line.trim_start().len();
        let rest = match last_column(line, width) {
            _ if line[start..].starts_with(COMMENT) => " ".repeat(start) + COMMENT,
            Some(column) => " ".repeat(column),
            None => " ".repeat(start.min(width / 2) + REST),
        };
        // A word is never broken, because it may be a path or an option.
        let options = Options::new(width)
            .break_words(false)
            .word_splitter(WordSplitter::NoHyphenation)
            .subsequent_indent(&rest);
        fill(&with_units(line), options).replace(FIXED, " ")
    };
    lines.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The column at which the last column of a table starts, if the line may belong to a table. The
/// last column is the text after the last gap of several spaces. `None` if this text starts in the
/// last third of the width.
fn last_column(line: &str, width: usize) -> Option<usize> {
    let gap = line.trim_end().rfind("  ").filter(|gap| !line[..*gap].trim().is_empty())?;
    let at = textwrap::core::display_width(&line[..gap + 2]);
    (at <= width * 2 / 3).then_some(at)
}

/// The line with no-break spaces between numbers and their units.
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
    fn a_number_keeps_its_unit() {
        assert_eq!(to_width("efficiency 57 %; done", 15), "efficiency\n    57 %; done");
        assert_eq!(to_width("it was idle (6.42 ms)", 17), "it was idle\n    (6.42 ms)");
    }

    /// In an earlier version, the second line of the last column was printed below the first
    /// column.
    #[test]
    fn the_last_column_of_a_row_keeps_its_place() {
        let list = "gemm     products of matrices in chains";
        assert_eq!(to_width(list, 30), "gemm     products of matrices\n         in chains");
        let row = "   12.5  GB/s  copies of one array";
        assert_eq!(to_width(row, 30), "   12.5  GB/s  copies of one\n               array");
        let narrow = "a word        and a second column";
        assert_eq!(to_width(narrow, 20), "a word        and a\n    second column");
    }

    #[test]
    fn a_comment_stays_a_comment() {
        let comment = "  # the sizes of the arrays, in bytes";
        let broken = "  # the sizes of\n  # the arrays, in\n  # bytes";
        assert_eq!(to_width(comment, 18), broken);
    }

    #[test]
    fn a_word_stays_whole_and_a_table_that_fits_is_left_alone() {
        let table = "a    b\n  1    2";
        assert_eq!(to_width(table, 10), table);
        assert_eq!(to_width("see /a/long/path/to/a/file", 10), "see\n    /a/long/path/to/a/file");
    }
}
