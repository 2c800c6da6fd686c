//! Universal Scalability Law (USL), fitted to measured throughputs.
//!
//! Gunther's law for the throughput of `n` workers (cores, machines, connections):
//!
//! ```text
//!                     rate · n
//!  throughput(n) = ─────────────────────────────────────────────
//!                   1 + contention · (n − 1) + coherence · n · (n − 1)
//! ```
//!
//! `rate` is the throughput of one worker, `contention` the serial share of the work, and
//! `coherence` the cost of crosstalk between each pair of workers. Contention flattens the curve;
//! coherence gives it a peak, beyond which throughput falls.
//!
//! The fit minimizes the sum of squared relative errors, with all three parameters non-negative. It
//! needs three different sizes, and reports its residuals.
//!
//! Source: N. Gunther, "Guerrilla Capacity Planning" (2007), chapters 4 to 6.

use serde::Serialize;

/// A measured throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Number of workers.
    pub size: f64,
    /// Their total throughput a second.
    pub throughput: f64,
}

/// The law with fitted parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UslFit {
    /// Throughput of one worker a second.
    pub rate: f64,
    /// Serial share of the work, from 0 to 1.
    pub contention: f64,
    /// Cost of crosstalk between each pair of workers.
    pub coherence: f64,
    /// Relative error of the law at each point: positive if it predicts more than was measured.
    pub residuals: Vec<f64>,
}

/// The reason why no fit is possible.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Fewer than three different sizes: the law has three parameters.
    #[error("a fit needs points of at least three different sizes")]
    TooFewSizes,
    /// A size or throughput that is not finite and positive.
    #[error("sizes and throughputs have to be finite and above zero")]
    InvalidPoint,
}

impl UslFit {
    /// Fits the law to `points`.
    pub fn of(points: &[Point]) -> Result<Self, FitError> {
        let is_sound = |value: f64| value.is_finite() && value > 0.0;
        if !points.iter().all(|point| is_sound(point.size) && is_sound(point.throughput)) {
            return Err(FitError::InvalidPoint);
        }
        let mut sizes: Vec<f64> = points.iter().map(|point| point.size).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        if sizes.len() < 3 {
            return Err(FitError::TooFewSizes);
        }
        // The time of a unit of work, size / throughput, is linear in the parameters:
        // a + b (n − 1) + c n (n − 1), divided by the measured value for relative errors.
        let rows: Vec<[f64; 3]> = points
            .iter()
            .map(|&Point { size, throughput }| {
                let weight = throughput / size;
                [weight, weight * (size - 1.0), weight * size * (size - 1.0)]
            })
            .collect();
        let best = FREE_PARAMETERS
            .iter()
            .filter_map(|support| solve(&rows, support))
            .filter(|found| found[0] > 0.0 && found[1] >= 0.0 && found[2] >= 0.0)
            .min_by(|one, other| squared_error(&rows, one).total_cmp(&squared_error(&rows, other)))
            .ok_or(FitError::InvalidPoint)?;
        let mut fit = Self {
            rate: 1.0 / best[0],
            contention: best[1] / best[0],
            coherence: best[2] / best[0],
            residuals: Vec::new(),
        };
        fit.residuals = points
            .iter()
            .map(|point| fit.throughput(point.size) / point.throughput - 1.0)
            .collect();
        Ok(fit)
    }

    /// Returns the predicted throughput of `size` workers a second.
    pub fn throughput(&self, size: f64) -> f64 {
        let contention = self.contention * (size - 1.0);
        let coherence = self.coherence * size * (size - 1.0);
        self.rate * size / (1.0 + contention + coherence)
    }

    /// Returns the size with the highest throughput, or `None` if the law has no peak.
    pub fn peak_size(&self) -> Option<f64> {
        let is_peaked = self.coherence > 0.0 && self.contention < 1.0;
        is_peaked.then(|| ((1.0 - self.contention) / self.coherence).sqrt())
    }

    /// Returns the smallest whole size that reaches `throughput`, or `None` if none does.
    pub fn size_for(&self, throughput: f64) -> Option<u64> {
        /// Largest size considered; a fit to a few points predicts nothing beyond it.
        const SIZE_MAX: u64 = 1 << 20;
        #[expect(clippy::cast_precision_loss, reason = "at most a million")]
        let reaches = |size: u64| self.throughput(size as f64) >= throughput;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a size of at most a million, saturating"
        )]
        let last =
            self.peak_size().map_or(SIZE_MAX, |peak| (peak.ceil() as u64).clamp(1, SIZE_MAX));
        // The curve rises up to its peak, which may lie between two whole sizes.
        let last = if reaches(last) { last } else { last.saturating_sub(1).max(1) };
        if !reaches(last) {
            return None;
        }
        let (mut low, mut high) = (1, last);
        while low < high {
            let middle = u64::midpoint(low, high);
            if reaches(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }

    /// Returns the largest absolute residual.
    pub fn residual_max(&self) -> f64 {
        self.residuals.iter().fold(0.0, |worst: f64, residual| worst.max(residual.abs()))
    }
}

/// Sets of free parameters; the others are zero. One of these is the non-negative optimum.
const FREE_PARAMETERS: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];

/// Returns the sum of squared relative errors.
fn squared_error(rows: &[[f64; 3]], values: &[f64; 3]) -> f64 {
    let error = |row: &[f64; 3]| {
        let sum: f64 = row.iter().zip(values).map(|(factor, value)| factor * value).sum();
        (sum - 1.0).powi(2)
    };
    rows.iter().map(error).sum()
}

/// Solves least squares for `row · values = 1` over the free parameters by the normal equations,
/// with Gaussian elimination and pivoting. Columns are scaled to length one, since sizes of
/// thousands and their squares would be ill-conditioned.
fn solve(rows: &[[f64; 3]], support: &[usize]) -> Option<[f64; 3]> {
    let mut scales = [1.0; 3];
    for &column in support {
        scales[column] = rows.iter().map(|row| row[column].powi(2)).sum::<f64>().sqrt();
        if scales[column] <= 0.0 {
            return None;
        }
    }
    let dimension = support.len();
    let mut matrix = [[0.0; 4]; 3];
    for row in rows {
        for (place, &column) in support.iter().enumerate() {
            let factor = row[column] / scales[column];
            for (other, &against) in support.iter().enumerate() {
                matrix[place][other] += factor * row[against] / scales[against];
            }
            matrix[place][3] += factor;
        }
    }
    for place in 0..dimension {
        let pivot = (place..dimension).max_by(|one, other| {
            matrix[*one][place].abs().total_cmp(&matrix[*other][place].abs())
        })?;
        matrix.swap(place, pivot);
        if matrix[place][place].abs() < 1e-12 {
            return None;
        }
        for other in (0..dimension).filter(|other| *other != place) {
            let factor = matrix[other][place] / matrix[place][place];
            for column in [0, 1, 2, 3] {
                matrix[other][column] -= factor * matrix[place][column];
            }
        }
    }
    let mut values = [0.0; 3];
    for (place, &column) in support.iter().enumerate() {
        values[column] = matrix[place][3] / matrix[place][place] / scales[column];
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(rate: f64, contention: f64, coherence: f64) -> UslFit {
        UslFit { rate, contention, coherence, residuals: Vec::new() }
    }

    fn points(law: &UslFit, sizes: &[f64]) -> Vec<Point> {
        sizes.iter().map(|&size| Point { size, throughput: law.throughput(size) }).collect()
    }

    fn assert_near(one: f64, other: f64) {
        assert!((one - other).abs() <= 1e-6 * other.abs().max(1e-3), "{one} is not {other}");
    }

    #[test]
    fn fit_recovers_parameters_of_exact_law() {
        for (rate, contention, coherence) in
            [(1_000.0, 0.05, 0.000_2), (40_000.0, 0.0, 0.01), (7.0, 0.4, 0.0), (1e6, 0.0, 0.0)]
        {
            let law = law(rate, contention, coherence);
            let fit = UslFit::of(&points(&law, &[1.0, 2.0, 4.0, 8.0, 16.0, 64.0])).unwrap();
            assert_near(fit.rate, rate);
            assert_near(fit.contention, contention);
            assert_near(fit.coherence, coherence);
            assert!(fit.residual_max() < 1e-6);
        }
    }

    #[test]
    fn fit_handles_sizes_of_tens_of_thousands() {
        let law = law(90.0, 0.000_1, 1e-9);
        let fit = UslFit::of(&points(&law, &[64.0, 1_000.0, 10_000.0, 40_000.0])).unwrap();
        assert!((fit.rate / law.rate - 1.0).abs() < 1e-3, "{fit:?}");
        assert!(fit.residual_max() < 1e-6);
    }

    #[test]
    fn superlinear_points_have_no_negative_parameters() {
        let points = [(1.0, 100.0), (2.0, 220.0), (4.0, 480.0)]
            .map(|(size, throughput)| Point { size, throughput });
        let fit = UslFit::of(&points).unwrap();
        assert!(fit.contention >= 0.0 && fit.coherence >= 0.0);
        assert!(fit.residual_max() > 0.05, "the law cannot describe superlinear growth");
    }

    #[test]
    fn peak_size_has_highest_throughput() {
        let peaked = law(1_000.0, 0.02, 0.000_5);
        let peak = peaked.peak_size().unwrap();
        assert!(peaked.throughput(peak) > peaked.throughput(peak * 1.1));
        assert!(peaked.throughput(peak) > peaked.throughput(peak * 0.9));
        assert_eq!(law(1.0, 0.1, 0.0).peak_size(), None);
    }

    #[test]
    fn size_for_throughput_is_the_smallest() {
        let law = law(1_000.0, 0.02, 0.000_5);
        let size = law.size_for(10_000.0).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "a few")]
        let throughput = |size: u64| law.throughput(size as f64);
        assert!(throughput(size) >= 10_000.0 && throughput(size - 1) < 10_000.0);
        assert_eq!(law.size_for(1.0), Some(1));
        assert_eq!(law.size_for(1e9), None);
    }

    #[test]
    fn too_few_or_invalid_points_are_rejected() {
        let point = |size, throughput| Point { size, throughput };
        assert_eq!(UslFit::of(&[point(1.0, 2.0), point(2.0, 3.0)]), Err(FitError::TooFewSizes));
        let same = [point(2.0, 2.0), point(2.0, 3.0), point(2.0, 4.0)];
        assert_eq!(UslFit::of(&same), Err(FitError::TooFewSizes));
        let bad = [point(1.0, 2.0), point(2.0, f64::NAN), point(3.0, 1.0)];
        assert_eq!(UslFit::of(&bad), Err(FitError::InvalidPoint));
        let none = [point(0.0, 2.0), point(2.0, 1.0), point(3.0, 1.0)];
        assert_eq!(UslFit::of(&none), Err(FitError::InvalidPoint));
    }
}
