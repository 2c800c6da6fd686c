//! Servers on standard input and output: real ones, and all the ways in which a program can fail.
//!
//! The real server is this very program, started once more and told so by its environment; what
//! behaves badly is a line of shell.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use corelane::protocol::message::ServerInfo;
use corelane::server::{Options, Server};
use corelane::service::demo;
use corelane_load::children::{Errors, Program};
use corelane_load::dialogue::{Call, Speech};
use corelane_load::generator::job::Churn;
use corelane_load::generator::{self, Connecting, Drive, Finding, Fruitless, Job, Limits};
use corelane_load::measure::group::Programs;
use corelane_load::measure::outcome::Failure;
use corelane_load::schedule::{Pace, Profile};
use corelane_load::target::{Era, Target, Transport};

const SPAN: Duration = Duration::from_millis(400);

/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_mins(1);

/// Set where this program is to be a server.
const STAGE: &str = "CORELANE_LOAD_STAGE";

/// A server that says of every request that it went well, as a `sed` that reads its input line by
/// line; what it does besides goes before.
const SED: &str = r#"s/.*"id":\([0-9]*\),.*/{"jsonrpc":"2.0","id":\1,"result":{}}/p"#;

/// The command that makes a server of this program. Its standard output belongs to the test
/// harness, so the real one is handed in as descriptor 3.
fn stage() -> String {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    format!(
        "{STAGE}=1 exec '{program}' --exact --nocapture \
         a_server_is_what_this_program_becomes_where_it_is_asked_to 3>&1 >/dev/null"
    )
}

#[expect(clippy::disallowed_methods, reason = "that it is a child can be told in no other way")]
#[test]
fn a_server_is_what_this_program_becomes_where_it_is_asked_to() {
    if std::env::var_os(STAGE).is_none() {
        return;
    }
    let output = File::options().write(true).open("/dev/fd/3").unwrap();
    rustix::stdio::dup2_stdout(&output).unwrap();
    let mut options = Options::default();
    options.engine.shards = Some(1);
    let catalog = demo::catalog(ServerInfo::new("load", "1")).unwrap();
    Server::new(catalog).options(options).stdio().unwrap();
    // Whatever the harness has to say about this test would be no message.
    std::process::exit(0);
}

/// A job over children that are shells with this script.
fn job(script: &str, era: Era) -> Job {
    let words = ["sh", "-c", script].map(String::from).to_vec();
    let speech = Speech {
        transport: Transport::Stdio,
        era,
        authority: String::new(),
        path: String::new(),
        fields: Vec::new(),
    };
    Job {
        calls: vec![(Call::new(&speech, ("tools/list", None), None), 1)],
        speech,
        addresses: Vec::new(),
        connect: Connecting::default(),
        listen: None,
        churn: None,
        readers: None,
        tls: None,
        program: Some(Program { words, errors: Errors::Keep }),
        connections: 1,
        depth: 2,
        drive: Drive::Open { profile: Profile::constant(1_000.0, SPAN), pace: Pace::Constant },
        warm_up: Duration::ZERO,
        seed: 1,
        limits: Limits {
            answer_max: Duration::from_millis(200),
            retry_after: Duration::from_millis(20),
            ..Limits::default()
        },
    }
}

fn run(job: &Job) -> Finding {
    generator::run(job, (1, &[]), None, |_, _| {}).unwrap()
}

/// Why no program came up.
fn unstarted(job: &Job) -> String {
    let error = generator::run(job, (1, &[]), None, |_, _| {}).unwrap_err();
    let Fruitless::Unstarted(why) = error else { panic!("{error}") };
    why
}

#[test]
fn every_request_is_sent_and_answered_over_pipes_in_both_eras() {
    for era in [Era::Modern, Era::Legacy] {
        let mut job = job(&stage(), era);
        job.calls = vec![(Call::echo(&job.speech, 200), 1)];
        job.connections = 2;
        job.limits = Limits::default();
        let finding = generator::run(&job, (2, &[]), None, |_, _| {}).unwrap();
        let total = &finding.total;
        let counts = (total.due, total.sent, total.outcomes.answered, total.outcomes.failures());
        assert_eq!(counts, (400, 400, 400, 0), "{era:?} {:?}", total.outcomes);
        assert_eq!((finding.opened, total.lost, total.outcomes.unasked), (2, 0, 0));
        assert_eq!(finding.programs.unwrap().started, 2);
    }
}

#[test]
fn what_the_programs_cost_is_seen_without_naming_them() {
    let mut job = job(&stage(), Era::Legacy);
    job.drive = Drive::Closed { span: SPAN };
    job.connections = 2;
    let finding = run(&job);
    assert!(finding.total.outcomes.answered > 0, "{:?}", finding.total.outcomes);
    assert!(finding.server_cpu.unwrap() > Duration::ZERO);
    // Two processes with shared libraries and heaps of their own.
    assert!(finding.resident_bytes_max > 2 << 20, "{}", finding.resident_bytes_max);
}

#[test]
fn messages_larger_than_a_pipe_are_sent_whole() {
    let mut job = job(&stage(), Era::Modern);
    job.calls = vec![(Call::echo(&job.speech, 300_000), 1)];
    job.drive = Drive::Open { profile: Profile::constant(20.0, SPAN), pace: Pace::Constant };
    job.limits = Limits::default();
    let outcomes = run(&job).total.outcomes;
    assert_eq!((outcomes.answered, outcomes.failures()), (8, 0), "{outcomes:?}");
}

#[test]
fn a_program_that_is_not_there_or_none_is_told_with_its_name() {
    for (word, reason) in [
        ("/nowhere/server", "No such file"),
        ("nowhere-to-be-found", "No such file"),
        (env!("CARGO_TARGET_TMPDIR"), "Permission denied"),
    ] {
        let mut job = job("", Era::Modern);
        job.program.as_mut().unwrap().words = vec![word.into()];
        job.connections = 3;
        let why = unstarted(&job);
        assert!(why.contains(&format!("'{word}' cannot be started")), "{why}");
        assert!(why.contains(reason), "{why}");
    }
}

#[test]
fn a_program_that_ends_at_once_is_told_with_its_status_and_its_last_words() {
    for era in [Era::Modern, Era::Legacy] {
        let why = unstarted(&job("echo 'no such flag: --sdtio' >&2; exit 3", era));
        assert!(why.contains("exit status: 3): no such flag: --sdtio"), "{why}");
        let why = unstarted(&job("exit 0", era));
        assert!(why.contains("exit status: 0"), "{why}");
        let why = unstarted(&job("kill -9 $$", era));
        assert!(why.contains("SIGKILL"), "{why}");
    }
}

#[test]
fn a_program_that_says_something_else_first_is_refused_with_what_it_said() {
    for era in [Era::Modern, Era::Legacy] {
        let why = unstarted(&job("echo 'Server running on stdio'; cat >/dev/null", era));
        assert!(why.contains("garbage: Server running on stdio"), "{why}");
    }
}

#[test]
fn a_program_that_never_reads_does_not_come_up() {
    let mut job = job("echo listening on port 8080 >&2; exec sleep 1000", Era::Modern);
    job.limits.connect_max = Duration::from_millis(100);
    let why = unstarted(&job);
    assert!(why.contains("nothing answered in time; it said: listening on port 8080"), "{why}");
}

#[test]
fn some_programs_that_do_not_come_up_leave_the_others_to_be_driven() {
    let folder = Folder::new("some");
    // Only one of them finds the folder away.
    let script = format!("mkdir '{}' || exit 7; sed -un '{SED}'", folder.0);
    let mut job = job(&script, Era::Legacy);
    job.connections = 3;
    let finding = run(&job);
    assert_eq!(finding.opened, 1);
    assert!(finding.total.refused.unwrap().contains("exit status: 7"));
    assert!(finding.total.outcomes.answered > 0);
}

#[test]
fn a_program_that_ends_in_the_middle_fails_what_was_in_flight_and_is_started_again() {
    // Each answers the opening and some requests, reads one more and leaves.
    let script = format!("sed -un -e '{SED}' -e '20q'; echo out of memory >&2; exit 9");
    let mut job = job(&script, Era::Modern);
    job.drive = Drive::Open { profile: Profile::constant(250.0, SPAN), pace: Pace::Constant };
    // However slow the machine is, there is time for a second one: it ends when all have ended.
    job.limits.answer_max = PATIENCE;
    let finding = run(&job);
    let total = &finding.total;
    assert!(total.outcomes.answered >= 19, "{:?}", total.outcomes);
    assert!(total.lost >= 1);
    assert!(finding.programs.unwrap().started >= 2);
    assert!(total.refused.as_ref().unwrap().contains("exit status: 9): out of memory"));
    assert_eq!((total.due, total.outcomes.requests()), (100, 100), "{:?}", total.outcomes);
}

#[test]
fn what_is_in_flight_when_a_program_ends_has_failed_as_closed() {
    // It answers the opening, reads the first request and leaves.
    let script = format!("sed -un -e '1{{{SED}' -e '}}' -e '2q'");
    let mut job = job(&script, Era::Modern);
    job.depth = 1;
    job.drive = Drive::Closed { span: SPAN };
    let total = run(&job).total;
    assert_eq!(total.outcomes.answered, 0);
    assert!(total.outcomes.failed(Failure::Closed) >= 1, "{:?}", total.outcomes);
    assert_eq!(total.outcomes.failures(), total.sent);
}

#[test]
fn programs_that_are_to_be_replaced_end_before_the_next_ones_start_and_none_is_lost() {
    let mut job = job(&format!("sed -un '{SED}'"), Era::Legacy);
    job.churn = Some(Churn { rate: 10.0, storm: None, leaves_sessions: false });
    job.limits.answer_max = PATIENCE;
    let finding = run(&job);
    assert!(finding.programs.unwrap().started >= 2, "{:?}", finding.programs);
    let total = &finding.total;
    assert_eq!((total.lost, total.outcomes.failures()), (0, 0), "{:?}", total.outcomes);
}

#[test]
fn logs_between_messages_are_garbage_and_the_messages_count() {
    let script = format!("sed -un -e '1!s/^/LOG &/;1!P;1!s/^LOG //' -e '{SED}'");
    let mut job = job(&script, Era::Modern);
    job.depth = 4;
    let outcomes = run(&job).total.outcomes;
    assert!(outcomes.failed(Failure::Garbage) > 0, "{outcomes:?}");
    assert_eq!(outcomes.requests(), 400, "{outcomes:?}");
}

#[test]
fn garbage_instead_of_answers_fails_every_request() {
    let script = format!("sed -un -e '1{{{SED}' -e '}}' -e '1!s/.*/segmentation fault/p'");
    let outcomes = run(&job(&script, Era::Modern)).total.outcomes;
    assert_eq!((outcomes.answered, outcomes.failed(Failure::Garbage)), (0, 400), "{outcomes:?}");
}

#[test]
fn a_program_that_stops_reading_leaves_requests_unsent_and_timed_out() {
    let script = format!("head -n 1 | sed -un '{SED}'; exec sleep 1000");
    let mut job = job(&script, Era::Modern);
    // More than its pipe holds.
    job.calls = vec![(Call::echo(&job.speech, 100_000), 1)];
    job.limits.due_max = 10;
    let finding = run(&job);
    let outcomes = finding.total.outcomes;
    assert_eq!((outcomes.answered, finding.total.due, finding.total.sent), (0, 400, 2));
    assert_eq!(outcomes.failed(Failure::Timeout), 2, "{outcomes:?}");
    assert_eq!(outcomes.failed(Failure::Unsent), 398, "{outcomes:?}");
    // It heeds neither the end of its input nor, being asleep, anything but a signal.
    assert_eq!(finding.programs, Some(Programs { started: 1, terminated: 1, killed: 0 }));
}

#[test]
fn a_program_that_ignores_its_end_is_killed_and_so_is_what_it_has_started() {
    let folder = Folder::new("ignoring");
    std::fs::create_dir(&folder.0).unwrap();
    // The shell in between passes nothing on, and both ignore what they are asked.
    let script = format!(
        "trap '' TERM; echo $$ >'{0}/outer'; \
         sh -c 'echo $$ >\"{0}/inner\"; sed -un \"$1\"; while :; do sleep 1; done' - '{SED}'; true",
        folder.0
    );
    let finding = run(&job(&script, Era::Modern));
    assert!(finding.total.outcomes.answered > 0, "{:?}", finding.total.outcomes);
    assert_eq!(finding.programs, Some(Programs { started: 1, terminated: 0, killed: 1 }));
    for name in ["outer", "inner"] {
        let pid = std::fs::read_to_string(format!("{}/{name}", folder.0)).unwrap();
        let pid: i32 = pid.trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        assert!(!is_running(pid), "{name}");
    }
}

#[test]
fn a_program_that_says_much_on_its_standard_error_does_not_block() {
    // Each line of input has more said about it than a pipe holds.
    let script = format!(
        "sed -un '{SED}' | while read -r line; do printf '%s\\n' \"$line\"; \
         head -c 100000 /dev/zero >&2; done"
    );
    let mut job = job(&script, Era::Legacy);
    job.drive = Drive::Open { profile: Profile::constant(50.0, SPAN), pace: Pace::Constant };
    job.limits = Limits::default();
    let outcomes = run(&job).total.outcomes;
    assert_eq!((outcomes.answered, outcomes.failures()), (20, 0), "{outcomes:?}");
}

#[test]
fn the_command_line_drives_a_program_and_tells_why_one_does_not_come_up() {
    let load = |target: &str, flags: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corelane-load"));
        let short = ["--closed", "--depth=4", "--warm-up=0s", "--span=300ms", "--errors-max=0"];
        command.args(["run", target]).args(short).args(flags).output().unwrap()
    };
    let words = ["sh".to_owned(), "-c".into(), stage()].to_vec();
    let target = Target::Command(words).to_string();
    let output = load(&target, &["--era=legacy"]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{out}");
    assert!(out.contains("legacy · closed loop · 1 connections × 4"), "{out}");
    for row in ["response", "server", "programs  1 started"] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row} is not in: {out}");
    }
    let output = load("stdio:sh -c 'echo no licence >&2; exit 4'", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    for part in ["did not come up", "exit status: 4", "no licence", "correct the command"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    // What is passed through is not told a second time.
    let output = load("stdio:sh -c 'echo no licence >&2; exit 4'", &["--server-stderr=inherit"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("no licence").count(), 2, "once by itself, once in its name: {said}");
}

#[test]
fn a_program_sees_the_end_of_its_input_when_the_generator_itself_is_killed() {
    let script = format!("echo it runs >&2; {}", stage());
    let target = Target::Command(["sh", "-c", &script].map(String::from).to_vec()).to_string();
    let mut load = Command::new(env!("CARGO_BIN_EXE_corelane-load"))
        .args(["run", &target, "--server-stderr=inherit", "--span=1h", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(load.stderr.take().unwrap());
    let (tell, told) = channel();
    // The program is the last that holds this pipe: its lines end when it does.
    std::thread::spawn(move || said.lines().for_each(|line| tell.send(line.unwrap()).unwrap()));
    let line = told.recv_timeout(PATIENCE);
    load.kill().unwrap();
    load.wait().unwrap();
    assert_eq!(line.as_deref(), Ok("it runs"));
    assert_eq!(told.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
}

/// Whether a process is there and has not ended: one that nobody has waited for is a name only.
fn is_running(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
}

/// A folder of one test alone, which is not there at first.
struct Folder(String);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Self(format!("{}/pipes-{name}", env!("CARGO_TARGET_TMPDIR")));
        folder.remove();
        folder
    }

    fn remove(&self) {
        std::fs::remove_dir_all(&self.0).unwrap_or(());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.remove();
    }
}
