//! Legacy sessions as guests of a [`Crowd`](crate::crowd::Crowd): one a connection, over lines,
//! over HTTP or over WebSocket.

use std::io;
use std::net::SocketAddr;

use corelane::base::time::Moment;

use crate::crowd::{Guest, Heard};
use crate::frames::{self, Frame};
use crate::requests::{
    self, Era, FIRST_ID, INITIALIZE, INITIALIZED, MESSAGE_BYTES, SESSION_BYTES, Template,
};
use crate::responses::Response;

/// Sent with the end of the handshake: its answer tells that the session is open.
const PING: &str = concat!(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "\n");

/// What sessions are held over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Over {
    /// Lines of TCP.
    Lines,
    /// Posts of HTTP, over a connection that is kept.
    Posts,
    /// Frames of WebSocket.
    Frames,
}

impl Over {
    /// The call that sessions with `host` are asked with.
    pub(crate) fn call(self, host: SocketAddr) -> Template {
        match self {
            Self::Lines => Template::echo(Era::Legacy, MESSAGE_BYTES),
            Self::Posts => Template::echo_post(Era::Legacy, MESSAGE_BYTES, host),
            Self::Frames => frames::echo_frame(Era::Legacy, MESSAGE_BYTES),
        }
    }
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// Only over frames.
    Upgrading,
    Initializing,
    Confirming,
    Open,
}

/// A session, over a connection that is its own.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    over: Over,
    host: SocketAddr,
    call: &'a Template,
    stage: Stage,
    /// Only over posts, which name it.
    name: [u8; SESSION_BYTES],
    heard: Vec<u8>,
}

impl<'a> Session<'a> {
    /// A session with `host` that has not said anything.
    pub(crate) const fn new(over: Over, host: SocketAddr, call: &'a Template) -> Self {
        let stage = match over {
            Over::Lines | Over::Posts => Stage::Initializing,
            Over::Frames => Stage::Upgrading,
        };
        Self { over, host, call, stage, name: [0; SESSION_BYTES], heard: Vec::new() }
    }

    /// Its call.
    pub(crate) fn call(&self) -> Vec<u8> {
        let mut call = self.call.repeat(1);
        self.call.address(&mut call, &self.name);
        call
    }

    /// What follows from all that was heard since it last spoke.
    fn hear_all(&mut self, heard: &[u8]) -> io::Result<Heard> {
        match self.over {
            Over::Lines if heard.ends_with(b"\n") => self.hear_text(heard),
            Over::Lines => Ok(Heard::Nothing),
            Over::Posts => {
                let response = Response::read(heard)?;
                response.map_or(Ok(Heard::Nothing), |response| self.hear_response(&response))
            }
            Over::Frames if self.stage == Stage::Upgrading => {
                if !frames::is_upgraded(heard)? {
                    return Ok(Heard::Nothing);
                }
                self.stage = Stage::Initializing;
                Ok(Heard::Say(frames::masked(INITIALIZE)))
            }
            Over::Frames => {
                let frame = Frame::read(frames::after_pings(heard))?;
                frame.map_or(Ok(Heard::Nothing), |frame| self.hear_text(frame.text))
            }
        }
    }

    /// What follows from an answer in a line or a frame.
    fn hear_text(&mut self, text: &[u8]) -> io::Result<Heard> {
        if self.stage == Stage::Open {
            self.call.check(text, FIRST_ID)?;
            return Ok(Heard::Answers(1));
        }
        if self.stage == Stage::Confirming {
            self.stage = Stage::Open;
            return Ok(Heard::Open);
        }
        self.stage = Stage::Confirming;
        Ok(Heard::Say(match self.over {
            Over::Frames => [frames::masked(INITIALIZED), frames::masked(PING)].concat(),
            _ => [INITIALIZED, PING].concat().into_bytes(),
        }))
    }

    /// What follows from a response.
    fn hear_response(&mut self, response: &Response<'_>) -> io::Result<Heard> {
        if self.stage == Stage::Open {
            response.expect(200)?;
            self.call.check(response.body, FIRST_ID)?;
            return Ok(Heard::Answers(1));
        }
        if self.stage == Stage::Confirming {
            response.expect(202)?;
            self.stage = Stage::Open;
            return Ok(Heard::Open);
        }
        response.expect(200)?;
        let name = response.field("mcp-session-id").and_then(|name| name.try_into().ok());
        self.name = name.ok_or_else(|| io::Error::other("a session without a name"))?;
        self.stage = Stage::Confirming;
        let fields = requests::legacy_fields(&String::from_utf8_lossy(&self.name));
        Ok(Heard::Say(requests::post(self.host, &fields, INITIALIZED).into()))
    }
}

impl Guest for Session<'_> {
    fn greet(&self) -> Vec<u8> {
        match self.over {
            Over::Lines => INITIALIZE.into(),
            Over::Posts => requests::post(self.host, "", INITIALIZE).into(),
            Over::Frames => frames::upgrade(self.host),
        }
    }

    fn hear(&mut self, arrived: &[u8], _: Moment) -> io::Result<Heard> {
        let mut heard = std::mem::take(&mut self.heard);
        heard.extend_from_slice(arrived);
        let follows = self.hear_all(&heard)?;
        if matches!(follows, Heard::Nothing) {
            self.heard = heard;
        }
        Ok(follows)
    }
}
