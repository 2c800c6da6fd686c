//! The call of the echo tool as a post of HTTP/1.1, as far as a stop.

use std::error::Error;
use std::hint::black_box;

use corelane::guard::origin::{Blocked, OriginGuard, OriginOptions, RememberingGuard};
use corelane::observe::label::Transport;
use corelane::transport::http::head::Field;
use corelane::transport::http::ladder::{Profile, admit_head};
use corelane::transport::http::limits::Limits;
use corelane::transport::http::reader::{Next, RequestReader};

use crate::requests::{
    Era, INITIALIZE, INITIALIZED, MESSAGE_BYTES, SESSION_BYTES, Template, legacy_fields, post,
};
use crate::stage::Stage;

type Failure = Box<dyn Error>;

/// How far a post travels.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
pub(crate) enum Stop {
    /// Its bytes are copied into a buffer, as the kernel would do it, and its head is read.
    Head,
    /// Its head is admitted, by the guard and by the ladder.
    Admission,
    /// All of it in a real shard, one post a turn.
    Turn,
    /// All of it in a real shard, sixteen posts a turn.
    TurnOfSixteen,
    /// All of it in a real shard, a post of each of a thousand connections a turn.
    TurnOfThousand,
}

impl Stop {
    /// Every stop, in the order of the road.
    pub(crate) const ALL: [Self; 5] =
        [Self::Head, Self::Admission, Self::Turn, Self::TurnOfSixteen, Self::TurnOfThousand];

    /// Its name in the table and on the command line of the child.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Head => "post-head",
            Self::Admission => "post-admission",
            Self::Turn => "post-turn",
            Self::TurnOfSixteen => "post-turn-of-16",
            Self::TurnOfThousand => "post-turn-of-1000",
        }
    }
}

/// Carries `messages` posts of `era` as far as `stop`.
pub(crate) fn run(stop: Stop, era: Era, messages: u64) -> Result<(), Failure> {
    match stop {
        Stop::Head | Stop::Admission => admit(stop, era, messages),
        Stop::Turn => turn(era, messages, 1),
        Stop::TurnOfSixteen => turn(era, messages, 16),
        Stop::TurnOfThousand => crowd(era, messages),
    }
}

/// What the server does before a byte of the message is read.
fn admit(stop: Stop, era: Era, messages: u64) -> Result<(), Failure> {
    let request = Template::echo_post(era, MESSAGE_BYTES, HOST.parse()?).repeat(1);
    let options = OriginOptions { is_loopback: true, ..OriginOptions::default() };
    let mut guard = RememberingGuard::new(OriginGuard::new(&options)?);
    let (profile, limits) = (Profile::default(), Limits::default());
    let mut reader = RequestReader::new();
    let mut arrival = vec![0; request.len()];
    for _ in 0..messages {
        arrival.copy_from_slice(&request);
        let next = reader.next(black_box(&arrival), &mut 0, &limits, Vec::new);
        let Next::Inside { head, .. } = black_box(next) else {
            return Err("the request was not found".into());
        };
        if stop < Stop::Admission {
            continue;
        }
        let [host, origin] = [Field::Host, Field::Origin].map(|field| head.field(&arrival, field));
        guard.admit(host, origin).map_err(Blocked::message)?;
        let kind = admit_head(&head, &arrival, &profile);
        black_box(kind).map_err(|refusal| refusal.error.message)?;
    }
    Ok(())
}

/// A real shard whose one peer posts `together` times a turn; of the legacy era in a session.
fn turn(era: Era, messages: u64, together: u64) -> Result<(), Failure> {
    let mut stage = Stage::open(Transport::Http, 1)?;
    let request = open(&mut stage, era)?;
    stage.ask(&request, messages, together)
}

/// A real shard whose thousand peers post once a turn; of the legacy era in one session.
fn crowd(era: Era, messages: u64) -> Result<(), Failure> {
    const PEERS: u32 = 1_000;
    let mut stage = Stage::open(Transport::Http, PEERS)?;
    let request = open(&mut stage, era)?;
    let answers = stage.say(&request, 1);
    let turns = messages / u64::from(PEERS);
    let sent = stage.say(&request, turns);
    if answers == 0 || sent != answers * turns {
        return Err(format!("{messages} posts got {sent} bytes").into());
    }
    Ok(())
}

/// The post that is said again and again; of the legacy era a session is begun for it.
fn open(stage: &mut Stage, era: Era) -> Result<Vec<u8>, Failure> {
    let host = HOST.parse()?;
    let template = Template::echo_post(era, MESSAGE_BYTES, host);
    let mut request = template.repeat(1);
    if era == Era::Legacy {
        let answer = stage.hear(post(host, "", INITIALIZE).as_bytes());
        let answer = String::from_utf8(answer)?;
        let (_, name) = answer.split_once(SESSION_FIELD).ok_or("no session has begun")?;
        let name = name.get(..SESSION_BYTES).ok_or("no session has begun")?;
        stage.say(post(host, &legacy_fields(name), INITIALIZED).as_bytes(), 1);
        template.address(&mut request, name.as_bytes().try_into()?);
    }
    Ok(request)
}

/// Where the posts go to: a name of loopback, as most servers are asked for.
const HOST: &str = "127.0.0.1:8080";
const SESSION_FIELD: &str = "Mcp-Session-Id: ";
