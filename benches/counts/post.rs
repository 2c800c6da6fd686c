//! A call of the echo tool as an HTTP/1.1 POST request, up to a phase.

use std::error::Error;
use std::hint::black_box;

use corelane::internal::{CachedOriginGuard, OriginGuard, OriginOptions, RejectedHeader};
use corelane::{Options, Transport};
use corelane_bench_support::requests::{
    Era, INITIALIZE, INITIALIZED, RequestTemplate, SESSION_BYTES, legacy_fields, post,
};
use corelane_transport::http::checks::{CheckProfile, check_head};
use corelane_transport::http::head::{Field, RequestLimits};
use corelane_transport::http::reader::{RequestEvent, RequestReader};
use sha2::{Digest, Sha256};

use crate::memory_shard::MemoryShard;

type Failure = Box<dyn Error>;

/// Phases of a POST request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
pub(crate) enum Phase {
    /// Copies the request into a buffer, as the kernel does, and reads its head.
    Head,
    /// Checks the head: origin guard and request checks.
    Admission,
    /// The whole path in a real shard, one request a turn.
    Turn,
    /// The same with a bearer token of 700 bytes in a field that nothing reads.
    TurnWithField,
    /// The same with authentication, which knows the token.
    TurnWithToken,
    /// As [`Phase::TurnWithField`], with a token of 43 bytes.
    TurnWithShortField,
    /// As [`Phase::TurnWithToken`], with a token of 43 bytes.
    TurnWithShortToken,
    /// The same as one request a turn, with a rate limit that admits each.
    TurnWithRate,
    /// The same with a rate limit, sixteen requests a turn.
    TurnOfSixteenWithRate,
    /// The whole path in a real shard, sixteen requests a turn.
    TurnOfSixteen,
    /// The whole path in a real shard, one request of each of a thousand connections a turn.
    TurnOfThousand,
}

impl Phase {
    /// All phases in order.
    pub(crate) const ALL: [Self; 11] = [
        Self::Head,
        Self::Admission,
        Self::Turn,
        Self::TurnWithField,
        Self::TurnWithToken,
        Self::TurnWithShortField,
        Self::TurnWithShortToken,
        Self::TurnWithRate,
        Self::TurnOfSixteenWithRate,
        Self::TurnOfSixteen,
        Self::TurnOfThousand,
    ];

    /// Name in the table and on the command line of the child.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Head => "post-head",
            Self::Admission => "post-admission",
            Self::Turn => "post-turn",
            Self::TurnWithField => "post-turn-field",
            Self::TurnWithToken => "post-turn-token",
            Self::TurnWithShortField => "post-turn-short-field",
            Self::TurnWithShortToken => "post-turn-short-token",
            Self::TurnWithRate => "post-turn-rate",
            Self::TurnOfSixteenWithRate => "post-turn-of-16-rate",
            Self::TurnOfSixteen => "post-turn-of-16",
            Self::TurnOfThousand => "post-turn-of-1000",
        }
    }
}

/// A call that is repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) era: Era,
    pub(crate) message_bytes: usize,
}

/// Processes `messages` requests up to `phase`.
pub(crate) fn run(phase: Phase, call: Call, messages: u64) -> Result<(), Failure> {
    match phase {
        Phase::Head | Phase::Admission => admit(phase, call, messages),
        Phase::Turn => turn(call, messages, 1),
        Phase::TurnWithField => turn_with_token(call, messages, TOKEN_BYTES, false),
        Phase::TurnWithToken => turn_with_token(call, messages, TOKEN_BYTES, true),
        Phase::TurnWithShortField => turn_with_token(call, messages, SHORT_TOKEN_BYTES, false),
        Phase::TurnWithShortToken => turn_with_token(call, messages, SHORT_TOKEN_BYTES, true),
        Phase::TurnWithRate => turn_with_rate(call, messages, 1),
        Phase::TurnOfSixteenWithRate => turn_with_rate(call, messages, 16),
        Phase::TurnOfSixteen => turn(call, messages, 16),
        Phase::TurnOfThousand => turn_of_thousand(call, messages),
    }
}

/// Runs the phases before the body is read.
fn admit(phase: Phase, call: Call, messages: u64) -> Result<(), Failure> {
    let request = RequestTemplate::echo_post(call.era, call.message_bytes, HOST.parse()?).repeat(1);
    let options = OriginOptions { is_loopback: true, ..OriginOptions::default() };
    let mut guard = CachedOriginGuard::new(OriginGuard::new(&options)?);
    let (profile, limits) = (CheckProfile::default(), RequestLimits::default());
    let mut reader = RequestReader::new();
    let mut arrival = vec![0; request.len()];
    for _ in 0..messages {
        arrival.copy_from_slice(&request);
        let next = reader.next(black_box(&arrival), &mut 0, &limits, Vec::new);
        let RequestEvent::InPlace { head, .. } = black_box(next) else {
            return Err("the request was not found".into());
        };
        if phase < Phase::Admission {
            continue;
        }
        let [host, origin] = [Field::Host, Field::Origin].map(|field| head.field(&arrival, field));
        guard.check(host, origin).map_err(RejectedHeader::message)?;
        let kind = check_head(&head, &arrival, &profile);
        black_box(kind).map_err(|rejection| rejection.error.message)?;
    }
    Ok(())
}

/// A real shard whose one peer sends `per_turn` requests a turn, in the legacy era in a session.
fn turn(call: Call, messages: u64, per_turn: u64) -> Result<(), Failure> {
    let mut shard = MemoryShard::open(Transport::Http, 1)?;
    let request = open(&mut shard, call, "")?;
    shard.repeat_request(&request, messages, per_turn)
}

/// The same with a limit of each caller that admits all requests.
fn turn_with_rate(call: Call, messages: u64, per_turn: u64) -> Result<(), Failure> {
    let mut options = Options::default();
    options.rate.rules = vec![RATE_RULE.to_owned()];
    let mut shard = MemoryShard::with_options(Transport::Http, 1, options)?;
    let request = open(&mut shard, call, "")?;
    shard.repeat_request(&request, messages, per_turn)
}

/// A real shard whose one peer sends one request a turn, with a token.
fn turn_with_token(
    call: Call,
    messages: u64,
    token_bytes: usize,
    is_verified: bool,
) -> Result<(), Failure> {
    let key = "k".repeat(token_bytes);
    let keys = tempfile::NamedTempFile::new()?;
    let digits = |byte: u8| [byte >> 4, byte & 15].map(|it| char::from_digit(it.into(), 16));
    let hash: String = Sha256::digest(&key).into_iter().flat_map(digits).flatten().collect();
    std::fs::write(keys.path(), format!("bench:{hash}"))?;
    let mut options = Options::default();
    if is_verified {
        options.auth.api_keys = vec![keys.path().into()];
    }
    let mut shard = MemoryShard::with_options(Transport::Http, 1, options)?;
    let request = open(&mut shard, call, &format!("Authorization: Bearer {key}\r\n"))?;
    shard.repeat_request(&request, messages, 1)
}

/// A real shard whose thousand peers send one request a turn, in the legacy era in one session.
fn turn_of_thousand(call: Call, messages: u64) -> Result<(), Failure> {
    const PEERS: u32 = 1_000;
    let mut shard = MemoryShard::open(Transport::Http, PEERS)?;
    let request = open(&mut shard, call, "")?;
    let response_bytes = shard.send(&request, 1);
    let turns = messages / u64::from(PEERS);
    let sent = shard.send(&request, turns);
    if response_bytes == 0 || sent != response_bytes * turns {
        return Err(format!("{messages} requests got {sent} response bytes").into());
    }
    Ok(())
}

/// Returns the repeated request with `fields`; opens a session for it in the legacy era.
fn open(shard: &mut MemoryShard, call: Call, fields: &str) -> Result<Vec<u8>, Failure> {
    let host = HOST.parse()?;
    let template = RequestTemplate::echo_post(call.era, call.message_bytes, host);
    let mut request = template.repeat(1);
    if call.era == Era::Legacy {
        let response = shard.send_and_receive(post(host, fields, INITIALIZE).as_bytes());
        let response = String::from_utf8(response)?;
        let (_, id) =
            response.split_once(SESSION_FIELD).ok_or("no Mcp-Session-Id in the response")?;
        let id = id.get(..SESSION_BYTES).ok_or("no Mcp-Session-Id in the response")?;
        let all = format!("{}{fields}", legacy_fields(id));
        shard.send(post(host, &all, INITIALIZED).as_bytes(), 1);
        template.set_session(&mut request, id.as_bytes().try_into()?);
    }
    let at = request.windows(2).position(|two| two == b"\r\n").ok_or("no request line")? + 2;
    request.splice(at..at, fields.bytes());
    Ok(request)
}

/// `Host` of the requests: loopback, as for most servers.
const HOST: &str = "127.0.0.1:8080";
/// Bytes of a token: those of a JWT with a few claims.
const TOKEN_BYTES: usize = 700;
/// Bytes of an API key: 256 random bits in base64url.
const SHORT_TOKEN_BYTES: usize = 43;
/// A limit that no run reaches.
pub(crate) const RATE_RULE: &str = "tools/call rate=1000000/s burst=1000000000 per=principal";
const SESSION_FIELD: &str = "Mcp-Session-Id: ";
