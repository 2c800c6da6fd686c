//! Answers that come later: from a handler's end to its caller.

use super::ShardDriver;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::Ring;
use crate::protocol::error::Error;
use crate::protocol::message;
use crate::server::calls::Call;
use crate::server::desk::Progress;
use crate::service::{HandlerError, Yield};

impl ShardDriver {
    /// A handler has ended: its answer is written, where somebody waits for it.
    pub(super) fn settle<R: Ring>(
        &mut self,
        ring: &mut R,
        ticket: Key,
        result: Result<Yield, HandlerError>,
        now: Moment,
    ) {
        // What it asked without waiting for it; those that it waited for are over.
        for number in self.road.calls.take_questions(ticket) {
            self.withdraw(number, now);
        }
        let Some(call) = self.road.calls.end(ticket) else { return };
        self.forget_in_flight(&call, now);
        if let Some(out) = self.link.outgoing(call.connection) {
            let addresses = call.dialogue.iter().flat_map(|dialogue| dialogue.addresses());
            let has_ids = result.is_ok() && call.revision.dialect().elicitation_ids;
            for address in addresses.filter(|_| has_ids) {
                message::elicitation_complete(out, address);
                self.road.end_text(out);
            }
            let id = call.id.as_id();
            match call.catalog.settle(call.revision, id, result, out) {
                Ok(is_failed) => {
                    self.road.counters.requests.tools_failed += u64::from(is_failed);
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

    /// A call has taken too long: it is cancelled and answered with an error.
    pub(super) fn time_out<R: Ring>(&mut self, ring: &mut R, ticket: Key, now: Moment) {
        let Some(call) = self.road.calls.awaited(ticket) else { return };
        let (connection, id, revision) = (call.connection, call.id.clone(), call.revision);
        self.road.give_up(ticket);
        self.road.counters.requests.timed_out += 1;
        let span = self.road.request_max;
        let error =
            Error::internal(format!("the call took longer than {span:?} and was cancelled"));
        self.road.count_error(&error);
        if let Some(open) = self.link.connections.get_mut(connection) {
            open.session.in_flight.remove(id.as_id());
            open.repay(now);
        }
        if let Some(out) = self.link.outgoing(connection) {
            message::error(out, Some(id.as_id()), &error, Some(revision));
            self.road.end_text(out);
        }
        self.after_answer(ring, connection, now);
    }

    /// Tells a caller how far its call has come, where it asked for that and the handler has come
    /// further than it last said. A caller that does not read misses some of it: progress is
    /// advice, and must not pile up.
    pub(super) fn tell_progress<R: Ring>(
        &mut self,
        ring: &mut R,
        progress: &Progress,
        now: Moment,
    ) {
        let Some(call) = self.road.calls.awaited(progress.ticket) else { return };
        let Some(token) = &call.progress_token else { return };
        if progress.done <= call.progress {
            return;
        }
        let key = call.connection;
        let outgoing_bytes_max = self.link.options.outgoing_bytes_max;
        let connection = self.link.connections.get(key);
        if connection.is_none_or(|connection| connection.queued_bytes() > outgoing_bytes_max) {
            return;
        }
        call.progress = progress.done;
        let Some(out) = self.link.outgoing(key) else { return };
        let message = progress.message.as_deref();
        let (total, revision) = (progress.total, call.revision);
        message::progress(out, token.as_id(), progress.done, total, message, revision);
        self.road.end_text(out);
        self.road.counters.requests.progress += 1;
        self.weigh_or_end(ring, key, now);
    }

    /// Nobody listens on a connection any more: its calls are cancelled.
    pub(super) fn abandon(&mut self, key: Key) {
        self.cancel_all(key);
    }

    /// Cancels every call of a connection; none of them will be answered.
    pub(super) fn cancel_all(&mut self, key: Key) {
        self.end_streams(key);
        let Some(connection) = self.link.connections.get_mut(key) else { return };
        for (_, ticket) in connection.session.in_flight.drain() {
            if self.road.give_up(Key::from_bits(ticket.0)) {
                self.road.counters.requests.cancelled += 1;
                connection.owed = connection.owed.saturating_sub(1);
            }
        }
    }

    pub(super) fn forget_in_flight(&mut self, call: &Call, now: Moment) {
        if let Some(connection) = self.link.connections.get_mut(call.connection) {
            connection.session.in_flight.remove(call.id.as_id());
            connection.repay(now);
        }
    }

    /// An answer more, a debt less: a connection that waited for that is read again or ends.
    pub(super) fn after_answer<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        self.weigh_or_end(ring, key, now);
        let next = self.link.try_resume(key);
        self.follow(ring, next, now);
    }
}
