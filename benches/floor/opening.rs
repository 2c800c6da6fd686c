//! What is said on a connection before its first counted call, step by step.
//!
//! A server has answered on a connection when all steps are over: one that still waited to be
//! accepted would look slow. Where there are sessions, that is when the session is open.

use std::io;
use std::net::SocketAddr;

use crate::dialogue::Framing;
use crate::requests::{self, INITIALIZE, INITIALIZED, SESSION_BYTES, Template};
use crate::responses::Response;

/// How connections to one server are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// Where posts go.
    pub(crate) host: SocketAddr,
    pub(crate) framing: Framing,
    /// Whether a session has to be opened before the first call.
    pub(crate) has_session: bool,
}

/// How far one connection has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    heard: Vec<u8>,
    steps: usize,
    /// The session that was opened over it, where posts name one.
    pub(crate) session: Option<[u8; SESSION_BYTES]>,
}

/// What follows from what was heard.
#[derive(Debug)]
pub(crate) enum Step {
    Wait,
    /// The next words; an answer to them must be waited for.
    Say(Vec<u8>),
    /// It is open; a last line may have to be said that has no answer.
    Open(Option<Vec<u8>>),
}

impl Opening {
    /// What to say first.
    pub(crate) fn greet(&self, template: &Template) -> Vec<u8> {
        match (self.has_session, self.framing) {
            (false, _) => template.repeat(1),
            (true, Framing::Lines) => INITIALIZE.into(),
            (true, _) => requests::post(self.host, "", INITIALIZE).into(),
        }
    }

    /// Goes as far as what was heard allows.
    pub(crate) fn hear(&self, progress: &mut Progress, bytes: &[u8]) -> io::Result<Step> {
        progress.heard.extend_from_slice(bytes);
        if self.framing == Framing::Lines {
            if progress.heard.last() != Some(&b'\n') {
                return Ok(Step::Wait);
            }
            return Ok(Step::Open(self.has_session.then(|| INITIALIZED.into())));
        }
        let Some(response) = Response::read(&progress.heard)? else { return Ok(Step::Wait) };
        if progress.steps == 1 {
            response.expect(202)?;
            return Ok(Step::Open(None));
        }
        response.expect(200)?;
        if !self.has_session {
            return Ok(Step::Open(None));
        }
        let name = response.field("mcp-session-id").and_then(|name| name.try_into().ok());
        let name = name.ok_or_else(|| io::Error::other("a session without a name"))?;
        progress.session = Some(name);
        progress.steps = 1;
        progress.heard.clear();
        let fields = requests::legacy_fields(&String::from_utf8_lossy(&name));
        Ok(Step::Say(requests::post(self.host, &fields, INITIALIZED).into()))
    }
}
