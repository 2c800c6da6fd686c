//! Bodies of the fuzz targets of the client: arbitrary bytes of a server.
//!
//! They panic if an invariant is violated, which no input may cause. The fuzzer passes its own
//! bytes, the tests seeded ones.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::handshake::derive_accept_key;

use super::cache::CachePolicy;
use super::handle::Client;
use super::io::{IoDriver, IoThread, WebSocketEcho};
pub use super::oauth::check_text as check_authorization_text;
use super::proxy::ProxyOptions;
use super::reconnect::ReconnectOptions;
use super::request::ResponseFuture;
use corelane_engine::ring::sim::{self, Faults, SimRing, TestListener, World};
use corelane_engine::ring::{ParkTimeout, RingOptions};
use corelane_engine::shard_loop::{ShardLoop, TurnStatus};

/// What the server speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FuzzTransport {
    /// Messages on lines over TCP.
    Lines,
    /// Streamable HTTP.
    Http,
    /// WebSocket; the server accepts the upgrade.
    WebSocket,
}

impl FuzzTransport {
    /// All.
    pub const ALL: [Self; 3] = [Self::Lines, Self::Http, Self::WebSocket];
}

/// How the calls of a client have ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CallEnds {
    /// With a result.
    pub answered: usize,
    /// With an error.
    pub failed: usize,
}

/// Calls that are made.
const CALLS: usize = 4;
/// Events that a server waits for a request before it sends the next piece.
const WAITS_MAX: usize = 8;
/// Rounds in which a run must end.
const ROUNDS_MAX: usize = 20_000;

/// Reads `stream` as the WebSocket frames of a server, whole and again in pieces of `length` bytes.
/// Returns the messages, and why the connection ends.
///
/// # Panics
///
/// If the result depends on the split.
pub fn check_frames(stream: &[u8], length: usize) -> (Vec<Vec<u8>>, Option<String>) {
    let whole = read_frames(stream, stream.len());
    assert_eq!(read_frames(stream, length), whole, "the result depends on the split");
    whole
}

fn read_frames(stream: &[u8], length: usize) -> (Vec<Vec<u8>>, Option<String>) {
    let mut echo = WebSocketEcho::begin("a", "/", 300).expect("the system has random bytes");
    let request = echo.take_output().expect("the upgrade request is written");
    let accepted = echo.receive(&accept_upgrade(&request));
    assert!(accepted.is_ok(), "the upgrade is accepted");
    let mut error = None;
    for piece in stream.chunks(length.max(1)) {
        if let Err(reason) = echo.receive(piece) {
            error = Some(reason.to_string());
            break;
        }
    }
    (echo.take_messages(), error)
}

/// Returns the response that accepts an upgrade request.
fn accept_upgrade(request: &[u8]) -> Vec<u8> {
    let request = String::from_utf8_lossy(request);
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let accept = derive_accept_key(key.unwrap_or_default().as_bytes());
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade";
    format!("{head}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes()
}

/// Lets a client make calls to a server that answers with `stream`, in pieces of `length` bytes,
/// and then ends. Returns how the calls have ended.
///
/// # Panics
///
/// If a call does not end, or if the client does not release everything.
pub fn run_client(transport: FuzzTransport, stream: &[u8], length: usize) -> CallEnds {
    let mut run = ClientRun::start(transport);
    let (mut pieces, mut waits) = (stream.chunks(length.max(1)), 0);
    for _ in 0..ROUNDS_MAX {
        run.turn();
        if run.calls.is_empty() {
            break;
        }
        let is_asked = run.connections.iter().any(|connection| connection.1);
        if (run.connections.is_empty() && run.listener.is_some())
            || (!is_asked && waits < WAITS_MAX)
        {
            waits += 1;
            run.advance();
        } else if let Some(piece) = pieces.next() {
            waits = 0;
            run.write(piece);
        } else {
            run.end_server();
            run.advance();
        }
    }
    assert!(run.calls.is_empty(), "{} calls have not ended", run.calls.len());
    run.close()
}

/// A client and the connections of its server.
struct ClientRun {
    transport: FuzzTransport,
    shard: ShardLoop<SimRing, IoDriver>,
    client: Client,
    listener: Option<TestListener>,
    /// The connections, with whether they have received something since the last piece, and whether
    /// they have accepted an upgrade.
    connections: Vec<(sim::Client, bool, bool)>,
    /// Pieces that were written.
    written: usize,
    calls: Vec<Pin<Box<ResponseFuture<Value>>>>,
    ends: CallEnds,
}

impl ClientRun {
    fn start(transport: FuzzTransport) -> Self {
        let world = World::with_faults(1, Faults::NONE);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        let listener = world.listen(address);
        let options = RingOptions { sockets_max: 64, receive_buffers: 8, ..Default::default() };
        let started = IoThread::simulated(world.ring(options), 1);
        let (thread, shard) = started.expect("a simulated ring needs nothing of the system");
        let target = match transport {
            FuzzTransport::Lines => "tcp://127.0.0.1:80",
            FuzzTransport::Http => "http://127.0.0.1:80/mcp",
            FuzzTransport::WebSocket => "ws://127.0.0.1:80/mcp",
        };
        let client = Client::builder(target)
            .request_timeout(Duration::from_secs(2))
            .proxy(ProxyOptions::none())
            .cache(CachePolicy::Off)
            .reconnect(ReconnectOptions { attempts_max: Some(2), ..Default::default() })
            .io_thread(&thread)
            .connect_lazy();
        let client = client.expect("the target is valid");
        let methods: [(&str, Value); CALLS] = [
            ("tools/call", json!({ "name": "a", "arguments": {} })),
            ("tools/list", json!({})),
            ("resources/read", json!({ "uri": "test://a" })),
            ("prompts/get", json!({ "name": "a" })),
        ];
        let start = |(method, params)| {
            Box::pin(client.request::<Value>(method, &params).on_progress(|_| {}).into_future())
        };
        let calls = methods.map(start).into();
        let (connections, written, ends) = (Vec::new(), 0, CallEnds::default());
        let listener = Some(listener);
        Self { transport, shard, client, listener, connections, written, calls, ends }
    }

    /// Lets the client act, and polls the calls.
    fn turn(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let ends = &mut self.ends;
        self.calls.retain_mut(|call| {
            match call.as_mut().poll(&mut context) {
                Poll::Pending => return true,
                Poll::Ready(Ok(_)) => ends.answered += 1,
                Poll::Ready(Err(_)) => ends.failed += 1,
            }
            false
        });
        assert_eq!(self.shard.run_turn(ParkTimeout::Zero), TurnStatus::Continue, "it has ended");
        if let Some(listener) = &self.listener {
            while let Some(connection) = listener.accept() {
                self.connections.push((connection, false, false));
            }
        }
        self.connections.retain_mut(|(connection, is_asked, is_upgraded)| {
            let received = connection.take_received();
            let is_upgrade = self.transport == FuzzTransport::WebSocket && !*is_upgraded;
            if is_upgrade && !received.is_empty() {
                *is_upgraded = true;
                connection.write(&accept_upgrade(&received));
            } else {
                *is_asked |= !received.is_empty();
            }
            let has_ended = connection.is_reset() || connection.is_at_end();
            if has_ended {
                connection.close();
            }
            !has_ended
        });
    }

    /// Writes a piece on one of the connections, in turns.
    fn write(&mut self, piece: &[u8]) {
        self.written += 1;
        let asked = self.connections.iter().position(|connection| connection.1);
        let index = asked.unwrap_or_else(|| self.written % self.connections.len().max(1));
        if let Some((connection, is_asked, _)) = self.connections.get_mut(index) {
            *is_asked = false;
            connection.write(piece);
        }
        self.advance();
    }

    /// Lets time pass until the next event or timeout: the only ring advances it.
    fn advance(&mut self) {
        self.shard.run_turn(ParkTimeout::Infinite);
    }

    /// Closes the connections and accepts no others.
    fn end_server(&mut self) {
        for (connection, ..) in self.connections.drain(..) {
            connection.close();
        }
        if let Some(listener) = self.listener.take() {
            listener.close();
        }
    }

    /// Closes the client.
    fn close(mut self) -> CallEnds {
        self.end_server();
        drop((self.calls, self.client));
        for _ in 0..ROUNDS_MAX {
            if self.shard.run_turn(ParkTimeout::Infinite) == TurnStatus::Finished {
                let held = self.shard.driver().held_objects();
                assert_eq!(held, 0, "objects are held at the end");
                return self.ends;
            }
        }
        panic!("the client does not end: {:?}", self.shard.ring().resource_usage());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_base::random::Random;

    /// What a server may send. The handshake has id 5: the calls are made before it.
    const MESSAGES: [&str; 7] = [
        r#"{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete",
            "supportedVersions":["2026-07-28"],
            "capabilities":{"tools":{},"resources":{},"prompts":{}}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,
            "progress":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"a"}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required",
            "requestState":"s"}}"#,
        r#"{"jsonrpc":"2.0","id":4,"result":{"messages":[]}}"#,
    ];

    /// The messages as `transport` carries them.
    fn stream(transport: FuzzTransport) -> Vec<u8> {
        let frame = |line: &str| match transport {
            FuzzTransport::Lines => format!("{line}\n").into_bytes(),
            FuzzTransport::WebSocket => {
                let length = u8::try_from(line.len()).ok().filter(|length| *length < 126);
                if let Some(length) = length {
                    return [&[0x81, length], line.as_bytes()].concat();
                }
                let length = u16::try_from(line.len()).unwrap().to_be_bytes();
                [&[0x81, 0x7E], &length[..], line.as_bytes()].concat()
            }
            FuzzTransport::Http => {
                let body = format!("id: 1\ndata: {line}\n\n");
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length";
                format!("{head}: {}\r\n\r\n{body}", body.len()).into_bytes()
            }
        };
        MESSAGES.iter().flat_map(|message| frame(&message.replace('\n', ""))).collect()
    }

    #[test]
    fn damaged_server_output_ends_each_call() {
        for transport in FuzzTransport::ALL {
            let mut ends = CallEnds::default();
            for seed in 0..60 {
                let mut random = Random::seeded(seed);
                let mut stream = stream(transport);
                for _ in 0..random.below(4) {
                    let at = random.below(stream.len());
                    match random.below(3) {
                        0 => stream[at] = random.next_u64().to_le_bytes()[0],
                        1 => drop(stream.remove(at)),
                        _ => stream.truncate(at.max(1)),
                    }
                }
                let run = run_client(transport, &stream, 1 + random.below(200));
                assert_eq!(run.answered + run.failed, CALLS);
                ends.answered += run.answered;
                ends.failed += run.failed;
            }
            assert!(ends.failed > 0, "{transport:?}: {ends:?}");
            // Over HTTP the responses arrive before their requests, and answer none.
            let is_http = transport == FuzzTransport::Http;
            assert_eq!(ends.answered == 0, is_http, "{transport:?}: {ends:?}");
        }
    }

    #[test]
    fn frames_do_not_depend_on_split() {
        let text = b"\x81\x02{}\x01\x01[\x89\x01p\x80\x01]\x88\x02\x03\xE8";
        for length in 1..=text.len() {
            let (messages, error) = check_frames(text, length);
            assert_eq!(messages, [b"{}", b"[]"]);
            assert!(error.unwrap().contains("close code 1000"));
        }
        for seed in 0..300 {
            let mut random = Random::seeded(seed);
            let mut stream = text.to_vec();
            let at = random.below(stream.len());
            stream[at] = random.next_u64().to_le_bytes()[0];
            check_frames(&stream, 1 + random.below(5));
        }
    }
}
