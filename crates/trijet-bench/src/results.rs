//! Results of a benchmark: rows of a CSV file. Each row names the device, the driver, the host, the
//! date and the commit.
//!
//! Each row is complete without the other rows. The rows of another run are therefore appended
//! without their header:
//! `tail -n +2 NEW.csv >>crates/trijet-bench/results/<gpu>/<benchmark>.csv`.
#![forbid(unsafe_code)]

use crate::rounds::stopped;
use std::fmt;
use trijet::{Device, DeviceInfo, Result};
use trijet_tools::origin::{COMMIT, kernel_driver};
use trijet_tools::stats::Samples;

/// The columns of a row after the facts about the machine, each with a description.
pub const COLUMNS: [(&str, &str); 9] = [
    ("what", "the figure"),
    ("unit", "the unit of the figure and of its bound"),
    ("median", "the median of the samples"),
    ("min", "the least sample"),
    ("max", "the largest sample"),
    ("samples", "the number of samples"),
    ("bound", "what the machine allows at best, measured in the same run; empty if unknown"),
    ("bound_over_median", "the bound over the median: 1 is perfect for a time"),
    ("note", "a remark, or a sentence about what was verified or why it was not run"),
];

/// The first line of every file. The first five cells of a row are never quoted, so that a script
/// can cut them off.
pub const HEADER: &str =
    "device,driver,host,date,commit,what,unit,median,min,max,samples,bound,bound_over_median,note";

/// One row.
#[derive(Debug, Clone)]
pub enum Row {
    /// One figure.
    Figure {
        /// The name of the figure.
        what: String,
        /// The unit of the figures.
        unit: String,
        /// The samples.
        samples: Samples,
        /// The bound of the same run in the same unit, if one is known.
        bound: Option<f64>,
        /// A remark; empty if there is none.
        note: String,
    },
    /// A sentence about what was verified or observed.
    Note {
        /// The subject of the note.
        what: String,
        /// The text.
        note: String,
    },
}

/// The rows of a benchmark, with the device and the driver. `Display` writes a CSV file.
#[derive(Debug, Clone)]
pub struct Results {
    device: String,
    driver: String,
    rows: Vec<Row>,
    is_stopped: bool,
}

impl Results {
    /// Makes results of a device, without rows.
    #[must_use]
    pub fn of_device(device: &Device) -> Self {
        let info = device.info();
        Self {
            device: info.name.clone(),
            driver: driver(info),
            rows: Vec::new(),
            is_stopped: false,
        }
    }

    /// Makes results of a part of the library that uses no driver, without rows.
    #[must_use]
    pub fn of_host(part: &str) -> Self {
        let (device, driver) = (part.to_owned(), "none".to_owned());
        Self { device, driver, rows: Vec::new(), is_stopped: false }
    }

    /// Adds a figure.
    pub fn push(
        &mut self,
        what: impl Into<String>,
        unit: &str,
        samples: Samples,
        bound: Option<f64>,
    ) {
        self.push_with(what, unit, samples, bound, "");
    }

    /// Adds a figure with a remark.
    pub fn push_with(
        &mut self,
        what: impl Into<String>,
        unit: &str,
        samples: Samples,
        bound: Option<f64>,
        note: impl Into<String>,
    ) {
        let (what, unit, note) = (what.into(), unit.to_owned(), note.into());
        self.rows.push(Row::Figure { what, unit, samples, bound, note });
    }

    /// Marks the results as incomplete, because the benchmark was stopped after these rows.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
        self.note("stopped", "a signal stopped the benchmark; the cases that had ended have rows");
    }

    /// Fails if the benchmark was stopped before its end.
    ///
    /// # Errors
    /// `Cancelled`.
    pub fn check_whole(&self) -> Result<()> {
        if self.is_stopped { Err(stopped()) } else { Ok(()) }
    }

    /// Adds a note.
    pub fn note(&mut self, what: impl Into<String>, note: impl Into<String>) {
        self.rows.push(Row::Note { what: what.into(), note: note.into() });
    }

    /// The origin of the rows: the first cells of a row of the CSV file, with the names of their
    /// columns.
    #[must_use]
    pub fn facts(&self) -> [(&'static str, String); 5] {
        let date = format!("{:.0}", jiff::Timestamp::now());
        [
            ("device", self.device.clone()),
            ("driver", self.driver.clone()),
            ("host", host()),
            ("date", date),
            ("commit", COMMIT.to_owned()),
        ]
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts().map(|(_, fact)| unquoted(&fact)).join(",");
        writeln!(f, "{HEADER}")?;
        for row in &self.rows {
            match row {
                Row::Figure { what, unit, samples, bound, note } => {
                    let median = samples.quantile(0.5);
                    let (min, max) = (samples.quantile(0.0), samples.quantile(1.0));
                    write!(f, "{facts},{},{}", cell(what), cell(unit))?;
                    write!(f, ",{},{},{}", number(median), number(min), number(max))?;
                    write!(f, ",{}", samples.count())?;
                    match bound {
                        Some(bound) => {
                            write!(f, ",{},{:.4}", number(*bound), bound / median)?;
                        }
                        None => write!(f, ",,")?,
                    }
                    writeln!(f, ",{}", cell(note))?;
                }
                Row::Note { what, note } => {
                    writeln!(f, "{facts},{},,,,,,,,{}", cell(what), cell(note))?;
                }
            }
        }
        Ok(())
    }
}

/// A number with three decimals. A number below 1 has at least three significant digits.
#[must_use]
pub fn number(value: f64) -> String {
    let decimals = (3..12).find(|decimals| value.abs() * 10f64.powi(*decimals) >= 100.0);
    let decimals = if value == 0.0 { 3 } else { decimals.unwrap_or(12) };
    format!("{value:.*}", usize::try_from(decimals).unwrap_or(3))
}

/// The text as a cell in one line. The cell is put in quotes if CSV needs them.
fn cell(text: &str) -> String {
    let line = text.replace(['\n', '\r'], " ");
    if line.contains([',', '"']) {
        return format!("\"{}\"", line.replace('"', "\"\""));
    }
    line
}

/// The text as a cell that needs no quotes.
fn unquoted(text: &str) -> String {
    text.replace([',', '"', '\n', '\r'], " ")
}

/// Whether the driver is `empty-driver`, whose functions compute nothing.
pub(crate) fn is_empty_driver(info: &DeviceInfo) -> bool {
    info.name == "empty driver"
}

/// The versions of the driver: of its kernel module, if known, and of CUDA.
fn driver(info: &DeviceInfo) -> String {
    let version = info.driver_version;
    if version == 0 {
        return "none".to_owned();
    }
    let cuda = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    match kernel_driver().filter(|_| !is_empty_driver(info)) {
        Some(kernel) => format!("{kernel} for {cuda}"),
        None => cuda,
    }
}

/// The number of processors that this process may use, and their name.
fn host() -> String {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo");
    let name = text.ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(": ").map(|(_, name)| name.to_owned())
    });
    format!("{count} x {}", name.as_deref().unwrap_or("unknown processor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cells of a row, without their quotes.
    fn cells(row: &str) -> Vec<String> {
        let (mut cells, mut inside) = (vec![String::new()], false);
        for c in row.chars() {
            match c {
                '"' => inside = !inside,
                ',' if !inside => cells.push(String::new()),
                c => cells.last_mut().expect("there is one").push(c),
            }
        }
        cells
    }

    /// In an earlier version, the time of the search of a small program was printed as 0.000 s.
    #[test]
    fn small_numbers_keep_three_significant_digits() {
        let printed = [0.000_412_3, 0.04, 0.9, 1.5, 12_345.678_9, 0.0, -0.002].map(number);
        let wanted = ["0.000412", "0.0400", "0.900", "1.500", "12345.679", "0.000", "-0.00200"];
        assert_eq!(printed, wanted);
    }

    #[test]
    fn every_row_has_all_columns_and_where_it_comes_from() {
        let mut results = Results::of_host("a part, \"quoted\"");
        let mut samples = Samples::default();
        for value in [3.0, 1.0, 2.0] {
            samples.push(value);
        }
        results.push("a launch, one stream", "ns", samples.clone(), None);
        results.push_with("upload", "ms", samples, Some(1.0), "3, 1 and 2");
        results.note("verified", "bytes,\nand \"words\"");
        let text = results.to_string();
        let rows: Vec<Vec<String>> = text.lines().map(cells).collect();
        let columns = HEADER.split(',').count();
        assert!(rows.len() == 4 && rows.iter().all(|row| row.len() == columns), "{text}");
        assert!(rows[1..].iter().all(|row| row[..5] == rows[1][..5]), "{text}");
        assert!(rows[1][..5].iter().all(|fact| !fact.is_empty()), "{text}");
        assert!(text.lines().skip(1).all(|row| row.split(',').nth(1) == Some("none")), "{text}");
        assert_eq!(
            rows[1][5..],
            ["a launch, one stream", "ns", "2.000", "1.000", "3.000", "3", "", "", ""]
        );
        assert_eq!(
            rows[2][5..],
            ["upload", "ms", "2.000", "1.000", "3.000", "3", "1.000", "0.5000", "3, 1 and 2"]
        );
        assert!(text.ends_with(",verified,,,,,,,,\"bytes, and \"\"words\"\"\"\n"), "{text}");
    }
}
