//! Rounds: a call of 2026-07-28 that needs its user, told in requests that know nothing of each
//! other.
//!
//! ```text
//!  call ─▶ handler asks ─▶ input_required, state ─▶ client ─▶ the same call, answers, state ─┐
//!            ▲                                                                              │
//!            └───────────── the handler again from its start, answers at hand ◀──────────────┘
//! ```
//!
//! Between two rounds nothing is held: what the client has answered so far travels inside the
//! state, which is sealed ([`crate::guard::seal`]).
//!
//! What it keeps true: a state counts for the request that it was given out for (method, name,
//! arguments, principal), for a bounded time, and once; with a state, an answer counts only where
//! this server has asked for it. What a handler makes of an answer is not known here.
//!
//! Source: 2026-07-28 `basic/patterns/mrtr`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::engine::mesh::{Redeemed, Spent};
use crate::guard::seal::Sealer;
use crate::protocol::error::Error;
use crate::protocol::json::{Kind, Value, write};

/// States of one process whose redemption is remembered: as many as are given out within
/// `limits.round_max` at seven thousand a second. Cost: 1 MiB for the process.
pub(in crate::server) const ROUNDS_REMEMBERED_MAX: usize = 1 << 22;

/// Bytes of the answers inside one state: each round carries all of them both ways.
const STATE_BYTES_MAX: usize = 1 << 20;

/// Rounds of one call. A handler that asks more often asks for ever.
const ROUNDS_MAX: u16 = 256;

/// Gives out states and takes them back. One for each shard; all of a process share what was
/// redeemed.
#[derive(Debug)]
pub(in crate::server) struct Rounds {
    sealer: Sealer,
    spent: Arc<Spent>,
    /// How long a state is good for.
    pub(in crate::server) round_max: Duration,
}

/// The request that a state belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::server) struct Binding([u8; 32]);

/// What a call has been through when a handler begins.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(in crate::server) struct Round {
    /// Until when this may be brought back, in milliseconds since 1970.
    #[serde(rename = "u")]
    until_unix_ms: u64,
    /// Rounds before this one.
    #[serde(rename = "n")]
    number: u16,
    /// What was asked in the last of them, by its keys.
    #[serde(rename = "q")]
    asked: Vec<Box<str>>,
    /// What was answered in all of them, as it was sent.
    #[serde(rename = "a")]
    answers: Vec<(Box<str>, Json)>,
}

impl Rounds {
    /// Rounds under `secret`, which all shards of a process share together with `spent`.
    pub(in crate::server) fn new(
        secret: &[u8; 32],
        spent: Arc<Spent>,
        round_max: Duration,
    ) -> Self {
        Self { sealer: Sealer::new(secret), spent, round_max }
    }

    /// Takes a state back at `unix_ms`, for good: the same one is refused from here on.
    pub(in crate::server) fn open(
        &self,
        text: &str,
        binding: Binding,
        unix_ms: u64,
    ) -> Result<Round, Error> {
        let opened = self.sealer.open(&binding.0, text).ok_or_else(foreign)?;
        // What we have sealed is what we read; a failure is a text that we never made.
        let round: Round = serde_json::from_slice(&opened.plain).map_err(|_| foreign())?;
        if round.until_unix_ms <= unix_ms {
            return Err(refused("came too late"));
        }
        match self.spent.redeem(opened.number) {
            Redeemed::First => Ok(round),
            Redeemed::Again => Err(refused("was used before")),
            Redeemed::Forgotten => Err(refused("is too old")),
        }
    }

    /// Gives out a state at `unix_ms`: what was answered up to `round`, and what is asked at its
    /// end by the keys `asked`.
    ///
    /// # Errors
    ///
    /// Where the answers are too long, or the rounds too many.
    pub(in crate::server) fn seal<'a>(
        &self,
        round: &Round,
        asked: impl Iterator<Item = &'a str>,
        binding: Binding,
        unix_ms: u64,
    ) -> Result<String, Error> {
        if round.number >= ROUNDS_MAX {
            return Err(Error::internal(format!("the call asked in {ROUNDS_MAX} rounds")));
        }
        let round_ms_max = u64::try_from(self.round_max.as_millis()).unwrap_or(u64::MAX);
        let next = Round {
            until_unix_ms: unix_ms.saturating_add(round_ms_max),
            number: round.number + 1,
            asked: asked.map(Into::into).collect(),
            answers: round.answers.clone(),
        };
        let plain = serde_json::to_vec(&next).ok().filter(|it| it.len() <= STATE_BYTES_MAX);
        plain.and_then(|plain| self.sealer.seal(self.spent.issue(), &binding.0, &plain)).ok_or_else(
            || {
                Error::invalid_params(format!(
                    "the answers to one call may have {STATE_BYTES_MAX} bytes in all"
                ))
            },
        )
    }
}

impl Round {
    /// A call that has been through nothing and brings answers all the same: its client knows what
    /// it is going to be asked, from before or from the documentation. They are the client's own
    /// words either way, so they count where a handler asks for them.
    pub(in crate::server) fn foreseen(responses: Option<Value<'_>>) -> Self {
        let responses = responses.and_then(Value::as_object).into_iter().flatten();
        let answers = responses.map(|(key, response)| (key.into(), response.to_json()));
        Self { answers: answers.collect(), ..Self::default() }
    }

    /// Takes the answers of a retry, those that were asked for; tells how many were not. One that
    /// is missing is asked for again by a handler that still needs it.
    pub(in crate::server) fn take(&mut self, responses: Option<Value<'_>>) -> u64 {
        let responses = responses.and_then(Value::as_object);
        let mut unasked = 0;
        for (key, response) in responses.into_iter().flatten() {
            match self.asked.iter().position(|asked| **asked == *key) {
                // Taken out: the same key a second time answers nothing.
                Some(place) => {
                    self.answers.push((self.asked.swap_remove(place), response.to_json()));
                }
                None => unasked += 1,
            }
        }
        unasked
    }

    /// What was answered to the question `key`.
    pub(in crate::server) fn answer(&self, key: &str) -> Option<&Json> {
        self.answers.iter().find(|(known, _)| **known == *key).map(|(_, answer)| answer)
    }
}

impl Binding {
    /// The request for `subject` (a name or an address) by `method` with `arguments`, by
    /// `principal`. The order of the arguments' keys does not count, because clients write maps in
    /// any order; no arguments are the same as an empty object.
    pub(in crate::server) fn of(
        method: &str,
        subject: &str,
        arguments: Option<Value<'_>>,
        principal: &str,
    ) -> Self {
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

/// Appends `value` as JSON with the keys of its objects in order.
fn write_canonical(value: Value<'_>, out: &mut Vec<u8>) {
    match value.kind() {
        Kind::Object => {
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
        Kind::Array => {
            out.push(b'[');
            for item in value.as_array().into_iter().flatten() {
                write_canonical(item, out);
                out.push(b',');
            }
            out.push(b']');
        }
        Kind::Boolean | Kind::Null | Kind::Number | Kind::String => value.write(out),
    }
}

#[cold]
fn foreign() -> Error {
    refused("was not given out for this request, or was changed")
}

#[cold]
fn refused(why: &str) -> Error {
    Error::invalid_params(format!(
        "params.requestState {why}: send the request again without it and without inputResponses"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json::{Limits, PADDING_BYTES, Parser};

    fn rounds() -> Rounds {
        Rounds::new(&[7; 32], Arc::new(Spent::new(64)), Duration::from_mins(1))
    }

    fn with<R>(text: &str, look: impl FnOnce(Value<'_>) -> R) -> R {
        let mut parser = Parser::new(Limits::default());
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        look(parser.parse(&mut bytes, text.len()).unwrap().root())
    }

    fn binding(arguments: &str) -> Binding {
        with(arguments, |arguments| Binding::of("tools/call", "ask", Some(arguments), ""))
    }

    /// A date.
    const fn at(seconds: u64) -> u64 {
        1_000_000 + seconds * 1000
    }

    #[test]
    fn answers_travel_from_round_to_round() {
        let (rounds, binding) = (rounds(), binding("{}"));
        let state = rounds.seal(&Round::default(), ["a", "b"].into_iter(), binding, at(0)).unwrap();
        let mut round = rounds.open(&state, binding, at(1)).unwrap();
        let unasked = with(r#"{"a":{"x":1},"c":{},"a":{"x":2}}"#, |it| round.take(Some(it)));
        assert_eq!(unasked, 2);
        assert_eq!(round.answer("a"), Some(&serde_json::json!({"x": 1})));
        assert_eq!((round.answer("b"), round.answer("c")), (None, None));
        let state = rounds.seal(&round, ["b"].into_iter(), binding, at(2)).unwrap();
        let round = rounds.open(&state, binding, at(3)).unwrap();
        assert!(round.answer("a").is_some());
        assert_eq!(round.number, 2);
    }

    #[test]
    fn a_client_may_answer_before_it_is_asked() {
        let text = r#"{"a":{"x":1},"b":7}"#;
        let round = with(text, |responses| Round::foreseen(Some(responses)));
        assert_eq!(round.answer("a"), Some(&serde_json::json!({"x": 1})));
        assert_eq!(round.answer("c"), None);
        let (rounds, binding) = (rounds(), binding("{}"));
        let state = rounds.seal(&round, ["c"].into_iter(), binding, at(0)).unwrap();
        assert!(rounds.open(&state, binding, at(1)).unwrap().answer("a").is_some());
    }

    #[test]
    fn a_state_is_good_once_and_for_a_time() {
        let (rounds, binding) = (rounds(), binding("{}"));
        let seal = || rounds.seal(&Round::default(), [].into_iter(), binding, at(0)).unwrap();
        let (state, late) = (seal(), seal());
        assert!(rounds.open(&state, binding, at(59)).is_ok());
        for (text, now, why) in
            [(&state, 59, "used before"), (&late, 60, "too late"), (&state, 60, "too late")]
        {
            let error = rounds.open(text, binding, at(now)).unwrap_err();
            assert_eq!(error.code, -32602);
            assert!(error.message.contains(why), "{error}");
        }
    }

    #[test]
    fn a_state_counts_for_its_own_request_only() {
        let rounds = rounds();
        let own = binding(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#);
        let others = [
            binding(r#"{"a":1}"#),
            binding(r#"{"a":1,"b":{"c":[2,1],"d":null}}"#),
            binding(r#"{"a":"1","b":{"c":[1,2],"d":null}}"#),
            Binding::of("tools/call", "ask", None, ""),
            Binding::of("tools/call", "other", None, ""),
            Binding::of("prompts/get", "ask", None, ""),
            Binding::of("tools/call", "ask", None, "somebody"),
        ];
        let state = rounds.seal(&Round::default(), [].into_iter(), own, at(0)).unwrap();
        for other in others {
            let error = rounds.open(&state, other, at(0)).unwrap_err();
            assert_eq!(error.code, -32602);
        }
        // A map may be written in another order, and none of the attempts has spent the state.
        let again = binding(r#"{"b":{"d":null,"c":[1,2]},"a":1}"#);
        assert!(rounds.open(&state, again, at(0)).is_ok());
        assert_eq!(binding("{}"), Binding::of("tools/call", "ask", None, ""));
    }

    #[test]
    fn rounds_and_answers_have_bounds() {
        let (rounds, binding) = (rounds(), binding("{}"));
        let mut round = Round { number: ROUNDS_MAX, ..Round::default() };
        let seal = |round: &Round| rounds.seal(round, ["x"].into_iter(), binding, at(0));
        assert_eq!(seal(&round).unwrap_err().code, -32603);
        round.number = 0;
        round.answers.push(("x".into(), Json::from("x".repeat(STATE_BYTES_MAX))));
        assert_eq!(seal(&round).unwrap_err().code, -32602);
    }
}
