//! One shard of the simulated server, and what must hold when it ends.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::engine::host::{Host, Native};
use corelane::engine::ring::sim::{SimRing, World};
use corelane::engine::ring::{Patience, Ring};
use corelane::engine::shard::{Driver, Shard, Turn};
use corelane::observe::counters::Counters;
use corelane::observe::label::Transport;
use corelane::server::{Inlet, ShardDriver, ShardSeed};

use crate::tally::Tally;
use crate::world::watched::{Places, Watched};
use crate::world::wire::Wire;

/// A shard, until it has drained.
pub(crate) struct Lane {
    number: usize,
    shard: Option<Shard<Watched, ShardDriver>>,
    host: Rc<Native>,
    /// It gets no turn before this moment.
    naps_until: Moment,
    /// How many messages and letters it had read when it ended.
    messages: u64,
    letters: u64,
}

impl Lane {
    /// A shard that listens for lines.
    pub(crate) fn listen(
        world: &World,
        seed: ShardSeed,
        address: SocketAddr,
        places: &Places,
    ) -> io::Result<Self> {
        Self::listen_for(Transport::Tcp, world, seed, address, places)
    }

    /// A shard that listens for what comes over `transport`.
    pub(crate) fn listen_for(
        transport: Transport,
        world: &World,
        seed: ShardSeed,
        address: SocketAddr,
        places: &Places,
    ) -> io::Result<Self> {
        let mut ring = world.ring(seed.options().engine.ring_sizes);
        let listener = ring.listen(address)?;
        let inlet = Inlet::Listener { listener, transport };
        Self::open(ring, seed, inlet, places)
    }

    /// A shard that serves one client through two pipes.
    pub(crate) fn attach(
        world: &World,
        seed: ShardSeed,
        places: &Places,
    ) -> io::Result<(Self, Wire)> {
        let mut ring = world.ring(seed.options().engine.ring_sizes);
        let ((input, voice), (output, ear)) = (ring.attach()?, ring.attach()?);
        let lane = Self::open(ring, seed, Inlet::Pipes { input, output }, places)?;
        Ok((lane, Wire::pipes(voice, ear)))
    }

    fn open(ring: SimRing, seed: ShardSeed, inlet: Inlet, places: &Places) -> io::Result<Self> {
        let number = seed.shard().index();
        let ring = Watched::new(ring, number, Rc::clone(places));
        let host = Rc::new(Native::new(ring.waker()));
        let shard = seed.build(ring, Rc::clone(&host) as Rc<dyn Host>, &[inlet])?;
        Ok(Self {
            number,
            shard: Some(shard),
            host,
            naps_until: Moment::ORIGIN,
            messages: 0,
            letters: 0,
        })
    }

    /// Which shard it is.
    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// How many messages it had read when it ended.
    pub(crate) const fn messages(&self) -> u64 {
        self.messages
    }

    /// How many letters it had read when it ended.
    pub(crate) const fn letters(&self) -> u64 {
        self.letters
    }

    /// What it holds, for whoever reads a failure.
    pub(crate) fn describe(&self) -> String {
        let Self { number, shard: Some(shard), .. } = self else {
            return format!("shard {} has drained", self.number);
        };
        let (driver, ledger) = (shard.driver(), shard.ring().ring.ledger());
        let deadline = Driver::<Watched>::deadline(driver);
        format!("shard {number}: {driver:?}, next deadline {deadline:?}, {ledger:?}")
    }

    /// What it holds of what clients have left behind: none where it rests.
    pub(crate) fn holdings(&self) -> usize {
        self.shard.as_ref().map_or(0, |shard| {
            let driver = shard.driver();
            let told = driver.streams_open() + driver.questions_open() + driver.tasks_kept();
            let told = told + driver.exchanges_open() + driver.sessions_open();
            let leases_out = shard.ring().ring.ledger().leases_out;
            let others = driver.connections_open() + driver.calls_open() + leases_out;
            told + others + self.host.alive()
        })
    }

    /// What it has counted so far; nothing once it has drained.
    pub(crate) fn counters(&self) -> Counters {
        self.shard.as_ref().map_or_else(Counters::default, |shard| shard.driver().counters())
    }

    /// Streams of notifications that are open.
    pub(crate) fn streams(&self) -> usize {
        self.shard.as_ref().map_or(0, |shard| shard.driver().streams_open())
    }

    /// Whether it has drained.
    pub(crate) const fn has_finished(&self) -> bool {
        self.shard.is_none()
    }

    /// Whether it gets no turn now.
    pub(crate) fn is_napping(&self, now: Moment) -> bool {
        self.shard.is_some() && now < self.naps_until
    }

    /// When it gets its next turn, where that is late.
    pub(crate) fn naps_until(&self, now: Moment) -> Option<Moment> {
        self.is_napping(now).then_some(self.naps_until)
    }

    /// Gets no turn for a while.
    pub(crate) fn nap(&mut self, now: Moment, random: &mut Random) {
        let span = random.below(NAP_MAX.as_nanos() as usize) as u64;
        self.naps_until = now.after(Duration::from_nanos(span));
    }

    /// One turn. A shard that has drained is gone, and what it counted is handed out.
    ///
    /// # Errors
    ///
    /// What it has not given back.
    pub(crate) fn turn(&mut self, places: &Places) -> Result<Option<Tally>, String> {
        let Some(shard) = &mut self.shard else { return Ok(None) };
        if shard.turn(Patience::Forever) == Turn::More {
            return Ok(None);
        }
        self.letters = shard.driver().counters().shard.letters_in;
        let tally = self.audit(places)?;
        self.messages = tally.messages;
        self.shard = None;
        Ok(Some(tally))
    }

    /// Checks that a shard that has drained holds nothing and has counted right.
    fn audit(&self, places: &Places) -> Result<Tally, String> {
        let Some(shard) = &self.shard else { return Ok(Tally::default()) };
        let (driver, ledger) = (shard.driver(), shard.ring().ring.ledger());
        let counters = driver.counters();
        let (connections, streams) = (&counters.connections, &counters.subscriptions);
        let accepted = places.borrow().values().filter(|&&place| place == self.number).count();
        let let_in = connections.accepted + connections.refused_full + connections.refused_draining;
        let facts = [
            ("connections open", driver.connections_open() as u64, 0),
            ("calls open", driver.calls_open() as u64, 0),
            ("streams open", driver.streams_open() as u64, 0),
            ("streams ended", streams.ended, streams.opened),
            ("questions open", driver.questions_open() as u64, 0),
            ("exchanges open", driver.exchanges_open() as u64, 0),
            ("leases out", ledger.leases_out as u64, 0),
            ("sends in flight", ledger.sends_in_flight as u64, 0),
            ("sockets open", ledger.sockets_open as u64, 0),
            ("futures alive", self.host.alive() as u64, 0),
            ("futures panicked", self.host.panicked(), 0),
            ("handlers panicked", counters.requests.handlers_panicked, 0),
            (
                "connections of frames closed",
                closed_of_frames(&counters),
                counters.websockets.upgraded,
            ),
            ("connections let in", let_in, accepted as u64),
            ("connections closed", connections.closed, connections.accepted),
        ];
        for (name, found, expected) in facts {
            if found != expected {
                let number = self.number;
                return Err(format!("shard {number} ends with {found} {name}, not {expected}"));
            }
        }
        Ok(Tally {
            pauses: counters.traffic.pauses,
            starved: ledger.starved,
            accepts_failed: connections.accept_failed,
            messages: counters.traffic.messages_in,
            letters_refused: counters.shard.letters_refused,
            letters_forgone: counters.shard.letters_forgone,
            ..Tally::default()
        })
    }
}

/// Connections over WebSocket that have ended, in whatever way.
const fn closed_of_frames(counters: &Counters) -> u64 {
    let closed = &counters.websockets;
    let by_peers = closed.closed_by_peer + closed.closed_abnormally;
    let by_rules = closed.closed_protocol + closed.closed_unsupported + closed.closed_invalid;
    let by_bounds = closed.closed_policy + closed.closed_too_big + closed.closed_internal;
    by_peers + by_rules + by_bounds + closed.closed_normal + closed.closed_going_away
}

/// The longest nap of a shard.
pub(crate) const NAP_MAX: Duration = Duration::from_millis(2);
