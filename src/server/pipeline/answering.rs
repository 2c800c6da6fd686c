//! What a client says about requests of the server's own: answers, progress, and that a call is
//! not wanted any more.
//!
//! What it keeps true: only the connection that was asked can answer; what answers nothing that is
//! open (never asked, answered before, too late) changes nothing and is counted.

use super::{Passage, Road};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::protocol::json::Value;
use crate::protocol::params::{Cancelled, Progress};
use crate::protocol::rpc::Id;
use crate::server::desk::Note;
use crate::server::questions::{Asker, Settled};
use crate::server::session::Peer;
use crate::server::subscriptions::Subscriptions;

impl Road {
    /// A response: what a handler waits for, or nothing.
    pub(super) fn response(
        &mut self,
        passage: Passage,
        id: Option<Id<'_>>,
        outcome: Result<Value<'_>, Value<'_>>,
    ) {
        self.counters.requests.responses += 1;
        let answered = id.and_then(|id| self.questions.answered(passage.outlet.party, id));
        let Some((number, question)) = answered else {
            self.counters.questions.unasked += 1;
            return;
        };
        self.counters.questions.answered += 1;
        let (asker, address) = (question.asker, question.address());
        self.hear_out(asker, number, passage.now);
        match question.settle(outcome) {
            Settled::Answered => {}
            Settled::Accepted => self.open_address(asker, address),
            Settled::Malformed => self.counters.questions.malformed += 1,
        }
    }

    /// Question `number` is over, whatever has come of it: who asked it goes on.
    pub(in crate::server) fn hear_out(&mut self, asker: Asker, number: u64, now: Moment) {
        match asker {
            Asker::Call(ticket) => self.calls.hear(ticket, number, now),
            Asker::Task(task) => self.tasks.hear(task, number, now),
        }
    }

    /// The user has agreed to open an address: what happens there is over with the handler.
    fn open_address(&mut self, asker: Asker, address: Option<Box<str>>) {
        match asker {
            Asker::Call(ticket) => self.calls.open_address(ticket, address),
            Asker::Task(task) => {
                if let Some(task) = self.tasks.task(task) {
                    task.dialogue.open_address(address);
                }
            }
        }
    }

    /// `notifications/progress`: a client that works on a question has its time anew.
    pub(super) fn hear_progress(&mut self, passage: Passage, params: Option<Value<'_>>) {
        let progress = Progress::read(params);
        let is_known = progress
            .is_some_and(|it| self.questions.progress(passage.outlet.party, it.token, passage.now));
        let questions = &mut self.counters.questions;
        let counter =
            if is_known { &mut questions.progress } else { &mut questions.unknown_progress };
        *counter += 1;
    }

    /// `notifications/cancelled`: the call is told, and nothing more is said about it. An id that
    /// names nothing in flight is passed over: the answer may have crossed the cancellation.
    pub(super) fn cancel(&mut self, peer: &mut Peer<'_>, params: Option<Value<'_>>) {
        let Some(cancelled) = Cancelled::read(params) else { return };
        let Some(ticket) = peer.session.in_flight.remove(cancelled.request) else { return };
        if let Some(stream) = Subscriptions::behind(ticket) {
            return self.end_stream(peer, stream);
        }
        let ticket = Key::from_bits(ticket.0);
        let outlet = self.calls.awaited(ticket).map(|call| call.outlet);
        if self.give_up(ticket) {
            self.unanswered.extend(outlet);
            self.counters.requests.cancelled += 1;
            peer.standing.repay();
        }
    }

    /// Nobody waits for the answer of a call any more: its handler is told, and its open questions
    /// are taken back at the end of the turn. `false` where nobody waited already.
    pub(in crate::server) fn give_up(&mut self, ticket: Key) -> bool {
        // Left as notes: in the middle of a batch there is no place for a message of our own.
        for number in self.calls.take_questions(ticket) {
            self.desk.leave(Note::Withdraw { number });
        }
        self.calls.cancel(ticket)
    }
}
