//! A crowd of idle sessions: opened, held and asked, on a ring and a thread of its own.
//!
//! Its sockets are direct descriptors too, so one process can hold as many as it has rings for.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::clock::Clock;
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{Completion, Operation, Patience, Ring, RingOptions, Socket};

use crate::requests::{Era, FIRST_ID, INITIALIZE, INITIALIZED, MESSAGE_BYTES, Template};

/// Sessions that are being opened at one time.
const OPENING_MAX: usize = 64;
/// How long nothing may happen while something is expected.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sent with the end of the handshake: its answer tells that the session is open.
const PING: &str = concat!(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "\n");

/// How far a session has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Initializing,
    Confirming,
    Open,
}

#[derive(Debug)]
struct Session {
    socket: Socket,
    stage: Stage,
    heard: Vec<u8>,
}

/// Open sessions of one ring.
pub(crate) struct Crowd {
    ring: UringRing,
    template: Template,
    sessions: Vec<Session>,
    /// From socket to session.
    places: Vec<usize>,
    open: usize,
    answered: usize,
    /// When something last happened.
    heard_at: Moment,
}

impl Crowd {
    /// Opens `count` sessions with the server at `address` and waits until each of them is ready.
    pub(crate) fn open(address: SocketAddr, count: usize) -> io::Result<Self> {
        let options = RingOptions {
            sockets_max: u32::try_from(count).map_err(io::Error::other)?,
            ..RingOptions::default()
        };
        let mut crowd = Self {
            ring: UringRing::new(&options, Clock::start())?,
            template: Template::echo(Era::Legacy, MESSAGE_BYTES),
            sessions: Vec::with_capacity(count),
            places: Vec::new(),
            open: 0,
            answered: 0,
            heard_at: Moment::ORIGIN,
        };
        let mut begun = 0;
        while crowd.open < count {
            while begun < count.min(crowd.open + OPENING_MAX) {
                crowd.ring.submit(Operation::Connect { address, token: begun as u64 });
                begun += 1;
            }
            crowd.turn()?;
        }
        Ok(crowd)
    }

    /// Calls the echo tool on every session whose number in the whole crowd, counted from `first`,
    /// is a multiple of `every`; returns how many answered, which is all of them.
    pub(crate) fn ask(&mut self, first: usize, every: usize) -> io::Result<usize> {
        let mut asked = 0;
        self.heard_at = self.ring.park(Patience::None);
        for (number, session) in (first..).zip(&self.sessions) {
            if number.is_multiple_of(every) {
                let (socket, buffer) = (session.socket, self.template.repeat(1));
                self.ring.submit(Operation::Send { socket, buffer, from: 0 });
                asked += 1;
            }
        }
        while self.answered < asked {
            self.turn()?;
        }
        Ok(asked)
    }

    fn turn(&mut self) -> io::Result<()> {
        let now = self.ring.park(Patience::For(PATIENCE));
        let mut completions = Vec::new();
        self.ring.reap(&mut completions);
        if !completions.is_empty() {
            self.heard_at = now;
        } else if now.since(self.heard_at) >= PATIENCE {
            let open = self.open;
            return Err(io::Error::other(format!("silence with {open} sessions open")));
        }
        for completion in completions {
            match completion {
                Completion::Connected { result, .. } => self.connected(result?),
                Completion::Received { socket, lease } => {
                    let session = &mut self.sessions[self.places[socket.index()]];
                    let bytes = &self.ring.bytes(&lease)[..lease.length as usize];
                    session.heard.extend_from_slice(bytes);
                    self.ring.release(lease);
                    self.advance(socket)?;
                }
                Completion::Sent { result, .. } => drop(result?),
                Completion::Ended { .. } => {
                    let open = self.open;
                    let text = format!("the server closed a session, {open} were open");
                    return Err(io::Error::other(text));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn connected(&mut self, socket: Socket) {
        if self.places.len() <= socket.index() {
            self.places.resize(socket.index() + 1, usize::MAX);
        }
        self.places[socket.index()] = self.sessions.len();
        self.sessions.push(Session { socket, stage: Stage::Initializing, heard: Vec::new() });
        self.ring.submit(Operation::Receive(socket));
        self.ring.submit(Operation::Send { socket, buffer: INITIALIZE.into(), from: 0 });
    }

    /// A session that has heard a whole line goes one stage further.
    fn advance(&mut self, socket: Socket) -> io::Result<()> {
        let session = &mut self.sessions[self.places[socket.index()]];
        if session.heard.last() != Some(&b'\n') {
            return Ok(());
        }
        let heard = std::mem::take(&mut session.heard);
        match session.stage {
            Stage::Initializing => {
                session.stage = Stage::Confirming;
                let buffer = [INITIALIZED, PING].concat().into_bytes();
                self.ring.submit(Operation::Send { socket, buffer, from: 0 });
            }
            Stage::Confirming => {
                session.stage = Stage::Open;
                self.open += 1;
            }
            Stage::Open => {
                self.template.check(&heard, FIRST_ID)?;
                self.answered += 1;
            }
        }
        Ok(())
    }
}
