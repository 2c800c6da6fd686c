//! Flow control: the handlers of streams pause while what carries their session is full.
//!
//! ```text
//!   chunk ─▶ carrier ── above the mark ──▶ its handler pauses
//!            half of the mark is left   ──▶ it continues
//! ```
//!
//! A handler is not polled while it is paused. What it emits in one poll, or what comes from a
//! thread, cannot be paused: beyond as many bytes as the resume window has, such chunks of a stream
//! are dropped before they are numbered, and its next chunk is preceded by one that has their
//! number.
//!
//! Output to another shard counts as queued until that shard has reported it as sent.

use std::collections::HashMap;
use std::rc::Rc;

use corelane_base::slab::Key;
use corelane_parity::server_session::SessionSettings;

use super::session::ParitySession;
use crate::connection::{Connection, Connections};
use crate::server::connection_state::{ConnectionState, HttpExchange, ResponseOwner};
use crate::server::handlers::handler_state::CancellationToken;
use crate::server::outbox::Outbox;
use crate::server::reply_to::ParityKey;
use crate::server::shard_message::{CarrierAddress, ExchangeAddress, FrontAddress, SessionMessage};

/// Bytes of output to another shard that may be unsent before streams pause.
const UNSENT_BYTES_MAX: usize = 512 << 10;

/// Sent bytes are reported to the shard of the session from this number on.
const REPORT_BYTES_MIN: usize = 64 << 10;

/// Chunks that the window of a stream without connection keeps free for its end: the number of the
/// dropped ones, the result and `eos`.
const LAST_CHUNKS: usize = 3;

/// The paused streams of a shard, and the output that it has to report as sent.
#[derive(Debug, Default)]
pub struct FlowControl {
    paused: Vec<PausedStream>,
    /// Output to the HTTP exchanges of this shard that is not reported, by connection.
    unreported: HashMap<Key, Unreported>,
    /// What has to be reported once it is sent.
    due: Vec<CarrierAddress>,
}

/// A stream that is paused.
#[derive(Debug)]
pub(super) struct PausedStream {
    pub(super) session: ParityKey,
    pub(super) number: u32,
    /// `None` if its handler cannot be paused.
    pub(super) token: Option<Rc<CancellationToken>>,
}

/// Output to one HTTP exchange.
#[derive(Clone, Copy, Debug)]
struct Unreported {
    exchange: ExchangeAddress,
    bytes: usize,
}

/// What is queued in a carrier, and its marks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Load {
    queued: usize,
    /// Above it handlers pause.
    mark: usize,
    /// Nothing is accepted.
    is_closed: bool,
}

impl Load {
    /// The load of a carrier that accepts nothing.
    const CLOSED: Self = Self { queued: 1, mark: 0, is_closed: true };

    const fn new(queued: usize, mark: usize) -> Self {
        Self { queued, mark, is_closed: false }
    }

    /// Returns whether handlers pause.
    pub(super) const fn is_high(self) -> bool {
        self.queued > self.mark
    }

    /// Returns whether all chunks are dropped.
    pub(super) const fn is_closed(self) -> bool {
        self.is_closed
    }

    /// Returns whether paused handlers continue.
    pub(super) const fn is_low(self) -> bool {
        self.queued <= self.mark / 2
    }
}

impl FlowControl {
    /// Returns whether a stream is paused, or output has to be reported.
    #[inline]
    pub const fn is_active(&self) -> bool {
        !self.paused.is_empty() || !self.due.is_empty()
    }

    /// Records a paused stream.
    pub(super) fn add_paused(&mut self, stream: PausedStream) {
        self.paused.push(stream);
    }

    /// Takes what is paused and due. Return with [`FlowControl::restore`] what stays so.
    pub(super) fn take(&mut self) -> (Vec<PausedStream>, Vec<CarrierAddress>) {
        (std::mem::take(&mut self.paused), std::mem::take(&mut self.due))
    }

    /// Returns what stays paused and due. Nothing was added since it was taken.
    pub(super) fn restore(&mut self, paused: Vec<PausedStream>, due: Vec<CarrierAddress>) {
        (self.paused, self.due) = (paused, due);
    }

    /// Records output of a front that has to be reported once it is sent, if it is enough.
    pub(super) fn add_front(&mut self, front: FrontAddress, unreported_bytes: usize) {
        let is_known = |due: &CarrierAddress| *due == CarrierAddress::Front(front);
        if unreported_bytes >= REPORT_BYTES_MIN && !self.due.iter().any(is_known) {
            self.due.push(CarrierAddress::Front(front));
        }
    }

    /// Reports the output to an HTTP exchange if it is sent. Returns whether nothing is left to
    /// report.
    pub(super) fn report_exchange(
        &mut self,
        exchange: ExchangeAddress,
        connections: &Connections<ConnectionState>,
        shards: u16,
        outbox: &mut Outbox,
    ) -> bool {
        let connection = connections.table.get(exchange.connection);
        let open = open_exchange(connections, exchange);
        if open.is_some() && connection.is_some_and(|it| !is_drained(it, connections)) {
            return false;
        }
        let unreported = self.unreported.remove(&exchange.connection);
        let unreported = unreported.filter(|unreported| unreported.exchange == exchange);
        if let (Some(Unreported { bytes, .. }), Some(ResponseOwner::Parity(Some(session)))) =
            (unreported, open.map(|it| it.owner))
        {
            let carrier = CarrierAddress::Exchange(exchange);
            outbox.forward(session.owner(shards), SessionMessage::Sent { session, carrier, bytes });
        }
        true
    }

    /// Records output to an HTTP exchange of this shard.
    pub fn add_exchange(
        &mut self,
        exchange: ExchangeAddress,
        bytes: usize,
        connections: &Connections<ConnectionState>,
    ) {
        if self.unreported.len() > 2 * connections.table.len() {
            self.unreported.retain(|_, it| open_exchange(connections, it.exchange).is_some());
        }
        let entry = self.unreported.entry(exchange.connection);
        let unreported = entry.or_insert(Unreported { exchange, bytes: 0 });
        if unreported.exchange != exchange {
            *unreported = Unreported { exchange, bytes: 0 };
        }
        let before = unreported.bytes;
        unreported.bytes += bytes;
        if before < REPORT_BYTES_MIN && unreported.bytes >= REPORT_BYTES_MIN {
            self.due.push(CarrierAddress::Exchange(exchange));
        }
    }
}

/// Returns the load of what carries a session, for one of its streams.
pub(super) fn load_of(
    session: &mut ParitySession,
    number: u32,
    connections: &Connections<ConnectionState>,
    settings: &SessionSettings,
) -> Load {
    if let Some(connection) = session.carrier.connection() {
        let Some(connection) = connections.table.get(connection) else { return Load::CLOSED };
        if connection.state.violation.is_some() {
            return Load::CLOSED;
        }
        let mark = connection.queue_bytes_max(&connections.shared.options);
        return Load::new(connection.queued_bytes(), mark);
    }
    if let Some(remote) = session.carrier.remote() {
        return Load::new(remote.unsent_bytes, UNSENT_BYTES_MAX);
    }
    if let Some(http) = session.carrier.http() {
        return match http.exchange_of(number) {
            Some(exchange) => Load::new(http.unsent_bytes(exchange), UNSENT_BYTES_MAX),
            None => Load::new(http.queued_bytes(), settings.window_bytes_max),
        };
    }
    // What the client has not received must stay in the window.
    let window = session.protocol.window(settings);
    match (window, session.protocol.streams.get_mut(number)) {
        (Some(window), Some(stream)) if stream.has_room(&window, LAST_CHUNKS) => Load::new(0, 0),
        _ => Load::CLOSED,
    }
}

/// Returns an exchange of this shard, if it is not over.
fn open_exchange(
    connections: &Connections<ConnectionState>,
    exchange: ExchangeAddress,
) -> Option<&HttpExchange> {
    let connection = connections.table.get(exchange.connection)?;
    connection.state.exchange.as_deref().filter(|open| open.serial == exchange.serial)
}

/// Returns whether half of the output that a connection may queue is sent.
pub(super) fn is_drained(
    connection: &Connection<ConnectionState>,
    connections: &Connections<ConnectionState>,
) -> bool {
    connection.queued_bytes() <= connection.queue_bytes_max(&connections.shared.options) / 2
}
