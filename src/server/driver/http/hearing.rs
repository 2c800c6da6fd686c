//! What sessions say, on the shard of the connection that carries it.

use crate::protocol::error::Error;
use crate::protocol::message;
use crate::server::driver::ShardDriver;
use crate::server::http::{ExchangeAddress, HttpLetter, Utterance};
use crate::server::letter::Letter;
use crate::server::party::Said;
use crate::transport::http::ladder::Step;
use crate::transport::http::status::Status;

impl ShardDriver {
    /// Says something over an exchange, wherever it is.
    pub(super) fn tell(&mut self, to: ExchangeAddress, utterance: Utterance) {
        if to.shard == self.shard {
            return self.hear(to, utterance);
        }
        let told = HttpLetter::Told { to, utterance };
        self.road.letters.push((to.shard, Letter::Http(Box::new(told))));
    }

    /// Says something over an exchange of this shard, where it is not over.
    pub(super) fn hear(&mut self, to: ExchangeAddress, utterance: Utterance) {
        let connection = self.link.connections.get(to.connection);
        let exchange = connection.and_then(|connection| connection.session.exchange.as_ref());
        if exchange.is_none_or(|exchange| exchange.serial != to.serial) {
            return;
        }
        let (key, date) = (to.connection, *self.http.date());
        match utterance {
            Utterance::Answer { said, text } => {
                self.say_over(key, (said, None), |out| out.extend_from_slice(&text));
            }
            Utterance::Event { id, text, .. } if text.is_empty() => {
                let retry_ms = self.http.patience.retry_ms;
                self.over_exchange(key, |exchange, out| {
                    if exchange.manner.may_stream {
                        exchange.prime(out, id, retry_ms, &date);
                    }
                });
            }
            Utterance::Event { id, said, text } => {
                self.say_over(key, (said, Some(id)), |out| out.extend_from_slice(&text));
            }
            Utterance::Word(text) => {
                self.say_over(key, (Said::Word, None), |out| out.extend_from_slice(&text));
            }
            Utterance::Bare(status) => self.over_exchange(key, |exchange, out| {
                exchange.answer_bare(out, status, &date);
                exchange.is_over = true;
            }),
            Utterance::Refused(step) => self.hear_refusal(to, step),
            Utterance::End { retry_ms } => self.over_exchange(key, |exchange, out| {
                if exchange.manner.may_stream {
                    exchange.stream(out, &date);
                    exchange.end(out, retry_ms);
                } else {
                    exchange.answer_bare(out, Status::ACCEPTED, &date);
                }
                exchange.is_over = true;
            }),
            Utterance::Endpoint(uri) => self.over_exchange(key, |exchange, out| {
                exchange.stream(out, &date);
                exchange.endpoint(out, &uri);
            }),
            Utterance::Open => self.over_exchange(key, |exchange, out| exchange.stream(out, &date)),
        }
    }

    fn hear_refusal(&mut self, to: ExchangeAddress, step: Step) {
        let rung = step.rung();
        let error = Error::new(rung.kind, refusal_of(step));
        self.road.counters.faults.http += 1;
        self.road.count_error(&error);
        let date = *self.http.date();
        self.over_exchange(to.connection, |exchange, out| {
            exchange.refuse(out, rung.status, &date, |out| message::error(out, None, &error, None));
            exchange.is_over = true;
        });
    }
}

/// What a client is told whose session cannot serve it.
pub(super) const fn refusal_of(step: Step) -> &'static str {
    match step {
        Step::SessionOpen => "the session has ended, or never was: begin another with initialize",
        Step::StreamFree => "another stream of the session is open already",
        Step::EventKnown => "Last-Event-ID names no event of a stream that can be resumed",
        _ => "the request is refused",
    }
}
