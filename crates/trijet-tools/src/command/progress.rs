//! Shows the progress of a command on standard error. On a terminal, the progress is a bar.
//! Elsewhere it is a line for each step.
#![forbid(unsafe_code)]

use super::print::print_stderr;
use crate::progress::Step;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::OnceCell;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// The time between two movements of the bar.
const TICK: Duration = Duration::from_millis(200);

/// The display of the progress. The bar appears with the first step, and is removed when this value
/// is dropped. While the bar is shown, nothing else may be printed to the terminal.
#[derive(Debug)]
pub struct Progress {
    is_terminal: bool,
    bar: OnceCell<ProgressBar>,
}

/// A bar that moves at each [`TICK`].
fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // `wide_msg` cuts the message to the width of the terminal. A wider message would leave parts
    // of old lines on the terminal.
    let bar = match ProgressStyle::with_template("{spinner} {bar:30} {elapsed} {wide_msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    bar.enable_steady_tick(TICK);
    bar
}

impl Progress {
    /// A display that prints to standard error.
    #[must_use]
    pub fn on_stderr() -> Self {
        Self { is_terminal: stderr().is_terminal(), bar: OnceCell::new() }
    }

    /// Shows a step. Call this when the step begins.
    pub fn show(&self, step: Step<'_>) {
        let Step { what, number, of, .. } = step;
        if !self.is_terminal {
            return print_stderr(format_args!("[{number}/{of}] {what}"));
        }
        let bar = self.bar.get_or_init(bar);
        bar.set_length(of);
        bar.set_position(number - 1);
        bar.set_message(what.to_owned());
    }

    /// Removes the bar, so that the terminal is free for the output.
    pub fn clear(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
