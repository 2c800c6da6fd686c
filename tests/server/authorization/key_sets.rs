//! Key sets that are fetched: rotation, and servers that are away.

use std::thread;

use corelane_test_support::TestServer;
use corelane_test_support::tls::{Issuer, Terminator, TlsFault};
use serde_json::json;

use crate::authorization::http::{Response, post};
use crate::authorization::http_server::{HttpServer, Reply, ok, status};
use crate::authorization::{Authority, TestIssuer, call, catalog, options};

fn key_set(issuer: &TestIssuer) -> Reply {
    ok(&issuer.key_set())
}

fn start(authority: &Authority, keys: &HttpServer) -> TestServer {
    let mut auth = authority.jwt_options();
    auth.key_sets = vec![keys.url("/keys")];
    TestServer::with_catalog(options(auth), catalog())
}

/// Repeats a call while the keys are on their way.
fn post_until_known(server: &TestServer, token: &str) -> Response {
    loop {
        let response = post(server.http(), &call("whoami"), Some(token));
        if response.status != 503 {
            return response;
        }
        response.expect_unavailable(NO_KEYS);
    }
}

/// Why a token cannot be verified without keys.
const NO_KEYS: &str = "the keys of the issuer are not known yet";

#[test]
fn fetched_keys_verify_tokens() {
    let authority = Authority::new();
    let keys = HttpServer::start(key_set(&authority.issuer));
    let server = start(&authority, &keys);
    let response = post_until_known(&server, &authority.issuer.token("ada", ""));
    assert_eq!(response.text(), "ada (user)");
    // The key of another issuer's set is unknown: it is refused at once, and asked for once.
    let foreign = TestIssuer::with_key("key-9").token("ada", "");
    let reason = "the issuer has no key with the id of the token";
    for _ in 0..20 {
        post(server.http(), &call("whoami"), Some(&foreign)).expect_invalid_token(reason);
    }
    assert!(keys.count() <= 2, "{}", keys.count());
    server.close();
}

#[test]
fn rotated_key_is_fetched_at_first_use() {
    let authority = Authority::new();
    let keys = HttpServer::start(key_set(&authority.issuer));
    let server = start(&authority, &keys);
    post_until_known(&server, &authority.issuer.token("ada", ""));
    let next = TestIssuer::with_key("key-2");
    keys.set(key_set(&next));
    // The set is fresh: a token gets 401 until the set is fetched again.
    let token = next.token("ada", "");
    let response = loop {
        let response = post(server.http(), &call("whoami"), Some(&token));
        if response.status != 401 {
            break response;
        }
    };
    assert_eq!(response.text(), "ada (user)");
    server.close();
}

#[test]
fn key_server_that_is_away_gives_503() {
    let authority = Authority::new();
    // A redirect is not followed, although its target has the keys.
    let target = HttpServer::start(key_set(&authority.issuer));
    let location = format!("Location: {}\r\n", target.url("/keys"));
    let huge = "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n{\"keys\":[";
    let replies = [
        ("error", status("500 Internal Server Error", "")),
        ("found", status("302 Found", &location)),
        ("redirect", status("308 Permanent Redirect", &location)),
        ("empty", ok(&json!({"keys": []}))),
        ("text", Reply::Text("not HTTP\r\n\r\n".to_owned())),
        ("huge", Reply::Text(huge.to_owned())),
        ("endless", Reply::Endless),
        ("nothing", Reply::Nothing),
    ];
    for (what, reply) in replies {
        let keys = HttpServer::start(reply);
        let server = start(&authority, &keys);
        assert!(keys.next_request().starts_with("GET /keys HTTP/1.1\r\n"));
        let token = authority.issuer.token("ada", "");
        // Shown for a failed test.
        eprintln!("keys: {what}");
        post(server.http(), &call("whoami"), Some(&token)).expect_unavailable(NO_KEYS);
        server.close();
    }
    assert_eq!(target.count(), 0);
}

#[test]
fn https_key_server_needs_listed_authority() {
    let authority = Authority::new();
    let keys = HttpServer::start(key_set(&authority.issuer));
    let issuer = Issuer::new();
    let terminator = Terminator::start(keys.address, issuer.good_server(), TlsFault::NoFault);
    let mut auth = authority.jwt_options();
    auth.key_sets = vec![format!("https://localhost:{}/keys", terminator.port())];
    let token = authority.issuer.token("ada", "");
    // The authorities of the system, and another one, have not issued the certificate.
    let other = authority.write("other.pem", &Issuer::named("other").pem());
    for authorities in [Vec::new(), vec![other.into()]] {
        auth.server_authorities = authorities;
        let server = TestServer::with_catalog(options(auth.clone()), catalog());
        for _ in 0..20 {
            post(server.http(), &call("whoami"), Some(&token)).expect_unavailable(NO_KEYS);
            thread::yield_now();
        }
        server.close();
    }
    assert_eq!(keys.count(), 0);
    auth.server_authorities = vec![authority.write("ca.pem", &issuer.pem()).into()];
    let server = TestServer::with_catalog(options(auth.clone()), catalog());
    assert_eq!(post_until_known(&server, &token).text(), "ada (user)");
    server.close();
    auth.server_authorities = vec![authority.write("broken.pem", "x").into()];
    let error = TestServer::try_start(options(auth)).err().map(|error| error.to_string());
    assert!(error.unwrap().contains("auth.server_authorities"));
}
