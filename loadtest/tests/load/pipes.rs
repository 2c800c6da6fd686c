//! Tests of stdio servers: working ones, and programs that fail.
//!
//! The working server is this test program, started again with an environment variable; failing
//! ones are shell scripts.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use corelane::internal::demo;
use corelane::{Options, Server};
use corelane_load::children::{Program, StderrMode};
use corelane_load::generator::run_config::ChurnConfig;
use corelane_load::generator::{
    self, ConnectConfig, ConnectionRoles, Endpoint, LoadMode, Measurements, RunConfig, RunError,
    RunLimits, StopRequest,
};
use corelane_load::mcp::{RequestSettings, RequestTemplate};
use corelane_load::metrics::outcome::Failure;
use corelane_load::metrics::process_group::ProgramCounts;
use corelane_load::schedule::{ArrivalPattern, RateProfile};
use corelane_load::target::{Era, Target, Transport};
use corelane_protocol::model::Implementation;
use corelane_test_support::TIMEOUT;

use crate::LOAD;

const SPAN: Duration = Duration::from_millis(400);

/// Environment variable that makes this program a server.
const SERVER_VARIABLE: &str = "CORELANE_LOAD_STAGE";

/// A `sed` script of a server that responds to every request with an empty result.
const SED: &str = concat!(
    r#"s/.*"id":\([0-9]*\),.*/{"jsonrpc":"2.0","id":\1,"result":"#,
    r#"{"protocolVersion":"2025-11-25","capabilities":{}}}/p"#
);

/// Returns the command that starts this program as a server. Its standard output belongs to the
/// test harness, so the real one is passed as descriptor 3.
pub(crate) fn server_command() -> String {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    format!(
        "{SERVER_VARIABLE}=1 exec '{program}' --exact --nocapture \
         pipes::server_started_by_environment_variable 3>&1 >/dev/null"
    )
}

#[expect(clippy::disallowed_methods, reason = "the child is marked by it")]
#[test]
fn server_started_by_environment_variable() {
    if std::env::var_os(SERVER_VARIABLE).is_none() {
        return;
    }
    let output = File::options().write(true).open("/dev/fd/3").unwrap();
    rustix::stdio::dup2_stdout(&output).unwrap();
    let mut options = Options::default();
    options.engine.shards = Some(1);
    let catalog = demo::catalog(Implementation::new("load", "1")).unwrap();
    Server::builder(catalog).options(options).stdio().unwrap();
    // Output of the test harness would not be an MCP message.
    std::process::exit(0);
}

/// Returns a run configuration whose connections are shells with this script.
fn job(script: &str, era: Era) -> RunConfig {
    let command = ["sh", "-c", script].map(String::from).to_vec();
    let settings = RequestSettings::new(Transport::Stdio, era, "", "", Vec::new()).unwrap();
    RunConfig {
        calls: vec![(RequestTemplate::new(&settings, "tools/list", None, None), 1)],
        request_settings: settings,
        connect: ConnectConfig::default(),
        roles: ConnectionRoles::default(),
        stop: StopRequest::default(),
        tls: None,
        endpoint: Endpoint::Program(Program { command, stderr: StderrMode::Capture }),
        connections: 1,
        users: None,
        depth: 2,
        mode: LoadMode::Open {
            profile: RateProfile::constant(1_000.0, SPAN),
            pattern: ArrivalPattern::Constant,
        },
        warm_up: Duration::ZERO,
        seed: 1,
        limits: RunLimits {
            response_timeout: Duration::from_millis(200),
            retry_after: Duration::from_millis(20),
            ..RunLimits::default()
        },
    }
}

fn run(job: &RunConfig) -> Measurements {
    generator::run(job, 1, &[], None, |_, _| {}).unwrap()
}

/// Returns the reason why no program started.
fn start_error(job: &RunConfig) -> String {
    let error = generator::run(job, 1, &[], None, |_, _| {}).unwrap_err();
    let RunError::ProgramFailed(why) = error else { panic!("{error}") };
    why
}

#[test]
fn open_loop_over_stdio_completes_every_request() {
    for era in [Era::Modern, Era::Legacy, Era::Parity] {
        let mut job = job(&server_command(), era);
        job.calls = vec![(RequestTemplate::echo(&job.request_settings, 200), 1)];
        job.connections = 2;
        job.limits = RunLimits::default();
        let finding = generator::run(&job, 2, &[], None, |_, _| {}).unwrap();
        let total = &finding.total;
        let counts = (total.due, total.sent, total.outcomes.answered, total.outcomes.failures());
        assert_eq!(counts, (400, 400, 400, 0), "{era:?} {:?}", total.outcomes);
        assert_eq!((finding.opened, total.connects.lost, total.outcomes.unsolicited), (2, 0, 0));
        assert_eq!(finding.programs.unwrap().started, 2);
    }
}

#[test]
fn stdio_server_cost_is_measured_without_pid() {
    let mut job = job(&server_command(), Era::Legacy);
    job.mode = LoadMode::Closed { span: SPAN, requests: None };
    job.connections = 2;
    let finding = run(&job);
    assert!(finding.total.outcomes.answered > 0, "{:?}", finding.total.outcomes);
    assert!(finding.usage.server_cpu.unwrap() > Duration::ZERO);
    // Two processes, each with its own libraries and heap.
    assert!(
        finding.usage.server_resident_bytes_max.unwrap() > 2 << 20,
        "{:?}",
        finding.usage.server_resident_bytes_max
    );
}

#[test]
fn messages_larger_than_pipe_buffer_are_sent() {
    let mut job = job(&server_command(), Era::Modern);
    job.calls = vec![(RequestTemplate::echo(&job.request_settings, 300_000), 1)];
    job.mode = LoadMode::Open {
        profile: RateProfile::constant(20.0, SPAN),
        pattern: ArrivalPattern::Constant,
    };
    job.limits = RunLimits::default();
    let outcomes = run(&job).total.outcomes;
    assert_eq!((outcomes.answered, outcomes.failures()), (8, 0), "{outcomes:?}");
}

#[test]
fn missing_program_error_names_it() {
    for (program, reason) in [
        ("/nowhere/server", "No such file"),
        ("nowhere-to-be-found", "No such file"),
        (env!("CARGO_TARGET_TMPDIR"), "Permission denied"),
    ] {
        let mut job = job("", Era::Modern);
        let command = vec![program.into()];
        job.endpoint = Endpoint::Program(Program { command, stderr: StderrMode::Capture });
        job.connections = 3;
        let why = start_error(&job);
        assert!(why.contains(&format!("'{program}' cannot be started")), "{why}");
        assert!(why.contains(reason), "{why}");
    }
}

#[test]
fn program_exiting_at_start_reports_status_and_stderr() {
    for era in [Era::Modern, Era::Legacy] {
        let why = start_error(&job("echo 'no such flag: --sdtio' >&2; exit 3", era));
        assert!(why.contains("exit status: 3): no such flag: --sdtio"), "{why}");
        let why = start_error(&job("exit 0", era));
        assert!(why.contains("exit status: 0"), "{why}");
        let why = start_error(&job("kill -9 $$", era));
        assert!(why.contains("SIGKILL"), "{why}");
    }
}

#[test]
fn non_protocol_output_at_start_is_reported() {
    for era in [Era::Modern, Era::Legacy] {
        let why = start_error(&job("echo 'Server running on stdio'; cat >/dev/null", era));
        assert!(why.contains("garbage: Server running on stdio"), "{why}");
    }
}

#[test]
fn program_that_never_reads_times_out() {
    let mut job = job("echo listening on port 8080 >&2; exec sleep 1000", Era::Modern);
    job.limits.connect_timeout = Duration::from_millis(100);
    let why = start_error(&job);
    assert!(why.contains("; standard error: listening on port 8080"), "{why}");
    assert!(why.contains("no response"), "{why}");
}

#[test]
fn failed_programs_leave_others_running() {
    let folder = TestDirectory::new("some");
    // Only one of them can create the directory.
    let script = format!("mkdir '{}' || exit 7; sed -un '{SED}'", folder.0);
    let mut job = job(&script, Era::Legacy);
    job.connections = 3;
    let finding = run(&job);
    assert_eq!(finding.opened, 1);
    assert!(finding.total.errors.last().unwrap().contains("exit status: 7"));
    assert!(finding.total.outcomes.answered > 0);
}

#[test]
fn exited_program_fails_requests_and_restarts() {
    // Each responds to the handshake and some requests, reads one more and exits.
    let script = format!("sed -un -e '{SED}' -e '20q'; echo out of memory >&2; exit 9");
    let mut job = job(&script, Era::Modern);
    job.mode = LoadMode::Open {
        profile: RateProfile::constant(250.0, SPAN),
        pattern: ArrivalPattern::Constant,
    };
    // Even on a slow machine there is time for a second one: the run ends when all have exited.
    job.limits.response_timeout = TIMEOUT;
    let finding = run(&job);
    let total = &finding.total;
    assert!(total.outcomes.answered >= 19, "{:?}", total.outcomes);
    assert!(total.connects.lost >= 1);
    assert!(finding.programs.unwrap().started >= 2);
    assert!(total.errors.last().unwrap().contains("exit status: 9): out of memory"));
    assert_eq!((total.due, total.outcomes.requests()), (100, 100), "{:?}", total.outcomes);
}

#[test]
fn restarted_program_fails_closed_loop() {
    // Each answers 300 messages and reads one more: less than 1 % of the requests fail.
    let script = format!("sed -un -e '301q' -e '{SED}'; echo out of memory >&2; exit 9");
    let target = Target::Command(["sh", "-c", &script].map(String::from).to_vec()).to_string();
    let plan = format!("{}/restarted.toml", env!("CARGO_TARGET_TMPDIR"));
    let calls = "era = \"modern\"\n[[call]]\nmethod = \"ping\"\n";
    std::fs::write(&plan, format!("target = {target:?}\n{calls}")).unwrap();
    let mut command = Command::new(LOAD);
    let flags = ["--closed", "--requests=1000", "--warm-up=0", "--quiet"];
    let output = command.args(["run", "--plan", &plan]).args(flags).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let text = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{out}");
    let ended = "FAILED the program ended 3 times during the run, first: the program ended \
                 (exit status: 9): out of memory";
    assert!(text.starts_with(ended), "{out}");
    assert!(text.contains("requests 1,000 due · 1,000 sent · 997 answered"), "{out}");
    assert!(text.contains("closed 3") && text.contains("| the program ended (exit"), "{out}");
}

#[test]
fn requests_in_flight_at_program_exit_are_closed() {
    // It responds to the handshake, reads the first request and exits.
    let script = format!("sed -un -e '1{{{SED}' -e '}}' -e '2q'");
    let mut job = job(&script, Era::Modern);
    job.depth = 1;
    job.mode = LoadMode::Closed { span: SPAN, requests: None };
    let total = run(&job).total;
    assert_eq!(total.outcomes.answered, 0);
    assert!(total.outcomes.failed(Failure::Closed) >= 1, "{:?}", total.outcomes);
    assert_eq!(total.outcomes.failures(), total.sent);
}

#[test]
fn churn_replaces_programs_without_losses() {
    let mut job = job(&format!("sed -un '{SED}'"), Era::Legacy);
    job.roles.churn = Some(ChurnConfig { rate: 10.0, storm: None, leaves_sessions: false });
    job.limits.response_timeout = TIMEOUT;
    let finding = run(&job);
    assert!(finding.programs.unwrap().started >= 2, "{:?}", finding.programs);
    let total = &finding.total;
    assert_eq!((total.connects.lost, total.outcomes.failures()), (0, 0), "{:?}", total.outcomes);
}

#[test]
fn logs_between_messages_count_as_garbage() {
    let script = format!("sed -un -e '1!s/^/LOG &/;1!P;1!s/^LOG //' -e '{SED}'");
    let mut job = job(&script, Era::Modern);
    job.depth = 4;
    let outcomes = run(&job).total.outcomes;
    assert!(outcomes.failed(Failure::Garbage) > 0, "{outcomes:?}");
    assert_eq!(outcomes.requests(), 400, "{outcomes:?}");
}

#[test]
fn garbage_on_stdout_fails_every_request() {
    let script = format!("sed -un -e '1{{{SED}' -e '}}' -e '1!s/.*/segmentation fault/p'");
    let outcomes = run(&job(&script, Era::Modern)).total.outcomes;
    assert_eq!((outcomes.answered, outcomes.failed(Failure::Garbage)), (0, 400), "{outcomes:?}");
}

#[test]
fn program_not_reading_leaves_requests_unsent() {
    let script = format!("head -n 1 | sed -un '{SED}'; exec sleep 1000");
    let mut job = job(&script, Era::Modern);
    // Larger than the pipe buffer.
    job.calls = vec![(RequestTemplate::echo(&job.request_settings, 100_000), 1)];
    job.limits.queued_max = 10;
    let finding = run(&job);
    let outcomes = finding.total.outcomes;
    assert_eq!((outcomes.answered, finding.total.due, finding.total.sent), (0, 400, 2));
    assert_eq!(outcomes.failed(Failure::Timeout), 2, "{outcomes:?}");
    assert_eq!(outcomes.failed(Failure::Unsent), 398, "{outcomes:?}");
    // While asleep it does not notice EOF, only a signal.
    assert_eq!(finding.programs, Some(ProgramCounts { started: 1, terminated: 1, killed: 0 }));
}

#[test]
fn program_ignoring_sigterm_is_killed_with_children() {
    let folder = TestDirectory::new("ignoring");
    std::fs::create_dir(&folder.0).unwrap();
    // The outer shell forwards no signal, and both ignore SIGTERM.
    let script = format!(
        "trap '' TERM; echo $$ >'{0}/outer'; \
         sh -c 'echo $$ >\"{0}/inner\"; sed -un \"$1\"; while :; do sleep 1; done' - '{SED}'; true",
        folder.0
    );
    let finding = run(&job(&script, Era::Modern));
    assert!(finding.total.outcomes.answered > 0, "{:?}", finding.total.outcomes);
    assert_eq!(finding.programs, Some(ProgramCounts { started: 1, terminated: 0, killed: 1 }));
    for name in ["outer", "inner"] {
        let pid = std::fs::read_to_string(format!("{}/{name}", folder.0)).unwrap();
        let pid: i32 = pid.trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        assert!(!is_running(pid), "{name}");
    }
}

#[test]
fn much_stderr_output_does_not_block() {
    // Each line of input writes more to stderr than a pipe buffer holds.
    let script = format!(
        "sed -un '{SED}' | while read -r line; do printf '%s\\n' \"$line\"; \
         head -c 100000 /dev/zero >&2; done"
    );
    let mut job = job(&script, Era::Legacy);
    job.mode = LoadMode::Open {
        profile: RateProfile::constant(50.0, SPAN),
        pattern: ArrivalPattern::Constant,
    };
    job.limits = RunLimits::default();
    let outcomes = run(&job).total.outcomes;
    assert_eq!((outcomes.answered, outcomes.failures()), (20, 0), "{outcomes:?}");
}

#[test]
fn stdio_command_line_reports_start_failure() {
    let load = |target: &str, flags: &[&str]| -> Output {
        let mut command = Command::new(LOAD);
        let short = ["--closed", "--depth=4", "--warm-up=0s", "--duration=300ms", "--errors-max=0"];
        command.args(["run", target]).args(short).args(flags).output().unwrap()
    };
    let command = ["sh".to_owned(), "-c".into(), server_command()].to_vec();
    let target = Target::Command(command).to_string();
    let output = load(&target, &["--era=legacy"]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{out}");
    assert!(out.contains("legacy · closed loop · 1 connections × 4"), "{out}");
    for row in ["response", "server", "programs  1 started"] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row} is not in: {out}");
    }
    let output = load("stdio:sh -c 'echo no licence >&2; exit 4'", &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    for part in ["did not come up", "exit status: 4", "no licence", "correct the command"] {
        assert!(stderr.contains(part), "{part} is not in: {stderr}");
    }
    // Inherited stderr is not repeated in the error.
    let output = load("stdio:sh -c 'echo no licence >&2; exit 4'", &["--server-stderr=inherit"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.lines().any(|line| line == "no licence"), "{stderr}");
    let error = stderr.lines().find(|line| line.starts_with("corelane-load: ")).unwrap();
    assert_eq!(error.matches("no licence").count(), 1, "only in the command: {stderr}");
}

#[test]
fn program_sees_eof_when_generator_is_killed() {
    let script = format!("echo it runs >&2; {}", server_command());
    let target = Target::Command(["sh", "-c", &script].map(String::from).to_vec()).to_string();
    let mut load = Command::new(LOAD)
        .args(["run", &target, "--server-stderr=inherit", "--duration=1h", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(load.stderr.take().unwrap());
    let (tx, rx) = channel();
    // The program holds the last copy of this pipe, so the lines end when it exits.
    std::thread::spawn(move || stderr.lines().for_each(|line| tx.send(line.unwrap()).unwrap()));
    let line = rx.recv_timeout(TIMEOUT);
    load.kill().unwrap();
    load.wait().unwrap();
    assert_eq!(line.as_deref(), Ok("it runs"));
    assert_eq!(rx.recv_timeout(TIMEOUT), Err(RecvTimeoutError::Disconnected));
}

/// Returns whether a process exists and is not a zombie.
fn is_running(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
}

/// A directory of one test, absent at first.
struct TestDirectory(String);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let folder = Self(format!("{}/pipes-{name}", env!("CARGO_TARGET_TMPDIR")));
        folder.remove();
        folder
    }

    fn remove(&self) {
        std::fs::remove_dir_all(&self.0).unwrap_or(());
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        self.remove();
    }
}
