//! Capacity model: predicts from measured points what a server needs for a higher load.
//!
//! ```text
//!  results ──▶ points ──┬─▶ scalability law  ──┐
//!                       ├─▶ rate of a core   ──┼─▶ requirement: cores, machines, memory
//!                       └─▶ line of memory   ──┘
//! ```
//!
//! If the law cannot be used (too few sizes, or large residuals), the lowest measured rate of a
//! core is used instead, and the result notes it. Every prediction states how far it extrapolates
//! ([`Extrapolation`]).

pub mod linear_fit;
pub mod requirement;

use serde::{Deserialize, Serialize};

use self::linear_fit::LinearFit;
use crate::scalability::{Point, UslFit};

/// Largest relative residual for which a law is used.
pub const RESIDUAL_MAX: f64 = 0.15;

/// The unit of sizes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeUnit {
    /// Cores of the server.
    #[default]
    Cores,
    /// Connections.
    Connections,
    /// Threads of the load generator.
    Threads,
}

/// The highest sustained load measured at one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredPoint {
    /// Name shown in tables.
    pub name: String,
    /// The size.
    pub size: f64,
    /// Number of connections.
    pub connections: u64,
    /// Highest rate within the thresholds, in responses a second.
    pub rate: f64,
    /// Cores used by the server at that rate, or `None` if it was not watched.
    pub cores_used: Option<f64>,
    /// Highest resident memory of the server, in bytes, or `None` if it was not watched.
    pub resident_bytes: Option<u64>,
}

impl MeasuredPoint {
    /// Returns the whole cores that the server occupied. Idle time of the last core is not
    /// available, since a higher rate missed the threshold. A tenth of a core is ignored, for other
    /// threads.
    pub fn cores_occupied(&self) -> Option<f64> {
        self.cores_used.map(|cores| (cores - 0.1).ceil().max(1.0))
    }
}

/// How far a size lies beyond the measured range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Extrapolation {
    /// Within the measured range.
    Within,
    /// At most twice the largest measured size.
    Near,
    /// This many times the largest measured size.
    Far(f64),
}

impl Extrapolation {
    /// Returns the extrapolation of `size` from the largest measured size.
    pub fn of(size: f64, largest: f64) -> Self {
        match size / largest {
            factor if factor <= 1.0 => Self::Within,
            factor if factor <= 2.0 => Self::Near,
            factor => Self::Far(factor),
        }
    }
}

/// A capacity model fitted to measured points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapacityModel {
    /// The unit of sizes.
    pub size_unit: SizeUnit,
    /// The points in ascending order of size.
    pub points: Vec<MeasuredPoint>,
    /// The fitted scalability law; its residuals are in the order of the points.
    pub fit: Option<UslFit>,
    /// Why there is no fit.
    pub fit_error: Option<String>,
    /// Memory over connections, if measured at two numbers of connections or more; its residuals
    /// are in the order of the points with memory.
    pub memory: Option<LinearFit>,
}

impl CapacityModel {
    /// Fits the model to `points`.
    pub fn fit_points(size_unit: SizeUnit, mut points: Vec<MeasuredPoint>) -> Self {
        points.sort_by(|one, other| one.size.total_cmp(&other.size));
        let law: Vec<Point> =
            points.iter().map(|it| Point { size: it.size, throughput: it.rate }).collect();
        let (fit, fit_error) = match UslFit::of(&law) {
            Ok(fit) => (Some(fit), None),
            Err(why) => (None, Some(why.to_string())),
        };
        let seen = points.iter().filter_map(|it| Some((float(it.connections), it.resident_bytes?)));
        let seen: Vec<(f64, f64)> = seen.map(|(at, bytes)| (at, float(bytes))).collect();
        Self { size_unit, points, fit, fit_error, memory: LinearFit::of(&seen) }
    }

    /// Returns the law if its residuals are small enough.
    pub fn usable_fit(&self) -> Option<&UslFit> {
        self.fit.as_ref().filter(|fit| fit.residual_max() <= RESIDUAL_MAX)
    }

    /// Returns the largest measured size.
    pub fn size_max(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.size)
    }

    /// Returns the highest measured number of connections.
    pub fn connections_max(&self) -> u64 {
        self.points.iter().map(|point| point.connections).max().unwrap_or_default()
    }

    /// Returns the cores of the server at a point: its size if sizes are cores, else the occupied
    /// cores; `None` if unknown.
    pub fn cores_of(&self, point: &MeasuredPoint) -> Option<f64> {
        match self.size_unit {
            SizeUnit::Cores => Some(point.size),
            SizeUnit::Connections | SizeUnit::Threads => point.cores_occupied(),
        }
    }

    /// Returns the lowest measured rate of a core, with its point.
    pub fn core_rate_min(&self) -> Option<(f64, &MeasuredPoint)> {
        let rates = self.points.iter().filter_map(|it| Some((it.rate / self.cores_of(it)?, it)));
        rates.min_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// Returns the highest measured number of connections of a core, with its point.
    pub fn core_connections_max(&self) -> Option<(f64, &MeasuredPoint)> {
        let held = self
            .points
            .iter()
            .filter_map(|it| Some((float(it.connections) / self.cores_of(it)?, it)));
        held.max_by(|one, other| one.0.total_cmp(&other.0))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and bytes for people")]
const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(
        size: f64,
        connections: u64,
        rate: f64,
        cores_used: f64,
        mebibytes: u64,
    ) -> MeasuredPoint {
        MeasuredPoint {
            name: format!("{size}.json"),
            size,
            connections,
            rate,
            cores_used: Some(cores_used),
            resident_bytes: Some(mebibytes << 20),
        }
    }

    #[test]
    fn model_uses_worst_rate_and_connections_of_core() {
        let model = CapacityModel::fit_points(
            SizeUnit::Cores,
            vec![
                point(4.0, 400, 3_200.0, 3.9, 14),
                point(1.0, 200, 1_000.0, 0.9, 12),
                point(2.0, 100, 1_900.0, 1.9, 11),
            ],
        );
        let (rate, at) = model.core_rate_min().unwrap();
        assert!((rate - 800.0).abs() < 1e-9 && at.name == "4.json");
        let (held, at) = model.core_connections_max().unwrap();
        assert!((held - 200.0).abs() < 1e-9 && at.name == "1.json");
        assert_eq!((model.size_max(), model.connections_max()), (4.0, 400));
        assert!(model.fit.is_some() && model.fit_error.is_none());
        // 10 MiB, and 0.01 MiB for each connection.
        let memory = model.memory.unwrap();
        let mebibyte = f64::from(1 << 20);
        assert!((memory.base / mebibyte - 10.0).abs() < 1e-9, "{memory:?}");
        assert!((memory.slope / mebibyte - 0.01).abs() < 1e-12, "{memory:?}");
    }

    #[test]
    fn occupied_cores_round_up_from_a_tenth() {
        let occupied = |cores_used| point(1.0, 1, 1.0, cores_used, 1).cores_occupied().unwrap();
        for (used, cores) in [(0.02, 1.0), (0.6, 1.0), (1.05, 1.0), (1.2, 2.0), (3.4, 4.0)] {
            assert!((occupied(used) - cores).abs() < f64::EPSILON, "{used}");
        }
        assert_eq!(MeasuredPoint::default().cores_occupied(), None);
    }

    #[test]
    fn size_beyond_twice_largest_is_far() {
        assert_eq!(Extrapolation::of(4.0, 4.0), Extrapolation::Within);
        assert_eq!(Extrapolation::of(8.0, 4.0), Extrapolation::Near);
        assert_eq!(Extrapolation::of(12.0, 4.0), Extrapolation::Far(3.0));
    }

    #[test]
    fn too_few_sizes_have_no_fit() {
        let model = CapacityModel::fit_points(
            SizeUnit::Connections,
            vec![point(64.0, 64, 1_000.0, 0.9, 12)],
        );
        assert!(model.fit.is_none() && model.fit_error.unwrap().contains("three"));
        assert_eq!(model.memory, None);
    }
}
