//! One live connection: its sockets, its framing, its queues and its end.
//!
//! A [`Link`] holds the connections of one shard. It turns what the ring completes into texts for
//! the road (lines, requests of HTTP, messages of WebSocket), corks what the road answers and sends
//! it once a turn, slows a peer that does not read, ends one that stays silent, and closes so that
//! the last answer still arrives.
//!
//! What it keeps true:
//!
//! - At most one send of a connection is with the ring; what is written meanwhile is corked
//!   behind it, so answers leave in the order in which they were written.
//! - A connection whose peer does not read holds at most `outgoing_bytes_max` bytes and the one
//!   answer that passed the bound; it is not read until half of that has drained.
//! - An idle connection holds no buffer.
//! - A connection leaves the table only when the ring has closed its sockets.
//!
//! What it does not do: look into a line. That is the business of whoever holds the link.

#![forbid(unsafe_code)]

pub mod options;

mod framed;

pub mod connection;
pub mod listener;

mod input;
mod output;
mod parting;
mod requests;
mod timers;

mod frames;

use std::net::SocketAddr;

pub use self::connection::{Connection, Ending, Framing, Standing};
pub use self::frames::Frame;
pub use self::options::{FrameOptions, LinkOptions};
use crate::base::pool::BufferPool;
use crate::base::slab::{Key, Slab};
use crate::base::time::Moment;
use crate::engine::ring::{Operation, Ring, Socket};
use crate::engine::timer::Wheel;

use self::connection::Phase;
use self::parting::Farewell;

/// The connections of one shard, each with a session of type `S` that belongs to the driver.
#[derive(Debug)]
pub struct Link<S> {
    /// The connections themselves.
    pub connections: Slab<Connection<S>>,
    /// Where line and answer buffers come from and go back to.
    pub pool: BufferPool,
    /// The bounds.
    pub options: LinkOptions,
    /// What has happened to connections since the start.
    pub statistics: Statistics,
    keys: Vec<Option<Key>>,
    corked: Vec<Key>,
    wheel: Wheel<Key>,
    held_bytes: usize,
}

/// What has happened to the connections of a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Statistics {
    /// Times a connection was not read because its peer did not read.
    pub paused: u64,
    /// Sends handed to the ring.
    pub sends: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// What has happened to connections whose bytes are frames.
    pub frames: FrameStatistics,
}

/// What has happened to the connections of a link whose bytes are frames.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FrameStatistics {
    /// Connections that have become such.
    pub adopted: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Peers asked for a sign of life.
    pub pings_out: u64,
    /// Pings of peers, each of them answered.
    pub pings_in: u64,
    /// Signs of life that peers gave, asked for or not.
    pub pongs_in: u64,
    /// Close frames that peers sent.
    pub closes_in: u64,
    /// Close frames queued.
    pub closes_out: u64,
    /// Connections closed because their peer did not read.
    pub undrained: u64,
    /// Connections closed because a message had begun and did not become whole.
    pub unfinished: u64,
}

/// The two directions of a new connection.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Where bytes come from.
    pub receive: Socket,
    /// Where bytes go to: the same socket, or the other pipe.
    pub send: Socket,
    /// The other end, where it is known.
    pub peer: Option<SocketAddr>,
    /// What its bytes are.
    pub framing: Framing,
}

/// What the driver should look at after the link has dealt with a completion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// The connection may be read again: carry its stash down the road, see [`Link::unstash`].
    Resume(Key),
    /// The stream has ended: its last line may stand without a terminator, and whoever waits for
    /// an answer may have gone.
    LastLine(Key),
    /// The connection failed: whatever it has in flight has nobody to answer to.
    Abandon(Key),
}

impl<S> Link<S> {
    /// A link without connections. Takes memory as they come.
    pub fn new(options: LinkOptions) -> Self {
        Self {
            connections: Slab::new(options.connections_max),
            pool: BufferPool::new(options.pool_bytes_max, options.pool_buffer_bytes_max),
            options,
            statistics: Statistics::default(),
            keys: Vec::new(),
            corked: Vec::new(),
            wheel: Wheel::new(),
            held_bytes: 0,
        }
    }

    /// Takes a new connection in and begins to receive; hands the session back when the table is
    /// full (the caller closes the socket).
    pub fn open<R: Ring>(
        &mut self,
        ring: &mut R,
        stream: Stream,
        session: S,
        now: Moment,
    ) -> Result<Key, S> {
        let connection = Connection::new(stream, session, now);
        let key = match self.connections.insert(connection) {
            Ok(key) => key,
            Err(refused) => return Err(refused.session),
        };
        for socket in [stream.receive, stream.send] {
            let index = socket.index();
            if index >= self.keys.len() {
                self.keys.resize(index + 1, None);
            }
            self.keys[index] = Some(key);
        }
        if stream.receive == stream.send {
            let first = self.options.lease_max.min(self.options.idle_max);
            self.wheel.shed(self.connections.len(), |key| self.connections.get(*key).is_some());
            self.arm(key, now.after(first));
        }
        ring.submit(Operation::Receive(stream.receive));
        Ok(key)
    }

    /// The connection that a socket belongs to.
    #[inline]
    pub fn key(&self, socket: Socket) -> Option<Key> {
        self.keys.get(socket.index()).copied().flatten()
    }

    /// Weighs one connection anew; returns the bytes that all of them hold together, each as it was
    /// when it was last weighed.
    #[inline]
    pub fn weigh(&mut self, key: Key) -> usize {
        if let Some(connection) = self.connections.get_mut(key) {
            let weight = connection.held_bytes();
            self.held_bytes = self.held_bytes - connection.weight + weight;
            connection.weight = weight;
        }
        self.held_bytes
    }

    /// Lets a connection end once everything owed to its peer has been sent: nothing more is read.
    pub fn finish<R: Ring>(&mut self, ring: &mut R, key: Key, ending: Ending, now: Moment) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.end(ending);
        let mut has_left = false;
        if connection.phase == Phase::Open {
            connection.phase = Phase::Draining;
            has_left = self.drop_input(key);
        }
        if has_left {
            // It waits for nothing any more, whatever it is owed.
            self.part(key, Farewell::of(ending), ending, now);
        } else {
            self.advance(ring, key, now);
        }
    }

    /// Gives up what waited to be read: it must not hold the end back, nor memory. `true` where the
    /// peer has closed in it.
    fn drop_input(&mut self, key: Key) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let (has_left, buffers) = connection.release_input();
        for buffer in buffers {
            self.pool.give(buffer);
        }
        self.statistics.frames.closes_in += u64::from(has_left);
        self.weigh(key);
        has_left
    }

    /// Ends a connection at once; what was not sent is lost.
    pub fn close<R: Ring>(&mut self, ring: &mut R, key: Key, ending: Ending) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.end(ending);
        if connection.phase == Phase::Closing {
            return;
        }
        connection.phase = Phase::Closing;
        ring.submit(Operation::Close(connection.receive));
        if connection.send != connection.receive {
            ring.submit(Operation::Close(connection.send));
        }
    }

    /// Moves a connection that is to end one step on where nothing holds it back.
    pub(crate) fn advance<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let linger_max = self.options.linger_max;
        let Some(connection) = self.connections.get_mut(key) else { return };
        match connection.phase {
            Phase::Draining if connection.owes() => return,
            Phase::Draining if connection.is_frames() => return self.part_at_last(ring, key, now),
            Phase::Parting if connection.queued_bytes() > 0 => return,
            Phase::Lingering if connection.is_answered() => {
                return self.close(ring, key, Ending::Peer);
            }
            Phase::Open | Phase::Lingering | Phase::Closing => return,
            Phase::Draining | Phase::Parting => {}
        }
        let is_over = connection.input_ended || connection.is_answered();
        if is_over || connection.send != connection.receive {
            self.close(ring, key, Ending::Peer);
            return;
        }
        // Closing now, with bytes of the peer unread, would reset the connection and could take
        // the last answer with it: say that we are done and wait for the peer to see it.
        connection.phase = Phase::Lingering;
        connection.active = now;
        ring.submit(Operation::Finish(connection.send));
        ring.submit(Operation::Receive(connection.receive));
        self.arm(key, now.after(linger_max));
    }

    /// The ring has closed a socket; forgets its connection once both directions are gone.
    /// Returns the session of a connection that has left, and why it has.
    pub fn closed(&mut self, socket: Socket) -> Option<(S, Ending)> {
        let key = self.keys.get_mut(socket.index())?.take()?;
        let connection = self.connections.get_mut(key)?;
        let (receive, send) = (connection.receive, connection.send);
        if self.key(receive).is_some() || self.key(send).is_some() {
            return None;
        }
        let mut connection = self.connections.remove(key)?;
        self.pool.give(std::mem::take(&mut connection.outgoing));
        for buffer in connection.release_input().1 {
            self.pool.give(buffer);
        }
        self.held_bytes -= connection.weight;
        Some((connection.session, connection.ending.unwrap_or(Ending::Failure)))
    }
}
