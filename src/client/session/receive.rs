//! Messages of the server, those that are not JSON-RPC included, and the input that they require.
//!
//! Invariants: a response is not answered; a request that cannot be read gets an error, with its id
//! if that can be read; blank text is ignored.
//!
//! JSON-RPC 2.0, section 5.

use std::ops::Range;

use corelane_base::time::Instant;
use corelane_protocol::eras::Method;
use corelane_protocol::error::Error;
use corelane_protocol::json::{PaddedText, ParseError, Parser, Value};
use corelane_protocol::jsonrpc::{Id, InvalidMessage, Message};
use corelane_protocol::message_head::MessageHead;
use memchr::memmem;

use super::calls::{Call, CallTable, own_id};
use super::event::{MessageSink, Progress, ReceivedMessage, SessionEvent};
use super::handshake::{self, NextStep};
use super::inputs::{InputKey, InputKind, InputTarget};
use super::side_requests::SideRequest;
use super::{
    CallRequest, Phase, Session, SessionBuffers, SessionContext, TaskMode, restart, subscriptions,
    tasks,
};
use crate::error::{ClientError, ClientErrorKind, quote};
use crate::results::CallToolResult;

impl<T: Clone> Session<T> {
    /// Handles one message of the server.
    pub fn receive<S: MessageSink>(
        &mut self,
        mut text: PaddedText<'_>,
        parser: &mut Parser,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        ctx.buffers.copy_received(&text);
        let error = match parser.parse(text.reborrow()) {
            Ok(document) => return self.handle_root(document.root(), ctx),
            Err(error) => error,
        };
        if parser.repair(&mut text, error) {
            return self.receive(text, parser, ctx);
        }
        let message = find_message(text.as_bytes());
        if message.len() < text.as_bytes().len() {
            return self.receive(text.part(message.start, message.end), parser, ctx);
        }
        self.handle_unreadable(text.as_bytes(), error, ctx);
    }

    fn handle_root<S: MessageSink>(&mut self, root: Value<'_>, ctx: &mut SessionContext<'_, T, S>) {
        let Some(batch) = root.as_array() else { return self.handle_message(root, ctx) };
        if self.server().is_none_or(|server| !server.revision.dialect().batches) {
            let text = "a batch of messages, which only MCP 2025-03-26 has";
            ctx.events.push(SessionEvent::Violation(text));
            return;
        }
        for item in batch {
            ctx.buffers.write_received(item);
            self.handle_message(item, ctx);
        }
    }

    fn handle_message<S: MessageSink>(
        &mut self,
        message: Value<'_>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        match Message::read(message) {
            Ok(Message::Response { id: Some(id), outcome }) => {
                self.handle_response(id, outcome, ctx);
            }
            Ok(Message::Response { id: None, outcome }) => {
                self.server_error = outcome.err().map(ClientError::from_response);
                let text = "an error response without an id";
                ctx.events.push(SessionEvent::Violation(text));
            }
            Ok(Message::Notification { method: "notifications/progress", params }) => {
                ctx.events.extend(progress_event(&mut self.calls, params, ctx.now));
            }
            Ok(Message::Notification { method: "notifications/cancelled", params }) => {
                self.handle_cancelled(params, ctx);
            }
            Ok(Message::Notification { method, params }) => {
                if matches!(method, "notifications/tasks" | "notifications/tasks/status") {
                    tasks::handle_notification(self, params, ctx);
                }
                let received = std::mem::take(&mut ctx.buffers.received);
                let message = ReceivedMessage::new(received, self.revision(), false);
                if self.server().is_some_and(|server| !server.revision.is_modern()) {
                    subscriptions::handle_notification(self, method, params, &message, ctx);
                }
                let call = subscription_id(params).and_then(|id| self.calls.get(id));
                ctx.events.push(match call {
                    Some(call) => SessionEvent::Subscription { token: call.token.clone(), message },
                    None => SessionEvent::Notification(message),
                });
            }
            Ok(Message::Request { id, method, params }) => {
                self.handle_request(id, method, params, ctx);
            }
            Err(invalid) => self.handle_invalid(&invalid, ctx),
        }
    }

    fn handle_response<S: MessageSink>(
        &mut self,
        id: Id<'_>,
        outcome: Result<Value<'_>, Value<'_>>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let Some(id) = own_id(id).filter(|id| self.calls.was_allocated(*id)) else {
            let text = "a response to a request that was not sent";
            ctx.events.push(SessionEvent::Violation(text));
            return;
        };
        if let Phase::Handshake(request) = self.phase
            && request.id == id
        {
            let next = if request.legacy.is_some() {
                handshake::after_initialize(outcome)
            } else {
                handshake::after_discover(outcome, self.config.options(), request.may_repeat)
            };
            return self.advance_handshake(next, ctx);
        }
        let is_discover = self.failed_discover.as_ref().is_some_and(|it| it.id == Some(id));
        if is_discover && matches!(self.phase, Phase::Handshake(_)) {
            // A server that was still starting: the response to `initialize` is ignored.
            let next = handshake::after_discover(outcome, self.config.options(), false);
            if let NextStep::Ready(_) = next {
                self.advance_handshake(next, ctx);
            }
            return;
        }
        let error = outcome.err().map(ClientError::from_response);
        if handle_side_response(self, id, error, ctx) {
            return;
        }
        // The response to a call that was cancelled or has ended is ignored.
        let Some(call) = self.calls.remove(id) else { return };
        let is_modern = self.server().is_some_and(|server| server.revision.is_modern());
        let result = match outcome {
            Ok(result) => match read_result_type(&call, result, is_modern) {
                Ok(ResultType::Complete) => Ok(()),
                Ok(ResultType::InputRequired) if call.request.returns_input_required => Ok(()),
                Ok(ResultType::InputRequired) => return self.begin_round(call, result, ctx),
                Ok(ResultType::Task) => return tasks::advance(self, call, result, ctx),
                Err(error) => Err(error),
            },
            Err(error) => {
                restart::fail_or_repeat(self, call, ClientError::from_response(error), ctx);
                return self.send_waiting(ctx);
            }
        };
        let (revision, used_input) = (self.revision(), call.rounds > 0 || call.task.is_some());
        let result = result.map(|()| {
            if let Some(result) = read_tool_result(&call.request, outcome, ctx.buffers) {
                ctx.buffers.put_request(call.request);
                return ReceivedMessage::with_tool_result(result, revision, used_input);
            }
            let received = ctx.buffers.take_received(call.request);
            ReceivedMessage::new(received, revision, used_input)
        });
        ctx.events.push(SessionEvent::Completed { token: call.token, result });
        self.send_waiting(ctx);
    }

    /// Handles the end of a request of the server: its response is not wanted any more.
    fn handle_cancelled<S>(
        &mut self,
        params: Option<Value<'_>>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let id = params.and_then(Value::as_object).and_then(|params| params.find("requestId"));
        if let Some(key) = id.and_then(Id::from_value).and_then(|id| self.inputs.remove_request(id))
        {
            ctx.events.push(SessionEvent::InputCancelled(key));
            self.calls.resume_unless(self.inputs.has_requests(), ctx.now);
        }
    }

    /// Answers a request of the server, or reports the input that it requires.
    fn handle_request<S: MessageSink>(
        &mut self,
        id: Id<'_>,
        method: &str,
        params: Option<Value<'_>>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let revision = self.revision();
        if self.server().is_some_and(|server| server.revision.is_modern()) {
            let text = "a request of the server, which MCP 2026-07-28 does not have";
            ctx.events.push(SessionEvent::Violation(text));
        } else if let Some(kind) = InputKind::of_method(method)
            && kind.is_declared(self.config.capabilities())
        {
            let input = self.inputs.insert_request(id, kind, params);
            ctx.events.push(SessionEvent::InputRequired(input));
            // The server may not answer its calls before it has the input.
            self.calls.pause(ctx.now);
            return;
        }
        if method == Method::Ping.as_str() {
            ctx.send_response(revision, id, Ok(b"{}"));
        } else {
            ctx.send_response(revision, id, Err(&Error::method_not_found(method)));
        }
    }

    /// Lets a call wait for the inputs that its result requires.
    fn begin_round<S: MessageSink>(
        &mut self,
        call: Call<T>,
        result: Value<'_>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let first_id = call.first_id;
        match self.inputs.insert_round(call, result, self.config.capabilities()) {
            Ok(inputs) if inputs.is_empty() => self.end_round(first_id, ctx),
            Ok(inputs) => ctx.events.extend(inputs.into_iter().map(SessionEvent::InputRequired)),
            Err(failure) => {
                let (token, error) = *failure;
                ctx.events.push(SessionEvent::Completed { token, result: Err(error) });
            }
        }
        self.send_waiting(ctx);
    }
}

/// Input of the client.
impl<T: Clone> Session<T> {
    /// Returns the call that requires an input: the one whose result does. For a request of a
    /// legacy server, which does not say so, the call in flight whose caller provides the fewest
    /// other ones, and of several the first: a call seldom asks again before it has an answer.
    pub fn input_caller(&mut self, key: InputKey) -> Option<&T> {
        let call = match self.inputs.target(key)? {
            InputTarget::Response { .. } => {
                let calls = self.calls.with_input();
                let first = calls.min_by_key(|id| (self.inputs.requests_of(*id), *id))?;
                self.inputs.assign(key, first);
                self.calls.find_first(first)
            }
            InputTarget::Member { call, .. } => self.inputs.round(*call),
            InputTarget::Task { call, .. } => {
                self.tasks.find(*call).or_else(|| self.calls.find_first(*call))
            }
        };
        call.map(|call| &call.token)
    }

    /// Provides an input: its result as a JSON object, or why there is none. A legacy server gets
    /// an error response then; a call of a modern one fails. Does nothing if the input is not
    /// required any more.
    pub fn provide_input<S: MessageSink>(
        &mut self,
        key: InputKey,
        result: Result<&[u8], ClientError>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        match self.inputs.take_target(key) {
            Some(InputTarget::Response { id, .. }) => {
                let result = result.map_err(|error| match error.kind() {
                    // The request was invalid.
                    ClientErrorKind::Protocol => Error::invalid_params(error.to_string()),
                    _ => Error::internal(error.to_string()),
                });
                ctx.send_response(self.revision(), id.as_id(), result.as_deref());
                self.calls.resume_unless(self.inputs.has_requests(), ctx.now);
            }
            Some(InputTarget::Task { call, name }) => {
                tasks::provide_input(self, call, &name, result, ctx);
            }
            Some(InputTarget::Member { call, name }) => match result {
                Ok(result) => {
                    self.inputs.add_response(call, &name, result);
                    self.end_round(call, ctx);
                }
                Err(error) => {
                    let Some((call, keys)) = self.inputs.remove_round(call) else { return };
                    ctx.events.extend(keys.into_iter().map(SessionEvent::InputCancelled));
                    let result = Err(error);
                    ctx.events.push(SessionEvent::Completed { token: call.token, result });
                }
            },
            None => {}
        }
    }

    /// Sends a call again if it has all its inputs.
    fn end_round<S: MessageSink>(&mut self, call: u64, ctx: &mut SessionContext<'_, T, S>) {
        let Some(revision) = self.server().map(|server| server.revision) else { return };
        let Some((mut call, request)) = self.inputs.take_complete(call) else { return };
        let id = self.calls.allocate_id();
        self.calls.restart_timeout(&mut call, ctx.now);
        ctx.send_request(&self.config, id, &request, revision);
        self.calls.insert(id, call);
    }
}

/// Handles the end of a request of the session itself: `error` is why it failed, if it did.
/// Returns `false` if `id` is no such request.
pub(super) fn handle_side_response<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    id: u64,
    error: Option<ClientError>,
    ctx: &mut SessionContext<'_, T, S>,
) -> bool {
    match (session.side_requests.take(id), error) {
        (Some(SideRequest::TaskUpdate { call }), Some(error)) => {
            tasks::fail(session, call, error, ctx);
        }
        (Some(SideRequest::Subscribe { call, uri }), error) => {
            subscriptions::handle_answer(session, call, &uri, error.is_some(), ctx);
        }
        (Some(SideRequest::TaskUpdate { .. } | SideRequest::Ignored), _) => {}
        (None, _) => return false,
    }
    true
}

/// Reads the result of a tool call, if the call asks for it. A result of another shape is kept as
/// text, whose reader names what is wrong.
fn read_tool_result(
    request: &CallRequest,
    outcome: Result<Value<'_>, Value<'_>>,
    buffers: &mut SessionBuffers,
) -> Option<CallToolResult> {
    let result = outcome.ok().filter(|_| request.reads_tool_result)?;
    let SessionBuffers { received, place, meta, .. } = buffers;
    CallToolResult::read(result, (*place, received), meta)
}

/// Returns the id of the request that a notification of a subscription belongs to.
fn subscription_id(params: Option<Value<'_>>) -> Option<u64> {
    let meta = params?.as_object()?.find("_meta")?.as_object()?;
    own_id(Id::from_value(meta.find("io.modelcontextprotocol/subscriptionId")?)?)
}

/// Returns the event of a progress notification, or `None` if its call has ended.
fn progress_event<T: Clone>(
    calls: &mut CallTable<T>,
    params: Option<Value<'_>>,
    now: Instant,
) -> Option<SessionEvent<T>> {
    let Some((token, progress)) = params.and_then(Progress::read) else {
        return Some(SessionEvent::Violation("an invalid progress notification"));
    };
    let id = own_id(token)?;
    calls.extend(id, now);
    let call = calls.get(id)?;
    Some(SessionEvent::Progress { token: call.token.clone(), progress })
}

/// Returns where the message in `text` is: without a byte order mark, and without the sequences
/// for terminals around it (ECMA-48, section 5.4) that some programs write.
#[cold]
fn find_message(text: &[u8]) -> Range<usize> {
    let (mut start, mut end) = (0, text.len());
    loop {
        let rest = &text[start..end];
        let Some(length) = leading_noise(rest) else { break };
        start += length;
    }
    while let Some(at) = memchr::memrchr(0x1b, &text[start..end]) {
        let tail = &text[start + at..end];
        if leading_noise(tail).is_none_or(|length| length < tail.trim_ascii_end().len()) {
            break;
        }
        end = start + at;
    }
    start..end
}

/// Returns the length of the mark or the sequence that `text` begins with.
fn leading_noise(text: &[u8]) -> Option<usize> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    if text.starts_with(MARK) {
        return Some(MARK.len());
    }
    let parameters = text.strip_prefix(b"\x1b[")?;
    let last = parameters.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    Some(last + 3)
}

impl<T: Clone> Session<T> {
    /// Handles text that does not parse.
    #[cold]
    fn handle_unreadable<S: MessageSink>(
        &mut self,
        text: &[u8],
        error: ParseError,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        if text.trim_ascii().is_empty() {
            return;
        }
        let head = MessageHead::read(text);
        ctx.events.push(SessionEvent::Violation("a message that is not valid JSON"));
        let error = Error::from(error);
        if head.has_method() {
            if let Some(id) = head.id() {
                ctx.send_error(self.revision(), Some(id), &error);
            }
            return;
        }
        // A line that is no message may also be the output of a program.
        let only = || self.calls.only_in_flight().filter(|_| head.is_response());
        if let Some(id) = head.id().map_or_else(only, own_id) {
            let (why, quoted) = (&error.message, quote(&ctx.buffers.received));
            let text = format!("the server sent a message that is not understood ({why}){quoted}");
            self.fail_request(id, ClientError::new(ClientErrorKind::Protocol, text), ctx);
        } else {
            let text = || quote(&ctx.buffers.received).into();
            self.invalid_text.get_or_insert_with(text);
        }
    }

    /// Handles a message that is not valid JSON-RPC.
    #[cold]
    fn handle_invalid<S: MessageSink>(
        &mut self,
        invalid: &InvalidMessage<'_>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let InvalidMessage { id, is_response, error, .. } = invalid;
        ctx.events.push(SessionEvent::Violation("an invalid JSON-RPC message"));
        // A line of a log may have an id, too.
        let is_message =
            *is_response || memmem::find(&ctx.buffers.received, b"\"jsonrpc\"").is_some();
        let own = id.and_then(own_id).filter(|id| is_message && self.calls.was_allocated(*id));
        let only = || self.calls.only_in_flight().filter(|_| id.is_none() && *is_response);
        match own.filter(|_| !invalid.has_method).or_else(only) {
            Some(id) => {
                let quoted = quote(&ctx.buffers.received);
                let text = format!("the response is invalid: {}{quoted}", error.message);
                self.fail_request(id, ClientError::new(ClientErrorKind::Protocol, text), ctx);
            }
            None if invalid.has_method => ctx.send_error(self.revision(), *id, error),
            None => {}
        }
    }
}

/// What the result of a call is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ResultType {
    Complete,
    InputRequired,
    /// A task that the call waits for.
    Task,
}

/// Reads what a result of `call` is; a modern result without `resultType` is complete.
fn read_result_type<T>(
    call: &Call<T>,
    result: Value<'_>,
    is_modern: bool,
) -> Result<ResultType, ClientError> {
    if result.as_object().is_none() && !result.is_null() {
        let mut text = Vec::new();
        result.write(&mut text);
        let text = format!("the result is not an object{}", quote(&text));
        return Err(ClientError::new(ClientErrorKind::Protocol, text));
    }
    if call.request.task == TaskMode::Await {
        return Ok(ResultType::Task);
    }
    if !is_modern {
        let created = tasks::created_task(call, result);
        return Ok(created.map_or(ResultType::Complete, |_| ResultType::Task));
    }
    let result_type = result.as_object().and_then(|result| result.find("resultType"));
    let may_be_task = call.request.method == Method::ToolsCall;
    match result_type.map(Value::as_str) {
        None | Some(Some("complete")) => Ok(ResultType::Complete),
        Some(Some("input_required")) => Ok(ResultType::InputRequired),
        Some(Some("task")) if may_be_task => Ok(match call.request.task {
            TaskMode::Create { .. } => ResultType::Complete,
            TaskMode::Follow | TaskMode::CreateAndFollow | TaskMode::Await => ResultType::Task,
        }),
        Some(_) => Err(ClientError::new(
            ClientErrorKind::Protocol,
            "the result has a resultType that MCP 2026-07-28 does not define",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_found_between_marks_and_colors() {
        let found = |text: &str| text[find_message(text.as_bytes())].to_owned();
        for (text, expected) in [
            ("{\"id\":1}", "{\"id\":1}"),
            ("\u{feff}{}", "{}"),
            ("\u{feff}\u{1b}[0m\u{1b}[1;32m{}", "{}"),
            ("\u{1b}[32m{}\u{1b}[0m", "{}"),
            ("{}\u{1b}[0m \r", "{}"),
            ("npm \u{1b}[1mnotice", "npm \u{1b}[1mnotice"),
            ("\u{1b}[", "\u{1b}["),
            ("", ""),
        ] {
            assert_eq!(found(text), expected, "{text:?}");
        }
    }
}
