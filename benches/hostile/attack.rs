//! Hostile peers: connections from one address that repeat a script until the attack ends.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use corelane_bench_support::frames;
use corelane_bench_support::requests::{FIRST_ID, RequestTemplate};
use crossbeam::channel::{self, Receiver, Sender, TryRecvError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::conversation::{Addresses, Framing};

/// Address of the hostile peers: unlike 127.0.0.1 it has no exemption from limits per address.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Ports of the hostile peers: not those that the system chooses for honest clients, which would
/// run out of them.
const PORTS: Range<u16> = 10_000..32_000;
/// Time after which a blocked peer looks whether the attack is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for a new connection and for an upgrade.
const OPEN_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two further connections of a peer.
const FURTHER_PAUSE: Duration = Duration::from_millis(5);

/// What each hostile connection of a group does, repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// Connections that are open at a time.
    pub(crate) connections: usize,
    /// Further connections that each of them opens, which send the opening and stay.
    pub(crate) further: usize,
    pub(crate) framing: Framing,
    /// Sent first.
    pub(crate) opening: Vec<u8>,
    /// Sent next, each time with another id.
    pub(crate) request: RequestTemplate,
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
    /// Disconnected at the end.
    end: Receiver<()>,
    /// Counts from the start of [`PORTS`] on.
    next_port: AtomicU16,
    connections: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Attack {
    pub(crate) fn new(addresses: Addresses) -> (Self, AttackEnd) {
        let (sender, end) = channel::bounded(0);
        let (connections, sent_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let next_port = AtomicU16::new(0);
        let attack = Self { addresses, end, next_port, connections, sent_bytes };
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
        let mut requests = script.request.repeat(script.batch);
        while !self.is_over() {
            // The server refuses or closes hostile connections: the next one follows.
            self.run_once(script, &mut requests).unwrap_or(());
            self.pause(script.pause);
        }
    }

    fn run_once(&self, script: &Script, requests: &mut [u8]) -> io::Result<()> {
        let mut stream = self.connect(self.addresses.of(script.framing))?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        if script.framing == Framing::Frames {
            upgrade(&mut stream, self.addresses.http)?;
        }
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        stream.set_write_timeout(Some(POLL_INTERVAL))?;
        let _further = self.open_further(script)?;
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

    /// Connects from [`ADDRESS`].
    fn connect(&self, host: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        // The port of a connection that has ended.
        socket.set_reuse_address(true)?;
        let count = self.next_port.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + count % (PORTS.end - PORTS.start);
        socket.bind(&SocketAddr::from((ADDRESS, port)).into())?;
        socket.connect_timeout(&host.into(), OPEN_TIMEOUT)?;
        Ok(socket.into())
    }

    fn open_further(&self, script: &Script) -> io::Result<Vec<TcpStream>> {
        let open = |_| {
            self.pause(FURTHER_PAUSE);
            let stream = self.connect(self.addresses.of(script.framing))?;
            self.connections.fetch_add(1, Ordering::Relaxed);
            self.send(&stream, &script.opening)?;
            Ok(stream)
        };
        (0..script.further).map(open).collect()
    }

    fn send_requests(
        &self,
        script: &Script,
        stream: &TcpStream,
        requests: &mut [u8],
    ) -> io::Result<()> {
        self.send(stream, &script.opening)?;
        let mut id = FIRST_ID;
        for _ in 0..script.sends {
            for index in 0..script.batch {
                script.request.set_id(requests, index, id);
                id += 1;
            }
            self.send(stream, requests)?;
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
        let timeout = Timespec::try_from(POLL_INTERVAL).map_err(io::Error::other)?;
        while !self.is_over() {
            // Also reports errors.
            let mut polled = [PollFd::new(stream, PollFlags::RDHUP)];
            if poll(&mut polled, Some(&timeout))? > 0 {
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
