//! The Universal Scalability Law: what a server does with more of something, from a few points.
//!
//! Gunther's law says that `n` workers (cores, machines, connections) do
//!
//! ```text
//!                     rate · n
//!  throughput(n) = ─────────────────────────────────────────────
//!                   1 + contention · (n − 1) + coherence · n · (n − 1)
//! ```
//!
//! where `rate` is what one does alone, `contention` the part of the work that only one can do at a
//! time, and `coherence` the price of agreeing with each of the others. With contention the curve
//! flattens; with coherence it has a peak, behind which more does less.
//!
//! What it keeps true: none of the three is negative, because nothing real is; the fit is the one
//! with the smallest sum of squared relative errors, so a slow point counts as much as a fast one.
//!
//! What it does not do: invent. Fewer than three points of different sizes are refused, and whoever
//! reads a fit gets its residuals with it.
//!
//! Source: N. Gunther, "Guerrilla Capacity Planning" (2007), chapters 4 to 6.

use serde::Serialize;

/// A measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// How many workers there were.
    pub size: f64,
    /// What they did together, a second.
    pub throughput: f64,
}

/// A fit of the law to points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// What one worker does alone, a second.
    pub rate: f64,
    /// The part of the work that only one can do at a time, from zero to one.
    pub contention: f64,
    /// The price of agreeing with each other worker.
    pub coherence: f64,
    /// For each point how far the law is from it, as a part of the point: positive where the law
    /// says more than was measured.
    pub residuals: Vec<f64>,
}

/// Why there is no fit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// Three unknowns need three sizes.
    #[error("a fit needs points of at least three different sizes")]
    TooFew,
    /// A point that no server can have.
    #[error("sizes and throughputs have to be finite and above zero")]
    Senseless,
}

impl Fit {
    /// The law that comes closest to these points.
    pub fn of(points: &[Point]) -> Result<Self, Unfit> {
        let is_sound = |value: f64| value.is_finite() && value > 0.0;
        if !points.iter().all(|point| is_sound(point.size) && is_sound(point.throughput)) {
            return Err(Unfit::Senseless);
        }
        let mut sizes: Vec<f64> = points.iter().map(|point| point.size).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        if sizes.len() < 3 {
            return Err(Unfit::TooFew);
        }
        // The time that a unit of work takes, size / throughput, is linear in what is sought:
        // a + b (n − 1) + c n (n − 1), divided by the measured value so that errors are relative.
        let rows: Vec<[f64; 3]> = points
            .iter()
            .map(|&Point { size, throughput }| {
                let weight = throughput / size;
                [weight, weight * (size - 1.0), weight * size * (size - 1.0)]
            })
            .collect();
        let best = SUPPORTS
            .iter()
            .filter_map(|support| solve(&rows, support))
            .filter(|found| found[0] > 0.0 && found[1] >= 0.0 && found[2] >= 0.0)
            .min_by(|one, other| error_of(&rows, one).total_cmp(&error_of(&rows, other)))
            .ok_or(Unfit::Senseless)?;
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

    /// What the law says `size` workers do together, a second.
    pub fn throughput(&self, size: f64) -> f64 {
        let contention = self.contention * (size - 1.0);
        let coherence = self.coherence * size * (size - 1.0);
        self.rate * size / (1.0 + contention + coherence)
    }

    /// The size behind which more does less; none where the law has no peak.
    pub fn peak_size(&self) -> Option<f64> {
        let is_peaked = self.coherence > 0.0 && self.contention < 1.0;
        is_peaked.then(|| ((1.0 - self.contention) / self.coherence).sqrt())
    }

    /// The smallest whole size that does at least `throughput` a second; none where no size does.
    pub fn size_for(&self, throughput: f64) -> Option<u64> {
        /// Behind this many workers a law that was fitted to a few points says nothing.
        const SIZE_MAX: u64 = 1 << 20;
        #[expect(clippy::cast_precision_loss, reason = "at most a million")]
        let does = |size: u64| self.throughput(size as f64) >= throughput;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a size of at most a million, saturating"
        )]
        let last =
            self.peak_size().map_or(SIZE_MAX, |peak| (peak.ceil() as u64).clamp(1, SIZE_MAX));
        // The curve rises up to its peak, which may lie between two whole sizes.
        let last = if does(last) { last } else { last.saturating_sub(1).max(1) };
        if !does(last) {
            return None;
        }
        let (mut low, mut high) = (1, last);
        while low < high {
            let middle = u64::midpoint(low, high);
            if does(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }

    /// The largest residual, whatever its sign.
    pub fn residual_max(&self) -> f64 {
        self.residuals.iter().fold(0.0, |worst: f64, residual| worst.max(residual.abs()))
    }
}

/// Which of the three are free; the others are zero. One of these is the best fit without negative
/// values.
const SUPPORTS: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];

/// The sum of squared relative errors.
fn error_of(rows: &[[f64; 3]], values: &[f64; 3]) -> f64 {
    let error = |row: &[f64; 3]| {
        let sum: f64 = row.iter().zip(values).map(|(factor, value)| factor * value).sum();
        (sum - 1.0).powi(2)
    };
    rows.iter().map(error).sum()
}

/// Least squares for `row · values = 1` over the free values: the normal equations, solved by
/// elimination with pivots. The columns are scaled to length one first, because sizes of thousands
/// would otherwise meet their squares.
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

    fn law(rate: f64, contention: f64, coherence: f64) -> Fit {
        Fit { rate, contention, coherence, residuals: Vec::new() }
    }

    fn points(law: &Fit, sizes: &[f64]) -> Vec<Point> {
        sizes.iter().map(|&size| Point { size, throughput: law.throughput(size) }).collect()
    }

    fn assert_near(one: f64, other: f64) {
        assert!((one - other).abs() <= 1e-6 * other.abs().max(1e-3), "{one} is not {other}");
    }

    #[test]
    fn the_points_of_a_law_give_the_law_back() {
        for (rate, contention, coherence) in
            [(1_000.0, 0.05, 0.000_2), (40_000.0, 0.0, 0.01), (7.0, 0.4, 0.0), (1e6, 0.0, 0.0)]
        {
            let law = law(rate, contention, coherence);
            let fit = Fit::of(&points(&law, &[1.0, 2.0, 4.0, 8.0, 16.0, 64.0])).unwrap();
            assert_near(fit.rate, rate);
            assert_near(fit.contention, contention);
            assert_near(fit.coherence, coherence);
            assert!(fit.residual_max() < 1e-6);
        }
    }

    #[test]
    fn sizes_of_tens_of_thousands_are_fitted_too() {
        let law = law(90.0, 0.000_1, 1e-9);
        let fit = Fit::of(&points(&law, &[64.0, 1_000.0, 10_000.0, 40_000.0])).unwrap();
        assert!((fit.rate / law.rate - 1.0).abs() < 1e-3, "{fit:?}");
        assert!(fit.residual_max() < 1e-6);
    }

    #[test]
    fn what_grows_more_than_evenly_is_fitted_without_negative_values() {
        let points = [(1.0, 100.0), (2.0, 220.0), (4.0, 480.0)]
            .map(|(size, throughput)| Point { size, throughput });
        let fit = Fit::of(&points).unwrap();
        assert!(fit.contention >= 0.0 && fit.coherence >= 0.0);
        assert!(fit.residual_max() > 0.05, "the law cannot say this, and the residuals tell");
    }

    #[test]
    fn the_peak_is_where_more_does_less() {
        let peaked = law(1_000.0, 0.02, 0.000_5);
        let peak = peaked.peak_size().unwrap();
        assert!(peaked.throughput(peak) > peaked.throughput(peak * 1.1));
        assert!(peaked.throughput(peak) > peaked.throughput(peak * 0.9));
        assert_eq!(law(1.0, 0.1, 0.0).peak_size(), None);
    }

    #[test]
    fn a_target_names_the_smallest_size_that_reaches_it() {
        let law = law(1_000.0, 0.02, 0.000_5);
        let size = law.size_for(10_000.0).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "a few")]
        let does = |size: u64| law.throughput(size as f64);
        assert!(does(size) >= 10_000.0 && does(size - 1) < 10_000.0);
        assert_eq!(law.size_for(1.0), Some(1));
        assert_eq!(law.size_for(1e9), None);
    }

    #[test]
    fn points_that_say_nothing_are_refused() {
        let point = |size, throughput| Point { size, throughput };
        assert_eq!(Fit::of(&[point(1.0, 2.0), point(2.0, 3.0)]), Err(Unfit::TooFew));
        let same = [point(2.0, 2.0), point(2.0, 3.0), point(2.0, 4.0)];
        assert_eq!(Fit::of(&same), Err(Unfit::TooFew));
        let bad = [point(1.0, 2.0), point(2.0, f64::NAN), point(3.0, 1.0)];
        assert_eq!(Fit::of(&bad), Err(Unfit::Senseless));
        let none = [point(0.0, 2.0), point(2.0, 1.0), point(3.0, 1.0)];
        assert_eq!(Fit::of(&none), Err(Unfit::Senseless));
    }
}
