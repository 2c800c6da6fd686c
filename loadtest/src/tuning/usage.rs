//! Limits of a machine checked against what it is used for now: its listeners.

use super::finding::{Severity, TuningFinding};
use super::listeners::Listener;
use super::machine::Machine;

/// Part of a limit in use from which it is reported.
const USED_MAX: f64 = 0.8;

/// Returns the limits that the use of `machine` reaches or comes close to.
pub(super) fn strained_limits(machine: &Machine) -> Vec<TuningFinding> {
    let listeners = machine.listeners.all.iter();
    let mut findings: Vec<TuningFinding> = listeners
        .flat_map(|listener| [files(listener), backlog(machine, listener)])
        .flatten()
        .collect();
    findings.extend(overflows(machine));
    findings
}

/// Returns the severity of a use of a limit, or `None` if there is room.
fn severity(used: u64, limit: u64) -> Option<Severity> {
    #[expect(clippy::cast_precision_loss, reason = "counts of files and connections")]
    let is_close = used as f64 >= limit as f64 * USED_MAX;
    match (used >= limit, is_close) {
        (true, _) => Some(Severity::Needed),
        (false, true) => Some(Severity::Advised),
        (false, false) => None,
    }
}

/// Checks the open files of the process of a listener.
fn files(listener: &Listener) -> Option<TuningFinding> {
    let process = listener.process.as_ref()?;
    let limit = process.open_files_max?;
    let severity = severity(process.open_files, limit)?;
    Some(TuningFinding {
        knob: format!("nofile of {} (pid {})", process.name, process.pid),
        severity,
        actual: format!("{} of {limit} open files", process.open_files),
        expected: "room for further connections".into(),
        cost: "connections beyond the limit are not accepted and wait in the kernel".into(),
        hint: "install tuning/corelane-limits.conf (a service: LimitNOFILE=), then restart the \
               server"
            .into(),
        plan: Some("knob-limits.toml".into()),
    })
}

/// Checks the connections that wait for a listener.
fn backlog(machine: &Machine, listener: &Listener) -> Option<TuningFinding> {
    let limit = machine.number("net.core.somaxconn")?;
    let severity = severity(listener.waiting, limit)?;
    Some(TuningFinding {
        knob: format!("backlog of {}", listener.address),
        severity,
        actual: format!("{} connections wait, limit {limit}", listener.waiting),
        expected: "connections are accepted at once".into(),
        cost: "further connections are dropped and retried after a second or more".into(),
        hint: "find out why the server does not accept: its CPU, its open files, its own limit of \
               connections"
            .into(),
        plan: Some("knob-backlog.toml".into()),
    })
}

/// Checks whether listeners dropped connections.
fn overflows(machine: &Machine) -> Option<TuningFinding> {
    let count = machine.listeners.overflows.filter(|count| *count > 0)?;
    Some(TuningFinding {
        knob: "TcpExtListenOverflows".into(),
        severity: Severity::Info,
        actual: format!("{count} connections dropped since the machine was started"),
        expected: "0, or the same after a test".into(),
        cost: "a client retries after a second or more".into(),
        hint: "compare it before and after a test (nstat -az TcpExtListenOverflows)".into(),
        plan: Some("knob-backlog.toml".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::listeners::{ListenerProcess, Listeners};

    fn machine(open_files: u64, waiting: u64, overflows: u64) -> Machine {
        let process = ListenerProcess {
            pid: 12,
            name: "server".into(),
            open_files,
            open_files_max: Some(1_000),
        };
        let listener = Listener {
            address: "127.0.0.1:80".parse().unwrap(),
            connections: 3,
            waiting,
            process: Some(process),
        };
        Machine {
            settings: [("net.core.somaxconn".into(), "128".into())].into(),
            listeners: Listeners { all: vec![listener], overflows: Some(overflows) },
            ..Machine::default()
        }
    }

    fn found(machine: &Machine) -> Vec<(String, Severity)> {
        strained_limits(machine).into_iter().map(|it| (it.knob, it.severity)).collect()
    }

    #[test]
    fn limits_are_reported_when_they_are_used_up() {
        assert_eq!(found(&machine(799, 0, 0)), []);
        let files = "nofile of server (pid 12)".to_owned();
        assert_eq!(found(&machine(800, 0, 0)), [(files.clone(), Severity::Advised)]);
        assert_eq!(found(&machine(1_000, 0, 0)), [(files, Severity::Needed)]);
        let backlog = "backlog of 127.0.0.1:80".to_owned();
        assert_eq!(found(&machine(10, 128, 0)), [(backlog, Severity::Needed)]);
        assert_eq!(found(&machine(10, 0, 5))[0].1, Severity::Info);
    }
}
