//! The parity dialect over HTTP: a request for each message, and one stream of events.
//!
//! Invariants: a message is sent once, unless the server has closed the idle connection that it was
//! sent on; the session is lost with its event stream, since chunks may be.

use std::sync::Arc;

use crate::error::{ClientError, ClientErrorKind};
use crate::io::commands::ParityToken;
use crate::io::http::{
    ExchangeClass, ExchangeLoss, HttpExchange, HttpPool, HttpRequest, HttpResponse, HttpRules,
    LostExchange, RedirectSender, SessionAccess, WaitingExchanges,
};
use crate::io::loss::Loss;
use crate::io::peer_settings::PeerSettings;
use crate::io::workspace::Workspace;
use crate::parity_session::{
    ParityMessage, ParityMessageKind, ParityServerInfo, ParitySession, ParitySink,
};
use crate::target::{HttpEndpoint, Target};
use corelane_base::time::Instant;
use corelane_engine::clock::unix_ms;
use corelane_engine::ring::Ring;
use corelane_protocol::json::PaddedText;
use corelane_transport::http::client::event_reader::ServerEvent;
use corelane_transport::http::client::request_writer::{RequestFields, RequestWriter};

/// Status of a request in a session that has ended.
const NOT_FOUND: u16 = 404;

type ParityAccess<'a> = SessionAccess<'a, ParitySession<ParityToken>>;

impl ParityAccess<'_> {
    fn receive(&mut self, message: PaddedText<'_>, outbox: &mut ParityOutbox) {
        let Workspace { parser, parity, .. } = &mut *self.workspace;
        self.session.receive(message, parser, &mut parity.context(outbox, self.now));
    }

    fn fail_request(&mut self, id: u64, error: ClientError, outbox: &mut ParityOutbox) {
        self.session.fail_request(id, error, &mut self.workspace.parity.context(outbox, self.now));
    }
}

/// The exchanges of a session.
#[derive(Debug)]
pub struct ParityHttp {
    target: Arc<Target>,
    messages: RequestWriter,
    events: RequestWriter,
    outbox: ParityOutbox,
    session_id: Option<Box<str>>,
    /// The event stream is requested or open.
    has_events: bool,
    /// Why the session is lost.
    failure: Option<ClientError>,
}

impl HttpRules for ParityHttp {
    type Exchange = ParityExchange;
    type Server = ParityServerInfo;
    type Session = ParitySession<ParityToken>;
    type Queue = ParityOutbox;

    fn new(
        endpoint: &HttpEndpoint,
        settings: &PeerSettings,
        _redirects: &RedirectSender,
        _seed: u64,
    ) -> Self {
        Self {
            target: Arc::clone(&settings.target),
            messages: settings.request_writer(endpoint),
            events: settings.request_writer(&endpoint.with_suffix("/events")),
            outbox: ParityOutbox::default(),
            session_id: None,
            has_events: false,
            failure: None,
        }
    }

    fn queue(&mut self) -> &mut ParityOutbox {
        &mut self.outbox
    }

    fn waiting(&mut self) -> &mut WaitingExchanges<ParityExchange> {
        &mut self.outbox.waiting
    }

    /// One that continues gets its chunks on the event stream.
    fn handle_ready(&mut self, server: &ParityServerInfo) {
        if server.resumed == Some(true) {
            self.open_events();
        }
    }

    fn prepare(
        &mut self,
        _ring: &mut dyn Ring,
        _pool: &mut HttpPool<ParityExchange>,
        access: &mut ParityAccess<'_>,
    ) {
        let mut ctx = access.workspace.parity.context(&mut self.outbox, access.now);
        access.session.send_waiting(&mut ctx);
        if self.outbox.take_needs_events() {
            self.open_events();
        }
    }

    fn write(&mut self, exchange: &mut ParityExchange, _now: Instant) -> HttpRequest {
        let session_id = self.session_id.as_deref().filter(|_| !exchange.is_handshake());
        let fields = RequestFields { session_id, ..RequestFields::default() };
        let mut bytes = Vec::new();
        match exchange {
            ParityExchange::Post(_, text) => self.messages.write_post(&mut bytes, &fields, text),
            ParityExchange::Events => self.events.write_get(&mut bytes, &fields),
            ParityExchange::Delete => self.messages.write_delete(&mut bytes, &fields),
        }
        HttpRequest { bytes, deadline: None }
    }

    fn handle_sse_event(
        &mut self,
        _exchange: &ParityExchange,
        event: ServerEvent<'_>,
        access: &mut ParityAccess<'_>,
    ) {
        // The acknowledgement of the handshake was the response to it.
        if event.event_type != b"handshake" {
            access.receive(event.data, &mut self.outbox);
        }
    }

    fn handle_response(
        &mut self,
        _ring: &mut dyn Ring,
        _pool: &mut HttpPool<ParityExchange>,
        exchange: ParityExchange,
        mut response: HttpResponse,
        access: &mut ParityAccess<'_>,
    ) {
        let status = response.head.status;
        let delay = response.head.retry_delay(unix_ms());
        let refusal = ClientError::from_http(status, &response.head.challenges, &response.body);
        let refusal = refusal.with_retry_after(delay);
        access.session.record_received(access.now);
        let is_handshake = exchange.is_handshake();
        match exchange {
            ParityExchange::Delete => {}
            ParityExchange::Events => {
                let ended = "the server has ended the event stream";
                let ended = ClientError::new(ClientErrorKind::Closed, ended);
                self.fail(if status == 200 { ended } else { refusal });
            }
            ParityExchange::Post(..) if status == NOT_FOUND && !is_handshake => {
                // The message was not handled.
                exchange.request().into_iter().for_each(|id| access.session.requeue(id));
                self.fail(refusal);
            }
            ParityExchange::Post(..) => {
                if is_handshake {
                    self.session_id.clone_from(&response.head.session_id);
                }
                let message = response.message();
                let is_empty = message.is_none();
                if let Some(message) = message {
                    access.receive(message, &mut self.outbox);
                }
                if is_handshake && is_empty {
                    self.fail(refusal);
                } else if let Some(id) = exchange.request() {
                    // Without its response the request has failed.
                    let error = access.session.take_server_error().unwrap_or(refusal);
                    access.fail_request(id, error, &mut self.outbox);
                }
            }
        }
    }

    fn handle_loss(
        &mut self,
        lost: LostExchange<ParityExchange>,
        loss: &ExchangeLoss<'_>,
        access: &mut ParityAccess<'_>,
    ) {
        let LostExchange { exchange, met_idle_close, .. } = lost;
        // Chunks may have been written to an event stream that has not begun for the client.
        if met_idle_close && matches!(exchange, ParityExchange::Post(..)) {
            return self.outbox.waiting.push_front(exchange);
        }
        let error = match loss {
            ExchangeLoss::Response(error) => {
                ClientError::new(ClientErrorKind::Protocol, error.to_string())
            }
            ExchangeLoss::Connection(loss) => loss.describe(&self.target),
            ExchangeLoss::Timeout => Loss::EndOfStream(Ok(())).describe(&self.target),
        };
        match (&exchange, exchange.request()) {
            (ParityExchange::Delete, _) => {}
            (_, Some(id)) => {
                let text = format!("the connection ended before the response: {error}");
                let error = ClientError::with_source(ClientErrorKind::Closed, text, error);
                access.fail_request(id, error, &mut self.outbox);
            }
            _ => self.fail(error),
        }
    }

    fn handle_unconnected(
        &mut self,
        error: ClientError,
        _is_last: bool,
        _access: &mut ParityAccess<'_>,
    ) {
        self.fail(error);
    }

    fn end(&mut self, _server: Option<&ParityServerInfo>) -> bool {
        self.outbox = ParityOutbox::default();
        let has_session = self.session_id.is_some();
        if has_session {
            self.outbox.waiting.push_front(ParityExchange::Delete);
        }
        has_session
    }

    fn is_lost(&self) -> bool {
        self.failure.is_some()
    }

    fn failure(&self) -> Option<&ClientError> {
        self.failure.as_ref()
    }
}

impl ParityHttp {
    fn open_events(&mut self) {
        if !self.has_events {
            self.has_events = true;
            self.outbox.waiting.push_front(ParityExchange::Events);
        }
    }

    /// The session is lost.
    fn fail(&mut self, error: ClientError) {
        self.failure.get_or_insert(error);
        self.outbox.end();
    }
}

/// What a request of HTTP is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ParityExchange {
    /// It carries a message.
    Post(ParityMessageKind, Vec<u8>),
    /// Its response is the event stream of the session.
    Events,
    /// It ends the session.
    Delete,
}

impl ParityExchange {
    const fn is_handshake(&self) -> bool {
        matches!(self, Self::Post(ParityMessageKind::Handshake, _))
    }

    /// Returns the request of the session that it carries.
    const fn request(&self) -> Option<u64> {
        match self {
            Self::Post(ParityMessageKind::Request { id, .. }, _) => Some(*id),
            _ => None,
        }
    }
}

impl HttpExchange for ParityExchange {
    fn class(&self) -> ExchangeClass {
        self.request().map_or(ExchangeClass::Unlimited, |_| ExchangeClass::Request)
    }
}

/// The messages of a session that are not sent yet.
#[derive(Debug, Default)]
pub struct ParityOutbox {
    waiting: WaitingExchanges<ParityExchange>,
    /// The session has sent a request whose chunks come on the event stream.
    needs_events: bool,
    /// The session is lost: nothing is sent any more.
    has_ended: bool,
}

impl ParitySink for ParityOutbox {
    fn send(&mut self, message: ParityMessage<'_>) {
        if self.has_ended {
            return;
        }
        self.needs_events |=
            matches!(message.kind, ParityMessageKind::Request { streams: true, .. });
        self.waiting.push_back(ParityExchange::Post(message.kind, message.text.to_vec()));
    }

    fn is_full(&self) -> bool {
        self.has_ended || self.waiting.is_full()
    }
}

impl ParityOutbox {
    /// The session is lost.
    fn end(&mut self) {
        self.waiting.take();
        (self.needs_events, self.has_ended) = (false, true);
    }

    /// Returns whether the event stream is needed since the last call.
    const fn take_needs_events(&mut self) -> bool {
        std::mem::replace(&mut self.needs_events, false)
    }
}
