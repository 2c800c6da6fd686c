//! Systems on which `io_uring_setup(2)` fails: automatic fallback to the poll ring, and an error
//! with a hint for `--ring uring`.
//!
//! The failures are real. A seccomp filter applies to a thread and the processes that it starts, so
//! each test installs it on its own thread; the limit of locked memory is set by a shell that
//! executes the program.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;

use corelane_test_support::{ExitResult, Process, SMALL_RINGS, ServeProcess};
use rustix::process::Signal;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::CORELANE;
use crate::mcp_client::McpClient;

/// Error numbers of `io_uring_setup` with the expected texts.
const FORBIDDEN: SetupFailure =
    SetupFailure { errno: libc::EPERM, cause: "io_uring is forbidden here", hint: "--ring poll" };
const MISSING: SetupFailure =
    SetupFailure { errno: libc::ENOSYS, cause: "this kernel has no io_uring", hint: "--ring poll" };
const MEMORY_LOCK_LIMIT: SetupFailure =
    SetupFailure { errno: libc::ENOMEM, cause: "memory lock limit", hint: "ulimit -l" };

/// One way in which `io_uring_setup` fails.
#[derive(Clone, Copy, Debug)]
struct SetupFailure {
    errno: i32,
    /// Part of the error text that names the cause.
    cause: &'static str,
    /// Part of the error text that names the solution.
    hint: &'static str,
}

impl SetupFailure {
    /// Runs `work` on a thread whose child processes cannot create an `io_uring`.
    fn run_restricted<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = thread::spawn(move || {
            #[expect(clippy::cast_sign_loss, reason = "error numbers are positive")]
            let refuse = SeccompAction::Errno(self.errno as u32);
            let architecture =
                std::env::consts::ARCH.try_into().expect("architecture is supported");
            let rules = [(libc::SYS_io_uring_setup, Vec::new())].into();
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture);
            let program: BpfProgram = filter.and_then(TryInto::try_into).expect("filter compiles");
            seccompiler::apply_filter(&program).expect("filter is installed");
            work()
        });
        thread.join().expect("thread does not panic")
    }

    /// Checks the warning about the fallback.
    fn expect_warning(self, server: &ServeProcess) {
        let lines = server.process.stderr_lines();
        let warning = lines.iter().find(|line| line.contains("ring unavailable"));
        let warning = warning.unwrap_or_else(|| panic!("no warning in:\n{}", lines.join("\n")));
        for part in [self.cause, self.hint, "fallback=poll"] {
            assert!(warning.contains(part), "`{part}` is missing in: {warning}");
        }
    }

    fn check_fallback(self) {
        let server = self.run_restricted(|| ServeProcess::tcp(CORELANE, &["--shards", "1"]));
        self.expect_warning(&server);
        check_poll_ring_serves(server);
    }

    fn check_explicit_uring_fails(self) {
        let ended = self.run_restricted(|| {
            let fixed = ["serve", "--tcp", "127.0.0.1:0", "--http", "off", "--ring", "uring"];
            Process::start(CORELANE, &[fixed.as_slice(), &SMALL_RINGS].concat()).wait()
        });
        self.expect_start_error(&ended);
    }

    fn expect_start_error(self, ended: &ExitResult) {
        assert_eq!(ended.status, 1, "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
        for part in [self.cause, self.hint] {
            assert!(ended.stderr.contains(part), "`{part}` is missing in:\n{}", ended.stderr);
        }
        assert!(!ended.stderr.contains("listening"), "{}", ended.stderr);
    }
}

/// Checks that the server runs on the poll ring, serves clients and exits with 0.
fn check_poll_ring_serves(server: ServeProcess) {
    let engine_line =
        server.process.stderr_lines().iter().find(|line| line.contains("INFO corelane "));
    let engine_line = engine_line.expect("engine line is printed");
    assert!(engine_line.contains("ring poll"), "{engine_line}");
    McpClient::modern(server.connect()).use_all_tools();
    McpClient::legacy(server.connect(), "2025-11-25").use_all_tools();
    server.process.signal(Signal::TERM);
    let ended = server.process.wait();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
}

#[test]
fn forbidden_io_uring_falls_back_to_poll() {
    FORBIDDEN.check_fallback();
}

#[test]
fn missing_io_uring_falls_back_to_poll() {
    MISSING.check_fallback();
}

#[test]
fn memory_lock_limit_falls_back_to_poll() {
    MEMORY_LOCK_LIMIT.check_fallback();
}

#[test]
fn ring_uring_fails_where_io_uring_is_forbidden() {
    FORBIDDEN.check_explicit_uring_fails();
}

#[test]
fn ring_uring_fails_on_kernel_without_io_uring() {
    MISSING.check_explicit_uring_fails();
}

#[test]
fn ring_uring_fails_over_memory_lock_limit() {
    MEMORY_LOCK_LIMIT.check_explicit_uring_fails();
}

#[test]
fn stdio_falls_back_to_poll() {
    let mut process = FORBIDDEN.run_restricted(|| Process::start(CORELANE, &["stdio"]));
    McpClient::modern(process.take_pipes()).use_all_tools();
    let ended = process.wait();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains(FORBIDDEN.cause), "{}", ended.stderr);
}

/// The kernel's own error: 4 KiB of locked memory are too few for a ring.
#[test]
fn ulimit_error_names_memory_lock_limit() {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -l 4 && exec \"$@\"", "sh", CORELANE])
        .args(["serve", "--tcp", "127.0.0.1:0", "--http", "off", "--ring", "uring"])
        .env_clear()
        .stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        // The limit does not apply to root.
        command.uid(UNPRIVILEGED_UID);
    }
    let Ok(output) = command.output() else {
        eprintln!("skipped: another user cannot run the program");
        return;
    };
    MEMORY_LOCK_LIMIT.expect_start_error(&output.into());
}

/// User id of the unprivileged user of most distributions.
const UNPRIVILEGED_UID: u32 = 65_534;
