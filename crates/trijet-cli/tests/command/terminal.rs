//! On a terminal no line is wider than it, and lines break between words.

use crate::workdir::{Workdir, noise};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::Read;
use std::process::Stdio;

/// The widths of terminals that people have.
const WIDTHS: [u16; 3] = [80, 100, 160];

/// What the command writes to standard error, a terminal of this width.
fn errors_on_terminal(workdir: &Workdir, columns: u16, args: &[&str]) -> String {
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(Some(&size), None).unwrap();
    let mut command = workdir.command(args);
    command.env("TERM", "dumb").stderr(terminal.slave).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    // With the last copy of its end here, reading ends when the command does.
    drop(command);
    let mut bytes = Vec::new();
    let mut terminal = File::from(terminal.master);
    // The end of a terminal is an error.
    let _end = terminal.read_to_end(&mut bytes);
    child.wait().unwrap();
    String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
}

/// Asserts that all lines fit into the width.
#[track_caller]
fn fits(columns: u16, text: &str) {
    assert!(!text.is_empty());
    for line in text.lines() {
        let width = line.chars().count();
        assert!(width <= usize::from(columns), "{width} columns of {columns}: {line}\n\n{text}");
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Errors once broke within words: the terminal itself broke them.
#[test]
fn errors_break_between_words() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    workdir.npy("wide.npy", "<f8", &[8, 8], &noise(512, 1));
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
            let shown = errors_on_terminal(&workdir, columns, args);
            fits(columns, &shown);
            assert_eq!(words(&shown), words(&piped.err));
        }
    }
}

/// A file of lines that a terminal breaks is no file to learn from.
#[test]
fn a_template_has_lines_of_80_columns() {
    let workdir = Workdir::new();
    for kind in ["element", "halo"] {
        fits(80, &workdir.trijet(&["map", "--kernel-template", kind]).done());
    }
}
