//! Certificates that have expired or soon will.

use std::process::Command;

use corelane_test_support::tls::CertificateValidity;
use corelane_test_support::{HttpClient, Process, Request, TestServer};

use super::Authority;

use crate::CORELANE;

/// Starts a command that encrypts with an expired certificate; the arguments follow.
fn with_expired(authority: &Authority, command: &str) -> Command {
    let certificate = authority.issuer.server_certificate(CertificateValidity::Expired);
    let mut program = Command::new(CORELANE);
    program.env_clear().arg(command).arg("--tls-cert");
    program.arg(authority.write("expired.pem", &certificate.pem())).arg("--tls-key");
    program.arg(authority.write("expired.key", &certificate.key_pem()));
    program
}

#[test]
fn expired_certificate_is_reported_by_check() {
    let authority = Authority::new();
    let output = with_expired(&authority, "check").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let line = errors.lines().find(|line| line.contains("expired.pem has expired: renew it"));
    let line = line.unwrap_or_else(|| panic!("{errors}"));
    assert!(line.starts_with("warning: flag --tls-cert: tls.certificates: "), "{line}");
    assert!(output.status.success());
}

#[test]
fn expired_certificate_is_logged_at_start() {
    let authority = Authority::new();
    let mut command = with_expired(&authority, "serve");
    command.args(["--tcp", "127.0.0.1:0", "--http", "off", "--shards", "1"]);
    let mut server = Process::spawn(&mut command);
    let line = server.wait_for(|line| line.contains("has expired"));
    assert!(line.contains("WARN") && line.contains("expired.pem"), "{line}");
    server.wait_for(|line| line.contains("listening tls "));
}

#[test]
fn metrics_show_when_certificate_expires() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    let expired = authority.issuer.server_certificate(CertificateValidity::Expired);
    authority.write_certificate(&mut options, "expired", &expired);
    options.tls.http = false;
    let server = TestServer::start(options.clone());
    let response = HttpClient::connect(server.http()).exchange(&Request::new("GET", "/metrics"));
    let text = String::from_utf8(response.body).unwrap();
    let sample = |name: &str| {
        let path = authority.path().join(name);
        let metric = "corelane_tls_certificate_expiry_timestamp_seconds";
        let start = format!("{metric}{{file=\"{}\"}} ", path.display());
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{text}")).parse::<i64>().unwrap()
    };
    // 2020-01-01, and that of rcgen's default.
    assert_eq!(sample("expired.pem"), 1_577_836_800);
    assert!(sample("localhost.pem") > 1_577_836_800);
}
