//! A server in the thread of its only client, without sockets.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use corelane_engine::clock::Clock;
use corelane_engine::executor::NativeExecutor;
use corelane_engine::ring::Ring;
use corelane_engine::ring::memory::MemoryRing;
use corelane_engine::shard_loop::{Driver, ShardLoop};
use corelane_engine::task_park::TaskPark;
use http::Extensions;

use super::Guard;
use super::handle::Handle;
use super::shard_builder::{ShardBuilder, ShardInput};
use crate::server::extension_slot::ExtensionSlot;
use crate::server::shard::Shard;
use crate::telemetry::counters::Counters;
use crate::telemetry::label::Transport;

/// Turns of the shard in one poll, so that a handler that is always ready does not keep the thread.
const TURNS_PER_POLL_MAX: usize = 64;

/// The client's end of a connection to a server in the same thread: JSON-RPC messages in both
/// directions, one text each, without sockets.
///
/// The server runs on this thread while the connection is used: [`InProcessConnection::send`]
/// handles the message and runs inline handlers, [`InProcessConnection::receive`] runs local
/// handlers and takes the results of the others. It stays on the thread that created it (`!Send`).
/// The futures need no runtime and work with every executor; a thread wakes them for timers, from
/// the first timer on.
///
/// Messages that are not received hold back the server, as those of a slow client do. The limits of
/// the options apply, except that the connection is not closed because of one.
///
/// Dropping it cancels the requests in flight and ends the server. Blocking handlers that run
/// finish on their threads.
///
/// ```
/// use corelane::model::Implementation;
/// use corelane::{Catalog, Server};
///
/// let catalog = Catalog::builder(Implementation::new("demo", "1.0.0")).build()?;
/// let mut connection = Server::builder(catalog).connect()?;
/// connection.send(r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#);
/// let response = connection.try_receive().unwrap_or_default();
/// assert_eq!(response, br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
/// # Ok::<(), corelane::StartError>(())
/// ```
pub struct InProcessConnection {
    shard: ShardLoop<MemoryRing, Shard>,
    park: TaskPark,
    handle: Handle,
    has_ended: bool,
    /// Shared with the shard, once there were extensions.
    extensions: Option<ExtensionSlot>,
    /// Values of the callbacks of [`Server::on_start`](super::Server::on_start), dropped last.
    pub(super) guards: Vec<Guard>,
}

/// What the shard has for the client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Progress {
    /// A message.
    Message,
    /// Nothing before a wake-up or its next deadline.
    Idle,
    /// Nothing yet; it must run again.
    Busy,
    /// Nothing more: the server has ended.
    Ended,
}

impl InProcessConnection {
    /// Builds the shard and opens its connection.
    pub(super) fn open(builder: ShardBuilder, handle: Handle) -> io::Result<Self> {
        let clock = Clock::start();
        let park = TaskPark::new(clock);
        let ring = MemoryRing::new(clock, park.waker());
        let executor = Rc::new(NativeExecutor::new(ring.waker()));
        let connection = ShardInput::OnlyConnection {
            input: MemoryRing::INPUT,
            output: MemoryRing::OUTPUT,
            transport: Transport::InProcess,
        };
        let shard = builder.build(ring, executor, &[connection])?;
        Ok(Self { shard, park, handle, has_ended: false, extensions: None, guards: Vec::new() })
    }

    /// Sends one JSON text to the server, and runs it once. Line breaks between tokens are allowed.
    /// After the end of the server it has no effect.
    pub fn send(&mut self, message: impl AsRef<[u8]>) {
        let message = message.as_ref();
        if self.shard.driver().inbox.has_messages() {
            // What the handle has done precedes the message.
            self.run_turn();
        }
        if self.has_ended {
            return;
        }
        if memchr::memchr(b'\n', message).is_some() {
            // In JSON text, a line break is white space between tokens.
            let line: Vec<u8> =
                message.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }).collect();
            self.shard.ring_mut().push_line(&line);
        } else {
            self.shard.ring_mut().push_line(message);
        }
        self.run_turn();
    }

    /// Attaches values to all requests that are sent from now on: their handlers read them by type;
    /// see [`RequestInfo::extension`](crate::RequestInfo::extension). A
    /// [`Principal`](crate::auth::Principal) among them is the caller of the requests.
    pub fn set_extensions(&mut self, extensions: Extensions) {
        let slot = self.extensions.get_or_insert_with(|| {
            let slot = ExtensionSlot::default();
            self.shard.ring_and_driver_mut().1.attach_to_only_connection(slot.clone());
            slot
        });
        slot.set(Some(Arc::new(extensions)));
    }

    /// Receives the next message of the server, or `None` after the end of the server, which
    /// follows [`Handle::drain`]. A future that is dropped loses no message.
    pub async fn receive(&mut self) -> Option<&[u8]> {
        poll_fn(|context| self.poll_message(context)).await;
        self.shard.ring_mut().next_line()
    }

    /// [`InProcessConnection::receive`], polled.
    pub fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<&[u8]>> {
        self.poll_message(context).map(|()| self.shard.ring_mut().next_line())
    }

    /// Receives the next message if the server has one now. Runs the handlers that are ready, and
    /// waits for nothing.
    pub fn try_receive(&mut self) -> Option<&[u8]> {
        self.run_until_message();
        self.shard.ring_mut().next_line()
    }

    /// Returns whether the server has ended. Messages may be left to receive.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns a handle to update the catalog, to change limits or to drain the server. What it
    /// does takes effect before the next message. [`Handle::counters`] and
    /// [`Handle::connections`] wait for the server, so they must not be called on this thread.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the counters of the server.
    pub fn counters(&self) -> Counters {
        self.shard.driver().counters()
    }

    /// Runs the shard until it has a message, or waits for something. Parks the task then.
    fn poll_message(&mut self, context: &Context<'_>) -> Poll<()> {
        let is_parked = match self.run_until_message() {
            Progress::Message | Progress::Ended => return Poll::Ready(()),
            Progress::Idle => self.park(context),
            Progress::Busy => false,
        };
        if !is_parked {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Has the task woken when the shard must run again. Returns `false` if that is now.
    fn park(&mut self, context: &Context<'_>) -> bool {
        let (_, driver) = self.shard.ring_and_driver_mut();
        let deadline = Driver::<MemoryRing>::next_deadline(driver);
        Driver::<MemoryRing>::prepare_park(driver) && self.park.park(context.waker(), deadline)
    }

    fn run_until_message(&mut self) -> Progress {
        for _ in 0..TURNS_PER_POLL_MAX {
            if self.shard.ring().has_line() {
                return Progress::Message;
            }
            if self.has_ended {
                return Progress::Ended;
            }
            let has_work = self.run_turn();
            let ring = self.shard.ring();
            if !has_work && !ring.has_line() && !ring.has_completions() && !self.has_ended {
                return Progress::Idle;
            }
        }
        Progress::Busy
    }

    /// Runs one turn of the shard; returns whether work is left for the next one.
    #[inline]
    fn run_turn(&mut self) -> bool {
        let has_work = self.shard.run_ready();
        self.has_ended = Driver::<MemoryRing>::is_finished(self.shard.driver());
        has_work
    }
}

impl Drop for InProcessConnection {
    fn drop(&mut self) {
        self.shard.ring_mut().disconnect();
        // Handlers observe the cancellation.
        while self.run_until_message() == Progress::Message {
            self.shard.ring_mut().next_line();
        }
    }
}

impl fmt::Debug for InProcessConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("InProcessConnection");
        text.field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}
