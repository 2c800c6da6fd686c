//! A simulated client: performs its actions and checks what it receives.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_protocol::revision::Revision;
use serde_json::Value;

use crate::feature_simulation::action::Action;
use crate::feature_simulation::connection_checker::{ConnectionChecker, ReceivedMessage};
use crate::feature_simulation::request_expectation::{RequestExpectation, SHORT_OF_MEMORY};
use crate::feature_simulation::shared_model::SharedModel;
use crate::line_simulation::expected_response::CONNECTION_LIMIT;
use crate::totals::Totals;
use crate::websocket::transport::{ClientTransport, Conditions};

/// Properties of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientProfile {
    pub(crate) number: u64,
    pub(crate) revision: Revision,
    /// It reads slowly.
    pub(crate) is_slow: bool,
}

#[derive(Debug)]
pub(crate) struct SimClient {
    pub(super) profile: ClientProfile,
    transport: ClientTransport,
    actions: VecDeque<Action>,
    pub(super) random: Random,
    pub(crate) checker: ConnectionChecker,
    pub(super) last_id: u64,
    /// Expected responses by request id.
    pub(super) expectations: BTreeMap<u64, RequestExpectation>,
    /// Client requests to respond to, and those already answered.
    pub(super) client_requests: Vec<Value>,
    pub(super) answered_requests: Vec<Value>,
    /// Bytes that are still to be written.
    pub(super) unsent: VecDeque<u8>,
    partial: Vec<u8>,
    next_action: Instant,
    is_reading_stopped: bool,
    /// It has begun to close and waits for the end of its connection.
    is_closing: bool,
    /// Since when every response has arrived, while it reads.
    pub(super) complete_since: Option<Instant>,
    ended_at: Option<Instant>,
    digest: u64,
}

impl SimClient {
    /// A client that has just connected.
    pub(crate) fn new(
        profile: ClientProfile,
        carrier: ClientTransport,
        actions: Vec<Action>,
        random: Random,
        now: Instant,
    ) -> Self {
        let mut client = Self {
            profile,
            transport: carrier,
            actions: actions.into(),
            random,
            checker: ConnectionChecker::new(profile.revision),
            last_id: profile.number * 1000,
            expectations: BTreeMap::new(),
            client_requests: Vec::new(),
            answered_requests: Vec::new(),
            unsent: VecDeque::new(),
            partial: Vec::new(),
            next_action: now,
            is_reading_stopped: false,
            is_closing: false,
            complete_since: None,
            ended_at: None,
            digest: 0xCBF2_9CE4_8422_2325,
        };
        client.start_reading();
        if profile.revision.is_modern() {
            client.ping(now);
        } else {
            client.initialize(now);
        }
        client
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.ended_at.is_some()
    }

    pub(crate) const fn ended_at(&self) -> Option<Instant> {
        self.ended_at
    }

    /// Hash of what it received and when.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns when it acts next without receiving anything; `None` while it only waits.
    pub(crate) fn next_action(&self) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        let carries = self.transport.next_due();
        if self.is_closing {
            return carries;
        }
        if !self.unsent.is_empty()
            || self.actions.front() != Some(&Action::AwaitResponses)
            || self.is_reading_stopped
        {
            return carries.into_iter().chain([self.next_action]).min();
        }
        let wakes = self
            .complete_since
            .map_or(self.next_action, |settled| settled.after(NOTIFY_MAX).max(self.next_action));
        let acts = self.checker.is_complete().then_some(wakes);
        carries.into_iter().chain(acts).min()
    }

    pub(crate) fn totals(&self) -> Totals {
        self.checker.totals.plus(self.transport.totals())
    }

    /// Describes its state for a failure report.
    pub(crate) fn describe(&self) -> String {
        let Self { profile, actions, checker, expectations, transport, .. } = self;
        let transport = transport.describe();
        format!("{profile:?} is to {actions:?}; {checker:?}; {expectations:?}; {transport}")
    }

    /// Receives what has arrived and performs what is due.
    ///
    /// # Errors
    ///
    /// Something arrived that must not, or is missing.
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        model: &mut SharedModel,
        conditions: Conditions,
    ) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        self.transport.send_due(now);
        let received = self.receive(now, model, conditions);
        received.map_err(|reason| format!("{reason}; {}", self.describe()))?;
        let has_ended = self.transport.has_ended(now, conditions);
        if has_ended.map_err(|reason| format!("{reason}; {}", self.describe()))? {
            self.record_end(now);
        }
        while !self.is_over() && !self.is_closing && self.next_action <= now {
            let acted = self.perform_next(now, model);
            if !acted.map_err(|reason| format!("{reason}; {}", self.describe()))? {
                break;
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        now: Instant,
        model: &mut SharedModel,
        conditions: Conditions,
    ) -> Result<(), String> {
        let received = self.transport.take_received(now, conditions)?;
        if received.is_empty() {
            return Ok(());
        }
        for byte in now.nanoseconds().to_le_bytes().iter().chain(&received) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self.partial.extend_from_slice(&received);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let message = serde_json::from_slice(&line).map_err(|error| error.to_string())?;
            if conditions.drain_end.is_some() && is_refusal(&message) {
                self.checker.totals.connections_refused += 1;
                continue;
            }
            if model.may_exhaust_memory && is_memory_error(&message) {
                self.checker.totals.memory_limit_closes += 1;
                continue;
            }
            self.check_message(&message, now, model)?;
        }
        Ok(())
    }

    fn check_message(
        &mut self,
        message: &Value,
        now: Instant,
        model: &mut SharedModel,
    ) -> Result<(), String> {
        match self.checker.check_message(message, now)? {
            ReceivedMessage::Response { id, method, span } => {
                self.checker.catalog_checker.check(method, message, &mut model.catalog_versions)?;
                let Some(expectation) = self.expectations.remove(&id) else { return Ok(()) };
                let is_modern = self.profile.revision.is_modern();
                let task = expectation.check_response(message, method, is_modern, span, model)?;
                if let Some(task) = task {
                    self.checker.record_task(&task);
                }
                Ok(())
            }
            ReceivedMessage::ClientRequest { id } => {
                self.client_requests.push(message.clone());
                model.add_client_request(&id)
            }
            ReceivedMessage::Task => model.update_task(&message["params"], None, now),
            ReceivedMessage::Other => Ok(()),
        }
    }

    /// Performs one action; returns `false` if it has to wait.
    ///
    /// # Errors
    ///
    /// A task notification is missing.
    fn perform_next(&mut self, now: Instant, model: &mut SharedModel) -> Result<bool, String> {
        if !self.unsent.is_empty() {
            self.write(now);
            return Ok(true);
        }
        let action = self.actions.pop_front().unwrap_or(Action::Close);
        match action {
            Action::Wait(span) => self.next_action = now.after(span),
            Action::StopReading => {
                self.is_reading_stopped = true;
                self.complete_since = None;
                self.transport.stop_reading();
            }
            Action::ResumeReading => self.start_reading(),
            Action::AwaitResponses => return self.await_responses(now, model),
            Action::Close => self.close(now),
            Action::Reset => {
                self.transport.reset();
                self.record_end(now);
            }
            action => self.send_action(action, now, model),
        }
        if self.random.chance(1, 2) {
            self.next_action = self
                .next_action
                .max(now.after(Duration::from_micros(self.random.below(1_000) as u64)));
        }
        Ok(true)
    }

    /// Waits until every response has arrived, and a little longer for notifications.
    fn await_responses(&mut self, now: Instant, model: &SharedModel) -> Result<bool, String> {
        if self.is_reading_stopped {
            self.start_reading();
        }
        match self.complete_since.filter(|_| self.checker.is_complete()) {
            Some(settled) if now >= settled.after(NOTIFY_MAX) => {
                self.complete_since = None;
                let must_be = |task: &str| model.must_be_notified(task, now, NOTIFY_MAX);
                let untold =
                    self.checker.missing_task_end(must_be).filter(|_| !self.profile.is_slow);
                return untold.map_or(Ok(true), Err);
            }
            Some(_) => {}
            None => self.complete_since = self.checker.is_complete().then_some(now),
        }
        self.actions.push_front(Action::AwaitResponses);
        Ok(false)
    }

    /// Writes a part of its unsent bytes, most often all of them.
    fn write(&mut self, now: Instant) {
        let length = match self.random.below(6) {
            0 => 1 + self.random.below(self.unsent.len()),
            _ => self.unsent.len(),
        };
        let piece: Vec<u8> = self.unsent.drain(..length).collect();
        self.transport.write(&piece, now);
        if self.random.chance(1, 3) {
            self.next_action = now.after(Duration::from_micros(self.random.below(300) as u64));
        }
    }

    fn start_reading(&mut self) {
        self.is_reading_stopped = false;
        if self.profile.is_slow {
            let bytes = 256 + self.random.below(4_000);
            let every = Duration::from_micros(1 + self.random.below(1_000) as u64);
            self.transport.read_slowly(bytes, every);
        } else {
            self.transport.read_eagerly();
        }
    }

    fn close(&mut self, now: Instant) {
        if self.is_reading_stopped {
            self.start_reading();
        }
        self.is_closing = true;
        if self.transport.close(now) {
            self.record_end(now);
        }
    }

    fn record_end(&mut self, now: Instant) {
        self.ended_at = Some(now);
        self.checker.totals.clients_vanished += u64::from(!self.checker.is_complete());
    }
}

/// How long it may take until every subscriber has been notified.
const NOTIFY_MAX: Duration = Duration::from_millis(30);

/// Returns whether a message refuses the connection because the server drains.
fn is_refusal(message: &Value) -> bool {
    let text = message["error"]["message"].as_str().unwrap_or_default();
    let is_refusal = message.get("id").is_none() && message["error"]["code"] == CONNECTION_LIMIT;
    is_refusal && text.contains("shutting down")
}

/// Returns whether a message tells that the connection is closed because it holds most.
fn is_memory_error(message: &Value) -> bool {
    let reason = message["error"]["message"].as_str().unwrap_or_default();
    message["id"].is_null() && reason.contains(SHORT_OF_MEMORY)
}
