//! What handlers say to their clients before they answer: questions and log messages.
//!
//! What it keeps true: a question that cannot be answered (its client is gone, or has said its
//! last) fails at once; one that is taken back is cancelled with its client. What a task asks goes
//! to the connection that began it and to no other, and names the task.

use std::rc::Rc;

use super::ShardDriver;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::Ring;
use crate::protocol::inflight::Ticket;
use crate::protocol::message::{self, InputRequest};
use crate::protocol::revision::Revision;
use crate::server::desk::LogMessage;
use crate::server::party::{Outlet, Party, Said};
use crate::server::questions::{Asker, Pose, Posed, QUESTIONS_MAX, Question, Slot, too_many};
use crate::service::AskError;

impl ShardDriver {
    /// A handler asks its client by a request.
    pub(super) fn ask<R: Ring>(
        &mut self,
        ring: &mut R,
        (asker, number): (Asker, u64),
        request: InputRequest,
        slot: Rc<Slot>,
        now: Moment,
    ) {
        let Some((outlet, revision, task)) = self.whom_to_ask(asker) else {
            return slot.put(Err(AskError::Cancelled));
        };
        if !self.is_heard(outlet.party) {
            return slot.put(Err(unheard(asker)));
        }
        let is_asked = match asker {
            Asker::Call(ticket) => self.road.calls.ask(ticket, number, QUESTIONS_MAX, now),
            Asker::Task(task) => self.road.tasks.ask(task, number, QUESTIONS_MAX, now),
        };
        if !is_asked {
            return slot.put(Err(too_many()));
        }
        let mut text = self.draft();
        let question = self.road.questions.open(number, (outlet, asker), request, slot, now);
        let (id, task) = (question.id.as_id(), task.as_deref());
        message::request(&mut text, id, &question.request, revision, task);
        self.say(outlet, Said::Word, text);
        self.road.counters.questions.asked += 1;
        self.weigh_party(ring, outlet.party, now);
    }

    /// Which way to ask, how, and in the name of which task; none where nobody waits for what the
    /// asker does.
    fn whom_to_ask(&mut self, asker: Asker) -> Option<(Outlet, Revision, Option<String>)> {
        match asker {
            Asker::Call(ticket) => {
                let call = self.road.calls.awaited(ticket)?;
                Some((call.outlet, call.revision, None))
            }
            Asker::Task(task) => {
                let task = self.road.tasks.task(task).filter(|task| !task.is_over())?;
                let outlet = Outlet::general(task.party);
                Some((outlet, task.revision, Some(task.name().to_owned())))
            }
        }
    }

    /// A handler cannot go on without answers: the round ends with a result that asks for them.
    pub(super) fn end_round<R: Ring>(
        &mut self,
        ring: &mut R,
        ticket: Key,
        (posed, open): (&Posed, &[Pose]),
        now: Moment,
    ) {
        let Some(call) = self.road.calls.end(ticket) else { return };
        let (outlet, id) = (call.outlet, call.id.as_id());
        self.repay(outlet.party, id, now);
        let keys = open.iter().map(|pose| &*pose.key);
        let unix_ms = self.road.calendar.unix_ms(now);
        let state = self.road.rounds.seal(&posed.round, keys, posed.binding, unix_ms);
        match state {
            Ok(state) => {
                self.road.counters.questions.rounds += 1;
                let requests = open.iter().map(|pose| (&*pose.key, &pose.request));
                let suffix = call.catalog.result_suffix(call.revision);
                let mut text = self.draft();
                message::result_open(&mut text, id);
                message::input_required_body(&mut text, requests, Some(&state), suffix);
                message::result_close(&mut text);
                self.say(outlet, Said::Answer, text);
            }
            Err(error) => self.say_error(outlet, id, &error, call.revision),
        }
        self.after_answer(ring, outlet, now);
    }

    /// Takes a question back that nobody waits for any more.
    pub(super) fn withdraw(&mut self, number: u64, now: Moment) {
        let Some(question) = self.road.questions.take(number) else { return };
        self.road.hear_out(question.asker, number, now);
        self.road.counters.questions.withdrawn += 1;
        self.take_back(&question, "the answer is not needed any more");
        question.fail(AskError::Cancelled);
    }

    /// Takes the questions back that their clients had their time for.
    pub(super) fn expire_questions(&mut self, now: Moment) {
        while let Some((number, question)) = self.road.questions.overdue(now) {
            self.road.hear_out(question.asker, number, now);
            self.road.counters.questions.timed_out += 1;
            self.take_back(&question, "the answer did not come in time");
            question.fail(AskError::TimedOut);
        }
    }

    /// Nothing more will be heard from a party, or from any: its questions stay unanswered, so
    /// that their handlers can end while there is time.
    pub(super) fn dismiss_questions(&mut self, party: Option<Party>, now: Moment) {
        let numbers = match party {
            None => self.road.questions.numbers(),
            Some(party) => self.questions_to(party),
        };
        for number in numbers {
            if let Some(question) = self.road.questions.take(number) {
                self.road.hear_out(question.asker, number, now);
                self.road.counters.questions.withdrawn += 1;
                self.take_back(&question, "nothing more is read");
                let error = unheard(question.asker);
                question.fail(error);
            }
        }
    }

    /// The questions that a party has not answered: those of its calls, and those of the tasks
    /// that it began. Cost: a look at its own requests in flight, however many questions there are
    /// to others, and at every task of the shard, where one runs.
    fn questions_to(&mut self, party: Party) -> Vec<u64> {
        let mut numbers = self.road.tasks.questions_to(party);
        let tickets = self.party(party).map(|(session, _)| session.in_flight.tickets().collect());
        let tickets: Vec<Ticket> = tickets.unwrap_or_default();
        for ticket in tickets {
            numbers.extend(self.road.calls.questions(Key::from_bits(ticket.0)));
        }
        numbers
    }

    /// Tells a client that its answer is not waited for, where it is still there.
    fn take_back(&mut self, question: &Question, reason: &str) {
        let mut text = self.draft();
        message::cancelled(&mut text, question.id.as_id(), Some(reason));
        self.say(question.outlet, Said::Word, text);
    }

    /// Passes a log message on to the client of its call or its task, where that wants to hear it.
    /// Like progress it is left out where too much waits for a client that does not read.
    pub(super) fn tell_log<R: Ring>(&mut self, ring: &mut R, message: &LogMessage, now: Moment) {
        let Some((outlet, revision, task)) = self.whom_to_ask(message.from) else { return };
        let Some((session, _)) = self.party(outlet.party) else { return };
        let is_unwanted = !revision.is_modern() && message.level < session.log_level;
        if is_unwanted || !self.reads_along(outlet.party) {
            return;
        }
        let mut text = self.draft();
        let data = message.data.to_string();
        let (level, logger, data) = (message.level, message.logger.as_deref(), data.as_bytes());
        match task {
            Some(task) => message::task_log(&mut text, level, logger, data, &task),
            None => message::log(&mut text, level, logger, data),
        }
        self.say(outlet, Said::Word, text);
        self.road.counters.requests.logs += 1;
        self.weigh_party(ring, outlet.party, now);
    }
}

/// What a handler hears whose client will not be heard any more. With a call that is the end; a
/// task goes on without.
fn unheard(asker: Asker) -> AskError {
    match asker {
        Asker::Call(_) => AskError::Cancelled,
        Asker::Task(_) => AskError::Refused("the client that began the task is gone".into()),
    }
}
