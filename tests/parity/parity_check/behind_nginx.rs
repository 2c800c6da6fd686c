//! The checks through nginx: all pass with the documented configuration, and those that fail with
//! another one name nginx and the directive.
//!
//! `./test.sh` installs nginx and runs these tests.

use corelane_test_support::ServeProcess;
use corelane_test_support::tls::Issuer;
use serde_json::Value;

use crate::parity_check::nginx::{Location, Nginx};
use crate::parity_check::own_server::{SERVES, api_key, arguments};
use crate::parity_check::{CORELANE, TOKEN, assert_passes, broken, check, with_status};

/// Runs the checks, and returns the reason why `name` has failed.
fn failure(target: &str, arguments: &[&str], name: &str) -> String {
    let (status, report) = check(target, arguments);
    let broken = broken(&report);
    assert_eq!((status, &report["complies"]), (1, &Value::Bool(false)), "{broken}");
    assert!(with_status(&report, "failed").contains(&name), "{broken}");
    let found = report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name);
    found.unwrap()["reason"].as_str().unwrap().to_owned()
}

/// Asserts that a reason names nginx and a directive.
fn assert_names(reason: &str, directive: &str) {
    assert!(reason.contains("the proxy 'nginx"), "{reason}");
    assert!(reason.contains(directive), "{reason}");
}

/// Starts a server that requires the token, over plain HTTP.
fn start_with_token(directory: &tempfile::TempDir) -> ServeProcess {
    let keys = directory.path().join("keys");
    std::fs::write(&keys, api_key()).unwrap();
    let keys = keys.to_str().unwrap();
    ServeProcess::http(CORELANE, &[&SERVES[..], &["--auth-api-keys", keys]].concat())
}

#[test]
#[ignore = "needs nginx: tests/server/proxies/install.sh"]
fn documented_nginx_configuration_passes_every_check() {
    let server = ServeProcess::http(CORELANE, &SERVES);
    let nginx = Nginx::start(server.address, Location::documented(), None);
    let report = assert_passes(&nginx.target("http"), &arguments(&[]));
    assert!(report["passed"].as_u64().unwrap() >= 130, "{}", report["passed"]);
}

#[test]
#[ignore = "needs nginx: tests/server/proxies/install.sh"]
fn documented_nginx_configuration_passes_with_tls_and_token() {
    let directory = tempfile::tempdir().unwrap();
    let server = start_with_token(&directory);
    let issuer = Issuer::new();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, issuer.pem()).unwrap();
    let certificate = issuer.server_certificate_for("localhost");
    let nginx = Nginx::start(server.address, Location::documented(), Some(&certificate));
    let more = ["--ca-file", ca.to_str().unwrap(), "--token", TOKEN];
    let report = assert_passes(&nginx.target("https"), &arguments(&more));
    assert!(report["passed"].as_u64().unwrap() >= 130, "{}", report["passed"]);
}

#[test]
#[ignore = "needs nginx: tests/server/proxies/install.sh"]
fn buffering_nginx_is_named_by_prelude() {
    let server = ServeProcess::http(CORELANE, &SERVES);
    let start = |buffering: &str| {
        let location = Location::documented()
            .replace("proxy_http_version 1.1;", "proxy_http_version 1.0;")
            .replace("proxy_buffering off;", buffering);
        Nginx::start(server.address, location, None)
    };
    // nginx obeys `X-Accel-Buffering: no`.
    let obeying = start("proxy_buffering on;");
    assert_passes(&obeying.target("http"), &arguments(&["--only", "sse"]));
    let buffering = start("proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;");
    let arguments = ["--only", "sse", "--timeout-ms", "2000", "--jobs", "32"];
    let reason = failure(&buffering.target("http"), &arguments, "sse.prelude");
    assert_names(&reason, "`proxy_buffering off`");
    assert_names(&reason, "`proxy_http_version 1.1`");
}

#[test]
#[ignore = "needs nginx: tests/server/proxies/install.sh"]
fn nginx_without_authorization_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let server = start_with_token(&directory);
    let location =
        Location::documented().replace("Authorization $http_authorization", "Authorization \"\"");
    let nginx = Nginx::start(server.address, location, None);
    let with_token = |token| arguments(&["--only", "auth.accepted", "--token", token]);
    let reason = failure(&nginx.target("http"), &with_token(TOKEN), "auth.accepted");
    assert_names(&reason, "`proxy_set_header Authorization $http_authorization`");
    // A token that arrives and is invalid is no fault of a proxy.
    let forwarding = Nginx::start(server.address, Location::documented(), None);
    let reason = failure(&forwarding.target("http"), &with_token("other"), "auth.accepted");
    assert!(!reason.contains("nginx"), "{reason}");
}

#[test]
#[ignore = "needs nginx: tests/server/proxies/install.sh"]
fn nginx_without_session_header_is_named() {
    let server = ServeProcess::http(CORELANE, &SERVES);
    for (directive, value) in [("proxy_hide_header", ""), ("proxy_set_header", " \"\"")] {
        let dropping = format!("proxy_cache off; {directive} Mcp-Session-Id{value};");
        let location = Location::documented().replace("proxy_cache off;", &dropping);
        let nginx = Nginx::start(server.address, location, None);
        let target = nginx.target("http");
        let reason = failure(&target, &arguments(&[]), "http.session_header");
        assert_names(&reason, &format!("`{directive}`"));
        let (_, report) = check(&target, &arguments(&[]));
        assert_eq!(report["failed"], 1, "{}", broken(&report));
    }
}

#[test]
#[ignore = "needs nginx: tests/server/proxies/install.sh"]
fn nginx_with_smaller_body_limit_is_named() {
    let server = ServeProcess::http(CORELANE, &SERVES);
    let location =
        Location::documented().replace("client_max_body_size 0;", "client_max_body_size 1m;");
    let nginx = Nginx::start(server.address, location, None);
    let name = "failures.too_large_for_server";
    let reason = failure(&nginx.target("http"), &arguments(&[]), name);
    assert_names(&reason, "`client_max_body_size`");
}

#[test]
#[ignore = "needs nginx: tests/server/proxies/install.sh"]
fn nginx_read_timeout_below_keepalive_is_named() {
    let keepalive = ["--parity-sse-keepalive-secs", "30"];
    let server = ServeProcess::http(CORELANE, &[&SERVES[..6], &keepalive].concat());
    let location =
        Location::documented().replace("proxy_read_timeout 90s", "proxy_read_timeout 1s");
    let nginx = Nginx::start(server.address, location, None);
    let arguments = arguments(&["--slow", "--only", "keepalive.hint"]);
    let reason = failure(&nginx.target("http"), &arguments, "keepalive.hint");
    assert_names(&reason, "`proxy_read_timeout`");
}
