//! Hostile peers: connections from the addresses of an origin that repeat a script until the attack
//! ends.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use corelane_bench_support::frames;
use corelane_bench_support::requests::{FIRST_ID, RequestTemplate};
use crossbeam::channel::{self, Receiver, Sender, TryRecvError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::conversation::{Addresses, Framing};
use crate::credentials::ProofKey;
use crate::scripts::call_over_http;
use crate::sockets;

/// Ports of the hostile peers: not those that the system chooses for honest clients, which would
/// run out of them.
const PORTS: Range<u16> = 10_000..32_000;
/// Time after which a blocked peer looks whether the attack is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for a new connection, for an upgrade, and for a step of a TLS handshake.
const OPEN_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two connections that a peer holds.
const HELD_PAUSE: Duration = Duration::from_millis(5);

/// What each hostile connection of a group does, repeatedly.
#[derive(Clone)]
pub(crate) struct Script {
    /// Connections that are open at a time.
    pub(crate) connections: usize,
    /// Unless 0, each of them stands for this many connections, which only send the opening and
    /// stay; one that the server closes is opened again.
    pub(crate) held: usize,
    pub(crate) framing: Framing,
    /// Whether it completes a TLS handshake and then closes its connection.
    pub(crate) handshake: bool,
    /// Sent first.
    pub(crate) opening: Vec<u8>,
    /// Sent next.
    pub(crate) requests: Requests,
    /// Requests of one send.
    pub(crate) batch: usize,
    /// Sends of one connection.
    pub(crate) sends: usize,
    /// Whether it reads what the server sends.
    pub(crate) reads: bool,
    /// Time until it closes its connection after the last send; `None` keeps it open.
    pub(crate) leaves_after: Option<Duration>,
    /// Time between two connections.
    pub(crate) pause: Duration,
}

/// The requests of a script.
#[derive(Clone)]
pub(crate) enum Requests {
    /// Each with another id.
    Template(RequestTemplate),
    /// Calls over HTTP, each with a proof of its own.
    Proofs(Arc<ProofKey>, SocketAddr),
}

/// What the hostile peers of a scene have done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttackCounts {
    pub(crate) connections: u64,
    pub(crate) sent_bytes: u64,
}

/// Ends an attack when dropped: all peers close their connections.
#[derive(Debug)]
pub(crate) struct AttackEnd {
    _sender: Sender<()>,
}

/// A running attack.
#[derive(Debug)]
pub(crate) struct Attack {
    addresses: Addresses,
    /// Addresses of the peers.
    peers: Vec<IpAddr>,
    tls: Arc<ClientConfig>,
    /// Disconnected at the end.
    end: Receiver<()>,
    /// Number of addresses and ports taken.
    next_place: AtomicUsize,
    /// The id of the next request.
    next_id: AtomicU64,
    connections: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Attack {
    /// An attack of peers with these addresses.
    pub(crate) fn new(
        addresses: Addresses,
        peers: Vec<IpAddr>,
        tls: Arc<ClientConfig>,
    ) -> (Self, AttackEnd) {
        let (sender, end) = channel::bounded(0);
        let attack = Self {
            addresses,
            peers,
            tls,
            end,
            next_place: AtomicUsize::new(0),
            next_id: AtomicU64::new(FIRST_ID),
            connections: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        };
        (attack, AttackEnd { _sender: sender })
    }

    /// Runs the scripts until their [`AttackEnd`] is dropped.
    pub(crate) fn run(&self, scripts: &[Script]) {
        thread::scope(|scope| {
            for script in scripts {
                for _ in 0..script.connections {
                    scope.spawn(move || self.repeat(script));
                }
            }
        });
    }

    /// Returns what the peers have done.
    pub(crate) fn counts(&self) -> AttackCounts {
        AttackCounts {
            connections: self.connections.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
        }
    }

    fn is_over(&self) -> bool {
        self.end.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Waits this long, or until the attack ends.
    fn pause(&self, time: Duration) {
        let result = self.end.recv_timeout(time);
        debug_assert_ne!(result, Ok(()), "nothing is sent");
    }

    fn repeat(&self, script: &Script) {
        if script.held > 0 {
            self.hold(script);
            return;
        }
        let mut requests = match &script.requests {
            Requests::Template(template) => template.repeat(script.batch),
            Requests::Proofs(..) => Vec::new(),
        };
        while !self.is_over() {
            // The server refuses or closes hostile connections: the next one follows.
            self.run_once(script, &mut requests).unwrap_or(());
            self.pause(script.pause);
        }
    }

    fn run_once(&self, script: &Script, requests: &mut Vec<u8>) -> io::Result<()> {
        let mut stream = self.connect(self.addresses.of(script.framing))?;
        if script.handshake {
            return self.complete_handshake(&mut stream);
        }
        if script.framing == Framing::Frames {
            upgrade(&mut stream, self.addresses.http)?;
        }
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        stream.set_write_timeout(Some(POLL_INTERVAL))?;
        thread::scope(|scope| {
            if script.reads {
                let reader = stream.try_clone()?;
                scope.spawn(move || self.discard(reader));
            }
            let result = self.send_requests(script, &stream, requests);
            // Ends the reader, too. Fails if the server has closed the connection.
            stream.shutdown(std::net::Shutdown::Both).unwrap_or(());
            result
        })
    }

    /// Connects from the next address and port.
    fn connect(&self, host: SocketAddr) -> io::Result<TcpStream> {
        let place = self.next_place.fetch_add(1, Ordering::Relaxed);
        // The port of a connection that has ended.
        let round = place / self.peers.len() % PORTS.len();
        let port = PORTS.start + u16::try_from(round).unwrap_or(0);
        let from = SocketAddr::new(self.peers[place % self.peers.len()], port);
        let stream = sockets::connect(from, host, OPEN_TIMEOUT)?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(stream)
    }

    /// Completes a TLS handshake.
    fn complete_handshake(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(OPEN_TIMEOUT))?;
        stream.set_write_timeout(Some(OPEN_TIMEOUT))?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let config = Arc::clone(&self.tls);
        let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        connection.complete_io(stream).map(drop)
    }

    /// Holds many connections, and opens those again that the server closes.
    fn hold(&self, script: &Script) {
        let mut held: Vec<Option<TcpStream>> = Vec::new();
        held.resize_with(script.held, || None);
        while !self.is_over() {
            for place in held.iter_mut().filter(|place| place.is_none()) {
                // A refused connection is tried again in the next round.
                *place = self.open_held(script).ok();
                self.pause(HELD_PAUSE);
                if self.is_over() {
                    return;
                }
            }
            let open = held.iter().flatten();
            let mut polled: Vec<PollFd<'_>> =
                open.map(|stream| PollFd::new(stream, PollFlags::RDHUP)).collect();
            wait(&mut polled).unwrap_or(0);
            let is_closed: Vec<bool> =
                polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            let mut is_closed = is_closed.into_iter();
            for place in held.iter_mut().filter(|place| place.is_some()) {
                if is_closed.next() == Some(true) {
                    *place = None;
                }
            }
        }
    }

    fn open_held(&self, script: &Script) -> io::Result<TcpStream> {
        let stream = self.connect(self.addresses.of(script.framing))?;
        stream.set_write_timeout(Some(POLL_INTERVAL))?;
        self.send(&stream, &script.opening)?;
        Ok(stream)
    }

    fn send_requests(
        &self,
        script: &Script,
        stream: &TcpStream,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        self.send(stream, &script.opening)?;
        for _ in 0..script.sends {
            match &script.requests {
                Requests::Template(template) => {
                    for index in 0..script.batch {
                        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                        template.set_id(buffer, index, id);
                    }
                }
                Requests::Proofs(key, host) => {
                    *buffer = call_over_http(*host, &key.fields()).into_bytes();
                }
            }
            self.send(stream, buffer)?;
        }
        match script.leaves_after {
            Some(time) => self.pause(time),
            None => self.wait_for_close(stream)?,
        }
        Ok(())
    }

    /// Sends all bytes, however slowly the server reads.
    fn send(&self, mut stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(sent) => {
                    self.sent_bytes.fetch_add(sent as u64, Ordering::Relaxed);
                    bytes = &bytes[sent..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.is_over() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        Ok(())
    }

    /// Waits until the server closes the connection, without reading.
    fn wait_for_close(&self, stream: &TcpStream) -> io::Result<()> {
        while !self.is_over() {
            if wait(&mut [PollFd::new(stream, PollFlags::RDHUP)])? > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Reads until the connection is closed.
    fn discard(&self, mut stream: TcpStream) {
        let mut chunk = vec![0; 256 << 10];
        while !self.is_over() {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    }
}

/// Waits until one of these has an event or an error, for [`POLL_INTERVAL`] at most, and returns
/// how many have.
fn wait(polled: &mut [PollFd<'_>]) -> io::Result<usize> {
    let timeout = Timespec::try_from(POLL_INTERVAL).map_err(io::Error::other)?;
    Ok(poll(polled, Some(&timeout))?)
}

/// Upgrades the connection to WebSocket.
fn upgrade(stream: &mut TcpStream, host: SocketAddr) -> io::Result<()> {
    stream.set_read_timeout(Some(OPEN_TIMEOUT))?;
    stream.write_all(&frames::upgrade(host))?;
    let mut received = Vec::new();
    while !frames::is_upgraded(&received)? {
        let mut chunk = [0; 1024];
        let length = stream.read(&mut chunk)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.extend_from_slice(&chunk[..length]);
    }
    Ok(())
}
