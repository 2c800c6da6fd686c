//! What the options require of this machine: limits, and directories that can be read.
//!
//! Reads `/proc` and `/sys`; on systems without them the limits are unknown and raise no warning. A
//! warning does not prevent the start: the server uses what it gets.

mod cgroup;

use std::fs;
use std::io;
use std::path::Path;

use corelane_engine::ring::SocketLimit;

use self::cgroup::CgroupLimits;
use crate::config::issue::Diagnostic;
use crate::config::options::{ExecutorKind, Options, RingBackend};

/// Limits of the machine that matter to a server, as far as they are known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MachineLimits {
    /// Open files of the process (hard limit; the server raises the soft limit to it).
    pub files_max: Option<u64>,
    /// Bytes that the process may lock in memory.
    pub locked_bytes_max: Option<u64>,
    /// Cpus that the process may run on.
    pub cpus: Option<Vec<u16>>,
    /// Largest receive buffer of a socket (`net.core.rmem_max`).
    pub receive_buffer_bytes_max: Option<u64>,
    /// Largest send buffer of a socket (`net.core.wmem_max`).
    pub send_buffer_bytes_max: Option<u64>,
    /// Largest backlog of a listener (`net.core.somaxconn`).
    pub backlog_max: Option<u64>,
    /// Whether a shard gets an `io_uring`; not detected here.
    pub has_uring: Option<bool>,
    /// CPU time and memory of the control group.
    pub cgroup: CgroupLimits,
}

impl MachineLimits {
    /// Reads the limits of this machine.
    pub fn detect() -> Self {
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
            has_uring: None,
            cgroup: CgroupLimits::detect(),
        }
    }

    /// Returns a warning, with its option, per requirement of `options` beyond the limits.
    pub fn warnings(&self, options: &Options) -> Vec<(&'static str, Diagnostic)> {
        let mut warnings = Vec::new();
        self.check_cpus(options, &mut warnings);
        self.check_cgroup(options, &mut warnings);
        self.check_connections(options, &mut warnings);
        self.check_locked_memory(options, &mut warnings);
        if options.tcp.address.is_some() || options.http.address.is_some() {
            self.check_sockets(options, &mut warnings);
        }
        warnings
    }

    fn check_cpus(&self, options: &Options, warnings: &mut Vec<(&'static str, Diagnostic)>) {
        let Some(allowed) = &self.cpus else { return };
        let named = options.engine.cpus.as_deref().unwrap_or_default();
        if let Some(cpu) = named.iter().find(|cpu| !allowed.contains(cpu)) {
            warnings.push((
                "cpus",
                Diagnostic::new(
                    format!("the process may not use cpu {cpu}: its shard is not pinned"),
                    "see Cpus_allowed_list in /proc/self/status",
                ),
            ));
        }
        let shards = options.engine.shards.map_or(0, usize::from);
        if shards > allowed.len() {
            warnings.push((
                "shards",
                Diagnostic::new(
                    format!("{shards} shards share {} cpus", allowed.len()),
                    "one shard per cpu is fastest: set it to auto",
                ),
            ));
        }
    }

    fn check_connections(&self, options: &Options, warnings: &mut Vec<(&'static str, Diagnostic)>) {
        let shards = self.shards(options);
        let (required, key) = required_connections(options);
        let sockets = shards
            .saturating_mul(served(SocketLimit::SocketsMax(options.engine.ring_sizes.sockets_max)));
        if sockets < required {
            warnings.push((
                key,
                Diagnostic::new(
                    format!(
                        "{shards} rings hold {sockets} sockets in total, {required} connections \
                         are required"
                    ),
                    "raise ring.sockets_max, or lower this option",
                ),
            ));
        }
        let Some(files_max) = self.files_max else { return };
        let files = u32::try_from(files_max).unwrap_or(u32::MAX);
        // The direct descriptor table of a ring may be as long as the limit; sockets of the poll
        // backend are files of the process, besides its own.
        let (capacity, scope) = if self.is_uring(options) {
            (shards.saturating_mul(served(SocketLimit::OpenFiles(files))), "each ring")
        } else {
            (served(SocketLimit::OpenFiles(files)).saturating_sub(PROCESS_FILES), "the process")
        };
        if capacity < required {
            warnings.push((
                key,
                Diagnostic::new(
                    format!(
                        "the limit of {files_max} open files for {scope} leaves {capacity}, \
                         {required} connections are required"
                    ),
                    "raise it (ulimit -n, LimitNOFILE), or lower connections_max",
                ),
            ));
        }
    }

    fn check_cgroup(&self, options: &Options, warnings: &mut Vec<(&'static str, Diagnostic)>) {
        let CgroupLimits { milli_cpus, memory_bytes } = self.cgroup;
        let shards = self.shards(options);
        if let Some(milli_cpus) = milli_cpus
            && shards.saturating_mul(1000) > milli_cpus
        {
            let (whole, rest) = (milli_cpus / 1000, milli_cpus % 1000 / 100);
            let message = format!(
                "{shards} shards share {whole}.{rest} cpus of the control group: when they are \
                 used up, all shards stop for the rest of the period"
            );
            let hint =
                "set at most one shard per cpu, or raise the quota (docker --cpus, CPUQuota=)";
            warnings.push(("shards", Diagnostic::new(message, hint)));
        }
        let held = options.limits.memory_bytes_max as u64;
        if let Some(memory_bytes) = memory_bytes
            && held > memory_bytes / 4 * 3
        {
            let message = format!(
                "peers may take {held} of the {memory_bytes} bytes of the control group, which \
                 must also hold rings, socket buffers and handlers: the kernel ends the process \
                 (OOM)"
            );
            let hint = "lower it to half of the limit, or raise the limit (docker --memory, \
                        MemoryMax=)";
            warnings.push(("memory_bytes_max", Diagnostic::new(message, hint)));
        }
    }

    fn check_locked_memory(
        &self,
        options: &Options,
        warnings: &mut Vec<(&'static str, Diagnostic)>,
    ) {
        let needed = self.shards(options).saturating_mul(GLOMMIO_LOCKED_BYTES);
        if options.engine.executor == ExecutorKind::Glommio
            && self.locked_bytes_max.is_some_and(|most| most < needed)
        {
            let message = format!("glommio needs {needed} bytes of locked memory");
            let hint = "raise the limit (ulimit -l, LimitMEMLOCK), or executor = \"native\"";
            warnings.push(("executor", Diagnostic::new(message, hint)));
        }
    }

    fn check_sockets(&self, options: &Options, warnings: &mut Vec<(&'static str, Diagnostic)>) {
        let tcp = &options.tcp;
        for (key, value, most, sysctl) in [
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
            if let Some(most) = most.filter(|most| *most < u64::from(value)) {
                let message = format!("the kernel reduces it to {most}");
                let hint = format!("raise {sysctl}, or lower this option");
                warnings.push((key, Diagnostic::new(message, hint)));
            }
        }
    }

    /// Returns the number of shards that will run.
    fn shards(&self, options: &Options) -> u64 {
        let named = options.engine.cpus.as_ref().or(self.cpus.as_ref());
        let cpus = named.map_or(1, |cpus| cpus.len().max(1) as u64);
        options.engine.shards.map_or(cpus, u64::from)
    }

    /// Returns whether the shards will use `io_uring`, as far as it can be predicted.
    fn is_uring(&self, options: &Options) -> bool {
        match options.engine.ring {
            RingBackend::Poll => false,
            RingBackend::Uring => true,
            RingBackend::Auto => cfg!(target_os = "linux") && self.has_uring != Some(false),
        }
    }
}

/// Returns how many sockets are not spare.
fn served(limit: SocketLimit) -> u64 {
    let (SocketLimit::OpenFiles(most) | SocketLimit::SocketsMax(most)) = limit;
    u64::from(most - limit.spare())
}

/// Returns the number of connections that were asked for, and the option that asks for most of
/// them. Defaults ask for none: they bound the connections where the machine does not.
fn required_connections(options: &Options) -> (u64, &'static str) {
    let defaults = Options::for_profile(options.profile);
    let required = |address: Option<_>, most: u32, default: u32| {
        if address.is_some() && most != default { u64::from(most) } else { 0 }
    };
    let (tcp, http, websocket) = (&options.tcp, &options.http, &options.websocket);
    let upgrades = http.address.filter(|_| websocket.path.is_some());
    let tcp = required(tcp.address, tcp.connections_max, defaults.tcp.connections_max);
    let http = required(http.address, http.connections_max, defaults.http.connections_max);
    let most = defaults.websocket.connections_max;
    let websocket = required(upgrades, websocket.connections_max, most);
    let key = if websocket > http.max(tcp) {
        "websocket.connections_max"
    } else if http > tcp {
        "http.connections_max"
    } else {
        "tcp.connections_max"
    };
    (tcp + http + websocket, key)
}

/// Returns the hard limit in the row of `/proc/self/limits` that begins with `name`, or `None` if
/// it is unlimited or there is no such row.
fn hard_limit(limits: &str, name: &str) -> Option<u64> {
    let row = limits.lines().find_map(|line| line.strip_prefix(name))?;
    row.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the list in the row `Cpus_allowed_list` of `/proc/self/status`.
fn allowed_cpus(status: &str) -> Option<Vec<u16>> {
    let row = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cpus = Vec::new();
    for part in row.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?);
    }
    Some(cpus)
}

/// Files the process itself needs: standard streams, listeners, eventfds, libraries.
const PROCESS_FILES: u64 = 64;

/// Locked memory that one glommio executor requires.
const GLOMMIO_LOCKED_BYTES: u64 = 512 << 10;

/// Returns a diagnostic per directory that `options` name and this process cannot read, with the
/// key of its option.
pub fn find_unreadable(options: &Options) -> Vec<(&'static str, Diagnostic)> {
    let files = &options.files;
    let directories = [
        ("resources.directory", &files.resources),
        ("prompts.directory", &files.prompts),
        ("tools.directory", &files.tools),
        ("skills.directory", &files.skills),
    ];
    let faults =
        directories.into_iter().filter_map(|(key, path)| Some((key, check(path.as_deref()?)?)));
    faults.collect()
}

fn check(path: &Path) -> Option<Diagnostic> {
    let error = fs::read_dir(path).err()?;
    let path = path.display();
    let (message, hint) = match error.kind() {
        io::ErrorKind::NotFound => {
            (format!("{path} does not exist"), "create it, name another directory, or off")
        }
        io::ErrorKind::NotADirectory => {
            (format!("{path} is not a directory"), "name the directory that holds the files")
        }
        io::ErrorKind::PermissionDenied => {
            (format!("{path}: permission denied"), "grant this process read permission")
        }
        _ => (format!("{path} cannot be read: {error}"), "name another directory, or off"),
    };
    Some(Diagnostic::new(message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the keys that `machine` warns of.
    fn keys(machine: &MachineLimits, options: &Options) -> Vec<&'static str> {
        machine.warnings(options).into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn unknown_limits_raise_no_warning() {
        assert!(keys(&MachineLimits::default(), &Options::default()).is_empty());
    }

    #[test]
    fn file_limit_bounds_ring_or_process() {
        let machine = MachineLimits {
            files_max: Some(1000),
            cpus: Some(vec![0, 1]),
            ..MachineLimits::default()
        };
        let mut options = Options::default();
        options.http.address = None;
        options.tcp.connections_max = 1700;
        options.engine.ring = RingBackend::Uring;
        assert!(keys(&machine, &options).is_empty());
        options.engine.ring = RingBackend::Poll;
        assert_eq!(keys(&machine, &options), ["tcp.connections_max"]);
        let (_, warning) = machine.warnings(&options).remove(0);
        assert_eq!(
            warning.message,
            "the limit of 1000 open files for the process leaves 811, \
             1700 connections are required"
        );
    }

    #[test]
    fn larger_connections_option_is_warned() {
        let machine = MachineLimits {
            files_max: Some(1000),
            cpus: Some(vec![0]),
            ..MachineLimits::default()
        };
        let mut options = Options::default();
        options.engine.ring = RingBackend::Poll;
        (options.tcp.connections_max, options.http.connections_max) = (300, 450);
        options.websocket.connections_max = 30;
        assert!(keys(&machine, &options).is_empty());
        options.http.connections_max = 600;
        assert_eq!(keys(&machine, &options), ["http.connections_max"]);
        options.websocket.connections_max = 700;
        assert_eq!(keys(&machine, &options), ["websocket.connections_max"]);
        options.websocket.path = None;
        assert_eq!(keys(&machine, &options), ["http.connections_max"]);
        options.tcp.address = None;
        assert!(keys(&machine, &options).is_empty());
    }

    #[test]
    fn default_connections_on_small_machine_are_not_warned() {
        let machine =
            MachineLimits { files_max: Some(256), cpus: Some(vec![0]), ..MachineLimits::default() };
        for ring in [RingBackend::Uring, RingBackend::Poll] {
            let mut options = Options::default();
            options.engine.ring = ring;
            assert!(keys(&machine, &options).is_empty());
            options.tcp.connections_max = 224;
            let warned = keys(&machine, &options);
            assert_eq!(warned.len(), usize::from(ring == RingBackend::Poll), "{warned:?}");
            options.http.connections_max = 1000;
            assert_eq!(keys(&machine, &options), ["http.connections_max"]);
        }
    }

    #[test]
    fn warnings_name_options_beyond_kernel_limits() {
        let machine = MachineLimits {
            locked_bytes_max: Some(1024),
            cpus: Some(vec![0]),
            receive_buffer_bytes_max: Some(1),
            send_buffer_bytes_max: Some(1),
            backlog_max: Some(1),
            has_uring: Some(false),
            ..MachineLimits::default()
        };
        let mut options = Options::default();
        options.engine.executor = ExecutorKind::Glommio;
        options.engine.cpus = Some(vec![0, 7]);
        options.engine.shards = Some(2);
        assert_eq!(
            keys(&machine, &options),
            [
                "cpus",
                "shards",
                "executor",
                "tcp.receive_buffer_bytes",
                "tcp.send_buffer_bytes",
                "tcp.backlog_max",
            ]
        );
        options.tcp.address = None;
        assert_eq!(keys(&machine, &options).len(), 6);
        options.http.address = None;
        assert_eq!(keys(&machine, &options).len(), 3);
    }

    #[test]
    fn options_beyond_cgroup_are_warned() {
        let mut options = Options::default();
        options.engine.shards = Some(2);
        options.limits.memory_bytes_max = 768 << 20;
        let keys = |milli_cpus, memory_bytes| {
            let cgroup = CgroupLimits { milli_cpus, memory_bytes };
            keys(&MachineLimits { cgroup, ..MachineLimits::default() }, &options)
        };
        assert!(keys(Some(2000), Some(1 << 30)).is_empty());
        assert_eq!(keys(Some(1999), None), ["shards"]);
        assert_eq!(keys(None, Some((1 << 30) - 4)), ["memory_bytes_max"]);
    }

    #[test]
    fn proc_files_are_parsed() {
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
