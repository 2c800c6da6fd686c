//! Environment of a run, recorded so that results can be checked for comparability.

use std::ffi::OsString;

use corelane_protocol::model::Implementation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::generator::Measurements;
use crate::mcp::HttpField;
use crate::mcp::http_field::REDACTED;
use crate::plan::SourceRange;

/// The machine, the command line and the load generator.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Manifest {
    /// Version of `corelane-load`.
    pub version: String,
    /// Command-line arguments, with secrets removed.
    pub arguments: Vec<String>,
    /// Begin of the command, in seconds since the Unix epoch; 0 in results of earlier versions.
    #[serde(default)]
    pub started_unix_s: u64,
    /// End of the run, in seconds since the Unix epoch.
    pub ended_unix_s: u64,
    /// Name and version of the server, if it sent them before the run or in a handshake of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerIdentity>,
    /// The commit of the flag `--commit`, of the CI system, or of the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Name of this machine.
    #[serde(default)]
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// CPU cores available to this process.
    pub cores: usize,
    /// Kernel settings that affect connections, by name.
    pub sysctls: Vec<(String, String)>,
    /// I/O backend of the load generator, and its `io_uring` features.
    pub ring: String,
    /// Load threads.
    pub threads: u32,
    /// Local address ranges of the connections; empty if the kernel chose.
    #[serde(default)]
    pub sources: Vec<String>,
    /// TLS version and cipher suite, and how certificates were verified; `None` without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
}

/// Name and version of a server, from its result of `initialize` or `server/discover`, or the
/// handshake of the parity dialect.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ServerIdentity {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

impl ServerIdentity {
    /// Returns those of a server, unless it has no name.
    pub fn of(implementation: &Implementation) -> Option<Self> {
        let Implementation { name, version, .. } = implementation;
        (!name.is_empty()).then(|| Self { name: name.clone(), version: version.clone() })
    }
}

/// What is known of a run before it begins.
#[derive(Clone, Debug, Default)]
pub struct RunOrigin {
    /// Begin of the command, in seconds since the Unix epoch.
    pub started_unix_s: u64,
    /// The commit.
    pub commit: Option<String>,
    /// Name and version of the server.
    pub server: Option<ServerIdentity>,
}

/// Kernel settings that limit connections or affect their cost.
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
    /// Records the environment of a run that ended at `unix_ms`.
    pub fn of(finding: &Measurements, unix_ms: u64, origin: &RunOrigin) -> Self {
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
            arguments: hide_secrets(std::env::args_os().skip(1)),
            started_unix_s: origin.started_unix_s,
            ended_unix_s: unix_ms / 1_000,
            server: origin
                .server
                .clone()
                .or_else(|| ServerIdentity::of(finding.setup.server.as_ref()?)),
            commit: origin.commit.clone(),
            host: read("/proc/sys/kernel/hostname").trim().into(),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            cpu: model.into(),
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            sysctls: SYSCTLS.iter().map(sysctl).collect(),
            ring: finding.setup.ring.clone(),
            threads: finding.setup.threads,
            sources: SourceRange::collapse(&finding.setup.sources)
                .iter()
                .map(SourceRange::to_string)
                .collect(),
            tls: finding.setup.tls.clone(),
        }
    }
}

/// Returns the arguments with bearer tokens and values of secret HTTP header fields replaced.
fn hide_secrets(arguments: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for argument in arguments {
        let argument = argument.to_string_lossy();
        let masked = match (shown.last().map(String::as_str), argument.split_once('=')) {
            (Some("--bearer"), _) => REDACTED.to_owned(),
            (Some("--header" | "-H"), _) => hide_header_secret(&argument),
            (_, Some(("--bearer", _))) => format!("--bearer={REDACTED}"),
            (_, Some(("--header", text))) => format!("--header={}", hide_header_secret(text)),
            _ if argument.starts_with("-H") && argument.len() > 2 => {
                let text = argument[2..].trim_start_matches('=');
                format!("-H{}", hide_header_secret(text))
            }
            _ => argument.into_owned(),
        };
        shown.push(masked);
    }
    shown
}

/// Returns an HTTP header field with a secret value replaced, or the name of a file with fields.
fn hide_header_secret(text: &str) -> String {
    if text.starts_with('@') {
        return text.to_owned();
    }
    HttpField::parse(text).map_or_else(|_| REDACTED.to_owned(), |field| format!("{field:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_hide_tokens_and_secret_headers() {
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
            "-H",
            "Authorization: s3cr3t",
            "-HCookie: s3cr3t",
            "-H=s3cr3t",
            "-H",
            "@headers.txt",
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
            "-H",
            "Authorization: (hidden)",
            "-HCookie: (hidden)",
            "-H(hidden)",
            "-H",
            "@headers.txt",
            "--bearer-file",
            "token.txt",
        ];
        assert_eq!(hide_secrets(arguments.into_iter().map(OsString::from)), expected);
    }
}
