//! Limits of a machine checked against a number of connections.
//!
//! Memory is computed for both ends on this machine, as with loopback; on two machines each needs
//! less.

use super::finding::{PlannedLoad, Severity, TuningFinding};
use super::machine::Machine;

/// Descriptors of a process besides its connections: rings, listeners, files, standard streams.
const OTHER_FILES: u64 = 64;
/// The backlog that Corelane requests (`tcp.backlog_max`).
const BACKLOG: u64 = 4_096;

/// Memory of a connection in the server, in bytes: a stream of `subscriptions/listen`, the largest
/// of the README's figures (an initialized session over TCP takes 338).
pub(super) const SERVER_BYTES: u64 = 673;
/// Memory of a connection in the load generator, in bytes: about 250 when idle, plus buffers.
pub(super) const GENERATOR_BYTES: u64 = 1_024;
/// Memory of a socket in the kernel, in bytes (6.18, `/proc/slabinfo`): TCP 2,368, inode 832, file
/// 192, dentry 192, the `io_uring` request with its poll about 350.
pub(super) const SOCKET_BYTES: u64 = 4_096;

const LIMITS_PLAN: &str = "knob-limits.toml";

/// Returns the limits of `machine` that are too low for the connections of `load`.
pub(super) fn insufficient_limits(machine: &Machine, load: &PlannedLoad) -> Vec<TuningFinding> {
    let judges = [files, system_files, ports, backlog, memory, conntrack];
    judges.iter().filter_map(|judge| judge(machine, load)).collect()
}

/// Checks open files of a process: each `io_uring` ring has the whole limit, poll shares it.
fn files(machine: &Machine, load: &PlannedLoad) -> Option<TuningFinding> {
    let here = machine.open_files_max?;
    let wanted = load.connections.saturating_add(OTHER_FILES);
    let rings = load.connections.div_ceil(here.saturating_sub(OTHER_FILES).max(1));
    let ceiling = machine.number("fs.nr_open").filter(|ceiling| *ceiling < wanted);
    let first = ceiling.map_or_else(String::new, |_| format!("sysctl -w fs.nr_open={wanted}; "));
    (here < wanted).then(|| TuningFinding {
        knob: "nofile".into(),
        severity: Severity::Needed,
        actual: here.to_string(),
        expected: format!("{wanted} or more"),
        cost: "connections beyond the limit are not accepted and wait in the kernel".into(),
        hint: format!(
            "{first}install tuning/corelane-limits.conf (a service: LimitNOFILE=), or run the \
             server with {rings} shards, since the limit applies to each ring; the load generator \
             adds rings automatically"
        ),
        plan: Some(LIMITS_PLAN.into()),
    })
}

/// Checks open files of all processes; both ends of each connection count.
fn system_files(machine: &Machine, load: &PlannedLoad) -> Option<TuningFinding> {
    let here = machine.number("fs.file-max")?;
    let open = machine.numbers("fs.file-nr").and_then(|numbers| numbers.first().copied());
    let wanted = open.unwrap_or_default().saturating_add(load.connections.saturating_mul(2));
    (here < wanted).then(|| TuningFinding {
        knob: "fs.file-max".into(),
        severity: Severity::Needed,
        actual: here.to_string(),
        expected: format!("{wanted} or more"),
        cost: "at the limit no process can open a file or socket".into(),
        hint: format!("sysctl -w fs.file-max={}", wanted.saturating_mul(2)),
        plan: Some(LIMITS_PLAN.into()),
    })
}

/// Checks ephemeral ports: each address and port connects to one server once.
fn ports(machine: &Machine, load: &PlannedLoad) -> Option<TuningFinding> {
    let each = machine.ports()?;
    let here = each.saturating_mul(load.sources);
    let sources = load.connections.div_ceil(each.max(1));
    (here < load.connections).then(|| TuningFinding {
        knob: "ports".into(),
        severity: Severity::Needed,
        actual: format!("{here} ({each} × {})", load.sources),
        expected: format!("{} or more", load.connections),
        cost: "further connections fail: cannot assign requested address".into(),
        hint: format!(
            "connect from {sources} addresses: pass them with --source (automatic over loopback), \
             or widen the range: sysctl -w net.ipv4.ip_local_port_range='1024 65535'"
        ),
        plan: Some("knob-ports.toml".into()),
    })
}

/// Checks the listener backlog for a burst of connections.
fn backlog(machine: &Machine, load: &PlannedLoad) -> Option<TuningFinding> {
    let here = machine.number("net.core.somaxconn")?;
    let wanted = load.connections.min(BACKLOG);
    (here < wanted).then(|| TuningFinding {
        knob: "backlog".into(),
        severity: Severity::Needed,
        actual: here.to_string(),
        expected: format!("{wanted} or more"),
        cost: "the kernel silently lowers the requested backlog: connections of a burst beyond it \
               wait a second or more"
            .into(),
        hint: format!("sysctl -w net.core.somaxconn={BACKLOG}, then restart the server"),
        plan: Some("knob-backlog.toml".into()),
    })
}

/// Checks the memory of both ends.
fn memory(machine: &Machine, load: &PlannedLoad) -> Option<TuningFinding> {
    let here = machine.available_bytes?;
    let each = SERVER_BYTES + GENERATOR_BYTES + 2 * SOCKET_BYTES;
    let wanted = each.saturating_mul(load.connections);
    (here < wanted).then(|| TuningFinding {
        knob: "memory".into(),
        severity: Severity::Needed,
        actual: mebibytes(here),
        expected: format!(
            "{}: a connection takes {SERVER_BYTES} bytes in the server, {GENERATOR_BYTES} in the \
             load generator, {SOCKET_BYTES} for each of its two sockets in the kernel",
            mebibytes(wanted)
        ),
        cost: "the kernel kills a process when memory runs out".into(),
        hint: "use fewer connections, or run both ends on two machines".into(),
        plan: Some("knob-memory.toml".into()),
    })
}

/// Checks the connection tracking table, if the firewall has one.
fn conntrack(machine: &Machine, load: &PlannedLoad) -> Option<TuningFinding> {
    let here = machine.number("net.netfilter.nf_conntrack_max")?;
    (here < load.connections).then(|| TuningFinding {
        knob: "net.netfilter.nf_conntrack_max".into(),
        severity: Severity::Advised,
        actual: here.to_string(),
        expected: format!("{} or more", load.connections),
        cost: "if a firewall rule tracks connections, packets of further connections are dropped"
            .into(),
        hint: format!(
            "sysctl -w net.netfilter.nf_conntrack_max={}",
            load.connections.saturating_mul(2)
        ),
        plan: None,
    })
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
