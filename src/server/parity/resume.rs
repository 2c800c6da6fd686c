//! Resumption: a client presents the token of a session and the numbers of the last chunks it has.
//!
//! Invariants: all streams that the client names continue, or none; a token is valid for one
//! resumption, and the session that is resumed takes the place of the new one.

use super::frontend::ParityFrontend;
use super::resume_tokens::{TokenContents, TokenError};
use super::session::ParitySession;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::mesh::ShardId;
use crate::protocol::parity::envelope::Resume;
use crate::protocol::parity::error::{ErrorCode, ParityError};
use crate::protocol::parity::stream::{OutgoingStream, WindowLimits};

/// A session that continues.
#[derive(Debug)]
pub(super) struct Resumed {
    /// The session.
    pub(super) key: Key,
    /// Its streams, each with the number of its next chunk for the client.
    pub(super) streams: Vec<(String, u64)>,
    /// The texts of the chunks after the acknowledged ones, in order.
    pub(super) chunks: Vec<RepeatedChunk>,
}

/// A chunk that is sent again.
#[derive(Debug)]
pub(super) struct RepeatedChunk {
    /// The stream.
    pub(super) stream: Box<str>,
    /// The number.
    pub(super) seq: u64,
    /// The text.
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

/// Resumes the session of a token on this shard, one of `shards`. A session of another shard
/// continues over HTTP only, whose requests reach it.
pub(super) fn resume(
    parity: &mut ParityFrontend,
    new_key: Key,
    request: &Resume<'_>,
    (shard, shards): (ShardId, u16),
    now: Instant,
) -> Result<Resumed, NotResumed> {
    let acknowledged = request.acknowledged().map_err(NotResumed::Rejected)?;
    let Some(session) = parity.get(new_key) else { return Err(NotResumed::Restart("expired")) };
    let capabilities = *session.protocol.capabilities();
    if !session.is_resumable() {
        return Err(NotResumed::Restart("feature_not_available"));
    }
    let contents = match parity.tokens.open(request.token, &identity(session)) {
        Ok(contents) => contents,
        Err(TokenError::OtherProcess) => return Err(NotResumed::Restart("unknown_server")),
        Err(TokenError::Invalid) => {
            let message = "the resume token is not valid for this caller";
            let error = ParityError::new(ErrorCode::Unauthorized, message);
            return Err(NotResumed::Rejected(error));
        }
    };
    let TokenContents { session: id, generation } = contents;
    if id.owner(shards) != shard {
        return Err(NotResumed::Restart("other_shard"));
    }
    let Some(key) = parity.find(id) else { return Err(NotResumed::Restart("expired")) };
    let settings = parity.settings.session;
    let Some(session) = parity.get_mut(key) else { return Err(NotResumed::Restart("expired")) };
    if session.generation != generation {
        return Err(NotResumed::Restart("taken_over"));
    }
    let Some(window) = session.protocol.window(&settings) else {
        return Err(NotResumed::Restart("expired"));
    };
    if !session.protocol.begin_resume() {
        return Err(NotResumed::Restart("expired"));
    }
    let continued = continue_streams(session, &acknowledged, &window, now);
    session.protocol.end_resume(continued.is_ok());
    // Chunks that were too old are gone.
    parity.account(key);
    let (streams, chunks) = continued.map_err(NotResumed::Restart)?;
    let Some(session) = parity.get_mut(key) else { return Err(NotResumed::Restart("expired")) };
    session.generation = session.generation.wrapping_add(1);
    session.expires_at = None;
    session.protocol.reattach(&capabilities, now);
    Ok(Resumed { key, streams, chunks })
}

/// The streams with the numbers of their next chunks, and the chunks to send again.
type Continued = (Vec<(String, u64)>, Vec<RepeatedChunk>);

/// Returns the streams with the numbers of their next chunks, and the chunks to send again.
fn continue_streams(
    session: &mut ParitySession,
    acknowledged: &[(&str, u64)],
    window: &WindowLimits,
    now: Instant,
) -> Result<Continued, &'static str> {
    let streams = &mut session.protocol.streams;
    if acknowledged.iter().any(|(id, _)| streams.find_mut(id).is_none()) {
        return Err("unknown_stream");
    }
    let numbers: Vec<u32> = streams.iter().map(OutgoingStream::number).collect();
    let (mut continued, mut chunks) = (Vec::new(), Vec::new());
    for number in numbers {
        let Some(stream) = streams.get_mut(number) else { continue };
        let named = acknowledged.iter().find(|(id, _)| *id == stream.id());
        // The client has no chunk of a stream that it does not name.
        let last = named.map_or(0, |(_, seq)| *seq);
        let (id, has_ended) = (stream.id().to_owned(), stream.has_ended());
        match stream.resume(last, window, now) {
            Ok(texts) => {
                chunks.extend((last + 1..).zip(texts).map(|(seq, text)| RepeatedChunk {
                    stream: id.as_str().into(),
                    seq,
                    text: text.into(),
                }));
                continued.push((id, last + 1));
            }
            Err(_) if named.is_none() && has_ended => {}
            Err(error) => return Err(error.as_str()),
        }
    }
    Ok((continued, chunks))
}

/// Returns a token for the present generation of a session; `None` if it cannot be resumed.
pub(super) fn issue_token(parity: &mut ParityFrontend, key: Key) -> Option<String> {
    let session = parity.get(key).filter(|session| session.is_resumable())?;
    let contents = TokenContents { session: session.id, generation: session.generation };
    let identity = identity(session);
    parity.tokens.issue(contents, &identity)
}

/// Returns the identity of the caller; empty without authentication.
fn identity(session: &ParitySession) -> String {
    let principal = session.state.principal();
    principal.map(|principal| principal.identity()).unwrap_or_default()
}
