//! Tests of TLS and bearer tokens: requests over TLS succeed, and errors of certificates and
//! handshakes are reported in one line.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use corelane_load::generator::{self, Measurements};
use corelane_load::metrics::outcome::Failure;
use corelane_load::plan::{ChurnPlan, HumanDuration, PhasePlan, Plan, TlsPlan};
use corelane_load::target::Era;
use corelane_test_support::TestServer;
use corelane_test_support::tls::{
    Certificate, CertificateValidity, Issuer, Terminator, TlsFault, serve, version,
};

use crate::{LOAD, SHORT, file_path};

/// The bearer token of the tests.
const TOKEN: &str = "s3cr3t-T0ken";

/// Returns a plan of 400 requests over four connections, trusting this CA file.
fn plan(target: &str, ca: &str) -> Plan {
    let rate = PhasePlan::constant(1_000.0, HumanDuration::from(Duration::from_millis(400)));
    Plan {
        connections: 4,
        depth: 2,
        warm_up: HumanDuration::from_secs(0),
        phases: vec![rate],
        tls: Some(TlsPlan { ca: Some(ca.into()), ..TlsPlan::default() }),
        ..Plan::new(target)
    }
}

/// Writes a file of the tests.
fn write(name: &str, text: &str) -> String {
    let path = file_path(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Writes a CA certificate to a file.
fn ca_file(issuer: &Issuer, name: &str) -> String {
    write(name, &issuer.pem())
}

/// Writes a certificate and its key to files.
fn client_files(certificate: &Certificate, name: &str) -> (String, String) {
    let file = |part: &str, text: &str| write(&format!("{name}-{part}.pem"), text);
    (file("cert", &certificate.pem()), file("key", &certificate.key_pem()))
}

fn drive(plan: &Plan) -> Measurements {
    generator::run(&plan.run_config().unwrap(), 2, &[], None, |_, _| {}).unwrap()
}

/// Exit status, standard output and standard error of a command.
struct CommandOutput {
    status: i32,
    stdout: String,
    stderr: String,
}

/// Runs the program with further flags.
fn run(target: &str, flags: &[&str]) -> CommandOutput {
    run_within(target, flags, &[])
}

/// Runs the program with environment variables.
fn run_within(target: &str, flags: &[&str], environment: &[(&str, &str)]) -> CommandOutput {
    let mut command = Command::new(LOAD);
    command
        .args(["run", "--quiet", target])
        .args(SHORT)
        .args(flags)
        .envs(environment.iter().copied());
    let output = command.env_remove("SSL_CERT_DIR").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput {
        status: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Asserts a single error line that contains all parts.
fn assert_usage_error(output: &CommandOutput, parts: &[&str]) {
    let CommandOutput { status, stdout: out, stderr } = output;
    assert_eq!((*status, out.as_str()), (2, ""), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "'{part}' is not in: {stderr}");
    }
}

fn assert_passed(output: &CommandOutput) {
    let CommandOutput { status, stdout: out, stderr } = output;
    assert_eq!((*status, stderr.as_str()), (0, ""), "{out}");
    assert!(!out.contains("INVALID") && !out.contains(" of all"), "{out}");
}

#[test]
fn tls_completes_every_request() {
    let (test_server, issuer) = (TestServer::for_load(), Issuer::new());
    let ca = ca_file(&issuer, "every.pem");
    for version in [&version::TLS13, &version::TLS12] {
        let before = |behind: SocketAddr| {
            let config = issuer.server(CertificateValidity::Valid, None, &[version]);
            Terminator::start(behind, config, TlsFault::NoFault).port()
        };
        let (lines, http) = (before(test_server.tcp()), before(test_server.http()));
        for target in [
            format!("tls://localhost:{lines}"),
            format!("https://localhost:{http}"),
            format!("wss://localhost:{http}"),
        ] {
            for era in [Era::Modern, Era::Legacy] {
                let finding = drive(&Plan { era: Some(era), ..plan(&target, &ca) });
                let (total, outcomes) = (&finding.total, finding.total.outcomes);
                let counts = (total.due, total.sent, outcomes.answered, outcomes.failures());
                assert_eq!(counts, (400, 400, 400, 0), "{target} {era:?} {outcomes:?}");
                assert_eq!((finding.opened, total.connects.lost, outcomes.unsolicited), (4, 0, 0));
                let summary = finding.setup.tls.unwrap();
                assert!(summary.starts_with("TLS 1.") && summary.contains(&ca), "{summary}");
            }
        }
    }
}

#[test]
fn tls_churn_loses_no_connection() {
    let (test_server, issuer) = (TestServer::for_load(), Issuer::new());
    let ca = ca_file(&issuer, "churn.pem");
    let before = |behind| Terminator::start(behind, issuer.good_server(), TlsFault::NoFault).port();
    let (lines, http) = (before(test_server.tcp()), before(test_server.http()));
    for target in [
        format!("tls://localhost:{lines}"),
        format!("https://localhost:{http}"),
        format!("wss://localhost:{http}"),
    ] {
        let churn = Some(ChurnPlan { rate: 20.0, ..ChurnPlan::default() });
        let finding = drive(&Plan { churn, era: Some(Era::Legacy), ..plan(&target, &ca) });
        let (total, openings) = (&finding.total, &finding.total.connects);
        assert_eq!((total.outcomes.answered, total.connects.lost), (400, 0), "{target}");
        assert_eq!((openings.not_reopened, openings.sessions_not_deleted), (0, 0), "{target}");
        assert!(openings.opened > 4, "{target}");
    }
}

#[test]
fn tls_responses_of_many_records_are_reassembled() {
    let (test_server, issuer) = (TestServer::for_load(), Issuer::new());
    let ca = ca_file(&issuer, "records.pem");
    let port =
        Terminator::start(test_server.http(), issuer.good_server(), TlsFault::NoFault).port();
    let flags = ["--ca", &ca, "--bytes=65536", "--errors-max=0"];
    for scheme in ["https", "wss"] {
        assert_passed(&run(&format!("{scheme}://localhost:{port}"), &flags));
    }
}

#[test]
fn broken_tls_connection_is_counted_by_kind() {
    let (test_server, issuer) = (TestServer::for_load(), Issuer::new());
    let ca = ca_file(&issuer, "later.pem");
    for (faults, failure, why) in [
        (
            TlsFault::InvalidData,
            Failure::Garbage,
            Some("garbage: invalid TLS data from the server"),
        ),
        (TlsFault::CloseWithoutNotify, Failure::Closed, None),
        (TlsFault::CloseNotifyOnly, Failure::Closed, None),
    ] {
        let port = Terminator::start(test_server.tcp(), issuer.good_server(), faults).port();
        let target = format!("tls://localhost:{port}");
        let answer_max = HumanDuration::from(Duration::from_millis(500));
        let finding = drive(&Plan { depth: 1, response_timeout: answer_max, ..plan(&target, &ca) });
        let (total, outcomes) = (&finding.total, finding.total.outcomes);
        assert!(outcomes.failed(failure) > 0 && total.connects.lost > 0, "{faults:?} {outcomes:?}");
        let others = outcomes.failures() - outcomes.failed(failure);
        // Connections reopen until the end; then each may have a request in flight.
        let late = outcomes.failed(Failure::Unsent) + outcomes.failed(Failure::Timeout);
        assert_eq!(others, late, "{faults:?} {outcomes:?}");
        assert!(outcomes.failed(Failure::Timeout) <= 4, "{faults:?} {outcomes:?}");
        let last_error = total.errors.last();
        assert!(why.is_none_or(|why| last_error.unwrap().starts_with(why)), "{last_error:?}");
    }
}

#[test]
fn invalid_certificate_error_names_correction() {
    let (test_server, issuer) = (TestServer::for_load(), Issuer::new());
    let ca = ca_file(&issuer, "good.pem");
    let other = ca_file(&Issuer::named("another"), "other.pem");
    let anew = ca_file(&Issuer::new(), "anew.pem");
    let good =
        Terminator::start(test_server.http(), issuer.good_server(), TlsFault::NoFault).port();
    let target = format!("https://localhost:{good}");
    let unknown = run(&target, &["--ca", &other]);
    assert_usage_error(&unknown, &[&target, "unknown issuer", "pass --ca FILE", "--insecure"]);
    let anew = run(&target, &["--ca", &anew]);
    assert_usage_error(&anew, &["invalid signature of its issuer", "pass --ca FILE"]);
    let elsewhere = format!("https://127.0.0.1:{good}");
    let named = run(&elsewhere, &["--ca", &ca]);
    assert_usage_error(&named, &["for localhost, not for 127.0.0.1", "--server-name NAME"]);
    assert_passed(&run(&elsewhere, &["--ca", &ca, "--server-name=localhost"]));
    let versions = [&version::TLS13, &version::TLS12];
    let expired = issuer.server(CertificateValidity::Expired, None, &versions);
    let expired = Terminator::start(test_server.http(), expired, TlsFault::NoFault).port();
    let expired = run(&format!("wss://localhost:{expired}"), &["--ca", &ca]);
    assert_usage_error(&expired, &["has expired: renew it"]);
}

#[test]
fn system_roots_are_trusted_by_default() {
    let (test_server, issuer) = (TestServer::for_load(), Issuer::new());
    let port =
        Terminator::start(test_server.http(), issuer.good_server(), TlsFault::NoFault).port();
    let target = format!("https://localhost:{port}");
    let trust = |path: &str| run_within(&target, &[], &[("SSL_CERT_FILE", path)]);
    let ended = trust(&ca_file(&issuer, "machine.pem"));
    assert_passed(&ended);
    assert!(ended.stdout.contains("certificate checked against the roots of this machine"));
    assert_usage_error(&trust(&write("empty.pem", "")), &["ca-certificates", "--ca FILE"]);
}

#[test]
fn insecure_tls_is_shown_in_all_results() {
    let (test_server, issuer) = (TestServer::for_load(), Issuer::new());
    let versions = [&version::TLS13, &version::TLS12];
    let config = issuer.server(CertificateValidity::Expired, None, &versions);
    let port = Terminator::start(test_server.tcp(), config, TlsFault::NoFault).port();
    let json = write("insecure.json", "");
    let ended = run(&format!("tls://127.0.0.1:{port}"), &["--insecure", "--json", &json]);
    assert_passed(&ended);
    let warning = "certificate NOT CHECKED (insecure)";
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert!(ended.stdout.contains(warning), "{}", ended.stdout);
    assert!(written["manifest"]["tls"].as_str().unwrap().ends_with(warning), "{written}");
}

#[test]
fn failed_tls_handshake_is_reported() {
    let closes = serve(|mut stream| drop(stream.read(&mut [0; 64])));
    let speaks_plain = serve(|mut stream| {
        drop(stream.read(&mut [0; 64]));
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").ok();
    });
    let mut kept = Vec::new();
    let silent = serve(move |stream| kept.push(stream));
    for (address, part) in [
        (closes, "closed the connection during the TLS handshake"),
        (speaks_plain, "does not speak TLS on this port: use http://"),
        (silent, "does the server speak TLS on this port?"),
    ] {
        for scheme in ["tls", "https", "wss"] {
            let target = format!("{scheme}://{address}");
            let ended = run(&target, &["--insecure", "--connect-timeout=1s"]);
            assert_usage_error(&ended, &[&target, part]);
        }
    }
}

#[test]
fn client_certificate_is_sent_or_reported_missing() {
    let (test_server, issuer, clients) =
        (TestServer::for_load(), Issuer::new(), Issuer::named("clients"));
    let ca = ca_file(&issuer, "mutual.pem");
    let (cert, key) = client_files(&clients.client(), "mutual");
    let (stranger, its_key) = client_files(&issuer.client(), "stranger");
    for version in [&version::TLS13, &version::TLS12] {
        let config = issuer.server(CertificateValidity::Valid, Some(&clients), &[version]);
        let port = Terminator::start(test_server.http(), config, TlsFault::NoFault).port();
        let target = format!("https://localhost:{port}");
        let with = |cert: &str, key: &str| {
            run(&target, &["--era=legacy", "--ca", &ca, "--cert", cert, "--key", key])
        };
        assert_passed(&with(&cert, &key));
        let refused = with(&stranger, &its_key);
        assert_usage_error(&refused, &["--cert FILE"]);
        let flags = ["--era=legacy", "--ca", &ca];
        assert_usage_error(&run(&target, &flags), &["--cert FILE and --key FILE"]);
        assert_usage_error(&with(&cert, &its_key), &["certificate and its key do not work"]);
    }
}

#[test]
fn invalid_tls_flags_are_reported() {
    let plain = run("http://127.0.0.1:1", &["--insecure"]);
    assert_usage_error(&plain, &["http://127.0.0.1:1/mcp", "write https://, wss:// or tls://"]);
    let target = "https://127.0.0.1:1";
    assert_usage_error(&run(target, &["--ca=/nowhere.pem"]), &["cannot read /nowhere.pem"]);
    let empty = write("empty.pem", "nothing");
    assert_usage_error(&run(target, &["--ca", &empty]), &["empty.pem contains no certificate"]);
    assert_usage_error(&run(target, &["--insecure", "--cert", &empty]), &["set key"]);
}

/// Starts an HTTP server that rejects every request, and echoes the `Authorization` field in the
/// body. The channel receives the request heads.
fn rejecting_server() -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let (tx, rx) = channel();
    let address = serve(move |mut stream| {
        let mut head = [0; 4_096];
        let length = stream.read(&mut head).unwrap_or(0);
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        let shown = head.lines().find(|line| line.starts_with("Authorization: "));
        let body = shown.unwrap_or("nothing").to_owned();
        tx.send(head).ok();
        let length = body.len();
        let head = format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all((head + &body).as_bytes()).ok();
    });
    (address, rx)
}

#[test]
fn bearer_token_is_sent_and_never_printed() {
    let file = write("token.txt", &format!("{TOKEN}\n"));
    let plan = format!("target = \"http://x\"\nera = \"legacy\"\nbearer_file = \"{file}\"\n");
    let plan = write("token.toml", &plan);
    for scheme in ["http", "ws"] {
        for (flags, environment) in [
            (vec!["--bearer", TOKEN], vec![]),
            (vec!["--bearer-file", &file], vec![("CORELANE_LOAD_BEARER", "another")]),
            (vec![], vec![("CORELANE_LOAD_BEARER", TOKEN)]),
            (vec!["--plan", &plan], vec![]),
        ] {
            let (address, heads) = rejecting_server();
            let target = format!("{scheme}://{address}");
            let all = [&flags[..], &["--era=legacy", "--connect-timeout=300ms"]].concat();
            let ended = run_within(&target, &all, &environment);
            let head = heads.recv().unwrap();
            let field = format!("Authorization: Bearer {TOKEN}");
            assert!(head.lines().any(|line| line == field), "{flags:?}: {head}");
            assert_usage_error(&ended, &["401"]);
            assert!(!ended.stderr.contains(TOKEN), "{}", ended.stderr);
        }
    }
}

#[test]
fn headers_come_from_flag_file_and_environment() {
    let file = write("headers.txt", "X-One: 1\n\nX-Two: 2\r\n");
    let (address, heads) = rejecting_server();
    let flags = ["--header", &format!("@{file}"), "-H", "X-Three: 3", "--connect-timeout=300ms"];
    let environment = [("CORELANE_LOAD_HEADERS", "X-Four: 4\nX-Five: 5")];
    let ended = run_within(&format!("http://{address}"), &flags, &environment);
    assert_usage_error(&ended, &["401", "--bearer-file"]);
    let head = heads.recv().unwrap();
    for field in ["X-One: 1", "X-Two: 2", "X-Three: 3", "X-Four: 4", "X-Five: 5"] {
        assert!(head.lines().any(|line| line == field), "{field}: {head}");
    }
    let ended = run("http://127.0.0.1:1", &["--header=@/nowhere"]);
    assert_usage_error(&ended, &["cannot read /nowhere"]);
}

#[test]
fn bearer_token_is_hidden_in_results() {
    let test_server = TestServer::for_load();
    let target = format!("http://{}", test_server.http());
    for (name, flags) in [
        ("flag", vec!["--bearer".to_owned(), TOKEN.to_owned()]),
        ("flag-in-one", vec![format!("--bearer={TOKEN}")]),
        ("header", vec!["--header".to_owned(), format!("authorization: Bearer {TOKEN}")]),
        ("header-in-one", vec![format!("--header=X-Api-Key:{TOKEN}")]),
    ] {
        let json = write(&format!("token-{name}.json"), "");
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--json", &json]).collect();
        let ended = run(&target, &flags);
        assert_passed(&ended);
        let written = std::fs::read_to_string(json).unwrap();
        assert!(written.contains("(hidden)"), "{name}: {written}");
        assert!(!written.contains(TOKEN) && !ended.stdout.contains(TOKEN), "{name}: {written}");
    }
}

#[test]
fn invalid_credentials_error_hides_the_secret() {
    let http = "http://127.0.0.1:1";
    let broken = format!("X-Api-Key: {TOKEN}\r\nX: y");
    let twice = format!("Authorization: Bearer {TOKEN}");
    let file = write("blank.txt", " \n");
    let (flag, file) = (format!("--bearer={TOKEN}"), format!("--bearer-file={file}"));
    let (broken, twice) = (format!("--header={broken}"), format!("--header={twice}"));
    for (target, flags, part) in [
        ("tcp://127.0.0.1:1", vec![flag.as_str()], "remove --bearer"),
        ("tls://127.0.0.1:1", vec!["--insecure", &flag], "remove --bearer"),
        (http, vec![&broken], "line break"),
        (http, vec![&flag, &twice], "leave one of them out"),
        (http, vec![&flag, &file], "cannot be used with"),
        (http, vec![&file], "bearer token is empty"),
        (http, vec!["--header=X Y: z"], "invalid header name \"X Y\""),
    ] {
        let ended = run(target, &flags);
        assert_usage_error(&ended, &[part]);
        assert!(!ended.stderr.contains(TOKEN), "{}", ended.stderr);
    }
}
