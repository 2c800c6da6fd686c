//! Answers to requests of the server, over the connection for them.

use corelane_engine::ring::Ring;

use super::Lifecycle;
use crate::generator::connection::ConnectionState;
use crate::generator::context::RunContext;
use crate::mcp::RequestLog;
use crate::wire::Reader;

impl<R: Ring> Lifecycle<R> {
    /// Posts an answer to a request of the server over the connection for answers, if the run has
    /// one; returns the answer otherwise.
    #[cold]
    pub fn post_answer(&mut self, answer: Vec<u8>, ctx: &RunContext) -> Option<Vec<u8>> {
        let Some(answers) = &mut self.answers else { return Some(answer) };
        if answers.add(answer) {
            let index = u32::try_from(answers.index()).unwrap_or(u32::MAX);
            self.begin_connect(index, ctx);
        } else {
            self.flush_answers();
        }
        None
    }

    /// Sends the answers that wait for their connection, if it is open.
    fn flush_answers(&mut self) {
        let Some(answers) = &mut self.answers else { return };
        let index = answers.index();
        if answers.flush(&mut self.io[index]) {
            self.io.queue_flush(index);
        }
    }

    /// Uses the connection for answers, which needs no session of its own; returns whether it is
    /// that one.
    pub fn begin_answers(&mut self, index: usize) -> bool {
        let is_it = self.answers.as_ref().is_some_and(|answers| answers.index() == index);
        if is_it {
            let log = RequestLog::new(Reader::Responses(Box::default()), Vec::new(), None);
            self.io[index].state = ConnectionState::Open(log);
            self.connector.count_opened();
            self.flush_answers();
        }
        is_it
    }
}
