//! The samples of a figure, with their median and spread.
#![forbid(unsafe_code)]

/// The samples of one figure, in order of size.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds one sample.
    pub fn push(&mut self, value: f64) {
        let at = self.0.partition_point(|other| *other < value);
        self.0.insert(at, value);
    }

    /// The number of samples.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The value below which `share` of the samples lie, by the nearest rank; NaN without samples.
    ///
    /// ```
    /// let mut samples = trijet_bench::stats::Samples::default(); [3.0, 1.0, 2.0].map(|v|
    /// samples.push(v)); assert_eq!((samples.quantile(0.0), samples.quantile(0.5),
    /// samples.quantile(1.0)), (1.0, 2.0, 3.0));
    /// ```
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let at = (0..=last).find(|i| *i as f64 >= share * last as f64 - 0.5).unwrap_or(last);
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }
}
