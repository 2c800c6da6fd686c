//! The connection over which the answers to requests of servers are posted.
//!
//! Up to MCP 2025-11-25 a server over HTTP sends its requests within the response to a request,
//! which ends after the answer, or on an event stream: that needs another connection. All users of
//! a load thread share it; it is opened when the first answer is due.

use std::collections::VecDeque;

use super::connection::{Connection, ConnectionState};
use super::run_config::RunConfig;
use crate::mcp::Answers;
use crate::target::Transport;

/// The connection for answers of one load thread.
#[derive(Debug)]
pub(super) struct AnswerConnection {
    /// Index of the connection.
    index: usize,
    /// Whether it was begun to be opened.
    is_begun: bool,
    /// Requests that wait until it is open.
    waiting: VecDeque<Vec<u8>>,
}

impl AnswerConnection {
    /// Returns the connection at `index`, if the run needs one.
    pub(super) fn new(config: &RunConfig, index: usize) -> Option<Self> {
        let settings = &config.request_settings;
        let is_posted = settings.transport == Transport::Http
            && !settings.era.is_modern()
            && !settings.era.is_parity();
        let users = config.users.as_ref();
        let has_answers = users.is_some() && **settings.answers() != Answers::default();
        let has_streams = users.is_some_and(|users| users.has_event_streams());
        (is_posted && (has_answers || has_streams)).then(|| Self {
            index,
            is_begun: false,
            waiting: VecDeque::new(),
        })
    }

    /// Returns the index of the connection.
    pub(super) const fn index(&self) -> usize {
        self.index
    }

    /// Adds a request with an answer; returns whether the connection has to be opened first.
    pub(super) fn add(&mut self, request: Vec<u8>) -> bool {
        self.waiting.push_back(request);
        !std::mem::replace(&mut self.is_begun, true)
    }

    /// Writes the requests that wait, if the connection is open; returns whether there were any.
    pub(super) fn flush(&mut self, conn: &mut Connection) -> bool {
        let ConnectionState::Open(log) = &mut conn.state else { return false };
        let is_any = !self.waiting.is_empty();
        for request in self.waiting.drain(..) {
            log.add_answer();
            conn.send_buffer.extend_from_slice(&request);
        }
        is_any
    }
}
