//! Requirements of a target load: cores, machines, memory, and the limiting resource.
//!
//! The number of machines for the rate is computed by the best of three methods ([`Basis`]) that
//! the measured sizes allow:
//!
//! - sizes are cores, and there is a law: the law predicts the rate of a machine by its cores, at
//!   most those at the peak;
//! - sizes are connections, there is a law, and the server's CPU is known: the connections are
//!   divided over servers like the measured one until each sustains its share;
//! - otherwise: the lowest measured rate of a core, multiplied by the cores.

use serde::Serialize;

use super::{CapacityModel, Extrapolation, SizeUnit, float};
use crate::scalability::UslFit;

/// Highest number of cores considered.
const CORES_MAX: u64 = 1 << 20;

/// A target load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CapacityTarget {
    /// Requests a second.
    pub rate: f64,
    /// Connections that are open at the same time.
    pub connections: u64,
    /// Share of all resources kept free, from 0 to less than 1.
    pub headroom: f64,
    /// Cores of a machine; without it machines are not counted.
    pub machine_cores: Option<u64>,
    /// Memory of a machine, in bytes; without it memory is not limited.
    pub machine_bytes: Option<u64>,
}

/// How the number of cores was computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum Basis {
    /// By the law over cores.
    CoreLaw {
        /// Cores of one machine in use: at most those at the peak.
        size: f64,
        /// Their predicted rate a second.
        rate: f64,
    },
    /// By the law over connections.
    ConnectionLaw {
        /// Connections of one server like the measured one.
        size: f64,
        /// Cores of such a server.
        server_cores: f64,
        /// Predicted rate of a core a second.
        core_rate: f64,
    },
    /// By the lowest measured rate of a core, scaled linearly.
    Linear {
        /// Rate of a core a second.
        core_rate: f64,
    },
}

/// The limiting resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitingResource {
    /// CPU, limited by the rate.
    Cores,
    /// Memory, limited by the connections.
    Memory,
}

/// The requirements of a target load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Requirement {
    /// The required rate including headroom.
    pub rate: f64,
    /// How the number of cores was computed.
    pub basis: Basis,
    /// Extrapolation of that computation.
    pub extrapolation: Extrapolation,
    /// Total cores.
    pub cores: u64,
    /// Machines needed for the cores.
    pub machines_for_cores: Option<u64>,
    /// Machines needed for the memory.
    pub machines_for_memory: Option<u64>,
    /// The larger of the two.
    pub machines: Option<u64>,
    /// The resource that needs more machines.
    pub limited_by: LimitingResource,
    /// Resident memory of the server on each machine, or on one if machines are not counted.
    pub memory_bytes: Option<f64>,
    /// Extrapolation of the connections of a machine.
    pub memory_extrapolation: Extrapolation,
}

/// Why the requirement cannot be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequirementError {
    /// No point has the CPU of the server.
    #[error("no result has the CPU of the server: measure with --pid or --server")]
    CpuNotMeasured,
    /// The rate is above the peak of the law, and machines are not counted.
    #[error("a single machine cannot reach {0:.0}/s by the model: add --cores-per-machine")]
    AbovePeak(f64),
    /// More than the highest number of cores considered would be needed.
    #[error("no number of cores reaches {0:.0}/s on so few connections: lower the target rate")]
    Unreachable(f64),
    /// The base memory of the server exceeds the usable memory of a machine.
    #[error("a server without connections needs {0:.0} of {1:.0} usable bytes: add memory")]
    InsufficientMemory(f64, f64),
}

impl Requirement {
    /// Computes the requirement of `wanted`.
    ///
    /// # Errors
    ///
    /// If the model lacks the measurements, or the target cannot be reached.
    pub fn of(model: &CapacityModel, target: &CapacityTarget) -> Result<Self, RequirementError> {
        let rate = target.rate / (1.0 - target.headroom);
        let (basis, reach, cores, machines_for_cores) = cores(model, target, rate)?;
        let machines_for_memory = machines_for_memory(model, target)?;
        let (machines, decides) = match (machines_for_cores, machines_for_memory) {
            (Some(cores), Some(memory)) if memory > cores => {
                (Some(memory), LimitingResource::Memory)
            }
            (None, Some(memory)) => (Some(memory), LimitingResource::Memory),
            (cores, _) => (cores, LimitingResource::Cores),
        };
        let connections = float(target.connections) / float(machines.unwrap_or(1));
        Ok(Self {
            rate,
            basis,
            extrapolation: reach,
            cores,
            machines_for_cores,
            machines_for_memory,
            machines,
            limited_by: decides,
            memory_bytes: model.memory.as_ref().map(|line| line.at(connections)),
            memory_extrapolation: Extrapolation::of(connections, float(model.connections_max())),
        })
    }
}

type CoreRequirement = (Basis, Extrapolation, u64, Option<u64>);

/// Computes the cores for `rate`.
fn cores(
    model: &CapacityModel,
    target: &CapacityTarget,
    rate: f64,
) -> Result<CoreRequirement, RequirementError> {
    match (model.size_unit, model.usable_fit()) {
        (SizeUnit::Cores, Some(fit)) => by_core_law(model, fit, target, rate),
        (SizeUnit::Connections, Some(fit)) => by_connection_law(model, fit, target, rate),
        _ => {
            let (core_rate, _) = model.core_rate_min().ok_or(RequirementError::CpuNotMeasured)?;
            let cores = whole(rate / core_rate);
            let measured = model.points.iter().filter_map(|point| model.cores_of(point));
            let largest = measured.fold(1.0, f64::max);
            let size = target.machine_cores.map_or(cores, |machine| machine.min(cores));
            let machines = target.machine_cores.map(|machine| cores.div_ceil(machine));
            Ok((
                Basis::Linear { core_rate },
                Extrapolation::of(float(size), largest),
                cores,
                machines,
            ))
        }
    }
}

fn by_core_law(
    model: &CapacityModel,
    fit: &UslFit,
    target: &CapacityTarget,
    rate: f64,
) -> Result<CoreRequirement, RequirementError> {
    let result = |size: f64, cores, machines| {
        let basis = Basis::CoreLaw { size, rate: fit.throughput(size) };
        (basis, Extrapolation::of(size, model.size_max()), cores, machines)
    };
    let single = fit.size_for(rate);
    let Some(machine) = target.machine_cores else {
        let cores = single.ok_or(RequirementError::AbovePeak(rate))?;
        return Ok(result(float(cores), cores, None));
    };
    // Beyond the peak more cores lower the throughput, so they are left idle.
    let used =
        fit.peak_size().map_or_else(|| float(machine), |peak| peak.floor().min(float(machine)));
    let used = used.max(1.0);
    match single {
        Some(cores) if float(cores) <= used => Ok(result(float(cores), cores, Some(1))),
        _ => {
            let machines = whole(rate / fit.throughput(used));
            Ok(result(used, machines.saturating_mul(machine), Some(machines)))
        }
    }
}

fn by_connection_law(
    model: &CapacityModel,
    fit: &UslFit,
    target: &CapacityTarget,
    rate: f64,
) -> Result<CoreRequirement, RequirementError> {
    let mut occupied: Vec<f64> =
        model.points.iter().filter_map(|point| model.cores_of(point)).collect();
    occupied.sort_by(f64::total_cmp);
    let server_cores = *occupied.get(occupied.len() / 2).ok_or(RequirementError::CpuNotMeasured)?;
    // The connections of one server if all are divided over this many cores.
    let share = |cores: u64| (float(target.connections) * server_cores / float(cores)).max(1.0);
    let core_rate = |cores: u64| fit.throughput(share(cores)) / server_cores;
    // Monotonic: another core relieves the others of connections and makes each faster.
    let suffices = |cores: u64| float(cores) * core_rate(cores) >= rate;
    let most = CORES_MAX.min(target.connections.max(1));
    if !suffices(most) {
        return Err(RequirementError::Unreachable(rate));
    }
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = u64::midpoint(low, high);
        if suffices(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let size = share(low);
    let basis = Basis::ConnectionLaw { size, server_cores, core_rate: core_rate(low) };
    let machines = target.machine_cores.map(|machine| low.div_ceil(machine));
    Ok((basis, Extrapolation::of(size, model.size_max()), low, machines))
}

/// Returns the machines whose memory holds the connections, or `None` without a limit.
fn machines_for_memory(
    model: &CapacityModel,
    target: &CapacityTarget,
) -> Result<Option<u64>, RequirementError> {
    let (Some(line), Some(bytes)) = (&model.memory, target.machine_bytes) else { return Ok(None) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::MeasuredPoint;

    fn law(rate: f64, contention: f64, coherence: f64) -> UslFit {
        UslFit { rate, contention, coherence, residuals: Vec::new() }
    }

    /// Returns a model of points that lie exactly on a law.
    fn model(size_of: SizeUnit, law: &UslFit, sizes: &[f64]) -> CapacityModel {
        let point = |&size: &f64| MeasuredPoint {
            size,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            connections: if size_of == SizeUnit::Connections { size as u64 } else { 64 },
            rate: law.throughput(size),
            cores_used: Some(if size_of == SizeUnit::Cores { size } else { 0.9 }),
            ..MeasuredPoint::default()
        };
        CapacityModel::fit_points(size_of, sizes.iter().map(point).collect())
    }

    const WANTED: CapacityTarget = CapacityTarget {
        rate: 7_000.0,
        connections: 1_000,
        headroom: 0.3,
        machine_cores: Some(8),
        machine_bytes: None,
    };

    #[test]
    fn core_law_determines_machines() {
        // 1,000·n / (1 + 0.1·(n − 1)): 8 cores reach 4,705.9/s, so 10,000/s need 3 machines.
        let model = model(SizeUnit::Cores, &law(1_000.0, 0.1, 0.0), &[1.0, 2.0, 4.0]);
        let requirement = Requirement::of(&model, &WANTED).unwrap();
        assert!((requirement.rate - 10_000.0).abs() < 1e-6);
        let Basis::CoreLaw { size, rate } = requirement.basis else { panic!("{requirement:?}") };
        assert!((size - 8.0).abs() < 1e-9 && (rate - 8_000.0 / 1.7).abs() < 1e-3);
        assert_eq!((requirement.cores, requirement.machines), (24, Some(3)));
        assert_eq!(
            (requirement.extrapolation, requirement.limited_by),
            (Extrapolation::Near, LimitingResource::Cores)
        );
        // 2,100 / 0.7 is 3,000/s: 4 cores reach 3,076.9/s and 3 only 2,500/s.
        let little = Requirement::of(&model, &CapacityTarget { rate: 2_100.0, ..WANTED }).unwrap();
        assert_eq!(
            (little.cores, little.machines, little.extrapolation),
            (4, Some(1), Extrapolation::Within)
        );
        let alone = Requirement::of(
            &model,
            &CapacityTarget { rate: 2_100.0, machine_cores: None, ..WANTED },
        );
        assert_eq!(
            alone.map(|requirement| (requirement.cores, requirement.machines)),
            Ok((4, None))
        );
    }

    #[test]
    fn cores_beyond_peak_are_left_idle() {
        // 100·n / (1 + 0.04·n·(n − 1)) has its peak at 5 cores: 277.8/s.
        let model = model(SizeUnit::Cores, &law(100.0, 0.0, 0.04), &[1.0, 2.0, 4.0, 6.0]);
        let target = CapacityTarget { rate: 500.0, headroom: 0.0, ..WANTED };
        let requirement = Requirement::of(&model, &target).unwrap();
        let Basis::CoreLaw { size, .. } = requirement.basis else { panic!("{requirement:?}") };
        assert!(
            size <= 5.0 && requirement.machines == Some(2) && requirement.cores == 16,
            "{requirement:?}"
        );
        let alone = Requirement::of(&model, &CapacityTarget { machine_cores: None, ..target });
        assert!(alone.unwrap_err().to_string().contains("--cores-per-machine"));
    }

    #[test]
    fn connection_law_divides_connections_over_cores() {
        // 100·n / (1 + 0.1·(n − 1)): a core with 100 connections reaches 917.4/s. K cores with
        // 1,000 / K connections each reach 100,000 / (0.9 + 100 / K): 10 reach 9,174/s, and 11
        // reach 10,009/s.
        let model =
            model(SizeUnit::Connections, &law(100.0, 0.1, 0.0), &[10.0, 50.0, 100.0, 200.0]);
        let requirement = Requirement::of(&model, &WANTED).unwrap();
        assert_eq!((requirement.cores, requirement.machines), (11, Some(2)));
        let Basis::ConnectionLaw { size, server_cores, .. } = requirement.basis else {
            panic!("{requirement:?}")
        };
        assert!((size - 1_000.0 / 11.0).abs() < 1e-6 && (server_cores - 1.0).abs() < 1e-9);
        // A thousand single connections reach at most 100/s each.
        let never = Requirement::of(&model, &CapacityTarget { rate: 100_000.0, ..WANTED });
        assert_eq!(never, Err(RequirementError::Unreachable(100_000.0 / 0.7)));
    }

    #[test]
    fn missing_law_scales_lowest_core_rate() {
        let model = model(SizeUnit::Cores, &law(1_000.0, 0.0, 0.0), &[1.0, 2.0]);
        assert!(model.fit.is_none());
        let requirement = Requirement::of(&model, &WANTED).unwrap();
        assert_eq!(requirement.basis, Basis::Linear { core_rate: 1_000.0 });
        assert_eq!((requirement.cores, requirement.machines), (10, Some(2)));
        let mut unwatched = model;
        unwatched.size_unit = SizeUnit::Threads;
        unwatched.points.iter_mut().for_each(|point| point.cores_used = None);
        assert!(Requirement::of(&unwatched, &WANTED).unwrap_err().to_string().contains("--pid"));
    }

    #[test]
    fn law_with_large_residuals_is_not_used() {
        let mut model = model(SizeUnit::Cores, &law(1_000.0, 0.0, 0.0), &[1.0, 2.0, 4.0]);
        model.points[1].rate = 200.0;
        let model = CapacityModel::fit_points(model.size_unit, model.points);
        assert!(model.fit.is_some() && model.usable_fit().is_none());
        let requirement = Requirement::of(&model, &WANTED).unwrap();
        assert_eq!(requirement.basis, Basis::Linear { core_rate: 100.0 });
    }

    #[test]
    fn memory_limits_machines_when_scarcer() {
        let mut model = model(SizeUnit::Cores, &law(1_000.0, 0.0, 0.0), &[1.0, 2.0]);
        // 10 MB and 1 KB a connection.
        for (point, connections) in model.points.iter_mut().zip([1_000, 2_000]) {
            point.connections = connections;
            point.resident_bytes = Some(10_000_000 + connections * 1_000);
        }
        let model = CapacityModel::fit_points(model.size_unit, model.points);
        // 70 MB are usable, 60 MB of it by connections: 200,000 of them need 3.33 machines.
        let target =
            CapacityTarget { connections: 200_000, machine_bytes: Some(100_000_000), ..WANTED };
        let requirement = Requirement::of(&model, &target).unwrap();
        assert_eq!(
            (requirement.machines_for_cores, requirement.machines_for_memory),
            (Some(2), Some(4))
        );
        assert_eq!(
            (requirement.machines, requirement.limited_by),
            (Some(4), LimitingResource::Memory)
        );
        assert!((requirement.memory_bytes.unwrap() - 60_000_000.0).abs() < 1.0, "{requirement:?}");
        assert_eq!(requirement.memory_extrapolation, Extrapolation::Far(25.0));
        let none =
            Requirement::of(&model, &CapacityTarget { machine_bytes: Some(10_000_000), ..target });
        assert!(matches!(none, Err(RequirementError::InsufficientMemory(..))), "{none:?}");
    }
}
