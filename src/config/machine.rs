//! What this machine can give, against what the options ask for.
//!
//! What it keeps true: it only reads what the kernel shows under `/proc`, and where there is no
//! such thing (other systems) it knows nothing and warns of nothing. A warning is never a reason
//! not to start: the server takes what it gets and says so.

use std::fs;

use crate::config::options::{Executor, Options, RingBackend};
use crate::config::problem::Refusal;

/// The limits that matter to a server, as far as they are known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Machine {
    /// Open files of the process (hard limit: the server raises its soft one to it).
    pub files_max: Option<u64>,
    /// Bytes that the process may lock into memory.
    pub locked_bytes_max: Option<u64>,
    /// Cpus that the process may use.
    pub cpus: Option<Vec<u16>>,
    /// The most that a socket's receive buffer may be (`net.core.rmem_max`).
    pub receive_buffer_bytes_max: Option<u64>,
    /// The most that a socket's send buffer may be (`net.core.wmem_max`).
    pub send_buffer_bytes_max: Option<u64>,
    /// The most that a listener's backlog may be (`net.core.somaxconn`).
    pub backlog_max: Option<u64>,
    /// Whether `kernel.io_uring_disabled` forbids rings.
    pub uring_disabled: Option<bool>,
}

impl Machine {
    /// Looks at this machine.
    pub fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
        let limits = read("/proc/self/limits").unwrap_or_default();
        let status = read("/proc/self/status").unwrap_or_default();
        Self {
            files_max: hard_limit(&limits, "Max open files"),
            locked_bytes_max: hard_limit(&limits, "Max locked memory"),
            cpus: allowed_cpus(&status),
            receive_buffer_bytes_max: number("/proc/sys/net/core/rmem_max"),
            send_buffer_bytes_max: number("/proc/sys/net/core/wmem_max"),
            backlog_max: number("/proc/sys/net/core/somaxconn"),
            uring_disabled: number("/proc/sys/kernel/io_uring_disabled").map(|level| level > 0),
        }
    }

    /// Everything that `options` ask for and this machine does not give: keys with reasons.
    pub fn warnings(&self, options: &Options) -> Vec<(&'static str, Refusal)> {
        let mut warnings = Vec::new();
        self.warn_of_cpus(options, &mut warnings);
        self.warn_of_connections(options, &mut warnings);
        self.warn_of_ring(options, &mut warnings);
        if options.tcp.address.is_some() || options.http.address.is_some() {
            self.warn_of_sockets(options, &mut warnings);
        }
        warnings
    }

    fn warn_of_cpus(&self, options: &Options, warnings: &mut Vec<(&'static str, Refusal)>) {
        let Some(allowed) = &self.cpus else { return };
        let named = options.engine.cpus.as_deref().unwrap_or_default();
        if let Some(cpu) = named.iter().find(|cpu| !allowed.contains(cpu)) {
            warnings.push((
                "cpus",
                Refusal::new(
                    format!("the process may not use cpu {cpu}: that shard is not pinned"),
                    "see Cpus_allowed_list in /proc/self/status",
                ),
            ));
        }
        let shards = options.engine.shards.map_or(0, usize::from);
        if shards > allowed.len() {
            warnings.push((
                "shards",
                Refusal::new(
                    format!("{shards} shards share {} cpus", allowed.len()),
                    "one shard a cpu is fastest: leave it on auto",
                ),
            ));
        }
    }

    fn warn_of_connections(&self, options: &Options, warnings: &mut Vec<(&'static str, Refusal)>) {
        let shards = self.shards(options);
        let (wanted, _) = options.connections_max();
        let key = widest_door(options);
        let sockets = shards.saturating_mul(u64::from(options.engine.ring_sizes.sockets_max));
        if sockets < wanted {
            warnings.push((
                key,
                Refusal::new(
                    format!(
                        "{shards} rings hold {sockets} sockets together, {wanted} are asked for"
                    ),
                    "raise ring.sockets_max, or lower it",
                ),
            ));
        }
        let Some(files_max) = self.files_max else { return };
        // A ring's table of direct descriptors may be as long as the limit; sockets of the
        // readiness backend are files of the process, beside those it has for itself.
        let (capacity, bound) = if self.is_uring(options) {
            (shards.saturating_mul(files_max), "each ring")
        } else {
            (files_max.saturating_sub(FILES_OF_OUR_OWN), "the process")
        };
        if capacity < wanted {
            warnings.push((
                key,
                Refusal::new(
                    format!(
                        "the limit of {files_max} open files for {bound} leaves {capacity}, \
                         {wanted} connections are asked for"
                    ),
                    "raise it (ulimit -n, LimitNOFILE), or lower connections_max",
                ),
            ));
        }
    }

    fn warn_of_ring(&self, options: &Options, warnings: &mut Vec<(&'static str, Refusal)>) {
        if self.uring_disabled == Some(true) && options.engine.ring != RingBackend::Poll {
            let what = match options.engine.ring {
                RingBackend::Uring => {
                    "kernel.io_uring_disabled forbids it: the server will not start"
                }
                _ => "kernel.io_uring_disabled forbids io_uring: poll takes its place",
            };
            let remedy = "sysctl kernel.io_uring_disabled=0, or ring.backend = \"poll\"";
            warnings.push(("ring.backend", Refusal::new(what, remedy)));
        }
        let needed = self.shards(options).saturating_mul(GLOMMIO_LOCKED_BYTES);
        if options.engine.executor == Executor::Glommio
            && self.locked_bytes_max.is_some_and(|most| most < needed)
        {
            let what = format!("glommio needs {needed} bytes of locked memory");
            let remedy = "raise the limit (ulimit -l, LimitMEMLOCK), or executor = \"native\"";
            warnings.push(("executor", Refusal::new(what, remedy)));
        }
    }

    fn warn_of_sockets(&self, options: &Options, warnings: &mut Vec<(&'static str, Refusal)>) {
        let tcp = &options.tcp;
        for (key, wanted, most, knob) in [
            (
                "tcp.receive_buffer_bytes",
                tcp.receive_buffer_bytes,
                self.receive_buffer_bytes_max,
                "net.core.rmem_max",
            ),
            (
                "tcp.send_buffer_bytes",
                tcp.send_buffer_bytes,
                self.send_buffer_bytes_max,
                "net.core.wmem_max",
            ),
            ("tcp.backlog_max", tcp.backlog_max, self.backlog_max, "net.core.somaxconn"),
        ] {
            if let Some(most) = most.filter(|most| *most < u64::from(wanted)) {
                let what = format!("the kernel cuts it to {most}");
                warnings.push((key, Refusal::new(what, format!("raise {knob}, or lower it"))));
            }
        }
    }

    /// How many shards will run.
    fn shards(&self, options: &Options) -> u64 {
        let named = options.engine.cpus.as_ref().or(self.cpus.as_ref());
        let cpus = named.map_or(1, |cpus| cpus.len().max(1) as u64);
        options.engine.shards.map_or(cpus, u64::from)
    }

    /// Whether rings will be those of the kernel, as far as can be told from here.
    fn is_uring(&self, options: &Options) -> bool {
        match options.engine.ring {
            RingBackend::Poll => false,
            RingBackend::Uring => true,
            RingBackend::Auto => cfg!(target_os = "linux") && self.uring_disabled != Some(true),
        }
    }
}

/// The option that asks for most connections.
fn widest_door(options: &Options) -> &'static str {
    let tcp = options.tcp.address.map_or(0, |_| options.tcp.connections_max);
    let http = options.http.address.map_or(0, |_| options.http.connections_max);
    if http > tcp { "http.connections_max" } else { "tcp.connections_max" }
}

/// The hard limit in the row of `/proc/self/limits` that begins with `name`; `None` where it has
/// none or there is no such row.
fn hard_limit(limits: &str, name: &str) -> Option<u64> {
    let row = limits.lines().find_map(|line| line.strip_prefix(name))?;
    row.split_whitespace().nth(1)?.parse().ok()
}

/// The list in the row `Cpus_allowed_list` of `/proc/self/status`.
fn allowed_cpus(status: &str) -> Option<Vec<u16>> {
    let row = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cpus = Vec::new();
    for part in row.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?);
    }
    Some(cpus)
}

/// Files that the process needs for itself: standard streams, listeners, wakers, libraries.
const FILES_OF_OUR_OWN: u64 = 64;

/// Locked memory that one glommio executor asks for.
const GLOMMIO_LOCKED_BYTES: u64 = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that `machine` warns of.
    fn keys(machine: &Machine, options: &Options) -> Vec<&'static str> {
        machine.warnings(options).into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn a_machine_that_tells_nothing_warns_of_nothing() {
        assert!(keys(&Machine::default(), &Options::default()).is_empty());
    }

    #[test]
    fn the_file_limit_bounds_each_ring_or_the_whole_process() {
        let machine =
            Machine { files_max: Some(1000), cpus: Some(vec![0, 1]), ..Machine::default() };
        let mut options = Options::default();
        options.http.address = None;
        options.tcp.connections_max = 2000;
        options.engine.ring = RingBackend::Uring;
        assert!(keys(&machine, &options).is_empty());
        options.engine.ring = RingBackend::Poll;
        assert_eq!(keys(&machine, &options), ["tcp.connections_max"]);
        let (_, refusal) = machine.warnings(&options).remove(0);
        assert_eq!(
            refusal.what,
            "the limit of 1000 open files for the process leaves 936, \
             2000 connections are asked for"
        );
    }

    #[test]
    fn both_doors_count_and_the_wider_one_is_to_change() {
        let machine = Machine { files_max: Some(1000), cpus: Some(vec![0]), ..Machine::default() };
        let mut options = Options::default();
        options.engine.ring = RingBackend::Poll;
        (options.tcp.connections_max, options.http.connections_max) = (400, 500);
        assert!(keys(&machine, &options).is_empty());
        options.http.connections_max = 600;
        assert_eq!(keys(&machine, &options), ["http.connections_max"]);
        options.tcp.address = None;
        assert!(keys(&machine, &options).is_empty());
    }

    #[test]
    fn the_kernel_s_knobs_are_named() {
        let machine = Machine {
            locked_bytes_max: Some(1024),
            cpus: Some(vec![0]),
            receive_buffer_bytes_max: Some(1),
            send_buffer_bytes_max: Some(1),
            backlog_max: Some(1),
            uring_disabled: Some(true),
            ..Machine::default()
        };
        let mut options = Options::default();
        options.engine.executor = Executor::Glommio;
        options.engine.cpus = Some(vec![0, 7]);
        options.engine.shards = Some(2);
        assert_eq!(
            keys(&machine, &options),
            [
                "cpus",
                "shards",
                "ring.backend",
                "executor",
                "tcp.receive_buffer_bytes",
                "tcp.send_buffer_bytes",
                "tcp.backlog_max",
            ]
        );
        options.tcp.address = None;
        assert_eq!(keys(&machine, &options).len(), 7);
        options.http.address = None;
        assert_eq!(keys(&machine, &options).len(), 4);
    }

    #[test]
    fn the_pages_of_the_kernel_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 524288               files\n\
                      Max locked memory         unlimited            unlimited            bytes\n";
        assert_eq!(hard_limit(limits, "Max open files"), Some(524_288));
        assert_eq!(hard_limit(limits, "Max locked memory"), None);
        assert_eq!(hard_limit("", "Max open files"), None);
        assert_eq!(allowed_cpus("Cpus_allowed_list:\t0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(allowed_cpus("Cpus_allowed_list:\t\n"), None);
    }
}
