//! The stage of every test: a whole server with small rings, and how it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

use corelane::Catalog;
use corelane::engine::ring::RingOptions;
use corelane::observe::counters::Counters;
use corelane::protocol::message::{Elicitation, Field, Form, ServerInfo};
use corelane::server::options::RingBackend;
use corelane::server::{Handle, Options, Running, Server};
use corelane::service::{Live, NoArguments, Outcome, Resource, Tool, demo};
use serde_json::Value;

use crate::client::{Client, PATIENCE};
use crate::request::Request;

/// A running server that offers the demo services and the tools below.
pub(crate) struct Stage {
    running: Running,
    address: SocketAddr,
    gate: Arc<AtomicBool>,
    told: Receiver<&'static str>,
}

impl Stage {
    /// Starts a server.
    pub(crate) fn open(options: Options) -> Self {
        let gate = Arc::<AtomicBool>::default();
        let (tell, told) = mpsc::channel();
        let catalog = catalog(&gate, &tell);
        let running = Server::new(catalog).options(options).start().expect("a server that starts");
        let (_, address) = running.addresses()[0];
        Self { running, address, gate, told }
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection that has said nothing.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// What changes the server while it runs.
    pub(crate) fn handle(&self) -> Handle {
        self.running.handle()
    }

    /// Lets `hold` end, at any time from here on.
    pub(crate) fn open_gate(&self) {
        self.gate.store(true, Ordering::Relaxed);
    }

    /// Has it wait again.
    pub(crate) fn close_gate(&self) {
        self.gate.store(false, Ordering::Relaxed);
    }

    /// The next thing that a handler tells the test.
    pub(crate) fn told(&self) -> &'static str {
        self.told.recv_timeout(PATIENCE).expect("a handler that tells")
    }

    /// No handler may have anything to tell that the test does not know.
    #[track_caller]
    pub(crate) fn expect_nothing_told(&self) {
        assert_eq!(self.told.try_recv(), Err(TryRecvError::Empty));
    }

    /// Adds a tool that does nothing, which whoever listens hears of.
    pub(crate) fn grow(&self, name: &str) {
        let name = name.to_owned();
        let grown = self.handle().change(|catalog| catalog.tool(plain(name)));
        grown.expect("a catalog");
    }

    /// Asks how the server stands until that fits.
    pub(crate) fn until(&self, fits: impl Fn(&Value) -> bool) {
        let mut client = self.connect();
        for _ in 0..ASKED_MAX {
            let answer = client.ask(&Request::new("GET", "/status"));
            if fits(&answer.message()) {
                return;
            }
        }
        panic!("the server does not come to stand as it should");
    }

    /// Asks until no more than `connections` are open besides the one that asks.
    pub(crate) fn until_connections(&self, connections: u64) {
        self.until(|status| status["connections"] == connections + 1);
    }

    /// Begins to drain.
    pub(crate) fn drain(&self) {
        self.handle().drain();
    }

    /// Waits for the end. Every connection that was let in must be over by then.
    pub(crate) fn join(self) -> Counters {
        let counters = self.running.join().expect("no shard panics, whatever it was sent");
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
        let streams = &counters.subscriptions;
        assert_eq!(streams.opened, streams.ended, "{counters}");
        counters
    }

    /// Drains and waits for the end.
    pub(crate) fn close(self) -> Counters {
        self.drain();
        self.join()
    }
}

/// The length of what `long` answers: more than may wait for a client that does not read.
pub(crate) const LONG_BYTES: usize = 3 << 20;

/// How often the server is asked how it stands before the test fails: seconds.
const ASKED_MAX: usize = 200_000;

/// The demo services and:
///
/// | tool | does |
/// | --- | --- |
/// | `hold` | tells the test, tells its progress, then waits for the gate |
/// | `long` | the same, and answers at length |
/// | `stall` | tells the test, then has its shard do nothing else before the gate opens |
/// | `until-cancelled` | the same, but waits to be cancelled and tells the test that it was |
/// | `ask` | asks a question by form |
/// | `touch` | says that the resource `test://one` has changed |
fn catalog(gate: &Arc<AtomicBool>, tell: &Sender<&'static str>) -> Catalog {
    let builder = Catalog::builder(ServerInfo::new("http", "1.0.0"));
    let waiting = tell.clone();
    let (gate, stalling) = (Arc::clone(gate), tell.clone());
    let tools = [
        hold("hold", "held".to_owned(), &gate, tell),
        hold("long", "x".repeat(LONG_BYTES), &gate, tell),
        Tool::new("stall").inline(move |_: NoArguments, answer| {
            stalling.send("begun").ok();
            while !gate.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            answer.text("stalled");
            Ok(())
        }),
        Tool::new("until-cancelled").local(move |_: NoArguments, live: Live| {
            let tell = waiting.clone();
            async move {
                live.progress(1.0, None, Some("begun"));
                tell.send("begun").ok();
                live.cancelled().await;
                tell.send("cancelled").ok();
                Ok(Outcome::text("cancelled"))
            }
        }),
        Tool::new("ask").local(|_: NoArguments, live: Live| async move {
            let form = Form::new().field(Field::text("name").required());
            let answer = live.elicit("name", Elicitation::form("What is your name?", form)).await?;
            let name = answer.content.get("name").and_then(Value::as_str);
            Ok(Outcome::text(format!("Hello, {}!", name.unwrap_or("stranger"))))
        }),
        Tool::new("touch").local(|_: NoArguments, live: Live| async move {
            live.updated("test://one");
            Ok(Outcome::text("touched"))
        }),
    ];
    let resource = Resource::new("test://one", "one").text("text");
    let catalog = demo::offer(builder).tools(tools).resources([resource]).build();
    catalog.expect("services that fit together")
}

/// A tool that waits for the gate before it answers with `text`.
fn hold(
    name: &'static str,
    text: String,
    gate: &Arc<AtomicBool>,
    tell: &Sender<&'static str>,
) -> Tool {
    let (gate, tell) = (Arc::clone(gate), tell.clone());
    Tool::new(name).local(move |_: NoArguments, live: Live| {
        let (gate, tell, text) = (Arc::clone(&gate), tell.clone(), text.clone());
        async move {
            live.progress(1.0, None, Some("begun"));
            tell.send("begun").ok();
            while !gate.load(Ordering::Relaxed) {
                live.sleep(Duration::from_millis(1)).await?;
            }
            Ok(Outcome::text(text))
        }
    })
}

/// A tool that does nothing.
fn plain(name: String) -> Tool {
    Tool::new(name).inline(|_: NoArguments, answer| {
        answer.text("plain");
        Ok(())
    })
}

/// Default bounds but for a short drain, one shard, a free port, and a ring that fits many to a
/// machine.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.tcp.address = None;
    options.http.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.engine.shards = Some(1);
    options.engine.drain_max = Duration::from_secs(5);
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

/// Runs a test once over each ring.
pub(crate) fn over_each_ring(test: impl Fn(Options)) {
    for ring in [RingBackend::Uring, RingBackend::Poll] {
        // Shown where the test fails.
        eprintln!("over {ring:?}");
        let mut options = options();
        options.engine.ring = ring;
        test(options);
    }
}

/// Runs a test over each ring, on one shard and on two.
pub(crate) fn on_one_shard_and_two(test: impl Fn(Options)) {
    for shards in [1, 2] {
        eprintln!("with {shards} shards");
        over_each_ring(|mut options| {
            options.engine.shards = Some(shards);
            test(options);
        });
    }
}
