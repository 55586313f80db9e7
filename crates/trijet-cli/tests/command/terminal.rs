//! On a terminal no line is wider than the terminal, and lines break between words.

use crate::on_terminal::{Shown, WIDTHS, fits, on_terminal, sent};
use crate::outputs::two_ranks;
use crate::workdir::{Workdir, noise};

/// The lines that a terminal shows after this text.
fn remaining(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let (_, shown) = line.rsplit_once("\x1b[2K").unwrap_or(("", line));
        let shown = anstream::adapter::strip_str(shown).to_string();
        let mut cells = Vec::new();
        // After a return, characters cover those that are there.
        for part in shown.split('\r') {
            let covered = part.chars().count().min(cells.len());
            cells.splice(..covered, part.chars());
        }
        String::from_iter(cells)
    };
    text.split("\r\n").map(line).collect()
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Errors once broke within words: the terminal itself broke them.
#[test]
fn errors_break_between_words() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    workdir.npy("wide.npy", "<f16", &[8, 8], &noise(1024, 1));
    let op = ["--op", "affine"];
    for args in [
        &["map", "in.npy", "-o", "out.npyy", op[0], op[1]][..],
        &["map", "in.npy", "-o", "out.npy", "--op=median", "--op=affine", "--edges=wrap"],
        &["map", "wide.npy", "-o", "out.npy", op[0], op[1]],
        &["map", "in.npy", "-o", "out.npy", "--op", "medain:3"],
    ] {
        let piped = workdir.trijet(args);
        assert!(
            piped.code != Some(0) && piped.err.lines().any(|line| line.len() > 80),
            "{piped:?}"
        );
        for columns in WIDTHS {
            let shown = on_terminal(workdir.command(args), columns, Shown::Err);
            fits(columns, &shown);
            assert_eq!(words(&shown), words(&piped.err));
        }
    }
}

/// A file of lines that a terminal breaks is a bad example.
#[test]
fn a_template_has_lines_of_80_columns() {
    let workdir = Workdir::new();
    for kind in ["element", "halo"] {
        fits(80, &workdir.trijet(&["map", "--kernel-template", kind]).done());
    }
}

/// Whether a progress bar draws this character: a part of the bar, or the dots that move beside it.
fn is_of_bar(c: char) -> bool {
    matches!(c, '\u{2580}'..='\u{259f}' | '\u{2800}'..='\u{28ff}')
}

#[test]
fn a_terminal_shows_what_is_not_cleared_or_covered() {
    assert_eq!(remaining("one\r\x1b[2Ktwo\r\n"), ["two", ""]);
    assert_eq!(remaining("\x1b[1mone\x1b[0m two\rten\r\nthree"), ["ten two", "three"]);
    assert_eq!(remaining("a bar\r\nthe result"), ["a bar", "the result"]);
}

/// A bar of `overlap` once stayed above the result.
#[test]
fn no_progress_bar_stays_on_the_terminal() {
    let workdir = Workdir::new();
    let overlap = ["overlap", "--device=host", "--radius=1", "--size=2MiB", "--repeats=1"];
    for (more, words) in [
        (&[][..], "limited by"),
        (&["--json"], "\"version\": 1"),
        (&["--drop-wait=1", "--overwrite"], "error[RACE/"),
        // It fails after its last step.
        (&["--drop-wait=100000", "--overwrite"], "no wait 100000"),
    ] {
        let sent = sent(workdir.command(&[&overlap, more].concat()), 160, Shown::Both);
        assert!(sent.contains(is_of_bar), "{more:?}: no bar was shown: {sent}");
        let lines = remaining(&sent);
        let stale = lines.iter().find(|line| line.contains(is_of_bar) || line.contains("0/0"));
        assert_eq!(stale, None, "{more:?}: {lines:#?}");
        assert!(lines.iter().any(|line| line.contains(words)), "{more:?}: {lines:#?}");
    }
}

/// Whether a line belongs to a table: it has several spaces between words.
fn is_row(line: &str) -> bool {
    line.trim().contains("  ")
}

/// Rows of tables once lost their last columns to a second line.
#[test]
fn the_tables_of_reports_fit_into_80_columns() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[64, 64], &noise(4096, 1));
    workdir.file("a.csv", b"Action,Pointer,Size,Stream\nallocate,1,4096,0\nfree,1,,0\n");
    workdir.file("ranks.trijet", &two_ranks());
    let host = ["--device", "host"];
    let map = ["map", "in.npy", "-o", "out.npy", "--op=median", "--report=full"];
    let overlap = ["overlap", "--size=8MiB", "--radius=1", "--repeats=1", "--report=full"];
    for (call, device) in [
        (&map[..], &host[..]),
        (&overlap, &host),
        (&["replay", "a.csv"], &host),
        (&["trace", "--read", "ranks.trijet"], &[]),
    ] {
        let ran = workdir.trijet(&[call, device].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        for row in ran.out.lines().filter(|line| is_row(line)) {
            assert!(row.chars().count() <= 80, "{call:?}: {} columns: {row}", row.chars().count());
        }
    }
}

/// A report is wrapped once: a second wrapping left lines of one word.
#[test]
fn a_sentence_of_a_trace_is_a_line_where_no_terminal_breaks_it() {
    let workdir = Workdir::new();
    let whole = two_ranks();
    workdir.file("cut.trijet", &whole[..whole.len() - 20]);
    let args = ["trace", "--read", "cut.trijet"];
    let piped = workdir.trijet(&args).done();
    assert!(
        piped
            .lines()
            .any(|line| line.contains("INCOMPLETE: the end") && line.contains("last second")),
        "{piped}"
    );
    for columns in WIDTHS {
        let shown = on_terminal(workdir.command(&args), columns, Shown::Out);
        fits(columns, &shown);
        assert_eq!(words(&shown), words(&piped));
    }
}

/// Help was once broken by hand, and again by the terminal.
#[test]
fn help_fills_the_lines_of_a_terminal() {
    let workdir = Workdir::new();
    let help =
        ["map", "overlap", "doctor", "trace", "what-if", "check", "replay", "bench", "devices"];
    let help = help.map(|command| vec![command, "--help"]);
    for args in help.iter().chain([&vec!["--help"]]) {
        for columns in WIDTHS {
            let shown = on_terminal(workdir.command(args), columns, Shown::Out);
            fits(columns, &shown);
            // Help has at most 100 columns.
            let width = usize::from(columns.min(100));
            for pair in shown.lines().collect::<Vec<_>>().windows(2) {
                let [line, next] = [pair[0], pair[1]];
                let comment = |line: &str| line.trim_start().starts_with('#');
                let indent = |line: &str| line.len() - line.trim_start().len();
                let text = next.trim_start_matches([' ', '#']);
                let first = text.split_whitespace().next().unwrap_or("");
                let is_text = |line: &str| line.split_whitespace().count() > 1 && !is_row(line);
                let is_cut = is_text(line)
                    && comment(line) == comment(next)
                    && indent(next) >= indent(line)
                    && line.len() + 1 + first.len() <= width
                    && first.starts_with(|c: char| c.is_ascii_lowercase())
                    && !line.contains([':', '='])
                    && !line.ends_with('(')
                    && first != "trijet";
                assert!(!is_cut, "{args:?}: `{line}` has room for `{first}` in {width} columns");
            }
        }
    }
}
