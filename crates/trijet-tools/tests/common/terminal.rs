//! The output of a command on a terminal of a given width.

use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

/// The widths of terminals that people have.
pub(crate) const WIDTHS: [u16; 3] = [80, 100, 160];

/// The streams of the command that are a terminal. The other stream is discarded.
#[derive(Clone, Copy)]
pub(crate) enum Shown {
    Out,
    Err,
    Both,
}

/// The output of the command on a terminal of this width with colours. The colours are removed.
pub(crate) fn on_terminal(command: Command, columns: u16, shown: Shown) -> String {
    let text = sent(command, columns, shown);
    anstream::adapter::strip_str(&text).to_string().replace("\r\n", "\n")
}

/// Everything that the command sends to a terminal of this width.
pub(crate) fn sent(mut command: Command, columns: u16, shown: Shown) -> String {
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(Some(&size), None).unwrap();
    match shown {
        Shown::Out => command.stdout(terminal.slave).stderr(Stdio::null()),
        Shown::Err => command.stderr(terminal.slave).stdout(Stdio::null()),
        Shown::Both => command.stdout(terminal.slave.try_clone().unwrap()).stderr(terminal.slave),
    };
    let mut child = command.env("TERM", "xterm").spawn().unwrap();
    // This drops the last copy of the command's end here, so the reading ends when the command
    // ends.
    drop(command);
    let mut bytes = Vec::new();
    let mut terminal = File::from(terminal.master);
    // The end of a terminal is an error.
    let _end = terminal.read_to_end(&mut bytes);
    child.wait().unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Asserts that all lines fit into the width.
#[track_caller]
pub(crate) fn fits(columns: u16, text: &str) {
    assert!(!text.is_empty());
    for line in text.lines() {
        let width = line.chars().count();
        assert!(width <= usize::from(columns), "{width} columns of {columns}: {line}\n\n{text}");
    }
}
