//! `TestServer`: a server on free ports of 127.0.0.1, with rings so small that many fit on a
//! machine, and tools that wait for the test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use corelane::internal::demo;
use corelane::model::Implementation;
use corelane::options::{RingBackend, RingOptions};
use corelane::{
    BlockingContext, Catalog, Counters, Handle, HandlerError, Options, RequestContext, Running,
    Server, StartError, Transport,
};
use serde_json::Value;

use crate::TIMEOUT;
use crate::http::{HttpClient, Request};
use crate::line_client::LineClient;

/// A running server. It is drained when it is dropped.
///
/// Checks when it ends: no shard panicked, every accepted connection was closed, and so was every
/// stream.
pub struct TestServer {
    /// `None` once joined.
    running: Option<Running>,
    gate: Gate,
    signals: Receiver<&'static str>,
}

impl TestServer {
    /// Starts a server with the demo tools.
    pub fn start(options: Options) -> Self {
        let catalog = demo::catalog(Implementation::new("test", "1.0.0"));
        Self::with_catalog(options, catalog.expect("valid catalog"))
    }

    /// Starts a server with the demo tools, if its options allow.
    ///
    /// # Errors
    ///
    /// As [`Server::start`].
    pub fn try_start(options: Options) -> Result<Running, StartError> {
        let catalog = demo::catalog(Implementation::new("test", "1.0.0"));
        Server::builder(catalog.expect("valid catalog")).options(options).start()
    }

    /// Starts a server with this catalog.
    pub fn with_catalog(options: Options, catalog: Catalog) -> Self {
        Self::with_gate(options, |_| catalog)
    }

    /// Starts a server whose tools wait at a gate.
    pub fn with_gate(options: Options, catalog: impl FnOnce(&Gate) -> Catalog) -> Self {
        for address in
            [options.tcp.address, options.http.address, options.admin.address].into_iter().flatten()
        {
            assert_eq!(address.port(), 0, "a test listens on free ports");
        }
        Self::with_server(|gate| Server::builder(catalog(gate)).options(options))
    }

    /// Starts the server that `build` returns.
    pub fn with_server(build: impl FnOnce(&Gate) -> Server) -> Self {
        let (signal_tx, signals) = mpsc::channel();
        let gate = Gate { is_open: Arc::default(), signal_tx };
        let server = build(&gate);
        Self { running: Some(server.start().expect("server starts")), gate, signals }
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server is not joined")
    }

    /// Returns the address of the first listener.
    pub fn address(&self) -> SocketAddr {
        self.running().addresses()[0].1
    }

    /// Returns the address of the TCP listener.
    pub fn tcp(&self) -> SocketAddr {
        self.address_of(Transport::Tcp)
    }

    /// Returns the address of the HTTP and WebSocket listener.
    pub fn http(&self) -> SocketAddr {
        self.address_of(Transport::Http)
    }

    /// Returns the address of the endpoints of operators.
    pub fn admin_address(&self) -> SocketAddr {
        self.running().admin_address().expect("it is set")
    }

    fn address_of(&self, transport: Transport) -> SocketAddr {
        let mut addresses = self.running().addresses().iter();
        addresses.find(|it| it.0 == transport).expect("the transport has a listener").1
    }

    /// Connects over TCP without sending anything.
    pub fn connect_tcp(&self) -> LineClient {
        LineClient::connect(self.tcp())
    }

    /// Opens TCP connections until one is accepted: a slot is freed shortly after its former peer
    /// has seen the end of its connection.
    pub fn connect_accepted(&self) -> LineClient {
        for _ in 0..CONNECTION_ATTEMPTS_MAX {
            let mut client = self.connect_tcp();
            client.send(r#"{"jsonrpc":"2.0","id":"in?","method":"ping"}"#);
            match client.receive_line_or_reset() {
                Some(line) if !line.contains("1001") => return client,
                _ => {}
            }
        }
        panic!("no connection slot was freed");
    }

    /// Connects over TCP and makes the handshake in `revision`.
    pub fn connect_initialized(&self, revision: &str) -> LineClient {
        let mut client = self.connect_tcp();
        client.handshake(revision);
        client
    }

    /// Connects over HTTP without sending anything.
    pub fn connect_http(&self) -> HttpClient {
        HttpClient::connect(self.http())
    }

    /// Returns the handle that changes the server while it runs.
    pub fn handle(&self) -> Handle {
        self.running().handle()
    }

    /// Opens the gate: calls that wait there end.
    pub fn open_gate(&self) {
        self.gate.is_open.store(true, Ordering::Relaxed);
    }

    /// Closes the gate: calls that start from now on wait again.
    pub fn close_gate(&self) {
        self.gate.is_open.store(false, Ordering::Relaxed);
    }

    /// Waits for the next signal that a handler sends to the test.
    pub fn next_signal(&self) -> &'static str {
        self.signals.recv_timeout(TIMEOUT).expect("no signal from a handler")
    }

    #[track_caller]
    pub fn expect_no_signal(&self) {
        assert_eq!(self.signals.try_recv(), Err(TryRecvError::Empty));
    }

    /// Polls `/status` until `matches` accepts it.
    pub fn wait_for_status(&self, matches: impl Fn(&Value) -> bool) {
        let mut client = self.connect_http();
        for _ in 0..STATUS_POLLS_MAX {
            let response = client.exchange(&Request::new("GET", "/status"));
            if matches(&response.message()) {
                return;
            }
        }
        panic!("/status did not reach the expected state");
    }

    /// Waits until `connections` connections are open, not counting the one that polls.
    pub fn wait_for_connections(&self, connections: u64) {
        self.wait_for_status(|status| status["connections"] == connections + 1);
    }

    /// Starts the drain without waiting for it.
    pub fn drain(&self) {
        self.handle().drain();
    }

    /// Waits until a draining server has stopped and returns its counters.
    pub fn join(mut self) -> Counters {
        let running = self.running.take().expect("the server is not joined");
        let counters = running.join().expect("no shard panics");
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
        let streams = &counters.subscriptions;
        assert_eq!(streams.opened, streams.closed, "{counters}");
        counters
    }

    /// Drains the server, waits until it has stopped and returns its counters.
    pub fn close(self) -> Counters {
        self.drain();
        self.join()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        self.open_gate();
        running.handle().drain();
        let ended = running.join();
        assert!(thread::panicking() || ended.is_ok(), "{ended:?}");
    }
}

/// Where handlers wait for the test, and send it signals.
#[derive(Clone)]
pub struct Gate {
    is_open: Arc<AtomicBool>,
    signal_tx: Sender<&'static str>,
}

impl Gate {
    /// Sends a signal to the test.
    pub fn signal(&self, signal: &'static str) {
        // The test may have ended.
        self.signal_tx.send(signal).ok();
    }

    /// Waits until the gate is open; the shard keeps running.
    pub async fn wait(&self, ctx: &RequestContext) -> Result<(), HandlerError> {
        while !self.is_open.load(Ordering::Relaxed) {
            ctx.sleep(Duration::from_millis(1)).await?;
        }
        Ok(())
    }

    /// Waits on a thread for blocking calls until the gate is open.
    pub fn wait_on_thread(&self, ctx: &BlockingContext) -> Result<(), HandlerError> {
        while !self.is_open.load(Ordering::Relaxed) {
            ctx.check_cancelled()?;
            thread::yield_now();
        }
        Ok(())
    }

    /// Blocks the shard until the gate is open.
    pub fn block_shard(&self) {
        while !self.is_open.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    }
}

/// Attempts to get a freed connection slot before a test fails; they take several seconds.
const CONNECTION_ATTEMPTS_MAX: usize = 10_000;

/// Polls of `/status` before a test fails; they take several seconds.
const STATUS_POLLS_MAX: usize = 200_000;

/// Options of one shard with small rings, five seconds for its drain and no listener.
fn small_options() -> Options {
    let mut options = Options::default();
    options.tcp.address = None;
    options.http.address = None;
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

/// Options of a small server that listens on a free port for TCP.
pub fn tcp_options() -> Options {
    let mut options = small_options();
    options.tcp.address = Some(FREE_PORT);
    options
}

/// Options of a small server that listens on a free port for HTTP and WebSocket.
pub fn http_options() -> Options {
    let mut options = small_options();
    options.http.address = Some(FREE_PORT);
    // A test on a busy machine may send its first message late.
    options.websocket.first_message_timeout = Duration::from_mins(1);
    options
}

/// Options of a small server that listens on free ports for HTTP, WebSocket and TCP.
pub fn http_and_tcp_options() -> Options {
    let mut options = http_options();
    options.tcp.address = Some(FREE_PORT);
    options
}

const FREE_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Runs `test` once with each ring backend, otherwise with `options`.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a temporary")]
pub fn over_each_ring(options: Options, test: impl Fn(Options)) {
    for ring in [RingBackend::Uring, RingBackend::Poll] {
        // Shown for a failed test.
        eprintln!("ring: {ring:?}");
        let mut options = options.clone();
        options.engine.ring = ring;
        test(options);
    }
}

/// Runs a test of HTTP over each ring, on one shard and on two.
pub fn on_one_shard_and_two(test: impl Fn(Options)) {
    for shards in [1, 2] {
        eprintln!("shards: {shards}");
        let mut options = http_options();
        options.engine.shards = Some(shards);
        over_each_ring(options, &test);
    }
}
