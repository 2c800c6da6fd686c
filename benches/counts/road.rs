//! The road as far as a stop, over bytes in memory, again and again.
//!
//! The last stops are of a real shard, see [`shard`].
//! Each stop includes the ones before it, so what a stop costs is the difference to the one before.

use std::error::Error;
use std::hint::black_box;

use corelane::engine::buffer::PADDING;
use corelane::observe::label::Transport;
use corelane::protocol::era::{Initialize, Lifecycle, Method};
use corelane::protocol::json::{Limits, Parser, Value};
use corelane::protocol::message;
use corelane::protocol::params::{CallParams, List};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::{Envelope, Id};
use corelane::service::{Call, Catalog, Reply};

use crate::frames;
use crate::over::{Binding, Over};
use crate::question::{self, Question};
use crate::requests::{INITIALIZE, INITIALIZED};
use crate::stage::Stage;

pub(crate) type Failure = Box<dyn Error>;

/// How far a message travels.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
pub(crate) enum Stop {
    /// Its bytes are copied into a buffer, as the kernel would do it, and its line is found, or its
    /// frame, which is unmasked.
    Frame,
    /// It is parsed.
    Parse,
    /// It is read as a request and admitted by its era.
    Envelope,
    /// Its tool is found.
    Dispatch,
    /// The tool has run and the answer is written, with its line end or in its frame.
    Answer,
    /// All of it in a real shard, one message a turn.
    Turn,
    /// All of it in a real shard, sixteen messages a turn.
    TurnOfSixteen,
}

impl Stop {
    /// Every stop, in the order of the road.
    pub(crate) const ALL: [Self; 7] = [
        Self::Frame,
        Self::Parse,
        Self::Envelope,
        Self::Dispatch,
        Self::Answer,
        Self::Turn,
        Self::TurnOfSixteen,
    ];

    /// Its name in the table and on the command line of the child.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Parse => "parse",
            Self::Envelope => "envelope",
            Self::Dispatch => "dispatch",
            Self::Answer => "answer",
            Self::Turn => "turn",
            Self::TurnOfSixteen => "turn-of-16",
        }
    }

    /// Messages that travel together.
    pub(crate) const fn together(self) -> u64 {
        match self {
            Self::TurnOfSixteen => 16,
            _ => 1,
        }
    }
}

/// Carries `messages` messages, each of them `question`, as far as `stop`.
pub(crate) fn run(
    over: Over,
    stop: Stop,
    question: Question,
    messages: u64,
) -> Result<(), Failure> {
    match stop {
        Stop::Turn | Stop::TurnOfSixteen => turn(over, question, messages, stop.together()),
        _ => Road::new(over, question)?.run(stop, messages),
    }
}

/// How long the line is that answers `question`.
pub(crate) fn answer_bytes(question: Question) -> Result<usize, Failure> {
    let mut road = Road::new(Over::Lines, question)?;
    road.run(Stop::Answer, 1)?;
    Ok(road.out.len())
}

/// The pure rooms, put together as the pipeline of the server does it.
struct Road {
    catalog: Catalog,
    parser: Parser,
    binding: Binding,
    /// Of every message anew.
    lifecycle: Lifecycle,
    message: Vec<u8>,
    arrival: Vec<u8>,
    out: Vec<u8>,
}

impl Road {
    fn new(over: Over, question: Question) -> Result<Self, Failure> {
        let message = over.send(&question.line());
        let mut road = Self {
            catalog: question::catalog()?,
            parser: Parser::new(Limits::default()),
            binding: Binding::new(over),
            lifecycle: Lifecycle::new(),
            arrival: vec![0; message.len() + PADDING],
            message,
            out: Vec::with_capacity(1 << 16),
        };
        if question.repeats() {
            road.open()?;
        }
        Ok(road)
    }

    /// Makes the handshake.
    fn open(&mut self) -> Result<(), Failure> {
        let mut opening = [INITIALIZE.as_bytes(), &[0; PADDING]].concat();
        let document = self.parser.parse(&mut opening, INITIALIZE.len());
        let document = document.map_err(|error| format!("{error:?}"))?;
        let Ok(Envelope::Request { params, .. }) = Envelope::read(document.root()) else {
            return Err("initialize is not read as a request".into());
        };
        let asked = Initialize::read(params).map_err(|error| error.message)?;
        self.lifecycle.initialize(&asked).map_err(|error| error.message)?;
        self.lifecycle.confirm();
        Ok(())
    }

    fn run(&mut self, stop: Stop, messages: u64) -> Result<(), Failure> {
        let Self { catalog, parser, binding, lifecycle, message, arrival, out } = self;
        for _ in 0..messages {
            arrival[..message.len()].copy_from_slice(message);
            let Some((start, end)) = black_box(binding.find(arrival)) else {
                return Err("the message was not found".into());
            };
            if stop < Stop::Parse {
                continue;
            }
            let document = parser.parse(&mut arrival[start..], end - start);
            let document = document.map_err(|error| format!("{error:?}"))?;
            let root = black_box(document.root());
            if stop < Stop::Envelope {
                continue;
            }
            let admitted = admit(root, *lifecycle)?;
            if stop < Stop::Dispatch {
                black_box(admitted);
                continue;
            }
            if stop < Stop::Answer {
                let call = Call::from_params(admitted.revision, &admitted.members);
                let call = call.map_err(|error| error.message)?;
                black_box(catalog.called(&call)).map_err(|error| error.message)?;
                continue;
            }
            out.clear();
            binding.answer(out, |out| answer(catalog, *lifecycle, &admitted, out))?;
            black_box(&out);
        }
        Ok(())
    }
}

/// A request that its era has admitted.
struct Admitted<'a> {
    id: Id<'a>,
    method: Method,
    revision: Revision,
    params: Option<Value<'a>>,
    members: CallParams<'a>,
}

/// What the pipeline does between the document and the call.
fn admit(root: Value<'_>, lifecycle: Lifecycle) -> Result<Admitted<'_>, Failure> {
    let Ok(Envelope::Request { id, method, params }) = Envelope::read(root) else {
        return Err("the message is not read as a request".into());
    };
    let members = CallParams::read(params);
    let meta = members.meta().map_err(|error| error.message)?;
    let method = Method::parse(method).ok_or("the method is not known")?;
    let revision = if meta.is_modern() {
        meta.modern().map(|modern| modern.revision)
    } else {
        lifecycle.admit(method)
    };
    let revision = revision.map_err(|error| error.message)?;
    Ok(Admitted { id, method, revision, params, members })
}

/// What the pipeline does from there to the end of the answer.
fn answer(
    catalog: &Catalog,
    mut lifecycle: Lifecycle,
    admitted: &Admitted<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Admitted { id, method, revision, params, members } = admitted;
    let (id, method, revision, params) = (*id, *method, *revision, *params);
    catalog.serves(method).map_err(|error| error.message)?;
    let cursor = || List::read(params).map(|list| list.cursor);
    let body = match method {
        Method::ToolsCall => {
            let call = Call::from_params(revision, members).map_err(|error| error.message)?;
            return match catalog.call(&call, id, out) {
                Reply::Ready { .. } => Ok(()),
                _ => Err("the tool did not answer at once".into()),
            };
        }
        Method::Ping => {
            message::result(out, id, b"{}");
            return Ok(());
        }
        Method::ToolsList => cursor().and_then(|cursor| catalog.tools_page(revision, cursor)),
        Method::PromptsList => cursor().and_then(|cursor| catalog.prompts_page(revision, cursor)),
        Method::ResourcesList => {
            cursor().and_then(|cursor| catalog.resources_page(revision, cursor))
        }
        Method::Initialize => Initialize::read(params)
            .and_then(|asked| lifecycle.initialize(&asked))
            .map(|revision| catalog.initialize_body(revision)),
        Method::Discover => Ok(catalog.discover_body()),
        _ => return Err("nobody asks this here".into()),
    };
    black_box(lifecycle);
    message::result(out, id, body.map_err(|error| error.message)?);
    Ok(())
}

/// A real shard whose one peer asks `together` times a turn.
fn turn(over: Over, question: Question, messages: u64, together: u64) -> Result<(), Failure> {
    let mut stage = match over {
        Over::Lines => Stage::open(Transport::Tcp, 1)?,
        Over::Frames => Stage::open(Transport::Http, 1)?,
    };
    if over == Over::Frames {
        stage.say(&frames::upgrade(([127, 0, 0, 1], 80).into()), 1);
    }
    let opening = [INITIALIZE, INITIALIZED].map(|line| over.send(line.as_bytes()));
    stage.say(&opening.concat(), 1);
    stage.ask(&over.send(&question.line()), messages, together)
}
