//! What the hostile peers of each scene send.

use std::io;
use std::iter::repeat_n;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64_URL;
use corelane_bench_support::frames;
use corelane_bench_support::requests::{
    self, FIRST_ID, INITIALIZED, META, RequestTemplate, modern_fields,
};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::attack::{Requests, Script};
use crate::conversation::Framing;
use crate::credentials::{
    Caller, HOSTILE_KEY, ISSUER, KEY_ID, LARGE_FILE_BYTES, ProofKey, RESOURCE, tls_client, uri,
};
use crate::introspection::UNANSWERED;
use crate::scenes::{Scene, Target};

/// Large texts: below the default `message_bytes_max` of 16 MiB.
const LARGE_BYTES: usize = 15 << 20;
/// Time between two connections of a hostile peer.
const PAUSE: Duration = Duration::from_millis(50);
/// Time after which a peer leaves that has sent its last request.
const LEAVES_AFTER: Duration = Duration::from_millis(300);
/// Peers that hold many connections.
const HOLDING_PEERS: usize = 40;
/// Connections that each of them holds.
const HELD: usize = 60;
/// The same, with half of the head of a request.
const HELD_HEADS: usize = 100;
/// Tasks of all peers: twice what two shards store.
const TASKS: usize = 4 * 1024;
/// Time for the response to an invalid token.
const TOKEN_TIME: Duration = Duration::from_millis(10);
/// Opens a session of 2025-11-25 with the elicitation capability.
const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"#,
    r#""protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"#,
    r#""clientInfo":{"name":"bench","version":"1"}}}"#,
    "\n"
);
impl Scene {
    /// Returns what its peers do.
    pub(crate) fn scripts(self, target: &Target<'_>) -> io::Result<Vec<Script>> {
        Ok(match self {
            Self::None => Vec::new(),
            Self::SilentTcp => vec![held(Framing::Lines, Vec::new())],
            Self::SilentHttp | Self::SilentTls => vec![held(Framing::Http, Vec::new())],
            Self::HelloTls => vec![held(Framing::Http, client_hello(target)?)],
            Self::TlsHandshakes => {
                let script = Script { connections: 16, pause: Duration::ZERO, ..Script::none() };
                vec![Script { framing: Framing::Http, handshake: true, ..script }]
            }
            Self::SlowHeads => {
                let head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".to_vec();
                vec![Script { held: HELD_HEADS, ..held(Framing::Http, head) }]
            }
            Self::HalfMessages | Self::HalfMessagesUnproven => half_messages(target),
            Self::Unauthorized => unauthorized(target.addresses.http),
            Self::InvalidTokens => vec![invalid_tokens(target.addresses.http)],
            Self::UnknownTokens => vec![unknown_tokens(target.addresses.http, "unknown")],
            Self::HangingIntrospection => vec![unknown_tokens(target.addresses.http, UNANSWERED)],
            Self::WithdrawnKeys => withdrawn_keys(target.addresses.http),
            Self::Proofs => vec![proofs(target)?],
            Self::ParityHandshakes => parity_handshakes(target.addresses.http),
            Self::IdempotencyKeys => vec![idempotency_keys()],
            Self::Sessions => vec![sessions(target.addresses.http)],
            Self::RateKeys => {
                let call = tool("echo", r#"{"message":"a"}"#, "");
                let script =
                    Script { connections: 16, opening: handshake(), ..Script::lines(call) };
                let leaves_after = Some(Duration::from_millis(2));
                vec![Script { batch: 4, leaves_after, pause: Duration::ZERO, ..script }]
            }
            Self::Tasks | Self::LeftTasks => vec![tasks(self, target)],
            Self::TaskResults => {
                let label = text(LARGE_BYTES);
                let call = task(&format!(r#"{{"seconds":0.01,"label":"{label}"}}"#));
                let script = Script { connections: 8, sends: 8, ..Script::lines(call) };
                let leaves_after = Some(LEAVES_AFTER);
                vec![Script { opening: handshake(), leaves_after, ..script }]
            }
            Self::Subscriptions => vec![subscriptions()],
            Self::UnreadFiles => {
                let one = Script { sends: 1, ..unread(target, Framing::Lines) };
                vec![Script { connections: 150, ..one }]
            }
            Self::UnreadTcp => vec![unread(target, Framing::Lines)],
            Self::UnreadHttp => vec![unread(target, Framing::Http)],
            Self::UnreadWebSocket => vec![unread(target, Framing::Frames)],
            _ => self.scripts_of_calls(target),
        })
    }

    /// Returns the scripts of the scenes with long calls and large messages.
    fn scripts_of_calls(self, target: &Target<'_>) -> Vec<Script> {
        match self {
            Self::Echoes => vec![echoes(&text(LARGE_BYTES))],
            Self::Escapes => vec![echoes(&r"\n".repeat(LARGE_BYTES / 2))],
            Self::Values => vec![values(TOKENS_MAX / 4 - 100), values(LARGE_BYTES / 4)],
            Self::Arguments => {
                let arguments = format!(r#"{{"seconds":600,"label":"{}"}}"#, text(LARGE_BYTES));
                let call = tool("slow_compute", &arguments, META);
                vec![Script { connections: 8, sends: 64, ..Script::lines(call) }]
            }
            Self::InputResponses => vec![input_responses()],
            Self::Elicitations => {
                let arguments = format!(r#"{{"message":"{}"}}"#, text(LARGE_BYTES));
                let call = tool("test_elicitation", &arguments, "");
                let script = Script { connections: 2, sends: 128, ..Script::lines(call) };
                vec![Script { opening: handshake(), ..script }]
            }
            Self::SlowAndClosed => {
                let call = tool("slow", r#"{"steps":600,"step_ms":1000}"#, META);
                let script = Script { connections: 8, ..Script::lines(call) };
                let (leaves_after, pause) = (Some(Duration::ZERO), Duration::from_millis(4));
                vec![Script { reads: false, leaves_after, pause, ..script }]
            }
            Self::BlockingCalls => {
                let call = tool("hash", r#"{"bytes":1073741824}"#, META);
                vec![Script { connections: 8, sends: 160, ..Script::lines(call) }]
            }
            Self::MemoryPressure => {
                let leaves_after = Some(Duration::ZERO);
                vec![
                    half_of_limit(target),
                    Script { sends: 1, leaves_after, ..echoes(&text(LARGE_BYTES)) },
                ]
            }
            Self::PressureMessages => vec![half_of_limit(target), echoes(&text(LARGE_BYTES))],
            _ => Vec::new(),
        }
    }
}

impl Script {
    /// One connection over TCP that sends nothing, reads, and stays.
    fn none() -> Self {
        Self { sends: 0, ..Self::lines(String::new()) }
    }

    /// One connection over TCP that sends `request` once, reads, and stays.
    fn lines(request: String) -> Self {
        Self {
            connections: 1,
            held: 0,
            framing: Framing::Lines,
            handshake: false,
            opening: Vec::new(),
            requests: Requests::Template(RequestTemplate::new(request)),
            batch: 1,
            sends: 1,
            reads: true,
            leaves_after: None,
            pause: PAUSE,
        }
    }

    /// The same over HTTP.
    fn http(request: String) -> Self {
        Self { framing: Framing::Http, ..Self::lines(request) }
    }
}

/// Thousands of connections that send `opening` and stay.
fn held(framing: Framing, opening: Vec<u8>) -> Script {
    Script { connections: HOLDING_PEERS, held: HELD, framing, opening, ..Script::none() }
}

/// Returns the first message of a TLS client.
fn client_hello(target: &Target<'_>) -> io::Result<Vec<u8>> {
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let config = tls_client(target.directory)?;
    let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut hello = Vec::new();
    connection.write_tls(&mut hello)?;
    Ok(hello)
}

fn unauthorized(host: SocketAddr) -> Vec<Script> {
    let post = call_over_http(host, "");
    let further = Script { connections: 8, sends: usize::MAX, ..Script::http(post.clone()) };
    vec![held(Framing::Http, post.into_bytes()), further]
}

fn invalid_tokens(host: SocketAddr) -> Script {
    let (header, claims) = (
        format!(r#"{{"alg":"ES256","typ":"at+jwt","kid":"{KEY_ID}"}}"#),
        format!(r#"{{"iss":"{ISSUER}","aud":"{RESOURCE}","sub":"eve","exp":4102444800}}"#),
    );
    let [header, claims] = [header, claims].map(|part| BASE64_URL.encode(part));
    // 64 bytes: two numbers of the group. The id of a request is in the signature.
    let signature = format!("{:A<86}", format!("AAAB{FIRST_ID}{}", "AAAB".repeat(14)));
    let fields = format!("Authorization: Bearer {header}.{claims}.{signature}\r\n");
    let script = Script { connections: 64, ..Script::http(call_over_http(host, &fields)) };
    Script { leaves_after: Some(TOKEN_TIME), pause: Duration::ZERO, ..script }
}

/// Calls whose tokens begin with `start`.
fn unknown_tokens(host: SocketAddr, start: &str) -> Script {
    let fields = format!("Authorization: Bearer {start}-{FIRST_ID}\r\n");
    let script = Script { connections: 80, ..Script::http(call_over_http(host, &fields)) };
    Script { sends: usize::MAX, ..script }
}

/// Calls with a key that the peers' process withdraws now and then, and unknown tokens.
fn withdrawn_keys(host: SocketAddr) -> Vec<Script> {
    let fields = format!("Authorization: Bearer {HOSTILE_KEY}\r\n");
    let script = Script { connections: 16, ..Script::http(call_over_http(host, &fields)) };
    vec![Script { sends: usize::MAX, ..script }, unknown_tokens(host, "unknown")]
}

fn proofs(target: &Target<'_>) -> io::Result<Script> {
    let key = Arc::new(ProofKey::read(target.directory, Caller::Hostile)?);
    let requests = Requests::Proofs(key, target.addresses.http);
    let script = Script { connections: 8, sends: usize::MAX, requests, ..Script::none() };
    Ok(Script { framing: Framing::Http, ..script })
}

fn parity_handshakes(host: SocketAddr) -> Vec<Script> {
    let post = requests::post(host, "", &parity_handshake()).replacen("/mcp", "/parity", 1);
    let leaves_after = Some(Duration::from_millis(10));
    let over_http =
        Script { connections: 8, batch: 16, sends: 4, leaves_after, ..Script::http(post) };
    let over_tcp = Script { connections: 16, leaves_after, ..Script::none() };
    let opening = parity_handshake().into_bytes();
    vec![
        Script { pause: Duration::ZERO, ..over_http },
        Script { opening, pause: Duration::ZERO, ..over_tcp },
    ]
}

/// Begins a session of the parity dialect that can be resumed.
fn parity_handshake() -> String {
    let client = format!(r#""clientInfo":{{"name":"bench {FIRST_ID}","version":"1"}}"#);
    let capabilities = r#""capabilities":{"tools":true,"streaming":true,"resume":true}"#;
    format!("{{\"type\":\"handshake\",\"protocolVersion\":\"1.0\",{capabilities},{client}}}\n")
}

fn idempotency_keys() -> Script {
    let text = text(32 << 10);
    let call = format!(
        r#"{{"type":"request","idempotencyKey":"{FIRST_ID}{text}","id":1,"method":"tools/call","#
    ) + r#""params":{"name":"echo","arguments":{"message":"a"}}}"#
        + "\n";
    let script = Script { connections: 8, sends: 4_096, ..Script::lines(call) };
    Script { opening: parity_handshake().into_bytes(), ..script }
}

fn sessions(host: SocketAddr) -> Script {
    let initialize = INITIALIZE.replacen(":0,", &format!(":{FIRST_ID},"), 1);
    let script = Script::http(requests::post(host, "", &initialize));
    let leaves_after = Some(Duration::from_millis(20));
    Script { connections: 8, batch: 16, sends: 4, leaves_after, pause: Duration::ZERO, ..script }
}

/// Peers that create as many tasks as all shards store, and stay, or leave in [`Scene::LeftTasks`].
fn tasks(scene: Scene, target: &Target<'_>) -> Script {
    let connections = target.attackers.len().clamp(16, 64);
    let script = Script { connections, ..Script::lines(task(r#"{"seconds":600}"#)) };
    let leaves_after = (scene == Scene::LeftTasks).then_some(LEAVES_AFTER);
    Script { opening: handshake(), sends: TASKS / connections, leaves_after, ..script }
}

/// Subscriptions to 64 resources each, with URIs of 1 KiB.
fn subscriptions() -> Script {
    let uris = (0..64).map(|number| format!(r#""file:///{number}/{}""#, text(1 << 10)));
    let uris = uris.collect::<Vec<_>>().join(",");
    let filter = format!(r#""notifications":{{"resourceSubscriptions":[{uris}]}}"#);
    let listen = request("subscriptions/listen", &(filter + META));
    Script { connections: 64, sends: 1_024, ..Script::lines(listen) }
}

fn input_responses() -> Script {
    let items = repeat_n("[0]", 1 << 18).collect::<Vec<_>>().join(",");
    let members = format!(r#","inputResponses":{{"items":[{items}]}}"#);
    let call = tool("slow", r#"{"steps":600,"step_ms":1000}"#, &(members + META));
    Script { connections: 8, sends: 64, ..Script::lines(call) }
}

/// Eight connections that ask 250 times each for a large file and do not read.
fn unread(target: &Target<'_>, framing: Framing) -> Script {
    let uri = uri(target.directory, "large.txt");
    let text = request("resources/read", &format!(r#""uri":"{uri}"{META}"#));
    let request = match framing {
        Framing::Lines => RequestTemplate::new(text),
        Framing::Http => {
            let fields = modern_fields("resources/read", Some(&uri));
            RequestTemplate::new(requests::post(target.addresses.http, &fields, &text))
        }
        Framing::Frames => frames::request_frame(text.trim_ascii_end().to_owned()),
    };
    let script = Script { connections: 8, sends: 250, framing, ..Script::none() };
    Script { requests: Requests::Template(request), reads: false, ..script }
}

/// Eight connections that hold half of the memory limit together: each asks for large files in one
/// send and does not read.
fn half_of_limit(target: &Target<'_>) -> Script {
    let script = unread(target, Framing::Lines);
    let share = target.memory_bytes_max / 2 / script.connections as u64;
    let batch = usize::try_from(share / LARGE_FILE_BYTES as u64).unwrap_or(usize::MAX).max(1);
    Script { batch, sends: 1, ..script }
}

/// Eight connections that send large messages, which are sent back.
fn echoes(message: &str) -> Script {
    let call = tool("echo", &format!(r#"{{"message":"{message}"}}"#), META);
    Script { connections: 8, sends: usize::MAX, ..Script::lines(call) }
}

/// The default of `json_tokens_max`.
const TOKENS_MAX: usize = 524_288;

/// Messages with `count` arrays of one value, of four tokens each.
fn values(count: usize) -> Script {
    let arguments = format!(r#"{{"message":"small","values":[{}1]}}"#, "[1],".repeat(count));
    Script { connections: 4, sends: usize::MAX, ..Script::lines(tool("echo", &arguments, META)) }
}

/// Half messages of 1.5 times the memory limit together.
fn half_messages(target: &Target<'_>) -> Vec<Script> {
    let total = target.memory_bytes_max * 3 / 2;
    let connections = usize::try_from(total).unwrap_or(usize::MAX).div_ceil(LARGE_BYTES);
    let arguments = format!(r#"{{"message":"{}"}}"#, text(LARGE_BYTES));
    let call = tool("echo", &arguments, META);
    let without_end = |mut message: Vec<u8>| {
        message.truncate(message.len() - META.len());
        message
    };
    let fields = modern_fields("tools/call", Some("echo"));
    let post = requests::post(target.addresses.http, &fields, &call);
    [
        (Framing::Http, without_end(post.into_bytes())),
        (Framing::Frames, without_end(frames::masked(&call))),
        (Framing::Lines, without_end(call.into_bytes())),
    ]
    .map(|(framing, opening)| {
        let connections = connections.div_ceil(3);
        Script { connections, framing, opening, ..Script::none() }
    })
    .into()
}

fn request(method: &str, params: &str) -> String {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{FIRST_ID},"method":"{method}""#);
    format!("{head},\"params\":{{{params}}}}}\n")
}

/// Returns a tool call; `members` are further members of `params`, with a leading comma.
fn tool(name: &str, arguments: &str, members: &str) -> String {
    request("tools/call", &format!(r#""name":"{name}","arguments":{arguments}{members}"#))
}

/// Returns a small call as a POST request with further header fields.
pub(crate) fn call_over_http(host: SocketAddr, fields: &str) -> String {
    let fields = fields.to_owned() + &modern_fields("tools/call", Some("echo"));
    requests::post(host, &fields, &tool("echo", r#"{"message":"a"}"#, META))
}

/// Returns a call of `slow_compute` as a task of 2025-11-25.
fn task(arguments: &str) -> String {
    tool("slow_compute", arguments, r#","task":{"ttl":3600000}"#)
}

fn handshake() -> Vec<u8> {
    [INITIALIZE, INITIALIZED].concat().into_bytes()
}

fn text(bytes: usize) -> String {
    requests::message(bytes)
}
