//! Where and with what a run was done: what two results have to share to be compared.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::dialogue::Field;
use crate::dialogue::field::HIDDEN;
use crate::generator::Finding;
use crate::plan::Sources;

/// The machine and the generator.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Manifest {
    /// The version of this program.
    pub version: String,
    /// How it was called, without secrets.
    pub arguments: Vec<String>,
    /// When it ended, in seconds since the beginning of 1970 (UTC).
    pub ended_unix_s: u64,
    /// The release of the kernel.
    pub kernel: String,
    /// The processor.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Settings of the kernel that bound connections, by their names.
    pub sysctls: Vec<(String, String)>,
    /// The ring that drove the load, and what the kernel granted it.
    pub ring: String,
    /// Threads that drove it.
    pub workers: u32,
    /// Local addresses that connections came from, as ranges; none where the kernel chose.
    #[serde(default)]
    pub sources: Vec<String>,
    /// What TLS has agreed on, and whether certificates were checked, and against what; none where
    /// the target is not encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
}

/// Settings that figures depend on: how many connections there can be, and what carries them.
const SYSCTLS: [&str; 7] = [
    "net/core/somaxconn",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_tw_reuse",
    "fs/nr_open",
    "kernel/io_uring_disabled",
    "kernel/sched_rt_runtime_us",
];

impl Manifest {
    /// Of this machine, for what was just done.
    pub fn of(finding: &Finding, unix_ms: u64) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let sysctl = |name: &&str| {
            let value = read(&format!("/proc/sys/{name}"));
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            (name.replace('/', "."), value)
        };
        let cpus = read("/proc/cpuinfo");
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
        let model = model.map_or("", |rest| rest.trim_start_matches(['\t', ' ', ':']));
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            arguments: shown(std::env::args_os().skip(1)),
            ended_unix_s: unix_ms / 1_000,
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            cpu: model.into(),
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            sysctls: SYSCTLS.iter().map(sysctl).collect(),
            ring: finding.ring.clone(),
            workers: finding.workers,
            sources: Sources::ranges(&finding.sources).iter().map(Sources::to_string).collect(),
            tls: finding.tls.clone(),
        }
    }
}

/// Arguments as they may be shown: without a token, and without the value of a field of HTTP that
/// may hold one.
fn shown(arguments: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for argument in arguments {
        let argument = argument.to_string_lossy();
        let masked = match (shown.last().map(String::as_str), argument.split_once('=')) {
            (Some("--bearer"), _) => HIDDEN.to_owned(),
            (Some("--header"), _) => field(&argument),
            (_, Some(("--bearer", _))) => format!("--bearer={HIDDEN}"),
            (_, Some(("--header", text))) => format!("--header={}", field(text)),
            _ => argument.into_owned(),
        };
        shown.push(masked);
    }
    shown
}

/// A field of HTTP as it may be shown.
fn field(text: &str) -> String {
    Field::parse(text).map_or_else(|_| HIDDEN.to_owned(), |field| format!("{field:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_among_the_arguments() {
        let arguments = [
            "run",
            "--bearer",
            "s3cr3t",
            "--bearer=s3cr3t",
            "--header",
            "Authorization: Bearer s3cr3t",
            "--header=Cookie:s3cr3t",
            "--header",
            "s3cr3t",
            "--header=X-Team: a=b",
            "--bearer-file",
            "token.txt",
        ];
        let expected = [
            "run",
            "--bearer",
            "(hidden)",
            "--bearer=(hidden)",
            "--header",
            "Authorization: (hidden)",
            "--header=Cookie: (hidden)",
            "--header",
            "(hidden)",
            "--header=X-Team: a=b",
            "--bearer-file",
            "token.txt",
        ];
        assert_eq!(shown(arguments.into_iter().map(OsString::from)), expected);
    }
}
