//! The memory account of a shard is at least nine tenths of what the shard has allocated for its
//! peers: what they hold, by kind, and the places of their connections.
//!
//! Both are compared as differences between few and many peers of a kind, so that what a shard
//! allocates once does not count.

use std::any::Any;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use corelane::internal::{MemoryReport, Shard};
use corelane::{CallToolResult, Catalog, HandlerError, RequestContext, Tool, Transport};
use corelane_engine::clock::Clock;
use corelane_engine::ring::poll::PollRing;
use corelane_engine::ring::{ParkTimeout, Ring, RingOptions};
use corelane_engine::shard_loop::{ShardLoop, TurnStatus};
use corelane_protocol::model::Implementation;
use corelane_test_support::alloc_counter::held_bytes;
use corelane_test_support::messages::{LEGACY, call, echo, initialize, listen, modern};
use corelane_test_support::websocket::text_frame;
use corelane_test_support::{HttpClient, LineClient, Request, WebSocketClient};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::server::build_shard_of;

/// Turns until the shard has received what the client has sent.
const TURNS_MAX: usize = 10_000;

/// The longest turn of an idle shard.
const TURN_MAX: Duration = Duration::from_millis(10);

/// What a client keeps open, until the scene ends.
type Open = Box<dyn Any + Send>;

/// A kind of peers, and what one of them makes the shard hold.
struct Scene {
    name: &'static str,
    transport: Transport,
    /// Few of them, and how many more.
    peers: [usize; 2],
    /// Opens a peer; returns the bytes that it makes the shard hold at least.
    open: fn(SocketAddr, usize) -> (Open, usize),
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

const SCENES: [Scene; 6] = [
    Scene { name: "half lines", transport: Transport::Tcp, peers: [8, 64], open: half_line },
    Scene { name: "half bodies", transport: Transport::Http, peers: [8, 64], open: half_body },
    Scene { name: "half frames", transport: Transport::Http, peers: [8, 64], open: half_frame },
    Scene { name: "sessions", transport: Transport::Http, peers: [128, 1024], open: idle_session },
    Scene { name: "subscriptions", transport: Transport::Tcp, peers: [4, 32], open: subscription },
    Scene { name: "running calls", transport: Transport::Tcp, peers: [8, 64], open: running_call },
];

#[derive(Deserialize, JsonSchema)]
struct Held {
    text: String,
}

/// The demo tools, and `hold`, which keeps its argument.
fn catalog() -> Result<Catalog, Box<dyn Error>> {
    let builder = Catalog::builder(Implementation::new("alloc", "1"));
    let hold = Tool::new("hold").local(|held: Held, ctx: RequestContext| async move {
        ctx.sleep(Duration::from_hours(1)).await?;
        Ok::<_, HandlerError>(CallToolResult::text(held.text))
    });
    Ok(corelane::internal::demo::add_services(builder).tools([hold]).build()?)
}

/// What a shard has allocated, and what it has accounted.
#[derive(Clone, Copy, Debug)]
struct Measured {
    allocated: isize,
    accounted: isize,
}

fn measure<R: Ring>(shard: &ShardLoop<R, Shard>) -> Measured {
    let report = MemoryReport::from(shard.driver());
    let accounted = report.accounted.total() + report.places;
    Measured { allocated: held_bytes(), accounted: accounted.cast_signed() }
}

/// Opens peers on another thread, and runs the shard until it holds what they have sent.
fn open_peers<R: Ring>(
    shard: &mut ShardLoop<R, Shard>,
    address: SocketAddr,
    scene: &Scene,
    range: std::ops::Range<usize>,
) -> Vec<Open> {
    let before = MemoryReport::from(shard.driver()).accounted.total();
    let (opened_tx, opened_rx) = mpsc::channel();
    let open = scene.open;
    thread::spawn(move || {
        let opened: Vec<(Open, usize)> = range.map(|index| open(address, index)).collect();
        opened_tx.send(opened).ok();
    });
    let (mut opened, mut least) = (None, 0);
    for _ in 0..TURNS_MAX {
        assert_eq!(shard.run_turn(ParkTimeout::After(TURN_MAX)), TurnStatus::Continue);
        if opened.is_none() {
            opened = opened_rx.try_recv().ok();
            least = opened.iter().flatten().map(|(_, bytes)| bytes).sum();
        }
        let held = MemoryReport::from(shard.driver()).accounted.total();
        if opened.is_some() && held >= before + least {
            break;
        }
    }
    let opened = opened.expect("all peers are open");
    opened.into_iter().map(|(open, _)| open).collect()
}

#[test]
fn account_covers_what_peers_allocate() {
    let mut too_low = Vec::new();
    for scene in SCENES {
        let ring = PollRing::new(&RingOptions::default(), Clock::start()).unwrap();
        let (mut shard, address) =
            build_shard_of(ring, scene.transport, catalog().unwrap()).unwrap();
        let [few, more] = scene.peers;
        let first = open_peers(&mut shard, address, &scene, 0..few);
        let before = measure(&shard);
        let rest = open_peers(&mut shard, address, &scene, few..few + more);
        let after = measure(&shard);
        drop((first, rest));
        let allocated = after.allocated - before.allocated;
        let accounted = after.accounted - before.accounted;
        let line = format!("{}: {accounted} of {allocated} bytes for {more}", scene.name);
        if accounted * 10 < allocated * 9 {
            too_low.push(line);
        }
    }
    assert!(too_low.is_empty(), "{too_low:?}");
}
