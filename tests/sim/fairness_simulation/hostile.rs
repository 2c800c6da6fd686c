//! Clients that take places.
//!
//! Those that are busy or of use keep their places by rule; there are fewer of them than places, so
//! that others can be served.

use std::time::Duration;

use corelane::Transport;
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::World;

use crate::fairness_simulation::link::Link;
use crate::fairness_simulation::messages::{self, Envelope, encode};
use crate::fairness_simulation::plan::{HostileKind, HostilePlan};

/// A connection that takes places.
#[derive(Debug)]
struct HostileConnection {
    kind: HostileKind,
    link: Link,
    sent: usize,
    next_at: Option<Instant>,
    leaves_at: Option<Instant>,
    last_use: Instant,
    /// The session that it has begun and not used.
    session: Option<String>,
}

/// All hostile clients.
#[derive(Debug)]
pub(crate) struct HostileClients<'a> {
    plan: &'a HostilePlan,
    random: Random,
    connections: Vec<HostileConnection>,
    next_at: Option<Instant>,
    /// When it looks at what has arrived, and does what is due.
    acts_at: Instant,
    sent: u64,
}

impl<'a> HostileClients<'a> {
    pub(crate) const fn new(plan: &'a HostilePlan, random: Random) -> Self {
        let now = Instant::ORIGIN;
        Self { plan, random, connections: Vec::new(), next_at: Some(now), acts_at: now, sent: 0 }
    }

    /// Returns when it acts again.
    pub(crate) const fn next_due(&self) -> Instant {
        self.acts_at
    }

    /// Sends what is due, opens and closes connections.
    pub(crate) fn turn(&mut self, world: &World, now: Instant) {
        if self.acts_at > now {
            return;
        }
        self.acts_at = now.after(ACT_INTERVAL);
        self.connections.retain_mut(|it| {
            it.receive(now);
            let leaves = it.leaves_at.is_some_and(|at| at <= now);
            let is_over = leaves || it.link.has_ended();
            if is_over && self.random.chance(1, 3) {
                it.link.reset();
            } else if is_over {
                it.link.close();
            }
            !is_over
        });
        for connection in &mut self.connections {
            if connection.next_at.is_some_and(|at| at <= now) {
                connection.act(self.plan, &mut self.sent, &mut self.random, now);
            }
        }
        if self.next_at.is_some_and(|at| at <= now) {
            let pause = self.random.below(self.plan.pause_max.as_micros() as usize);
            self.next_at = Some(now.after(Duration::from_micros(1 + pause as u64)));
            for _ in 0..=self.random.below(self.plan.opened_at_once) {
                self.open(world, now);
            }
        }
    }

    /// Ends the attack: the connections stay and do nothing more, or close.
    pub(crate) fn stop(&mut self) {
        self.next_at = None;
        for connection in &mut self.connections {
            connection.next_at = None;
            connection.leaves_at = None;
        }
        if !self.plan.stays {
            self.close_all();
        }
    }

    pub(crate) fn close_all(&mut self) {
        self.connections.drain(..).for_each(|it| it.link.close());
    }

    fn open(&mut self, world: &World, now: Instant) {
        let plan = self.plan;
        let kind = plan.kinds[self.random.below(plan.kinds.len())];
        let is_firm = |it: &&HostileConnection| {
            it.kind.is_tcp() == kind.is_tcp() && !it.kind.is_of_no_use() && it.is_firm(now)
        };
        let firm = self.connections.iter().filter(is_firm).count();
        let is_full = self.connections.len() >= plan.connections_max;
        if is_full || (!kind.is_of_no_use() && firm >= plan.firm_max) {
            return;
        }
        let from = plan.addresses[self.random.below(plan.addresses.len())];
        let transport = if kind.is_tcp() { Transport::Tcp } else { Transport::Http };
        let leaves_after = Duration::from_millis(self.random.below(1_000) as u64);
        let leaves_at = self.random.chance(1, 4).then(|| now.after(leaves_after));
        let link = Link::open(world, from, transport);
        let (next_at, last_use, session) = (None, now, None);
        let mut new =
            HostileConnection { kind, link, sent: 0, next_at, leaves_at, last_use, session };
        new.act(plan, &mut self.sent, &mut self.random, now);
        self.connections.push(new);
    }
}

impl HostileConnection {
    /// Returns whether it keeps its place by rule.
    fn is_firm(&self, now: Instant) -> bool {
        self.kind.is_busy() || self.next_at.is_some() || self.last_use.after(FIRM_TIME) > now
    }

    /// Reads what has arrived; only the id of a session is of interest.
    fn receive(&mut self, now: Instant) {
        if self.kind != HostileKind::UsedSessions {
            if self.link.discard() {
                self.last_use = now;
            }
            return;
        }
        while let Ok(Some(reply)) = self.link.next_reply() {
            self.last_use = now;
            self.session = reply.session;
        }
    }

    /// Sends its next message, and decides when another one follows.
    fn act(&mut self, plan: &HostilePlan, number: &mut u64, random: &mut Random, now: Instant) {
        *number += 1;
        self.sent += 1;
        self.last_use = now;
        let bytes = self.next_bytes(plan, *number, random);
        self.link.send(&bytes);
        let messages = match self.kind {
            HostileKind::Sessions | HostileKind::UsedSessions | HostileKind::ParityHttp => 64,
            HostileKind::Tasks | HostileKind::EndedTasks => 32,
            HostileKind::Unauthorized | HostileKind::Invalid => 4,
            HostileKind::Streams => 3,
            HostileKind::HeldCalls => 2,
            _ => 1,
        };
        let pause_max = if messages == 64 { 4_000 } else { 40_000 };
        let pause = Duration::from_micros(500 + random.below(pause_max) as u64);
        self.next_at = (self.sent < messages).then(|| now.after(pause));
    }

    fn next_bytes(&mut self, plan: &HostilePlan, number: u64, random: &mut Random) -> Vec<u8> {
        let transport = self.link.transport;
        let modern = |method, params| {
            let message = messages::modern(number, method, params);
            encode(message, transport, Envelope::Modern, plan.token)
        };
        match self.kind {
            HostileKind::SilentTcp | HostileKind::SilentHttp => Vec::new(),
            HostileKind::HalfLine => b"{\"jsonrpc\":\"2.0\",\"id\":1,\"met".to_vec(),
            HostileKind::HalfHead => b"POST /mcp HTTP/1.1\r\nHost: loc".to_vec(),
            HostileKind::LargeHalf => {
                let mut text = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"".to_vec();
                text.resize(text.len() + (1 << 10) + random.below(128 << 10), b'a');
                text
            }
            HostileKind::Invalid => b"no message\n".to_vec(),
            HostileKind::Unauthorized => {
                let message = messages::modern(number, "tools/call", messages::echo("a"));
                encode(message, transport, Envelope::Modern, None)
            }
            HostileKind::IdleTcp | HostileKind::IdleHttp => {
                modern("tools/call", messages::echo("a"))
            }
            HostileKind::Sessions | HostileKind::UsedSessions => {
                if let Some(session) = self.session.take() {
                    let envelope = Envelope::Legacy(Some(&session));
                    return encode(messages::initialized(), transport, envelope, plan.token);
                }
                encode(messages::initialize(), transport, Envelope::Legacy(None), plan.token)
            }
            HostileKind::ParityTcp | HostileKind::ParityHttp => {
                encode(messages::handshake(), transport, Envelope::Parity(None), plan.token)
            }
            HostileKind::Tasks => modern("tools/call", messages::task(true)),
            HostileKind::EndedTasks => modern("tools/call", messages::task(false)),
            HostileKind::Streams => {
                let (names, bytes) = (1 + random.below(64), 64 << random.below(5));
                modern("subscriptions/listen", messages::listen(names, bytes, number))
            }
            HostileKind::HeldCalls => modern("tools/call", messages::wait()),
        }
    }
}

/// Time between two looks at what is due.
const ACT_INTERVAL: Duration = Duration::from_millis(1);

/// Time for which a served connection is of use: longer than what the server grants it.
const FIRM_TIME: Duration = Duration::from_millis(1_100);
