//! What a server needs for more than was measured: the arithmetic of capacity.
//!
//! ```text
//!  results ──▶ points ──┬─▶ law of scalability ──┐
//!                       ├─▶ what a core bears  ──┼─▶ need: cores, machines, memory
//!                       └─▶ line of memory     ──┘
//! ```
//!
//! What it keeps true: where the law has nothing to say (too few sizes, or points that it does not
//! follow), the lowest that a core was seen to bear is counted with, and the answer says so; how
//! far a number lies beyond what was measured goes with it ([`Reach`]).
//!
//! What it does not do: read results, or write tables. It knows numbers only.

pub mod line;
pub mod need;

use serde::{Deserialize, Serialize};

use self::line::Line;
use crate::scalability::{Fit, Point};

/// A law that is further than this from one of its points, as a part of the point, is not counted
/// with.
pub const RESIDUAL_MAX: f64 = 0.15;

/// What the sizes are counts of.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeOf {
    /// Cores that the server has.
    #[default]
    Cores,
    /// Connections.
    Connections,
    /// Threads of the generator.
    Workers,
}

/// The most that was measured at one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// What it is called in tables.
    pub name: String,
    /// The size.
    pub size: f64,
    /// Connections that it had.
    pub connections: u64,
    /// The highest rate at which the thresholds were kept, in answers a second.
    pub rate: f64,
    /// CPU time of the server at that rate, as a part of one core; none where it was not watched.
    pub cores_used: Option<f64>,
    /// The most resident memory of the server, in bytes; none where it was not watched.
    pub resident_bytes: Option<u64>,
}

impl Measured {
    /// Whole cores that the server occupied: what it left idle of the last one at the threshold is
    /// not to be had, because more would have missed the threshold. A tenth of a core is left out,
    /// for threads that do something else.
    pub fn cores_occupied(&self) -> Option<f64> {
        self.cores_used.map(|cores| (cores - 0.1).ceil().max(1.0))
    }
}

/// How far a size lies from what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Not beyond the largest that was measured.
    Measured,
    /// Beyond, but at most twice as large.
    Near,
    /// So many times as large as the largest that was measured.
    Far(f64),
}

impl Reach {
    /// Of a size, where this was the largest that was measured.
    pub fn of(size: f64, largest: f64) -> Self {
        match size / largest {
            factor if factor <= 1.0 => Self::Measured,
            factor if factor <= 2.0 => Self::Near,
            factor => Self::Far(factor),
        }
    }
}

/// What the points say together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    /// What the sizes are counts of.
    pub size_of: SizeOf,
    /// The points, the smallest size first.
    pub points: Vec<Measured>,
    /// The law that comes closest to them; its residuals are in the order of the points.
    pub fit: Option<Fit>,
    /// Why there is no law; none where there is one.
    pub unfit: Option<String>,
    /// What memory does with connections, where both were measured for two numbers of connections
    /// or more; its residuals are in the order of the points that have memory.
    pub memory: Option<Line>,
}

impl Survey {
    /// Of these points.
    pub fn of(size_of: SizeOf, mut points: Vec<Measured>) -> Self {
        points.sort_by(|one, other| one.size.total_cmp(&other.size));
        let law: Vec<Point> =
            points.iter().map(|it| Point { size: it.size, throughput: it.rate }).collect();
        let (fit, unfit) = match Fit::of(&law) {
            Ok(fit) => (Some(fit), None),
            Err(why) => (None, Some(why.to_string())),
        };
        let seen = points.iter().filter_map(|it| Some((float(it.connections), it.resident_bytes?)));
        let seen: Vec<(f64, f64)> = seen.map(|(at, bytes)| (at, float(bytes))).collect();
        Self { size_of, points, fit, unfit, memory: Line::of(&seen) }
    }

    /// The law, where it follows its points well enough to be counted with.
    pub fn law(&self) -> Option<&Fit> {
        self.fit.as_ref().filter(|fit| fit.residual_max() <= RESIDUAL_MAX)
    }

    /// The largest size that was measured.
    pub fn size_max(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.size)
    }

    /// The most connections that were measured.
    pub fn connections_max(&self) -> u64 {
        self.points.iter().map(|point| point.connections).max().unwrap_or_default()
    }

    /// Cores of the server at a point: its size where that is what sizes count, else what it
    /// occupied; none where neither is known.
    pub fn cores_of(&self, point: &Measured) -> Option<f64> {
        match self.size_of {
            SizeOf::Cores => Some(point.size),
            SizeOf::Connections | SizeOf::Workers => point.cores_occupied(),
        }
    }

    /// The lowest rate that a core was seen to bear, with the point at which that was.
    pub fn core_rate_min(&self) -> Option<(f64, &Measured)> {
        let rates = self.points.iter().filter_map(|it| Some((it.rate / self.cores_of(it)?, it)));
        rates.min_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// The most connections that a core was seen to hold at the thresholds, with the point.
    pub fn core_connections_max(&self) -> Option<(f64, &Measured)> {
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

    fn point(size: f64, connections: u64, rate: f64, cores_used: f64, mebibytes: u64) -> Measured {
        Measured {
            name: format!("{size}.json"),
            size,
            connections,
            rate,
            cores_used: Some(cores_used),
            resident_bytes: Some(mebibytes << 20),
        }
    }

    #[test]
    fn a_core_bears_the_least_and_holds_the_most_that_was_seen() {
        let survey = Survey::of(
            SizeOf::Cores,
            vec![
                point(4.0, 400, 3_200.0, 3.9, 14),
                point(1.0, 200, 1_000.0, 0.9, 12),
                point(2.0, 100, 1_900.0, 1.9, 11),
            ],
        );
        let (rate, at) = survey.core_rate_min().unwrap();
        assert!((rate - 800.0).abs() < 1e-9 && at.name == "4.json");
        let (held, at) = survey.core_connections_max().unwrap();
        assert!((held - 200.0).abs() < 1e-9 && at.name == "1.json");
        assert_eq!((survey.size_max(), survey.connections_max()), (4.0, 400));
        assert!(survey.fit.is_some() && survey.unfit.is_none());
        // 10 MiB and a hundredth of a MiB a connection.
        let memory = survey.memory.unwrap();
        let mebibyte = f64::from(1 << 20);
        assert!((memory.base / mebibyte - 10.0).abs() < 1e-9, "{memory:?}");
        assert!((memory.slope / mebibyte - 0.01).abs() < 1e-12, "{memory:?}");
    }

    #[test]
    fn cores_are_occupied_whole_and_a_tenth_is_left_out() {
        let occupied = |cores_used| point(1.0, 1, 1.0, cores_used, 1).cores_occupied().unwrap();
        for (used, cores) in [(0.02, 1.0), (0.6, 1.0), (1.05, 1.0), (1.2, 2.0), (3.4, 4.0)] {
            assert!((occupied(used) - cores).abs() < f64::EPSILON, "{used}");
        }
        assert_eq!(Measured::default().cores_occupied(), None);
    }

    #[test]
    fn a_size_beyond_twice_the_largest_is_far() {
        assert_eq!(Reach::of(4.0, 4.0), Reach::Measured);
        assert_eq!(Reach::of(8.0, 4.0), Reach::Near);
        assert_eq!(Reach::of(12.0, 4.0), Reach::Far(3.0));
    }

    #[test]
    fn too_few_sizes_have_no_law_and_say_why() {
        let survey = Survey::of(SizeOf::Connections, vec![point(64.0, 64, 1_000.0, 0.9, 12)]);
        assert!(survey.fit.is_none() && survey.unfit.unwrap().contains("three"));
        assert_eq!(survey.memory, None);
    }
}
