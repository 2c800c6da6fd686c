//! Output of sessions, on the shard of the connection that carries it.

use corelane_base::slab::Key;
use corelane_parity::error::HttpStatus;
use corelane_protocol::error::Error;
use corelane_protocol::model;
use corelane_transport::http::checks::CheckId;
use corelane_transport::http::response::BodyKind;
use corelane_transport::http::sse;
use corelane_transport::http::status::Status;

use super::ExchangePath;
use crate::connection::{CloseReason, LARGE_OUTPUT_BYTES};
use crate::guard::rate::limiter::Exceeded;
use crate::server::connection_state::{HttpExchange, ResponseOwner};
use crate::server::http::session_error_message;
use crate::server::rate;
use crate::server::reply_to::{Outcome, RefusalFields};
use crate::server::shard_message::{
    CarrierAddress, ExchangeAddress, HttpOutput, ParityHttpOutput, SessionMessage,
};

impl ExchangePath<'_> {
    /// Writes output to an exchange of this shard, if it is not over. An event for one that is over
    /// counts as dropped unless its stream can replay it. A session of the parity dialect is
    /// notified: the exchange may have ended before it named its session.
    pub fn apply_output(&mut self, to: ExchangeAddress, output: HttpOutput) {
        let connection = self.connections.table.get(to.connection);
        let exchange = connection.and_then(|connection| connection.state.exchange.as_ref());
        if exchange.is_none_or(|exchange| exchange.serial != to.serial) {
            let is_lost = matches!(output, HttpOutput::Event { is_stored: false, .. });
            self.outbox.counters.sessions.events_dropped += u64::from(is_lost);
            if let HttpOutput::Parity(ParityHttpOutput::Event { session, .. }) = output {
                let (owner, carrier) =
                    (self.exchanges.owner_of(session), CarrierAddress::Exchange(to));
                let closed = SessionMessage::Closed { session, carrier, is_sent: false };
                self.outbox.forward(owner, closed);
            }
            return;
        }
        let key = to.connection;
        match output {
            HttpOutput::Response { outcome, text } => {
                self.enlarge_output(key, text.len());
                self.write_message(key, outcome, None, |out| out.extend_from_slice(&text));
            }
            HttpOutput::Event { id, text, .. } if text.is_empty() => {
                let retry_ms = self.exchanges.timeouts.sse_retry_ms;
                self.with_exchange(key, |exchange, out, heads| {
                    if exchange.format.accepts_event_stream {
                        exchange.write_priming_event(out, id, retry_ms, heads);
                    }
                });
            }
            HttpOutput::Event { id, outcome, text, .. } => {
                self.enlarge_output(key, text.len());
                self.write_message(key, outcome, Some(id), |out| out.extend_from_slice(&text));
            }
            HttpOutput::UnnumberedEvent(text) => {
                let outcome = Outcome::Notification;
                self.write_message(key, outcome, None, |out| out.extend_from_slice(&text));
            }
            HttpOutput::Refused { kind, fields, text } => {
                self.with_exchange(key, |exchange, out, heads| {
                    exchange.write_refusal(out, kind, &fields, heads, &text);
                    exchange.is_complete = true;
                });
            }
            HttpOutput::Document { body, text } => {
                self.with_exchange(key, |exchange, out, heads| {
                    let write = |out: &mut Vec<u8>| out.extend_from_slice(&text);
                    exchange.write_complete(out, Status::OK, body, heads, write);
                    exchange.is_complete = true;
                });
            }
            HttpOutput::Status(status) => self.with_exchange(key, |exchange, out, heads| {
                exchange.write_status(out, status, heads);
                exchange.is_complete = true;
            }),
            HttpOutput::Complete { response, violation } => {
                self.write_complete(key, &response, violation);
            }
            HttpOutput::CheckFailed(check) => self.write_check_error(to, check),
            HttpOutput::RateExceeded(exceeded) => self.write_rate_error(key, exceeded),
            HttpOutput::EndStream { sends_retry } => self.end_stream(key, sends_retry),
            HttpOutput::Endpoint(uri) => self.with_exchange(key, |exchange, out, heads| {
                exchange.begin_event_stream(out, heads);
                exchange.write_endpoint_event(out, &uri);
            }),
            HttpOutput::BeginStream => self.with_exchange(key, HttpExchange::write_keepalive),
            HttpOutput::Parity(output) => self.write_parity_output(key, output),
        }
    }

    /// Prepares the output of a connection for a text of `bytes` bytes.
    fn enlarge_output(&mut self, key: Key, bytes: usize) {
        if bytes >= LARGE_OUTPUT_BYTES
            && let Some(mut entry) = self.connections.entry(key)
        {
            entry.enlarge_output(bytes);
        }
    }

    /// Writes a complete response with its head.
    fn write_complete(&mut self, key: Key, response: &[u8], violation: Option<CloseReason>) {
        self.with_exchange(key, |exchange, out, _| {
            out.extend_from_slice(response);
            exchange.is_complete = true;
        });
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.record.traffic.messages_out += 1;
            connection.state.violation = connection.state.violation.or(violation);
        }
    }

    /// Ends a stream without a response. A client that accepts no stream gets status 202.
    fn end_stream(&mut self, key: Key, sends_retry: bool) {
        let retry_ms = sends_retry.then_some(self.exchanges.timeouts.sse_retry_ms);
        self.with_exchange(key, |exchange, out, heads| {
            if exchange.format.accepts_event_stream {
                exchange.begin_event_stream(out, heads);
                exchange.end_event_stream(out, retry_ms);
            } else {
                exchange.write_status(out, Status::ACCEPTED, heads);
            }
            exchange.is_complete = true;
        });
    }

    /// Writes output of a session of the parity dialect.
    fn write_parity_output(&mut self, key: Key, output: ParityHttpOutput) {
        if let ParityHttpOutput::Response { text, .. } = &output {
            self.enlarge_output(key, text.len());
        }
        self.with_exchange(key, |exchange, out, heads| match output {
            ParityHttpOutput::Response { status, session, fields, text } => {
                exchange.is_complete = true;
                // The status precedes a stream that has begun.
                if exchange.is_streaming {
                    return;
                }
                exchange.format.session_id = session;
                let HttpStatus { code, retry_after } = status;
                let status = Status::from(code);
                let fields = fields.or_else(|| retry_after.map(RefusalFields::RetryAfter));
                if let Some(fields) = fields {
                    exchange.write_with_fields(out, status, &fields, heads, &text);
                } else {
                    let body = if text.is_empty() { BodyKind::Empty } else { BodyKind::Json };
                    exchange.write_complete(out, status, body, heads, |out| {
                        out.extend_from_slice(&text);
                    });
                }
            }
            ParityHttpOutput::Event { session, name, id, data } => {
                exchange.owner = ResponseOwner::Parity(Some(session));
                exchange.format.session_id = Some(session);
                exchange.begin_event_stream(out, heads);
                let framing = exchange.format.framing();
                sse::write_named_event(out, framing, name, id.as_deref(), &data);
            }
            ParityHttpOutput::End => {
                exchange.begin_event_stream(out, heads);
                exchange.end_event_stream(out, None);
                exchange.is_complete = true;
            }
        });
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.record.traffic.messages_out += 1;
        }
        self.outbox.counters.traffic.messages_out += 1;
    }

    fn write_rate_error(&mut self, key: Key, exceeded: Box<Exceeded>) {
        let error = rate::error_of(&exceeded);
        self.outbox.count_error(&error);
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.record_invalid_message();
        }
        let mut text = Vec::new();
        model::write_error_response(&mut text, None, &error, None);
        let fields = RefusalFields::RateLimit(exceeded);
        self.with_exchange(key, |exchange, out, heads| {
            exchange.format.session_id = None;
            exchange.write_with_fields(out, Status::TOO_MANY_REQUESTS, &fields, heads, &text);
            exchange.is_complete = true;
        });
    }

    fn write_check_error(&mut self, to: ExchangeAddress, id: CheckId) {
        let check = id.check();
        let error = Error::new(check.error_kind, session_error_message(id));
        self.outbox.counters.input_errors.http += 1;
        self.outbox.count_error(&error);
        if id == CheckId::SessionExists
            && let Some(connection) = self.connections.table.get_mut(to.connection)
        {
            connection.record_invalid_message();
        }
        self.with_exchange(to.connection, |exchange, out, heads| {
            if id == CheckId::SessionExists {
                exchange.format.session_id = None;
            }
            exchange.write_complete(out, check.status, BodyKind::Json, heads, |out| {
                model::write_error_response(out, None, &error, None);
            });
            exchange.is_complete = true;
        });
    }
}
