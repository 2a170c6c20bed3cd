//! Percentiles of measured times.

/// Times in microseconds, in the order in which they were measured.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a time.
    pub fn push(&mut self, us: f64) {
        self.0.push(us);
    }

    /// Number of times.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no times.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Percentile by nearest rank: the smallest value that at least this percentage of the samples do not
    /// exceed; 0 without samples.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied().unwrap_or_default()
    }

    /// Median.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// Minimum.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.percentile(0.0)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // the values are stored unchanged
    fn percentiles_are_nearest_ranks() {
        let hundred: Samples = (1..=100).rev().map(f64::from).collect();
        for (percent, want) in [(0.0, 1.0), (50.0, 50.0), (95.0, 95.0), (99.0, 99.0), (100.0, 100.0)] {
            assert_eq!(hundred.percentile(percent), want, "{percent}");
        }
        assert_eq!([3.0, 1.0, 2.0].into_iter().collect::<Samples>().median(), 2.0);
        assert_eq!(Samples::default().median(), 0.0);
    }
}
