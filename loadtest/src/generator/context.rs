//! What all components of a load thread use: configuration, time, phase and measurements.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use corelane_base::time::Instant;

use super::period::PeriodRecorder;
use super::run_config::RunConfig;
use super::users::Users;
use crate::mcp::{
    ConnectError, HttpField, ReceiveEvent, RequestLog, RequestSettings, RequestTemplates,
    UserValues,
};
use crate::metrics::failure_examples::answer_text;
use crate::metrics::outcome::Failure;
use crate::schedule::Share;
use crate::sign_in::NewToken;

/// Phase of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunPhase {
    /// Connections are opened; no requests are sent.
    Connecting,
    /// Requests are sent.
    Sending,
    /// No more requests are sent; outstanding responses are awaited.
    Draining,
}

/// Context of one load thread, passed to the methods of its components.
#[derive(Debug)]
pub(super) struct RunContext {
    pub(super) config: RunConfig,
    pub(super) share: Share,
    /// Request templates, followed by the publish request if there are subscribers.
    pub(super) templates: RequestTemplates,
    /// Time of the current turn.
    pub(super) now: Instant,
    pub(super) phase: RunPhase,
    /// Whether the run was ended before its time, so that open requests are not waited for.
    pub(super) is_stopped: bool,
    /// Virtual users, if they send the requests.
    pub(super) users: Option<Users>,
    pub(super) recorder: PeriodRecorder,
}

/// Actions required by received data.
#[derive(Debug, Default)]
pub(super) struct ReceiveActions {
    /// Id, as JSON text, and method of each request of the server.
    pub(super) server_requests: Vec<(String, String)>,
    pub(super) output: Vec<u8>,
    pub(super) is_closing: bool,
    pub(super) is_broken: bool,
}

impl RunContext {
    /// Creates the context of a load thread that connects from `now` on.
    pub(super) fn new(mut config: RunConfig, share: Share, now: Instant) -> Self {
        config.tls = config.tls.map(|tls| tls.with_own_sessions());
        let requests = config.calls.iter().map(|(call, _)| call);
        let publish = config.roles.subscribers.as_ref().map(|listen| &listen.publish_request);
        let answers = config.users.as_ref().map(|_| Arc::clone(config.request_settings.answers()));
        let templates = RequestTemplates::new(requests.chain(publish).cloned().collect());
        let templates = templates.with_answers(answers);
        let has_mix = config.calls.iter().filter(|(_, weight)| *weight > 0).count() > 1;
        let users = Users::new(&config, share);
        let publish_call = publish.and_then(|_| u16::try_from(config.calls.len()).ok());
        Self {
            config,
            share,
            templates,
            now,
            phase: RunPhase::Connecting,
            is_stopped: false,
            users,
            recorder: PeriodRecorder {
                period: Box::default(),
                measured_from: Instant::ORIGIN,
                earlier_open: 0,
                has_mix,
                publish_call,
            },
        }
    }

    /// Returns whether the current turn is in the measured window.
    pub(super) fn is_in_window(&self) -> bool {
        self.phase == RunPhase::Sending && self.now >= self.recorder.measured_from
    }

    /// Gives users the tokens that have come.
    pub(super) fn take_tokens(&mut self, tokens: Option<&Receiver<NewToken>>) {
        if let (Some(users), Some(tokens)) = (&mut self.users, tokens) {
            for token in tokens.try_iter() {
                users.set_token(token);
            }
        }
    }

    /// Returns the settings of the messages of a connection: those of its user.
    pub(super) fn settings_of(&self, index: usize) -> Cow<'_, RequestSettings> {
        let user = self.users.as_ref().and_then(|users| users.values(index));
        self.config.request_settings.of_user(user.and_then(UserValues::shared_authorization))
    }

    /// Processes data received on the open connection `index` and records its results.
    #[inline]
    pub(super) fn receive_responses(
        &mut self,
        index: usize,
        log: &mut RequestLog,
        bytes: &[u8],
    ) -> ReceiveActions {
        let (recorder, now) = (&mut self.recorder, self.now);
        let mut users = self.users.as_mut();
        let settings = &self.config.request_settings;
        let fields = &settings.fields;
        let is_warm = now >= recorder.measured_from;
        let is_measured = self.phase == RunPhase::Sending && is_warm;
        self.templates.explain_wrong(recorder.period.errors.lacks(Some(Failure::Wrong)));
        let mut actions = ReceiveActions::default();
        let received = log.receive(&mut self.templates, bytes, |event| match event {
            ReceiveEvent::Completed(completed) => match &mut users {
                None => recorder.record_completed(completed, now),
                Some(users) => users.complete(index, completed, now, recorder),
            },
            ReceiveEvent::Result(result) => {
                if let Some((user, kind)) = users.as_mut().and_then(|users| users.user_mut(index)) {
                    user.take_values(kind, &result, &mut recorder.period.users);
                }
            }
            ReceiveEvent::Unsolicited => recorder.period.outcomes.unsolicited += 1,
            ReceiveEvent::Late => recorder.period.outcomes.late += u64::from(is_warm),
            ReceiveEvent::Failed { failure, answer } => {
                if let Some((user, _)) = users.as_mut().and_then(|users| users.user_mut(index)) {
                    user.set_retry_after(&answer);
                }
                let examples = &mut recorder.period.errors;
                if examples.lacks(failure) {
                    examples
                        .add_first(failure, HttpField::redact_all(fields, answer_text(&answer)));
                }
            }
            ReceiveEvent::Notification => {
                recorder.period.outcomes.notifications += u64::from(is_warm);
            }
            ReceiveEvent::FirstEvent { call, intended } => {
                recorder.record_first_event(call, intended, now);
            }
            ReceiveEvent::FirstProgress { call, intended } => {
                recorder.record_first_progress(call, intended, now);
            }
            ReceiveEvent::Chunk => recorder.period.outcomes.chunks += u64::from(is_measured),
            // A server closes a connection that sends nothing in return.
            ReceiveEvent::Keepalive(hint) => {
                actions.output.extend_from_slice(&settings.keepalive(hint.unwrap_or_default()));
            }
            ReceiveEvent::Streamed => recorder.period.outcomes.streamed += u64::from(is_warm),
            ReceiveEvent::InputRequired(members) => {
                if let Some(users) = &mut users {
                    users.require_input(index, members, now, recorder);
                }
            }
            ReceiveEvent::ServerRequest { id, method } => {
                actions.server_requests.push((id, method));
            }
            ReceiveEvent::Send(bytes) => actions.output.extend_from_slice(&bytes),
            ReceiveEvent::Closing => actions.is_closing = true,
        });
        actions.is_broken = received.is_err();
        actions
    }

    /// Counts the steps of users that are due and not sent when no more are sent.
    pub(super) fn record_unsent_steps(&mut self) {
        let Some(users) = &mut self.users else { return };
        let unsent = users.stop(self.now, self.recorder.measured_from);
        for since in unsent.unseen {
            self.recorder.record_lag(since, self.now);
            self.recorder.period.users.arrived += 1;
            self.recorder.period.users.waited += 1;
        }
        let (unsent, period) = (unsent.count, &mut self.recorder.period);
        period.due += unsent;
        if self.is_stopped {
            period.outcomes.abandoned += unsent;
        } else {
            period.outcomes.record_failures(Failure::Unsent, unsent);
        }
    }

    /// Fails all requests in flight on a connection.
    pub(super) fn fail_requests(&mut self, log: &mut RequestLog, failure: Failure) {
        log.fail_all(failure, |event| {
            if let ReceiveEvent::Completed(completed) = event {
                self.recorder.record_completed(completed, self.now);
            }
        });
    }

    /// Fails the requests in flight on a connection that were sent before `before`, and appends
    /// their cancellations to `output`. Returns whether there were any.
    pub(super) fn fail_late_requests(
        &mut self,
        log: &mut RequestLog,
        before: Instant,
        output: &mut Vec<u8>,
    ) -> bool {
        let timeout = self.config.limits.response_timeout;
        log.time_out(before, &self.config.request_settings, output, |event| {
            if let ReceiveEvent::Completed(completed) = event {
                let examples = &mut self.recorder.period.errors;
                if examples.lacks(Some(Failure::Timeout)) {
                    let text = format!("no answer within {timeout:?}");
                    examples.add_first(Some(Failure::Timeout), text);
                }
                self.recorder.record_completed(completed, self.now);
            }
        })
    }

    /// Drops all requests in flight on a connection at the end of a run that was stopped.
    pub(super) fn abandon_requests(&mut self, log: &mut RequestLog) {
        let PeriodRecorder { period, measured_from, publish_call, .. } = &mut self.recorder;
        log.fail_all(Failure::Timeout, |event| {
            if let ReceiveEvent::Completed(completed) = event
                && completed.intended >= *measured_from
                && *publish_call != Some(completed.call)
            {
                period.outcomes.abandoned += 1;
            }
        });
    }

    /// Records a failed connect and its error.
    pub(super) fn record_connect_error(&mut self, error: ConnectError) {
        self.recorder.period.connects.record_failure(error.failure);
        self.record_error(error);
    }

    /// Stores the last error of a connection, without secrets.
    pub(super) fn record_error(&mut self, error: ConnectError) {
        let ConnectError { failure, message } = error;
        let message = HttpField::redact_all(&self.config.request_settings.fields, message);
        self.recorder.period.errors.set_last(format!("{failure}: {message}"));
        self.recorder.period.errors.add_first(Some(failure), message);
    }

    /// Records the error of a failed request, if it is the first of its kind. That of a program
    /// which ended is its exit status, which follows.
    #[cold]
    pub(super) fn record_example(&mut self, failure: Failure, text: &str) {
        let is_ended = failure == Failure::Closed && self.config.endpoint.program().is_some();
        let examples = &mut self.recorder.period.errors;
        if !is_ended && examples.lacks(Some(failure)) {
            examples.add_first(Some(failure), text.to_owned());
        }
    }
}
