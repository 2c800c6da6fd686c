//! Answers that come later: from a handler's end to its caller.

use super::ShardDriver;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::Ring;
use crate::protocol::error::Error;
use crate::protocol::message;
use crate::server::desk::Progress;
use crate::server::party::Said;
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
        let (outlet, id) = (call.outlet, call.id.as_id());
        self.repay(outlet.party, id, now);
        let addresses = call.dialogue.iter().flat_map(|dialogue| dialogue.addresses());
        let has_ids = result.is_ok() && call.revision.dialect().elicitation_ids;
        for address in addresses.filter(|_| has_ids) {
            let mut text = self.draft();
            message::elicitation_complete(&mut text, address);
            self.say(outlet, Said::Word, text);
        }
        let mut text = self.draft();
        match call.catalog.settle(call.revision, id, result, &mut text) {
            Ok(is_failed) => {
                self.road.counters.requests.tools_failed += u64::from(is_failed);
                self.say(outlet, Said::Answer, text);
            }
            Err(error) => self.say_error(outlet, id, &error, call.revision),
        }
        self.after_answer(ring, outlet, now);
    }

    /// A call has taken too long: it is cancelled and answered with an error.
    pub(super) fn time_out<R: Ring>(&mut self, ring: &mut R, ticket: Key, now: Moment) {
        let Some(call) = self.road.calls.awaited(ticket) else { return };
        let (outlet, id, revision) = (call.outlet, call.id.clone(), call.revision);
        self.road.give_up(ticket);
        self.road.counters.requests.timed_out += 1;
        let span = self.road.request_max;
        let error =
            Error::internal(format!("the call took longer than {span:?} and was cancelled"));
        self.repay(outlet.party, id.as_id(), now);
        self.say_error(outlet, id.as_id(), &error, revision);
        self.after_answer(ring, outlet, now);
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
        let outlet = call.outlet;
        if call.progress_token.is_none()
            || progress.done <= call.progress
            || !self.reads_along(outlet.party)
        {
            return;
        }
        let mut text = self.draft();
        let Some(call) = self.road.calls.awaited(progress.ticket) else { return };
        call.progress = progress.done;
        let Some(token) = &call.progress_token else { return };
        let message = progress.message.as_deref();
        let (total, revision) = (progress.total, call.revision);
        message::progress(&mut text, token.as_id(), progress.done, total, message, revision);
        self.say(outlet, Said::Word, text);
        self.road.counters.requests.progress += 1;
        self.weigh_party(ring, outlet.party, now);
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
                connection.standing.repay();
            }
        }
    }
}
