//! What every protected MCP server must do, by its URL and tokens only.
//!
//! Source: MCP 2026-07-28 and 2025-11-25, basic/authorization; RFC 6750; RFC 9728.

use std::env;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane_engine::clock::unix_ms;
use corelane_test_support::TestServer;
use corelane_test_support::tls::{CertificateValidity, Issuer};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use crate::authorization::http::{Response, post, post_with, read, send};
use crate::authorization::target::Target;
use crate::authorization::{
    Authority, RESOURCE, TestIssuer, catalog, options, requirements, start,
};

/// The target of the environment.
#[expect(clippy::disallowed_methods, reason = "the target is chosen outside the test")]
fn target_of_environment() -> Option<Target> {
    let text = fs::read_to_string(env::var("AUTHORIZATION_TARGET").ok()?).expect("a file");
    Some(Target::new(serde_json::from_str(&text).expect("JSON")))
}

/// Tokens for a server of these tests.
fn tokens(issuer: &TestIssuer) -> Value {
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims("ada", "");
        claims[name] = value;
        issuer.sign(&claims)
    };
    json!({
        "resource": RESOURCE,
        "valid": issuer.token("ada", ""),
        "expired": with("exp", json!(1_000)),
        "other_audience": with("aud", json!("https://other.test/mcp")),
        "bad_signature": TestIssuer::new().token("ada", ""),
    })
}

/// Runs every scenario.
fn run(target: &Target) {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let post_token = |token: &str| {
        target.post(target.path(), &list, &format!("Authorization: Bearer {token}\r\n"))
    };
    // A valid token.
    assert_eq!(post_token(target.text("valid")).status, 200);
    // No token: the challenge has no error code (RFC 6750, section 3.1).
    let refused = target.post(target.path(), &list, "");
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(refused.challenge().starts_with("Bearer "), "{refused:?}");
    assert!(!refused.challenge().contains("error="), "{refused:?}");
    assert!(refused.challenge().contains("resource_metadata=\""), "{refused:?}");
    // Tokens that are not valid.
    for name in ["expired", "other_audience", "bad_signature"] {
        let refused = post_token(target.text(name));
        assert_eq!(refused.status, 401, "{name}: {refused:?}");
        assert!(refused.challenge().contains("error=\"invalid_token\""), "{name}: {refused:?}");
    }
    // A token in the query is never accepted (MCP, "Token Requirements").
    let queried = format!("{}?access_token={}", target.path(), target.text("valid"));
    let refused = target.post(&queried, &list, "");
    assert!(matches!(refused.status, 400 | 401), "{refused:?}");
    // The metadata, at both places.
    let well_known = "/.well-known/oauth-protected-resource";
    for place in [well_known.to_owned(), format!("{well_known}{}", target.path())] {
        let metadata = target.get(&place);
        assert_eq!(metadata.status, 200, "{place}: {metadata:?}");
        let document = metadata.json();
        assert_eq!(document["resource"], *target.text("resource"), "{document}");
        let servers = document["authorization_servers"].as_array().expect("servers");
        assert!(!servers.is_empty(), "{document}");
        let scopes = document["scopes_supported"].to_string();
        assert!(!scopes.contains("offline_access"), "{document}");
    }
}

#[test]
fn scenarios_hold_for_target() {
    if let Some(target) = target_of_environment() {
        return run(&target);
    }
    let authority = Authority::new();
    let server = start(authority.jwt_options());
    let mut description = tokens(&authority.issuer);
    description["url"] = json!(format!("http://{}/mcp", server.http()));
    run(&Target::new(description));
    server.close();
}

#[test]
fn scenarios_hold_over_tls() {
    let (authority, tls) = (Authority::new(), Issuer::new());
    let certificate = tls.server_certificate(CertificateValidity::Valid);
    let mut options = options(authority.jwt_options());
    options.tls.certificates = vec![authority.write("server.pem", &certificate.pem()).into()];
    options.tls.keys = vec![authority.write("server.key", &certificate.key_pem()).into()];
    let server = TestServer::with_catalog(options, catalog());
    let mut description = tokens(&authority.issuer);
    description["url"] = json!(format!("https://localhost:{}/mcp", server.http().port()));
    description["ca"] = json!(authority.write("ca.pem", &tls.pem()));
    run(&Target::new(description));
    server.close();
}

#[test]
fn each_refusal_has_its_exact_challenge() {
    let authority = Authority::new();
    let server = start(authority.jwt_options());
    let (address, issuer) = (server.http(), &authority.issuer);
    let message = crate::authorization::call("whoami");
    let challenge = format!("Bearer {}", requirements());
    post(address, &message, None).expect_missing_token(&challenge);
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims("ada", "");
        claims[name] = value;
        issuer.sign(&claims)
    };
    let valid = issuer.token("ada", "");
    let cases = [
        ("a,b".to_owned(), "the token is malformed"),
        ("abc".to_owned(), "the token is unknown"),
        ("a.b.c".to_owned(), "the token is malformed"),
        (with("exp", json!(1_000)), "the token has expired"),
        (with("nbf", json!(u32::MAX)), "the token is not valid yet"),
        (with("aud", json!("https://other.test")), "the audience of the token is not this server"),
        (with("aud", Value::Null), "the audience of the token is not this server"),
        (with("aud", json!([])), "the audience of the token is not this server"),
        (
            with("aud", json!(["https://other.test", format!("{RESOURCE}/")])),
            "the audience of the token is not this server",
        ),
        (with("iss", json!("https://evil.test")), "the issuer of the token is not accepted"),
        (TestIssuer::new().token("ada", ""), "the signature of the token is invalid"),
        (
            TestIssuer::with_key("key-2").token("ada", ""),
            "the issuer has no key with the id of the token",
        ),
        (format!("{valid}x"), "the signature of the token is invalid"),
    ];
    for (token, reason) in cases {
        post(address, &message, Some(&token)).expect_invalid_token(reason);
    }
    // The resource may be one of several audiences.
    for audiences in [json!([RESOURCE]), json!(["https://other.test", RESOURCE])] {
        assert_eq!(post(address, &message, Some(&with("aud", audiences))).text(), "ada (user)");
    }
    let counters = server.close();
    assert_eq!((counters.auth.missing_token, counters.auth.invalid_token), (1, 13));
}

#[test]
fn two_credentials_of_one_request_get_400() {
    let authority = Authority::new();
    let mut auth = authority.jwt_options();
    auth.query_token = true;
    let server = start(auth);
    let address = server.http();
    let token = authority.issuer.token("ada", "");
    let field = format!("Authorization: Bearer {token}\r\n");
    let challenge = "Bearer error=\"invalid_request\"";
    let message = crate::authorization::call("whoami");
    let twice = post_with(address, "/mcp", &message, &format!("{field}{field}"));
    let repeated = json!({"code": -32600, "message": "the header field Authorization is repeated"});
    twice.expect_error(400, challenge, None, &repeated);
    let expect_invalid = |refused: &Response, reason| {
        refused.expect_refused(400, challenge, "invalid_request", reason);
    };
    let queried = post_with(address, "/mcp?access_token=x", &message, &field);
    expect_invalid(&queried, "tokens in the query are not accepted");
    let both = send(address, "GET", &format!("/mcp/ws?token={token}"), &field);
    expect_invalid(&both, "the request has a token in the header and in the query");
    server.close();
}

#[test]
fn metadata_is_public_and_cached() {
    let authority = Authority::new();
    let server = start(authority.jwt_options());
    let place = "/.well-known/oauth-protected-resource/mcp";
    let metadata = send(server.http(), "GET", place, "Origin: https://app.test\r\n");
    assert_eq!(metadata.status, 200);
    assert_eq!(metadata.field("Access-Control-Allow-Origin"), Some("*"));
    assert_eq!(metadata.field("Cache-Control"), Some("public, max-age=3600"));
    assert_eq!(metadata.field("Content-Type"), Some("application/json"));
    let expected = json!({
        "resource": RESOURCE,
        "authorization_servers": ["https://as.test"],
        "scopes_supported": ["tools:call"],
        "bearer_methods_supported": ["header"],
    });
    assert_eq!(metadata.json(), expected);
    let error = json!({"code": -32600, "message": "method not allowed: see the Allow header"});
    send(server.http(), "POST", place, "").expect_error(405, "", None, &error);
    let other = send(server.http(), "GET", "/.well-known/oauth-protected-resource/x", "");
    let error = json!({"code": -32600, "message": "not found: the MCP endpoint is /mcp"});
    other.expect_error(404, "", None, &error);
    server.close();
}

#[test]
fn tricks_of_the_header_get_401() {
    let authority = Authority::new();
    let server = start(authority.jwt_options());
    let issuer = &authority.issuer;
    let claims = issuer.claims("ada", "");
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let unsigned = |header: Value| format!("{}.{}.", encode(&header), encode(&claims));
    let with_kid = |kid: &str| {
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::ES256) };
        issuer.sign_with(&header, &claims)
    };
    let of_symmetric = |secret: &str| {
        let key = EncodingKey::from_secret(secret.as_bytes());
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap()
    };
    let algorithm = "the algorithm of the token is not accepted";
    let no_key = "the issuer has no key with the id of the token";
    let cases = [
        (unsigned(json!({"alg": "none"})), algorithm),
        (unsigned(json!({"alg": "nOnE", "kid": "key-1"})), algorithm),
        (of_symmetric(&issuer.key_set().to_string()), algorithm),
        (of_symmetric(&issuer.key_set()["keys"][0].to_string()), algorithm),
        (with_kid("../../../../etc/passwd"), no_key),
        (with_kid("file:///dev/null"), no_key),
        (with_kid("key-1' OR '1'='1"), no_key),
        (with_kid("key-1\0"), no_key),
        (with_kid(""), no_key),
        (with_kid("KEY-1"), no_key),
    ];
    for (token, reason) in cases {
        post(server.http(), &crate::authorization::call("whoami"), Some(&token))
            .expect_invalid_token(reason);
    }
    assert_eq!(
        post(server.http(), &crate::authorization::call("whoami"), Some(&with_kid("key-1"))).status,
        200
    );
    server.close();
}

#[test]
fn expiry_has_the_leeway_of_the_options() {
    let authority = Authority::new();
    let mut auth = authority.jwt_options();
    // Far from the edge, as the clock of the server runs on.
    auth.leeway = Duration::from_mins(5);
    let server = start(auth);
    let now = unix_ms() / 1_000;
    let with = |name: &str, value: u64| {
        let mut claims = authority.issuer.claims("ada", "");
        claims[name] = json!(value);
        let token = authority.issuer.sign(&claims);
        post(server.http(), &crate::authorization::call("whoami"), Some(&token))
    };
    for (name, at, late, reason) in [
        ("exp", now - 240, now - 300, "the token has expired"),
        ("nbf", now + 240, now + 400, "the token is not valid yet"),
        ("iat", now + 240, now + 400, "the token is issued in the future"),
    ] {
        assert_eq!(with(name, at).text(), "ada (user)", "{name}");
        with(name, late).expect_invalid_token(reason);
    }
    server.close();
}

#[test]
fn token_of_a_megabyte_is_refused() {
    let authority = Authority::new();
    let server = start(authority.jwt_options());
    let token = "a".repeat(1 << 20);
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {}\r\n", server.http());
    // The response may come before all is sent.
    let request = format!("{head}Authorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok();
    let refused = read(&mut stream);
    let error = json!({"code": -32600, "message": "the head is too large"});
    refused.expect_error(431, "", None, &error);
    let mut client = server.connect_tcp();
    let mut message = corelane_test_support::messages::modern(crate::authorization::call("whoami"));
    message["params"]["_meta"]["auth_token"] = json!(token[..60_000]);
    let refused = client.exchange(&message);
    assert_eq!(refused["error"]["code"], -32010, "{refused}");
    assert_eq!(refused["error"]["message"], "the token is too long");
    client.expect_end_or_reset();
    server.close();
}
