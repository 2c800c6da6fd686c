//! What of a machine is too little for a load.

use super::{Listener, Machine};
use crate::figure;
use crate::generator::RunConfig;

/// Seconds for which the side that closes a connection keeps its port (`TIME_WAIT`).
const TIME_WAIT_S: f64 = 60.0;
/// Open files of this process besides those of programs.
const OTHER_FILES: usize = 64;
/// Pipes of each program over stdio.
const PIPES: usize = 3;
/// Cores that other programs use from which they are named.
const OTHERS_MIN: f64 = 0.5;

/// Returns the warnings about `machine` for the load of `config` from `threads` load threads, each
/// a line: `warning` for what distorts it, `note` for what may.
pub fn warnings(machine: &Machine, config: &RunConfig, threads: u32) -> Vec<String> {
    let checks = [ports, time_wait, open_files, server_files, backlog];
    let mut found: Vec<String> = checks.iter().filter_map(|of| of(machine, config)).collect();
    found.extend(clock_source(machine));
    found.extend(other_programs(machine, config, threads));
    found
}

/// Returns the pairs of a local and a server address.
fn routes(config: &RunConfig) -> usize {
    config.endpoint.addresses().len() * config.connect.sources.len().max(1)
}

/// The kernel tries every second port first, and searches for long once those are taken.
fn ports(machine: &Machine, config: &RunConfig) -> Option<String> {
    let (connections, ports) = (config.total_connections(), machine.ports * routes(config));
    (ports > 0 && connections > ports.div_ceil(2)).then(|| {
        format!(
            "note: {connections} connections take more than half of {ports} ports, beyond which \
             each connect searches for long: sysctl -w net.ipv4.ip_local_port_range='1024 65535', \
             or --source with more addresses of this machine"
        )
    })
}

/// Connections that are replaced leave their ports in `TIME_WAIT`.
fn time_wait(machine: &Machine, config: &RunConfig) -> Option<String> {
    let churn = config.roles.churn?;
    let is_loopback = config.endpoint.addresses().iter().all(|it| it.ip().is_loopback());
    let is_reused = machine.tw_reuse.is_some_and(|mode| mode == 1 || (mode == 2 && is_loopback));
    let ports = machine.ports * routes(config);
    #[expect(clippy::cast_precision_loss, reason = "counts of ports")]
    let (needed, ports) =
        (config.total_connections() as f64 + churn.rate * TIME_WAIT_S, ports as f64);
    (!is_reused && ports > 0.0 && needed > ports).then(|| {
        format!(
            "warning: {} connections replaced a second need {} ports, as each is kept for a \
             minute (TIME_WAIT), and there are {}: sysctl -w net.ipv4.tcp_tw_reuse=1, or --source \
             with more addresses of this machine",
            figure::rate(churn.rate),
            figure::rate(needed),
            figure::rate(ports)
        )
    })
}

/// Each program over stdio has pipes. Connections do not count: rings are added for them, or the
/// run does not begin.
fn open_files(machine: &Machine, config: &RunConfig) -> Option<String> {
    config.endpoint.program()?;
    let connections = config.total_connections();
    let needed = connections.saturating_mul(PIPES) + OTHER_FILES;
    (needed > machine.open_files_max as usize).then(|| {
        format!(
            "warning: {connections} programs need {needed} open files, and the limit is {}: \
             ulimit -Hn {needed} as root, or LimitNOFILE= of a service",
            machine.open_files_max
        )
    })
}

fn server_files(machine: &Machine, config: &RunConfig) -> Option<String> {
    let process = machine.listener.as_ref()?.process.as_ref()?;
    let connections = config.total_connections();
    let needed = process.open_files + connections as u64;
    (needed > process.open_files_max).then(|| {
        format!(
            "warning: {connections} connections need {needed} open files of the server {} (pid \
             {}), and its limit is {}: start it after ulimit -n {needed}, or with LimitNOFILE= of \
             a service",
            process.name, process.pid, process.open_files_max
        )
    })
}

/// Connections beyond the backlog are dropped, and tried again after one second, two, four.
fn backlog(machine: &Machine, config: &RunConfig) -> Option<String> {
    let Listener { address, backlog_max, .. } = machine.listener.as_ref()?;
    let connections = config.total_connections() as u64;
    (config.connect.rate.is_none() && connections > *backlog_max).then(|| {
        format!(
            "note: {connections} connections open at once, and the backlog of {address} is \
             {backlog_max}: those beyond it that the server has not accepted wait a second or \
             more; raise it in the server (at most sysctl net.core.somaxconn), or use \
             --connect-rate {}",
            backlog_max.saturating_mul(10).max(10)
        )
    })
}

fn clock_source(machine: &Machine) -> Option<String> {
    let source = machine.clock_source.as_ref().filter(|source| source.is_slow())?;
    let correction = source.command().unwrap_or_else(|| {
        "the kernel offers no faster one; use another machine for short times".into()
    });
    Some(format!(
        "warning: the clock source is {}, of which each reading is a system call: {correction}",
        source.current
    ))
}

fn other_programs(machine: &Machine, config: &RunConfig, threads: u32) -> Option<String> {
    let used = machine.core_use?;
    let is_server_here = machine.listener.is_some() || config.endpoint.program().is_some();
    let needed = threads.saturating_add(u32::from(is_server_here));
    let cores = f64::from(used.cores);
    // A load that needs more than the machine has is not the fault of others.
    let is_short = cores - used.busy_cores < f64::from(needed).min(cores);
    (used.busy_cores >= OTHERS_MIN && is_short).then(|| {
        let plural = if threads == 1 { "" } else { "s" };
        let server = if is_server_here { " and a server" } else { "" };
        let busy = format!("{:.1}", used.busy_cores);
        format!(
            "warning: other programs use {} of {} cores now, and {threads} load \
             thread{plural}{server} need {needed}: stop those that top shows, or use another \
             machine",
            figure::without_zeros(&busy),
            used.cores
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{ClockSource, ListenerProcess};
    use crate::metrics::host::MachineUse;
    use crate::plan::Plan;

    fn config(text: &str) -> RunConfig {
        let target = if text.contains("target") { "" } else { "target = \"tcp://127.0.0.1:1\"" };
        let phase = "[[phase]]\nrate = 1\nduration = \"1s\"";
        let plan: Plan = toml::from_str(&format!("{target}\n{text}\n{phase}")).unwrap();
        plan.run_config().unwrap()
    }

    fn good() -> Machine {
        Machine {
            ports: 28_000,
            tw_reuse: Some(2),
            open_files_max: 20_000,
            clock_source: Some(ClockSource { current: "tsc".into(), available: Vec::new() }),
            listener: Some(listener(4_096, 1_000_000)),
            core_use: Some(busy(2, 0.2)),
        }
    }

    fn busy(cores: u32, busy_cores: f64) -> MachineUse {
        MachineUse { cores, busy_cores, steal_ratio: 0.0 }
    }

    fn listener(backlog_max: u64, open_files_max: u64) -> Listener {
        let process =
            ListenerProcess { pid: 12, name: "server".into(), open_files: 10, open_files_max };
        let address = "127.0.0.1:1".parse().unwrap();
        Listener { address, backlog_max, process: Some(process) }
    }

    /// Asserts a single warning with these parts.
    fn assert_one(machine: &Machine, text: &str, parts: &[&str]) {
        let found = warnings(machine, &config(text), 1);
        let [line] = &found[..] else { panic!("{text}: {found:?}") };
        for part in parts {
            assert!(line.contains(part), "'{part}' is not in: {line}");
        }
    }

    fn assert_none(machine: &Machine, text: &str) {
        assert_eq!(warnings(machine, &config(text), 1), Vec::<String>::new(), "{text}");
    }

    #[test]
    fn sufficient_machine_has_no_warnings() {
        for load in ["", "connections = 4000", "target = \"stdio:cat\"", "churn = { rate = 900 }"] {
            assert_none(&good(), load);
        }
        assert_eq!(warnings(&Machine::default(), &config(""), 1), Vec::<String>::new());
    }

    #[test]
    fn short_ports_are_named_with_range() {
        let machine = Machine { ports: 100, ..good() };
        let sources = "connect = { sources = [\"127.0.0.1\"] }\nconnections";
        let one = ["note: 51 connections", "of 100 ports", "ip_local_port_range='1024 65535'"];
        assert_one(&machine, &format!("{sources} = 51"), &one);
        assert_none(&machine, &format!("{sources} = 50"));
        let replaced = "connections = 10\nchurn = { rate = 2 }";
        assert_none(&machine, replaced);
        let kept = Machine { tw_reuse: Some(0), ..machine };
        assert_one(&kept, replaced, &["need 130 ports", "there are 100", "tcp_tw_reuse=1"]);
        assert_none(&Machine { ports: 130, ..kept }, replaced);
    }

    #[test]
    fn low_open_files_limit_names_value_needed() {
        let machine = Machine { open_files_max: 100, ..good() };
        let programs = "target = \"stdio:cat\"\nconnections = 13";
        assert_one(&machine, programs, &["13 programs need 103", "limit is 100", "ulimit"]);
        assert_none(&machine, "connections = 500");
        let machine = Machine { listener: Some(listener(4_096, 1_024)), ..good() };
        let server = ["need 1025 open files of the server server (pid 12)", "limit is 1024"];
        assert_one(&machine, "connections = 1015", &server);
        assert_none(&machine, "connections = 1014");
    }

    #[test]
    fn short_backlog_is_noted_without_connect_rate() {
        let machine = Machine { listener: Some(listener(5, 1_024)), ..good() };
        let parts = ["note: 64 connections", "backlog of 127.0.0.1:1 is 5", "--connect-rate 50"];
        assert_one(&machine, "", &parts);
        assert_none(&machine, "connections = 5");
        assert_none(&machine, "connect = { rate = 1000 }");
    }

    #[test]
    fn slow_clock_source_names_command() {
        let of = |available: &[&str]| {
            let available = available.iter().map(|name| (*name).into()).collect();
            let source = ClockSource { current: "hpet".into(), available };
            Machine { clock_source: Some(source), ..good() }
        };
        assert_one(&of(&["hpet", "tsc"]), "", &["clock source is hpet", "echo tsc > /sys/"]);
        assert_one(&of(&["hpet"]), "", &["no faster one"]);
    }

    #[test]
    fn other_programs_matter_if_cores_are_short() {
        let of = |cores, cores_used| Machine { core_use: Some(busy(cores, cores_used)), ..good() };
        let parts = ["use 1.5 of 2 cores", "1 load thread and a server need 2", "top"];
        assert_one(&of(2, 1.5), "", &parts);
        assert_none(&of(2, 0.4), "");
        assert_none(&of(8, 5.5), "");
        assert_one(&of(1, 0.6), "", &["use 0.6 of 1 cores"]);
        let remote = Machine { listener: None, ..of(2, 0.9) };
        assert_none(&remote, "");
    }
}
