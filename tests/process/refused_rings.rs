//! Machines that refuse `io_uring`: readiness takes over where that was left open, and where
//! `io_uring` was asked for by name the refusal says what to do.
//!
//! The refusals are real. A filter of system calls belongs to a thread and to what that thread
//! starts, so each test takes a thread for it and leaves the others alone; the limit of locked
//! memory is lowered by a shell that becomes the program.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::Signal;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::process::{Ended, Process, SMALL_RINGS, Server};
use crate::session::Session;

/// What containers and kernels say, and what the program makes of it.
const FORBIDDEN: Refusal =
    Refusal { errno: libc::EPERM, cause: "io_uring is forbidden here", remedy: "--ring poll" };
const MISSING: Refusal =
    Refusal { errno: libc::ENOSYS, cause: "this kernel has no io_uring", remedy: "--ring poll" };
const UNLOCKABLE: Refusal =
    Refusal { errno: libc::ENOMEM, cause: "memory lock limit", remedy: "ulimit -l" };

/// One way in which `io_uring_setup` fails.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    errno: i32,
    /// The words by which the program names it.
    cause: &'static str,
    /// The words by which it says what to do.
    remedy: &'static str,
}

impl Refusal {
    /// Does `work` on a thread of its own, whose processes are refused an `io_uring`.
    fn within<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let refused = thread::spawn(move || {
            #[expect(clippy::cast_sign_loss, reason = "error numbers are positive")]
            let refuse = SeccompAction::Errno(self.errno as u32);
            let architecture = std::env::consts::ARCH.try_into().expect("a filter can be built");
            let rules = [(libc::SYS_io_uring_setup, Vec::new())].into();
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture);
            let program: BpfProgram =
                filter.and_then(TryInto::try_into).expect("one rule is a program");
            seccompiler::apply_filter(&program).expect("a thread may restrict itself");
            work()
        });
        refused.join().expect("it does not fail")
    }

    /// The line about the refusal, among those before the one about the listener.
    fn expect_told(self, server: &Server) {
        let told = server.process.told();
        let refused = told.iter().find(|line| line.contains("ring refused"));
        let refused = refused.unwrap_or_else(|| panic!("not told why in:\n{}", told.join("\n")));
        for part in [self.cause, self.remedy, "fallback=\"poll\""] {
            assert!(refused.contains(part), "`{part}` is not in: {refused}");
        }
    }

    fn falls_back(self) {
        let server = self.within(|| Server::start(&["--shards", "1"]));
        self.expect_told(&server);
        serves_by_readiness(server);
    }

    fn ends_what_asks_for_it_by_name(self) {
        let ended = self.within(|| {
            let fixed = ["serve", "--tcp", "127.0.0.1:0", "--http", "off", "--ring", "uring"];
            Process::start(&[fixed.as_slice(), &SMALL_RINGS].concat()).end()
        });
        self.expect_end(&ended);
    }

    fn expect_end(self, ended: &Ended) {
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
        for part in [self.cause, self.remedy] {
            assert!(ended.stderr.contains(part), "`{part}` is not in:\n{}", ended.stderr);
        }
        assert!(!ended.stderr.contains("listening"), "{}", ended.stderr);
    }
}

/// The line about the engine says so, a client is served, and the server ends in order.
fn serves_by_readiness(server: Server) {
    let about = server.process.told().iter().find(|line| line.starts_with("corelane "));
    let about = about.expect("the line about the engine comes before the listener's");
    assert!(about.contains("ring poll"), "{about}");
    Session::modern(server.connect()).try_everything();
    Session::legacy(server.connect(), "2025-11-25").try_everything();
    server.process.signal(Signal::TERM);
    let ended = server.process.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn readiness_takes_over_where_io_uring_is_forbidden() {
    FORBIDDEN.falls_back();
}

#[test]
fn readiness_takes_over_where_the_kernel_has_no_io_uring() {
    MISSING.falls_back();
}

#[test]
fn readiness_takes_over_where_memory_cannot_be_locked() {
    UNLOCKABLE.falls_back();
}

#[test]
fn io_uring_by_name_is_refused_where_it_is_forbidden() {
    FORBIDDEN.ends_what_asks_for_it_by_name();
}

#[test]
fn io_uring_by_name_is_refused_where_the_kernel_has_none() {
    MISSING.ends_what_asks_for_it_by_name();
}

#[test]
fn io_uring_by_name_is_refused_where_memory_cannot_be_locked() {
    UNLOCKABLE.ends_what_asks_for_it_by_name();
}

/// Standard input and output need a ring as well.
#[test]
fn standard_input_is_served_where_io_uring_is_forbidden() {
    let mut process = FORBIDDEN.within(|| Process::start(&["stdio"]));
    Session::modern(process.pipes()).try_everything();
    let ended = process.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains(FORBIDDEN.cause), "{}", ended.stderr);
}

/// The kernel's own refusal: a few KiB of locked memory hold no ring.
#[test]
fn a_small_limit_of_locked_memory_is_named_with_its_remedy() {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -l 4 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_corelane")])
        .args(["serve", "--tcp", "127.0.0.1:0", "--http", "off", "--ring", "uring"])
        .env_clear()
        .stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        // The superuser locks what he likes.
        command.uid(NOBODY);
    }
    let Ok(output) = command.output() else {
        eprintln!("not tested here: another user may not run the program");
        return;
    };
    let ended = Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    UNLOCKABLE.expect_end(&ended);
}

/// A user without privileges, on every system of ours.
const NOBODY: u32 = 65_534;
