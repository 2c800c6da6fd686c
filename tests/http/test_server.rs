//! `TestServer`: a server with small rings, the demo catalog and tools that tests control.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

use corelane::Catalog;
use corelane::engine::ring::RingOptions;
use corelane::protocol::model::{ElicitRequest, Field, Form, Implementation};
use corelane::server::options::RingBackend;
use corelane::server::{Handle, Options, Running, Server};
use corelane::service::{CallToolResult, NoArguments, RequestContext, Resource, Tool, demo};
use corelane::telemetry::counters::Counters;
use serde_json::Value;

use crate::request::Request;
use crate::test_client::{IO_TIMEOUT, TestClient};

/// A running server that offers the demo services and the tools of [`catalog`].
pub(crate) struct TestServer {
    running: Running,
    address: SocketAddr,
    gate: Arc<AtomicBool>,
    signals: Receiver<&'static str>,
}

impl TestServer {
    pub(crate) fn start(options: Options) -> Self {
        let gate = Arc::<AtomicBool>::default();
        let (signal_tx, signals) = mpsc::channel();
        let catalog = catalog(&gate, &signal_tx);
        let running = Server::new(catalog).options(options).start().expect("server starts");
        let (_, address) = running.addresses()[0];
        Self { running, address, gate, signals }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect(&self) -> TestClient {
        TestClient::connect(self.address)
    }

    pub(crate) fn handle(&self) -> Handle {
        self.running.handle()
    }

    /// Opens the gate: calls of `hold`, `long` and `stall` end from now on.
    pub(crate) fn open_gate(&self) {
        self.gate.store(true, Ordering::Relaxed);
    }

    /// Closes the gate: calls that start from now on wait again.
    pub(crate) fn close_gate(&self) {
        self.gate.store(false, Ordering::Relaxed);
    }

    /// Waits for the next signal that a handler sends to the test.
    pub(crate) fn next_signal(&self) -> &'static str {
        self.signals.recv_timeout(IO_TIMEOUT).expect("no signal from a handler")
    }

    #[track_caller]
    pub(crate) fn expect_no_signal(&self) {
        assert_eq!(self.signals.try_recv(), Err(TryRecvError::Empty));
    }

    /// Adds a tool to the catalog, which sends `notifications/tools/list_changed`.
    pub(crate) fn add_tool(&self, name: &str) {
        let name = name.to_owned();
        let changed = self.handle().update_catalog(|catalog| catalog.tool(plain_tool(name)));
        changed.expect("valid catalog");
    }

    /// Polls `/status` until `matches` accepts it.
    pub(crate) fn wait_for_status(&self, matches: impl Fn(&Value) -> bool) {
        let mut client = self.connect();
        for _ in 0..STATUS_POLLS_MAX {
            let response = client.exchange(&Request::new("GET", "/status"));
            if matches(&response.message()) {
                return;
            }
        }
        panic!("/status did not reach the expected state");
    }

    /// Waits until `connections` connections are open, not counting the one that polls.
    pub(crate) fn wait_for_connections(&self, connections: u64) {
        self.wait_for_status(|status| status["connections"] == connections + 1);
    }

    pub(crate) fn drain(&self) {
        self.handle().drain();
    }

    /// Waits until the server has stopped and checks that every accepted connection was closed.
    pub(crate) fn join(self) -> Counters {
        let counters = self.running.join().expect("a shard panicked");
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
        let streams = &counters.subscriptions;
        assert_eq!(streams.opened, streams.closed, "{counters}");
        counters
    }

    /// Drains the server and waits until it has stopped.
    pub(crate) fn close(self) -> Counters {
        self.drain();
        self.join()
    }
}

/// Length of the result of `long`; larger than the output buffer of a connection.
pub(crate) const LONG_BYTES: usize = 3 << 20;

/// Polls of `/status` before a test fails; they take several seconds.
const STATUS_POLLS_MAX: usize = 200_000;

/// The demo services and:
///
/// | tool | behaviour |
/// | --- | --- |
/// | `hold` | signals, sends progress, then waits for the gate |
/// | `long` | like `hold`, with a result of [`LONG_BYTES`] |
/// | `stall` | signals, then blocks its shard until the gate opens |
/// | `until-cancelled` | signals, sends progress, waits for cancellation and signals that |
/// | `ask` | sends a form elicitation |
/// | `touch` | notifies that the resource `test://one` was updated |
fn catalog(gate: &Arc<AtomicBool>, signal_tx: &Sender<&'static str>) -> Catalog {
    let builder = Catalog::builder(Implementation::new("http", "1.0.0"));
    let cancellation_tx = signal_tx.clone();
    let (gate, stall_tx) = (Arc::clone(gate), signal_tx.clone());
    let tools = [
        gated_tool("hold", "held".to_owned(), &gate, signal_tx),
        gated_tool("long", "x".repeat(LONG_BYTES), &gate, signal_tx),
        Tool::new("stall").inline(move |_: NoArguments, result| {
            stall_tx.send("begun").ok();
            while !gate.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            result.text("stalled");
            Ok(())
        }),
        Tool::new("until-cancelled").local(move |_: NoArguments, ctx: RequestContext| {
            let signal_tx = cancellation_tx.clone();
            async move {
                ctx.progress(1.0, None, Some("begun"));
                signal_tx.send("begun").ok();
                ctx.cancelled().await;
                signal_tx.send("cancelled").ok();
                Ok(CallToolResult::text("cancelled"))
            }
        }),
        Tool::new("ask").local(|_: NoArguments, ctx: RequestContext| async move {
            let form = Form::new().field(Field::text("name").required());
            let response =
                ctx.elicit("name", ElicitRequest::form("What is your name?", form)).await?;
            let name = response.content.get("name").and_then(Value::as_str);
            Ok(CallToolResult::text(format!("Hello, {}!", name.unwrap_or("stranger"))))
        }),
        Tool::new("touch").local(|_: NoArguments, ctx: RequestContext| async move {
            ctx.notify_resource_updated("test://one");
            Ok(CallToolResult::text("touched"))
        }),
    ];
    let resource = Resource::new("test://one", "one").text("text");
    let catalog = demo::add_services(builder).tools(tools).resources([resource]).build();
    catalog.expect("valid catalog")
}

/// A tool that signals, sends progress, waits for the gate and returns `text`.
fn gated_tool(
    name: &'static str,
    text: String,
    gate: &Arc<AtomicBool>,
    signal_tx: &Sender<&'static str>,
) -> Tool {
    let (gate, signal_tx) = (Arc::clone(gate), signal_tx.clone());
    Tool::new(name).local(move |_: NoArguments, ctx: RequestContext| {
        let (gate, signal_tx, text) = (Arc::clone(&gate), signal_tx.clone(), text.clone());
        async move {
            ctx.progress(1.0, None, Some("begun"));
            signal_tx.send("begun").ok();
            while !gate.load(Ordering::Relaxed) {
                ctx.sleep(Duration::from_millis(1)).await?;
            }
            Ok(CallToolResult::text(text))
        }
    })
}

fn plain_tool(name: String) -> Tool {
    Tool::new(name).inline(|_: NoArguments, result| {
        result.text("plain");
        Ok(())
    })
}

/// Default options with one shard, a free port, a short drain and a small ring.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.tcp.address = None;
    options.http.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.engine.shards = Some(1);
    options.engine.drain_timeout = Duration::from_secs(5);
    options.engine.ring_sizes = RingOptions {
        sockets_max: 256,
        submissions_max: 256,
        completions_max: 1024,
        receive_buffers: 64,
        receive_buffer_bytes: 4096,
        ..RingOptions::default()
    };
    options
}

pub(crate) fn over_each_ring(test: impl Fn(Options)) {
    for ring in [RingBackend::Uring, RingBackend::Poll] {
        // Printed when the test fails.
        eprintln!("ring: {ring:?}");
        let mut options = options();
        options.engine.ring = ring;
        test(options);
    }
}

/// Runs a test over each ring, on one shard and on two.
pub(crate) fn on_one_shard_and_two(test: impl Fn(Options)) {
    for shards in [1, 2] {
        eprintln!("shards: {shards}");
        over_each_ring(|mut options| {
            options.engine.shards = Some(shards);
            test(options);
        });
    }
}
