//! Large messages that threads in the background parse for a shard, so that small ones do not wait
//! for them: a message of 16 MiB takes up to 150 ms. A response with large texts of such a message
//! is written there, too.
//!
//! Invariants: clients are served in turns; a connection has one message or response here at most,
//! and is not read until that is dispatched or sent; what is here counts as held memory of the
//! shard until then, or until it is dropped, also after its connection has ended.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::Key;
use corelane_engine::blocking::{BlockingPool, Job, Reservation, WaitingJob};
use corelane_engine::mesh::{Sender, ShardId};
use corelane_protocol::json::{PaddedBuffer, ParseLimits};

use super::connection_state::ResponseHead;
use super::options::{LimitOptions, Options};
use super::shard_message::{
    LargeMessage, ParsedMessage, PartialResponse, ShardMessage, send_blocking,
};

/// The threads of a server, and what they parse; a clone is the same threads.
#[derive(Clone, Debug)]
pub struct ParseThreads {
    pool: Arc<BlockingPool<ParseJob>>,
    limits: ParseLimits,
    /// Size from which on a message is large.
    bytes_min: usize,
}

impl ParseThreads {
    /// Returns the threads of a server with these options, each started when messages wait for it.
    pub fn new(options: &Options) -> Self {
        let LimitOptions { nesting_max, json_tokens_max, parse_on_thread_bytes, .. } =
            options.limits;
        let limits =
            ParseLimits { nesting_max, tokens_max: json_tokens_max, ..ParseLimits::default() };
        // Held memory is what limits the messages here. None is displaced.
        let threads = options.background_threads();
        let pool = Arc::new(BlockingPool::background("corelane-parse", threads, usize::MAX));
        Self { pool, limits, bytes_min: parse_on_thread_bytes }
    }

    /// Returns the limits of each message.
    pub const fn limits(&self) -> ParseLimits {
        self.limits
    }
}

/// A message on its way through a thread.
struct ParseJob {
    message: Box<ParsedMessage>,
    limits: ParseLimits,
    sender: Sender<ShardMessage>,
    shard: ShardId,
}

impl fmt::Debug for ParseJob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ParseJob(..)")
    }
}

impl Job for ParseJob {
    type Owner = Option<ClientAddress>;

    fn bytes(&self) -> usize {
        0
    }

    fn run(self, _: Reservation) {
        let Self { message: mut parsed, limits, sender, shard } = self;
        // A connection waits for it, whatever happens.
        if catch_unwind(AssertUnwindSafe(|| parsed.message.process(limits))).is_err() {
            parsed.message.reject();
        }
        send_blocking(&sender, shard, ShardMessage::Parsed(parsed));
    }
}

/// The large messages of a shard.
#[derive(Debug)]
pub struct LargeMessages {
    threads: ParseThreads,
    sender: Sender<ShardMessage>,
    shard: ShardId,
    /// Messages that are queued for a thread or on one, by their connections.
    on_threads: HashMap<Key, QueuedMessage>,
    /// Messages whose connections are to be read again, by these.
    parsed: HashMap<Key, Box<ParsedMessage>>,
    /// What all messages hold.
    bytes: usize,
    /// The response to the parsed message that is dispatched at present.
    pub begun: Option<Box<BegunResponse>>,
}

/// A response that lacks large texts of its message, and stays on the shard.
#[derive(Debug)]
pub struct BegunResponse {
    pub partial: PartialResponse,
    /// What its head is written with, if it is one of HTTP.
    pub head: Option<ResponseHead>,
}

/// A response that its connection waits for.
#[derive(Debug)]
pub struct AwaitedResponse {
    /// What its head is written with, if it is one of HTTP.
    pub head: Option<ResponseHead>,
}

/// A message of a connection on its way through a thread.
#[derive(Debug)]
struct QueuedMessage {
    job: WaitingJob<ParseJob>,
    bytes: usize,
    /// It is a response to one.
    is_response: bool,
    /// The head of a response.
    head: Option<ResponseHead>,
}

impl LargeMessages {
    /// Returns the messages of a shard, which receives them through `sender`.
    pub fn new(threads: ParseThreads, sender: Sender<ShardMessage>, shard: ShardId) -> Self {
        let (on_threads, parsed) = (HashMap::new(), HashMap::new());
        Self { threads, sender, shard, on_threads, parsed, bytes: 0, begun: None }
    }

    /// Returns the limits of each message.
    pub const fn limits(&self) -> ParseLimits {
        self.threads.limits()
    }

    /// Returns whether a thread parses a message of this length.
    #[inline]
    pub const fn takes(&self, length: usize) -> bool {
        length >= self.threads.bytes_min
    }

    /// Has a thread parse a message of a client at this address, or write a response to it.
    ///
    /// # Errors
    ///
    /// The message, if the system allows no thread.
    pub fn spawn(
        &mut self,
        client: Option<ClientAddress>,
        mut message: LargeMessage,
    ) -> Result<(), LargeMessage> {
        let (bytes, key) = (message.held_bytes(), message.connection());
        let is_response = matches!(message, LargeMessage::Response(_));
        let (limits, sender, shard) = (self.threads.limits, self.sender.clone(), self.shard);
        let message = Box::new(ParsedMessage { message, bytes });
        let job = ParseJob { message, limits, sender, shard };
        let spawned = self.threads.pool.spawn(client, job).map_err(|job| job.message.message)?;
        let queued = QueuedMessage { job: spawned.waiting, bytes, is_response, head: None };
        self.on_threads.extend(key.map(|key| (key, queued)));
        self.bytes += bytes;
        Ok(())
    }

    /// Returns whether a thread parses a message of this connection.
    #[inline]
    pub fn is_on_thread(&self, key: Key) -> bool {
        !self.on_threads.is_empty() && self.on_threads.contains_key(&key)
    }

    /// Returns whether a message of this connection is not dispatched yet.
    pub fn contains(&self, key: Key) -> bool {
        self.is_on_thread(key) || self.parsed.contains_key(&key)
    }

    /// Keeps a message of a connection until that is read again, which the caller brings about, or
    /// drops it if the connection has ended.
    pub fn keep(&mut self, key: Key, mut parsed: Box<ParsedMessage>) {
        if self.on_threads.remove(&key).is_some() {
            // With its values it holds several times its length.
            let bytes = parsed.message.held_bytes();
            self.bytes = self.bytes - parsed.bytes + bytes;
            parsed.bytes = bytes;
            self.parsed.insert(key, parsed);
        } else {
            self.end(parsed.bytes);
        }
    }

    /// Keeps the head of the response of a connection that is on a thread.
    pub fn keep_head(&mut self, key: Key, head: Option<ResponseHead>) {
        if let Some(queued) = self.on_threads.get_mut(&key) {
            queued.head = head;
        }
    }

    /// Ends a response that a thread has written. Returns `None` if its connection does not wait
    /// for it.
    pub fn end_response(&mut self, key: Key, bytes: usize) -> Option<AwaitedResponse> {
        self.end(bytes);
        self.on_threads.remove(&key).map(|queued| AwaitedResponse { head: queued.head })
    }

    /// Has the response to a message leave out its large texts, if the message is parsed, until
    /// [`LargeMessages::take_response`].
    pub fn begin_response(&mut self, message: &PaddedBuffer) {
        let bytes_min = self.threads.bytes_min;
        self.begun = message.parsed_text().map(|text| {
            let partial = PartialResponse::new(text, bytes_min);
            Box::new(BegunResponse { partial, head: None })
        });
    }

    /// Takes the response that lacks large texts, if there is one.
    pub fn take_response(&mut self) -> Option<Box<BegunResponse>> {
        self.begun.take().filter(|begun| begun.partial.is_used())
    }

    /// Takes the parsed message of a connection. Ends with [`LargeMessages::end`] or
    /// [`LargeMessages::restore`].
    #[inline]
    pub fn take(&mut self, key: Key) -> Option<Box<ParsedMessage>> {
        if self.parsed.is_empty() { None } else { self.parsed.remove(&key) }
    }

    /// Keeps a message once more that could not be dispatched yet.
    pub fn restore(&mut self, key: Key, parsed: Box<ParsedMessage>) {
        self.parsed.insert(key, parsed);
    }

    /// Records that a message is not held any more.
    pub const fn end(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Returns the bytes held for a connection.
    pub fn bytes_of(&self, key: Key) -> usize {
        let queued = self.on_threads.get(&key).map(|queued| queued.bytes);
        let parsed = || self.parsed.get(&key).map(|parsed| parsed.bytes);
        queued.or_else(parsed).unwrap_or_default()
    }

    /// Drops the message or response of a connection that has ended or is to free memory. One that
    /// is on a thread at present is held until that has ended. Returns whether it is a response.
    pub fn remove(&mut self, key: Key) -> bool {
        let queued = self.on_threads.remove(&key);
        let is_response = queued.as_ref().is_some_and(|queued| queued.is_response);
        if let Some(QueuedMessage { job, bytes, .. }) = queued
            && job.withdraw().is_some()
        {
            self.end(bytes);
        }
        if let Some(parsed) = self.take(key) {
            self.end(parsed.bytes);
        }
        is_response
    }

    /// Returns the bytes held.
    #[inline]
    pub const fn held_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use corelane_base::slab::Slab;
    use corelane_engine::mesh::{MeshOptions, build_mesh};

    use super::*;

    fn messages() -> LargeMessages {
        let (_, sender) = build_mesh(1, &MeshOptions::default());
        let threads = ParseThreads { bytes_min: 10, ..ParseThreads::new(&Options::default()) };
        LargeMessages::new(threads, sender, ShardId(0))
    }

    fn parsed(key: Key) -> ParsedMessage {
        let mut message = text(key);
        let bytes = message.held_bytes();
        message.process(ParseLimits::default());
        ParsedMessage { message, bytes }
    }

    fn text(key: Key) -> LargeMessage {
        LargeMessage::Text { key, text: PaddedBuffer::copy_of(b"[1, 2, 3, 4]") }
    }

    #[test]
    fn message_is_held_until_it_is_dispatched() {
        let mut messages = messages();
        let key = Slab::new(1).insert(()).unwrap();
        assert!(messages.takes(10) && !messages.takes(9) && !messages.contains(key));
        messages.spawn(None, text(key)).unwrap();
        assert!(messages.is_on_thread(key) && messages.take(key).is_none());
        let queued = messages.held_bytes();
        assert!(queued >= 12);
        messages.keep(key, parsed(key).into());
        assert!(!messages.is_on_thread(key) && messages.contains(key));
        // The list and its four numbers count, too.
        let held = messages.held_bytes();
        assert!(held >= queued + 5 * 24 && messages.bytes_of(key) == held);
        let taken = messages.take(key).unwrap();
        assert_eq!((messages.contains(key), messages.held_bytes()), (false, held));
        messages.restore(key, taken);
        let bytes = messages.take(key).unwrap().bytes;
        messages.end(bytes);
        assert_eq!(messages.held_bytes(), 0);
    }

    #[test]
    fn message_of_ended_connection_is_dropped() {
        let mut messages = messages();
        let mut slab = Slab::new(2);
        let [first, second] = [(); 2].map(|()| slab.insert(()).unwrap());
        messages.spawn(None, text(second)).unwrap();
        let held = messages.held_bytes();
        // As if the connection had ended while a thread parsed its message.
        messages.bytes += parsed(first).bytes;
        messages.keep(first, parsed(first).into());
        assert_eq!((messages.contains(first), messages.held_bytes()), (false, held));
        messages.keep(second, parsed(second).into());
        messages.remove(second);
        assert_eq!((messages.contains(second), messages.held_bytes()), (false, 0));
    }
}
