//! Tokens of handshakes and requests.

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::model::Implementation;
use corelane::{CallToolResult, Catalog, NoArguments, RequestContext, Server, Tool};
use corelane_test_support::TestServer;
use serde_json::{Map, json};

use crate::client::{ParityClient, call, handshake, request};
use crate::http::Exchange;
use crate::options;

/// Knows the token `token-NAME` of each name; one that ends with `+mfa` proves two factors.
struct Names;

impl TokenVerifier for Names {
    fn verify(&self, token: &str, _: u64) -> Result<Principal, TokenError> {
        let name = token.strip_prefix("token-").ok_or(TokenError::Unknown)?;
        let methods = if name.ends_with("+mfa") { json!(["pwd", "mfa"]) } else { json!(["pwd"]) };
        let claims = Map::from_iter([("amr".to_owned(), methods)]);
        Ok(Principal::new(name.trim_end_matches("+mfa")).with_claims(&claims))
    }
}

fn start() -> TestServer {
    start_on(1)
}

/// Starts a server with this number of shards.
fn start_on(shards: u16) -> TestServer {
    start_with(shards, &[])
}

/// Starts a server with this number of shards and these access rules.
fn start_with(shards: u16, rules: &[&str]) -> TestServer {
    let whoami = Tool::new("whoami").local(|_: NoArguments, ctx: RequestContext| async move {
        let name = ctx.principal().map(|principal| principal.id().to_owned());
        Ok(CallToolResult::text(name.unwrap_or_default()))
    });
    let secret =
        Tool::new("secret").require_scope("admin").inline_writer(|_: NoArguments, result, _| {
            result.text("secret");
            Ok(())
        });
    let catalog =
        Catalog::builder(Implementation::new("test", "1")).tools([whoami, secret]).build();
    let catalog = catalog.expect("valid");
    let mut options = options();
    options.engine.shards = Some(shards);
    options.auth.rules = rules.iter().map(ToString::to_string).collect();
    TestServer::with_server(|_| Server::builder(catalog).options(options).token_verifier(Names))
}

#[test]
fn handshake_needs_a_valid_token() {
    let server = start();
    for token in [None, Some("other")] {
        let mut client = ParityClient::connect(&server);
        let mut handshake = handshake();
        if let Some(token) = token {
            handshake["auth_token"] = json!(token);
        }
        let error = client.expect_error(&handshake, "error", "error.auth.unauthorized");
        assert_eq!(error["retryable"], false);
        assert_eq!(client.receive_or_end(), None);
    }
    server.close();
}

#[test]
fn token_of_handshake_names_the_caller() {
    let server = start();
    let mut client = ParityClient::connect(&server);
    let mut handshake = handshake();
    handshake["auth_token"] = json!("token-ada");
    let ack = client.exchange(&handshake);
    assert_eq!(ack["type"], "handshakeAck", "{ack}");
    let whoami = call(1, "whoami", json!({}));
    assert_eq!(client.result(&whoami)["content"][0]["text"], "ada");
    let error =
        client.expect_error(&call(2, "secret", json!({})), "response", "error.auth.forbidden");
    assert_eq!(error["retryable"], false);
    // A request may bring another token.
    let mut other = call(3, "whoami", json!({}));
    other["auth_token"] = json!("token-bob");
    assert_eq!(client.result(&other)["content"][0]["text"], "bob");
    let mut invalid = request(4, "ping");
    invalid["auth_token"] = json!("other");
    client.expect_error(&invalid, "response", "error.auth.unauthorized");
    assert_eq!(client.receive_or_end(), None);
    server.close();
}

#[test]
fn pending_second_factor_is_retryable() {
    let server = start_with(1, &["tools/call whoami mfa"]);
    let mut client = ParityClient::connect(&server);
    let mut handshake = handshake();
    handshake["auth_token"] = json!("token-ada");
    client.exchange(&handshake);
    let mut whoami = call(1, "whoami", json!({}));
    let error = client.expect_error(&whoami, "response", "error.auth.forbidden");
    assert_eq!(error["retryable"], true);
    assert_eq!(error["details"]["mfaRequired"], true, "{error}");
    // A scope is missing, too: no second factor helps.
    let error =
        client.expect_error(&call(2, "secret", json!({})), "response", "error.auth.forbidden");
    assert_eq!(
        (&error["retryable"], &error["details"]["mfaRequired"]),
        (&json!(false), &json!(null))
    );
    whoami["auth_token"] = json!("token-ada+mfa");
    assert_eq!(client.result(&whoami)["content"][0]["text"], "ada");
    drop(client);
    server.close();
}

#[test]
fn resume_token_belongs_to_its_caller() {
    let server = start_on(2);
    let mut client = ParityClient::connect(&server);
    let mut handshake = handshake();
    handshake["auth_token"] = json!("token-ada");
    let mut ack = client.exchange(&handshake);
    for _ in 0..8 {
        drop(client);
        handshake["resumeToken"] = ack["resumeToken"].clone();
        let mut thief = handshake.clone();
        thief["auth_token"] = json!("token-bob");
        client = ParityClient::connect(&server);
        client.expect_error(&thief, "error", "error.auth.unauthorized");
        assert_eq!(client.receive_or_end(), None);
        client = ParityClient::connect(&server);
        ack = client.exchange(&handshake);
        assert_eq!(ack["resumed"], true, "{ack}");
        let whoami = call(1, "whoami", json!({}));
        assert_eq!(client.result(&whoami)["content"][0]["text"], "ada");
    }
    drop(client);
    server.close();
}

#[test]
fn event_id_belongs_to_its_caller() {
    let server = start_on(2);
    let path = "/parity/events?protocolVersion=1.0&capabilities=tools,resume";
    let connect = |name: &str, last_event: &str| {
        let fields = format!("Authorization: Bearer token-{name}\r\n{last_event}");
        let mut events = Exchange::start(&server, "GET", path, &fields, "");
        events.next_event().expect("a prelude")
    };
    let prelude = connect("ada", "");
    let last_event = format!("Last-Event-ID: {}\r\n", prelude.id.expect("an id"));
    let stolen = connect("bob", &last_event).data;
    assert_eq!((&stolen["resumed"], &stolen["reason"]), (&json!(false), &json!("expired")));
    assert_ne!(stolen["sessionId"], prelude.data["sessionId"]);
    assert_eq!(connect("ada", &last_event).data["resumed"], true);
    server.close();
}
