//! Output of sessions, on the shard of the connection that carries it.

use crate::protocol::error::Error;
use crate::protocol::model;
use crate::server::http::{ExchangeAddress, HttpMessage, HttpOutput};
use crate::server::reply_to::Outcome;
use crate::server::shard::Shard;
use crate::server::shard_message::ShardMessage;
use crate::transport::http::checks::CheckId;
use crate::transport::http::status::Status;

impl Shard {
    /// Sends output to an exchange on any shard.
    pub(super) fn send_output(&mut self, to: ExchangeAddress, output: HttpOutput) {
        if to.shard == self.id {
            return self.write_output(to, output);
        }
        let message = HttpMessage::Output { exchange: to, output };
        self.outbox.forward(to.shard, ShardMessage::Http(Box::new(message)));
    }

    /// Writes output to an exchange of this shard, if it is not over.
    pub(super) fn write_output(&mut self, to: ExchangeAddress, output: HttpOutput) {
        let connection = self.connections.table.get(to.connection);
        let exchange = connection.and_then(|connection| connection.state.exchange.as_ref());
        if exchange.is_none_or(|exchange| exchange.serial != to.serial) {
            return;
        }
        let (key, date) = (to.connection, *self.http.date());
        match output {
            HttpOutput::Response { outcome, text } => {
                self.write_to_exchange(key, (outcome, None), |out| out.extend_from_slice(&text));
            }
            HttpOutput::Event { id, text, .. } if text.is_empty() => {
                let retry_ms = self.http.timeouts.sse_retry_ms;
                self.with_exchange(key, |exchange, out| {
                    if exchange.format.accepts_event_stream {
                        exchange.write_priming_event(out, id, retry_ms, &date);
                    }
                });
            }
            HttpOutput::Event { id, outcome, text } => {
                self.write_to_exchange(key, (outcome, Some(id)), |out| {
                    out.extend_from_slice(&text);
                });
            }
            HttpOutput::UnnumberedEvent(text) => {
                self.write_to_exchange(key, (Outcome::Notification, None), |out| {
                    out.extend_from_slice(&text);
                });
            }
            HttpOutput::Status(status) => self.with_exchange(key, |exchange, out| {
                exchange.write_status(out, status, &date);
                exchange.is_complete = true;
            }),
            HttpOutput::CheckFailed(step) => self.write_check_error(to, step),
            HttpOutput::EndStream { retry_ms } => self.with_exchange(key, |exchange, out| {
                if exchange.format.accepts_event_stream {
                    exchange.begin_event_stream(out, &date);
                    exchange.end_event_stream(out, retry_ms);
                } else {
                    exchange.write_status(out, Status::ACCEPTED, &date);
                }
                exchange.is_complete = true;
            }),
            HttpOutput::Endpoint(uri) => self.with_exchange(key, |exchange, out| {
                exchange.begin_event_stream(out, &date);
                exchange.write_endpoint_event(out, &uri);
            }),
            HttpOutput::BeginStream => {
                self.with_exchange(key, |exchange, out| exchange.begin_event_stream(out, &date));
            }
        }
    }

    fn write_check_error(&mut self, to: ExchangeAddress, step: CheckId) {
        let check = step.check();
        let error = Error::new(check.error_kind, session_error_message(step));
        self.outbox.counters.input_errors.http += 1;
        self.outbox.count_error(&error);
        let date = *self.http.date();
        self.with_exchange(to.connection, |exchange, out| {
            exchange.write_error(out, check.status, &date, |out| {
                model::write_error_response(out, None, &error, None);
            });
            exchange.is_complete = true;
        });
    }
}

/// The error message for a check that a session has failed.
pub(super) const fn session_error_message(step: CheckId) -> &'static str {
    match step {
        CheckId::SessionExists => {
            "the session has expired or does not exist: send initialize again"
        }
        CheckId::StreamAvailable => {
            "another GET stream of this session is open; only one is allowed"
        }
        CheckId::EventIdKnown => "Last-Event-ID does not identify an event of a resumable stream",
        _ => "the request is rejected",
    }
}
