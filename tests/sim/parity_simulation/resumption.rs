//! Resume tokens that clients present, and what the server may answer.

use std::collections::BTreeMap;

use serde_json::Value;

use super::request_model::{Rules, has};
use super::session_model::SessionModel;
use super::stream_model::StreamModel;

/// What a client presents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ResumeKind {
    /// The last token, and the last numbers.
    Right,
    /// Lower numbers: chunks are sent again.
    Lower,
    /// Numbers that were never sent.
    Future,
    /// A stream that does not exist.
    UnknownStream,
    /// A token that was changed.
    Forged,
    /// A token that was used.
    Used,
    /// Two connections at once with the same token.
    Twin,
}

/// A presented token.
#[derive(Clone, Debug)]
pub(crate) struct ResumeSent {
    pub(crate) kind: ResumeKind,
    pub(crate) token: String,
    /// The last numbers, by stream.
    pub(crate) acknowledged: BTreeMap<String, u64>,
    /// The token may have been used by a connection that was lost before the acknowledgement.
    pub(crate) is_doubtful: bool,
    /// The session was used since the resumption of the token.
    is_spent: bool,
}

impl ResumeSent {
    /// Draws the numbers that a client of `session` presents.
    pub(crate) fn new(
        session: &SessionModel,
        kind: ResumeKind,
        token: String,
        is_doubtful: bool,
    ) -> Self {
        let open = session.streams.iter().filter(|(_, stream)| !stream.has_ended());
        let named = |stream: &StreamModel| match kind {
            ResumeKind::Lower => stream.last_seq() / 2,
            ResumeKind::Future => stream.last_seq() + 1_000,
            _ => stream.last_seq(),
        };
        let mut acknowledged: BTreeMap<_, _> =
            open.map(|(id, stream)| (id.clone(), named(stream))).collect();
        if kind == ResumeKind::UnknownStream {
            acknowledged.insert("s999".to_owned(), 1);
        }
        let is_spent = kind == ResumeKind::Used && session.has_used_resumption;
        Self { kind, token, acknowledged, is_doubtful, is_spent }
    }

    /// Returns whether the server must not accept it.
    fn is_wrong(&self) -> bool {
        match self.kind {
            ResumeKind::Right | ResumeKind::Lower | ResumeKind::Twin => false,
            ResumeKind::Future => !self.acknowledged.is_empty(),
            ResumeKind::Used => self.is_spent,
            ResumeKind::UnknownStream | ResumeKind::Forged => true,
        }
    }

    /// Checks that a session may restart for this reason.
    ///
    /// # Errors
    ///
    /// It must continue.
    pub(crate) fn check_restart(
        &self,
        session: &SessionModel,
        offered: &Value,
        reason: &str,
        rules: &Rules,
    ) -> Result<(), String> {
        let began_at = session.began_at.unwrap_or(rules.now);
        let is_young = rules.now < began_at.after(rules.window);
        let is_full_window = session.capabilities["resumeWindow"]["chunks"].as_u64() >= Some(1_000)
            && session.capabilities["resumeWindow"]["seconds"].as_u64()
                >= Some(rules.window.as_secs());
        // A stream of this simulation has less than 15 KiB.
        let has_few_streams = session.streams.len() + session.in_flight() <= 64;
        let is_right = matches!(self.kind, ResumeKind::Right | ResumeKind::Lower);
        let must_continue = is_right
            && !self.is_doubtful
            && session.was_ready
            && (rules.capabilities_timeout.1 || !session.has_lost_exchange)
            && has(offered, "resume")
            && is_young
            && is_full_window
            && has_few_streams
            && !rules.may_idle_out
            && !rules.is_draining;
        if must_continue {
            return Err(format!("the session must continue: {self:?}"));
        }
        let is_known = match reason {
            "expired" | "stale_window" | "unknown_stream" | "feature_not_available" => true,
            "taken_over" => self.is_doubtful || !is_right,
            _ => false,
        };
        if is_known { Ok(()) } else { Err(format!("nothing explains the reason {reason}")) }
    }
}

/// Checks the acknowledgement of a session that continues, and records where its streams do.
///
/// # Errors
///
/// The session must not continue, or not so.
pub(crate) fn check_resumed(
    session: &mut SessionModel,
    sent: &ResumeSent,
    ack: &Value,
) -> Result<(), String> {
    if sent.is_wrong() {
        return Err(format!("the session must not continue: {sent:?}"));
    }
    if session.id.as_deref() != ack["sessionId"].as_str() {
        return Err("another session continues".to_owned());
    }
    let mut next_here = BTreeMap::new();
    for stream in ack["streams"].as_array().into_iter().flatten() {
        let id = stream["streamId"].as_str().unwrap_or_default().to_owned();
        let last = sent.acknowledged.get(&id).copied().unwrap_or_default();
        if stream["nextSeq"] != last + 1 {
            return Err(format!("{id} must continue after {last}"));
        }
        session.streams.entry(id.clone()).or_insert_with(StreamModel::of_lost_response);
        next_here.insert(id, last + 1);
    }
    if let Some((id, _)) = sent.acknowledged.iter().find(|(id, _)| !next_here.contains_key(*id)) {
        return Err(format!("{id} does not continue"));
    }
    session.next_here = next_here;
    Ok(())
}
