//! What is said on a connection before its first counted call, step by step.
//!
//! A server has answered on a connection when all steps are over: one that still waited to be
//! accepted would look slow. Where there are sessions, that is when the session is open.

use std::io;
use std::net::SocketAddr;

use crate::dialogue::Framing;
use crate::frames::{self, Frame};
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
            (_, Framing::Frames) => frames::upgrade(self.host),
            (false, _) => template.repeat(1),
            (true, Framing::Lines) => INITIALIZE.into(),
            (true, _) => requests::post(self.host, "", INITIALIZE).into(),
        }
    }

    /// Goes as far as what was heard allows.
    pub(crate) fn hear(&self, progress: &mut Progress, bytes: &[u8]) -> io::Result<Step> {
        progress.heard.extend_from_slice(bytes);
        match self.framing {
            Framing::Lines if progress.heard.last() != Some(&b'\n') => Ok(Step::Wait),
            Framing::Lines => Ok(Step::Open(self.has_session.then(|| INITIALIZED.into()))),
            Framing::Frames => self.hear_frames(progress),
            Framing::Responses | Framing::FixedResponses => self.hear_responses(progress),
        }
    }

    /// The upgrade, and the session on it.
    fn hear_frames(&self, progress: &mut Progress) -> io::Result<Step> {
        if progress.steps == 1 {
            let answer = Frame::read(&progress.heard)?;
            return Ok(answer.map_or(Step::Wait, |_| Step::Open(Some(frames::masked(INITIALIZED)))));
        }
        if !frames::is_upgraded(&progress.heard)? {
            return Ok(Step::Wait);
        }
        if !self.has_session {
            return Ok(Step::Open(None));
        }
        progress.steps = 1;
        progress.heard.clear();
        Ok(Step::Say(frames::masked(INITIALIZE)))
    }

    /// The session that posts name, or an answer.
    fn hear_responses(&self, progress: &mut Progress) -> io::Result<Step> {
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
