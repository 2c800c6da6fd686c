//! A shard keeps the buffers of large messages for the next ones, counts them, and frees them.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use corelane::internal::{MemoryReport, Shard};
use corelane::{Catalog, Options, Server, Tool, Transport};
use corelane_engine::clock::Clock;
use corelane_engine::ring::poll::PollRing;
use corelane_engine::ring::{ParkTimeout, RingOptions};
use corelane_engine::shard_loop::{ShardLoop, TurnStatus};
use corelane_protocol::model::Implementation;
use corelane_test_support::alloc_counter::{allocated_bytes, held_bytes};
use corelane_test_support::messages::{LEGACY, call, echo, modern};
use corelane_test_support::websocket::text_frame;
use corelane_test_support::{HttpClient, LineClient, Request, WebSocketClient};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::build_shard_with;

const MIB: usize = 1 << 20;

/// Length of the argument of a large message.
const MESSAGE_BYTES: usize = 6 * MIB;

/// Messages until the buffers have the sizes that the next ones need.
const WARM: usize = 4;

/// Messages whose allocations count.
const MEASURED: usize = 4;

/// The longest turn of an idle shard.
const TURN_MAX: Duration = Duration::from_millis(10);

/// Turns until kept memory is freed, each of at most [`TURN_MAX`].
const IDLE_TURNS_MAX: usize = 6_000;

type TestShard = ShardLoop<PollRing, Shard>;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// The demo tools, and `length`, whose result is short.
fn catalog() -> Result<Catalog, Box<dyn Error>> {
    let builder = Catalog::builder(Implementation::new("alloc", "1"));
    let length = Tool::new("length").inline(|Text { text }: Text, _| text.len().to_string());
    Ok(corelane::internal::demo::add_services(builder).tools([length]).build()?)
}

fn shard(transport: Transport, options: Options) -> (TestShard, SocketAddr) {
    let ring = PollRing::new(&RingOptions::default(), Clock::start()).expect("a ring opens");
    let server = Server::builder(catalog().expect("a catalog")).options(options);
    build_shard_with(ring, transport, &server).expect("a shard")
}

/// A client on a thread of its own, and the number of its calls that were answered.
struct Client {
    thread: JoinHandle<()>,
    answered: Arc<AtomicUsize>,
}

impl Client {
    /// Starts a client that exchanges each of the messages that `messages` makes on its thread.
    fn start(
        messages: impl FnOnce() -> Vec<Value> + Send + 'static,
        open: impl FnOnce() -> Box<dyn FnMut(&Value)> + Send + 'static,
    ) -> Self {
        let answered = Arc::new(AtomicUsize::new(0));
        let count = answered.clone();
        let thread = thread::spawn(move || {
            let mut exchange = open();
            for message in messages() {
                exchange(&message);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { thread, answered }
    }

    /// Runs the shard until this many calls are answered.
    fn run(&self, shard: &mut TestShard, calls: usize) {
        while self.answered.load(Ordering::SeqCst) < calls {
            assert!(!self.thread.is_finished() || self.answered.load(Ordering::SeqCst) >= calls);
            run_turn(shard);
        }
    }
}

fn run_turn(shard: &mut TestShard) {
    assert_eq!(shard.run_turn(ParkTimeout::After(TURN_MAX)), TurnStatus::Continue);
}

fn kept_bytes(shard: &TestShard) -> usize {
    MemoryReport::from(shard.driver()).accounted.kept
}

fn echoes(count: usize) -> Vec<Value> {
    (0..count).map(|id| echo(id, &"x".repeat(MESSAGE_BYTES))).collect()
}

fn over_lines(address: SocketAddr) -> Box<dyn FnMut(&Value)> {
    let mut client = LineClient::connect(address);
    Box::new(move |message| {
        client.send(modern(message.clone()));
        let line = client.receive_line().expect("a response");
        assert!(line.contains("\"result\":"), "{}", &line[..line.len().min(300)]);
    })
}

fn over_http(address: SocketAddr) -> Box<dyn FnMut(&Value)> {
    let mut client = HttpClient::connect(address);
    Box::new(move |message| {
        let response = client.exchange(&Request::modern(&modern(message.clone())));
        assert_eq!(response.head.status, 200);
    })
}

fn over_websocket(address: SocketAddr) -> Box<dyn FnMut(&Value)> {
    let mut client = WebSocketClient::initialize(address, LEGACY);
    Box::new(move |message| {
        client.send_bytes(&text_frame(message));
        assert!(client.read_text().contains("\"result\":"));
    })
}

#[test]
fn large_messages_reuse_buffers() {
    let mut too_many = Vec::new();
    for (name, transport, open) in [
        ("lines", Transport::Tcp, over_lines as fn(SocketAddr) -> _),
        ("HTTP", Transport::Http, over_http),
        ("WebSocket", Transport::Http, over_websocket),
    ] {
        let (mut shard, address) = shard(transport, Options::default());
        let client = Client::start(|| echoes(WARM + MEASURED), move || open(address));
        client.run(&mut shard, WARM);
        let before = allocated_bytes();
        client.run(&mut shard, WARM + MEASURED);
        let each = (allocated_bytes() - before) / MEASURED;
        if each >= MESSAGE_BYTES {
            too_many.push(format!("{name}: {each} bytes a message"));
        }
        drop(shard);
        client.thread.join().unwrap();
    }
    assert!(too_many.is_empty(), "{too_many:?}");
}

#[test]
fn kept_buffers_are_counted_until_idle() {
    let (mut shard, address) = shard(Transport::Tcp, Options::default());
    let held_before = held_bytes();
    // The response to the small call is sent once the buffers of the large ones are free.
    let messages = || [echoes(WARM), vec![echo(WARM, "small")]].concat();
    let client = Client::start(messages, move || over_lines(address));
    client.run(&mut shard, WARM + 1);
    let kept = kept_bytes(&shard);
    let held = held_bytes() - held_before;
    assert!(kept > 2 * MESSAGE_BYTES);
    let difference = (kept.cast_signed() - held).abs();
    assert!(difference * 10 <= held, "{kept} of {held} bytes");
    for _ in 0..IDLE_TURNS_MAX {
        if kept_bytes(&shard) == 0 {
            break;
        }
        run_turn(&mut shard);
    }
    assert_eq!(kept_bytes(&shard), 0);
    assert!(held_bytes() - held_before < MIB.cast_signed());
    client.thread.join().unwrap();
}

#[test]
fn kept_buffers_give_way_to_message() {
    let mut options = Options::default();
    options.limits.memory_bytes_max = 17 * MIB;
    let (mut shard, address) = shard(Transport::Tcp, options);
    let length = |bytes| call(0, "length", json!({"text": "x".repeat(bytes)}));
    let messages = move || [[MESSAGE_BYTES; WARM].as_slice(), &[14 * MIB]].concat();
    let client = Client::start(
        move || messages().into_iter().map(length).collect(),
        move || over_lines(address),
    );
    client.run(&mut shard, WARM);
    assert!(kept_bytes(&shard) > MESSAGE_BYTES);
    client.run(&mut shard, WARM + 1);
    let accounted = MemoryReport::from(shard.driver()).accounted;
    assert!(accounted.total() <= 17 * MIB, "{accounted:?}");
    client.thread.join().unwrap();
}
