//! What a number of connections asks of a machine.
//!
//! Memory is counted for a machine that has both ends, as one has that drives itself over loopback;
//! where they stand apart each needs less.

use super::machine::Machine;
use super::review::{Finding, Weight, Wish};

/// Descriptors of a process beside its connections: rings, listeners, files, standard streams.
const FURTHER_FILES: u64 = 64;
/// The backlog that Corelane asks for (`tcp.backlog_max`).
const BACKLOG: u64 = 4_096;

/// Bytes of a connection in the server: a stream of `subscriptions/listen`, the most of those that
/// the README's figures tell (an initialized session over TCP has 338).
pub(super) const SERVER_BYTES: u64 = 673;
/// Bytes of a connection in the generator: about 250 were seen of those that are only held, and its
/// buffers come on top.
pub(super) const GENERATOR_BYTES: u64 = 1_024;
/// Bytes of a socket in the kernel (6.18, from `/proc/slabinfo`): TCP 2,368, its inode 832, its
/// file 192, its name 192, the ring's request that waits on it with its poll about 350.
pub(super) const SOCKET_BYTES: u64 = 4_096;

const LIMITS_PLAN: &str = "knob-limits.toml";

/// What of `machine` is too small for the connections of `wish`.
pub(super) fn shortages(machine: &Machine, wish: &Wish) -> Vec<Finding> {
    let judges = [files, files_of_all, ports, backlog, memory, tracked];
    judges.iter().filter_map(|judge| judge(machine, wish)).collect()
}

/// Open files of one process: a ring has the whole limit to itself, readiness shares it.
fn files(machine: &Machine, wish: &Wish) -> Option<Finding> {
    let here = machine.files_max?;
    let wanted = wish.connections.saturating_add(FURTHER_FILES);
    let rings = wish.connections.div_ceil(here.saturating_sub(FURTHER_FILES).max(1));
    let ceiling = machine.number("fs.nr_open").filter(|ceiling| *ceiling < wanted);
    let first = ceiling.map_or_else(String::new, |_| format!("sysctl -w fs.nr_open={wanted}; "));
    (here < wanted).then(|| Finding {
        knob: "nofile".into(),
        weight: Weight::Needed,
        here: here.to_string(),
        wanted: format!("{wanted} or more"),
        cost: "a server with this limit leaves connections beyond it waiting in the kernel".into(),
        remedy: format!(
            "{first}install tuning/corelane-limits.conf (a service: LimitNOFILE=), or give the \
             server {rings} shards, each ring of which has the limit to itself; the load takes as \
             many rings by itself"
        ),
        plan: Some(LIMITS_PLAN.into()),
    })
}

/// Open files of all processes together; both ends of each connection count.
fn files_of_all(machine: &Machine, wish: &Wish) -> Option<Finding> {
    let here = machine.number("fs.file-max")?;
    let open = machine.numbers("fs.file-nr").and_then(|numbers| numbers.first().copied());
    let wanted = open.unwrap_or_default().saturating_add(wish.connections.saturating_mul(2));
    (here < wanted).then(|| Finding {
        knob: "fs.file-max".into(),
        weight: Weight::Needed,
        here: here.to_string(),
        wanted: format!("{wanted} or more"),
        cost: "no process can open anything once it is reached".into(),
        remedy: format!("sysctl -w fs.file-max={}", wanted.saturating_mul(2)),
        plan: Some(LIMITS_PLAN.into()),
    })
}

/// Ports of all addresses that connect: one server sees each pair of address and port once.
fn ports(machine: &Machine, wish: &Wish) -> Option<Finding> {
    let each = machine.ports()?;
    let here = each.saturating_mul(wish.sources);
    let sources = wish.connections.div_ceil(each.max(1));
    (here < wish.connections).then(|| Finding {
        knob: "ports".into(),
        weight: Weight::Needed,
        here: format!("{here} ({each} × {})", wish.sources),
        wanted: format!("{} or more", wish.connections),
        cost: "connections beyond it fail: cannot assign requested address".into(),
        remedy: format!(
            "connect from {sources} addresses: name them with --source (over loopback the load \
             takes them by itself), or widen the range: sysctl -w \
             net.ipv4.ip_local_port_range='1024 65535'"
        ),
        plan: Some("knob-ports.toml".into()),
    })
}

/// What a burst of connections finds room in, as far as the server asks for it.
fn backlog(machine: &Machine, wish: &Wish) -> Option<Finding> {
    let here = machine.number("net.core.somaxconn")?;
    let wanted = wish.connections.min(BACKLOG);
    (here < wanted).then(|| Finding {
        knob: "backlog".into(),
        weight: Weight::Needed,
        here: here.to_string(),
        wanted: format!("{wanted} or more"),
        cost: "a server asks for more and is not told that it did not get it: where connections \
               come at once, those beyond it wait a second or more"
            .into(),
        remedy: format!("sysctl -w net.core.somaxconn={BACKLOG}, then start the server again"),
        plan: Some("knob-backlog.toml".into()),
    })
}

/// Memory of both ends.
fn memory(machine: &Machine, wish: &Wish) -> Option<Finding> {
    let here = machine.available_bytes?;
    let each = SERVER_BYTES + GENERATOR_BYTES + 2 * SOCKET_BYTES;
    let wanted = each.saturating_mul(wish.connections);
    (here < wanted).then(|| Finding {
        knob: "memory".into(),
        weight: Weight::Needed,
        here: mebibytes(here),
        wanted: format!(
            "{}: a connection takes {SERVER_BYTES} bytes in the server, {GENERATOR_BYTES} in the \
             generator, {SOCKET_BYTES} for each of its two sockets in the kernel",
            mebibytes(wanted)
        ),
        cost: "the kernel ends a process when memory runs out".into(),
        remedy: "have fewer connections, or the two ends on two machines".into(),
        plan: Some("knob-memory.toml".into()),
    })
}

/// Connections that a firewall can follow, where one does.
fn tracked(machine: &Machine, wish: &Wish) -> Option<Finding> {
    let here = machine.number("net.netfilter.nf_conntrack_max")?;
    (here < wish.connections).then(|| Finding {
        knob: "net.netfilter.nf_conntrack_max".into(),
        weight: Weight::Advised,
        here: here.to_string(),
        wanted: format!("{} or more", wish.connections),
        cost: "where a rule of the firewall follows connections, packets of those beyond it are \
               dropped"
            .into(),
        remedy: format!(
            "sysctl -w net.netfilter.nf_conntrack_max={}",
            wish.connections.saturating_mul(2)
        ),
        plan: None,
    })
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
