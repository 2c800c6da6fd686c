//! Tokens of handshakes and requests.

use std::any::Any;
use std::time::Duration;

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::model::Implementation;
use corelane::options::ParityMode;
use corelane::{CallToolResult, Catalog, NoArguments, Options, RequestContext, Server, Tool};
use corelane_test_support::messages::initialize;
use corelane_test_support::websocket::{WebSocketClient, text_frame, upgrade_request};
use corelane_test_support::{TestServer, sockets};
use serde_json::{Map, Value, json};

use crate::client::{ParityClient, call, handshake, request, resuming};
use crate::http::Exchange;
use crate::options;

/// Knows the token `token-NAME` of each name; one that ends with `+mfa` proves two factors. A token
/// `old-NAME` has expired.
struct Names;

impl TokenVerifier for Names {
    fn verify(&self, token: &str, _: u64) -> Result<Principal, TokenError> {
        if token.starts_with("old-") {
            return Err(TokenError::Expired);
        }
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
    let mut options = options();
    options.engine.shards = Some(shards);
    options.auth.rules = rules.iter().map(ToString::to_string).collect();
    start_server(options)
}

fn start_server(options: Options) -> TestServer {
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
    // It decides for its request.
    let whoami = call(5, "whoami", json!({}));
    assert_eq!(client.result(&whoami)["content"][0]["text"], "ada");
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

/// A handshake with a token.
fn handshake_of(token: &str) -> Value {
    let mut handshake = handshake();
    handshake["auth_token"] = json!(token);
    handshake
}

fn exchange(client: &mut WebSocketClient, message: &Value) -> Value {
    client.send_bytes(&text_frame(message));
    serde_json::from_str(&client.read_text()).expect("JSON")
}

#[test]
fn websocket_handshake_may_bring_the_token() {
    for mode in [ParityMode::On, ParityMode::Only] {
        let mut options = options();
        options.parity.mode = mode;
        let server = start_server(options);
        let mut client = WebSocketClient::connect(server.http());
        let ack = exchange(&mut client, &handshake_of("token-ada"));
        assert_eq!(ack["type"], "handshakeAck", "{ack}");
        let whoami = exchange(&mut client, &call(1, "whoami", json!({})));
        assert_eq!(whoami["result"]["content"][0]["text"], "ada");
        // A request may bring another token.
        let mut other = call(2, "whoami", json!({}));
        other["auth_token"] = json!("token-bob");
        let whoami = exchange(&mut client, &other);
        assert_eq!(whoami["result"]["content"][0]["text"], "bob");
        // It decides for its request.
        let whoami = exchange(&mut client, &call(3, "whoami", json!({})));
        assert_eq!(whoami["result"]["content"][0]["text"], "ada");
        drop(client);
        for handshake in [handshake(), handshake_of("other")] {
            let mut client = WebSocketClient::connect(server.http());
            let error = exchange(&mut client, &handshake);
            assert_eq!(error["error"]["code"], "error.auth.unauthorized", "{error}");
            client.expect_close(1008);
        }
        server.close();
    }
}

#[test]
fn websocket_upgrade_with_invalid_token_is_refused() {
    for (mode, field) in [
        (ParityMode::On, "Authorization: Bearer other\r\n"),
        (ParityMode::On, "Authorization: Basic b3RoZXI=\r\n"),
        // A client of MCP looks for the challenge.
        (ParityMode::On, "Sec-WebSocket-Protocol: mcp\r\n"),
        (ParityMode::Off, ""),
    ] {
        let mut options = options();
        options.parity.mode = mode;
        let server = start_server(options);
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let fields = format!("{upgrade}{field}");
        let refused = Exchange::start(&server, "GET", "/mcp/ws", &fields, "");
        assert_eq!(refused.head.status, 401, "{field}");
        assert!(refused.head.field("WWW-Authenticate").is_some());
        server.close();
    }
}

#[test]
fn websocket_without_token_serves_no_mcp() {
    let mut options = options();
    options.websocket.first_message_timeout = Duration::from_millis(200);
    let server = start_server(options);
    let mut client = WebSocketClient::connect(server.http());
    for id in 1..3 {
        let mut with_token = initialize(id, "2025-11-25");
        with_token["params"]["auth_token"] = json!("token-ada");
        let refused = exchange(&mut client, &with_token);
        assert_eq!(refused["error"]["code"], -32010, "{refused}");
        let message = refused["error"]["message"].as_str().expect("a message");
        assert!(message.contains("with the upgrade"), "{message}");
    }
    // None of them counts as a first message, and silence neither.
    client.expect_close(1002);
    WebSocketClient::connect(server.http()).expect_close(1002);
    // With a token in the upgrade it is served.
    let upgrade = upgrade_request().field("Authorization", "Bearer token-ada");
    let stream = sockets::connect(server.http());
    let (_, client) = WebSocketClient::upgrade(stream, &upgrade.bytes());
    drop(client.handshake("2025-11-25"));
    server.close();
}

/// Sends one message over HTTP, and returns status, challenge and error.
fn post(server: &TestServer, fields: &str, message: &Value) -> (u16, String, Value) {
    let exchange = Exchange::start(server, "POST", "/parity", fields, message.to_string());
    let status = exchange.head.status;
    let challenge = exchange.head.field("WWW-Authenticate").unwrap_or_default().to_owned();
    (status, challenge, exchange.json()["error"].take())
}

#[test]
fn unauthorized_error_is_same_on_each_transport() {
    let server = start();
    let details = json!({"reason": "token_expired", "advice": "refresh_token"});
    for (token, retryable, details) in [
        (None, false, json!(null)),
        (Some("other"), false, json!(null)),
        (Some("old-ada"), true, details),
    ] {
        let message = token.map_or_else(handshake, handshake_of);
        let field = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let (status, challenge, over_http) =
            post(&server, &field.unwrap_or_default(), &handshake());
        assert_eq!((status, &challenge[..6]), (401, "Bearer"), "{over_http}");
        assert_eq!(over_http["code"], "error.auth.unauthorized");
        assert_eq!((&over_http["retryable"], &over_http["details"]), (&json!(retryable), &details));
        let mut client = ParityClient::connect(&server);
        let over_tcp = client.expect_error(&message, "error", "error.auth.unauthorized");
        assert_eq!(client.receive_or_end(), None);
        let mut client = WebSocketClient::connect(server.http());
        let over_websocket = exchange(&mut client, &message)["error"].take();
        client.expect_close(1008);
        let texts = [over_tcp, over_websocket].map(|error| error.to_string());
        assert_eq!(texts, [over_http.to_string(), over_http.to_string()]);
    }
    server.close();
}

#[test]
fn request_with_expired_token_changes_nothing() {
    let server = start_on(2);
    let mut client = ParityClient::connect(&server);
    let mut ack = client.exchange(&handshake_of("token-ada"));
    let mut websocket = WebSocketClient::connect(server.http());
    exchange(&mut websocket, &handshake_of("token-ada"));
    let mut expired = call(1, "whoami", json!({}));
    expired["auth_token"] = json!("old-ada");
    let whoami = call(2, "whoami", json!({}));
    // On any shard.
    for _ in 0..8 {
        let error = client.expect_error(&expired, "response", "error.auth.unauthorized");
        assert_eq!(
            (&error["retryable"], &error["details"]["advice"]),
            (&json!(true), &json!("refresh_token"))
        );
        assert_eq!(client.result(&whoami)["content"][0]["text"], "ada");
        let refused = exchange(&mut websocket, &expired);
        assert_eq!((&refused["type"], &refused["id"]), (&json!("response"), &json!(1)));
        assert_eq!(refused["error"], error);
        let served = exchange(&mut websocket, &whoami);
        assert_eq!(served["result"]["content"][0]["text"], "ada");
        drop(client);
        let mut resuming = handshake_of("token-ada");
        resuming["resumeToken"] = ack["resumeToken"].clone();
        client = ParityClient::connect(&server);
        ack = client.exchange(&resuming);
        assert_eq!(ack["resumed"], true, "{ack}");
    }
    drop((client, websocket));
    server.close();
}

#[test]
fn refusals_over_http_have_fields_of_mcp() {
    let mut options = options();
    options.rate.rules = vec!["tools/call whoami rate=1/min".to_owned()];
    let server = start_server(options);
    let ada = "Authorization: Bearer token-ada\r\n";
    let begun = Exchange::start(&server, "POST", "/parity", ada, handshake().to_string());
    let id = begun.head.field("Mcp-Session-Id").expect("a session").to_owned();
    let of_session = format!("{ada}Mcp-Session-Id: {id}\r\n");
    let mcp = |tool: &str| {
        let fields = format!(
            "{ada}Accept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        );
        let message = corelane_test_support::messages::modern(json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool},
        }));
        Exchange::start(&server, "POST", "/mcp", &fields, message.to_string()).head
    };
    let parity = |tool: &str| {
        let message = call(1, tool, json!({})).to_string();
        Exchange::start(&server, "POST", "/parity", &of_session, &message).head
    };
    assert_eq!(parity("whoami").status, 200);
    let names = ["Retry-After", "RateLimit", "RateLimit-Policy", "WWW-Authenticate"];
    for (tool, status, present) in [("whoami", 429, 3), ("secret", 403, 1)] {
        let heads = [mcp(tool), parity(tool)];
        assert_eq!(heads.each_ref().map(|head| head.status), [status; 2]);
        let of_mcp = names.map(|name| heads[0].field(name));
        assert_eq!(of_mcp.iter().flatten().count(), present, "{of_mcp:?}");
        // The time that is left may differ by a second.
        let plain = |value: &str| value.replace(|char: char| char.is_ascii_digit(), "");
        assert_eq!(
            names.map(|name| heads[1].field(name).map(plain)),
            of_mcp.map(|it| it.map(plain))
        );
    }
    assert!(
        parity("secret")
            .field("WWW-Authenticate")
            .is_some_and(|it| it.contains("insufficient_scope"))
    );
    server.close();
}

/// How a client connects that has a token of Ada, and sends a handshake.
type Begin = fn(&TestServer, Value) -> (Box<dyn Any>, Value);

const BEGINNINGS: [Begin; 2] = [
    |server, handshake| {
        let mut client = ParityClient::connect(server);
        let mut handshake = handshake;
        handshake["auth_token"] = json!("token-ada");
        let ack = client.exchange(&handshake);
        (Box::new(client), ack)
    },
    // The caller is known before the handshake.
    |server, handshake| {
        let upgrade = upgrade_request().field("Authorization", "Bearer token-ada");
        let stream = sockets::connect(server.http());
        let (_, mut client) = WebSocketClient::upgrade(stream, &upgrade.bytes());
        let ack = exchange(&mut client, &handshake);
        (Box::new(client), ack)
    },
];

/// More sessions than one caller may have.
const SESSIONS_MAX: usize = 60;

/// A server where one caller may have few sessions.
fn start_with_small_share() -> TestServer {
    let mut options = options();
    options.engine.shards = Some(1);
    options.tcp.connections_max = 64;
    options.http.connections_max = 64;
    options.limits.address_share_percent = 2;
    start_server(options)
}

/// Begins sessions of Ada until there is no place, at most `count`.
fn begin_sessions(server: &TestServer, count: usize) -> Vec<Box<dyn Any>> {
    let begun = (0..count).map_while(|_| {
        let (client, ack) = BEGINNINGS[0](server, handshake());
        (ack["type"] == "handshakeAck").then_some(client)
    });
    begun.collect()
}

#[test]
fn resume_at_share_keeps_session() {
    let server = start_with_small_share();
    let share = begin_sessions(&server, SESSIONS_MAX).len();
    assert!((2..SESSIONS_MAX).contains(&share), "{share}");
    server.close();
    for begin in BEGINNINGS {
        let server = start_with_small_share();
        let (client, ack) = BEGINNINGS[0](&server, handshake());
        drop(client);
        let others = begin_sessions(&server, share - 1);
        assert_eq!(others.len(), share - 1);
        // The only session that could end for a new one is the one that is resumed.
        let mut ack = ack;
        for _ in 0..2 {
            let (client, resumed) = begin(&server, resuming(&ack, json!({})));
            assert_eq!(resumed["resumed"], true, "{resumed}");
            drop(client);
            ack = resumed;
        }
        drop(others);
        server.close();
    }
}

#[test]
fn new_session_at_share_ends_another() {
    let server = start_with_small_share();
    let share = begin_sessions(&server, SESSIONS_MAX).len();
    server.close();
    let server = start_with_small_share();
    let (client, ack) = BEGINNINGS[0](&server, handshake());
    drop(client);
    let others = begin_sessions(&server, share - 1);
    // A handshake that is refused ends none.
    let mut thief = handshake_of("other");
    thief["resumeToken"] = ack["resumeToken"].clone();
    ParityClient::connect(&server).expect_error(&thief, "error", "error.auth.unauthorized");
    let next = begin_sessions(&server, 1);
    assert_eq!(next.len(), 1);
    let mut client = ParityClient::connect(&server);
    let mut resuming = resuming(&ack, json!({}));
    resuming["auth_token"] = json!("token-ada");
    let refused = client.exchange(&resuming);
    assert_ne!(refused["resumed"], true, "{refused}");
    drop((others, next, client));
    server.close();
}
