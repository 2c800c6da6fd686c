//! Resumption: a client presents the token of a session and the numbers of the last chunks it has.
//! From then on its connection carries the session, or its HTTP requests do. For a session of
//! another shard the new session stands: its front, which relays the messages of its connection.
//!
//! Invariants: all streams that the client names continue, or none; a token is valid for one
//! resumption, and the session that is resumed takes the place of the new one. A resumption whose
//! connection is lost before its client has used it does not count. A call that waited for its
//! response over HTTP is answered as cancelled when its session goes elsewhere. The connection of a
//! front is not read until the other shard has answered, nor while too many of its messages wait
//! there.

use std::collections::{HashMap, HashSet};

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;
use corelane_parity::capabilities::Capabilities;
use corelane_parity::envelope::Resume;
use corelane_parity::error::{ErrorCode, ParityError};
use corelane_parity::stream::{OutgoingStream, WindowLimits};
use corelane_parity::write;
use corelane_protocol::json::{PaddedBuffer, Value};
use corelane_transport::websocket::limits::CloseCode;

use super::ParitySessions;
use super::carrier::{Front, HttpCarrier, SessionCarrier};
use super::output::ParityPath;
use super::resume_tokens::{TokenContents, TokenError};
use super::session::{ParitySession, is_stream};
use crate::server::auth::Credential;
use crate::server::reply_to::ParityKey;
use crate::server::shard_message::{FrontAddress, RelayedResume, SessionCaller, SessionMessage};
use crate::telemetry::label::Transport;

/// A session that continues.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) key: ParityKey,
    /// Its streams, each with the number of its next chunk for the client.
    pub(super) streams: Vec<(String, u64)>,
    /// The texts of the chunks after the acknowledged ones, in order.
    pub(super) chunks: Vec<RepeatedChunk>,
}

/// A chunk that is sent again.
#[derive(Debug)]
pub(super) struct RepeatedChunk {
    /// The stream and its number.
    pub(super) stream: (Box<str>, u32),
    /// The number of the chunk.
    pub(super) seq: u64,
    pub(super) text: Box<[u8]>,
}

/// Why a session does not continue.
#[derive(Debug)]
pub(super) enum NotResumed {
    /// The client has to begin again, for this reason.
    Restart(&'static str),
    /// The client must not resume it.
    Rejected(ParityError),
}

/// What a client resumes, and with what.
#[derive(Debug)]
pub(super) struct Claim {
    /// The session and its generation.
    pub(super) contents: TokenContents,
    /// The last number received, by stream.
    pub(super) acknowledged: Vec<(Box<str>, u64)>,
    /// The capabilities of the client and the server.
    pub(super) capabilities: Capabilities,
}

/// Opens the token that the client of a new session presents. Any shard can do that.
pub(super) fn open_claim(
    parity: &ParitySessions,
    new_key: ParityKey,
    request: &Resume<'_>,
) -> Result<Claim, NotResumed> {
    let acknowledged = request.acknowledged().map(|(id, seq)| (id.into(), seq)).collect();
    let Some(session) = parity.get(new_key) else { return Err(NotResumed::Restart("expired")) };
    let capabilities = *session.protocol.capabilities();
    if !session.is_resumable() {
        return Err(NotResumed::Restart("feature_not_available"));
    }
    match parity.tokens.open(request.token, &identity(session)) {
        Ok(contents) => Ok(Claim { contents, acknowledged, capabilities }),
        Err(TokenError::OtherProcess) => Err(NotResumed::Restart("unknown_server")),
        Err(TokenError::Invalid) => {
            let message = "the resume token is not valid for this caller";
            let error = ParityError::new(ErrorCode::Unauthorized, message);
            Err(NotResumed::Rejected(error))
        }
    }
}

/// Resumes a session of this shard.
///
/// # Errors
///
/// The reason why its client has to start again.
pub(super) fn resume(
    parity: &mut ParitySessions,
    claim: &Claim,
    now: Instant,
) -> Result<Resumed, &'static str> {
    let TokenContents { session: id, generation } = claim.contents;
    let key = parity.find(id).ok_or("expired")?;
    let settings = parity.settings.session;
    let session = parity.get_mut(key).ok_or("expired")?;
    let is_lost = session.expires_at.is_some();
    if !session.generations.accepts(generation, is_lost) {
        return Err("taken_over");
    }
    let window = session.protocol.window(&settings).ok_or("expired")?;
    session.protocol.skip_exchange(&settings, now);
    if !session.protocol.begin_resume() {
        return Err("expired");
    }
    let continued = continue_streams(session, &claim.acknowledged, &window, now);
    session.protocol.end_resume(continued.is_ok());
    // Chunks that were too old are gone.
    parity.account(key);
    let (streams, chunks) = continued?;
    let session = parity.get_mut(key).ok_or("expired")?;
    session.generations.begin(generation);
    session.expires_at = None;
    session.protocol.reattach(&claim.capabilities, now);
    Ok(Resumed { key, streams, chunks })
}

/// The streams with the numbers of their next chunks, and the chunks to send again.
type Continued = (Vec<(String, u64)>, Vec<RepeatedChunk>);

/// Returns the streams with the numbers of their next chunks, and the chunks to send again.
fn continue_streams(
    session: &mut ParitySession,
    acknowledged: &[(Box<str>, u64)],
    window: &WindowLimits,
    now: Instant,
) -> Result<Continued, &'static str> {
    let streams = &mut session.protocol.streams;
    let known: HashSet<&str> = streams.iter().map(OutgoingStream::id).collect();
    if acknowledged.iter().any(|(id, _)| !known.contains(&**id)) {
        return Err("unknown_stream");
    }
    let acknowledged: HashMap<&str, u64> =
        acknowledged.iter().map(|(id, seq)| (&**id, *seq)).collect();
    let (mut continued, mut chunks) = (Vec::new(), Vec::new());
    streams.resume_each(|stream| {
        let named = acknowledged.get(stream.id()).copied();
        // The client has no chunk of a stream that it does not name.
        let last = named.unwrap_or(0);
        let (id, number) = (stream.id().to_owned(), stream.number());
        let has_ended = stream.has_ended();
        match stream.resume(last, window, now) {
            Ok(texts) => {
                chunks.extend((last + 1..).zip(texts).map(|(seq, text)| RepeatedChunk {
                    stream: (id.as_str().into(), number),
                    seq,
                    text: text.into(),
                }));
                continued.push((id, last + 1));
            }
            Err(_) if named.is_none() && has_ended => {}
            Err(error) => return Err(error.as_str()),
        }
        Ok(())
    })?;
    Ok((continued, chunks))
}

/// Why a connection closes whose session continues on another one.
const CONTINUED: &str = "the session was resumed on another connection";

impl ParityPath<'_> {
    /// Ends what carries a session whose client has resumed it elsewhere.
    pub(super) fn release_carrier(&mut self, key: ParityKey) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let previous = std::mem::take(&mut session.carrier);
        if let Some(connection) = previous.connection() {
            // Its client has connected again before the end of the connection was seen.
            if let Some(connection) = self.connections.table.get_mut(connection) {
                self.dispatcher.facts.keep_parity_session(&mut connection.state, None);
                connection.pending_work.pending_responses = 0;
            }
            self.close_connection(connection, CloseCode::POLICY.as_u16(), CONTINUED);
        }
        match previous {
            SessionCarrier::Remote(remote) => {
                remote.close(CloseCode::POLICY.as_u16(), CONTINUED, self.outbox);
            }
            SessionCarrier::Http(http) => self.detach_http(key, *http),
            SessionCarrier::None | SessionCarrier::Connection(_) | SessionCarrier::Front(_) => {}
        }
    }

    /// HTTP requests carry a session no more: its calls are cancelled and answered, its streams
    /// continue.
    fn detach_http(&mut self, key: ParityKey, http: HttpCarrier) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let session_id = session.id;
        let calls = session.calls(&mut self.dispatcher.deferred);
        self.cancel_if(key, |number| !is_stream(number));
        self.end_http(session_id, http, &calls, None);
    }

    /// Has a connection carry a session.
    pub(super) fn attach(&mut self, connection_key: Key, key: ParityKey) {
        let Some(connection) = self.connections.table.get_mut(connection_key) else { return };
        let Some(session) = self.parity.get_mut(key) else { return };
        session.carrier = SessionCarrier::Connection(connection_key);
        session.state.transport = connection.state.transport;
        session.state.client = connection.state.client;
        self.dispatcher.facts.copy_identity(&connection.state, &mut session.state);
        self.dispatcher.facts.keep_parity_session(&mut connection.state, Some(key));
    }

    /// Has HTTP requests carry a session.
    pub(super) fn attach_http(&mut self, key: ParityKey, caller: &SessionCaller) {
        self.attach_caller(key, caller, SessionCarrier::Http(Box::default()), Transport::Http);
    }

    /// Has what another shard forwards carry a session of this caller: HTTP requests, or a
    /// connection.
    pub(super) fn attach_caller(
        &mut self,
        key: ParityKey,
        caller: &SessionCaller,
        carrier: SessionCarrier,
        transport: Transport,
    ) {
        let Some(session) = self.parity.get_mut(key) else { return };
        session.carrier = carrier;
        session.state.transport = transport;
        session.state.client = caller.client;
        let credential = caller.principal.as_ref().map(Credential::of_session);
        self.dispatcher.facts.keep_credential(&mut session.state, credential);
    }

    /// Has a new session stand for the one of another shard that its client resumes. Its connection
    /// is not read until that shard has answered.
    pub(super) fn begin_front(
        &mut self,
        connection: Key,
        key: ParityKey,
        owner: ShardId,
        shard: ShardId,
        claim: Claim,
    ) {
        let Self { parity, connections, outbox, now, .. } = self;
        let timeout = parity.settings.session.timeouts.handshake;
        let Some(session) = parity.get_mut(key) else { return };
        let TokenContents { session: id, generation } = claim.contents;
        session.carrier = SessionCarrier::Front(Box::new(Front::new(connection, owner, id)));
        session.protocol.detach();
        session.expires_at = Some(now.after(timeout));
        connections.table.set_suspended(connection, true);
        let peer = connections.table.get(connection);
        let peer_addr = peer.and_then(|it| it.record.peer_address().copied());
        let request = RelayedResume {
            session: id,
            generation,
            front: FrontAddress { shard, key },
            capabilities: claim.capabilities,
            acknowledged: claim.acknowledged,
            transport: session.state.transport,
            caller: session.state.session_caller(peer_addr),
        };
        outbox.forward(owner, SessionMessage::Resume(Box::new(request)));
        parity.set_timer(key);
    }

    /// Forwards a message to the shard of the session that a front stands for.
    #[cold]
    pub(super) fn forward_message(
        &mut self,
        connection: Key,
        address: FrontAddress,
        value: Value<'_>,
        bytes: usize,
    ) {
        let Self { parity, connections, outbox, .. } = self;
        let session = parity.get_mut(address.key);
        let Some(front) = session.and_then(|it| it.carrier.front_mut()) else { return };
        if !front.is_open {
            // Only a text of the same WebSocket message comes before the connection is read again.
            let message = "the session is being resumed: send one message in a WebSocket message";
            let error = ParityError::feature_not_available(message);
            let write = |out: &mut Vec<u8>| write::error(out, None, &error);
            return self.write_message(connection, write);
        }
        let mut text = Vec::new();
        value.write(&mut text);
        front.unhandled += 1;
        connections.table.set_suspended(connection, front.is_full());
        if let Some(connection) = connections.table.get_mut(connection) {
            connection.pending_work.pending_responses = front.pending_responses();
        }
        let (session, owner) = (front.session, front.owner);
        let (front, text) = (address, PaddedBuffer::new(text));
        outbox.forward(owner, SessionMessage::Relay { session, front, text, bytes });
    }
}

/// Returns a token for the present generation of a session; `None` if it cannot be resumed.
pub(super) fn issue_token(parity: &mut ParitySessions, key: ParityKey) -> Option<String> {
    let session = parity.get(key).filter(|session| session.is_resumable())?;
    let contents = TokenContents { session: session.id, generation: session.generations.present() };
    let identity = identity(session);
    parity.tokens.issue(contents, &identity)
}

/// Returns the identity of the caller; empty without authentication.
fn identity(session: &ParitySession) -> String {
    let principal = session.state.principal();
    principal.map(|principal| principal.identity()).unwrap_or_default()
}
