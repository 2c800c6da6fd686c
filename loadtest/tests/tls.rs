//! The load over TLS, and with tokens: what is encrypted is answered as what is not, and what is
//! wrong with a certificate or a handshake is told in a line.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use corelane_load::generator::{self, Finding};
use corelane_load::measure::outcome::Failure;
use corelane_load::plan::{ChurnPlan, PhasePlan, Plan, Span, TlsPlan};
use corelane_load::target::Era;
use rustls::version;

use self::stage::Stage;
use self::terminator::{Issuer, Manners, Paper, serve, stand_before, write};

#[path = "support/stage.rs"]
mod stage;
#[path = "support/terminator.rs"]
mod terminator;

/// A short run that counts on every machine.
const SHORT: [&str; 4] = ["--closed", "--connections=2", "--warm-up=0s", "--span=300ms"];
/// The token of the tests.
const TOKEN: &str = "s3cr3t-T0ken";

/// A plan of 400 requests over four connections, against a server of this issuer.
fn plan(target: &str, ca: &str) -> Plan {
    let rate = PhasePlan::constant(1_000.0, Span::from(Duration::from_millis(400)));
    Plan {
        connections: 4,
        depth: 2,
        warm_up: Span::seconds(0),
        phases: vec![rate],
        tls: Some(TlsPlan { ca: Some(ca.into()), ..TlsPlan::default() }),
        ..Plan::new(target)
    }
}

fn drive(plan: &Plan) -> Finding {
    generator::run(&plan.job().unwrap(), (2, &[]), None, |_, _| {}).unwrap()
}

/// What came of a command: its status, and what it said where.
type Ended = (i32, String, String);

/// Runs the program with further flags.
fn run(target: &str, flags: &[&str]) -> Ended {
    run_within(target, flags, &[])
}

/// Runs it within this environment.
fn run_within(target: &str, flags: &[&str], environment: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelane-load"));
    command.args(["run", target]).args(SHORT).args(flags).envs(environment.iter().copied());
    let output = command.env_remove("SSL_CERT_DIR").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Asserts that nothing was measured and that one line says why, with all of these parts.
fn assert_fruitless((status, out, said): &Ended, parts: &[&str]) {
    assert_eq!((*status, out.as_str(), said.lines().count()), (2, "", 1), "{said}");
    for part in parts {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
}

fn assert_passed((status, out, said): &Ended) {
    assert_eq!((*status, said.as_str()), (0, ""), "{out}");
    assert!(!out.contains("INVALID") && !out.contains("failed"), "{out}");
}

#[test]
fn every_request_is_answered_over_tls_as_over_nothing() {
    let (stage, issuer) = (Stage::new(), Issuer::new());
    let ca = issuer.file("every.pem");
    for version in [&version::TLS13, &version::TLS12] {
        let before = |behind: SocketAddr| {
            let config = issuer.server(Paper::Good, None, &[version]);
            stand_before(behind, config, Manners::Good).port()
        };
        let (lines, http) = (before(stage.tcp), before(stage.http));
        for target in [
            format!("tls://localhost:{lines}"),
            format!("https://localhost:{http}"),
            format!("wss://localhost:{http}"),
        ] {
            for era in [Era::Modern, Era::Legacy] {
                let finding = drive(&Plan { era, ..plan(&target, &ca) });
                let (total, outcomes) = (&finding.total, finding.total.outcomes);
                let counts = (total.due, total.sent, outcomes.answered, outcomes.failures());
                assert_eq!(counts, (400, 400, 400, 0), "{target} {era:?} {outcomes:?}");
                assert_eq!((finding.opened, total.lost, outcomes.unasked), (4, 0, 0));
                let told = finding.tls.unwrap();
                assert!(told.starts_with("TLS 1.") && told.contains(&ca), "{told}");
            }
        }
    }
}

#[test]
fn encrypted_connections_come_and_go_without_a_loss() {
    let (stage, issuer) = (Stage::new(), Issuer::new());
    let ca = issuer.file("churn.pem");
    let before = |behind| stand_before(behind, issuer.good_server(), Manners::Good).port();
    let (lines, http) = (before(stage.tcp), before(stage.http));
    for target in [
        format!("tls://localhost:{lines}"),
        format!("https://localhost:{http}"),
        format!("wss://localhost:{http}"),
    ] {
        let churn = Some(ChurnPlan { rate: 20.0, ..ChurnPlan::default() });
        let finding = drive(&Plan { churn, era: Era::Legacy, ..plan(&target, &ca) });
        let (total, openings) = (&finding.total, &finding.total.openings);
        assert_eq!((total.outcomes.answered, total.lost), (400, 0), "{target}");
        assert_eq!((openings.unopened, openings.undeleted), (0, 0), "{target}");
        assert!(openings.opened > 4, "{target}");
    }
}

#[test]
fn answers_of_many_records_are_put_together() {
    let (stage, issuer) = (Stage::new(), Issuer::new());
    let ca = issuer.file("records.pem");
    let port = stand_before(stage.http, issuer.good_server(), Manners::Good).port();
    let flags = ["--ca", &ca, "--bytes=65536", "--errors-max=0"];
    for scheme in ["https", "wss"] {
        assert_passed(&run(&format!("{scheme}://localhost:{port}"), &flags));
    }
}

#[test]
fn a_connection_that_breaks_later_is_counted_by_how() {
    let (stage, issuer) = (Stage::new(), Issuer::new());
    let ca = issuer.file("later.pem");
    for (manners, failure, why) in [
        (Manners::Garbles, Failure::Garbage, Some("garbage: what the server sends is no TLS")),
        (Manners::Cuts, Failure::Closed, None),
        (Manners::TakesLeave, Failure::Closed, None),
    ] {
        let port = stand_before(stage.tcp, issuer.good_server(), manners).port();
        let target = format!("tls://localhost:{port}");
        let answer_max = Span::from(Duration::from_millis(500));
        let finding = drive(&Plan { depth: 1, answer_max, ..plan(&target, &ca) });
        let (total, outcomes) = (&finding.total, finding.total.outcomes);
        assert!(outcomes.failed(failure) > 0 && total.lost > 0, "{manners:?} {outcomes:?}");
        let others = outcomes.failures() - outcomes.failed(failure);
        // Lanes come back until the time is over; then each may have a request on its way.
        let late = outcomes.failed(Failure::Unsent) + outcomes.failed(Failure::Timeout);
        assert_eq!(others, late, "{manners:?} {outcomes:?}");
        assert!(outcomes.failed(Failure::Timeout) <= 4, "{manners:?} {outcomes:?}");
        let told = total.refused.as_deref();
        assert!(why.is_none_or(|why| told.unwrap().starts_with(why)), "{told:?}");
    }
}

#[test]
fn a_certificate_that_is_not_good_is_told_with_what_to_do() {
    let (stage, issuer) = (Stage::new(), Issuer::new());
    let ca = issuer.file("good.pem");
    let other = Issuer::named("another").file("other.pem");
    let anew = Issuer::new().file("anew.pem");
    let good = stand_before(stage.http, issuer.good_server(), Manners::Good).port();
    let target = format!("https://localhost:{good}");
    let unknown = run(&target, &["--ca", &other]);
    assert_fruitless(&unknown, &[&target, "issued", "pass --ca FILE", "--insecure"]);
    let anew = run(&target, &["--ca", &anew]);
    assert_fruitless(&anew, &["not signed by the issuer", "pass --ca FILE"]);
    let elsewhere = format!("https://127.0.0.1:{good}");
    let named = run(&elsewhere, &["--ca", &ca]);
    assert_fruitless(&named, &["for localhost, not for 127.0.0.1", "--server-name NAME"]);
    assert_passed(&run(&elsewhere, &["--ca", &ca, "--server-name=localhost"]));
    let versions = [&version::TLS13, &version::TLS12];
    let expired = issuer.server(Paper::Expired, None, &versions);
    let expired = stand_before(stage.http, expired, Manners::Good).port();
    let expired = run(&format!("wss://localhost:{expired}"), &["--ca", &ca]);
    assert_fruitless(&expired, &["has expired: renew it"]);
}

#[test]
fn the_issuers_of_the_machine_are_trusted_where_none_are_named() {
    let (stage, issuer) = (Stage::new(), Issuer::new());
    let port = stand_before(stage.http, issuer.good_server(), Manners::Good).port();
    let target = format!("https://localhost:{port}");
    let trust = |path: &str| run_within(&target, &[], &[("SSL_CERT_FILE", path)]);
    let ended = trust(&issuer.file("machine.pem"));
    assert_passed(&ended);
    assert!(ended.1.contains("certificate checked against the roots of this machine"));
    assert_fruitless(&trust(&write("nobody.pem", "")), &["ca-certificates", "--ca FILE"]);
}

#[test]
fn a_run_that_checks_no_certificate_says_so_wherever_it_is_shown() {
    let (stage, issuer) = (Stage::new(), Issuer::new());
    let versions = [&version::TLS13, &version::TLS12];
    let config = issuer.server(Paper::Expired, None, &versions);
    let port = stand_before(stage.tcp, config, Manners::Good).port();
    let json = write("insecure.json", "");
    let ended = run(&format!("tls://127.0.0.1:{port}"), &["--insecure", "--json", &json]);
    assert_passed(&ended);
    let said = "certificate NOT CHECKED (insecure)";
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert!(ended.1.contains(said), "{}", ended.1);
    assert!(written["manifest"]["tls"].as_str().unwrap().ends_with(said), "{written}");
}

#[test]
fn a_handshake_that_comes_to_nothing_is_told() {
    let closes = serve(|mut stream| drop(stream.read(&mut [0; 64])));
    let speaks_plain = serve(|mut stream| {
        drop(stream.read(&mut [0; 64]));
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").ok();
    });
    let mut kept = Vec::new();
    let silent = serve(move |stream| kept.push(stream));
    for (address, part) in [
        (closes, "closed the connection in the middle of the TLS handshake"),
        (speaks_plain, "does not speak TLS on this port: write http://"),
        (silent, "does the server speak TLS on this port?"),
    ] {
        for scheme in ["tls", "https", "wss"] {
            let target = format!("{scheme}://{address}");
            let ended = run(&target, &["--insecure", "--connect-max=300ms"]);
            assert_fruitless(&ended, &[&target, part]);
        }
    }
}

#[test]
fn a_server_that_wants_a_certificate_gets_it_or_is_told_of() {
    let (stage, issuer, clients) = (Stage::new(), Issuer::new(), Issuer::named("clients"));
    let ca = issuer.file("mutual.pem");
    let (cert, key) = clients.client("mutual");
    let (stranger, its_key) = issuer.client("stranger");
    for version in [&version::TLS13, &version::TLS12] {
        let config = issuer.server(Paper::Good, Some(&clients), &[version]);
        let port = stand_before(stage.http, config, Manners::Good).port();
        let target = format!("https://localhost:{port}");
        let with = |cert: &str, key: &str| {
            run(&target, &["--era=legacy", "--ca", &ca, "--cert", cert, "--key", key])
        };
        assert_passed(&with(&cert, &key));
        let refused = with(&stranger, &its_key);
        assert_fruitless(&refused, &["--cert FILE"]);
        let flags = ["--era=legacy", "--ca", &ca];
        assert_fruitless(&run(&target, &flags), &["--cert FILE and --key FILE"]);
        assert_fruitless(&with(&cert, &its_key), &["certificate and its key do not work"]);
    }
}

#[test]
fn flags_of_tls_that_make_no_sense_are_told() {
    let plain = run("http://127.0.0.1:1", &["--insecure"]);
    assert_fruitless(&plain, &["http://127.0.0.1:1/mcp", "write https://, wss:// or tls://"]);
    let target = "https://127.0.0.1:1";
    assert_fruitless(&run(target, &["--ca=/nowhere.pem"]), &["/nowhere.pem cannot be read"]);
    let empty = write("empty.pem", "nothing");
    assert_fruitless(&run(target, &["--ca", &empty]), &["empty.pem holds no certificate"]);
    assert_fruitless(&run(target, &["--insecure", "--cert", &empty]), &["name key"]);
}

/// A server of HTTP that refuses whoever asks, and repeats what it was shown; what it heard first.
fn refuses() -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let (told, asked) = channel();
    let address = serve(move |mut stream| {
        let mut head = [0; 4_096];
        let length = stream.read(&mut head).unwrap_or(0);
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        let shown = head.lines().find(|line| line.starts_with("Authorization: "));
        let body = shown.unwrap_or("nothing").to_owned();
        told.send(head).ok();
        let length = body.len();
        let head = format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all((head + &body).as_bytes()).ok();
    });
    (address, asked)
}

#[test]
fn a_token_is_shown_to_the_server_and_to_nobody_else() {
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
            let (address, asked) = refuses();
            let target = format!("{scheme}://{address}");
            let all = [&flags[..], &["--era=legacy", "--connect-max=300ms"]].concat();
            let ended = run_within(&target, &all, &environment);
            let head = asked.recv().unwrap();
            let field = format!("Authorization: Bearer {TOKEN}");
            assert!(head.lines().any(|line| line == field), "{flags:?}: {head}");
            assert_fruitless(&ended, &["401"]);
            assert!(!ended.2.contains(TOKEN), "{}", ended.2);
        }
    }
}

#[test]
fn a_token_is_in_no_result() {
    let stage = Stage::new();
    let target = format!("http://{}", stage.http);
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
        assert!(!written.contains(TOKEN) && !ended.1.contains(TOKEN), "{name}: {written}");
    }
}

#[test]
fn credentials_that_make_no_sense_are_told_without_them() {
    let http = "http://127.0.0.1:1";
    let broken = format!("X-Api-Key: {TOKEN}\r\nX: y");
    let twice = format!("Authorization: Bearer {TOKEN}");
    let file = write("blank.txt", " \n");
    let (flag, file) = (format!("--bearer={TOKEN}"), format!("--bearer-file={file}"));
    let (broken, twice) = (format!("--header={broken}"), format!("--header={twice}"));
    for (target, flags, part) in [
        ("tcp://127.0.0.1:1", vec![flag.as_str()], "leave out --bearer"),
        ("tls://127.0.0.1:1", vec!["--insecure", &flag], "leave out --bearer"),
        (http, vec![&broken], "line break"),
        (http, vec![&flag, &twice], "leave one of them out"),
        (http, vec![&flag, &file], "cannot be used with"),
        (http, vec![&file], "bearer token is empty"),
        (http, vec!["--header=X Y: z"], "\"X Y\" cannot be the name"),
    ] {
        let ended = run(target, &flags);
        assert_fruitless(&ended, &[part]);
        assert!(!ended.2.contains(TOKEN), "{}", ended.2);
    }
}
