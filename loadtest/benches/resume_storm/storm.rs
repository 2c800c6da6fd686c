//! The connections of all sessions, on one ring: opened, reset, and opened again.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{Completion, Operation, ParkTimeout, Ring, RingOptions, Socket};

use crate::Outcome;
use crate::messages::{self, TicksRequest};
use crate::session::{Arrived, Session};

/// Sessions that are opened at a time before the first round.
const OPENING_MAX: usize = 64;
/// Time in which something has to arrive.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// All sessions.
pub(crate) struct Storm {
    ring: UringRing,
    sessions: Vec<Session>,
    /// Open connections: the session of each socket.
    sockets: Vec<Option<usize>>,
    /// Sessions whose clients have to connect.
    unconnected: Vec<usize>,
    /// Sockets that are not closed after a reset.
    closing: usize,
    /// Connects since the last reset.
    connects: usize,
    address: SocketAddr,
    arrived: Arrived,
    /// Time of the last completion.
    last_completion: Instant,
    /// What is asked for by each stream.
    ticks: TicksRequest,
    repeated: u64,
    /// Clients that connect at a time.
    pub(crate) connecting_max: usize,
}

/// The times of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Until the last acknowledgement.
    pub(crate) acknowledged: Duration,
    /// Until the last stream had its next chunk.
    pub(crate) continued: Duration,
}

impl Storm {
    /// Opens all sessions with their streams.
    pub(crate) fn open(
        address: SocketAddr,
        sessions: usize,
        per_session: usize,
        ticks: TicksRequest,
    ) -> Outcome<Self> {
        let sockets_max = u32::try_from(sessions)?;
        let options = RingOptions { sockets_max, ..RingOptions::default() };
        let clock = Clock::start();
        let mut storm = Self {
            ring: UringRing::new(&options, clock)?,
            sessions: (0..sessions).map(|_| Session::new(per_session)).collect(),
            sockets: vec![None; sessions],
            unconnected: (0..sessions).collect(),
            closing: 0,
            connects: 0,
            address,
            arrived: Arrived::default(),
            last_completion: clock.now(),
            ticks,
            repeated: 0,
            connecting_max: OPENING_MAX,
        };
        storm.run_until_continued()?;
        let burst = u64::from(ticks.burst);
        while !storm.streams().all(|last_seq| last_seq >= burst) {
            storm.turn()?;
        }
        Ok(storm)
    }

    /// Resets all connections, connects to `address`, after `away` if that is not zero, and waits
    /// until all streams continue.
    pub(crate) fn run(&mut self, address: SocketAddr, away: Duration) -> Outcome<Round> {
        let mut start = self.ring.park(ParkTimeout::Zero);
        self.address = address;
        self.repeated += self.arrived.repeated;
        self.arrived = Arrived::default();
        self.connects = 0;
        for (socket, session) in (0..).map(Socket).zip(&mut self.sockets) {
            if session.is_some() {
                self.ring.submit(Operation::Reset(socket));
                self.closing += 1;
            }
        }
        if !away.is_zero() {
            let end = start.after(away);
            let connecting_max = std::mem::take(&mut self.connecting_max);
            while self.closing > 0 || start < end {
                start = self.turn_within(end.since(start).max(Duration::from_millis(1)))?;
            }
            self.connecting_max = connecting_max;
        }
        self.run_until_continued()?;
        let since = |time: Option<Instant>| time.map_or(Duration::MAX, |time| time.since(start));
        Ok(Round {
            acknowledged: since(self.arrived.last_acknowledged),
            continued: since(self.arrived.last_continued),
        })
    }

    /// Checks that each stream has chunks; their order was checked as they came.
    pub(crate) fn check_streams(&self) -> Outcome<()> {
        let has_all = self.streams().all(|last_seq| last_seq > u64::from(self.ticks.burst));
        has_all.then_some(()).ok_or_else(|| "a stream has not continued".into())
    }

    /// Returns the chunks that were received, and those that were received again.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.streams().sum(), self.repeated + self.arrived.repeated)
    }

    fn streams(&self) -> impl Iterator<Item = u64> {
        self.sessions.iter().flat_map(Session::streams).map(|stream| stream.last_seq)
    }

    fn run_until_continued(&mut self) -> Outcome<()> {
        let streams = self.streams().count();
        while self.arrived.continued < streams || self.arrived.acknowledged < self.sessions.len() {
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Outcome<()> {
        self.turn_within(WAIT_TIMEOUT).map(drop)
    }

    /// Connects clients, and handles what has happened. Returns the time.
    fn turn_within(&mut self, timeout: Duration) -> Outcome<Instant> {
        let connecting = self.connects - self.arrived.acknowledged;
        for _ in connecting..self.connecting_max {
            let Some(session) = self.unconnected.pop() else { break };
            self.connects += 1;
            self.ring.submit(Operation::Connect {
                address: self.address,
                local_address: None,
                keepalive: false,
                token: session as u64,
            });
        }
        let now = self.ring.park(ParkTimeout::After(timeout));
        let mut completions = Vec::new();
        self.ring.reap(&mut completions);
        if !completions.is_empty() {
            self.last_completion = now;
        } else if now.since(self.last_completion) >= WAIT_TIMEOUT {
            return Err(format!("nothing arrives: {:?}", self.arrived).into());
        }
        for completion in completions {
            self.handle(completion, now)?;
        }
        Ok(now)
    }

    fn handle(&mut self, completion: Completion, now: Instant) -> Outcome<()> {
        match completion {
            Completion::Connected { token, result } => {
                let (session, socket) = (usize::try_from(token)?, result?);
                if self.sockets.len() <= socket.index() {
                    self.sockets.resize(socket.index() + 1, None);
                }
                self.sockets[socket.index()] = Some(session);
                self.ring.submit(Operation::Receive(socket));
                let buffer = self.sessions[session].handshake();
                self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
            }
            Completion::Received { socket, buffer } => {
                let bytes = &self.ring.bytes(&buffer)[..buffer.len as usize];
                let session = self.sockets[socket.index()].ok_or("bytes for no session")?;
                let session = &mut self.sessions[session];
                let is_new = session.receive(bytes, now, &mut self.arrived);
                self.ring.release(buffer);
                if is_new? {
                    let buffer = messages::requests(session.streams().len(), self.ticks);
                    self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
                }
            }
            Completion::Closed { socket } => {
                let session = self.sockets[socket.index()].take().ok_or("closed twice")?;
                self.unconnected.push(session);
                self.closing -= 1;
            }
            Completion::Sent { result, .. } if self.closing == 0 => drop(result?),
            Completion::EndOfStream { .. } => {
                let text = format!("the server closed a connection: {:?}", self.arrived);
                return Err(io::Error::other(text).into());
            }
            _ => {}
        }
        Ok(())
    }
}
