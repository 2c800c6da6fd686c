//! Proofs of the key of a token (DPoP, RFC 9449): what is accepted, and each refusal with its
//! status, header and body.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane::options::{AuthOptions, DpopMode};
use corelane_test_support::{TestServer, on_one_shard_and_two};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::authorization::http::{Response, modern_request, post, post_with, read, send};
use crate::authorization::http_server::{HttpServer, ok};
use crate::authorization::proof_key::{ProofKey, claims, fields, now};
use crate::authorization::{
    Authority, METADATA, RESOURCE, call, catalog, options, requirements, start,
};

/// The algorithms in challenges.
const ALGORITHMS: &str = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 EdDSA";

/// Why a bound token is refused without proof.
const DOWNGRADE: &str = "the token is bound to a key: send it with the scheme DPoP and a proof";

fn whoami(address: SocketAddr, fields: &str) -> Response {
    post_with(address, "/mcp", &call("whoami"), fields)
}

fn allowed(authority: &Authority) -> AuthOptions {
    let mut auth = authority.jwt_options();
    auth.dpop = DpopMode::Allowed;
    auth
}

#[track_caller]
fn expect_invalid_proof(refused: &Response, reason: &str) {
    let challenge = format!("DPoP error=\"invalid_dpop_proof\", algs=\"{ALGORITHMS}\"");
    refused.expect_refused(401, &challenge, "invalid_dpop_proof", reason);
}

#[track_caller]
fn expect_unproved(refused: &Response, reason: &str) {
    let challenge = format!(
        "DPoP error=\"invalid_token\", error_description=\"{reason}\", algs=\"{ALGORITHMS}\", {}",
        requirements()
    );
    refused.expect_refused(401, &challenge, "invalid_token", reason);
}

#[test]
fn bound_token_is_served_with_its_proof() {
    let authority = Authority::new();
    let server = start(allowed(&authority));
    let (address, key) = (server.http(), ProofKey::new());
    let token = key.token(&authority);
    for _ in 0..3 {
        assert_eq!(whoami(address, &fields(&token, &key.proof(&token))).text(), "ada (user)");
    }
    // Names and scheme in any case, and the path as it is requested.
    let proof = key.proof_with(&token, "htu", json!("https://MCP.test:443/mcp?x=1#y"));
    let lower = format!("authorization: dpop {token}\r\ndpop: {proof}\r\n");
    assert_eq!(whoami(address, &lower).text(), "ada (user)");
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut of_upgrade = claims(&token);
    of_upgrade["htm"] = json!("GET");
    of_upgrade["htu"] = json!("https://mcp.test/mcp/ws");
    let proof = key.sign(&key.header(), &of_upgrade);
    let sent = format!("{upgrade}{}", fields(&token, &proof));
    assert_eq!(send(address, "GET", "/mcp/ws", &sent).status, 101);
    // Other tokens are served as before.
    assert_eq!(
        post(address, &call("whoami"), Some(&authority.issuer.token("bob", ""))).status,
        200
    );
    server.close();
}

#[test]
fn proofs_of_one_caller_leave_room_to_others() {
    let authority = Authority::new();
    let mut auth = allowed(&authority);
    auth.dpop_proofs_max = 16;
    let server = start(auth);
    let (address, keys) = (server.http(), [ProofKey::new(), ProofKey::new()]);
    let (mut served, mut first) = (0, None);
    // With two keys the caller is one.
    for number in 0..16 {
        let key = &keys[number % 2];
        let token = key.token(&authority);
        let proof = key.proof(&token);
        let response = whoami(address, &fields(&token, &proof));
        match response.status {
            200 => served += 1,
            status => assert_eq!(status, 503, "{response:?}"),
        }
        first.get_or_insert((token, proof));
    }
    assert_eq!(served, 12);
    let other = ProofKey::new();
    let token = other.token_of("bob", &authority);
    for _ in 0..3 {
        assert_eq!(whoami(address, &fields(&token, &other.proof(&token))).status, 200);
    }
    // Nothing is forgotten for that.
    let (token, proof) = first.expect("a proof");
    assert_ne!(whoami(address, &fields(&token, &proof)).status, 200);
    server.close();
}

#[test]
fn each_invalid_claim_gets_401() {
    let authority = Authority::new();
    let server = start(allowed(&authority));
    let key = ProofKey::new();
    let token = key.token(&authority);
    let method = "the method of the proof (htm) is not that of the request";
    let url = "the URL of the proof (htu) is not that of the request";
    let other_hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest("other"));
    for (name, value, reason) in [
        ("htm", json!("GET"), method),
        ("htu", json!("https://mcp.test/other"), url),
        ("htu", json!(format!("http://{}/mcp", server.http())), url),
        ("ath", json!(other_hash), "the proof is for another token (ath)"),
        ("ath", Value::Null, "the proof has no ath"),
        ("iat", json!(now() - 330), "the proof is too old (iat)"),
        ("iat", json!(now() + 330), "the proof is issued in the future (iat)"),
        ("jti", Value::Null, "the proof has no jti"),
    ] {
        let proof = key.proof_with(&token, name, value);
        expect_invalid_proof(&whoami(server.http(), &fields(&token, &proof)), reason);
    }
    let counters = server.close();
    assert_eq!(counters.auth.invalid_proof, 8);
}

#[test]
fn each_invalid_header_gets_401() {
    let authority = Authority::new();
    let server = start(allowed(&authority));
    let (address, key) = (server.http(), ProofKey::new());
    let token = key.token(&authority);
    let with = |name: &str, value: Value| {
        let mut header = key.header();
        header[name] = value;
        key.sign(&header, &claims(&token))
    };
    let mut private = serde_json::to_value(&key.jwk).unwrap();
    private["d"] = json!("AAAA");
    let algorithm = "the algorithm of the proof is not accepted";
    for (proof, reason) in [
        (with("alg", json!("none")), algorithm),
        (with("alg", json!("HS256")), algorithm),
        (with("typ", json!("JWT")), "the type of the proof is not dpop+jwt"),
        (with("jwk", private), "the key of the proof is private"),
        (with("alg", json!("ES384")), "the signature of the proof is invalid"),
        (key.proof(&token) + "x", "the signature of the proof is invalid"),
        ("a.b.c".to_owned(), "the proof is malformed"),
        (String::new(), "the proof is malformed"),
        (format!("{}{}", key.proof(&token), "A".repeat(9_000)), "the proof is too long"),
    ] {
        expect_invalid_proof(&whoami(address, &fields(&token, &proof)), reason);
    }
    let proof = key.proof(&token);
    let twice = format!("{}DPoP: {proof}\r\n", fields(&token, &proof));
    expect_invalid_proof(&whoami(address, &twice), "the request has more than one proof");
    let without = format!("Authorization: DPoP {token}\r\n");
    let missing = "the request has no proof: the header field DPoP is missing";
    expect_invalid_proof(&whoami(address, &without), missing);
    // None of them has used the proof.
    assert_eq!(whoami(address, &fields(&token, &proof)).status, 200);
    server.close();
}

#[test]
fn token_and_proof_must_belong_together() {
    let authority = Authority::new();
    let server = start(allowed(&authority));
    let (address, key, other) = (server.http(), ProofKey::new(), ProofKey::new());
    let token = key.token(&authority);
    let mismatch = whoami(address, &fields(&token, &other.proof(&token)));
    expect_unproved(&mismatch, "the token is bound to another key than that of the proof");
    // Downgrade: without proof, and with one that the scheme does not announce.
    let bearer = format!("Authorization: Bearer {token}\r\n");
    expect_unproved(&whoami(address, &bearer), DOWNGRADE);
    let announced = format!("{bearer}DPoP: {}\r\n", key.proof(&token));
    expect_unproved(&whoami(address, &announced), DOWNGRADE);
    let plain = authority.issuer.token("ada", "");
    let upgraded = whoami(address, &fields(&plain, &key.proof(&plain)));
    expect_unproved(&upgraded, "the token is not bound to a key: send it with the scheme Bearer");
    server.close();
}

#[test]
fn bearer_does_not_follow_proof_on_connection() {
    let authority = Authority::new();
    let server = start(allowed(&authority));
    let (address, key) = (server.http(), ProofKey::new());
    let token = key.token(&authority);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut exchange = |fields: &str| {
        let request = modern_request(address, "/mcp", &call("whoami"), fields);
        stream.write_all(request.as_bytes()).unwrap();
        read(&mut stream)
    };
    let proof = key.proof(&token);
    assert_eq!(exchange(&fields(&token, &proof)).status, 200);
    expect_unproved(&exchange(&format!("Authorization: Bearer {token}\r\n")), DOWNGRADE);
    expect_invalid_proof(&exchange(&fields(&token, &proof)), "the proof was used before (jti)");
    assert_eq!(exchange(&fields(&token, &key.proof(&token))).status, 200);
    server.close();
}

#[test]
fn replayed_proof_is_refused_on_every_shard() {
    on_one_shard_and_two(|mut options| {
        let authority = Authority::new();
        options.auth = allowed(&authority);
        let server = TestServer::with_catalog(options, catalog());
        let key = ProofKey::new();
        let token = key.token(&authority);
        for _ in 0..4 {
            let proof = fields(&token, &key.proof(&token));
            assert_eq!(whoami(server.address(), &proof).text(), "ada (user)");
            // Enough connections to reach each shard.
            for _ in 0..16 {
                let replayed = whoami(server.address(), &proof);
                expect_invalid_proof(&replayed, "the proof was used before (jti)");
            }
        }
        // The same `jti` of another key is another proof.
        let other = ProofKey::new();
        let other_token = other.token(&authority);
        for (key, token) in [(&key, &token), (&other, &other_token)] {
            let proof = key.proof_with(token, "jti", json!("1"));
            assert_eq!(whoami(server.address(), &fields(token, &proof)).status, 200);
        }
        server.close();
    });
}

#[test]
fn proof_of_slow_body_is_used_once() {
    let authority = Authority::new();
    let server = start(allowed(&authority));
    let (address, key) = (server.http(), ProofKey::new());
    let token = key.token(&authority);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let proof = format!("{}Expect: 100-continue\r\n", fields(&token, &key.proof(&token)));
    let request = modern_request(address, "/mcp", &call("whoami"), &proof);
    let (head, body) = request.split_at(request.find("\r\n\r\n").unwrap() + 4);
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read(&mut stream).status, 100);
    // The proof is checked with the head: another connection cannot use it meanwhile.
    let replayed = whoami(address, &proof.replace("Expect: 100-continue\r\n", ""));
    expect_invalid_proof(&replayed, "the proof was used before (jti)");
    stream.write_all(body.as_bytes()).unwrap();
    assert_eq!(read(&mut stream).text(), "ada (user)");
    stream.write_all(head.as_bytes()).unwrap();
    expect_invalid_proof(&read(&mut stream), "the proof was used before (jti)");
    server.close();
}

#[test]
fn proofs_beyond_those_of_a_turn_wait() {
    let authority = Authority::new();
    let mut auth = allowed(&authority);
    auth.checks_per_turn_max = 1;
    let mut options = options(auth);
    options.engine.shards = Some(1);
    let server = TestServer::with_catalog(options, catalog());
    let (address, key) = (server.http(), ProofKey::new());
    let token = key.token(&authority);
    // The token takes the check of the first turn, and the proof waits, too.
    let mut streams: Vec<_> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut streams {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let requests = [(); 8].map(|()| {
            let proof = fields(&token, &key.proof(&token));
            modern_request(address, "/mcp", &call("whoami"), &proof)
        });
        stream.write_all(requests.concat().as_bytes()).unwrap();
    }
    for stream in &mut streams {
        for _ in 0..8 {
            assert_eq!(read(stream).text(), "ada (user)");
        }
    }
    assert_eq!(server.close().auth.unavailable, 0);
}

#[test]
fn many_proofs_at_once_are_each_verified() {
    on_one_shard_and_two(|mut options| {
        let authority = Authority::new();
        options.auth = allowed(&authority);
        let server = TestServer::with_catalog(options, catalog());
        let (address, key) = (server.address(), ProofKey::new());
        let token = key.token(&authority);
        // More than a shard verifies itself; the last one of each connection is changed.
        let requests = |_| -> Vec<String> {
            let proofs = (0..8).map(|number| {
                let proof = key.proof(&token);
                let (signed, signature) = proof.rsplit_once('.').expect("a signature");
                let other = if signature.starts_with('A') { "B" } else { "A" };
                let changed = format!("{signed}.{other}{}", &signature[1..]);
                fields(&token, if number == 7 { &changed } else { &proof })
            });
            proofs.map(|proof| modern_request(address, "/mcp", &call("whoami"), &proof)).collect()
        };
        let all: Vec<Vec<String>> = (0..16).map(requests).collect();
        let mut streams: Vec<TcpStream> = Vec::new();
        for requests in &all {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
            stream.write_all(requests.concat().as_bytes()).unwrap();
            streams.push(stream);
        }
        for stream in &mut streams {
            for _ in 0..7 {
                assert_eq!(read(stream).text(), "ada (user)");
            }
            expect_invalid_proof(&read(stream), "the signature of the proof is invalid");
        }
        // What threads have verified is used once, too.
        for (stream, requests) in streams.iter_mut().zip(&all) {
            stream.write_all(requests[3].as_bytes()).unwrap();
            expect_invalid_proof(&read(stream), "the proof was used before (jti)");
        }
        drop(streams);
        assert_eq!(server.close().auth.unavailable, 0);
    });
}

#[test]
fn nonce_is_demanded_and_accepted() {
    on_one_shard_and_two(|mut options| {
        let authority = Authority::new();
        options.auth = allowed(&authority);
        options.auth.dpop_nonce = true;
        let server = TestServer::with_catalog(options, catalog());
        let (address, key) = (server.address(), ProofKey::new());
        let token = key.token(&authority);
        let challenge = "DPoP error=\"use_dpop_nonce\"";
        let missing = whoami(address, &fields(&token, &key.proof(&token)));
        let reason = "the proof needs a nonce of this server";
        missing.expect_refused(401, challenge, "use_dpop_nonce", reason);
        let nonce = missing.field("DPoP-Nonce").expect("a nonce").to_owned();
        for wrong in ["", "x", &nonce[1..], &format!("{nonce}A")] {
            let proof = key.proof_with(&token, "nonce", json!(wrong));
            let refused = whoami(address, &fields(&token, &proof));
            let reason = "the nonce of the proof is not a current one";
            refused.expect_refused(401, challenge, "use_dpop_nonce", reason);
            assert!(refused.field("DPoP-Nonce").is_some());
        }
        // Any shard knows it.
        for _ in 0..16 {
            let proof = key.proof_with(&token, "nonce", json!(nonce));
            assert_eq!(whoami(address, &fields(&token, &proof)).text(), "ada (user)");
        }
        assert_eq!(server.close().auth.missing_nonce, 5);
    });
}

#[test]
fn proof_of_a_megabyte_is_refused() {
    let authority = Authority::new();
    let server = start(allowed(&authority));
    let key = ProofKey::new();
    let token = key.token(&authority);
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {}\r\n", server.http());
    let proof = fields(&token, &"a".repeat(1 << 20));
    // The response may come before all is sent.
    stream.write_all(format!("{head}{proof}\r\n").as_bytes()).ok();
    let refused = read(&mut stream);
    let error = json!({"code": -32600, "message": "the head is too large"});
    refused.expect_error(431, "", None, &error);
    server.close();
}

#[test]
fn required_proofs_exclude_other_tokens() {
    let authority = Authority::new();
    let mut auth = authority.jwt_options();
    auth.api_keys = authority.key_options().api_keys;
    auth.dpop = DpopMode::Required;
    let server = start(auth);
    let (address, key) = (server.http(), ProofKey::new());
    let missing = post(address, &call("whoami"), None);
    let challenge = format!("DPoP algs=\"{ALGORITHMS}\", {}", requirements());
    missing.expect_missing_token(&challenge);
    let plain = post(address, &call("whoami"), Some(&authority.issuer.token("ada", "")));
    expect_unproved(
        &plain,
        "the token is not bound to a key, which this server requires (cnf, jkt)",
    );
    let token = key.token(&authority);
    assert_eq!(whoami(address, &fields(&token, &key.proof(&token))).status, 200);
    // API keys are of no authorization server.
    assert_eq!(post(address, &call("whoami"), Some("key-bob")).text(), "bob (user)");
    let place = "/.well-known/oauth-protected-resource";
    let document = send(address, "GET", place, "").json();
    let algorithms: Vec<&str> = ALGORITHMS.split(' ').collect();
    assert_eq!(document["dpop_signing_alg_values_supported"], json!(algorithms));
    assert_eq!(document["dpop_bound_access_tokens_required"], true);
    server.close();
}

#[test]
fn missing_scope_has_challenge_of_dpop() {
    let authority = Authority::new();
    let mut auth = allowed(&authority);
    auth.rules = vec!["tools/call whoami scope=other".to_owned()];
    let server = start(auth);
    let key = ProofKey::new();
    let token = key.token(&authority);
    let refused = whoami(server.http(), &fields(&token, &key.proof(&token)));
    let expected = format!(
        "DPoP error=\"insufficient_scope\", scope=\"other\", resource_metadata=\"{METADATA}\", \
         error_description=\"the scope other is missing\", algs=\"{ALGORITHMS}\""
    );
    let data = json!({"retryable": false, "requiredScopes": ["other"]});
    let error = json!({"code": -32011, "message": "the scope other is missing", "data": data});
    refused.expect_error(403, &expected, Some(1), &error);
    server.close();
}

#[test]
fn server_without_dpop_refuses_bound_tokens() {
    let authority = Authority::new();
    let server = start(authority.jwt_options());
    let (address, key) = (server.http(), ProofKey::new());
    let token = key.token(&authority);
    let missing = whoami(address, &fields(&token, &key.proof(&token)));
    let challenge = format!("Bearer {}", requirements());
    missing.expect_missing_token(&challenge);
    let refused = post(address, &call("whoami"), Some(&token));
    let reason = "the token is bound to a key, and this server verifies no such proofs";
    refused.expect_invalid_token(reason);
    server.close();
}

#[test]
fn tcp_connection_cannot_use_bound_tokens() {
    let authority = Authority::new();
    let server = start(allowed(&authority));
    let mut client = server.connect_tcp();
    let mut message = corelane_test_support::messages::modern(call("whoami"));
    message["params"]["_meta"]["auth_token"] = json!(ProofKey::new().token(&authority));
    let refused = client.exchange(&message);
    assert_eq!(refused["error"]["code"], -32010, "{refused}");
    let reason = "the token is bound to a key, whose proofs only HTTP and WebSocket carry";
    assert_eq!(refused["error"]["message"], reason);
    client.expect_end_or_reset();
    server.close();
}

#[test]
fn introspected_token_needs_its_proof() {
    let authority = Authority::new();
    let key = ProofKey::new();
    let answer = json!({
        "active": true, "sub": "ada", "aud": RESOURCE, "token_type": "DPoP",
        "cnf": {"jkt": key.thumbprint()},
    });
    let introspection = HttpServer::start(ok(&answer));
    let mut auth = AuthOptions::default();
    auth.resource = Some(RESOURCE.to_owned());
    auth.issuers = vec![authority.issuer.name().to_owned()];
    auth.introspection = Some(introspection.url("/introspect"));
    auth.challenge_scopes = vec!["tools:read".to_owned()];
    auth.dpop = DpopMode::Required;
    let server = TestServer::with_catalog(options(auth), catalog());
    let proof = fields("opaque-1", &key.proof("opaque-1"));
    // The request waits for the answer, and its proof is used then.
    assert_eq!(whoami(server.http(), &proof).text(), "ada (user)");
    expect_invalid_proof(&whoami(server.http(), &proof), "the proof was used before (jti)");
    let bearer = whoami(server.http(), "Authorization: Bearer opaque-1\r\n");
    expect_unproved(&bearer, DOWNGRADE);
    server.close();
}

#[test]
fn unusable_dpop_options_do_not_start() {
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.dpop = DpopMode::Allowed;
    let error = TestServer::try_start(options(auth)).err().map(|error| error.to_string());
    assert!(error.unwrap().contains("auth.dpop needs auth.resource"));
    let mut auth = AuthOptions::default();
    auth.dpop = DpopMode::Required;
    let error = TestServer::try_start(options(auth)).err().map(|error| error.to_string());
    assert!(error.unwrap().contains("auth.dpop is set, and no token can be verified"));
}
