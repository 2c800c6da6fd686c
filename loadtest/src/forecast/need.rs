//! What a target needs: cores, machines, memory, and which of them decides.
//!
//! How many machines the rate needs is told in one of three ways ([`Basis`]), the best that the
//! measured sizes allow:
//!
//! - sizes are cores, and there is a law: a machine bears what the law says of its cores, and where
//!   that is past the peak, what it says of the peak;
//! - sizes are connections, there is a law, and the server's CPU is known: the connections are
//!   spread over so many servers like the measured one that each bears its share;
//! - else a core bears the least that one was seen to bear, and cores add up.

use serde::Serialize;

use super::{Reach, SizeOf, Survey, float};
use crate::scalability::Fit;

/// Behind so many cores no answer is worth anything.
const CORES_MAX: u64 = 1 << 20;

/// A target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wanted {
    /// Requests a second.
    pub rate: f64,
    /// Connections that are open at the same time.
    pub connections: u64,
    /// The part of everything that is to stay free, from zero to less than one.
    pub headroom: f64,
    /// Cores that a machine has; machines are not counted without.
    pub machine_cores: Option<u64>,
    /// Memory that a machine has, in bytes; it bounds nothing without.
    pub machine_bytes: Option<u64>,
}

/// What the cores were told from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum Basis {
    /// The law over cores: what so many cores of one machine bear.
    CoreLaw {
        /// The cores of one machine that are counted with: at most those of the peak.
        size: f64,
        /// What they bear, a second.
        rate: f64,
    },
    /// The law over connections: what a core bears with its share of the connections.
    ConnectionLaw {
        /// The connections of one server like the measured one.
        size: f64,
        /// Cores of such a server.
        server_cores: f64,
        /// What a core bears, a second.
        core_rate: f64,
    },
    /// The lowest rate that a core was seen to bear; cores add up.
    Sum {
        /// What a core bears, a second.
        core_rate: f64,
    },
}

/// What runs out first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// CPU, by the rate.
    Cores,
    /// Memory, by the connections.
    Memory,
}

/// What a target needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Need {
    /// The rate that has to be borne so that the headroom stays free.
    pub rate: f64,
    /// What the cores were told from.
    pub basis: Basis,
    /// How far that lies from what was measured.
    pub reach: Reach,
    /// Cores altogether.
    pub cores: u64,
    /// Machines that the cores are on.
    pub machines_for_cores: Option<u64>,
    /// Machines that the memory is in.
    pub machines_for_memory: Option<u64>,
    /// The larger of the two.
    pub machines: Option<u64>,
    /// Which of the two it was.
    pub decides: Resource,
    /// Resident memory of the server on each machine, or of one where machines are not counted.
    pub memory_bytes: Option<f64>,
    /// How far its connections lie from what was measured.
    pub memory_reach: Reach,
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unknown {
    /// No point says what the server's CPU was.
    #[error("no result says what CPU the server used: measure with --pid or --server")]
    Cores,
    /// The law has its peak below the rate, and machines are not counted.
    #[error("one machine never bears {0:.0}/s by the law: write --cores-per-machine")]
    BeyondPeak(f64),
    /// Not even a million cores bear it.
    #[error("no number of cores bears {0:.0}/s on so few connections: lower the target")]
    Never(f64),
    /// The server alone is larger than the memory that may be used.
    #[error("a server without a connection takes {0:.0} bytes and {1:.0} may be used: give more")]
    Memory(f64, f64),
}

impl Need {
    /// What `wanted` needs, by a survey.
    ///
    /// # Errors
    ///
    /// Where the survey cannot tell.
    pub fn of(survey: &Survey, wanted: &Wanted) -> Result<Self, Unknown> {
        let rate = wanted.rate / (1.0 - wanted.headroom);
        let (basis, reach, cores, machines_for_cores) = cores(survey, wanted, rate)?;
        let machines_for_memory = machines_for_memory(survey, wanted)?;
        let (machines, decides) = match (machines_for_cores, machines_for_memory) {
            (Some(cores), Some(memory)) if memory > cores => (Some(memory), Resource::Memory),
            (None, Some(memory)) => (Some(memory), Resource::Memory),
            (cores, _) => (cores, Resource::Cores),
        };
        let connections = float(wanted.connections) / float(machines.unwrap_or(1));
        Ok(Self {
            rate,
            basis,
            reach,
            cores,
            machines_for_cores,
            machines_for_memory,
            machines,
            decides,
            memory_bytes: survey.memory.as_ref().map(|line| line.at(connections)),
            memory_reach: Reach::of(connections, float(survey.connections_max())),
        })
    }
}

type Cores = (Basis, Reach, u64, Option<u64>);

/// What bears the rate.
fn cores(survey: &Survey, wanted: &Wanted, rate: f64) -> Result<Cores, Unknown> {
    match (survey.size_of, survey.law()) {
        (SizeOf::Cores, Some(fit)) => by_core_law(survey, fit, wanted, rate),
        (SizeOf::Connections, Some(fit)) => by_connection_law(survey, fit, wanted, rate),
        _ => {
            let (core_rate, _) = survey.core_rate_min().ok_or(Unknown::Cores)?;
            let cores = whole(rate / core_rate);
            let measured = survey.points.iter().filter_map(|point| survey.cores_of(point));
            let largest = measured.fold(1.0, f64::max);
            let size = wanted.machine_cores.map_or(cores, |machine| machine.min(cores));
            let machines = wanted.machine_cores.map(|machine| cores.div_ceil(machine));
            Ok((Basis::Sum { core_rate }, Reach::of(float(size), largest), cores, machines))
        }
    }
}

fn by_core_law(survey: &Survey, fit: &Fit, wanted: &Wanted, rate: f64) -> Result<Cores, Unknown> {
    let told = |size: f64, cores, machines| {
        let basis = Basis::CoreLaw { size, rate: fit.throughput(size) };
        (basis, Reach::of(size, survey.size_max()), cores, machines)
    };
    let alone = fit.size_for(rate);
    let Some(machine) = wanted.machine_cores else {
        let cores = alone.ok_or(Unknown::BeyondPeak(rate))?;
        return Ok(told(float(cores), cores, None));
    };
    // Behind the peak more cores do less: those beyond it are left idle.
    let used =
        fit.peak_size().map_or_else(|| float(machine), |peak| peak.floor().min(float(machine)));
    let used = used.max(1.0);
    match alone {
        Some(cores) if float(cores) <= used => Ok(told(float(cores), cores, Some(1))),
        _ => {
            let machines = whole(rate / fit.throughput(used));
            Ok(told(used, machines.saturating_mul(machine), Some(machines)))
        }
    }
}

fn by_connection_law(
    survey: &Survey,
    fit: &Fit,
    wanted: &Wanted,
    rate: f64,
) -> Result<Cores, Unknown> {
    let mut occupied: Vec<f64> =
        survey.points.iter().filter_map(|point| survey.cores_of(point)).collect();
    occupied.sort_by(f64::total_cmp);
    let server_cores = *occupied.get(occupied.len() / 2).ok_or(Unknown::Cores)?;
    // The connections of one server, where all of them are spread over so many cores.
    let share = |cores: u64| (float(wanted.connections) * server_cores / float(cores)).max(1.0);
    let core_rate = |cores: u64| fit.throughput(share(cores)) / server_cores;
    // A further core takes connections from the others and makes each of them faster: this rises.
    let bears = |cores: u64| float(cores) * core_rate(cores) >= rate;
    let most = CORES_MAX.min(wanted.connections.max(1));
    if !bears(most) {
        return Err(Unknown::Never(rate));
    }
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = u64::midpoint(low, high);
        if bears(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let size = share(low);
    let basis = Basis::ConnectionLaw { size, server_cores, core_rate: core_rate(low) };
    let machines = wanted.machine_cores.map(|machine| low.div_ceil(machine));
    Ok((basis, Reach::of(size, survey.size_max()), low, machines))
}

/// Machines that hold the connections in their memory; none where nothing bounds it.
fn machines_for_memory(survey: &Survey, wanted: &Wanted) -> Result<Option<u64>, Unknown> {
    let (Some(line), Some(bytes)) = (&survey.memory, wanted.machine_bytes) else { return Ok(None) };
    let usable = float(bytes) * (1.0 - wanted.headroom);
    let room = usable - line.base;
    if room <= 0.0 {
        return Err(Unknown::Memory(line.base, usable));
    }
    Ok(Some(whole(float(wanted.connections) * line.slope / room)))
}

/// The whole number that is enough, at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and saturating"
)]
fn whole(value: f64) -> u64 {
    // What was meant to come out even may have become a hair more.
    ((value - 1e-9).ceil() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Measured;

    fn law(rate: f64, contention: f64, coherence: f64) -> Fit {
        Fit { rate, contention, coherence, residuals: Vec::new() }
    }

    /// A survey of points that lie on a law exactly.
    fn survey(size_of: SizeOf, law: &Fit, sizes: &[f64]) -> Survey {
        let point = |&size: &f64| Measured {
            size,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            connections: if size_of == SizeOf::Connections { size as u64 } else { 64 },
            rate: law.throughput(size),
            cores_used: Some(if size_of == SizeOf::Cores { size } else { 0.9 }),
            ..Measured::default()
        };
        Survey::of(size_of, sizes.iter().map(point).collect())
    }

    const WANTED: Wanted = Wanted {
        rate: 7_000.0,
        connections: 1_000,
        headroom: 0.3,
        machine_cores: Some(8),
        machine_bytes: None,
    };

    #[test]
    fn cores_of_one_machine_are_told_by_the_law_over_cores() {
        // 1,000·n / (1 + 0.1·(n − 1)): 8 cores bear 4,705.9/s, so 10,000/s need 3 machines.
        let survey = survey(SizeOf::Cores, &law(1_000.0, 0.1, 0.0), &[1.0, 2.0, 4.0]);
        let need = Need::of(&survey, &WANTED).unwrap();
        assert!((need.rate - 10_000.0).abs() < 1e-6);
        let Basis::CoreLaw { size, rate } = need.basis else { panic!("{need:?}") };
        assert!((size - 8.0).abs() < 1e-9 && (rate - 8_000.0 / 1.7).abs() < 1e-3);
        assert_eq!((need.cores, need.machines), (24, Some(3)));
        assert_eq!((need.reach, need.decides), (Reach::Near, Resource::Cores));
        // 2,100 / 0.7 is 3,000/s: 4 cores bear 3,076.9/s and 3 only 2,500/s.
        let little = Need::of(&survey, &Wanted { rate: 2_100.0, ..WANTED }).unwrap();
        assert_eq!((little.cores, little.machines, little.reach), (4, Some(1), Reach::Measured));
        let alone = Need::of(&survey, &Wanted { rate: 2_100.0, machine_cores: None, ..WANTED });
        assert_eq!(alone.map(|need| (need.cores, need.machines)), Ok((4, None)));
    }

    #[test]
    fn cores_behind_the_peak_are_left_idle() {
        // 100·n / (1 + 0.04·n·(n − 1)) has its peak at 5 cores: 277.8/s.
        let survey = survey(SizeOf::Cores, &law(100.0, 0.0, 0.04), &[1.0, 2.0, 4.0, 6.0]);
        let wanted = Wanted { rate: 500.0, headroom: 0.0, ..WANTED };
        let need = Need::of(&survey, &wanted).unwrap();
        let Basis::CoreLaw { size, .. } = need.basis else { panic!("{need:?}") };
        assert!(size <= 5.0 && need.machines == Some(2) && need.cores == 16, "{need:?}");
        let alone = Need::of(&survey, &Wanted { machine_cores: None, ..wanted });
        assert!(alone.unwrap_err().to_string().contains("--cores-per-machine"));
    }

    #[test]
    fn the_law_over_connections_spreads_them_over_cores() {
        // 100·n / (1 + 0.1·(n − 1)): with 100 connections each a core bears 917.4/s. By hand, K
        // cores with 1,000 / K connections bear 100,000 / (0.9 + 100 / K): 10 bear 9,174/s, and 11
        // bear 10,009/s.
        let survey =
            survey(SizeOf::Connections, &law(100.0, 0.1, 0.0), &[10.0, 50.0, 100.0, 200.0]);
        let need = Need::of(&survey, &WANTED).unwrap();
        assert_eq!((need.cores, need.machines), (11, Some(2)));
        let Basis::ConnectionLaw { size, server_cores, .. } = need.basis else {
            panic!("{need:?}")
        };
        assert!((size - 1_000.0 / 11.0).abs() < 1e-6 && (server_cores - 1.0).abs() < 1e-9);
        // A thousand connections alone do no more than 100/s each.
        let never = Need::of(&survey, &Wanted { rate: 100_000.0, ..WANTED });
        assert_eq!(never, Err(Unknown::Never(100_000.0 / 0.7)));
    }

    #[test]
    fn without_a_law_cores_add_up_at_the_lowest_rate_that_was_seen() {
        let survey = survey(SizeOf::Cores, &law(1_000.0, 0.0, 0.0), &[1.0, 2.0]);
        assert!(survey.fit.is_none());
        let need = Need::of(&survey, &WANTED).unwrap();
        assert_eq!(need.basis, Basis::Sum { core_rate: 1_000.0 });
        assert_eq!((need.cores, need.machines), (10, Some(2)));
        let mut unwatched = survey;
        unwatched.size_of = SizeOf::Workers;
        unwatched.points.iter_mut().for_each(|point| point.cores_used = None);
        assert!(Need::of(&unwatched, &WANTED).unwrap_err().to_string().contains("--pid"));
    }

    #[test]
    fn a_law_that_does_not_follow_its_points_is_not_counted_with() {
        let mut survey = survey(SizeOf::Cores, &law(1_000.0, 0.0, 0.0), &[1.0, 2.0, 4.0]);
        survey.points[1].rate = 200.0;
        let survey = Survey::of(survey.size_of, survey.points);
        assert!(survey.fit.is_some() && survey.law().is_none());
        let need = Need::of(&survey, &WANTED).unwrap();
        assert_eq!(need.basis, Basis::Sum { core_rate: 100.0 });
    }

    #[test]
    fn memory_decides_where_it_runs_out_first() {
        let mut survey = survey(SizeOf::Cores, &law(1_000.0, 0.0, 0.0), &[1.0, 2.0]);
        // 10 MB and 1 KB a connection.
        for (point, connections) in survey.points.iter_mut().zip([1_000, 2_000]) {
            point.connections = connections;
            point.resident_bytes = Some(10_000_000 + connections * 1_000);
        }
        let survey = Survey::of(survey.size_of, survey.points);
        // 70 MB may be used, 60 MB of it by connections: 200,000 of them need 3.33 machines.
        let wanted = Wanted { connections: 200_000, machine_bytes: Some(100_000_000), ..WANTED };
        let need = Need::of(&survey, &wanted).unwrap();
        assert_eq!((need.machines_for_cores, need.machines_for_memory), (Some(2), Some(4)));
        assert_eq!((need.machines, need.decides), (Some(4), Resource::Memory));
        assert!((need.memory_bytes.unwrap() - 60_000_000.0).abs() < 1.0, "{need:?}");
        assert_eq!(need.memory_reach, Reach::Far(25.0));
        let none = Need::of(&survey, &Wanted { machine_bytes: Some(10_000_000), ..wanted });
        assert!(matches!(none, Err(Unknown::Memory(..))), "{none:?}");
    }
}
