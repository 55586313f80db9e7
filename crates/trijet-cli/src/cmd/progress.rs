//! Progress on standard error, for commands that take longer than a second: a bar on a terminal, and
//! elsewhere a line for each step.
#![forbid(unsafe_code)]

use super::print_stderr;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use trijet_bench::progress::Step;

/// How often the bar moves within a step.
const TICK: Duration = Duration::from_millis(200);

/// The display. It is removed on drop.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(super) fn new() -> Self {
        Self(stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            bar.enable_steady_tick(TICK);
            match ProgressStyle::with_template("{spinner} {bar:30} {elapsed} {msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        }))
    }

    /// Shows a step that begins.
    pub(super) fn show(&self, step: Step<'_>) {
        let Step { what, number, of, .. } = step;
        match &self.0 {
            Some(bar) => {
                bar.set_length(of);
                bar.set_position(number - 1);
                bar.set_message(what.to_owned());
            }
            None => print_stderr(format_args!("[{number}/{of}] {what}")),
        }
    }

    /// Removes the bar, so that the terminal is free for the output.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
