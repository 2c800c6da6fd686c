//! A session as its client sees it, over all of its connections.
//!
//! The client's half of the protocol is [`ClientSession`]; what it accepts is checked again here
//! with what the client knows of the run: schemas, one answer for each request, streams without
//! gaps, no more than the negotiated capabilities, and nothing before its time.

use std::collections::{BTreeMap, BTreeSet};

use corelane_base::time::Instant;
use corelane_parity::client_session::ClientSession;
use corelane_parity::envelope::Envelope;
use corelane_protocol::json::{PaddedBuffer, ParseLimits, Parser};
use serde_json::Value;

use super::keys::KeyModel;
use super::request_model::{RequestModel, RequestState, Rules, has, is_expiry};
use super::resumption::{ResumeSent, check_resumed};
use super::schemas;
use super::stream_model::{NewChunk, StreamModel};
use super::totals::ParityTotals;

/// What the session waits for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Phase {
    /// No connection.
    #[default]
    Lost,
    /// The acknowledgement of the handshake.
    Acknowledgement,
    /// The acknowledgement of the capabilities, since this time.
    Exchange(Instant),
    Ready,
}

/// A handshake.
#[derive(Clone, Debug)]
pub(crate) struct HandshakeSent {
    pub(crate) offered: Value,
    /// It announces an exchange of capabilities.
    pub(crate) exchanges: bool,
    pub(crate) resume: Option<ResumeSent>,
    pub(crate) sent_at: Instant,
}

/// One session.
#[derive(Debug, Default)]
pub(crate) struct SessionModel {
    pub(crate) phase: Phase,
    pub(crate) client: ClientSession,
    pub(crate) id: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) capabilities: Value,
    pub(crate) requests: BTreeMap<String, RequestModel>,
    pub(crate) streams: BTreeMap<String, StreamModel>,
    pub(crate) keys: BTreeMap<String, KeyModel>,
    /// The next chunk of each stream on the present connection.
    pub(crate) next_here: BTreeMap<String, u64>,
    /// The handshake without acknowledgement.
    pub(crate) handshake: Option<HandshakeSent>,
    /// Over HTTP: what several connections carry comes in any order.
    pub(crate) is_unordered: bool,
    /// Event streams whose first event acknowledges the handshake again.
    pub(crate) due_preludes: u32,
    /// The capabilities before their refinement, if one is announced.
    unrefined: Option<Value>,
    /// Chunks that have come before the response that opens their stream.
    early_chunks: BTreeMap<String, Vec<Value>>,
    /// Codes of the errors that wrong messages of the client must get.
    pub(crate) due_errors: Vec<&'static str>,
    /// Codes of the errors that they may get.
    pub(crate) possible_errors: Vec<&'static str>,
    /// Whether the server has said that the token has expired.
    pub(crate) has_expired: bool,
    /// Whether a request was too long: its connection closes.
    pub(crate) is_too_large: bool,
    pub(crate) began_at: Option<Instant>,
    /// The reason of the last advice to restart.
    pub(crate) restart: Option<String>,
    /// Streams that were cancelled on this connection, known or not.
    pub(crate) cancelled_streams: BTreeSet<String>,
    /// Requests for the event stream, of earlier connections, that the server may read late: each
    /// takes the place of the present event stream, once.
    pub(crate) stale_events: usize,
    /// Chunks went to an event stream of an earlier connection: the client has to resume again.
    pub(crate) has_gap: bool,
    /// The client has ended it: what it sends at the same time may find it no more.
    pub(crate) is_ended: bool,
    /// It continues one of an earlier connection.
    pub(crate) is_resumed: bool,
    /// It was ready when its last connection was lost, or would be without its capabilities.
    pub(crate) was_ready: bool,
    /// It lost its last connection before an announced exchange of capabilities.
    pub(crate) has_lost_exchange: bool,
    /// The server has read a message since the last resumption.
    pub(crate) has_used_resumption: bool,
    pub(crate) totals: ParityTotals,
}

impl SessionModel {
    /// Sends a handshake on a new connection.
    pub(crate) fn connect(&mut self, handshake: HandshakeSent, is_unordered: bool) {
        self.phase = Phase::Acknowledgement;
        self.next_here.clear();
        self.possible_errors.clear();
        (self.due_preludes, self.unrefined) = (0, None);
        self.early_chunks.clear();
        self.cancelled_streams.clear();
        (self.has_gap, self.is_ended, self.is_too_large) = (false, false, false);
        self.has_expired = false;
        (self.handshake, self.is_unordered) = (Some(handshake), is_unordered);
    }

    /// The connection is gone.
    pub(crate) fn disconnect(&mut self) {
        self.client.disconnect();
        // A refinement may have been read.
        let is_exchange =
            matches!(self.phase, Phase::Exchange(_)) && self.possible_errors.is_empty();
        let is_unanswered = self.is_unanswered();
        self.was_ready =
            is_exchange || self.phase == Phase::Ready || self.was_ready && is_unanswered;
        self.has_lost_exchange = is_exchange || self.has_lost_exchange && is_unanswered;
        self.phase = Phase::Lost;
        self.due_errors.clear();
        self.possible_errors.clear();
        for request in self.requests.values_mut() {
            if request.state == RequestState::Open {
                request.state = RequestState::Uncertain;
            }
        }
    }

    /// Returns whether the handshake of the connection has no acknowledgement.
    fn is_unanswered(&self) -> bool {
        self.phase == Phase::Acknowledgement
    }

    /// Returns whether the event stream may have gone to a request of an earlier connection, which
    /// explains one end, one gap or one silence.
    pub(crate) fn take_stale_events(&mut self) -> bool {
        let is_ready = self.phase == Phase::Ready;
        let is_stale = is_ready && self.is_unordered && self.stale_events > 0;
        self.stale_events -= usize::from(is_stale);
        self.totals.events_taken_late += u64::from(is_stale);
        is_stale
    }

    /// Returns the number of requests and streams in flight.
    pub(crate) fn in_flight(&self) -> usize {
        let open = self.requests.values().filter(|it| it.state != RequestState::Answered);
        open.count() + self.streams.values().filter(|stream| !stream.has_ended()).count()
    }

    /// Returns whether nothing is due: responses, the ends of streams, errors.
    pub(crate) fn is_settled(&self) -> bool {
        let is_open = |request: &RequestModel| request.state == RequestState::Open;
        matches!(self.phase, Phase::Ready | Phase::Exchange(_))
            && self.due_errors.is_empty()
            && self.due_preludes == 0
            && !self.requests.values().any(is_open)
            && self.streams.values().all(StreamModel::has_ended)
    }

    /// Returns whether a stream has not ended.
    pub(crate) fn has_open_streams(&self) -> bool {
        self.streams.values().any(|stream| !stream.has_ended())
    }

    /// Records a request that is sent. Over HTTP it may be read before those that were sent earlier
    /// and are not answered.
    pub(crate) fn send_request(&mut self, request: RequestModel) {
        if self.is_unordered {
            let open = self.requests.values_mut().filter(|it| it.state != RequestState::Answered);
            for earlier in open {
                earlier.in_flight = earlier.in_flight.max(request.in_flight);
            }
        }
        if let Some(key) = &request.key {
            self.keys.entry(key.clone()).or_default().sent += 1;
        }
        self.requests.insert(request.id.to_string(), request);
    }

    /// Checks a message of the server.
    ///
    /// # Errors
    ///
    /// Describes the violated rule.
    pub(crate) fn receive(&mut self, text: &[u8], rules: &Rules) -> Result<(), String> {
        let checked = self.check_message(text, rules);
        checked.map_err(|problem| format!("{problem}; received {}", text.escape_ascii()))
    }

    fn check_message(&mut self, text: &[u8], rules: &Rules) -> Result<(), String> {
        let message: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        schemas::check_of_server(&message)?;
        let kind = message["type"].as_str().unwrap_or_default();
        let is_ready = self.is_ready(rules);
        let was_waiting = self.phase == Phase::Acknowledgement;
        match kind {
            "handshakeAck" => self.check_ack(&message, rules)?,
            "capabilitiesAck" => self.check_capabilities(&message)?,
            "response" => self.check_response(&message, text, rules)?,
            "stream.chunk" if is_ready || self.is_unordered && !was_waiting => {
                self.check_chunk(&message, rules)?;
            }
            "keepalive" if is_ready => self.totals.keepalives += 1,
            "error" => self.check_error(&message, rules)?,
            _ => return Err(format!("{kind} comes before the session is ready")),
        }
        let is_known = match kind {
            "response" => self.phase != Phase::Acknowledgement,
            "handshakeAck" => was_waiting,
            "stream.chunk" => self.streams.contains_key(message["streamId"].as_str().unwrap_or("")),
            _ => true,
        };
        if is_known && !self.has_gap {
            self.pass_to_client(text)?;
        }
        if kind == "response" {
            self.receive_early_chunks(&message, rules)?;
        }
        Ok(())
    }

    /// Receives the chunks of a stream that have come before it was opened.
    fn receive_early_chunks(&mut self, response: &Value, rules: &Rules) -> Result<(), String> {
        let stream = response["result"]["streamId"].as_str().unwrap_or_default();
        for chunk in self.early_chunks.remove(stream).into_iter().flatten() {
            self.receive(chunk.to_string().as_bytes(), rules)?;
        }
        Ok(())
    }

    /// Passes a message to the client's half of the protocol.
    fn pass_to_client(&mut self, text: &[u8]) -> Result<(), String> {
        let mut parser = Parser::new(ParseLimits::default());
        let mut buffer = PaddedBuffer::copy_of(text);
        let document = parser.parse(buffer.text()).map_err(|error| format!("{error:?}"))?;
        let envelope = Envelope::read(document.root());
        let envelope = envelope.map_err(|invalid| format!("{invalid:?}"))?;
        if let Envelope::CapabilitiesAck(_) = envelope {
            // The model has announced the exchange, which the client's half knows nothing of.
            return Ok(());
        }
        let received = self.client.receive(envelope).map(|_| ());
        received.map_err(|violation| format!("the client rejects it: {violation:?}"))
    }

    /// Returns whether the server may serve requests. One that goes on without the announced
    /// capabilities does not say when.
    fn is_ready(&self, rules: &Rules) -> bool {
        let (timeout, continues) = rules.capabilities_timeout;
        match self.phase {
            Phase::Ready => true,
            Phase::Exchange(since) => continues && rules.now >= since.after(timeout),
            Phase::Lost | Phase::Acknowledgement => false,
        }
    }

    fn check_ack(&mut self, ack: &Value, rules: &Rules) -> Result<(), String> {
        let taken = self.handshake.take().filter(|_| self.phase == Phase::Acknowledgement);
        let Some(HandshakeSent { offered, exchanges, resume, sent_at }) = taken else {
            return self.check_prelude(ack);
        };
        check_narrowed(&ack["capabilities"], &offered)?;
        self.due_errors.retain(|code| *code != "error.auth.unauthorized");
        let resumed = ack["resumed"].as_bool();
        if resumed.is_some() != resume.is_some() {
            return Err("resumed must be there if a token was presented".to_owned());
        }
        self.is_resumed = resumed == Some(true);
        if self.is_resumed {
            let sent = resume.ok_or("no token was presented")?;
            check_narrowed(&ack["capabilities"], &self.capabilities)?;
            check_resumed(self, &sent, ack)?;
            self.has_used_resumption = false;
            self.totals.sessions_resumed += 1;
        } else {
            if let Some(sent) = resume {
                let reason = ack["reason"].as_str().unwrap_or_default();
                sent.check_restart(self, &offered, reason, rules)?;
                self.totals.count_restart(reason);
                self.restart = Some(reason.to_owned());
            }
            self.restart_session(ack, rules)?;
        }
        self.token = ack["resumeToken"].as_str().map(str::to_owned);
        if self.token.is_some() != has(&ack["capabilities"], "resume") {
            return Err("a token belongs to the capability to resume".to_owned());
        }
        self.capabilities = ack["capabilities"].clone();
        let is_exchange = exchanges && resumed.is_none();
        self.unrefined = is_exchange.then(|| self.capabilities.clone());
        self.phase = if is_exchange { Phase::Exchange(sent_at) } else { Phase::Ready };
        Ok(())
    }

    /// Checks the first event of an event stream, which is the acknowledgement once more.
    fn check_prelude(&mut self, ack: &Value) -> Result<(), String> {
        if self.due_preludes == 0 {
            return Err("no handshake waits for it".to_owned());
        }
        self.due_preludes -= 1;
        let is_it = self.id.as_deref() == ack["sessionId"].as_str() && ack["resumed"].is_null();
        if !is_it {
            return Err("the event stream is not of the session".to_owned());
        }
        check_narrowed(&ack["capabilities"], self.widest())?;
        self.token = ack["resumeToken"].as_str().map(str::to_owned);
        Ok(())
    }

    /// Returns the capabilities that the server may go by: over HTTP it may answer a request behind
    /// a refinement that it has read before.
    fn widest(&self) -> &Value {
        self.unrefined.as_ref().filter(|_| self.is_unordered).unwrap_or(&self.capabilities)
    }

    /// A new session: nothing of an earlier one continues.
    fn restart_session(&mut self, ack: &Value, rules: &Rules) -> Result<(), String> {
        let id = ack["sessionId"].as_str().unwrap_or_default();
        if self.id.as_deref() == Some(id) {
            return Err("a new session has the id of the old one".to_owned());
        }
        self.id = Some(id.to_owned());
        self.began_at = Some(rules.now);
        self.stale_events = 0;
        self.streams.clear();
        self.keys.clear();
        // Those that followed the handshake at once stay.
        self.requests.retain(|_, request| request.state == RequestState::Open);
        for key in self.requests.values().filter_map(|request| request.key.clone()) {
            self.keys.entry(key).or_default().sent += 1;
        }
        self.totals.sessions_begun += 1;
        Ok(())
    }

    fn check_capabilities(&mut self, ack: &Value) -> Result<(), String> {
        if !matches!(self.phase, Phase::Exchange(_)) {
            return Err("no capabilities wait for it".to_owned());
        }
        check_narrowed(&ack["capabilities"], &self.capabilities)?;
        self.capabilities = ack["capabilities"].clone();
        self.phase = Phase::Ready;
        self.totals.refinements += 1;
        Ok(())
    }

    fn check_response(
        &mut self,
        message: &Value,
        text: &[u8],
        rules: &Rules,
    ) -> Result<(), String> {
        let id = message["id"].to_string();
        let in_flight = self.in_flight();
        let is_ready = self.is_ready(rules);
        let is_exchange = matches!(self.phase, Phase::Exchange(_));
        // Over HTTP a request may be read before the capabilities, and answered behind them.
        let is_open = self.is_unordered && self.unrefined.is_some();
        let widest = self.widest().clone();
        // The acknowledgement may be on its way on another connection.
        let is_ready = is_ready || is_exchange && self.is_unordered;
        let may_be_gone = rules.may_idle_out || self.is_ended || self.is_exchange_over(rules);
        let is_gone = may_be_gone && message["error"]["details"]["reason"] == "unknown_session";
        let request = self.requests.get_mut(&id).ok_or("no request has this id")?;
        if request.state == RequestState::Answered {
            return Err(format!("a second response to {request:?}"));
        }
        // It was processed with the capabilities of its own connection.
        let is_earlier = request.state == RequestState::Uncertain;
        request.state = RequestState::Answered;
        self.has_used_resumption |= !is_earlier;
        let key = request.key.as_ref().and_then(|key| self.keys.get_mut(key));
        let error = &message["error"];
        if !error.is_null() {
            let is_known_key = key.as_ref().is_some_and(|key| key.sent > 1);
            let is_feature = error["code"] == "error.feature_not_available";
            let is_state = error["details"]["state"] == "HandshakeAcked";
            let explained = is_gone
                || is_feature && (is_open || is_earlier || is_state && is_exchange)
                || request.explains(error, &self.capabilities, is_known_key, in_flight, rules);
            if !explained {
                return Err(format!("nothing explains the error of {request:?}"));
            }
            if let Some(key) = key.filter(|_| !is_gone) {
                key.check_error(error)?;
            }
            self.totals.count_error(error["code"].as_str().unwrap_or_default());
            self.is_too_large |= error["code"] == "error.payload_too_large";
            return Ok(());
        }
        let is_allowed = is_ready
            && (is_earlier || request.is_available(&widest) && !request.is_too_large(&widest));
        if !is_allowed {
            return Err(format!("{request:?} must not be processed"));
        }
        let result = &message["result"];
        if request.streams {
            let stream = result["streamId"].as_str().ok_or("it opens no stream")?;
            let mut model = StreamModel::of_request(request.id.clone(), request.work);
            model.is_cancelled = request.is_cancelled || self.cancelled_streams.contains(stream);
            if let Some(key) = key {
                key.check_accepted()?;
            }
            self.next_here.insert(stream.to_owned(), 1);
            self.totals.streams_opened += 1;
            let earlier = self.streams.insert(stream.to_owned(), model);
            return earlier.map_or(Ok(()), |_| Err("the stream is open".to_owned()));
        }
        if !request.work.is_result(&request.id, result) {
            return Err(format!("not the result of {request:?}"));
        }
        self.totals.responses += 1;
        key.map_or(Ok(()), |key| key.check_result(text))
    }

    fn check_chunk(&mut self, chunk: &Value, rules: &Rules) -> Result<(), String> {
        let id = chunk["streamId"].as_str().unwrap_or_default();
        let seq = chunk["seq"].as_u64().unwrap_or_default();
        let in_flight = self.in_flight();
        if self.is_unordered && !self.streams.contains_key(id) {
            self.early_chunks.entry(id.to_owned()).or_default().push(chunk.clone());
            return Ok(());
        }
        let next = self.next_here.get(id).copied().unwrap_or(1);
        let is_gap = seq > next;
        if self.has_gap || is_gap && self.take_stale_events() {
            self.has_gap = true;
            return Ok(());
        }
        let stream = self.streams.get_mut(id).ok_or("no stream has this id")?;
        let next = self.next_here.entry(id.to_owned()).or_insert(1);
        if seq != *next {
            return Err(format!("chunk {next} is the next one on this connection"));
        }
        *next += 1;
        match stream.receive(chunk)? {
            None => self.totals.chunks_repeated += 1,
            Some(NewChunk::Error(error)) => {
                let Some((request, _)) = &stream.request else { return Ok(()) };
                let request = self.requests.get(&request.to_string());
                let explained = request.is_none_or(|request| {
                    request.explains(&error, &self.capabilities, false, in_flight, rules)
                });
                if !explained {
                    return Err(format!("nothing explains the error of {request:?}"));
                }
                self.totals.stream_errors += 1;
            }
            Some(NewChunk::End) if chunk["reason"] == "cancelled" => {
                self.totals.streams_cancelled += 1;
            }
            Some(NewChunk::End) => self.totals.streams_completed += 1,
            Some(NewChunk::Data | NewChunk::Result) => self.totals.chunks += 1,
        }
        Ok(())
    }

    /// Returns whether the server may have ended the session, because the announced capabilities
    /// did not come.
    fn is_exchange_over(&self, rules: &Rules) -> bool {
        let (timeout, continues) = rules.capabilities_timeout;
        matches!(self.phase, Phase::Exchange(since)
            if !continues && rules.now >= since.after(timeout))
    }

    fn check_error(&mut self, message: &Value, rules: &Rules) -> Result<(), String> {
        let code = message["error"]["code"].as_str().unwrap_or_default();
        self.totals.count_error(code);
        let due = self.due_errors.iter().position(|due| *due == code);
        if let Some(index) = due {
            self.due_errors.swap_remove(index);
            return Ok(());
        }
        let possible = self.possible_errors.iter().position(|possible| *possible == code);
        if let Some(index) = possible {
            self.possible_errors.swap_remove(index);
            return Ok(());
        }
        if rules.has_tokens && is_expiry(&message["error"]) {
            self.has_expired = true;
            return Ok(());
        }
        let reason = &message["error"]["details"]["reason"];
        let is_late = self.is_exchange_over(rules);
        let is_known = rules.is_draining
            || (rules.may_idle_out || self.is_ended) && *reason == "unknown_session"
            || rules.may_idle_out && *reason == "idle_timeout"
            || self.is_ended && *reason == "session_ended"
            || is_late && (code == "error.feature_not_available" || *reason == "unknown_session")
            || *reason == "handshake_timeout"
                && matches!(self.phase, Phase::Acknowledgement | Phase::Lost);
        if is_known { Ok(()) } else { Err("nothing explains this error".to_owned()) }
    }
}

/// Checks that capabilities are within others.
fn check_narrowed(capabilities: &Value, others: &Value) -> Result<(), String> {
    let flags = ["tools", "resources", "prompts", "streaming", "resume", "cancellation"];
    for flag in flags {
        if has(capabilities, flag) && !has(others, flag) {
            return Err(format!("{flag} is not in {others}"));
        }
    }
    for limit in ["maxConcurrent", "maxPayloadBytes"] {
        let most = others[limit].as_u64().unwrap_or(u64::MAX);
        if capabilities[limit].as_u64().unwrap_or(u64::MAX) > most {
            return Err(format!("{limit} is not below {most}"));
        }
    }
    let window = &capabilities["resumeWindow"];
    if window.is_null() == has(capabilities, "resume") {
        return Err("a window belongs to the capability to resume".to_owned());
    }
    Ok(())
}
