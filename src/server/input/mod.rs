//! Input: from what a connection has received to the dispatcher.
//!
//! Connections are opened and closed (`lifecycle`), and read (`reading`). Their input is read
//! by its codec: `lines`, `frames` of a WebSocket, `http` requests.
//!
//! Invariants: a response is framed where the dispatcher has written it; input that is not a
//! message gets an error, and costs its connection nothing else unless it violates a limit.

mod rejections;

mod lines;

mod frames;

mod http;

mod lifecycle;

mod memory_relief;

mod waiting;

mod reading;

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_protocol::json::{PaddedText, ParseError};

use crate::connection::{Codec, Connection};
use crate::server::connection_state::{ConnectionState, MessageOrigin, PeerState};
use crate::server::dispatch::MessageContext;
use crate::server::outbox::Outbox;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::shard::Shard;

impl Shard {
    /// Dispatches the messages in `input`. Returns the number of bytes consumed before the
    /// connection must not be read any more.
    #[inline]
    fn read(&mut self, key: Key, codec: Codec, mut input: PaddedText<'_>) -> usize {
        match codec {
            Codec::Ndjson => self.read_lines(key, input),
            Codec::WebSocket => self.read_frames(key, input),
            Codec::Http => {
                let mut from = self.read_requests(key, input.reborrow());
                // One of them may be an upgrade: frames follow it.
                let length = input.as_bytes().len();
                let codec = self.transports.connections.table.codec(key);
                if from < length && codec == Some(Codec::WebSocket) {
                    from += self.read_frames(key, input.part(from, length));
                }
                from
            }
        }
    }

    /// Dispatches one text of a connection: a line, or a text of a WebSocket message. Its response
    /// is framed where the dispatcher has written it.
    ///
    /// # Errors
    ///
    /// The text does not parse, and cannot be repaired.
    #[inline]
    fn dispatch_text(&mut self, key: Key, text: &mut PaddedText<'_>) -> Result<(), ParseError> {
        let length = text.as_bytes().len();
        let Self { transports, parser, dispatcher, outbox, now, .. } = self;
        let now = *now;
        parser.read(text, |document| {
            let Some(entry) = transports.connections.entry(key) else { return };
            let state = &entry.connection.state;
            if state.dialect.is_parity() {
                outbox.counters.traffic.messages_in += 1;
                let session = state.parity_session().filter(|_| state.violation.is_none());
                let mut parity = transports.parity_path(dispatcher, outbox, now);
                return parity.receive(key, session, document.root(), length);
            }
            let Some(mut response) = entry.begin_response() else { return };
            let mut peer = peer_state(response.connection(), outbox);
            match dispatcher.dispatch(context(key, now), &mut peer, document.root()) {
                Outcome::None => {
                    if response.cancel().connection.state.dialect.is_parity() {
                        let mut parity = transports.parity_path(dispatcher, outbox, now);
                        return parity.receive(key, None, document.root(), length);
                    }
                    if !dispatcher.held.is_empty() && dispatcher.held.contains(key) {
                        transports.connections.table.hold_input(key);
                    }
                }
                _ => response.end(),
            }
        })
    }
}

/// Returns the peer state of a connection.
#[inline]
const fn peer_state<'a>(
    connection: &'a mut Connection<ConnectionState>,
    outbox: &'a mut Outbox,
) -> PeerState<'a> {
    let Connection { state, pending_work, outgoing, record, .. } = connection;
    let origin = MessageOrigin::of_peer(record.peer_address());
    PeerState { origin, state, pending_work, outgoing, outbox, refusal: None, failure: None }
}

/// Returns the context of a message on a connection.
#[inline]
const fn context(key: Key, now: Instant) -> MessageContext {
    let reply_to = ReplyTo::standalone(PeerId::Connection(key));
    MessageContext { reply_to, now, in_batch: false, is_modern: false }
}
