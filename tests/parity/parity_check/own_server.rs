//! The checks of `corelane parity-check` against `corelane serve` on each transport, plain and with
//! TLS and tokens.

use std::fmt::Write;
use std::fs;
use std::thread;

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::model::Implementation;
use corelane::{CallToolResult, Catalog, NoArguments, Server, Tool};
use corelane_test_support::tls::Issuer;
use corelane_test_support::{ServeProcess, TestServer};
use sha2::{Digest, Sha256};

use crate::options;
use crate::parity_check::{
    AUTH, CORELANE, EXPIRED_TOKEN, IDLE, PATIENT, TOKEN, assert_passes, with_status,
};

/// Tools of every kind, two shards, and times that no check waits for without `--slow`.
pub(crate) const SERVES: [&str; 10] = [
    "--demo",
    "conformance",
    "--shards",
    "2",
    "--parity-keepalive-secs",
    "2",
    "--parity-sse-keepalive-secs",
    "2",
    "--parity-idle-timeout-secs",
    "6",
];

/// Times that the checks of silent sessions wait for.
const SHORT_TIMES: [&str; 6] = [
    "--parity-keepalive-secs",
    "1",
    "--parity-sse-keepalive-secs",
    "1",
    "--parity-idle-timeout-secs",
    "2",
];

/// Addresses of one server over TCP and one over HTTP, as targets of the schemes.
struct Targets {
    _servers: [ServeProcess; 2],
    targets: [String; 3],
}

impl Targets {
    fn start(arguments: &[&str], [tcp, http, websocket]: [&str; 3], host: &str) -> Self {
        let arguments = [&SERVES[..], arguments].concat();
        let servers =
            [ServeProcess::tcp(CORELANE, &arguments), ServeProcess::http(CORELANE, &arguments)];
        let [tcp_port, http_port] = servers.each_ref().map(|server| server.address.port());
        let targets = [
            format!("{tcp}://{host}:{tcp_port}"),
            format!("{http}://{host}:{http_port}/parity"),
            format!("{websocket}://{host}:{http_port}/mcp/ws"),
        ];
        Self { _servers: servers, targets }
    }
}

#[test]
fn own_server_passes_on_every_transport() {
    let served = Targets::start(&[], ["tcp", "http", "ws"], "127.0.0.1");
    let [lines, others @ ..] = &served.targets;
    let report = assert_passes(lines, &arguments(&[]));
    assert!(report["passed"].as_u64().unwrap() >= 100, "{}", report["passed"]);
    for target in others {
        let report = assert_passes(target, &arguments(&["--compare", lines]));
        assert!(report["passed"].as_u64().unwrap() >= 100, "{}", report["passed"]);
    }
}

#[test]
fn silent_sessions_of_own_server_end_alike() {
    let served = Targets::start(&SHORT_TIMES, ["tcp", "http", "ws"], "127.0.0.1");
    let stdio = format!("stdio:{CORELANE} stdio --demo conformance {}", SHORT_TIMES.join(" "));
    let long = ["--long-arguments", r#"{"steps":140,"step_ms":50}"#];
    let arguments = [&PATIENT[..], &IDLE, &long].concat();
    thread::scope(|scope| {
        for target in served.targets.iter().chain([&stdio]) {
            let arguments = &arguments;
            scope.spawn(move || {
                let report = assert_passes(target, arguments);
                let skipped = with_status(&report, "skipped");
                let wanted = if target.starts_with("http") {
                    ["keepalive.idle_close", "idle.announced"]
                } else {
                    ["keepalive.event", "idle.event_stream"]
                };
                assert_eq!(skipped, wanted, "{target}: {report:#}");
            });
        }
    });
}

/// Knows the token, and the one that has expired.
struct Tokens;

impl TokenVerifier for Tokens {
    fn verify(&self, token: &str, _: u64) -> Result<Principal, TokenError> {
        match token {
            TOKEN => Ok(Principal::new("suite")),
            EXPIRED_TOKEN => Err(TokenError::Expired),
            _ => Err(TokenError::Unknown),
        }
    }
}

#[test]
fn tokens_of_own_server_are_rejected_alike() {
    let tool = Tool::new("nothing").inline(|_: NoArguments, _| Ok(CallToolResult::text("")));
    let catalog = Catalog::builder(Implementation::new("test", "1")).tool(tool).build().unwrap();
    let server = TestServer::with_server(|_| {
        Server::builder(catalog).options(options()).token_verifier(Tokens)
    });
    let (lines, http) = (format!("tcp://{}", server.tcp()), server.http());
    for target in [format!("http://{http}/parity"), format!("ws://{http}/mcp/ws")] {
        let compare = ["--only", "failures.across_transports", "--compare", &lines];
        let report = assert_passes(&target, &[&PATIENT[..], &AUTH, &compare].concat());
        let passed = with_status(&report, "passed");
        assert!(passed.contains(&"auth.expired"), "{passed:?}");
        assert!(passed.contains(&"failures.across_transports"), "{passed:?}");
    }
    assert_passes(&lines, &[&PATIENT[..], &AUTH].concat());
    server.close();
}

#[test]
fn handshake_of_own_server_has_a_deadline() {
    let short = ["--parity-handshake-timeout-ms", "300"];
    let served = Targets::start(&short, ["tcp", "http", "ws"], "127.0.0.1");
    let arguments = [&PATIENT[..], &["--slow", "--only", "handshake.timeout"]].concat();
    let stdio = format!("stdio:{CORELANE} stdio --demo basic {}", short.join(" "));
    let [lines, _, websocket] = &served.targets;
    for target in [lines, websocket, &stdio] {
        let report = assert_passes(target, &arguments);
        assert_eq!(with_status(&report, "passed"), ["handshake.timeout"], "{target}");
    }
}

#[test]
fn own_server_passes_over_standard_streams() {
    let target = format!("stdio:{CORELANE} stdio --demo conformance");
    let report = assert_passes(&target, &arguments(&[]));
    assert!(report["passed"].as_u64().unwrap() >= 90, "{}", report["passed"]);
}

#[test]
fn own_server_passes_with_tls_and_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let issuer = Issuer::new();
    let certificate = issuer.server_certificate_for("localhost");
    let (ca, pem) = (write("ca.pem", &issuer.pem()), write("server.pem", &certificate.pem()));
    let (key, keys) = (write("key.pem", &certificate.key_pem()), write("keys", &api_key()));
    let options = ["--tls-cert", &pem, "--tls-key", &key, "--auth-api-keys", &keys];
    let served = Targets::start(&options, ["tls", "https", "wss"], "localhost");
    for target in &served.targets {
        let with_token = ["--ca-file", &ca, "--token", TOKEN];
        let report = assert_passes(target, &arguments(&with_token));
        assert!(report["passed"].as_u64().unwrap() >= 100, "{}", report["passed"]);
    }
}

/// Returns the arguments of a run of all checks, several at a time: most of them wait.
pub(crate) fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&PATIENT[..], &["--jobs", "6"], more].concat()
}

/// Returns the line of the file of API keys for the token.
pub(crate) fn api_key() -> String {
    let mut line = "suite:".to_owned();
    for byte in Sha256::digest(TOKEN) {
        write!(line, "{byte:02x}").unwrap();
    }
    line
}
