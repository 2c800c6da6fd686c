//! Tasks over time: events of their handlers, requests of other shards, status notifications.
//!
//! Invariants: everyone that waits for the end of a task gets it once; status changes go to
//! subscribers only. A slow peer misses notifications and can call `tasks/get` at any time.
//!
//! Source: 2025-11-25, basic/utilities/tasks; Tasks extension 2026-07-28.

use bytes::Bytes;

use super::{Shard, ShardPhase};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::Ring;
use crate::protocol::error::Error;
use crate::protocol::model::{self, ChangeNotification};
use crate::server::client_requests::Requester;
use crate::server::dispatch::unknown_task_error;
use crate::server::handlers::handler_state::HandlerState;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::tasks::{NewTask, RemoteTaskRequest, TaskEvent, TaskMessage, TaskWaiter};
use crate::service::{HandlerError, HandlerOutput};

impl Shard {
    /// Sends the messages of this turn to other shards.
    pub(super) fn send_shard_messages(&mut self) {
        for (shard, message) in self.dispatcher.outgoing_messages.drain(..) {
            self.inbox.send(shard, message);
        }
    }

    /// Handles a task message of another shard.
    pub(super) fn handle_task_message<R: Ring>(
        &mut self,
        ring: &mut R,
        message: TaskMessage,
        now: Instant,
    ) {
        match message {
            TaskMessage::Request(request) => self.handle_task_request(request, now),
            TaskMessage::Response { call: call_id, result: answer } => {
                self.complete_call_encoded(ring, call_id, answer, now);
            }
            TaskMessage::HandlerEvent { task, event } => {
                self.handle_task_event(ring, task, event, now);
            }
            TaskMessage::Watch { task, shard } => {
                if let Some(key) = self.dispatcher.tasks.find(task, true) {
                    self.dispatcher.tasks.watch(key, shard);
                }
            }
            TaskMessage::Changed { task, version, tail } => {
                self.publish_task(ring, (task, version), &tail, now);
            }
        }
    }

    /// Handles an event of a handler that runs as a task.
    pub(super) fn handle_task_event<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        event: TaskEvent,
        now: Instant,
    ) {
        match event {
            TaskEvent::InputRequested => self.account_inputs(key, now),
            TaskEvent::Progress { progress: done, total, message } => {
                if let Some(peer_id) = self.send_task_progress(key, done, total, message.as_deref())
                {
                    self.check_peer_memory(ring, peer_id, now);
                }
            }
            TaskEvent::Finished(result) => self.complete_task(ring, key, result, now),
        }
    }

    /// Completes the task of an ended handler.
    fn complete_task<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        result: Result<HandlerOutput, HandlerError>,
        now: Instant,
    ) {
        let Some(task) = self.dispatcher.tasks.get_mut(key) else { return };
        let (peer_id, revision) = (task.peer, task.revision);
        let open_requests = std::mem::take(&mut task.client_requests);
        // Client requests that it did not wait for; the others are closed.
        for number in open_requests.numbers() {
            self.cancel_client_request(*number, now);
        }
        if result.is_ok() && revision.dialect().elicitation_ids {
            for elicitation_id in open_requests.accepted_elicitations() {
                let mut text = self.take_text_buffer();
                model::write_elicitation_complete(&mut text, elicitation_id);
                self.send_message(ReplyTo::standalone(peer_id), Outcome::Notification, text);
            }
            self.check_peer_memory(ring, peer_id, now);
        }
        let end = self.dispatcher.encode_task_end(revision, result);
        self.dispatcher.tasks.complete(key, end, now);
    }

    /// Turns a call into a task: the caller gets a `CreateTaskResult` and the handler continues.
    pub(super) fn convert_to_task<R: Ring>(
        &mut self,
        ring: &mut R,
        handler: &HandlerState,
        now: Instant,
    ) {
        let Some((call_id, ttl)) = handler.requested_task() else { return };
        let Some(call) = self.dispatcher.calls.find_awaited(call_id) else {
            return handler.reject_task(HandlerError::Cancelled);
        };
        let progress_token = call.progress_token.clone();
        let reply_to = call.reply_to;
        let new_task =
            NewTask { peer: reply_to.peer_id, client: handler.client, progress_token, ttl };
        let key = match self.dispatcher.tasks.create(new_task, now) {
            Ok(key) => key,
            Err(error) => return handler.reject_task(HandlerError::Rpc(error)),
        };
        let Some(mut call) = self.dispatcher.calls.remove(call_id) else { return };
        self.complete_request(reply_to.peer_id, call.id.as_id(), now);
        let mut text = self.take_text_buffer();
        self.dispatcher.write_create_task_result(&mut text, call.id.as_id(), key);
        self.send_message(reply_to, Outcome::Response, text);
        let open_requests =
            call.open_requests.take().map(|open_requests| *open_requests).unwrap_or_default();
        self.dispatcher.client_requests.reassign(open_requests.numbers(), Requester::Task(key));
        if let Some(task) = self.dispatcher.tasks.get_mut(key) {
            task.last_progress = call.progress;
            task.client_requests = open_requests;
        }
        self.dispatcher.tasks.attach_handler(key, call.work);
        self.account_inputs(key, now);
        handler.become_task(key, self.dispatcher.task_carrier(key));
        self.after_response(ring, reply_to, now);
    }

    /// Accounts the input requests of a task. While draining no input is read, so the task fails.
    fn account_inputs(&mut self, key: Key, now: Instant) {
        self.dispatcher.tasks.update_input_status(key, now);
        if self.phase != ShardPhase::Serving {
            self.dispatcher.fail_waiting_for_input(key, now);
        }
    }

    /// Fails the tasks that wait for input, because nothing more is read: they must not delay the
    /// drain. Subscribers are notified.
    pub(super) fn fail_tasks_waiting_for_input<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        for key in self.dispatcher.tasks.unfinished() {
            self.dispatcher.fail_waiting_for_input(key, now);
        }
        self.publish_changed_tasks(ring, now);
    }

    /// Handles a task operation of another shard.
    fn handle_task_request(&mut self, request: RemoteTaskRequest, now: Instant) {
        let RemoteTaskRequest { task, shard, call: call_id, deadline, revision, op } = request;
        let found =
            self.dispatcher.tasks.find(task, revision.is_modern()).ok_or_else(unknown_task_error);
        let must_wait = found.and_then(|key| Ok((key, self.dispatcher.must_wait(key, &op, now)?)));
        let answer = match must_wait {
            Ok((key, true)) => {
                self.dispatcher.wait_for_task(key, TaskWaiter { shard, call: call_id, deadline });
                return;
            }
            Ok((key, false)) => {
                let mut body = Vec::new();
                self.dispatcher.apply_task_op(key, &op, revision, now, &mut body).map(|()| body)
            }
            Err(error) => Err(error),
        };
        self.dispatcher
            .send_task_message(shard, TaskMessage::Response { call: call_id, result: answer });
    }

    /// Publishes the tasks that have changed since the last call: to waiting calls, to the
    /// connection that began the task, to subscribers.
    pub(super) fn publish_changed_tasks<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        while let Some(key) = self.dispatcher.tasks.take_changed() {
            let Some(task) = self.dispatcher.tasks.get_mut(key) else { continue };
            let is_modern = task.revision.is_modern();
            let waiters = if task.has_ended() { task.take_waiters() } else { Vec::new() };
            if is_modern {
                self.notify_watchers(ring, key, now);
            } else {
                self.send_task_status(ring, key, now);
            }
            for waiter in waiters {
                let mut body = Vec::new();
                let answer = self.dispatcher.write_task_result(key, &mut body).map(|()| body);
                self.complete_waiter(ring, waiter, answer, now);
            }
        }
    }

    fn complete_waiter<R: Ring>(
        &mut self,
        ring: &mut R,
        waiter: TaskWaiter,
        answer: Result<Vec<u8>, Error>,
        now: Instant,
    ) {
        let TaskWaiter { shard, call: call_id, .. } = waiter;
        if shard == self.id {
            self.complete_call_encoded(ring, call_id, answer, now);
        } else {
            self.dispatcher
                .send_task_message(shard, TaskMessage::Response { call: call_id, result: answer });
        }
    }

    /// Sends `notifications/tasks/status` (2025-11-25) to the connection that began the task.
    fn send_task_status<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let Some(peer_id) = self.dispatcher.tasks.get_mut(key).map(|task| task.peer) else {
            return;
        };
        if !self.has_queue_space(peer_id) {
            return;
        }
        let mut text = self.take_text_buffer();
        let wall_clock = self.dispatcher.wall_clock;
        let Some(task) = self.dispatcher.tasks.get_mut(key) else { return };
        task.with_detail(wall_clock, |task, detail| {
            ChangeNotification::TaskStatus { task, detail }.write_legacy(&mut text);
        });
        self.send_message(ReplyTo::standalone(peer_id), Outcome::Notification, text);
        self.check_peer_memory(ring, peer_id, now);
    }

    /// Sends `notifications/tasks` (2026-07-28) to every shard with subscribers.
    fn notify_watchers<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let Some(task) = self.dispatcher.tasks.get_mut(key) else { return };
        if task.watchers().is_empty() {
            return;
        }
        let (id, version) = (task.id, task.version);
        let tail = self.encode_task_tail(key);
        let watchers = self.dispatcher.tasks.get_mut(key).map(|task| task.watchers().to_vec());
        for shard in watchers.unwrap_or_default() {
            if shard == self.id {
                self.publish_task(ring, (id, version), &tail, now);
            } else {
                let (task, tail) = (id, tail.clone());
                self.dispatcher
                    .send_task_message(shard, TaskMessage::Changed { task, version, tail });
            }
        }
    }

    /// Encodes the part of `notifications/tasks` behind the subscription id.
    fn encode_task_tail(&mut self, key: Key) -> Bytes {
        let wall_clock = self.dispatcher.wall_clock;
        let mut tail = Vec::new();
        if let Some(task) = self.dispatcher.tasks.get_mut(key) {
            task.with_detail(wall_clock, |task, detail| {
                ChangeNotification::TaskStatus { task, detail }.write_tail(&mut tail);
            });
        }
        Bytes::from(tail)
    }

    /// Sends progress of a task (up to 2025-11-25) to the connection that began it, if it gave a
    /// token. Returns that peer. Modern tasks have no progress.
    fn send_task_progress(
        &mut self,
        key: Key,
        done: f64,
        total: Option<f64>,
        text: Option<&str>,
    ) -> Option<PeerId> {
        let task = self.dispatcher.tasks.get_mut(key)?;
        let peer_id = task.peer;
        let is_due = !task.revision.is_modern() && !task.has_ended() && done > task.last_progress;
        if !is_due || task.progress_token.is_none() || !self.has_queue_space(peer_id) {
            return None;
        }
        let mut buf = self.take_text_buffer();
        let task = self.dispatcher.tasks.get_mut(key)?;
        task.last_progress = done;
        let (token, name) = (task.progress_token.as_ref()?.as_id(), task.id_text());
        model::write_task_progress(&mut buf, token, done, total, text, name);
        self.send_message(ReplyTo::standalone(peer_id), Outcome::Notification, buf);
        self.dispatcher.counters.requests.progress_notifications += 1;
        Some(peer_id)
    }

    /// Removes tasks whose TTL has passed, cancels their handlers and fails the calls that wait.
    pub(super) fn expire_tasks<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        while let Some(mut task) = self.dispatcher.tasks.expire(now) {
            if let Some(work) = task.handler() {
                work.cancel();
            }
            for number in task.client_requests.take() {
                self.cancel_client_request(number, now);
            }
            for waiter in task.take_waiters() {
                self.complete_waiter(ring, waiter, Err(unknown_task_error()), now);
            }
        }
    }

    /// Cancels every running task, because the drain timeout has passed.
    pub(super) fn cancel_all_tasks(&mut self, now: Instant) {
        for key in self.dispatcher.tasks.unfinished() {
            self.dispatcher.abort_task(key, "the server ended before the task did", now);
        }
    }

    /// Completes a call whose result was encoded elsewhere.
    fn complete_call_encoded<R: Ring>(
        &mut self,
        ring: &mut R,
        call_id: Key,
        answer: Result<Vec<u8>, Error>,
        now: Instant,
    ) {
        let Some(call) = self.dispatcher.calls.remove(call_id) else { return };
        let (reply_to, id) = (call.reply_to, call.id.as_id());
        self.complete_request(reply_to.peer_id, id, now);
        match answer {
            Ok(body) => {
                let mut text = self.take_text_buffer();
                model::write_response(&mut text, id, &body);
                self.send_message(reply_to, Outcome::Response, text);
            }
            Err(error) => self.send_error(reply_to, id, &error, call.revision),
        }
        self.after_response(ring, reply_to, now);
    }
}
