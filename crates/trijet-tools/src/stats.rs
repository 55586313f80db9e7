//! The samples of a figure, with their median and spread.
#![forbid(unsafe_code)]

/// Maximum spread of a figure that does not count as noisy, as a fraction of its median.
pub const SPREAD_MAX: f64 = 0.2;

/// The samples of one figure, in ascending order.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// The sample of a figure that is measured only once.
    #[must_use]
    pub fn one(value: f64) -> Self {
        Self(vec![value])
    }

    /// The samples with these values, which may be in any order.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        Self(values)
    }

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

    /// The difference between the largest and the smallest sample, as a fraction of the median. 0
    /// if there are no samples.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        let spread = (self.quantile(1.0) - self.quantile(0.0)) / self.quantile(0.5);
        if spread.is_nan() { 0.0 } else { spread }
    }

    /// Whether the spread is more than 20 %. A printed figure with such a spread is marked as
    /// noisy.
    ///
    /// ```
    /// let samples = |values: [f64; 3]| {
    ///     let mut samples = trijet_tools::stats::Samples::default();
    ///     values.into_iter().for_each(|value| samples.push(value));
    ///     samples
    /// };
    /// assert!(samples([10.0, 10.0, 12.5]).is_noisy() && !samples([10.0, 10.0, 11.5]).is_noisy());
    /// ```
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.spread() > SPREAD_MAX
    }

    /// The sample below which the fraction `share` of the samples lie, by the nearest rank. NaN if
    /// there are no samples.
    ///
    /// ```
    /// let mut samples = trijet_tools::stats::Samples::default();
    /// [3.0, 1.0, 2.0].map(|value| samples.push(value));
    /// let quantiles = [0.0, 0.5, 1.0].map(|share| samples.quantile(share));
    /// assert_eq!(quantiles, [1.0, 2.0, 3.0]);
    /// ```
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let at = (0..=last).find(|i| *i as f64 >= share * last as f64 - 0.5).unwrap_or(last);
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }
}
