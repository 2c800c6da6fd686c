//! The memory account of a shard is what the shard has allocated for its peers, within a tenth:
//! what they hold, by kind, and the places of the tables that have them.
//!
//! Both are compared as differences between few and many peers of a kind, so that what a shard
//! allocates once does not count.

use std::any::Any;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::internal::{MemoryReport, Shard};
use corelane::{
    BlockingContext, CallToolResult, Catalog, HandlerError, RequestContext, Server, TaskSupport,
    Tool, Transport,
};
use corelane_engine::clock::Clock;
use corelane_engine::ring::poll::PollRing;
use corelane_engine::ring::{ParkTimeout, Ring, RingOptions};
use corelane_engine::shard_loop::{ShardLoop, TurnStatus};
use corelane_protocol::model::Implementation;
use corelane_test_support::alloc_counter::held_bytes;
use corelane_test_support::messages::{
    LEGACY, call, echo, initialize, listen, modern, with_progress,
};
use corelane_test_support::websocket::text_frame;
use corelane_test_support::{HttpClient, LineClient, Request, WebSocketClient};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::build_shard_with;

/// Turns until the shard has received what the client has sent.
const TURNS_MAX: usize = 10_000;

/// The longest turn of an idle shard.
const TURN_MAX: Duration = Duration::from_millis(10);

/// What a client keeps open, until the scene ends.
pub(super) type Open = Box<dyn Any + Send>;

/// A kind of peers, and what one of them makes the shard hold.
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) transport: Transport,
    /// Few of them, and how many more.
    pub(super) peers: [usize; 2],
    /// Bytes of each that are not allocated by Rust.
    pub(super) foreign_bytes: usize,
    /// Opens a peer; returns the bytes that it makes the shard hold at least.
    pub(super) open: fn(SocketAddr, usize) -> (Open, usize),
}

/// A length between 70 KB and 370 KB.
const fn length_of(index: usize) -> usize {
    70_000 + index * 49_993 % 300_000
}

fn half_line(address: SocketAddr, index: usize) -> (Open, usize) {
    let mut client = LineClient::connect(address);
    client.send_bytes(&vec![b' '; length_of(index)]);
    (Box::new(client), length_of(index))
}

fn half_body(address: SocketAddr, index: usize) -> (Open, usize) {
    let mut client = LineClient::connect(address);
    let request = Request::modern(&modern(echo(1, &"x".repeat(length_of(index))))).bytes();
    client.send_bytes(&request[..request.len() - 100]);
    (Box::new(client), length_of(index))
}

fn half_frame(address: SocketAddr, index: usize) -> (Open, usize) {
    let mut client = WebSocketClient::initialize(address, LEGACY);
    let frame = text_frame(echo(1, &"x".repeat(length_of(index))));
    client.send_bytes(&frame[..frame.len() - 100]);
    (Box::new(client), length_of(index))
}

fn idle_session(address: SocketAddr, _: usize) -> (Open, usize) {
    let mut client = HttpClient::connect(address).with_revision(LEGACY);
    client.exchange(&Request::post(initialize(0, LEGACY)));
    (Box::new(()), 0)
}

fn subscription(address: SocketAddr, index: usize) -> (Open, usize) {
    let mut client = LineClient::connect(address);
    let uris: Vec<String> = (0..200).map(|uri| format!("test://{index}/{uri:0100}")).collect();
    client.exchange(listen(1, json!({"resourceSubscriptions": uris})));
    (Box::new(client), 0)
}

fn running_call(address: SocketAddr, _: usize) -> (Open, usize) {
    let mut client = LineClient::connect(address);
    client.handshake(LEGACY);
    client.send(call(1, "hold", json!({"text": "x".repeat(32 << 10)})));
    (Box::new(client), 32 << 10)
}

fn connection(address: SocketAddr, _: usize) -> (Open, usize) {
    let mut client = LineClient::connect(address);
    client.handshake(LEGACY);
    (Box::new(client), 0)
}

/// Begins a session, and returns a request of it.
fn begin_session(client: &mut HttpClient, request: Request) -> Request {
    let response = client.exchange(&Request::post(initialize(0, LEGACY)));
    let id = response.head.field("Mcp-Session-Id").expect("a session");
    request.field("Mcp-Session-Id", id)
}

fn listening_session(address: SocketAddr, _: usize) -> (Open, usize) {
    let mut client = HttpClient::connect(address).with_revision(LEGACY);
    let listen = begin_session(
        &mut client,
        Request::new("GET", "/mcp").field("Accept", "text/event-stream"),
    );
    client.request_stream(&listen);
    (Box::new(client), 0)
}

/// A session with a stream that has events, and whose connection has broken.
fn stored_events(address: SocketAddr, _: usize) -> (Open, usize) {
    let mut client = HttpClient::connect(address).with_revision(LEGACY);
    let steps = with_progress(call(1, "steps", json!({"text": "x".repeat(1 << 10)})));
    let steps = begin_session(&mut client, Request::post(steps));
    client.request_stream(&steps);
    // The first event has no data.
    for _ in 0..=STEPS {
        client.read_event().expect("an event");
    }
    (Box::new(()), STEPS << 10)
}

fn calls_of(address: SocketAddr, tool: &str, text_bytes: usize) -> (Open, usize) {
    let mut client = LineClient::connect(address);
    client.handshake(LEGACY);
    for id in 1..=CALLS {
        client.send(call(id, tool, json!({"text": "x".repeat(text_bytes)})));
    }
    client.ping();
    (Box::new(client), 0)
}

fn small_calls(address: SocketAddr, _: usize) -> (Open, usize) {
    calls_of(address, "hold", 1)
}

/// Arguments count as JSON values, which take more than small ones of a handler.
fn blocking_calls(address: SocketAddr, _: usize) -> (Open, usize) {
    calls_of(address, "block", 4 << 10)
}

fn modern_calls(address: SocketAddr, _: usize) -> (Open, usize) {
    let mut client = LineClient::connect(address);
    for id in 1..=CALLS {
        client.send(modern(call(id, "hold", json!({"text": "x"}))));
    }
    client.exchange(modern(echo(0, "x")));
    (Box::new(client), 0)
}

fn many_addresses(address: SocketAddr, index: usize) -> (Open, usize) {
    let [high, low] = u16::try_from(index + 1).expect("few peers").to_be_bytes();
    let mut client = HttpClient::connect_from([127, 1, high, low].into(), address);
    client = client.with_revision(LEGACY);
    client.exchange(&Request::post(initialize(0, LEGACY)));
    (Box::new(()), 0)
}

/// Begins tasks whose text is of this length.
fn begin_tasks(address: SocketAddr, tool: &str, text_bytes: usize) -> LineClient {
    let mut client = LineClient::connect(address);
    client.handshake(LEGACY);
    for id in 1..=TASKS {
        let mut request = call(id, tool, json!({"text": "x".repeat(text_bytes)}));
        request["params"]["task"] = json!({});
        client.send(request);
    }
    let is_task = |message: &Value| message["result"]["task"].is_object();
    let mut begun = 0;
    while begun < TASKS {
        begun += usize::from(is_task(&client.receive()));
    }
    client
}

fn running_tasks(address: SocketAddr, _: usize) -> (Open, usize) {
    (Box::new(begin_tasks(address, "hold", 1)), 0)
}

fn ended_tasks(address: SocketAddr, _: usize) -> (Open, usize) {
    (Box::new(begin_tasks(address, "say", 1)), 0)
}

fn task_results(address: SocketAddr, _: usize) -> (Open, usize) {
    (Box::new(begin_tasks(address, "say", 4 << 10)), TASKS << 12)
}

fn parity_session(address: SocketAddr, keys: usize) -> LineClient {
    let mut client = LineClient::connect(address);
    let capabilities = json!({"tools": true});
    client.send(json!({
        "type": "handshake", "protocolVersion": "1.0", "capabilities": capabilities,
    }));
    for id in 1..=keys {
        let key = format!("key-{id:050}");
        client.send(json!({"type": "request", "id": id, "method": "ping", "idempotencyKey": key}));
    }
    for _ in 0..=keys {
        let answer = client.receive_line().expect("an answer");
        assert!(!answer.contains("error"), "{answer}");
    }
    client
}

fn parity_sessions(address: SocketAddr, _: usize) -> (Open, usize) {
    (Box::new(parity_session(address, 0)), 0)
}

fn idempotency_keys(address: SocketAddr, index: usize) -> (Open, usize) {
    (Box::new(parity_session(address, 50 + index * 13 % 150)), 0)
}

fn large_line(address: SocketAddr, index: usize) -> (Open, usize) {
    let mut client = LineClient::connect(address);
    let bytes = (1 << 20) + length_of(index);
    client.send_bytes(&vec![b' '; bytes]);
    (Box::new(client), bytes)
}

/// Responses that the client does not read.
fn unread_output(address: SocketAddr, _: usize) -> (Open, usize) {
    let mut client = LineClient::connect_with_buffers(address, 4 << 10);
    client.handshake(LEGACY);
    for id in 1..=8 {
        client.send(echo(id, &"x".repeat(100_000)));
    }
    (Box::new(client), 0)
}

/// Messages to each peer of a scene.
const STEPS: usize = 8;
const CALLS: usize = 64;
const TASKS: usize = 32;

const fn over_tcp(
    name: &'static str,
    peers: [usize; 2],
    open: fn(SocketAddr, usize) -> (Open, usize),
) -> Scene {
    Scene { name, transport: Transport::Tcp, peers, foreign_bytes: 0, open }
}

const fn over_http(
    name: &'static str,
    peers: [usize; 2],
    open: fn(SocketAddr, usize) -> (Open, usize),
) -> Scene {
    Scene { name, transport: Transport::Http, peers, foreign_bytes: 0, open }
}

const SCENES: [Scene; 21] = [
    over_tcp("connections", [128, 512], connection),
    over_tcp("half lines", [8, 64], half_line),
    over_http("half bodies", [8, 64], half_body),
    over_http("half frames", [8, 64], half_frame),
    over_tcp("large lines", [4, 12], large_line),
    over_tcp("unread output", [4, 24], unread_output),
    over_http("sessions", [128, 1024], idle_session),
    over_http("listening sessions", [32, 256], listening_session),
    over_http("events", [8, 64], stored_events),
    over_tcp("subscriptions", [4, 32], subscription),
    over_tcp("running calls", [8, 64], running_call),
    over_tcp("small calls", [4, 24], small_calls),
    over_tcp("modern calls", [4, 24], modern_calls),
    over_tcp("blocking calls", [1, 7], blocking_calls),
    over_http("many sessions", [128, 1_800], idle_session),
    over_http("many addresses", [128, 1024], many_addresses),
    over_tcp("running tasks", [4, 24], running_tasks),
    over_tcp("ended tasks", [4, 24], ended_tasks),
    over_tcp("task results", [4, 24], task_results),
    over_tcp("parity sessions", [32, 256], parity_sessions),
    over_tcp("idempotency keys", [8, 64], idempotency_keys),
];

#[derive(Deserialize, JsonSchema)]
struct Held {
    text: String,
}

/// The demo tools; `hold`, which keeps its argument; `say`, which returns it; and `steps`, which
/// keeps it and sends it as progress; `block` waits on a thread.
pub(super) fn catalog() -> Result<Catalog, Box<dyn Error>> {
    let builder = Catalog::builder(Implementation::new("alloc", "1"));
    let optional = TaskSupport::Optional;
    let hold = Tool::new("hold").task_support(optional);
    let hold = hold.local(|held: Held, ctx: RequestContext| async move {
        ctx.sleep(Duration::from_hours(1)).await?;
        Ok::<_, HandlerError>(CallToolResult::text(held.text))
    });
    let say = Tool::new("say").task_support(optional);
    let say =
        say.local(
            |held: Held, _| async move { Ok::<_, HandlerError>(CallToolResult::text(held.text)) },
        );
    let block = Tool::new("block").blocking(|held: Held, ctx: BlockingContext| {
        while !ctx.is_cancelled() {
            thread::park_timeout(Duration::from_millis(10));
        }
        Ok::<_, HandlerError>(CallToolResult::text(held.text))
    });
    let steps = Tool::new("steps").local(|held: Held, ctx: RequestContext| async move {
        for step in 1..=u32::try_from(STEPS).unwrap_or_default() {
            ctx.progress(step.into(), None, Some(&held.text));
        }
        ctx.sleep(Duration::from_hours(1)).await?;
        Ok::<_, HandlerError>(CallToolResult::text(""))
    });
    Ok(corelane::internal::demo::add_services(builder).tools([hold, say, block, steps]).build()?)
}

/// Returns the ring that has the sockets of another one.
pub(super) type PollRingOf<R> = fn(&R) -> &PollRing;

/// What a shard has allocated, and what it has accounted.
#[derive(Clone, Copy, Debug)]
struct Measured {
    allocated: isize,
    accounted: isize,
}

fn measure<R: Ring>(shard: &ShardLoop<R, Shard>, poll_ring: PollRingOf<R>) -> Measured {
    let report = MemoryReport::from(shard.driver());
    let sockets = poll_ring(shard.ring()).socket_bytes();
    let accounted = report.accounted.total() + report.places + sockets;
    Measured { allocated: held_bytes(), accounted: accounted.cast_signed() }
}

/// Opens peers on another thread, and runs the shard until it holds what they have sent and no
/// longer changes.
pub(super) fn open_peers<R: Ring>(
    shard: &mut ShardLoop<R, Shard>,
    address: SocketAddr,
    scene: &Scene,
    range: std::ops::Range<usize>,
) -> Vec<Open> {
    let before = MemoryReport::from(shard.driver()).accounted.total();
    let (opened_tx, opened_rx) = mpsc::channel();
    let open = scene.open;
    let peers = thread::spawn(move || {
        let opened: Vec<(Open, usize)> = range.map(|index| open(address, index)).collect();
        opened_tx.send(opened).ok();
    });
    let (mut opened, mut least, mut settled, mut last) = (None, 0, 0, None);
    for _ in 0..TURNS_MAX {
        assert_eq!(shard.run_turn(ParkTimeout::After(TURN_MAX)), TurnStatus::Continue);
        if opened.is_none() {
            let is_finished = peers.is_finished();
            opened = opened_rx.try_recv().ok();
            assert!(opened.is_some() || !is_finished, "a peer is not open");
            least = opened.iter().flatten().map(|(_, bytes)| bytes).sum();
            continue;
        }
        let report = MemoryReport::from(shard.driver());
        settled = if last.replace(report) == Some(report) { settled + 1 } else { 0 };
        if report.accounted.total() >= before + least && settled >= SETTLED_TURNS {
            break;
        }
    }
    let opened = opened.expect("all peers are open");
    opened.into_iter().map(|(open, _)| open).collect()
}

/// Turns without a change after which the shard has received what its peers have sent.
const SETTLED_TURNS: usize = 5;

/// Measures a scene on a shard of `server`. Returns what was measured if account and allocation
/// differ.
fn find_difference(scene: &Scene, server: &Server) -> Option<String> {
    let ring = PollRing::new(&RingOptions::default(), Clock::start()).expect("a ring");
    let (shard, address) = build_shard_with(ring, scene.transport, server).expect("a shard");
    find_difference_on(scene, shard, address, |ring| ring)
}

/// Measures a scene on a shard.
pub(super) fn find_difference_on<R: Ring>(
    scene: &Scene,
    mut shard: ShardLoop<R, Shard>,
    address: SocketAddr,
    poll_ring: PollRingOf<R>,
) -> Option<String> {
    let [few, more] = scene.peers;
    let first = open_peers(&mut shard, address, scene, 0..few);
    let before = measure(&shard, poll_ring);
    let rest = open_peers(&mut shard, address, scene, few..few + more);
    let after = measure(&shard, poll_ring);
    drop((first, rest));
    let foreign = (more * scene.foreign_bytes).cast_signed();
    let allocated = after.allocated - before.allocated + foreign;
    let accounted = after.accounted - before.accounted;
    let is_wrong = (accounted - allocated).abs() * 10 > allocated;
    is_wrong.then(|| format!("{}: {accounted} of {allocated} bytes for {more}", scene.name))
}

#[test]
fn account_is_what_peers_allocate() {
    let server = || Server::builder(catalog().unwrap());
    let wrong: Vec<String> =
        SCENES.iter().filter_map(|scene| find_difference(scene, &server())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Accepts every token, whose caller has a claim.
struct EveryToken;

impl TokenVerifier for EveryToken {
    fn verify(&self, token: &str, _: u64) -> Result<Principal, TokenError> {
        let claims = serde_json::Map::from_iter([("team".to_owned(), "x".repeat(300).into())]);
        Ok(Principal::new(token).with_claims(&claims))
    }
}

fn caller_with_token(address: SocketAddr, index: usize) -> (Open, usize) {
    let mut client = HttpClient::connect(address);
    let request = Request::modern(&modern(echo(1, "a")));
    client.exchange(&request.field("Authorization", format!("Bearer {index:0100}")));
    (Box::new(()), 300)
}

#[test]
fn account_has_verified_tokens() {
    let server = Server::builder(catalog().unwrap()).token_verifier(EveryToken);
    let scene = over_http("verified tokens", [128, 1_500], caller_with_token);
    assert_eq!(find_difference(&scene, &server), None);
}
