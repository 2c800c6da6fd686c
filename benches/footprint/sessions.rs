//! Legacy sessions as guests of a [`Crowd`](crate::crowd::Crowd): one a connection, over lines or
//! over HTTP.

use std::io;
use std::net::SocketAddr;

use corelane::base::time::Moment;

use crate::crowd::{Guest, Heard};
use crate::requests::{
    self, Era, FIRST_ID, INITIALIZE, INITIALIZED, MESSAGE_BYTES, SESSION_BYTES, Template,
};
use crate::responses::Response;

/// Sent with the end of the handshake: its answer tells that the session is open.
const PING: &str = concat!(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "\n");

/// How far a session has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Initializing,
    Confirming,
    Open,
}

/// The call that sessions over lines are asked with.
pub(crate) fn line_call() -> Template {
    Template::echo(Era::Legacy, MESSAGE_BYTES)
}

/// The call that sessions over HTTP are asked with.
pub(crate) fn post_call(host: SocketAddr) -> Template {
    Template::echo_post(Era::Legacy, MESSAGE_BYTES, host)
}

/// A session over a connection of lines.
#[derive(Debug)]
pub(crate) struct LineSession<'a> {
    call: &'a Template,
    stage: Stage,
    heard: Vec<u8>,
}

impl<'a> LineSession<'a> {
    /// A session that has not said anything.
    pub(crate) const fn new(call: &'a Template) -> Self {
        Self { call, stage: Stage::Initializing, heard: Vec::new() }
    }

    /// Its call.
    pub(crate) fn call(&self) -> Vec<u8> {
        self.call.repeat(1)
    }
}

impl Guest for LineSession<'_> {
    fn greet(&self) -> Vec<u8> {
        INITIALIZE.into()
    }

    fn hear(&mut self, arrived: &[u8], _: Moment) -> io::Result<Heard> {
        self.heard.extend_from_slice(arrived);
        if self.heard.last() != Some(&b'\n') {
            return Ok(Heard::Nothing);
        }
        let heard = std::mem::take(&mut self.heard);
        Ok(match self.stage {
            Stage::Initializing => {
                self.stage = Stage::Confirming;
                Heard::Say([INITIALIZED, PING].concat().into_bytes())
            }
            Stage::Confirming => {
                self.stage = Stage::Open;
                Heard::Open
            }
            Stage::Open => {
                self.call.check(&heard, FIRST_ID)?;
                Heard::Answers(1)
            }
        })
    }
}

/// A session of HTTP, over a connection that is kept.
#[derive(Debug)]
pub(crate) struct PostSession<'a> {
    host: SocketAddr,
    call: &'a Template,
    stage: Stage,
    name: [u8; SESSION_BYTES],
    heard: Vec<u8>,
}

impl<'a> PostSession<'a> {
    /// A session with `host` that has not said anything.
    pub(crate) const fn new(host: SocketAddr, call: &'a Template) -> Self {
        let name = [0; SESSION_BYTES];
        Self { host, call, stage: Stage::Initializing, name, heard: Vec::new() }
    }

    /// Its call.
    pub(crate) fn call(&self) -> Vec<u8> {
        let mut call = self.call.repeat(1);
        self.call.address(&mut call, &self.name);
        call
    }
}

impl Guest for PostSession<'_> {
    fn greet(&self) -> Vec<u8> {
        requests::post(self.host, "", INITIALIZE).into()
    }

    fn hear(&mut self, arrived: &[u8], _: Moment) -> io::Result<Heard> {
        self.heard.extend_from_slice(arrived);
        let Some(response) = Response::read(&self.heard)? else { return Ok(Heard::Nothing) };
        let heard = match self.stage {
            Stage::Initializing => {
                response.expect(200)?;
                let name = response.field("mcp-session-id").and_then(|name| name.try_into().ok());
                self.name = name.ok_or_else(|| io::Error::other("a session without a name"))?;
                self.stage = Stage::Confirming;
                let fields = requests::legacy_fields(&String::from_utf8_lossy(&self.name));
                Heard::Say(requests::post(self.host, &fields, INITIALIZED).into())
            }
            Stage::Confirming => {
                response.expect(202)?;
                self.stage = Stage::Open;
                Heard::Open
            }
            Stage::Open => {
                response.expect(200)?;
                self.call.check(response.body, FIRST_ID)?;
                Heard::Answers(1)
            }
        };
        self.heard = Vec::new();
        Ok(heard)
    }
}
