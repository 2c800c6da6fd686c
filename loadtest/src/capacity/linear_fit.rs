//! Linear fit of memory over connections, with non-negative base and slope.

use serde::Serialize;

/// A least-squares line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinearFit {
    /// Value at zero.
    pub base: f64,
    /// Increase for each unit.
    pub slope: f64,
    /// Relative error of the line at each point: positive if it predicts more than was measured.
    pub residuals: Vec<f64>,
}

impl LinearFit {
    /// Fits a line to points of x and y. Returns `None` if there are fewer than two different x, or
    /// a value is not positive.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let is_sound = |(place, value): &(f64, f64)| place.is_finite() && *value > 0.0;
        if points.is_empty() || !points.iter().all(is_sound) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "a few points")]
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (middle, level) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|(place, _)| (place - middle).powi(2)).sum();
        if spread <= 0.0 {
            return None;
        }
        let along: f64 =
            points.iter().map(|(place, value)| (place - middle) * (value - level)).sum();
        let slope = along / spread;
        let (base, slope) = match slope.mul_add(-middle, level) {
            _ if slope < 0.0 => (level, 0.0),
            base if base < 0.0 => {
                let products: f64 = points.iter().map(|(place, value)| place * value).sum();
                let squares: f64 = points.iter().map(|(place, _)| place.powi(2)).sum();
                (0.0, products / squares)
            }
            base => (base, slope),
        };
        let mut line = Self { base, slope, residuals: Vec::new() };
        line.residuals =
            points.iter().map(|(place, value)| line.at(*place) / value - 1.0).collect();
        Some(line)
    }

    /// Returns the value of the line at `place`.
    pub fn at(&self, place: f64) -> f64 {
        self.slope.mul_add(place, self.base)
    }

    /// Returns the largest absolute residual.
    pub fn residual_max(&self) -> f64 {
        self.residuals.iter().fold(0.0, |worst: f64, residual| worst.max(residual.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_recovers_exact_line() {
        let line = LinearFit::of(&[(0.0, 10.0), (100.0, 30.0), (200.0, 50.0)]).unwrap();
        assert!((line.base - 10.0).abs() < 1e-9 && (line.slope - 0.2).abs() < 1e-12);
        assert!((line.at(1_000.0) - 210.0).abs() < 1e-9 && line.residual_max() < 1e-12);
    }

    #[test]
    fn residuals_show_nonlinear_points() {
        // By hand: the slope is 7.5 / 5, the mean 4 at 1.5; the line is 1.75, 3.25, 4.75, 6.25.
        let line = LinearFit::of(&[(0.0, 2.0), (1.0, 3.0), (2.0, 4.5), (3.0, 6.5)]).unwrap();
        assert!((line.slope - 1.5).abs() < 1e-12 && (line.base - 1.75).abs() < 1e-12);
        assert!((line.residuals[0] + 0.125).abs() < 1e-12, "{line:?}");
        assert!((line.residual_max() - 0.125).abs() < 1e-12);
    }

    #[test]
    fn base_and_slope_are_never_negative() {
        let falling = LinearFit::of(&[(1.0, 30.0), (2.0, 20.0), (3.0, 10.0)]).unwrap();
        assert!((falling.base - 20.0).abs() < 1e-12 && falling.slope.abs() < f64::EPSILON);
        // By hand: (10·1 + 20·15) / (100 + 400).
        let steep = LinearFit::of(&[(10.0, 1.0), (20.0, 15.0)]).unwrap();
        assert!(steep.base.abs() < f64::EPSILON && (steep.slope - 0.62).abs() < 1e-12);
        assert!(steep.residual_max() > 1.0);
    }

    #[test]
    fn line_needs_two_different_positive_points() {
        assert_eq!(LinearFit::of(&[]), None);
        assert_eq!(LinearFit::of(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(LinearFit::of(&[(1.0, 0.0), (2.0, 3.0)]), None);
        assert_eq!(LinearFit::of(&[(1.0, f64::NAN), (2.0, 3.0)]), None);
    }
}
