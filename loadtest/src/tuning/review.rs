//! Review of a machine: differences from the profile, and insufficient limits.

use serde::{Deserialize, Serialize};

use super::finding::{PlannedLoad, Severity, TuningFinding};
use super::knobs::{KNOBS, Knob};
use super::limits::insufficient_limits;
use super::listeners::Listener;
use super::machine::Machine;
use super::profile::{PROFILE, settings};
use super::usage::strained_limits;

/// The result of checking a machine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Review {
    /// The load that it was checked for, or `None` for what it is used for now.
    pub load: Option<PlannedLoad>,
    /// The listeners of the machine.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Findings, the needed ones first.
    pub findings: Vec<TuningFinding>,
    /// Settings of the profile that the machine satisfies.
    pub satisfied: Vec<String>,
}

impl Review {
    /// Returns whether the machine suffices for the load.
    pub fn is_sufficient(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Needed)
    }
}

/// Checks a machine for a load, or for what it is used for now.
pub fn review(machine: &Machine, load: Option<PlannedLoad>) -> Review {
    let mut findings = match &load {
        Some(load) => insufficient_limits(machine, load),
        None => strained_limits(machine),
    };
    let mut held = Vec::new();
    for setting in settings(PROFILE) {
        // A setting that the kernel lacks cannot differ.
        let Some(here) = machine.settings.get(setting.name) else { continue };
        let Some(knob) = KNOBS.iter().find(|knob| knob.name == setting.name) else { continue };
        if knob.rule.is_satisfied(here, setting.value) {
            held.push(setting.name.to_owned());
            continue;
        }
        let decides =
            has_effect(machine, setting.name) && (load.is_some() || has_effect_now(machine, knob));
        findings.push(TuningFinding {
            knob: setting.name.into(),
            severity: if decides { Severity::Advised } else { Severity::Info },
            actual: if here.is_empty() { "nothing".into() } else { here.clone() },
            expected: setting.value.into(),
            cost: knob.cost.into(),
            hint: format!(
                "sysctl -w {}='{}', or install tuning/90-corelane.conf",
                setting.name, setting.value
            ),
            plan: Some(knob.plan.into()),
        });
    }
    let judges = [ring, governor, idle_states, rt_throttling, swap, huge_pages, nodes, mitigations];
    findings.extend(judges.iter().filter_map(|judge| judge(machine)));
    findings.sort_by_key(|finding| finding.severity);
    Review { load, listeners: machine.listeners.all.clone(), findings, satisfied: held }
}

/// Returns whether a setting has any effect on this machine.
fn has_effect(machine: &Machine, name: &str) -> bool {
    let has_cookies = machine.number("net.ipv4.tcp_syncookies").is_some_and(|level| level > 0);
    name != "net.ipv4.tcp_max_syn_backlog" || !has_cookies
}

/// Returns whether a setting has an effect on what the machine is used for now.
fn has_effect_now(machine: &Machine, knob: &Knob) -> bool {
    if knob.name != "net.ipv4.ip_local_reserved_ports" {
        return !knob.is_for_many_connections;
    }
    // An outgoing connection can take the port of a listener that is started again.
    let range = machine.numbers("net.ipv4.ip_local_port_range").unwrap_or_default();
    let [first, last] = range[..] else { return false };
    let mut ports = machine.listeners.all.iter().map(|it| u64::from(it.address.port()));
    ports.any(|port| (first..=last).contains(&port))
}

/// Returns a finding that does not depend on the number of connections.
fn finding(
    (knob, weight): (&str, Severity),
    (here, wanted): (impl Into<String>, &str),
    (cost, hint): (&str, &str),
    plan: Option<&str>,
) -> TuningFinding {
    TuningFinding {
        knob: knob.into(),
        severity: weight,
        actual: here.into(),
        expected: wanted.into(),
        cost: cost.into(),
        hint: hint.into(),
        plan: plan.map(String::from),
    }
}

const WAKE_UP_PLAN: Option<&str> = Some("knob-busy-poll.toml");

fn ring(machine: &Machine) -> Option<TuningFinding> {
    const COST: &str = "without io_uring the server uses poll: a call over TCP takes about 10 % \
                        more CPU (README, figures)";
    if machine.number("kernel.io_uring_disabled").is_some_and(|level| level > 0) {
        let level = machine.settings["kernel.io_uring_disabled"].clone();
        let hint = "sysctl -w kernel.io_uring_disabled=0; or keep 1 and add the group of the \
                      server to kernel.io_uring_group";
        let knob = ("kernel.io_uring_disabled", Severity::Advised);
        return Some(finding(knob, (level, "0"), (COST, hint), Some("knob-ring.toml")));
    }
    let release = machine.release().filter(|release| *release < (6, 1))?;
    let (cost, wanted) = if release < (6, 0) {
        (COST, "6.0 or newer")
    } else {
        ("completions interrupt the thread that they are for", "6.1 or newer")
    };
    let knob = ("kernel", Severity::Advised);
    let hint = "use a newer kernel";
    Some(finding(knob, (&machine.kernel, wanted), (cost, hint), Some("knob-ring.toml")))
}

fn governor(machine: &Machine) -> Option<TuningFinding> {
    if machine.governors.iter().all(|governor| governor == "performance") {
        return None;
    }
    let knob = ("scaling_governor", Severity::Advised);
    let cost = "idle cores ramp up slowly: latencies at a low rate are longer than at a high one, \
                and runs vary";
    let hint = "cpupower frequency-set -g performance, at the cost of power";
    Some(finding(knob, (machine.governors.join(", "), "performance"), (cost, hint), WAKE_UP_PLAN))
}

/// Wake-up latency in microseconds below which no plan shows a difference.
const EXIT_LATENCY_US_MAX: u64 = 10;

fn idle_states(machine: &Machine) -> Option<TuningFinding> {
    let longest = machine.exit_latency_us_max.filter(|longest| *longest > EXIT_LATENCY_US_MAX)?;
    let knob = ("idle states", Severity::Info);
    let here = format!("{longest} us to wake from the deepest");
    let cost = "a request to a sleeping core waits for its wake-up";
    let hint = "cpupower idle-set -D 10 while measuring; undo with cpupower idle-set -E";
    Some(finding(knob, (here, "10 us or less"), (cost, hint), WAKE_UP_PLAN))
}

fn rt_throttling(machine: &Machine) -> Option<TuningFinding> {
    let here = machine.settings.get("kernel.sched_rt_runtime_us").filter(|here| *here != "-1")?;
    let knob = ("kernel.sched_rt_runtime_us", Severity::Info);
    let cost = "a server with SCHED_FIFO priority is throttled for the rest of a second after \
                running for this many microseconds of it (since Linux 6.12 only with \
                CONFIG_RT_GROUP_SCHED)";
    let hint = "sysctl -w kernel.sched_rt_runtime_us=-1 if only this server has that priority; \
                  otherwise nothing";
    Some(finding(knob, (here, "-1 with priority"), (cost, hint), Some("knob-priority.toml")))
}

fn swap(machine: &Machine) -> Option<TuningFinding> {
    let mebibytes = machine.swap_bytes >> 20;
    if machine.swap_bytes == 0 {
        return None;
    }
    let cost = "memory of idle connections may be swapped out when they become active";
    let hint = "MemorySwapMax=0 for the server, as in tuning/corelane.slice";
    let here = format!("{mebibytes} MiB of swap");
    let knob = ("swap", Severity::Info);
    Some(finding(knob, (here, "none for the server"), (cost, hint), Some("knob-memory.toml")))
}

fn huge_pages(machine: &Machine) -> Option<TuningFinding> {
    let here = machine.huge_pages.as_ref().filter(|mode| *mode == "always")?;
    let knob = ("transparent huge pages", Severity::Info);
    let cost = "resident memory may grow in steps of 2 MiB, so that memory of a connection is \
                overestimated";
    let hint = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled while measuring memory";
    Some(finding(knob, (here, "madvise"), (cost, hint), Some("knob-memory.toml")))
}

fn nodes(machine: &Machine) -> Option<TuningFinding> {
    if machine.nodes < 2 {
        return None;
    }
    let knob = ("memory nodes", Severity::Info);
    let cost = "a core waits longer for memory of another NUMA node";
    let hint = "pin the shards to the node of the network card: corelane serve --cpus, and for \
                  the load --cores";
    Some(finding(knob, (machine.nodes.to_string(), "1"), (cost, hint), Some("knob-cores.toml")))
}

fn mitigations(machine: &Machine) -> Option<TuningFinding> {
    if machine.mitigations.is_empty() {
        return None;
    }
    let knob = ("mitigations", Severity::Info);
    let cost = "system calls cost more: results of machines with different mitigations differ";
    let hint = "leave them on; compare only machines with the same mitigations";
    Some(finding(knob, (machine.mitigations.join(", "), "as they are"), (cost, hint), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: PlannedLoad = PlannedLoad { connections: 60_000, sources: 1 };

    /// Returns a machine without findings.
    fn good() -> Machine {
        let further = [
            ("fs.file-max", "9223372036854775807"),
            ("fs.file-nr", "1000 0 9223372036854775807"),
            ("fs.nr_open", "1048576"),
            ("kernel.io_uring_disabled", "0"),
            ("kernel.sched_rt_runtime_us", "-1"),
            ("net.ipv4.tcp_syncookies", "1"),
        ];
        let profile = settings(PROFILE).map(|setting| (setting.name, setting.value));
        let all = profile.chain(further).map(|(name, value)| (name.into(), value.into()));
        Machine {
            kernel: "6.18.0".into(),
            settings: all.collect(),
            open_files_max: Some(1_048_576),
            available_bytes: Some(8 << 30),
            nodes: 1,
            ..Machine::default()
        }
    }

    /// Returns the findings if one setting differs.
    fn found(name: &str, value: &str) -> Vec<(String, Severity)> {
        let mut machine = good();
        machine.settings.insert(name.into(), value.into());
        names(&machine, LOAD)
    }

    fn names(machine: &Machine, load: PlannedLoad) -> Vec<(String, Severity)> {
        let review = review(machine, Some(load));
        review.findings.into_iter().map(|finding| (finding.knob, finding.severity)).collect()
    }

    fn one(name: &str, weight: Severity) -> Vec<(String, Severity)> {
        vec![(name.into(), weight)]
    }

    #[test]
    fn machine_with_profile_is_sufficient() {
        let review = review(&good(), Some(LOAD));
        assert_eq!(review.findings, []);
        assert_eq!(review.satisfied.len(), KNOBS.len());
        assert!(review.is_sufficient());
    }

    #[test]
    fn differing_setting_is_advised_and_still_sufficient() {
        for (name, value) in [
            ("net.ipv4.tcp_tw_reuse", "2"),
            ("net.ipv4.tcp_slow_start_after_idle", "1"),
            ("net.ipv4.ip_local_reserved_ports", ""),
            ("kernel.io_uring_disabled", "2"),
            ("net.netfilter.nf_conntrack_max", "59999"),
        ] {
            assert_eq!(found(name, value), one(name, Severity::Advised));
        }
    }

    #[test]
    fn current_use_is_judged_without_planned_connections() {
        let mut machine = Machine { open_files_max: Some(1_024), ..good() };
        for (name, value) in [
            ("net.core.somaxconn", "128"),
            ("net.ipv4.ip_local_port_range", "32768 60999"),
            ("net.ipv4.tcp_tw_reuse", "2"),
            ("net.ipv4.ip_local_reserved_ports", ""),
        ] {
            machine.settings.insert(name.into(), value.into());
        }
        let now = review(&machine, None);
        assert!(now.is_sufficient(), "{now:?}");
        assert!(now.findings.iter().all(|finding| finding.severity == Severity::Info), "{now:?}");
        assert!(!review(&machine, Some(LOAD)).is_sufficient());
        machine.settings.insert("kernel.io_uring_disabled".into(), "2".into());
        assert_eq!(review(&machine, None).findings[0].severity, Severity::Advised);
    }

    #[test]
    fn syn_backlog_matters_only_without_syncookies() {
        let mut machine = good();
        machine.settings.insert("net.ipv4.tcp_max_syn_backlog".into(), "128".into());
        assert_eq!(names(&machine, LOAD)[0].1, Severity::Info);
        machine.settings.insert("net.ipv4.tcp_syncookies".into(), "0".into());
        assert_eq!(names(&machine, LOAD)[0].1, Severity::Advised);
    }

    #[test]
    fn insufficient_limits_are_needed() {
        let backlog = found("net.core.somaxconn", "128");
        assert_eq!(backlog[0], ("backlog".into(), Severity::Needed));
        let ports = found("net.ipv4.ip_local_port_range", "32768 60999");
        assert_eq!(ports[0], ("ports".into(), Severity::Needed));
        assert_eq!(found("fs.file-max", "120000"), one("fs.file-max", Severity::Needed));
        let files = Machine { open_files_max: Some(20_000), ..good() };
        assert_eq!(names(&files, LOAD), one("nofile", Severity::Needed));
        let memory = Machine { available_bytes: Some(256 << 20), ..good() };
        assert_eq!(names(&memory, LOAD), one("memory", Severity::Needed));
        assert!(!review(&memory, Some(LOAD)).is_sufficient());
    }

    #[test]
    fn more_addresses_or_fewer_connections_need_less() {
        let mut machine = good();
        let narrow = "32768 60999".to_owned();
        machine.settings.insert("net.ipv4.ip_local_port_range".into(), narrow);
        machine.open_files_max = Some(20_000);
        let enough = |connections, sources| {
            review(&machine, Some(PlannedLoad { connections, sources })).is_sufficient()
        };
        assert!(enough(19_900, 1));
        assert!(!enough(20_000, 3));
        machine.open_files_max = Some(100_000);
        let enough = |connections, sources| {
            review(&machine, Some(PlannedLoad { connections, sources })).is_sufficient()
        };
        assert!(!enough(60_000, 2) && enough(60_000, 3));
    }

    #[test]
    fn limits_finding_names_rings_or_addresses() {
        let mut machine = Machine { open_files_max: Some(20_000), ..good() };
        let narrow = "32768 60999".to_owned();
        machine.settings.insert("net.ipv4.ip_local_port_range".into(), narrow);
        machine.settings.insert("fs.nr_open".into(), "20000".into());
        let review = review(&machine, Some(LOAD));
        let hint = |knob: &str| {
            let found = review.findings.iter().find(|finding| finding.knob == knob);
            found.map(|finding| finding.hint.as_str()).unwrap_or_default()
        };
        assert!(hint("nofile").contains("4 shards"), "{}", hint("nofile"));
        assert!(hint("nofile").contains("fs.nr_open=60064"), "{}", hint("nofile"));
        assert!(hint("ports").contains("from 3 addresses"), "{}", hint("ports"));
    }

    #[test]
    fn measurement_disturbances_are_info() {
        assert_eq!(
            found("kernel.sched_rt_runtime_us", "950000"),
            one("kernel.sched_rt_runtime_us", Severity::Info)
        );
        let machine = Machine {
            swap_bytes: 1 << 30,
            exit_latency_us_max: Some(133),
            huge_pages: Some("always".into()),
            nodes: 2,
            mitigations: vec!["meltdown".into()],
            ..good()
        };
        let found = names(&machine, LOAD);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found.iter().all(|(_, weight)| *weight == Severity::Info));
        let slow = Machine { governors: vec!["powersave".into()], ..good() };
        assert_eq!(names(&slow, LOAD), one("scaling_governor", Severity::Advised));
    }

    #[test]
    fn old_kernel_is_advised_to_upgrade() {
        let old = |kernel: &str| names(&Machine { kernel: kernel.into(), ..good() }, LOAD);
        assert_eq!(old("5.15.0"), one("kernel", Severity::Advised));
        assert_eq!(old("6.0.9"), one("kernel", Severity::Advised));
        assert!(old("6.1.0").is_empty() && old("").is_empty());
    }

    #[test]
    fn empty_machine_has_no_findings() {
        assert_eq!(names(&Machine::default(), LOAD), []);
    }
}
