//! Many connections that begin or end in one turn, beside one that is open.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use corelane::internal::{Shard, ShardInput};
use corelane::{Catalog, Handle, NoArguments, Options, Server, Tool, Transport};
use corelane_base::time::Instant;
use corelane_engine::executor::{Executor, NativeExecutor};
use corelane_engine::process::Entropy;
use corelane_engine::ring::{
    Completion, Listener, Operation, PADDING, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket,
    Source, Waker,
};
use corelane_engine::shard_loop::ShardLoop;
use corelane_protocol::model::Implementation;

const LISTENER: Listener = Listener(0);
/// Far more than a turn opens or closes.
const PEERS: u32 = 300;
/// The connection that is open.
const OPEN: Socket = Socket(PEERS);
const LIST_TOOLS: &[u8] = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"#,
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    "\n",
)
.as_bytes();
const GET_NOTHING: &str = "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n";
const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

/// A ring whose completions the test decides, and that records what is submitted in a turn.
#[derive(Debug)]
struct TurnRing {
    completions: Vec<Completion>,
    /// The bytes and padding of receive buffers, by their index.
    received: Vec<Vec<u8>>,
    now: Instant,
    /// How long each turn takes.
    turn_time: Duration,
    receives: usize,
    sends: Vec<Socket>,
    /// The text of each send.
    sent: Vec<Vec<u8>>,
    closes: Vec<Socket>,
}

impl Ring for TurnRing {
    fn register(&mut self, _: Source) -> io::Result<Registered> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Receive(_) => self.receives += 1,
            Operation::Send { socket, buffer, .. } => {
                self.sends.push(socket);
                self.sent.push(buffer);
            }
            Operation::Close(socket) => self.closes.push(socket),
            _ => {}
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completions);
    }

    fn park(&mut self, _: ParkTimeout) -> Instant {
        self.now = self.now.after(self.turn_time);
        self.now
    }

    fn waker(&self) -> Waker {
        Waker::new(|| {})
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        &mut self.received[usize::from(buffer.index)]
    }

    fn release(&mut self, _: ReceiveBuffer) {}

    fn describe(&self) -> String {
        "turns".to_owned()
    }
}

/// A server of one shard on a [`TurnRing`].
struct TurnServer(ShardLoop<TurnRing, Shard>, Handle);

impl TurnServer {
    fn start() -> Self {
        Self::listen(ShardInput::Listener { listener: LISTENER, transport: Transport::Tcp })
    }

    fn listen(input: ShardInput) -> Self {
        let catalog =
            Catalog::builder(Implementation::new("test", "1")).build().expect("a catalog");
        let entropy = Entropy { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let server = Server::builder(catalog).options(Options::default()).entropy(entropy);
        let (builders, handle) = server.shard_builders(1).expect("a shard");
        let ring = TurnRing {
            completions: Vec::new(),
            received: vec![padded(PING)],
            now: Instant::from_milliseconds(1),
            turn_time: Duration::ZERO,
            receives: 0,
            sends: Vec::new(),
            sent: Vec::new(),
            closes: Vec::new(),
        };
        let executor = Rc::new(NativeExecutor::new(ring.waker()));
        let builder = builders.into_iter().next().expect("one shard");
        let shard = builder.build(ring, executor as Rc<dyn Executor>, &[input]);
        Self(shard.expect("a shard"), handle)
    }

    /// Runs a turn with these completions. Returns the ring with what was submitted in it.
    fn run_turn(&mut self, completions: impl Iterator<Item = Completion>) -> &TurnRing {
        self.complete(completions);
        self.run_next_turn()
    }

    /// Has the next turn handle these completions.
    fn complete(&mut self, completions: impl Iterator<Item = Completion>) {
        self.0.ring_mut().completions.extend(completions);
        // The turn before reaps.
        self.0.run_turn(ParkTimeout::Zero);
    }

    /// Runs a turn. Returns the ring with what was submitted in it.
    fn run_next_turn(&mut self) -> &TurnRing {
        let ring = self.0.ring_mut();
        (ring.receives, ring.sends, ring.closes) = (0, Vec::new(), Vec::new());
        ring.sent.clear();
        self.0.run_turn(ParkTimeout::Zero);
        self.0.ring()
    }

    /// Runs a turn, and has the next one handle the ends of its sends. Returns what was sent.
    fn run_sending_turn(&mut self) -> Vec<(Socket, String)> {
        self.run_next_turn();
        let ring = self.0.ring_mut();
        let sends = std::mem::take(&mut ring.sends).into_iter().zip(std::mem::take(&mut ring.sent));
        let sends: Vec<_> = sends.collect();
        let mut sent = Vec::new();
        for (socket, buffer) in sends {
            sent.push((socket, String::from_utf8_lossy(&buffer).into_owned()));
            let result = Ok(buffer.len());
            ring.completions.push(Completion::Sent { socket, result, buffer });
        }
        sent
    }

    fn open(&mut self, sockets: impl Iterator<Item = u32>) -> usize {
        let accepted = |index| {
            let peer = Some(([127, 0, 0, 1], 1).into());
            Completion::Accepted { listener: LISTENER, socket: Socket(index), peer }
        };
        self.run_turn(sockets.map(accepted)).receives
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0; PADDING]].concat()
}

fn ping() -> Completion {
    received(PING)
}

/// A message of the open connection.
fn received(message: &[u8]) -> Completion {
    received_by(OPEN, 0, message.len())
}

/// `length` bytes of the receive buffer `index`.
fn received_by(socket: Socket, index: u16, length: usize) -> Completion {
    let len = u32::try_from(length).expect("a short message");
    Completion::Received { socket, buffer: ReceiveBuffer { index, len } }
}

/// Returns the number of responses to [`GET_NOTHING`] in what was sent.
fn count_responses(sent: &[(Socket, String)], to: Socket) -> usize {
    let texts = sent.iter().filter(|(socket, _)| *socket == to);
    texts.map(|(_, text)| text.matches("HTTP/1.1 404 ").count()).sum()
}

#[test]
fn turn_opens_some_of_many_connections() {
    let mut server = TurnServer::start();
    let opened: Vec<usize> = [server.open(0..PEERS)]
        .into_iter()
        .chain((0..PEERS).map(|_| server.run_turn([].into_iter()).receives))
        .collect();
    let (first, in_all) = (opened[0], opened.iter().sum::<usize>());
    assert!(first > 0 && first < PEERS as usize / 3, "{first}");
    // A step of the test has two turns, of which one is observed.
    assert!(in_all > first && in_all < PEERS as usize, "{in_all}");
    assert_eq!(server.0.driver().open_work().connections, PEERS as usize);
}

#[test]
fn response_leaves_before_many_connections_close() {
    let mut server = TurnServer::start();
    server.open([OPEN.0].into_iter());
    server.open(0..PEERS);
    for _ in 0..PEERS {
        server.run_turn([].into_iter());
    }
    let ended = |index| Completion::EndOfStream { socket: Socket(index), result: Ok(()) };
    let ring = server.run_turn((0..PEERS).map(ended).chain([ping()]));
    assert_eq!(ring.sends, [OPEN]);
    assert!(ring.closes.len() < PEERS as usize / 3, "{}", ring.closes.len());
    for _ in 0..PEERS {
        server.run_turn([].into_iter());
    }
    let ring = server.run_turn([].into_iter());
    assert!(ring.closes.is_empty());
    let closed = (0..PEERS).map(|index| Completion::Closed { socket: Socket(index) });
    server.run_turn(closed);
    assert_eq!(server.0.driver().counters().connections.closed, u64::from(PEERS));
    assert_eq!(server.0.driver().open_work().connections, 1);
}

#[test]
fn pipelined_requests_wait_for_other_connections() {
    let transport = Transport::Http;
    let mut server = TurnServer::listen(ShardInput::Listener { listener: LISTENER, transport });
    server.open([0, OPEN.0].into_iter());
    let pipelined = GET_NOTHING.repeat(100);
    server.0.ring_mut().received = vec![padded(pipelined.as_bytes())];
    server.0.ring_mut().completions.extend([
        received_by(Socket(0), 0, pipelined.len()),
        received_by(OPEN, 0, GET_NOTHING.len()),
    ]);
    // Responses to the pipelined requests, until that to the other one is sent, and in all.
    let (mut before, mut all) = (None, 0);
    for _ in 0..200 {
        let sent = server.run_sending_turn();
        if count_responses(&sent, OPEN) > 0 {
            assert_eq!((count_responses(&sent, OPEN), before.replace(all)), (1, None));
        }
        all += count_responses(&sent, Socket(0));
    }
    assert!(before.is_some_and(|before| before < 50), "{before:?}");
    assert_eq!(all, 100);
}

#[test]
fn pipelined_requests_are_served_beside_much_input() {
    let transport = Transport::Http;
    let mut server = TurnServer::listen(ShardInput::Listener { listener: LISTENER, transport });
    // Together they send more than 1 MiB in each turn.
    let others = 0..32;
    for socket in others.clone().chain([OPEN.0]) {
        server.open([socket].into_iter());
    }
    let head = "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000\r\n\r\n";
    let (message, pipelined) = ([head, &" ".repeat(40_000)].concat(), GET_NOTHING.repeat(20));
    let ring = server.0.ring_mut();
    ring.received = vec![padded(message.as_bytes()), padded(pipelined.as_bytes())];
    ring.turn_time = Duration::from_millis(5);
    let (mut to_others, mut to_pipelined) = (0, 0);
    for turn in 0..12 {
        let messages = others.clone().map(|socket| received_by(Socket(socket), 0, message.len()));
        server.0.ring_mut().completions.extend(messages);
        if turn == 3 {
            server.0.ring_mut().completions.push(received_by(OPEN, 1, pipelined.len()));
        }
        let sent = server.run_sending_turn();
        let of_others = others.clone().map(|socket| count_responses(&sent, Socket(socket)));
        to_others += of_others.sum::<usize>();
        to_pipelined += count_responses(&sent, OPEN);
    }
    // A turn handles what the one before has reaped, and a send leaves after the one before it.
    assert!(to_others >= 32 * 9, "{to_others}");
    assert_eq!(to_pipelined, 20);
}

#[test]
fn request_after_catalog_update_finds_new_version() {
    let mut server = TurnServer::start();
    server.open([OPEN.0].into_iter());
    server.0.ring_mut().received = vec![padded(LIST_TOOLS)];
    // Both wait for a shard that is busy.
    server.complete([received(LIST_TOOLS)].into_iter());
    let tool = Tool::new("added").inline_writer(|NoArguments {}, _, _| Ok(()));
    server.1.update_catalog(|catalog| catalog.tool(tool)).expect("a catalog");
    let sent = server.run_next_turn().sent.concat();
    let text = String::from_utf8_lossy(&sent);
    assert!(text.contains("\"name\":\"added\""), "{text}");
}

#[test]
fn drain_refuses_accepted_connections_over_their_transport() {
    let clients = |transport| ShardInput::Listener { listener: LISTENER, transport };
    let http = "HTTP/1.1 503 Service Unavailable\r\n";
    for (input, start) in [
        (clients(Transport::Tcp), "{\"jsonrpc\":\"2.0\",\"error\":{"),
        (clients(Transport::Http), http),
        (ShardInput::AdminListener { listener: LISTENER }, http),
    ] {
        let mut server = TurnServer::listen(input);
        server.open(0..PEERS);
        server.1.try_drain().expect("the drain begins");
        let mut refusals = Vec::new();
        for _ in 0..PEERS {
            let ring = server.run_next_turn();
            refusals
                .extend(ring.sent.iter().map(|text| String::from_utf8_lossy(text).into_owned()));
        }
        assert!(!refusals.is_empty());
        for text in refusals {
            let is_right = text.starts_with(start) && text.contains("the server is shutting down");
            assert!(is_right, "{text}");
        }
    }
}
