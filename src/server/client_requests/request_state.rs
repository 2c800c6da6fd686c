//! `requestState`: the state of a call over several round trips (2026-07-28).
//!
//! ```text
//!  call ─▶ handler ─▶ input_required, state ─▶ client ─▶ call, responses, state ─┐
//!            ▲                                                                   │
//!            └──────── the handler again from its start, with the responses ◀────┘
//! ```
//!
//! The server holds nothing between two round trips: the responses so far travel in the state,
//! which is encrypted ([`crate::guard::state_keys`]), possibly by another server with the same
//! keys.
//!
//! Invariants: a state is valid for the request that it was issued for (method, name, arguments,
//! principal), for a limited time, and once in this process; with a state, only responses to inputs
//! that were requested with it are accepted.
//!
//! Source: 2026-07-28 `basic/patterns/mrtr`.

use std::time::Duration;

use corelane_base::holders::PlaceOwner;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::json::{Value, ValueKind, write};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::server::shared_states::{NotUsable, SharedStates};

/// Maximum bytes of the responses in one state, which each round trip carries both ways.
const STATE_BYTES_MAX: usize = 1 << 20;

/// Maximum round trips of one call.
const ROUND_TRIPS_MAX: u16 = 256;

/// Issues and redeems states. One per shard.
#[derive(Debug)]
pub struct RequestStates {
    shared: SharedStates,
    /// Lifetime of a state.
    pub ttl: Duration,
}

/// Digest of the request that a state belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequestDigest([u8; 32]);

/// The state of a call over its round trips.
///
/// Responses are stored as JSON text and parsed when the handler asks for them: the parsed form of
/// a hostile one takes many times its length.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct RequestState {
    /// When the state expires, in milliseconds since 1970.
    #[serde(rename = "u")]
    expires_unix_ms: u64,
    /// Number of earlier round trips.
    #[serde(rename = "n")]
    round_trips: u16,
    /// The keys of the inputs requested in the last one.
    #[serde(rename = "q")]
    requested_keys: Vec<Box<str>>,
    /// All responses so far.
    #[serde(rename = "a")]
    responses: Vec<(Box<str>, Box<RawValue>)>,
    /// What the handler keeps for its next round trip, instead of earlier responses.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    kept: Option<Box<str>>,
}

impl RequestStates {
    /// Returns the issuer of a shard.
    pub const fn new(shared: SharedStates, ttl: Duration) -> Self {
        Self { shared, ttl }
    }

    /// Uses other keys from now on.
    pub fn set_shared(&mut self, shared: SharedStates) {
        self.shared = shared;
    }

    /// Decrypts a state and redeems it for a caller at `unix_ms`. It cannot be redeemed again.
    pub fn decrypt(
        &self,
        text: &str,
        digest: RequestDigest,
        owner: PlaceOwner<'_>,
        unix_ms: u64,
    ) -> Result<RequestState, Error> {
        let opened = self.shared.decrypt(&digest.0, text).ok_or_else(not_issued_error)?;
        // Only servers encrypt states: what is no state is of another version.
        let request_state: RequestState =
            serde_json::from_slice(&opened.plaintext).map_err(|_| not_issued_error())?;
        if request_state.expires_unix_ms <= unix_ms {
            return Err(rejected_error("has expired"));
        }
        let until = request_state.expires_unix_ms.div_ceil(1_000);
        match self.shared.mark_used(opened.nonce, owner, unix_ms / 1_000, until) {
            Ok(()) => Ok(request_state),
            Err(NotUsable::Used) => Err(rejected_error("was used before")),
            Err(NotUsable::TooOld) => Err(rejected_error("is too old")),
            Err(NotUsable::TooLong) => Err(rejected_error("is valid for too long")),
            Err(NotUsable::NoRoom) => Err(too_many_states(
                "too many requestState values of other servers; try again later",
            )),
            Err(NotUsable::NoRoomOfCaller) => Err(too_many_states(
                "too many requestState values of other servers from this caller or its network; \
                 try again later",
            )),
        }
    }

    /// Encrypts the state at `unix_ms`: the responses in `request_state`, and the `keys` of the
    /// inputs that are requested now.
    ///
    /// # Errors
    ///
    /// If the responses are too long, or there are too many round trips.
    pub fn encrypt<'a>(
        &self,
        request_state: &RequestState,
        keys: impl Iterator<Item = &'a str>,
        digest: RequestDigest,
        unix_ms: u64,
    ) -> Result<String, Error> {
        if request_state.round_trips >= ROUND_TRIPS_MAX {
            let message = format!("the call needs too many round trips (limit {ROUND_TRIPS_MAX})");
            return Err(Error::internal(message));
        }
        let round_ms_max = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let next = RequestState {
            expires_unix_ms: unix_ms.saturating_add(round_ms_max),
            round_trips: request_state.round_trips + 1,
            requested_keys: keys.map(Into::into).collect(),
            responses: request_state.responses.clone(),
            kept: request_state.kept.clone(),
        };
        let plain = serde_json::to_vec(&next).ok().filter(|it| it.len() <= STATE_BYTES_MAX);
        plain.and_then(|plain| self.shared.encrypt(&digest.0, &plain)).ok_or_else(|| {
            Error::invalid_params(format!(
                "the state of this call is too large (limit {STATE_BYTES_MAX} bytes)"
            ))
        })
    }
}

impl RequestState {
    /// Returns the state of a call that brings responses without a state: a client may know from
    /// documentation which inputs are requested. They are client input in either case, so they are
    /// accepted.
    pub fn without_state(responses: Option<Value<'_>>) -> Self {
        let responses = responses.and_then(Value::as_object).into_iter().flatten();
        let responses = responses.filter_map(|(key, value)| Some((key.into(), raw_value(value)?)));
        Self { responses: responses.collect(), ..Self::default() }
    }

    /// Accepts the requested responses of a retry. Returns the number of unrequested ones. A
    /// handler requests a missing one again.
    pub fn accept_responses(&mut self, responses: Option<Value<'_>>) -> u64 {
        let responses = responses.and_then(Value::as_object);
        let mut unrequested = 0;
        for (key, response) in responses.into_iter().flatten() {
            match self.requested_keys.iter().position(|requested| **requested == *key) {
                // Removed, so that a duplicate key is not accepted.
                Some(index) => {
                    let key = self.requested_keys.swap_remove(index);
                    self.responses.extend(raw_value(response).map(|response| (key, response)));
                }
                None => unrequested += 1,
            }
        }
        unrequested
    }

    /// Returns the response to the input `key`.
    pub fn response(&self, key: &str) -> Option<Json> {
        let (_, response) = self.responses.iter().find(|(known, _)| **known == *key)?;
        serde_json::from_str(response.get()).ok()
    }

    /// Returns the keys of the inputs that this server has requested for the call, answered or
    /// not. None without a state of the server, whatever responses there are.
    pub fn requested_keys(&self) -> impl Iterator<Item = &str> {
        let answered = self.responses.iter().map(|(key, _)| key);
        let requested = answered.chain(&self.requested_keys).filter(|_| self.round_trips > 0);
        requested.map(|key| &**key)
    }

    /// Returns the state of the next round trip of a handler that keeps `kept` for it: without
    /// the responses so far.
    pub fn restarted(&self, kept: Box<str>) -> Self {
        Self { round_trips: self.round_trips, kept: Some(kept), ..Self::default() }
    }

    /// Returns what the handler has kept in the last round trip.
    pub fn kept(&self) -> Option<&str> {
        self.kept.as_deref()
    }

    /// Returns all responses with their keys.
    pub fn responses(&self) -> &[(Box<str>, Box<RawValue>)] {
        &self.responses
    }

    /// Returns the bytes of the responses, and of what the handler has kept.
    pub fn held_bytes(&self) -> usize {
        let responses = self.responses.iter();
        let bytes = responses.map(|(key, response)| key.len() + response.get().len());
        bytes.sum::<usize>() + self.kept().map_or(0, str::len)
    }
}

impl RequestDigest {
    /// Returns the digest of a request for `subject` (a name or URI) by `method` with `arguments`,
    /// by `principal`. The order of the arguments' keys is ignored, because JSON objects are
    /// unordered; no arguments equal an empty object.
    pub fn of(method: &str, subject: &str, arguments: Option<Value<'_>>, principal: &str) -> Self {
        let mut digest = Sha256::new();
        for part in [method, subject, principal] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        let mut canonical = Vec::new();
        match arguments {
            Some(arguments) => write_canonical(arguments, &mut canonical),
            None => canonical.extend_from_slice(b"{}"),
        }
        digest.update(canonical);
        Self(digest.finalize().into())
    }
}

/// Returns the JSON text of `value`.
fn raw_value(value: Value<'_>) -> Option<Box<RawValue>> {
    let mut text = Vec::new();
    value.write(&mut text);
    RawValue::from_string(String::from_utf8(text).ok()?).ok()
}

/// Appends `value` as JSON with sorted object keys.
fn write_canonical(value: Value<'_>, out: &mut Vec<u8>) {
    match value.kind() {
        ValueKind::Object => {
            let mut members: Vec<_> = value.as_object().into_iter().flatten().collect();
            members.sort_by_key(|(key, _)| *key);
            out.push(b'{');
            for (key, value) in members {
                write::string(out, key);
                out.push(b':');
                write_canonical(value, out);
                out.push(b',');
            }
            out.push(b'}');
        }
        ValueKind::Array => {
            out.push(b'[');
            for item in value.as_array().into_iter().flatten() {
                write_canonical(item, out);
                out.push(b',');
            }
            out.push(b']');
        }
        ValueKind::Boolean | ValueKind::Null | ValueKind::Number | ValueKind::String => {
            value.write(out);
        }
    }
}

#[cold]
fn too_many_states(message: &'static str) -> Error {
    Error::new(ErrorKind::TooManyRequests, message)
}

#[cold]
fn not_issued_error() -> Error {
    rejected_error("was not issued for this request, or is corrupt")
}

#[cold]
fn rejected_error(reason: &str) -> Error {
    Error::invalid_params(format!(
        "params.requestState {reason}: retry without requestState and inputResponses"
    ))
}

#[cfg(test)]
mod tests {
    use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};

    use super::*;

    fn request_states() -> RequestStates {
        RequestStates::new(SharedStates::new(&[7; 32]), Duration::from_mins(1))
    }

    fn with<R>(text: &str, look: impl FnOnce(Value<'_>) -> R) -> R {
        let mut parser = Parser::new(ParseLimits::default());
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        look(parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap().root())
    }

    fn request_digest(arguments: &str) -> RequestDigest {
        with(arguments, |arguments| RequestDigest::of("tools/call", "ask", Some(arguments), ""))
    }

    /// Returns Unix milliseconds.
    const fn at(seconds: u64) -> u64 {
        1_000_000 + seconds * 1000
    }

    #[test]
    fn request_state_carries_responses_across_round_trips() {
        let (request_states, digest) = (request_states(), request_digest("{}"));
        let state = request_states
            .encrypt(&RequestState::default(), ["a", "b"].into_iter(), digest, at(0))
            .unwrap();
        let mut request_state =
            request_states.decrypt(&state, digest, PlaceOwner::default(), at(1)).unwrap();
        let unrequested = with(r#"{"a":{"x":1},"c":{},"a":{"x":2}}"#, |it| {
            request_state.accept_responses(Some(it))
        });
        assert_eq!(unrequested, 2);
        assert_eq!(request_state.response("a"), Some(serde_json::json!({"x": 1})));
        assert_eq!((request_state.response("b"), request_state.response("c")), (None, None));
        let state =
            request_states.encrypt(&request_state, ["b"].into_iter(), digest, at(2)).unwrap();
        let request_state =
            request_states.decrypt(&state, digest, PlaceOwner::default(), at(3)).unwrap();
        assert!(request_state.response("a").is_some());
        assert_eq!(request_state.round_trips, 2);
    }

    #[test]
    fn kept_text_replaces_earlier_responses() {
        let (request_states, digest) = (request_states(), request_digest("{}"));
        let given = with(r#"{"a":1}"#, |it| RequestState::without_state(Some(it)));
        let next = given.restarted("kept".into());
        let state = request_states.encrypt(&next, ["a"].into_iter(), digest, at(0)).unwrap();
        let mut opened =
            request_states.decrypt(&state, digest, PlaceOwner::default(), at(1)).unwrap();
        assert_eq!((opened.kept(), opened.response("a")), (Some("kept"), None));
        assert_eq!(with(r#"{"a":2}"#, |it| opened.accept_responses(Some(it))), 0);
        assert_eq!(opened.responses().len(), 1);
        assert_eq!(opened.held_bytes(), "a2kept".len());
    }

    #[test]
    fn input_responses_without_request_state_are_accepted() {
        let text = r#"{"a":{"x":1},"b":7}"#;
        let request_state = with(text, |responses| RequestState::without_state(Some(responses)));
        assert_eq!(request_state.response("a"), Some(serde_json::json!({"x": 1})));
        assert_eq!(request_state.response("c"), None);
        let (request_states, digest) = (request_states(), request_digest("{}"));
        let state =
            request_states.encrypt(&request_state, ["c"].into_iter(), digest, at(0)).unwrap();
        assert!(
            request_states
                .decrypt(&state, digest, PlaceOwner::default(), at(1))
                .unwrap()
                .response("a")
                .is_some()
        );
    }

    #[test]
    fn request_state_is_single_use_and_expires() {
        let (request_states, digest) = (request_states(), request_digest("{}"));
        let encrypt = || {
            request_states.encrypt(&RequestState::default(), [].into_iter(), digest, at(0)).unwrap()
        };
        let (state, late) = (encrypt(), encrypt());
        assert!(request_states.decrypt(&state, digest, PlaceOwner::default(), at(59)).is_ok());
        for (text, now, reason) in
            [(&state, 59, "used before"), (&late, 60, "expired"), (&state, 60, "expired")]
        {
            let error =
                request_states.decrypt(text, digest, PlaceOwner::default(), at(now)).unwrap_err();
            assert_eq!(error.code, -32602);
            assert!(error.message.contains(reason), "{error}");
        }
    }

    #[test]
    fn request_state_is_bound_to_its_request() {
        let request_states = request_states();
        let own = request_digest(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#);
        let others = [
            request_digest(r#"{"a":1}"#),
            request_digest(r#"{"a":1,"b":{"c":[2,1],"d":null}}"#),
            request_digest(r#"{"a":"1","b":{"c":[1,2],"d":null}}"#),
            RequestDigest::of("tools/call", "ask", None, ""),
            RequestDigest::of("tools/call", "other", None, ""),
            RequestDigest::of("prompts/get", "ask", None, ""),
            RequestDigest::of("tools/call", "ask", None, "alice"),
        ];
        let state =
            request_states.encrypt(&RequestState::default(), [].into_iter(), own, at(0)).unwrap();
        for other in others {
            let error =
                request_states.decrypt(&state, other, PlaceOwner::default(), at(0)).unwrap_err();
            assert_eq!(error.code, -32602);
        }
        // Key order is ignored, and failed attempts do not use up the state.
        let again = request_digest(r#"{"b":{"d":null,"c":[1,2]},"a":1}"#);
        assert!(request_states.decrypt(&state, again, PlaceOwner::default(), at(0)).is_ok());
        assert_eq!(request_digest("{}"), RequestDigest::of("tools/call", "ask", None, ""));
    }

    #[test]
    fn request_state_rounds_and_size_are_limited() {
        let (request_states, digest) = (request_states(), request_digest("{}"));
        let mut request_state =
            RequestState { round_trips: ROUND_TRIPS_MAX, ..RequestState::default() };
        let encrypt = |request_state: &RequestState| {
            request_states.encrypt(request_state, ["x"].into_iter(), digest, at(0))
        };
        assert_eq!(encrypt(&request_state).unwrap_err().code, -32603);
        request_state.round_trips = 0;
        let long = serde_json::value::to_raw_value(&"x".repeat(STATE_BYTES_MAX)).unwrap();
        request_state.responses.push(("x".into(), long));
        assert_eq!(encrypt(&request_state).unwrap_err().code, -32602);
    }
}
