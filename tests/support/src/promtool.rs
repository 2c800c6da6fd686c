//! `promtool` of Prometheus, which checks metrics and alerts.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns the command that `./test.sh` has installed below `target_tmpdir`, which is
/// `CARGO_TARGET_TMPDIR`, or that of the system.
pub fn promtool(target_tmpdir: &str) -> Command {
    let installed = Path::new(target_tmpdir).join("promtool/usr/bin/promtool");
    Command::new(if installed.exists() { installed.into() } else { OsString::from("promtool") })
}

/// Has it check metrics; returns how it ended.
pub fn check_metrics(target_tmpdir: &str, metrics: &[u8]) -> Output {
    let mut check = promtool(target_tmpdir)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    check.stdin.take().expect("piped").write_all(metrics).expect("promtool reads");
    check.wait_with_output().expect("promtool ends")
}
