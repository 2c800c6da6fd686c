//! Processing of a message up to a phase, repeated codec bytes in memory.
//!
//! The last phases use a real shard. Each phase includes the ones before it, so its own cost is the
//! difference to the phase before.

use std::error::Error;
use std::hint::black_box;

use corelane::internal::Dispatch;
use corelane::{CallToolRequest, Catalog, Options, Transport};
use corelane_bench_support::frames;
use corelane_bench_support::requests::{INITIALIZE, INITIALIZED};
use corelane_engine::buffer::PADDING;
use corelane_protocol::eras::{InitializeRequestParams, Lifecycle, Method};
use corelane_protocol::json::{PaddedText, ParseLimits, Parser, Value};
use corelane_protocol::jsonrpc::{Id, Message};
use corelane_protocol::model;
use corelane_protocol::params::{PaginatedRequestParams, RequestParams};
use corelane_protocol::revision::Revision;

use crate::codec::{Codec, CodecState};
use crate::memory_shard::MemoryShard;
use crate::post::RATE_RULE;
use crate::request_kind::{self, RequestKind};

pub(crate) type Failure = Box<dyn Error>;

/// Phases of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
pub(crate) enum Phase {
    /// Copies the bytes into a buffer, as the kernel does, and finds the line or unmasks the frame.
    Frame,
    /// Parses the JSON.
    Parse,
    /// Reads it as a request and applies the lifecycle rules of its era.
    Envelope,
    /// Looks up the tool.
    Dispatch,
    /// Runs the tool and writes the framed response.
    Response,
    /// The whole path in a real shard, one message a turn.
    Turn,
    /// The same with a rate limit that admits each.
    TurnWithRate,
    /// The whole path in a real shard, sixteen messages a turn.
    TurnOfSixteen,
    /// The same with circuit breakers and limits of running calls.
    TurnWithBreakers,
}

impl Phase {
    /// All phases in order.
    pub(crate) const ALL: [Self; 9] = [
        Self::Frame,
        Self::Parse,
        Self::Envelope,
        Self::Dispatch,
        Self::Response,
        Self::Turn,
        Self::TurnWithRate,
        Self::TurnOfSixteen,
        Self::TurnWithBreakers,
    ];

    /// Name in the table and on the command line of the child.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Parse => "parse",
            Self::Envelope => "envelope",
            Self::Dispatch => "dispatch",
            Self::Response => "response",
            Self::Turn => "turn",
            Self::TurnWithRate => "turn-rate",
            Self::TurnOfSixteen => "turn-of-16",
            Self::TurnWithBreakers => "turn-of-16-breakers",
        }
    }

    /// Messages per turn.
    pub(crate) const fn messages_per_turn(self) -> u64 {
        match self {
            Self::TurnOfSixteen | Self::TurnWithBreakers => 16,
            _ => 1,
        }
    }
}

/// Processes `messages` requests of a kind up to `phase`.
pub(crate) fn run(
    codec: Codec,
    phase: Phase,
    kind: RequestKind,
    messages: u64,
) -> Result<(), Failure> {
    match phase {
        Phase::Turn | Phase::TurnOfSixteen => {
            turn(codec, kind, messages, phase.messages_per_turn(), Options::default())
        }
        Phase::TurnWithBreakers => {
            turn(codec, kind, messages, phase.messages_per_turn(), with_breakers())
        }
        Phase::TurnWithRate => {
            let mut options = Options::default();
            options.rate.rules = vec![RATE_RULE.to_owned()];
            turn(codec, kind, messages, 1, options)
        }
        _ => RequestPath::new(codec, kind)?.run(phase, messages),
    }
}

/// Returns the length of the response line.
pub(crate) fn response_bytes(kind: RequestKind) -> Result<usize, Failure> {
    let mut path = RequestPath::new(Codec::Ndjson, kind)?;
    path.run(Phase::Response, 1)?;
    Ok(path.out.len())
}

/// The pure modules, combined as in the dispatcher of the server.
struct RequestPath {
    catalog: Catalog,
    parser: Parser,
    codec_state: CodecState,
    /// Copied for every message.
    lifecycle: Lifecycle,
    message: Vec<u8>,
    arrival: Vec<u8>,
    out: Vec<u8>,
}

impl RequestPath {
    fn new(codec: Codec, kind: RequestKind) -> Result<Self, Failure> {
        let message = codec.encode(&kind.line());
        let mut path = Self {
            catalog: request_kind::catalog()?,
            parser: Parser::new(ParseLimits::default()),
            codec_state: CodecState::new(codec),
            lifecycle: Lifecycle::default(),
            arrival: vec![0; message.len() + PADDING],
            message,
            out: Vec::with_capacity(1 << 16),
        };
        if kind.is_repeatable() {
            path.open()?;
        }
        Ok(path)
    }

    /// Performs the handshake.
    fn open(&mut self) -> Result<(), Failure> {
        let mut initialize = [INITIALIZE.as_bytes(), &[0; PADDING]].concat();
        let document = self.parser.parse(PaddedText::new(&mut initialize, INITIALIZE.len()));
        let document = document.map_err(|error| format!("{error:?}"))?;
        let Ok(Message::Request { params, .. }) = Message::read(document.root()) else {
            return Err("initialize is not a request".into());
        };
        let params = InitializeRequestParams::read(params).map_err(|error| error.message)?;
        self.lifecycle.initialize(&params, None).map_err(|error| error.message)?;
        self.lifecycle.complete_handshake();
        Ok(())
    }

    fn run(&mut self, phase: Phase, messages: u64) -> Result<(), Failure> {
        let Self { catalog, parser, codec_state, lifecycle, message, arrival, out } = self;
        for _ in 0..messages {
            arrival[..message.len()].copy_from_slice(message);
            let Some((start, end)) = black_box(codec_state.find(arrival)) else {
                return Err("the message was not found".into());
            };
            if phase < Phase::Parse {
                continue;
            }
            let document = parser.parse(PaddedText::new(&mut arrival[start..], end - start));
            let document = document.map_err(|error| format!("{error:?}"))?;
            let root = black_box(document.root());
            if phase < Phase::Envelope {
                continue;
            }
            let request = admit(root, *lifecycle)?;
            if phase < Phase::Dispatch {
                black_box(request);
                continue;
            }
            if phase < Phase::Response {
                let call = CallToolRequest::from_params(request.revision, &request.members);
                let call = call.map_err(|error| error.message)?;
                black_box(catalog.find_called_tool(&call)).map_err(|error| error.message)?;
                continue;
            }
            out.clear();
            codec_state
                .write_response(out, |out| write_response(catalog, *lifecycle, &request, out))?;
            black_box(&out);
        }
        Ok(())
    }
}

/// A validated request.
struct ValidRequest<'a> {
    id: Id<'a>,
    method: Method,
    revision: Revision,
    params: Option<Value<'a>>,
    members: RequestParams<'a>,
}

/// The work of the dispatcher between parsing and the call.
fn admit(root: Value<'_>, lifecycle: Lifecycle) -> Result<ValidRequest<'_>, Failure> {
    let Ok(Message::Request { id, method, params }) = Message::read(root) else {
        return Err("the message is not a request".into());
    };
    let members = RequestParams::read(params);
    let meta = members.meta().map_err(|error| error.message)?;
    let method = Method::parse(method).ok_or("unknown method")?;
    let revision = if meta.is_modern() {
        meta.parse_modern().map(|modern| modern.revision)
    } else {
        lifecycle.check_method(method)
    };
    let revision = revision.map_err(|error| error.message)?;
    Ok(ValidRequest { id, method, revision, params, members })
}

/// The work of the dispatcher from the call to the end of the response.
fn write_response(
    catalog: &Catalog,
    mut lifecycle: Lifecycle,
    request: &ValidRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let ValidRequest { id, method, revision, params, members } = request;
    let (id, method, revision, params) = (*id, *method, *revision, *params);
    catalog.check_method(method).map_err(|error| error.message)?;
    let cursor = || PaginatedRequestParams::read(params).map(|list| list.cursor);
    let body = match method {
        Method::ToolsCall => {
            let call =
                CallToolRequest::from_params(revision, members).map_err(|error| error.message)?;
            return match catalog.call_tool(&call, id, out) {
                Dispatch::Ready { .. } => Ok(()),
                _ => Err("the tool did not return a result at once".into()),
            };
        }
        Method::Ping => {
            model::write_response(out, id, b"{}");
            return Ok(());
        }
        Method::ToolsList => cursor().and_then(|cursor| catalog.tools_page(revision, cursor)),
        Method::PromptsList => cursor().and_then(|cursor| catalog.prompts_page(revision, cursor)),
        Method::ResourcesList => {
            cursor().and_then(|cursor| catalog.resources_page(revision, cursor))
        }
        Method::Initialize => InitializeRequestParams::read(params)
            .and_then(|params| lifecycle.initialize(&params, None))
            .map(|revision| catalog.initialize_result(revision)),
        Method::Discover => Ok(catalog.discover_result()),
        _ => return Err("unexpected method".into()),
    };
    black_box(lifecycle);
    model::write_response(out, id, body.map_err(|error| error.message)?);
    Ok(())
}

/// A real shard whose one peer sends `per_turn` requests a turn.
fn turn(
    codec: Codec,
    kind: RequestKind,
    messages: u64,
    per_turn: u64,
    options: Options,
) -> Result<(), Failure> {
    let transport = match codec {
        Codec::Ndjson => Transport::Tcp,
        Codec::WebSocket => Transport::Http,
    };
    let mut shard = MemoryShard::with_options(transport, 1, options)?;
    if codec == Codec::WebSocket {
        shard.send(&frames::upgrade(([127, 0, 0, 1], 80).into()), 1);
    }
    let handshake = [INITIALIZE, INITIALIZED].map(|line| codec.encode(line.as_bytes()));
    shard.send(&handshake.concat(), 1);
    shard.repeat_request(&codec.encode(&kind.line()), messages, per_turn)
}

/// Options with a circuit breaker for each tool, and limits of running calls.
fn with_breakers() -> Options {
    let mut options = Options::default();
    options.overload.calls_max = 1_000;
    options.overload.tool_calls_max = 100;
    options.overload.breaker.failed_percent = 50;
    options.overload.breaker.slow_percent = 50;
    options
}
