//! Messages of the server.

use std::sync::Arc;
use std::time::Duration;

use super::call_table::{Call, CallState, ParityCallRequest};
use super::event::{
    ParityChunk, ParityContext, ParityMessageKind, ParityServerInfo, ParitySessionEvent, ParitySink,
};
use super::{Acknowledged, ParitySession, call_table};
use crate::error::{ClientError, ClientErrorKind, quote};
use corelane_parity::client_session::{ClientEvent, Violation};
use corelane_parity::envelope::{Chunk, ChunkType, Envelope, HandshakeAck, Response};
use corelane_parity::error::ErrorCode;
use corelane_parity::machine::Event;
use corelane_parity::stream::Received;
use corelane_protocol::json::{PaddedBuffer, PaddedText, Parser, Value};

/// Chunks that wait for the response that opens their stream.
const EARLY_CHUNKS_MAX: usize = 4_096;
/// Bytes of a message that is no message of the dialect, for the error.
const QUOTED_BYTES_MAX: usize = 1_024;

impl<T: Clone> ParitySession<T> {
    /// Handles one message of the server.
    pub fn receive<S: ParitySink>(
        &mut self,
        text: PaddedText<'_>,
        parser: &mut Parser,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        if self.failure.is_some() {
            return;
        }
        self.record_received(ctx.now);
        let has_opened = self.receive_one(text, parser, ctx);
        if has_opened {
            for early in std::mem::take(&mut self.connection.early) {
                self.receive_one(PaddedBuffer::new(early).text(), parser, ctx);
            }
        }
        self.send_waiting(ctx);
    }
}

impl<T: Clone> ParitySession<T> {
    /// Handles one message. Returns whether it has opened a stream.
    fn receive_one<S: ParitySink>(
        &mut self,
        mut text: PaddedText<'_>,
        parser: &mut Parser,
        ctx: &mut ParityContext<'_, T, S>,
    ) -> bool {
        let streams = self.calls.streams();
        loop {
            ctx.text.clear();
            if self.server.is_none() {
                let bytes = text.as_bytes();
                ctx.text.extend_from_slice(&bytes[..bytes.len().min(QUOTED_BYTES_MAX)]);
            }
            let error = match parser.parse(text.reborrow()) {
                Ok(document) => {
                    self.handle_root(Some(document.root()), ctx);
                    break;
                }
                Err(error) => error,
            };
            if !parser.repair(&mut text, error) {
                if !text.as_bytes().trim_ascii().is_empty() {
                    self.handle_root(None, ctx);
                }
                break;
            }
        }
        self.calls.streams() > streams
    }

    /// Handles a parsed message; `None` is text that does not parse.
    fn handle_root<S: ParitySink>(
        &mut self,
        root: Option<Value<'_>>,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        let envelope = match root {
            Some(root) => Envelope::read(root).map_err(|_| "no message of the dialect"),
            None => Err("text that is not valid JSON"),
        };
        match (envelope, root) {
            (Ok(Envelope::Chunk(chunk)), Some(root)) if self.is_early(&chunk) => {
                let mut early = Vec::new();
                root.write(&mut early);
                self.connection.early.push(early);
            }
            (Ok(envelope), _) => self.handle(envelope, ctx),
            (Err(_), _) if self.server.is_none() => {
                let text = quote(ctx.text);
                let text = format!("the server does not answer in the parity dialect{text}");
                self.failure = Some(ClientError::new(ClientErrorKind::Handshake, text));
            }
            (Err(violation), _) => ctx.events.push(ParitySessionEvent::Violation(violation)),
        }
    }

    /// Returns whether a chunk has overtaken the response that opens its stream: over HTTP they
    /// come on two connections.
    fn is_early(&self, chunk: &Chunk<'_>) -> bool {
        let is_opening = |call: &Call<T>| call.request.streams && call.state == CallState::Sent;
        self.calls.id_of_stream(chunk.stream_id).is_none()
            && !self.protocol.knows_stream(chunk.stream_id)
            && self.connection.early.len() < EARLY_CHUNKS_MAX
            && self.calls.any(is_opening)
    }

    fn handle<S: ParitySink>(&mut self, envelope: Envelope<'_>, ctx: &mut ParityContext<'_, T, S>) {
        let ack = match &envelope {
            Envelope::HandshakeAck(ack) => Some(*ack),
            _ => None,
        };
        let received = self.protocol.receive(envelope);
        if let (Some(ack), Ok(_)) = (ack, &received) {
            self.note_ack(&ack);
        }
        match received {
            Ok(ClientEvent::None) => {}
            Ok(ClientEvent::ExchangeCapabilities) => {
                ctx.text.clear();
                self.protocol.exchange_capabilities(ctx.text);
                if let Some(timers) = &mut self.connection.timers {
                    timers.await_capabilities(&self.config.timeouts(), ctx.now);
                }
                ctx.send(ParityMessageKind::Capabilities);
            }
            Ok(ClientEvent::Ready { resumed }) => self.handle_ready(resumed, ctx),
            Ok(ClientEvent::Response(response)) => self.handle_response(response, ctx),
            Ok(ClientEvent::Chunk(chunk)) => self.handle_chunk(&chunk, ctx),
            Ok(ClientEvent::Keepalive(hint)) => {
                let half = hint.map(|seconds| Duration::from_secs(seconds) / 2);
                self.connection.reply_at = half.map(|time| ctx.now.after(time));
            }
            Ok(ClientEvent::Error(error)) => {
                self.handle_error(ClientError::from_parity(error), ctx);
            }
            Err(violation) => self.handle_violation(violation, ctx),
        }
    }

    /// The session is ready: what waited for it continues, or fails if it is another session.
    fn handle_ready<S: ParitySink>(
        &mut self,
        resumed: Option<bool>,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        if let Some(timers) = &mut self.connection.timers {
            timers.open(ctx.now);
        }
        let Some(Acknowledged { mut info, reason }) = self.acknowledged.take() else { return };
        info.capabilities = *self.protocol.capabilities();
        self.server = Some(Arc::new(info));
        ctx.events.push(ParitySessionEvent::Ready);
        let is_same = resumed == Some(true);
        for id in self.calls.ids(needs_session) {
            if is_same {
                self.calls.set_state(id, CallState::NEW);
            } else {
                let cause = call_table::restart(reason.as_deref().unwrap_or("expired"));
                self.complete(id, Err(call_table::closed(&cause)), ctx.events);
            }
        }
        let abandoned = |call: &Call<T>| call.token.is_none();
        if is_same {
            self.add_orphans(ctx);
            self.cancels.extend(self.calls.ids(abandoned));
            return;
        }
        let reason = reason.as_deref().unwrap_or("expired");
        for id in self.calls.ids(Call::is_in_flight) {
            self.complete(id, Err(call_table::restart(reason)), ctx.events);
        }
        if resumed == Some(false) {
            ctx.events.push(ParitySessionEvent::Restarted { reason: reason.to_owned() });
        }
    }

    /// Adds the streams whose responses were lost, so that they are cancelled.
    fn add_orphans<S: ParitySink>(&mut self, ctx: &ParityContext<'_, T, S>) {
        for stream in self.protocol.take_orphans() {
            let timeout = self.config.request_timeout;
            let request = ParityCallRequest {
                method: "tools/call".into(),
                params: Vec::new(),
                streams: true,
                idempotency_key: None,
                timeout: None,
            };
            self.calls.insert(Call {
                token: None,
                request: Box::new(request),
                state: CallState::Streaming(stream),
                timeout,
                deadline: ctx.now.after(timeout),
                backoff: None,
                outcome: None,
                is_canceling: false,
            });
        }
    }

    fn handle_response<S: ParitySink>(
        &mut self,
        response: Response<'_>,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        let id = response.id.as_u64().unwrap_or_default();
        let Some(call) = self.calls.get_mut(id).filter(|call| call.state == CallState::Sent) else {
            return ctx
                .events
                .push(ParitySessionEvent::Violation("a response that no request has"));
        };
        match response.outcome {
            Ok(result) if call.request.streams => {
                let stream = result.as_object().and_then(|it| it.find("streamId")?.as_str());
                let Some(stream) = stream else {
                    let error =
                        call_table::protocol("the response to a streamed request has no streamId");
                    return self.complete(id, Err(error), ctx.events);
                };
                self.calls.restart_timeout(id, ctx.now);
                self.calls.set_state(id, CallState::Streaming(stream.into()));
            }
            Ok(result) => {
                let mut text = Vec::new();
                result.write(&mut text);
                self.complete(id, Ok(text), ctx.events);
            }
            Err(error) => self.fail_or_repeat(id, ClientError::from_parity(error), ctx),
        }
    }

    fn handle_chunk<S: ParitySink>(
        &mut self,
        chunk: &Chunk<'_>,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        let Some(id) = self.calls.id_of_stream(chunk.stream_id) else { return };
        let Some(call) = self.calls.get_mut(id) else { return };
        if call.token.is_some() {
            call.deadline = ctx.now.after(call.timeout);
        }
        match chunk.chunk_type {
            ChunkType::Result => {
                let mut text = Vec::new();
                chunk.data.iter().for_each(|data| data.write(&mut text));
                call.outcome = Some(Ok(text));
            }
            ChunkType::Error => {
                let error = chunk.data.map(ClientError::from_parity);
                let missing = || call_table::protocol("an error chunk has no data");
                call.outcome = Some(Err(error.unwrap_or_else(missing)));
            }
            ChunkType::Eos => {
                let outcome = call.outcome.take();
                match (chunk.reason, outcome) {
                    (Some("cancelled"), _) => {
                        self.complete(id, Err(call_table::cancelled()), ctx.events);
                    }
                    (_, Some(Err(error))) => self.fail_or_repeat(id, error, ctx),
                    (Some("completed"), Some(result)) => self.complete(id, result, ctx.events),
                    _ => {
                        let error = call_table::protocol("the stream has ended without a result");
                        self.complete(id, Err(error), ctx.events);
                    }
                }
            }
            ChunkType::Progress | ChunkType::Log | ChunkType::Partial => {
                match (&call.token, ParityChunk::read(chunk)) {
                    (Some(token), Some(chunk)) => {
                        let token = token.clone();
                        ctx.events.push(ParitySessionEvent::Chunk { token, chunk });
                    }
                    (_, None) => {
                        ctx.events.push(ParitySessionEvent::Violation("a chunk with invalid data"));
                    }
                    (None, Some(_)) => {}
                }
            }
        }
    }

    /// Handles an error that is not the response to a request. Before the session is ready it is
    /// the answer to the handshake.
    fn handle_error<S: ParitySink>(
        &mut self,
        error: ClientError,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        if self.server.is_some() {
            self.server_error = Some(error);
            return ctx.events.push(ParitySessionEvent::Violation("an error that no request has"));
        }
        let is_unauthorized =
            error.kind() == (ClientErrorKind::Parity { code: ErrorCode::Unauthorized });
        if is_unauthorized && !error.is_retryable() {
            // The token may be that of another caller: the next handshake does not resume.
            self.protocol.restart();
        }
        self.protocol.close(Event::Close);
        self.failure = Some(error);
    }

    fn handle_violation<S: ParitySink>(
        &mut self,
        violation: Violation,
        ctx: &mut ParityContext<'_, T, S>,
    ) {
        let text = match violation {
            Violation::State(_) => "a message that the state does not allow",
            Violation::Misdirected => "a message that only clients send",
            Violation::WidenedCapabilities => {
                let text = "the server answers with capabilities that the client has not offered";
                self.failure = Some(call_table::protocol(text));
                text
            }
            Violation::Chunk(Received::Gap { .. }) => {
                // They come again if the self is resumed.
                let text = "a chunk whose predecessors are missing";
                self.failure = Some(call_table::protocol(text));
                text
            }
            Violation::Chunk(_) => "a chunk of a stream that is not open",
        };
        ctx.events.push(ParitySessionEvent::Violation(text));
    }

    /// Notes what the acknowledgement of a handshake says.
    fn note_ack(&mut self, ack: &HandshakeAck<'_>) {
        let member = |name| {
            let info = ack.server_info?.as_object()?;
            info.find(name).and_then(Value::as_str).map(str::to_owned)
        };
        self.acknowledged = Some(Acknowledged {
            info: ParityServerInfo {
                session_id: ack.session_id.to_owned(),
                name: member("name"),
                version: member("version"),
                capabilities: ack.capabilities,
                resumed: ack.resumed,
            },
            reason: ack.reason.map(Into::into),
        });
    }
}

fn needs_session<T>(call: &Call<T>) -> bool {
    matches!(call.state, CallState::Waiting { needs_session: true, .. })
}
