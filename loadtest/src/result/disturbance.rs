//! What may have kept the load generator or the server from running: other programs, the
//! hypervisor, and a CPU limit.

use super::ProcessCost;
use crate::figure;
use crate::generator::ResourceUsage;

/// Part of the cores of the machine from which it counts as fully used.
const FULL_MIN: f64 = 0.95;
/// Cores that other programs use from which they are named.
const OTHERS_MIN: f64 = 0.2;
/// Ratio of time that the hypervisor or a CPU limit takes from which it is named.
const TAKEN_MIN: f64 = 0.05;

/// What used the machine besides the load generator and the server, over the measured window.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Disturbance {
    /// Each cause as a clause, such as `other programs used 1.9 of 2 cores`.
    pub(super) causes: Vec<String>,
    /// Whether it may have slowed the server, too.
    pub(super) slows_server: bool,
}

impl Disturbance {
    /// Returns what disturbed a run. If the server was not observed, its CPU time cannot be told
    /// from that of other programs.
    pub(super) fn of(
        usage: &ResourceUsage,
        generator: &ProcessCost,
        server: Option<&ProcessCost>,
    ) -> Self {
        let mut found = Self::default();
        if let Some(machine) = usage.machine {
            let own = generator.cores + generator.spin_cores;
            let others = machine.busy_cores - own - server.map_or(0.0, |server| server.cores);
            let cores = f64::from(machine.cores);
            if others >= OTHERS_MIN && machine.busy_cores >= FULL_MIN * cores {
                let who = if server.is_some() { "" } else { ", and the server if it is here," };
                let others = figure::without_zeros(&format!("{others:.1}")).to_owned();
                found.causes.push(format!("other programs{who} used {others} of {cores} cores"));
                found.slows_server |= server.is_some();
            }
            if machine.steal_ratio >= TAKEN_MIN {
                let steal = figure::percent(machine.steal_ratio);
                found.causes.push(format!("the hypervisor took {steal} of the CPU time (steal)"));
                found.slows_server |= server.is_some();
            }
        }
        if let Some(ratio) = usage.throttled_ratio.filter(|ratio| *ratio >= TAKEN_MIN) {
            let ratio = figure::percent(ratio);
            found.causes.push(format!(
                "the CPU limit of its control group stopped the load generator for {ratio} of the \
                 time"
            ));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::host::MachineUse;

    const fn cost(cores: f64) -> ProcessCost {
        ProcessCost {
            cpu_us_per_response: None,
            cores,
            spin_cores: 0.0,
            resident_bytes_max: None,
            accounting: None,
        }
    }

    fn usage(busy_cores: f64, steal_ratio: f64) -> ResourceUsage {
        let machine = Some(MachineUse { cores: 2, busy_cores, steal_ratio });
        ResourceUsage { machine, ..ResourceUsage::default() }
    }

    #[test]
    fn other_programs_are_named_on_full_machine() {
        let of = |usage: &ResourceUsage, server: Option<ProcessCost>| {
            Disturbance::of(usage, &cost(0.1), server.as_ref())
        };
        let busy = of(&usage(2.0, 0.0), Some(cost(0.02)));
        assert_eq!(busy.causes, ["other programs used 1.9 of 2 cores"]);
        assert!(busy.slows_server);
        let unknown = of(&usage(2.0, 0.0), None);
        assert!(unknown.causes[0].contains("the server if it is here"), "{unknown:?}");
        assert!(!unknown.slows_server);
        assert_eq!(of(&usage(2.0, 0.0), Some(cost(1.85))), Disturbance::default());
        assert_eq!(of(&usage(1.5, 0.0), Some(cost(0.1))), Disturbance::default());
        assert!(of(&usage(1.5, 0.1), None).causes[0].contains("10 % of the CPU time (steal)"));
        let throttled = ResourceUsage { throttled_ratio: Some(0.4), ..ResourceUsage::default() };
        assert!(of(&throttled, None).causes[0].contains("for 40 % of the time"));
    }
}
