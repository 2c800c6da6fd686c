//! The server of a run, which may end and start again at the same address.

use std::error::Error;
use std::time::Duration;

use corelane::{Options, Server, Transport};
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::process::Entropy;
use corelane_engine::ring::sim::World;

use super::catalog::{Executions, build_catalog};
use crate::harness::commands::{CommandQueue, ServerCommand};
use crate::harness::recording_ring::ShardByClient;
use crate::harness::server::{SimServer, listen_address};
use crate::harness::shard::SimShard;
use crate::totals::Totals;

/// How a server ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ServerEnd {
    /// Like a process that is killed.
    Crash,
    /// It drains.
    Drain,
}

/// What each server of a run is like.
#[derive(Clone, Debug)]
pub(crate) struct ServerSetup {
    pub(crate) shards: usize,
    pub(crate) options: Options,
    pub(crate) transport: Transport,
    /// One turn of a shard in this many is stalled.
    pub(crate) stall_chance: Option<usize>,
}

/// The server.
pub(crate) struct ServerHost {
    setup: ServerSetup,
    executions: Executions,
    pub(crate) server: SimServer,
    commands: CommandQueue,
    /// Number of servers so far.
    pub(crate) incarnation: u8,
    /// After the server has ended, the next one starts so much later.
    pause: Option<Duration>,
    restarts_at: Option<Instant>,
}

impl ServerHost {
    pub(crate) fn new(
        world: World,
        setup: ServerSetup,
        executions: Executions,
    ) -> Result<Self, Box<dyn Error>> {
        let (shards, commands, accepted) = start(&world, &setup, &executions, 0)?;
        let server = SimServer::new(world, shards, accepted, setup.stall_chance);
        let (incarnation, pause, restarts_at) = (0, None, None);
        Ok(Self { setup, executions, server, commands, incarnation, pause, restarts_at })
    }

    /// Ends the server. Another one starts `pause` after its end.
    pub(crate) fn end(&mut self, how: ServerEnd, pause: Duration, now: Instant) {
        if self.pause.is_some() || self.restarts_at.is_some() {
            return;
        }
        match how {
            ServerEnd::Crash => {
                self.server.shards.clear();
                self.restarts_at = Some(now.after(pause));
            }
            ServerEnd::Drain => {
                self.pause = Some(pause);
                self.commands.push_front(ServerCommand::Drain);
            }
        }
    }

    /// Ends the server for good.
    pub(crate) fn drain(&mut self) {
        self.commands.push_front(ServerCommand::Drain);
    }

    /// Returns whether a server runs that does not drain.
    pub(crate) const fn is_up(&self) -> bool {
        self.pause.is_none() && self.restarts_at.is_none()
    }

    pub(crate) const fn next_due(&self) -> Option<Instant> {
        self.restarts_at
    }

    /// Runs the shards that are awake, and starts the next server if that is due.
    ///
    /// # Errors
    ///
    /// A shard violates a rule of its own.
    pub(crate) fn turn(&mut self, now: Instant, random: &mut Random) -> Result<Totals, String> {
        let totals = self.server.turn(now, random)?;
        self.commands.send_pending();
        if self.server.has_drained()
            && let Some(pause) = self.pause.take()
        {
            self.restarts_at = Some(now.after(pause));
        }
        if self.restarts_at.is_some_and(|at| at <= now) {
            self.restarts_at = None;
            self.incarnation += 1;
            let Self { server, setup, executions, incarnation, .. } = self;
            let started = start(&server.world, setup, executions, *incarnation);
            let (shards, commands, accepted) = started.map_err(|error| error.to_string())?;
            (server.shards, server.accepted, self.commands) = (shards, accepted, commands);
        }
        Ok(totals)
    }
}

/// Starts the shards of a server.
fn start(
    world: &World,
    setup: &ServerSetup,
    executions: &Executions,
    incarnation: u8,
) -> Result<(Vec<SimShard>, CommandQueue, ShardByClient), Box<dyn Error>> {
    // Each server draws session ids of its own.
    let entropy = Entropy { secret: [incarnation; 32], unix_ms: 1_800_000_000_000 };
    let server = Server::builder(build_catalog(executions)?).options(setup.options.clone());
    let (builders, handle) = server.entropy(entropy).shard_builders(setup.shards)?;
    let accepted = ShardByClient::default();
    let listen =
        |builder| SimShard::listen(setup.transport, world, builder, listen_address(), &accepted);
    let shards = builders.into_iter().map(listen).collect::<Result<_, _>>()?;
    Ok((shards, CommandQueue::new(handle), accepted))
}
