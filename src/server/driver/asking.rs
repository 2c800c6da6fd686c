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
        let Some((connection, revision, task)) = self.whom_to_ask(asker) else {
            return slot.put(Err(AskError::Cancelled));
        };
        let listens = self.link.connections.get(connection).is_some_and(|it| !it.is_discarding());
        let Some(out) = self.link.outgoing(connection).filter(|_| listens) else {
            return slot.put(Err(unheard(asker)));
        };
        let is_asked = match asker {
            Asker::Call(ticket) => self.road.calls.ask(ticket, number, QUESTIONS_MAX, now),
            Asker::Task(task) => self.road.tasks.ask(task, number, QUESTIONS_MAX, now),
        };
        if !is_asked {
            return slot.put(Err(too_many()));
        }
        let question = self.road.questions.open(number, (connection, asker), request, slot, now);
        let (id, task) = (question.id.as_id(), task.as_deref());
        message::request(out, id, &question.request, revision, task);
        self.road.end_text(out);
        self.road.counters.questions.asked += 1;
        self.weigh_or_end(ring, connection, now);
    }

    /// The connection to ask, how, and in the name of which task; none where nobody waits for what
    /// the asker does.
    fn whom_to_ask(&mut self, asker: Asker) -> Option<(Key, Revision, Option<String>)> {
        match asker {
            Asker::Call(ticket) => {
                let call = self.road.calls.awaited(ticket)?;
                Some((call.connection, call.revision, None))
            }
            Asker::Task(task) => {
                let task = self.road.tasks.task(task).filter(|task| !task.is_over())?;
                Some((task.connection, task.revision, Some(task.name().to_owned())))
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
        self.forget_in_flight(&call, now);
        let keys = open.iter().map(|pose| &*pose.key);
        let unix_ms = self.road.calendar.unix_ms(now);
        let state = self.road.rounds.seal(&posed.round, keys, posed.binding, unix_ms);
        if let Some(out) = self.link.outgoing(call.connection) {
            let id = call.id.as_id();
            match state {
                Ok(state) => {
                    self.road.counters.questions.rounds += 1;
                    let requests = open.iter().map(|pose| (&*pose.key, &pose.request));
                    let suffix = call.catalog.result_suffix(call.revision);
                    message::result_open(out, id);
                    message::input_required_body(out, requests, Some(&state), suffix);
                    message::result_close(out);
                }
                Err(error) => {
                    self.road.count_error(&error);
                    message::error(out, Some(id), &error, Some(call.revision));
                }
            }
            self.road.end_text(out);
        }
        self.after_answer(ring, call.connection, now);
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

    /// Nothing more will be read from a connection, or from any: its questions stay unanswered, so
    /// that their handlers can end while there is time.
    pub(super) fn dismiss_questions(&mut self, connection: Option<Key>, now: Moment) {
        let numbers = match connection {
            None => self.road.questions.numbers(),
            Some(key) => self.questions_to(key),
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

    /// The questions that a connection has not answered: those of its calls, and those of the tasks
    /// that it began. Cost: a look at its own requests in flight, however many questions there are
    /// to others, and at every task of the shard, where one runs.
    fn questions_to(&self, key: Key) -> Vec<u64> {
        let mut numbers = self.road.tasks.questions_to(key);
        let Some(connection) = self.link.connections.get(key) else { return numbers };
        let tickets = connection.session.in_flight.tickets();
        let open = |ticket: Ticket| self.road.calls.questions(Key::from_bits(ticket.0));
        numbers.extend(tickets.flat_map(open));
        numbers
    }

    /// Tells a client that its answer is not waited for, where it is still there.
    fn take_back(&mut self, question: &Question, reason: &str) {
        let Some(out) = self.link.outgoing(question.connection) else { return };
        message::cancelled(out, question.id.as_id(), Some(reason));
        self.road.end_text(out);
    }

    /// Passes a log message on to the client of its call or its task, where that wants to hear it.
    /// Like progress it is left out where too much waits for a client that does not read.
    pub(super) fn tell_log<R: Ring>(&mut self, ring: &mut R, message: &LogMessage, now: Moment) {
        let Some((key, revision, task)) = self.whom_to_ask(message.from) else { return };
        let outgoing_bytes_max = self.link.options.outgoing_bytes_max;
        let Some(connection) = self.link.connections.get(key) else { return };
        let is_unwanted = !revision.is_modern() && message.level < connection.session.log_level;
        if is_unwanted || connection.queued_bytes() > outgoing_bytes_max {
            return;
        }
        let Some(out) = self.link.outgoing(key) else { return };
        let data = message.data.to_string();
        let (level, logger, data) = (message.level, message.logger.as_deref(), data.as_bytes());
        match task {
            Some(task) => message::task_log(out, level, logger, data, &task),
            None => message::log(out, level, logger, data),
        }
        self.road.end_text(out);
        self.road.counters.requests.logs += 1;
        self.weigh_or_end(ring, key, now);
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
