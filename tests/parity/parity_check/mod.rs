//! `corelane parity-check` against a scripted server: a correct one passes, and each broken rule is
//! found by the check that is named for it.

#![expect(clippy::unwrap_used, reason = "a scripted server of tests")]

mod behind_nginx;
mod nginx;
mod own_server;
mod server;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use corelane_test_support::ExitResult;
use corelane_test_support::tls::{Issuer, Terminator, TlsFault};
use serde_json::Value;
use server::mutation::{
    Mutation, OF_IDLE, OF_TOKENS, ONE_OVER_HTTP, ONE_OVER_LINES, ONE_OVER_WEBSOCKET, OVER_HTTP,
    OVER_LINES,
};
use server::{ScriptedServer, ServerOptions};

use crate::CORELANE;

/// The token of servers that require one.
const TOKEN: &str = "secret-token";
/// A token of the same servers that has expired.
const EXPIRED_TOKEN: &str = "expired-token";

/// Characters of a reason in the message of a failure.
const REASON_CHARS_MAX: usize = 300;

fn options(mutation: Mutation) -> ServerOptions {
    let handshake_timeout = Duration::from_mins(1);
    ServerOptions {
        mutation,
        hint_seconds: 120,
        handshake_timeout,
        token: None,
        expired_token: None,
    }
}

/// Options of a server that requires a token.
fn options_with_token(mutation: Mutation) -> ServerOptions {
    let expired_token = Some(EXPIRED_TOKEN);
    ServerOptions { token: Some(TOKEN), expired_token, ..options(mutation) }
}

/// Runs the checks; returns the exit code and the document.
fn check(target: &str, arguments: &[&str]) -> (i32, Value) {
    let mut command = Command::new(CORELANE);
    command.args(["parity-check", target, "--json"]).args(arguments);
    let ExitResult { status, stdout, stderr } = command.output().unwrap().into();
    assert_eq!(stderr, "", "{target}");
    (status, serde_json::from_str(&stdout).unwrap())
}

/// Names of the checks with this status.
fn with_status<'a>(report: &'a Value, status: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().filter(|check| check["status"] == status);
    found.map(|check| check["name"].as_str().unwrap()).collect()
}

/// The checks that have failed or could not run, each on a line with its reason.
fn broken(report: &Value) -> String {
    let mut lines = String::new();
    for check in report["checks"].as_array().unwrap() {
        let part = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
        if ["failed", "blocked"].contains(&part("status").as_str()) {
            let (status, name, reason) = (part("status"), part("name"), part("reason"));
            let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
            let milliseconds = &check["milliseconds"];
            writeln!(lines, "{status} {name} after {milliseconds} ms: {reason}").unwrap();
        }
    }
    lines
}

fn assert_passes(target: &str, arguments: &[&str]) -> Value {
    let (status, report) = check(target, arguments);
    assert_eq!(broken(&report), "", "{target}");
    assert_eq!((status, &report["complies"]), (0, &Value::Bool(true)), "{target}");
    report
}

/// Steps wait longer than a loaded machine takes, where all are expected to pass.
const PATIENT: [&str; 4] = ["--timeout-ms", "20000", "--quiet-ms", "150"];

#[test]
fn correct_server_passes_on_every_transport() {
    let server = ScriptedServer::start(options(Mutation::Correct));
    for target in server.targets() {
        let families = [
            "handshake",
            "capabilities",
            "states",
            "requests",
            "registry",
            "errors",
            "streams",
            "cancel",
            "resume",
            "limits",
            "idempotency",
            "failures",
            "http",
            "sse",
            "auth",
        ];
        let mut arguments = PATIENT.to_vec();
        for family in families {
            arguments.extend(["--only", family]);
        }
        let report = assert_passes(&target, &arguments);
        assert!(report["passed"].as_u64().unwrap() >= 60, "{}", report["passed"]);
        // Only what belongs to another transport or needs an option is skipped.
        for check in report["checks"].as_array().unwrap() {
            let reason = check["reason"].as_str().unwrap_or("needs --");
            let is_known = ["needs --", "only for", "requests of HTTP"];
            assert!(is_known.iter().any(|known| reason.contains(known)), "{check}");
        }
    }
}

/// The checks of silent sessions, at once.
const IDLE: [&str; 6] = ["--only", "keepalive", "--only", "idle", "--jobs", "16"];

#[test]
fn idle_session_ends_after_hint() {
    let server =
        ScriptedServer::start(ServerOptions { hint_seconds: 2, ..options(Mutation::Correct) });
    thread::scope(|scope| {
        for target in server.targets() {
            scope.spawn(move || {
                let report = assert_passes(&target, &[&PATIENT[..], &IDLE].concat());
                let skipped = with_status(&report, "skipped");
                let wanted = match target.split(':').next() {
                    Some("http") => ["keepalive.idle_close", "idle.announced"],
                    _ => ["keepalive.event", "idle.event_stream"],
                };
                assert_eq!(skipped, wanted, "{target}: {report:#}");
            });
        }
    });
}

#[test]
fn wrong_end_of_idle_session_fails_its_check() {
    in_parallel(OF_IDLE, |&(transport, mutation, wanted)| {
        let server = ServerOptions { hint_seconds: 1, ..options(mutation) };
        assert_only_finds(transport, server, &[&PATIENT[..], &IDLE].concat(), wanted);
    });
}

#[test]
fn slow_checks_wait_for_timeouts() {
    let handshake_timeout = Duration::from_secs(2);
    let server =
        ScriptedServer::start(ServerOptions { handshake_timeout, ..options(Mutation::Correct) });
    let slow = ["--slow", "--only", "handshake.timeout", "--only", "capabilities.timeout"];
    let only = [&PATIENT[..], &slow].concat();
    for (target, passed) in server.targets().iter().zip([2, 2, 1]) {
        assert_eq!(assert_passes(target, &only)["passed"], passed, "{target}");
    }
}

#[test]
fn wrong_error_of_handshake_timeout_is_found() {
    let handshake_timeout = Duration::from_millis(200);
    for mutation in [Mutation::HandshakeTimeoutInternal, Mutation::HandshakeTimeoutSilent] {
        let server = ServerOptions { handshake_timeout, ..options(mutation) };
        let arguments = [&PATIENT[..], &["--slow", "--only", "handshake"]].concat();
        assert_only_finds(0, server, &arguments, "handshake.timeout");
    }
}

/// The checks of authentication.
const AUTH: [&str; 6] = ["--only", "auth", "--token", TOKEN, "--expired-token", EXPIRED_TOKEN];

#[test]
fn wrong_rejection_of_token_fails_its_check() {
    in_parallel(OF_TOKENS, |&(transport, mutation, wanted)| {
        let arguments = [&PATIENT[..], &AUTH].concat();
        assert_only_finds(transport, options_with_token(mutation), &arguments, wanted);
    });
}

#[test]
fn token_is_required_on_every_transport() {
    let server = ScriptedServer::start(options_with_token(Mutation::Correct));
    for (target, passed) in server.targets().into_iter().zip([4, 5, 4]) {
        let report = assert_passes(&target, &[&PATIENT[..], &AUTH].concat());
        assert_eq!(report["passed"], passed, "{target}");
        let (status, report) = check(&target, &["--only", "handshake.acked"]);
        assert_eq!((status, &report["failed"]), (1, &Value::from(1)), "{target}");
    }
}

#[test]
fn correct_server_passes_over_standard_streams() {
    let server = ScriptedServer::start(options(Mutation::Correct));
    let [lines, ..] = server.addresses();
    // A program that passes its standard streams on to the server.
    let (host, port) = (lines.ip(), lines.port());
    let script = format!(
        "exec 3<>/dev/tcp/{host}/{port} 4<&0; cat <&4 >&3 & cat <&3 & wait -n; kill $(jobs -p)"
    );
    let target = format!("stdio:bash -c '{script}'");
    let only = ["--only", "handshake", "--only", "requests", "--only", "resume"];
    let report = assert_passes(&target, &[&PATIENT[..], &only].concat());
    assert!(report["passed"].as_u64().unwrap() >= 30, "{}", report["passed"]);
    // A resume needs a server that outlives the connection.
    let skipped = with_status(&report, "skipped");
    assert!(skipped.contains(&"resume.continues"), "{skipped:?}");
}

#[test]
fn other_transport_has_same_tools_and_errors() {
    let server = ScriptedServer::start(options(Mutation::Correct));
    let differing = ScriptedServer::start(options(Mutation::ListsDiffer));
    let [lines, websocket, http] = server.targets();
    let across = ["registry.across_transports", "errors.across_transports"];
    let failures = "failures.across_transports";
    let only = across.into_iter().chain([failures]).flat_map(|name| ["--only", name]);
    let only: Vec<&str> = PATIENT.into_iter().chain(only).collect();
    for other in [&websocket, &http] {
        let report = assert_passes(&lines, &[&only[..], &["--compare", other]].concat());
        assert_eq!(report["passed"], 3, "{other}");
    }
    let naming = ScriptedServer::start(options(Mutation::ErrorsDiffer));
    let [lines_of_naming, _, http_of_naming] = naming.targets();
    let arguments = [&only[..], &["--compare", &http_of_naming]].concat();
    let (status, report) = check(&lines_of_naming, &arguments);
    assert_eq!((status, with_status(&report, "failed")), (1, vec![failures]));
    let other = &differing.targets()[1];
    let (status, report) = check(&lines, &[&only[..], &["--compare", other]].concat());
    assert_eq!((status, with_status(&report, "failed")), (1, vec!["registry.across_transports"]));
}

#[test]
fn correct_server_passes_over_tls() {
    let server = ScriptedServer::start(options(Mutation::Correct));
    let issuer = Issuer::new();
    let directory = tempfile::tempdir().unwrap();
    let ca_file = directory.path().join("ca.pem");
    fs::write(&ca_file, issuer.pem()).unwrap();
    let ca_file = ca_file.to_str().unwrap();
    for (address, (scheme, path)) in
        server.addresses().into_iter().zip([("tls", ""), ("wss", "/parity"), ("https", "/parity")])
    {
        let terminator = Terminator::start(address, issuer.good_server(), TlsFault::NoFault);
        let target = format!("{scheme}://localhost:{}{path}", terminator.port());
        let only = ["--only", "handshake", "--only", "streams", "--only", "sse"];
        let trusting = [&PATIENT[..], &only, &["--ca-file", ca_file]].concat();
        assert_passes(&target, &trusting);
        // The issuer is not one of this machine.
        let mut command = Command::new(CORELANE);
        let result: ExitResult = command.args(["parity-check", &target]).output().unwrap().into();
        assert_eq!((result.status, result.stdout.as_str()), (1, ""), "{target}");
        assert!(result.stderr.contains("connect: "), "{}", result.stderr);
    }
}

/// Checks that a mutation fails its check, and no check of another family.
fn assert_found(transport: usize, mutation: Mutation, wanted: &str) {
    let server = ScriptedServer::start(options(mutation));
    let target = &server.targets()[transport];
    // Without an acknowledgement each check fails or is blocked, however long its step waits.
    let is_blocked = mutation == Mutation::NoHandshakeAck;
    let timeout = if is_blocked { ["--timeout-ms", "1000"] } else { [PATIENT[0], PATIENT[1]] };
    let arguments = [&timeout[..], &["--quiet-ms", "200", "--jobs", "32"]].concat();
    let (status, report) = check(target, &arguments);
    let failed = with_status(&report, "failed");
    let family = |name: &str| name.split('.').next().unwrap().to_owned();
    let families: BTreeSet<String> = failed.iter().map(|name| family(name)).collect();
    let found = broken(&report);
    assert!(failed.contains(&wanted), "{mutation:?}:\n{found}");
    assert_eq!(families, BTreeSet::from([family(wanted)]), "{mutation:?}:\n{found}");
    assert_eq!(status, 1, "{mutation:?}");
}

/// Checks that of all checks that run only one fails.
fn assert_only_finds(transport: usize, server: ServerOptions, arguments: &[&str], wanted: &str) {
    let mutation = server.mutation;
    let server = ScriptedServer::start(server);
    let (status, report) = check(&server.targets()[transport], arguments);
    let found = broken(&report);
    assert_eq!(with_status(&report, "failed"), [wanted], "{mutation:?}:\n{found}");
    assert_eq!(status, 1, "{mutation:?}");
}

/// Checks several cases at a time: most of the time is spent waiting.
fn in_parallel<T: Sync>(cases: &[T], check: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(case);
                }
            });
        }
    });
}

/// Checks that each mutation fails its check, and no check of another family.
fn assert_all_found(transport: usize, mutations: &[(Mutation, &str)]) {
    in_parallel(mutations, |&(mutation, wanted)| assert_found(transport, mutation, wanted));
}

/// Checks that each mutation fails its check, and no other.
fn assert_each_found(transport: usize, mutations: &[(Mutation, &str)]) {
    let arguments = [&PATIENT[..], &["--jobs", "32"]].concat();
    in_parallel(mutations, |&(mutation, wanted)| {
        assert_only_finds(transport, options(mutation), &arguments, wanted);
    });
}

#[test]
fn broken_rule_over_lines_fails_its_check() {
    assert!(OVER_LINES.len() + OVER_HTTP.len() >= 20);
    assert_all_found(0, OVER_LINES);
}

#[test]
fn broken_rule_over_http_fails_its_check() {
    assert_all_found(2, OVER_HTTP);
}

#[test]
fn wrong_failure_fails_one_check() {
    assert_each_found(0, ONE_OVER_LINES);
    assert_each_found(1, ONE_OVER_WEBSOCKET);
}

#[test]
fn wrong_failure_over_http_fails_one_check() {
    assert_each_found(2, ONE_OVER_HTTP);
}

#[test]
fn dropped_session_header_is_reported_first() {
    for mutation in [Mutation::SessionHeaderHidden, Mutation::SessionHeaderUnread] {
        let server = ScriptedServer::start(options(mutation));
        let (status, report) = check(&server.targets()[2], &[]);
        let checks = report["checks"].as_array().unwrap();
        let (first, others) = checks.split_first().unwrap();
        assert_eq!(
            (status, &first["name"], &first["status"]),
            (1, &Value::from("http.session_header"), &Value::from("failed"),)
        );
        assert!(first["reason"].as_str().unwrap().contains("a proxy may remove it"), "{first}");
        for other in others.iter().filter(|check| check["status"] != "skipped") {
            assert_eq!(other["status"], "blocked", "{other}");
            assert!(other["reason"].as_str().unwrap().starts_with("http.session_header: "));
        }
    }
}

#[test]
fn table_names_failed_rule() {
    let server = ScriptedServer::start(options(Mutation::VersionAccepted));
    let target = &server.targets()[0];
    let run = |only: &str| -> ExitResult {
        let mut command = Command::new(CORELANE);
        command.args(["parity-check", target, "--only", only]).output().unwrap().into()
    };
    let failed = run("handshake.version_unsupported");
    assert_eq!(failed.status, 1);
    assert!(failed.stdout.starts_with("failed   must"), "{}", failed.stdout);
    assert!(failed.stdout.contains("rule: an unknown version is rejected"), "{}", failed.stdout);
    assert!(failed.stdout.contains("does not comply: 0 passed, 1 failed"), "{}", failed.stdout);
    let passed = run("requests.ping");
    assert_eq!(passed.status, 0);
    assert!(passed.stdout.contains("complies: 1 passed, 0 failed"), "{}", passed.stdout);
}

#[test]
fn unreachable_server_is_reported_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for scheme in ["tcp", "ws", "http"] {
        let target = format!("{scheme}://{address}");
        let mut command = Command::new(CORELANE);
        let result: ExitResult = command.args(["parity-check", &target]).output().unwrap().into();
        assert_eq!((result.status, result.stdout.as_str()), (1, ""), "{target}");
        let wanted = format!("error: {target}: connect: ");
        assert!(result.stderr.starts_with(&wanted), "{}", result.stderr);
        assert_eq!(result.stderr.lines().count(), 1);
    }
}

#[test]
fn unusable_arguments_are_usage_errors() {
    for arguments in [
        &["ftp://a"][..],
        &["tcp://a"],
        &["tcp://a:1", "--only", "nothing"],
        &["tcp://a:1", "--long-arguments", "[]"],
        &[],
    ] {
        let mut command = Command::new(CORELANE);
        let result: ExitResult =
            command.arg("parity-check").args(arguments).output().unwrap().into();
        assert_eq!((result.status, result.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(result.stderr.starts_with("error"), "{}", result.stderr);
    }
}

#[test]
fn list_prints_rules_without_target() {
    let mut command = Command::new(CORELANE);
    let result: ExitResult = command.args(["parity-check", "--list"]).output().unwrap().into();
    assert_eq!(result.status, 0);
    assert!(result.stdout.lines().count() >= 60);
    let line = result.stdout.lines().find(|line| line.starts_with("streams.eos"));
    assert!(line.unwrap().contains("a stream ends by eos"));
}
