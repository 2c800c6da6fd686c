//! What independent programs say of the server: sslscan, testssl.sh, and openssl.
//!
//! `./test.sh` installs them and runs these tests. The files in `judges/` are what they must say.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use corelane_test_support::TestServer;

use super::Authority;

/// Runs a program to its end; returns its standard output and standard error.
fn run(program: &str, arguments: &[&str], directory: &Path) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let [text, errors] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    text + &errors
}

/// Returns the lines of `expected` that are not in `found`, and the other way round.
fn differences<'a>(expected: &'a [&str], found: &'a [String]) -> Vec<String> {
    let lost = expected.iter().filter(|line| !found.iter().any(|it| it == *line));
    let new = found.iter().filter(|line| !expected.contains(&line.as_str()));
    lost.map(|line| format!("-{line}")).chain(new.map(|line| format!("+{line}"))).collect()
}

#[test]
#[ignore = "needs sslscan: tests/server/tls/install.sh"]
fn sslscan_finds_expected_versions_and_ciphers() {
    let authority = Authority::new();
    let server = TestServer::start(authority.server_options());
    let target = format!("127.0.0.1:{}", server.http().port());
    let arguments = ["--no-colour", "--no-check-certificate", &target];
    let text = run("sslscan", &arguments, authority.path());
    let kinds = ["SSLv", "TLSv", "Preferred", "Accepted", "Session renegotiation"];
    let lines = text.lines().map(str::trim).filter(|line| {
        kinds.iter().any(|kind| line.starts_with(kind)) && !line.starts_with("SSL Certificate")
    });
    let found: Vec<String> = lines
        .map(|line| {
            // Which cipher is preferred depends on the client.
            let line = line.trim_start_matches("Preferred ").trim_start_matches("Accepted ");
            let line = line.split(" Curve ").next().unwrap_or_default();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect();
    let expected: Vec<&str> = include_str!("sslscan.txt").lines().collect();
    assert_eq!(differences(&expected, &found), [""; 0], "{text}");
}

#[test]
#[ignore = "needs testssl.sh: tests/server/tls/install.sh; takes about 30 s"]
fn testssl_finds_nothing_weak() {
    let authority = Authority::new();
    let server = TestServer::start(authority.server_options());
    let ca = authority.write("ca.pem", &authority.issuer.pem()).display().to_string();
    let target = format!("localhost:{}", server.http().port());
    let arguments = [
        "--quiet",
        "--color",
        "0",
        "--warnings",
        "off",
        "--ip",
        "127.0.0.1",
        "--protocols",
        "--std",
        "--server-defaults",
        "--vulnerable",
        "--csvfile",
        "found.csv",
        "--add-ca",
        &ca,
        &target,
    ];
    let text = run("testssl", &arguments, authority.path());
    let csv = std::fs::read_to_string(authority.path().join("found.csv")).expect(&text);
    // "id","fqdn/ip","port","severity","finding","cve","cwe"
    let rows: Vec<Vec<&str>> = csv.lines().map(|row| row.split("\",\"").collect()).collect();
    let rows = rows.iter().filter(|row| row.len() >= 5).skip(1);
    let rows = rows.map(|row| (row[0].trim_start_matches('"'), row[3], row[4].trim_matches('"')));
    let rows: Vec<_> = rows.collect();
    for line in include_str!("testssl.txt").lines() {
        let (id, expected) = line.split_once(": ").expect("an expectation");
        let found = rows.iter().find(|(name, ..)| *name == id);
        let (_, _, found) = found.unwrap_or_else(|| panic!("no {id} in {csv}"));
        // An explanation may follow, after a comma.
        assert_eq!(found.split(", ").next(), Some(expected), "{id}");
    }
    // The certificate is one of the tests; the check of resumption needs an older openssl.
    let other = ["cert", "OCSP", "DNS_CAA", "engine_problem", "sessionresumption_ticket"];
    for (id, severity, finding) in rows {
        let is_weak = !matches!(severity, "OK" | "INFO");
        let is_other = other.iter().any(|start| id.starts_with(start));
        assert!(!is_weak || is_other, "{id}: {severity}: {finding}");
    }
}

/// Runs `openssl s_client` for `localhost`, which sends `input`.
fn s_client(server: &TestServer, arguments: &[&str], input: &str) -> String {
    let target = format!("127.0.0.1:{}", server.http().port());
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &target, "-servername", "localhost"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = command.spawn().expect("openssl is installed");
    // A client that has ended reads nothing.
    client.stdin.take().expect("a pipe").write_all(input.as_bytes()).unwrap_or(());
    let output = client.wait_with_output().expect("openssl ends");
    let [text, errors] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    text + &errors
}

#[test]
#[ignore = "needs openssl: ./test.sh"]
fn openssl_of_outdated_version_is_refused() {
    let authority = Authority::new();
    let server = TestServer::start(authority.server_options());
    for version in ["-tls1", "-tls1_1"] {
        let text = s_client(&server, &[version, "-cipher", "DEFAULT@SECLEVEL=0"], "");
        assert!(text.contains("alert") && text.contains("Cipher is (NONE)"), "{text}");
    }
    let results = server.handle().tls_handshakes();
    assert!(results.contains(&("version", 2)), "{results:?}");
}

#[test]
#[ignore = "needs openssl: ./test.sh"]
fn openssl_cannot_renegotiate_or_compress() {
    let authority = Authority::new();
    let server = TestServer::start(authority.server_options());
    // A line with `R` begins a renegotiation; the client ends with the refusal.
    let text = s_client(&server, &["-tls1_2"], "R\n");
    assert!(text.contains("RENEGOTIATING") && text.contains("no renegotiation"), "{text}");
    assert!(text.contains("Compression: NONE"), "{text}");
}

#[test]
#[ignore = "needs openssl: ./test.sh"]
fn openssl_negotiates_http_1_1_only() {
    let authority = Authority::new();
    let server = TestServer::start(authority.server_options());
    let text = s_client(&server, &["-alpn", "h2,http/1.1"], "");
    assert!(text.contains("ALPN protocol: http/1.1"), "{text}");
    let text = s_client(&server, &["-alpn", "h2"], "");
    assert!(text.contains("no application protocol"), "{text}");
}

#[test]
#[ignore = "needs openssl: ./test.sh"]
fn openssl_with_other_name_gets_first_certificate() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    let other = authority.issuer.server_certificate_for("other.example");
    authority.write_certificate(&mut options, "other", &other);
    let server = TestServer::start(options);
    let ca = authority.write("ca.pem", &authority.issuer.pem()).display().to_string();
    let verify = |name: &str| {
        let names = ["-servername", name, "-verify_hostname", name, "-CAfile", &ca, "-brief"];
        s_client(&server, &names, "")
    };
    assert!(verify("other.example").contains("Verification: OK"), "{}", verify("other.example"));
    let text = verify("third.example");
    assert!(text.contains("Verification error: hostname mismatch"), "{text}");
}

#[test]
#[ignore = "needs openssl: ./test.sh"]
fn openssl_resumes_session_in_another_process() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    let output = Command::new("openssl").args(["rand", "-base64", "48"]).output().unwrap();
    let key = String::from_utf8(output.stdout).unwrap();
    options.tls.ticket_keys = vec![authority.write("tickets.key", &key)];
    let servers = [(); 2].map(|()| TestServer::start(options.clone()));
    let session = authority.path().join("session").display().to_string();
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    // Until the server closes the connection, so that the ticket of TLS 1.3 has arrived.
    let version = ["-tls1_2", "-ign_eof"];
    let text = s_client(&servers[0], &[&version[..], &["-sess_out", &session]].concat(), request);
    assert!(text.contains("New, TLSv1.2"), "{text}");
    let text = s_client(&servers[1], &[&version[..], &["-sess_in", &session]].concat(), request);
    assert!(text.contains("Reused, TLSv1.2") && text.contains("200 OK"), "{text}");
}
