//! The judgement of a machine.

use serde::{Deserialize, Serialize};

use super::knobs::KNOBS;
use super::limits::shortages;
use super::machine::Machine;
use super::profile::{PROFILE, settings};

/// What a machine is to bear.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wish {
    /// Connections to one address of a server.
    pub connections: u64,
    /// Addresses that they come from.
    pub sources: u64,
}

/// How much a difference counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Without it the wish cannot be had.
    Needed,
    /// It costs something that a plan, or a network, can show.
    Advised,
    /// It changes figures and is no fault: to be known when they are compared.
    Told,
}

/// One difference.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// What differs: a setting of the kernel by its name, or a limit.
    pub knob: String,
    /// How much it counts.
    pub weight: Weight,
    /// What this machine has.
    pub here: String,
    /// What it should have.
    pub wanted: String,
    /// What the difference costs.
    pub cost: String,
    /// What to do.
    pub remedy: String,
    /// The plan that shows its effect, of those in `loadtest/plans`.
    pub plan: Option<String>,
}

/// What came of a look at a machine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Review {
    /// What it was judged for.
    pub wish: Wish,
    /// What differs, what is needed first.
    pub findings: Vec<Finding>,
    /// Settings of the profile that are as they should be.
    pub held: Vec<String>,
}

impl Review {
    /// Whether nothing stands against the wish.
    pub fn is_enough(&self) -> bool {
        self.findings.iter().all(|finding| finding.weight != Weight::Needed)
    }
}

/// Judges a machine.
pub fn review(machine: &Machine, wish: Wish) -> Review {
    let mut findings = shortages(machine, &wish);
    let mut held = Vec::new();
    for setting in settings(PROFILE) {
        // What the kernel does not have cannot differ.
        let Some(here) = machine.settings.get(setting.name) else { continue };
        let Some(knob) = KNOBS.iter().find(|knob| knob.name == setting.name) else { continue };
        if knob.rule.holds(here, setting.value) {
            held.push(setting.name.to_owned());
            continue;
        }
        let decides = decides(machine, setting.name);
        findings.push(Finding {
            knob: setting.name.into(),
            weight: if decides { Weight::Advised } else { Weight::Told },
            here: if here.is_empty() { "nothing".into() } else { here.clone() },
            wanted: setting.value.into(),
            cost: knob.cost.into(),
            remedy: format!(
                "sysctl -w {}='{}', or install tuning/90-corelane.conf",
                setting.name, setting.value
            ),
            plan: Some(knob.plan.into()),
        });
    }
    let judges = [ring, clock, sleep, throttle, swap, huge_pages, nodes, mitigations];
    findings.extend(judges.iter().filter_map(|judge| judge(machine)));
    findings.sort_by_key(|finding| finding.weight);
    Review { wish, findings, held }
}

/// Whether a setting decides anything on this machine.
fn decides(machine: &Machine, name: &str) -> bool {
    let has_cookies = machine.number("net.ipv4.tcp_syncookies").is_some_and(|level| level > 0);
    name != "net.ipv4.tcp_max_syn_backlog" || !has_cookies
}

/// A finding that no number of connections asks for.
fn finding(
    (knob, weight): (&str, Weight),
    (here, wanted): (impl Into<String>, &str),
    (cost, remedy): (&str, &str),
    plan: Option<&str>,
) -> Finding {
    Finding {
        knob: knob.into(),
        weight,
        here: here.into(),
        wanted: wanted.into(),
        cost: cost.into(),
        remedy: remedy.into(),
        plan: plan.map(String::from),
    }
}

const WAKING_PLAN: Option<&str> = Some("knob-busy-poll.toml");

fn ring(machine: &Machine) -> Option<Finding> {
    const COST: &str = "connections are carried over readiness: by the README's figures a call \
                        over TCP takes about a tenth more CPU";
    if machine.number("kernel.io_uring_disabled").is_some_and(|level| level > 0) {
        let level = machine.settings["kernel.io_uring_disabled"].clone();
        let remedy = "sysctl -w kernel.io_uring_disabled=0; or leave it at 1 and put the group of \
                      the server into kernel.io_uring_group";
        let knob = ("kernel.io_uring_disabled", Weight::Advised);
        return Some(finding(knob, (level, "0"), (COST, remedy), Some("knob-ring.toml")));
    }
    let release = machine.release().filter(|release| *release < (6, 1))?;
    let (cost, wanted) = if release < (6, 0) {
        (COST, "6.0 or newer")
    } else {
        ("completions interrupt the thread that they are for", "6.1 or newer")
    };
    let knob = ("kernel", Weight::Advised);
    let remedy = "run a newer kernel";
    Some(finding(knob, (&machine.kernel, wanted), (cost, remedy), Some("knob-ring.toml")))
}

fn clock(machine: &Machine) -> Option<Finding> {
    if machine.governors.iter().all(|governor| governor == "performance") {
        return None;
    }
    let knob = ("scaling_governor", Weight::Advised);
    let cost = "cores that were idle begin slowly: latencies at a low rate are longer than at a \
                high one, and two runs differ";
    let remedy = "cpupower frequency-set -g performance, at the price of power";
    Some(finding(knob, (machine.governors.join(", "), "performance"), (cost, remedy), WAKING_PLAN))
}

/// Microseconds of waking that no plan tells from the noise of a socket.
const WAKE_US_MAX: u64 = 10;

fn sleep(machine: &Machine) -> Option<Finding> {
    let longest = machine.wake_us_max.filter(|longest| *longest > WAKE_US_MAX)?;
    let knob = ("idle states", Weight::Told);
    let here = format!("{longest} us to wake from the deepest");
    let cost = "a request that finds its core asleep waits so much longer";
    let remedy = "cpupower idle-set -D 10 while measuring; cpupower idle-set -E undoes it";
    Some(finding(knob, (here, "10 us or less"), (cost, remedy), WAKING_PLAN))
}

fn throttle(machine: &Machine) -> Option<Finding> {
    let here = machine.settings.get("kernel.sched_rt_runtime_us").filter(|here| *here != "-1")?;
    let knob = ("kernel.sched_rt_runtime_us", Weight::Told);
    let cost = "a server of priority fifo that is awake for so much of a second is stopped for the \
                rest of it";
    let remedy = "sysctl -w kernel.sched_rt_runtime_us=-1 with such a server, where nothing else \
                  has that priority; without one, nothing";
    Some(finding(knob, (here, "-1 with priority"), (cost, remedy), Some("knob-priority.toml")))
}

fn swap(machine: &Machine) -> Option<Finding> {
    let mebibytes = machine.swap_bytes >> 20;
    if machine.swap_bytes == 0 {
        return None;
    }
    let cost = "memory of connections that were idle may be on a disk when they speak";
    let remedy = "MemorySwapMax=0, as tuning/corelane.slice has it, for the server alone";
    let here = format!("{mebibytes} MiB of swap");
    let knob = ("swap", Weight::Told);
    Some(finding(knob, (here, "none for the server"), (cost, remedy), Some("knob-memory.toml")))
}

fn huge_pages(machine: &Machine) -> Option<Finding> {
    let here = machine.huge_pages.as_ref().filter(|mode| *mode == "always")?;
    let knob = ("transparent huge pages", Weight::Told);
    let cost =
        "resident memory may grow in steps of 2 MiB: what a connection takes can be told too high";
    let remedy =
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled while measuring memory";
    Some(finding(knob, (here, "madvise"), (cost, remedy), Some("knob-memory.toml")))
}

fn nodes(machine: &Machine) -> Option<Finding> {
    if machine.nodes < 2 {
        return None;
    }
    let knob = ("memory nodes", Weight::Told);
    let cost = "a core that reads memory of another node waits longer";
    let remedy = "keep the shards on the node of the network card: corelane serve --cpus, and for \
                  the load --cores";
    Some(finding(knob, (machine.nodes.to_string(), "1"), (cost, remedy), Some("knob-cores.toml")))
}

fn mitigations(machine: &Machine) -> Option<Finding> {
    if machine.mitigations.is_empty() {
        return None;
    }
    let knob = ("mitigations", Weight::Told);
    let cost =
        "each system call costs more than without them: figures of two machines differ by it";
    let remedy = "leave them on; compare only machines that have the same";
    Some(finding(knob, (machine.mitigations.join(", "), "as they are"), (cost, remedy), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish = Wish { connections: 60_000, sources: 1 };

    /// A machine on which nothing stands against the wish.
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
            files_max: Some(1_048_576),
            available_bytes: Some(8 << 30),
            nodes: 1,
            ..Machine::default()
        }
    }

    /// What is found when one setting is another.
    fn found(name: &str, value: &str) -> Vec<(String, Weight)> {
        let mut machine = good();
        machine.settings.insert(name.into(), value.into());
        names(&machine, WISH)
    }

    fn names(machine: &Machine, wish: Wish) -> Vec<(String, Weight)> {
        let review = review(machine, wish);
        review.findings.into_iter().map(|finding| (finding.knob, finding.weight)).collect()
    }

    fn one(name: &str, weight: Weight) -> Vec<(String, Weight)> {
        vec![(name.into(), weight)]
    }

    #[test]
    fn a_machine_as_the_profile_has_it_is_enough() {
        let review = review(&good(), WISH);
        assert_eq!(review.findings, []);
        assert_eq!(review.held.len(), KNOBS.len());
        assert!(review.is_enough());
    }

    #[test]
    fn a_setting_that_differs_is_advised_and_does_not_stand_against_the_wish() {
        for (name, value) in [
            ("net.ipv4.tcp_tw_reuse", "2"),
            ("net.ipv4.tcp_slow_start_after_idle", "1"),
            ("net.ipv4.ip_local_reserved_ports", ""),
            ("kernel.io_uring_disabled", "2"),
            ("net.netfilter.nf_conntrack_max", "59999"),
        ] {
            assert_eq!(found(name, value), one(name, Weight::Advised));
        }
    }

    #[test]
    fn the_backlog_of_half_open_connections_only_counts_without_cookies() {
        let mut machine = good();
        machine.settings.insert("net.ipv4.tcp_max_syn_backlog".into(), "128".into());
        assert_eq!(names(&machine, WISH)[0].1, Weight::Told);
        machine.settings.insert("net.ipv4.tcp_syncookies".into(), "0".into());
        assert_eq!(names(&machine, WISH)[0].1, Weight::Advised);
    }

    #[test]
    fn what_the_connections_need_is_needed() {
        let backlog = found("net.core.somaxconn", "128");
        assert_eq!(backlog[0], ("backlog".into(), Weight::Needed));
        let ports = found("net.ipv4.ip_local_port_range", "32768 60999");
        assert_eq!(ports[0], ("ports".into(), Weight::Needed));
        assert_eq!(found("fs.file-max", "120000"), one("fs.file-max", Weight::Needed));
        let files = Machine { files_max: Some(20_000), ..good() };
        assert_eq!(names(&files, WISH), one("nofile", Weight::Needed));
        let memory = Machine { available_bytes: Some(256 << 20), ..good() };
        assert_eq!(names(&memory, WISH), one("memory", Weight::Needed));
        assert!(!review(&memory, WISH).is_enough());
    }

    #[test]
    fn more_addresses_and_fewer_connections_need_less() {
        let mut machine = good();
        let narrow = "32768 60999".to_owned();
        machine.settings.insert("net.ipv4.ip_local_port_range".into(), narrow);
        machine.files_max = Some(20_000);
        let enough =
            |connections, sources| review(&machine, Wish { connections, sources }).is_enough();
        assert!(enough(19_900, 1));
        assert!(!enough(20_000, 3));
        machine.files_max = Some(100_000);
        let enough =
            |connections, sources| review(&machine, Wish { connections, sources }).is_enough();
        assert!(!enough(60_000, 2) && enough(60_000, 3));
    }

    #[test]
    fn the_remedy_says_how_many_rings_or_addresses_would_do() {
        let mut machine = Machine { files_max: Some(20_000), ..good() };
        let narrow = "32768 60999".to_owned();
        machine.settings.insert("net.ipv4.ip_local_port_range".into(), narrow);
        machine.settings.insert("fs.nr_open".into(), "20000".into());
        let review = review(&machine, WISH);
        let remedy = |knob: &str| {
            let found = review.findings.iter().find(|finding| finding.knob == knob);
            found.map(|finding| finding.remedy.as_str()).unwrap_or_default()
        };
        assert!(remedy("nofile").contains("4 shards"), "{}", remedy("nofile"));
        assert!(remedy("nofile").contains("fs.nr_open=60064"), "{}", remedy("nofile"));
        assert!(remedy("ports").contains("from 3 addresses"), "{}", remedy("ports"));
    }

    #[test]
    fn what_spoils_figures_is_told_and_needed_by_nobody() {
        assert_eq!(
            found("kernel.sched_rt_runtime_us", "950000"),
            one("kernel.sched_rt_runtime_us", Weight::Told)
        );
        let machine = Machine {
            swap_bytes: 1 << 30,
            wake_us_max: Some(133),
            huge_pages: Some("always".into()),
            nodes: 2,
            mitigations: vec!["meltdown".into()],
            ..good()
        };
        let found = names(&machine, WISH);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found.iter().all(|(_, weight)| *weight == Weight::Told));
        let slow = Machine { governors: vec!["powersave".into()], ..good() };
        assert_eq!(names(&slow, WISH), one("scaling_governor", Weight::Advised));
    }

    #[test]
    fn an_old_kernel_is_told_with_what_it_lacks() {
        let old = |kernel: &str| names(&Machine { kernel: kernel.into(), ..good() }, WISH);
        assert_eq!(old("5.15.0"), one("kernel", Weight::Advised));
        assert_eq!(old("6.0.9"), one("kernel", Weight::Advised));
        assert!(old("6.1.0").is_empty() && old("").is_empty());
    }

    #[test]
    fn a_machine_that_tells_nothing_is_not_judged() {
        assert_eq!(names(&Machine::default(), WISH), []);
    }
}
