//! One shard's life: built on its own thread, run by its host, counted at its end.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use super::calls::Calls;
use super::desk::Desk;
use super::driver::{Door, Parts, ShardDriver};
use super::letter::{Letter, Limits};
use super::options::Options;
use super::pipeline::Road;
use crate::engine::blocking::BlockingPool;
use crate::engine::host::Host;
use crate::engine::mesh::{Post, Seat, Tally};
use crate::engine::ring::{Operation, Registered, Ring, Source};
use crate::engine::shard::Shard;
use crate::link::{Link, LinkOptions, Stream};
use crate::observe::counters::Counters;
use crate::observe::label::Transport;
use crate::protocol::json::{self, Parser};
use crate::server::session::Session;
use crate::service::Catalog;

/// Connections beyond the limit that may be told so at the same time, on each shard.
pub(super) const REFUSALS_MAX: u32 = 64;

/// Everything that a shard is built from; made on the launching thread, sent to the shard's.
pub(super) struct Seed {
    pub(super) options: Arc<Options>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) seat: Seat<Letter>,
    pub(super) post: Post<Letter>,
    pub(super) served: Arc<Tally>,
    pub(super) blocking: Arc<BlockingPool>,
    pub(super) inlets: Inlets,
}

/// Where the connections of a shard come from.
pub(super) enum Inlets {
    /// Listening sockets of this shard's own.
    Listeners(Vec<(OwnedFd, Transport)>),
    /// One connection over two pipes.
    Pipes {
        /// Standard input.
        input: OwnedFd,
        /// Standard output.
        output: OwnedFd,
    },
}

/// Builds a shard over `ring`, with its inlets open.
pub(super) fn build<R: Ring>(
    mut ring: R,
    host: Rc<dyn Host>,
    seed: Seed,
) -> io::Result<Shard<R, ShardDriver>> {
    let Seed { options, catalog, seat, post, served, blocking, inlets } = seed;
    let shard = seat.shard();
    let limits = limits(&options, post.shards().count());
    let link = limits.link;
    let calls_max = link.connections_max * link.requests_in_flight_max as usize;
    let road = Road {
        catalog,
        calls: Calls::new(calls_max),
        desk: Rc::new(Desk::new(ring.waker(), calls_max)),
        host,
        blocking,
        shard,
        post,
        request_max: limits.request_max,
        counters: Counters::default(),
    };
    let nesting_max = options.limits.nesting_max;
    let mut driver = ShardDriver::new(Parts {
        link: Link::new(link),
        parser: Parser::new(json::Limits { nesting_max, ..json::Limits::default() }),
        road,
        mailbox: seat.open(ring.waker()),
        served,
        limits,
    });
    let pipes = match inlets {
        Inlets::Listeners(listeners) => {
            open_doors(&mut ring, &mut driver, listeners)?;
            None
        }
        Inlets::Pipes { input, output } => {
            Some((pipe(&mut ring, input)?, pipe(&mut ring, output)?))
        }
    };
    let mut shard = Shard::new(ring, driver);
    if let Some((receive, send)) = pipes {
        let now = shard.now();
        let (ring, driver) = shard.parts_mut();
        let session = Session::new(Transport::Stdio, false);
        let stream = Stream { receive, send, peer: None };
        // The table is empty: there is room for the one connection there will ever be.
        driver.link.open(ring, stream, session, now).map_err(|_| io::Error::other("no room"))?;
        driver.ends_with_input = true;
    }
    Ok(shard)
}

fn open_doors<R: Ring>(
    ring: &mut R,
    driver: &mut ShardDriver,
    listeners: Vec<(OwnedFd, Transport)>,
) -> io::Result<()> {
    for (descriptor, transport) in listeners {
        if let Registered::Listener(listener) = ring.register(Source::Listener(descriptor))? {
            driver.doors.push(Door { listener, transport });
            ring.submit(Operation::Accept(listener));
        }
    }
    Ok(())
}

fn pipe<R: Ring>(ring: &mut R, descriptor: OwnedFd) -> io::Result<crate::engine::ring::Socket> {
    match ring.register(Source::Pipe(descriptor))? {
        Registered::Socket(socket) => Ok(socket),
        Registered::Listener(_) => Err(io::Error::other("a pipe is no listener")),
    }
}

/// The limits of one shard. Any shard may get all connections there are (the kernel deals them out,
/// and not evenly); the memory that they hold is divided evenly.
pub(super) fn limits(options: &Options, shards: usize) -> Limits {
    let link = LinkOptions {
        connections_max: (options.tcp.connections_max + REFUSALS_MAX) as usize,
        idle_max: options.tcp.idle_max,
        lease_max: options.tcp.lease_max,
        message_bytes_max: options.limits.message_bytes_max,
        outgoing_bytes_max: options.limits.outgoing_bytes_max,
        requests_in_flight_max: options.limits.requests_in_flight_max,
        held_bytes_max: options.limits.memory_bytes_max / shards.max(1),
        ..LinkOptions::default()
    };
    Limits {
        link,
        connections_max: options.tcp.connections_max as usize,
        request_max: options.limits.request_max,
        drain_max: options.engine.drain_max,
    }
}
