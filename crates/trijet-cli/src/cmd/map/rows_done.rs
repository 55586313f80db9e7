//! The rows that a job has done, on standard error: a bar on a terminal, and lines elsewhere.
//!
//! A line is printed when another percent of the rows is done, but at most one line every half
//! minute. A short job thus prints no line, and a long job at most a hundred.
#![forbid(unsafe_code)]

use crate::cmd::print_stderr;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// The display of the rows that are done.
pub(super) enum RowsDone {
    Bar(ProgressBar),
    Lines { begin: Instant, lines: Mutex<Lines> },
}

impl RowsDone {
    /// Makes the display of `rows` rows. An earlier run has done `kept` of these rows.
    pub(super) fn new(rows: u64, kept: u64) -> Self {
        if !stderr().is_terminal() {
            return Self::Lines {
                begin: Instant::now(),
                lines: Mutex::new(Lines::new(rows, kept)),
            };
        }
        let bar = ProgressBar::new(rows).with_position(kept);
        // The bar's own estimate would be too short, because it counts the rows of the earlier run.
        // These rows took no time in this run.
        let left = move |state: &ProgressState, out: &mut dyn Write| {
            let rows = state.len().unwrap_or(0);
            let _written = match time_left(kept, state.pos(), rows, state.elapsed()) {
                Some(left) => write!(out, ", {:#} left", HumanDuration(left)),
                None => Ok(()),
            };
        };
        let style = ProgressStyle::with_template("{bar:40} {percent:>3} % of {len} rows{left}");
        Self::Bar(match style {
            Ok(style) => bar.with_style(style.with_key("left", left)),
            Err(_) => bar,
        })
    }

    /// Shows that more rows are done.
    pub(super) fn add(&self, rows: u64) {
        match self {
            Self::Bar(bar) => bar.inc(rows),
            Self::Lines { begin, lines } => {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.add(rows, begin.elapsed()).into_iter().for_each(print_stderr);
            }
        }
    }

    /// Removes the bar, if there is one.
    pub(super) fn clear(&self) {
        match self {
            Self::Bar(bar) => bar.finish_and_clear(),
            Self::Lines { .. } => {}
        }
    }
}

/// The time for the remaining rows, at the speed of this run. `done` of `rows` rows are done. Of
/// these, an earlier run has done `kept` rows.
fn time_left(kept: u64, done: u64, rows: u64, elapsed: Duration) -> Option<Duration> {
    let own = done.checked_sub(kept).filter(|own| *own > 0)?;
    let left = elapsed.as_secs_f64() * rows.saturating_sub(done) as f64 / own as f64;
    Duration::try_from_secs_f64(left).ok()
}

/// Decides when a line is due, and makes its text.
pub(super) struct Lines {
    rows: u64,
    done: u64,
    percent: u64,
    /// The time of the last line, since the start of this run.
    at: Duration,
}

impl Lines {
    fn new(rows: u64, done: u64) -> Self {
        let mut lines = Self { rows, done, percent: 0, at: Duration::ZERO };
        lines.percent = lines.percent_done();
        lines
    }

    fn percent_done(&self) -> u64 {
        let percent = u128::from(self.done) * 100 / u128::from(self.rows.max(1));
        u64::try_from(percent).unwrap_or(100)
    }

    /// Adds `rows` to the rows that are done. `now` is the time since the start of this run.
    /// Returns a line if one is due.
    fn add(&mut self, rows: u64, now: Duration) -> Option<String> {
        self.done = self.done.saturating_add(rows);
        let percent = self.percent_done();
        let is_due = percent > self.percent && now.saturating_sub(self.at) >= LINE_EVERY;
        if !is_due || self.done >= self.rows {
            return None;
        }
        (self.percent, self.at) = (percent, now);
        Some(format!("{percent} % of {} rows", self.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a job of 1000 rows. The rows are done in groups of 5 rows, and each group takes
    /// `seconds` seconds.
    fn lines(kept: u64, seconds: u64) -> Vec<String> {
        let mut lines = Lines::new(1000, kept);
        let steps = 1..=(1000 - kept) / 5;
        steps.filter_map(|step| lines.add(5, Duration::from_secs(step * seconds))).collect()
    }

    #[test]
    fn a_short_job_prints_no_line_and_a_long_one_at_most_a_hundred() {
        assert!(lines(0, 0).is_empty());
        let few = lines(0, 3);
        assert_eq!((few.len(), few[0].as_str()), (19, "5 % of 1000 rows"));
        let many = lines(0, 1000);
        assert_eq!((many.len(), many[98].as_str()), (99, "99 % of 1000 rows"));
    }

    /// An earlier run had done 42 % of the rows. In an earlier version, the estimate counted these
    /// rows, so it was 2 s instead of 30 s.
    #[test]
    fn the_time_left_is_that_of_the_rows_of_this_run() {
        let left = |kept, done| time_left(kept, done, 1000, Duration::from_secs(3));
        assert_eq!(left(400, 400), None);
        assert_eq!(left(400, 450), Some(Duration::from_secs(33)));
        assert_eq!(left(0, 750), Some(Duration::from_secs(1)));
        assert_eq!(left(400, 1000), Some(Duration::ZERO));
    }

    #[test]
    fn the_rows_of_an_earlier_run_count() {
        let lines = lines(500, 30);
        assert_eq!((lines.len(), lines[0].as_str()), (49, "51 % of 1000 rows"));
    }
}
