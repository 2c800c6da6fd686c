//! Tokens that expire, and tokens that are replaced in time, while calls and streams run.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::model::Implementation;
use corelane::{CallToolResult, Catalog, NoArguments, Options, RequestContext, Server, Tool};
use corelane_engine::clock::unix_ms;
use corelane_test_support::TestServer;
use corelane_test_support::process::{Process, Signal};
use corelane_test_support::websocket::{WebSocketClient, text_frame};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::CORELANE;
use crate::client::{ParityClient, call, handshake, kinds, request, resuming, streamed};
use crate::http::{Exchange, on_shards};

/// Knows the tokens `new`, `old`, which expires when the test wants that, and `short`, which
/// expires after two seconds. All are of one caller.
struct Tokens {
    is_expired: Arc<AtomicBool>,
    expires_at: u64,
}

impl TokenVerifier for Tokens {
    fn verify(&self, token: &str, now: u64) -> Result<Principal, TokenError> {
        let ada = Principal::new("ada");
        match token {
            "new" => Ok(ada),
            "old" if !self.is_expired.load(Ordering::Relaxed) => Ok(ada),
            "short" if now < self.expires_at => Ok(ada.with_expiry(self.expires_at)),
            "old" | "short" => Err(TokenError::Expired),
            _ => Err(TokenError::Unknown),
        }
    }
}

struct ExpiryServer {
    server: TestServer,
    options: Options,
    is_expired: Arc<AtomicBool>,
}

impl ExpiryServer {
    /// Starts a server with the tool `hold`, which signals, sends progress and waits for the gate.
    fn start(shards: u16) -> Self {
        let options = on_shards(shards);
        let is_expired = Arc::new(AtomicBool::new(false));
        let expires_at = unix_ms() / 1_000 + 2;
        let tokens = Tokens { is_expired: Arc::clone(&is_expired), expires_at };
        let server = TestServer::with_server(|gate| {
            let gate = gate.clone();
            let hold = Tool::new("hold").local(move |_: NoArguments, ctx: RequestContext| {
                let gate = gate.clone();
                async move {
                    ctx.progress(1.0, None, None);
                    gate.signal("begun");
                    gate.wait(&ctx).await?;
                    Ok(CallToolResult::text("held"))
                }
            });
            let catalog = Catalog::builder(Implementation::new("test", "1")).tool(hold).build();
            Server::builder(catalog.expect("valid")).options(options.clone()).token_verifier(tokens)
        });
        Self { server, options, is_expired }
    }

    /// Has the token `old` expire, and be checked at once.
    fn expire(&self) {
        self.is_expired.store(true, Ordering::Relaxed);
        self.server.handle().reload_auth(&self.options).expect("valid");
    }

    /// Connects over TCP with a token.
    fn connect(&self, token: &str) -> (ParityClient, Value) {
        let mut client = ParityClient::connect(&self.server);
        let ack = client.exchange(&handshake_of(token));
        assert_eq!(ack["type"], "handshakeAck", "{ack}");
        (client, ack)
    }

    /// Begins a session over HTTP with a token, and returns the header fields of its requests.
    fn begin(&self, token: &str) -> String {
        let field = format!("Authorization: Bearer {token}\r\n");
        let begun = self.post(&field, &handshake());
        let id = begun.head.field("Mcp-Session-Id").expect("a session");
        format!("{field}Mcp-Session-Id: {id}\r\n")
    }

    fn post(&self, fields: &str, message: &Value) -> Exchange {
        Exchange::start(&self.server, "POST", "/parity", fields, message.to_string())
    }

    fn events(&self, fields: &str) -> Exchange {
        let mut events = Exchange::start(&self.server, "GET", "/parity/events", fields, "");
        assert_eq!(events.next_event().expect("a prelude").name, "handshake");
        events
    }
}

fn handshake_of(token: &str) -> Value {
    let mut handshake = handshake();
    handshake["auth_token"] = json!(token);
    handshake
}

/// Adds a token to a request.
fn with_token(mut request: Value, token: &str) -> Value {
    request["auth_token"] = json!(token);
    request
}

/// The error of what was begun with a token that is valid no more.
fn expired() -> Value {
    json!({
        "code": "error.auth.unauthorized",
        "message": "the token is no longer valid",
        "retryable": true,
        "details": {"reason": "token_expired", "advice": "refresh_token"},
    })
}

/// Receives the last messages of a session with the call `c` and the stream `s1`, up to the error.
#[track_caller]
fn expect_last_messages(mut receive: impl FnMut() -> Value) {
    let (mut responses, mut chunks) = (Vec::new(), Vec::new());
    let error = loop {
        let message = receive();
        match message["type"].as_str() {
            Some("response") => responses.push(message),
            Some("stream.chunk") => chunks.push(message),
            _ => break message,
        }
    };
    assert_eq!(error, json!({"type": "error", "error": expired()}));
    assert_eq!(responses, [json!({"type": "response", "id": "c", "error": expired()})]);
    assert_eq!(kinds(&chunks), ["error", "eos"]);
    assert_eq!((&chunks[0]["data"], &chunks[1]["reason"]), (&expired(), &json!("error")));
}

#[test]
fn calls_end_with_token_over_tcp() {
    let expiring = ExpiryServer::start(1);
    let (mut client, ack) = expiring.connect("old");
    client.open_stream(call("s", "hold", json!({})));
    assert_eq!(client.receive()["seq"], 1);
    let mut held = call("c", "hold", json!({}));
    held["idempotencyKey"] = json!("k");
    client.send(&held);
    assert_eq!([(); 2].map(|()| expiring.server.next_signal()), ["begun"; 2]);
    expiring.expire();
    expect_last_messages(|| client.receive());
    assert_eq!(client.receive_or_end(), None);
    // The session continues with another token. What has run does not run again.
    let mut client = ParityClient::connect(&expiring.server);
    let resumed = client.exchange(&with_token(resuming(&ack, json!({"s1": 1})), "new"));
    assert_eq!(resumed["resumed"], true, "{resumed}");
    assert_eq!(kinds(&client.receive_stream("s1", 2)), ["error", "eos"]);
    client.expect_error(&held, "response", "error.already_processed");
    client.ping();
    drop(client);
    let counters = expiring.server.close();
    assert_eq!(counters.connections.closed_invalid_credential, 1, "{counters}");
}

#[test]
fn calls_end_with_token_over_websocket() {
    let expiring = ExpiryServer::start(1);
    let mut client = WebSocketClient::connect(expiring.server.http());
    let receive = |client: &mut WebSocketClient| -> Value {
        serde_json::from_str(&client.read_text()).expect("JSON")
    };
    client.send_bytes(&text_frame(handshake_of("old")));
    assert_eq!(receive(&mut client)["type"], "handshakeAck");
    client.send_bytes(&text_frame(streamed(call("s", "hold", json!({})))));
    assert_eq!(receive(&mut client)["result"]["streamId"], "s1");
    assert_eq!(receive(&mut client)["seq"], 1);
    client.send_bytes(&text_frame(call("c", "hold", json!({}))));
    assert_eq!([(); 2].map(|()| expiring.server.next_signal()), ["begun"; 2]);
    expiring.expire();
    expect_last_messages(|| receive(&mut client));
    client.expect_close(1008);
    expiring.server.close();
}

#[test]
fn calls_end_with_token_on_any_shard() {
    let expiring = ExpiryServer::start(3);
    let mut clients = Vec::new();
    for _ in 0..8 {
        let (client, ack) = expiring.connect("old");
        drop(client);
        let mut client = ParityClient::connect(&expiring.server);
        let resumed = client.exchange(&with_token(resuming(&ack, json!({})), "old"));
        assert_eq!(resumed["resumed"], true, "{resumed}");
        client.open_stream(call("s", "hold", json!({})));
        assert_eq!(client.receive()["seq"], 1);
        client.send(&call("c", "hold", json!({})));
        assert_eq!([(); 2].map(|()| expiring.server.next_signal()), ["begun"; 2]);
        clients.push(client);
    }
    expiring.expire();
    for client in &mut clients {
        expect_last_messages(|| client.receive());
        assert_eq!(client.receive_or_end(), None);
    }
    let counters = expiring.server.close();
    assert!(counters.shard.messages_sent > 0, "{counters}");
}

#[test]
fn calls_end_with_token_over_http() {
    for shards in [1, 3] {
        let expiring = ExpiryServer::start(shards);
        let of_session = expiring.begin("old");
        let mut events = expiring.events(&of_session);
        let (status, opened) = {
            let posted = expiring.post(&of_session, &streamed(call("s", "hold", json!({}))));
            (posted.head.status, posted.json())
        };
        assert_eq!((status, &opened["result"]["streamId"]), (200, &json!("s1")));
        assert_eq!(events.next_event().expect("a chunk").data["seq"], 1);
        let of_stream = format!("{of_session}Accept: text/event-stream\r\n");
        let mut post = expiring.post(&of_stream, &streamed(call("p", "hold", json!({}))));
        assert_eq!(post.next_event().expect("a response").data["result"]["streamId"], "s2");
        assert_eq!(post.next_event().expect("a chunk").data["seq"], 1);
        let message = call("c", "hold", json!({})).to_string();
        let waiting = Exchange::send(&expiring.server, "POST", "/parity", &of_session, &message);
        assert_eq!([(); 3].map(|()| expiring.server.next_signal()), ["begun"; 3]);
        expiring.expire();
        let held = Exchange::read(waiting);
        assert_eq!(held.head.status, 401);
        let challenge = held.head.field("WWW-Authenticate").expect("a challenge");
        assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
        let expected = json!({"type": "response", "id": "c", "error": expired()});
        assert_eq!(held.json(), expected);
        for (exchange, stream) in [(&mut events, "s1"), (&mut post, "s2")] {
            for (seq, kind) in [(2, "error"), (3, "eos")] {
                let chunk = exchange.next_event().expect("a chunk").data;
                assert_eq!((&chunk["streamId"], &chunk["seq"]), (&json!(stream), &json!(seq)));
                assert_eq!(chunk["chunkType"], kind);
            }
        }
        let last = events.next_event().expect("an error");
        assert_eq!(last.name, "error");
        assert_eq!(last.data, json!({"type": "error", "error": expired()}));
        assert!(events.next_event().is_none() && post.next_event().is_none());
        // The session continues with another token.
        let refreshed = of_session.replace("Bearer old", "Bearer new");
        let pong = expiring.post(&refreshed, &request(1, "ping"));
        assert_eq!((pong.head.status, pong.json()["result"].take()), (200, json!({})));
        expiring.server.close();
    }
}

#[test]
fn refreshed_token_keeps_the_session() {
    for shards in [1, 3] {
        let expiring = ExpiryServer::start(shards);
        let mut clients = Vec::new();
        for _ in 0..8 {
            let (client, ack) = expiring.connect("old");
            drop(client);
            let mut client = ParityClient::connect(&expiring.server);
            client.exchange(&with_token(resuming(&ack, json!({})), "old"));
            client.open_stream(call("s", "hold", json!({})));
            assert_eq!(client.receive()["seq"], 1);
            assert_eq!(client.result(&with_token(request("r", "ping"), "new")), json!({}));
            // One that is not refreshed shows when the tokens are checked.
            let (mut other, _) = expiring.connect("old");
            other.ping();
            clients.push((client, other));
        }
        let of_session = expiring.begin("new");
        let mut events = expiring.events(&of_session);
        let opened = expiring
            .post(&of_session.replace("new", "old"), &streamed(call("s", "hold", json!({}))));
        assert_eq!(opened.json()["result"]["streamId"], "s1");
        expiring.expire();
        for (client, other) in &mut clients {
            assert_eq!(other.receive()["error"], expired());
            assert_eq!(other.receive_or_end(), None);
            client.ping();
        }
        expiring.server.open_gate();
        for (client, _) in &mut clients {
            assert_eq!(kinds(&client.receive_stream("s1", 2)), ["result", "eos"]);
        }
        for seq in 1..4 {
            assert_eq!(events.next_event().expect("a chunk").data["seq"], seq);
        }
        drop((clients, events));
        expiring.server.close();
    }
}

#[test]
fn many_tokens_end_at_the_same_time() {
    let expiring = ExpiryServer::start(1);
    let mut clients: Vec<_> = (0..80).map(|_| expiring.connect("old").0).collect();
    // More than the checks of a turn: were the rest left to the next interval, the last would end
    // after a minute and a half.
    expiring.expire();
    for client in &mut clients {
        assert_eq!(client.receive()["error"], expired());
        assert_eq!(client.receive_or_end(), None);
    }
    let counters = expiring.server.close();
    assert_eq!(counters.connections.closed_invalid_credential, 80, "{counters}");
}

#[test]
fn session_ends_when_its_time_has_come() {
    let expiring = ExpiryServer::start(1);
    let (mut client, _) = expiring.connect("short");
    let error = client.receive();
    assert_eq!(error, json!({"type": "error", "error": expired()}));
    assert_eq!(client.receive_or_end(), None);
    expiring.server.close();
}

/// Writes the file of API keys with this key of `ada`.
fn write_key(path: &std::path::Path, key: &str) {
    let digits = Sha256::digest(key.as_bytes())
        .iter()
        .fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
    fs::write(path, format!("ada:{digits}:user\n")).expect("the file is written");
}

#[test]
fn stdio_stays_and_needs_another_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys");
    write_key(&path, "first");
    let keys = path.to_str().expect("UTF-8");
    let arguments = ["stdio", "--auth-api-keys", keys];
    let mut process = Process::start(CORELANE, &arguments);
    let mut client = ParityClient::new(process.take_pipes());
    assert_eq!(client.exchange(&handshake_of("first"))["type"], "handshakeAck");
    client.open_stream(call("s", "slow", json!({"steps": 2, "step_ms": 60_000})));
    client.send(&call("c", "slow", json!({"steps": 2, "step_ms": 60_000})));
    client.ping();
    write_key(&path, "second");
    process.signal(Signal::HUP);
    expect_last_messages(|| client.receive());
    for id in 1..3 {
        let ping = request(id, "ping");
        let error = client.expect_error(&ping, "response", "error.auth.unauthorized");
        assert_eq!(error, expired());
    }
    assert_eq!(client.result(&with_token(request(2, "ping"), "second")), json!({}));
    client.ping();
    drop(client);
    assert_eq!(process.wait().status, 0);
}
