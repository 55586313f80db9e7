//! Results: what was measured, where and of which commit, as a CSV file.
#![forbid(unsafe_code)]

use crate::stats::Samples;
use std::fmt;
use trijet::Device;

/// The commit that the program was built from, when the bundle built it.
pub const COMMIT: &str = match option_env!("TRIJET_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// One figure.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was run.
    pub what: String,
    /// The unit of the figures.
    pub unit: &'static str,
    /// The samples.
    pub samples: Samples,
    /// The bound of the same run in the same unit, if there is one.
    pub bound: Option<f64>,
}

/// A benchmark's figures with where they come from. Prints as a CSV file.
#[derive(Debug, Clone)]
pub struct Results {
    /// The benchmark.
    pub bench: &'static str,
    /// The device's name.
    pub device: String,
    /// The driver's version.
    pub driver: i32,
    /// What was verified, in words.
    pub verified: String,
    /// What was seen beside the figures, a line each.
    pub notes: Vec<String>,
    /// The figures.
    pub rows: Vec<Row>,
}

impl Results {
    /// Results without figures.
    #[must_use]
    pub fn new(bench: &'static str, device: &Device, verified: impl Into<String>) -> Self {
        let info = device.info();
        Self {
            bench,
            device: info.name.clone(),
            driver: info.driver_version,
            verified: verified.into(),
            notes: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Adds a figure.
    pub fn push(
        &mut self,
        what: impl Into<String>,
        unit: &'static str,
        samples: Samples,
        bound: Option<f64>,
    ) {
        self.rows.push(Row { what: what.into(), unit, samples, bound });
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = jiff::Timestamp::now();
        writeln!(f, "# bench: {}", self.bench)?;
        writeln!(f, "# device: {}", self.device)?;
        writeln!(f, "# driver: CUDA {}.{}", self.driver / 1000, self.driver % 1000 / 10)?;
        writeln!(f, "# date: {now:.0}")?;
        writeln!(f, "# commit: {COMMIT}")?;
        writeln!(f, "# verified: {}", self.verified)?;
        for note in &self.notes {
            writeln!(f, "# {note}")?;
        }
        writeln!(f, "what,unit,median,min,max,samples,bound,bound_over_median")?;
        for row in &self.rows {
            let s = &row.samples;
            let median = s.quantile(0.5);
            write!(f, "\"{}\",{},{median:.3},", row.what, row.unit)?;
            write!(f, "{:.3},{:.3},{}", s.quantile(0.0), s.quantile(1.0), s.count())?;
            match row.bound {
                Some(bound) => writeln!(f, ",{bound:.3},{:.4}", bound / median)?,
                None => writeln!(f, ",,")?,
            }
        }
        Ok(())
    }
}
