//! What a target load needs, from measured results.
//!
//! The lowest measured rate of a core and the measured memory of a connection are scaled in
//! proportion to the target. Nothing is said of what happens beyond the measured sizes except how
//! far beyond they are.

pub mod linear_fit;

use serde::Serialize;

use self::linear_fit::LinearFit;

/// The highest sustained load of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredPoint {
    /// Name shown in tables.
    pub name: String,
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

    /// Returns the rate of each occupied core.
    pub fn core_rate(&self) -> Option<f64> {
        self.cores_occupied().map(|cores| self.rate / cores)
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// The points, those with the fewest connections first.
    pub points: Vec<MeasuredPoint>,
    /// Memory over connections, if measured at two numbers of connections or more; its residuals
    /// are in the order of the points with memory.
    pub memory: Option<LinearFit>,
}

impl Capacity {
    /// Collects points.
    pub fn of(mut points: Vec<MeasuredPoint>) -> Self {
        points.sort_by_key(|point| point.connections);
        let seen = points.iter().filter_map(|it| Some((float(it.connections), it.resident_bytes?)));
        let seen: Vec<(f64, f64)> = seen.map(|(at, bytes)| (at, float(bytes))).collect();
        Self { points, memory: LinearFit::of(&seen) }
    }

    /// Returns the point with the lowest rate of a core, with that rate; `None` if no server was
    /// watched.
    pub fn core_rate_min(&self) -> Option<(f64, &MeasuredPoint)> {
        let rates = self.points.iter().filter_map(|point| Some((point.core_rate()?, point)));
        rates.min_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// Returns the most cores that a measured server occupied.
    fn cores_max(&self) -> f64 {
        self.points.iter().filter_map(MeasuredPoint::cores_occupied).fold(1.0, f64::max)
    }

    /// Returns the highest measured number of connections.
    pub fn connections_max(&self) -> u64 {
        self.points.iter().map(|point| point.connections).max().unwrap_or_default()
    }
}

/// A load, and the machines that have to carry it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CapacityTarget {
    /// Requests a second.
    pub rate: f64,
    /// Open connections.
    pub connections: u64,
    /// Share of all resources kept free.
    pub headroom: f64,
    /// Cores of a machine.
    pub machine_cores: Option<u64>,
    /// Memory of a machine, in bytes.
    pub machine_bytes: Option<u64>,
}

/// What a target needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Requirement {
    /// The rate including headroom.
    pub rate: f64,
    /// Lowest measured rate of a core.
    pub core_rate: f64,
    /// Total cores.
    pub cores: u64,
    /// Cores of one server as a multiple of the most that were measured.
    pub cores_factor: f64,
    /// Machines needed for the cores.
    pub machines_for_cores: Option<u64>,
    /// Machines needed for the memory.
    pub machines_for_memory: Option<u64>,
    /// Resident memory of the server on each machine, or on one if machines are not counted.
    pub memory_bytes: Option<f64>,
    /// Connections of one server as a multiple of the most that were measured.
    pub connections_factor: f64,
}

/// Why a requirement cannot be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequirementError {
    /// No point has the CPU of the server.
    #[error("no result has the CPU of the server: measure with --pid or --server")]
    CpuNotMeasured,
    /// The base memory of the server exceeds the usable memory of a machine.
    #[error("a server without connections needs {0:.0} of {1:.0} usable bytes: add memory")]
    InsufficientMemory(f64, f64),
}

impl Requirement {
    /// Computes what `target` needs.
    ///
    /// # Errors
    ///
    /// If measurements are missing, or no machine is large enough.
    pub fn of(measured: &Capacity, target: &CapacityTarget) -> Result<Self, RequirementError> {
        let rate = target.rate / (1.0 - target.headroom);
        let (core_rate, _) = measured.core_rate_min().ok_or(RequirementError::CpuNotMeasured)?;
        let cores = whole(rate / core_rate);
        let machines_for_cores = target.machine_cores.map(|machine| cores.div_ceil(machine));
        let machines_for_memory = machines_for_memory(measured, target)?;
        let machines = machines_for_cores.max(machines_for_memory);
        let of_one = |total: u64| float(total) / float(machines.unwrap_or(1));
        let connections = of_one(target.connections);
        Ok(Self {
            rate,
            core_rate,
            cores,
            cores_factor: of_one(cores) / measured.cores_max(),
            machines_for_cores,
            machines_for_memory,
            memory_bytes: measured.memory.as_ref().map(|line| line.at(connections)),
            connections_factor: connections / float(measured.connections_max().max(1)),
        })
    }

    /// Returns the machines for both.
    pub fn machines(&self) -> Option<u64> {
        self.machines_for_cores.max(self.machines_for_memory)
    }

    /// Returns whether memory needs more machines than the cores.
    pub fn is_limited_by_memory(&self) -> bool {
        self.machines_for_memory > self.machines_for_cores
    }
}

/// Returns the machines whose memory holds the connections, or `None` without a limit.
fn machines_for_memory(
    measured: &Capacity,
    target: &CapacityTarget,
) -> Result<Option<u64>, RequirementError> {
    let (Some(line), Some(bytes)) = (&measured.memory, target.machine_bytes) else {
        return Ok(None);
    };
    let usable = float(bytes) * (1.0 - target.headroom);
    let available = usable - line.base;
    if available <= 0.0 {
        return Err(RequirementError::InsufficientMemory(line.base, usable));
    }
    Ok(Some(whole(float(target.connections) * line.slope / available)))
}

/// Rounds up to a whole number of at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and saturating"
)]
fn whole(value: f64) -> u64 {
    // Tolerates rounding errors of values that should be whole.
    ((value - 1e-9).ceil() as u64).max(1)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(connections: u64, rate: f64, cores: f64) -> MeasuredPoint {
        MeasuredPoint {
            connections,
            rate,
            cores_used: Some(cores),
            // 10 MB and 1 KB a connection.
            resident_bytes: Some(10_000_000 + connections * 1_000),
            ..MeasuredPoint::default()
        }
    }

    const TARGET: CapacityTarget = CapacityTarget {
        rate: 7_000.0,
        connections: 2_000,
        headroom: 0.3,
        machine_cores: Some(8),
        machine_bytes: None,
    };

    #[test]
    fn lowest_rate_of_a_core_is_scaled() {
        // 1,000/s and 900/s for each core.
        let measured = Capacity::of(vec![point(2_000, 1_800.0, 1.97), point(1_000, 1_000.0, 0.9)]);
        assert_eq!(measured.points[0].connections, 1_000);
        let needed = Requirement::of(&measured, &TARGET).unwrap();
        assert!((needed.rate - 10_000.0).abs() < 1e-6);
        assert_eq!((needed.cores, needed.machines()), (12, Some(2)));
        assert!((needed.cores_factor - 3.0).abs() < 1e-9 && !needed.is_limited_by_memory());
        let alone = CapacityTarget { machine_cores: None, ..TARGET };
        let alone = Requirement::of(&measured, &alone).unwrap();
        assert_eq!((alone.cores, alone.machines()), (12, None));
    }

    #[test]
    fn memory_limits_machines_when_scarcer() {
        let measured = Capacity::of(vec![point(1_000, 1_000.0, 1.0), point(2_000, 2_000.0, 2.0)]);
        // 70 MB are usable, 60 MB of it by connections: 200,000 of them need 3.33 machines.
        let target =
            CapacityTarget { connections: 200_000, machine_bytes: Some(100_000_000), ..TARGET };
        let needed = Requirement::of(&measured, &target).unwrap();
        assert_eq!((needed.machines_for_cores, needed.machines_for_memory), (Some(2), Some(4)));
        assert!(needed.machines() == Some(4) && needed.is_limited_by_memory());
        assert!((needed.memory_bytes.unwrap() - 60_000_000.0).abs() < 1.0, "{needed:?}");
        assert!((needed.connections_factor - 25.0).abs() < 1e-9);
        let small = CapacityTarget { machine_bytes: Some(10_000_000), ..target };
        let none = Requirement::of(&measured, &small);
        assert!(matches!(none, Err(RequirementError::InsufficientMemory(..))), "{none:?}");
    }

    #[test]
    fn requirement_needs_cpu_of_server() {
        let unwatched = MeasuredPoint { cores_used: None, ..point(1_000, 1_000.0, 1.0) };
        let error = Requirement::of(&Capacity::of(vec![unwatched]), &TARGET).unwrap_err();
        assert!(error.to_string().contains("--pid"), "{error}");
    }
}
