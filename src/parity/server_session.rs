//! The server's side of a session: one message in, one action out.
//!
//! Invariants: no request is started before the session is ready, or beyond the negotiated
//! capabilities; a rejected message changes nothing; a session that closes accepts nothing more.

use super::PROTOCOL_VERSION;
use super::capabilities::{Capabilities, Feature};
use super::envelope::{Envelope, Handshake, InvalidEnvelope, Request, Target};
use super::error::{ErrorCode, ParityError};
use super::idempotency::{IdempotencyKeys, KeyRules};
use super::machine::{Event, InvalidTransition, Machine, State, not_allowed};
use super::stream::{OutgoingStreams, WindowLimits};
use super::timers::{SessionTimeouts, Timeout, Timers};
use corelane_base::heap_bytes;
use corelane_base::time::Instant;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::Id;
use std::time::Duration;

/// The methods of the dialect.
pub const METHODS: [&str; 9] = [
    "tools/call",
    "tools/list",
    "ping",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "prompts/list",
    "prompts/get",
    "completion/complete",
];

/// What a server grants to every session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionSettings {
    /// What it offers.
    pub capabilities: Capabilities,
    /// Its times.
    pub timeouts: SessionTimeouts,
    /// Maximum open streams.
    pub streams_max: usize,
    /// Maximum bytes of the chunks that are kept of a stream.
    pub window_bytes_max: usize,
    /// What it keeps of idempotency keys.
    pub keys: KeyRules,
}

/// The state of one session.
#[derive(Debug)]
pub struct ServerSession {
    machine: Machine,
    capabilities: Capabilities,
    timers: Timers,
    /// The streams to the client.
    pub streams: OutgoingStreams,
    /// The idempotency keys of its requests.
    pub keys: IdempotencyKeys,
}

heap_bytes!(ServerSession { streams, keys } inline { machine, capabilities, timers });

/// One received message with what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a, 's> {
    /// What the server grants.
    pub settings: &'s SessionSettings,
    /// The length of the message in bytes.
    pub bytes: usize,
    /// Requests of the session in flight.
    pub in_flight: usize,
    /// The present.
    pub now: Instant,
    /// The message.
    pub envelope: Envelope<'a>,
}

/// What the server does.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// Nothing.
    None,
    /// Authenticates the client, then calls [`ServerSession::acknowledge`] and sends a
    /// `handshakeAck` with this intersection.
    Acknowledge(Handshake<'a>, Capabilities),
    /// Sends a `capabilitiesAck`.
    AcknowledgeCapabilities(Capabilities),
    /// Starts a request.
    Start(Request<'a>),
    /// Cancels a request or stream, then calls [`ServerSession::end_cancel`].
    Cancel(Target<'a>),
}

/// A message that is rejected.
#[derive(Clone, Debug)]
pub struct Rejection<'a> {
    /// The error.
    pub error: ParityError,
    /// The request or stream that it is about.
    pub target: Option<Target<'a>>,
    /// It is the response to the request.
    pub is_response: bool,
    /// It ends the connection.
    pub closes: bool,
}

/// What the server does at a deadline.
#[derive(Clone, Debug)]
pub enum Expired {
    /// Nothing.
    None,
    /// Sends a `keepalive`.
    SendKeepalive,
    /// Sends an error, and closes the connection.
    Close(ParityError),
}

impl<'a> Rejection<'a> {
    fn of_message(error: impl Into<ParityError>, id: Option<Id<'a>>) -> Self {
        let target = id.map(Target::Request);
        Self { error: error.into(), target, is_response: false, closes: false }
    }

    fn of_request(error: ParityError, id: Id<'a>) -> Self {
        Self { is_response: true, ..Self::of_message(error, Some(id)) }
    }

    fn closing(error: ParityError) -> Self {
        Self::of_message(error, None).closing_if(true)
    }

    fn closing_if(self, closes: bool) -> Self {
        Self { closes: self.closes || closes, ..self }
    }
}

impl ServerSession {
    /// A session whose transport is established at `now`.
    pub fn new(settings: &SessionSettings, now: Instant) -> Self {
        let mut machine = Machine::default();
        // A fresh machine accepts the transport.
        let _connected = machine.apply(Event::Connect);
        Self {
            machine,
            capabilities: Capabilities::default(),
            timers: Timers::new(&settings.timeouts, now),
            streams: OutgoingStreams::default(),
            keys: IdempotencyKeys::default(),
        }
    }

    /// Returns the state of the machine of the dialect.
    pub const fn state(&self) -> State {
        self.machine.state()
    }

    /// Returns the negotiated capabilities; none before the handshake.
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Returns whether requests are permitted.
    pub fn is_ready(&self) -> bool {
        self.state() == State::Ready
    }

    /// Returns what is kept of streams, if the client can resume them.
    pub fn window(&self, settings: &SessionSettings) -> Option<WindowLimits> {
        let window = self.capabilities.resume_window?;
        Some(WindowLimits {
            chunks_max: window.chunks as usize,
            bytes_max: settings.window_bytes_max,
            age_max: Duration::from_secs(window.seconds.into()),
        })
    }

    /// Handles one message.
    ///
    /// # Errors
    ///
    /// [`Rejection`]: the error to send. The first message closes the connection unless it is a
    /// handshake.
    #[inline]
    pub fn receive<'a>(&mut self, input: Input<'a, '_>) -> Result<Action<'a>, Rejection<'a>> {
        let is_first = self.state() == State::Connecting;
        let received = self.receive_message(input);
        received.map_err(|rejection| rejection.closing_if(is_first))
    }

    /// Returns how a malformed message is answered.
    pub fn reject_malformed<'a>(&self, invalid: InvalidEnvelope<'a>) -> Rejection<'a> {
        let InvalidEnvelope { id, is_request, error } = invalid;
        let rejection = match id {
            Some(id) if is_request => Rejection::of_request(error, id),
            id => Rejection::of_message(error, id),
        };
        rejection.closing_if(self.state() == State::Connecting)
    }

    #[inline]
    fn receive_message<'a>(&mut self, input: Input<'a, '_>) -> Result<Action<'a>, Rejection<'a>> {
        self.timers.record_received(input.now);
        match input.envelope {
            Envelope::Request(request) => self.receive_request(&input, request),
            Envelope::Handshake(handshake) => self.receive_handshake(&input, handshake),
            Envelope::Capabilities(refined) => self.receive_capabilities(&input, &refined),
            Envelope::Cancel(target) => self.receive_cancel(target),
            Envelope::Keepalive { .. } => self.check_has_begun("sendKeepalive", None),
            Envelope::Error { id, .. } => self.check_has_begun("sendError", id),
            Envelope::HandshakeAck(_)
            | Envelope::CapabilitiesAck(_)
            | Envelope::Response(_)
            | Envelope::Chunk(_) => Err(misdirected()),
        }
    }

    /// Accepts a message that is allowed in every state after the handshake.
    #[inline]
    fn check_has_begun<'a>(
        &self,
        event: &str,
        id: Option<Id<'a>>,
    ) -> Result<Action<'a>, Rejection<'a>> {
        match self.state() {
            state @ (State::Disconnected | State::Connecting | State::HandshakeSent) => {
                Err(Rejection::of_message(not_allowed(state, event), id))
            }
            _ => Ok(Action::None),
        }
    }

    #[inline]
    fn receive_request<'a>(
        &mut self,
        input: &Input<'a, '_>,
        request: Request<'a>,
    ) -> Result<Action<'a>, Rejection<'a>> {
        let id = request.id;
        let event = if request.streams { Event::StartStream } else { Event::SendRequest };
        let applied = self.machine.apply(event);
        applied.map_err(|error| Rejection::of_request(error.into(), id))?;
        self.check_request(input, &request).map_err(|error| {
            let closes = error.code == ErrorCode::PayloadTooLarge;
            Rejection::of_request(error, id).closing_if(closes)
        })?;
        if let Some(key) = request.idempotency_key {
            let begun = self.keys.begin(key, &input.settings.keys);
            begun.map_err(|error| Rejection::of_request(error, id))?;
        }
        Ok(Action::Start(request))
    }

    #[inline]
    fn check_request(
        &self,
        input: &Input<'_, '_>,
        request: &Request<'_>,
    ) -> Result<(), ParityError> {
        let allowed = &self.capabilities;
        if let Some(most) = allowed.max_payload_bytes
            && input.bytes as u64 > most
        {
            return Err(ParityError::payload_too_large(most));
        }
        if !METHODS.contains(&request.method) {
            let method: String = request.method.chars().take(64).collect();
            return Err(ParityError::feature_not_available(format!("unknown method: {method}")));
        }
        if let Some(feature) = Feature::of_method(request.method) {
            allowed.check(feature)?;
        }
        if request.streams {
            allowed.check(Feature::Streaming)?;
        }
        let task = request.params.and_then(Value::as_object).and_then(|it| it.find("task"));
        if request.method == "tools/call" && task.is_some_and(|task| !task.is_null()) {
            let message = "the dialect has no tasks: leave out params.task, or set stream";
            return Err(ParityError::feature_not_available(message));
        }
        if allowed.max_concurrent.is_some_and(|most| input.in_flight >= most as usize) {
            let most = allowed.max_concurrent.unwrap_or_default();
            let message = format!("{most} requests are in flight (limit maxConcurrent)");
            return Err(ParityError::rate_limited(message, 1_000));
        }
        Ok(())
    }

    fn receive_handshake<'a>(
        &mut self,
        input: &Input<'a, '_>,
        handshake: Handshake<'a>,
    ) -> Result<Action<'a>, Rejection<'a>> {
        let applied = self.machine.apply(Event::SendHandshake);
        applied.map_err(|error| Rejection::of_message(error, None))?;
        if handshake.protocol_version != PROTOCOL_VERSION {
            self.close();
            let requested: String = handshake.protocol_version.chars().take(32).collect();
            let message = format!(
                "unsupported protocolVersion {requested:?}: this server speaks {PROTOCOL_VERSION}"
            );
            let details = format!("{{\"supported\":[\"{PROTOCOL_VERSION}\"]}}");
            let error = ParityError::new(ErrorCode::VersionUnsupported, message);
            return Err(Rejection::closing(error.with_details(details)));
        }
        let offered = handshake.capabilities.unwrap_or_default();
        let both = input.settings.capabilities.intersect(&offered);
        if !both.is_usable() {
            self.close();
            return Err(Rejection::closing(ParityError::feature_not_available(
                "no capability in common: offer tools, resources or prompts",
            )));
        }
        Ok(Action::Acknowledge(handshake, both))
    }

    /// The handshake is accepted. `exchanges`: explicit capabilities follow; otherwise the session
    /// is ready.
    pub fn acknowledge(
        &mut self,
        capabilities: Capabilities,
        exchanges: bool,
        settings: &SessionSettings,
        now: Instant,
    ) {
        if self.machine.apply(Event::RecvHandshakeAck).is_err() {
            return;
        }
        self.capabilities = capabilities;
        if exchanges {
            self.timers.await_capabilities(&settings.timeouts, now);
        } else if self.machine.apply(Event::NoExplicitCaps).is_ok() {
            self.timers.open(now);
        }
    }

    fn receive_capabilities<'a>(
        &mut self,
        input: &Input<'a, '_>,
        refined: &Capabilities,
    ) -> Result<Action<'a>, Rejection<'a>> {
        let reject = |error: InvalidTransition| Rejection::of_message(error, None);
        self.machine.apply(Event::ExchangeCaps).map_err(reject)?;
        let both = self.capabilities.intersect(refined);
        if !both.is_usable() {
            self.close();
            return Err(Rejection::closing(ParityError::feature_not_available(
                "the refined capabilities have no tools, resources or prompts",
            )));
        }
        self.capabilities = both;
        self.machine.apply(Event::CapsStored).map_err(reject)?;
        self.timers.open(input.now);
        Ok(Action::AcknowledgeCapabilities(both))
    }

    fn receive_cancel<'a>(&mut self, target: Target<'a>) -> Result<Action<'a>, Rejection<'a>> {
        let reject =
            |error| Rejection { error, target: Some(target), is_response: false, closes: false };
        if self.is_ready() {
            self.capabilities.check(Feature::Cancellation).map_err(reject)?;
        }
        self.machine.apply(Event::SendCancel).map_err(|error| reject(error.into()))?;
        Ok(Action::Cancel(target))
    }

    /// The terminal frame of a cancelled request or stream is written, or there is none.
    pub fn end_cancel(&mut self) {
        let _ended = self.machine.apply(Event::RecvEos);
    }

    /// The client that has announced its capabilities is gone: the session is ready without them,
    /// if it is served without.
    pub fn skip_exchange(&mut self, settings: &SessionSettings, now: Instant) {
        if settings.timeouts.continues_without_capabilities
            && self.machine.apply(Event::CapsTimeoutContinue).is_ok()
        {
            self.timers.open(now);
        }
    }

    /// A client presents a resume token: its window is validated.
    pub fn begin_resume(&mut self) -> bool {
        self.machine.apply(Event::Reconnect).is_ok()
    }

    /// The window is valid, or not.
    pub fn end_resume(&mut self, is_valid: bool) {
        let event = if is_valid { Event::WindowOk } else { Event::WindowStale };
        let _resumed = self.machine.apply(event);
    }

    /// Records a request of the client that is no message.
    pub const fn record_received(&mut self, now: Instant) {
        self.timers.record_received(now);
    }

    /// Records that something ends which keeps the session from being idle.
    #[inline]
    pub const fn record_busy(&mut self, now: Instant) {
        self.timers.record_busy(now);
    }

    /// The session has a transport again, whose client has these capabilities.
    pub fn reattach(&mut self, capabilities: &Capabilities, now: Instant) {
        self.capabilities = self.capabilities.intersect(capabilities);
        self.timers.open(now);
    }

    /// The session has lost its transport, and waits for another one.
    pub const fn detach(&mut self) {
        self.timers.end();
    }

    /// The session ends.
    pub fn close(&mut self) {
        let _closing = self.machine.apply(Event::Close);
        self.timers.end();
    }

    /// Returns when [`ServerSession::expire`] must be called next.
    pub fn next_deadline(&self, settings: &SessionSettings, is_busy: bool) -> Option<Instant> {
        self.timers.next_deadline(&settings.timeouts, is_busy)
    }

    /// Returns what is due at `now`. `is_busy`: a request or stream is in flight, or the client has
    /// an HTTP exchange open.
    pub fn expire(&mut self, settings: &SessionSettings, is_busy: bool, now: Instant) -> Expired {
        match self.timers.expire(&settings.timeouts, is_busy, now) {
            None => Expired::None,
            Some(Timeout::Keepalive) => Expired::SendKeepalive,
            Some(Timeout::Handshake) => {
                let _closing = self.machine.apply(Event::HandshakeTimeout);
                Expired::Close(ParityError::handshake_timeout())
            }
            Some(Timeout::Capabilities) if settings.timeouts.continues_without_capabilities => {
                if self.machine.apply(Event::CapsTimeoutContinue).is_ok() {
                    self.timers.open(now);
                }
                Expired::None
            }
            Some(Timeout::Capabilities) => {
                let _closing = self.machine.apply(Event::CapsTimeoutFail);
                let message = "no capabilities within the time of the exchange";
                Expired::Close(ParityError::feature_not_available(message))
            }
            Some(Timeout::Idle) => {
                let _closing = self.machine.apply(Event::IdleTimeout);
                self.timers.end();
                Expired::Close(ParityError::idle_timeout())
            }
        }
    }
}

/// A message that only servers send.
#[cold]
fn misdirected<'a>() -> Rejection<'a> {
    let message = "only a server sends messages of this type";
    Rejection::of_message(ParityError::invalid_envelope(message), None)
}
