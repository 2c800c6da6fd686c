//! What a client sends: handshakes, requests, cancellations, and wrong messages.

use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::World;
use corelane_parity::envelope::Target;
use corelane_parity::machine::State;
use corelane_parity::write::{self, RequestParams};
use corelane_protocol::jsonrpc::Id;
use serde_json::{Value, json};

use super::link::{Carrier, Link, Outgoing, Reading};
use super::messages::{self, MALFORMED};
use super::peer::{Peer, Stage};
use super::plan::{Action, CancelTarget, Ending, Opening, ParityPlan, Visit};
use super::request_model::{RequestModel, RequestState, Rules, has};
use super::resumption::{ResumeKind, ResumeSent};
use super::schemas;
use super::server::token_for;
use super::session_model::{HandshakeSent, Phase, SessionModel};
use super::stream_model::StreamModel;
use super::work::Work;

/// Validity of a token that expires during its connection.
const TOKEN_TIME: Duration = Duration::from_secs(2);
/// Validity of every other token.
const TOKEN_TIME_LONG: Duration = Duration::from_mins(10);

impl Peer {
    /// Makes the next connection, if there is one.
    pub(super) fn start_visit(&mut self, world: &World, rules: &Rules) {
        let next = self.visits.pop_front();
        let Some(visit) = next.or_else(|| self.leave_or_recover(rules)) else { return };
        self.is_slow = false;
        self.actions = visit.actions.clone().into();
        if self.link.is_none() {
            self.link = Some(Link::open(visit.carrier, world, &mut self.random));
        }
        self.visit = Some(visit.clone());
        self.open(&visit, world, rules);
    }

    fn open(&mut self, visit: &Visit, world: &World, rules: &Rules) {
        let now = rules.now;
        let soon = now.after(Duration::from_micros(self.random.below(80_000) as u64));
        let refused = |version, offered: &Value| messages::handshake(version, offered, false);
        match visit.opening {
            Opening::Silent => self.stage = Stage::Abandoning(soon),
            Opening::Half => {
                let text = refused("1.0", &visit.offered).to_string();
                if let Some(link) = &mut self.link {
                    link.send_half(&text, world);
                }
                self.totals.half_handshakes += 1;
                self.stage = Stage::Abandoning(soon);
            }
            Opening::WrongVersion => {
                self.stage = Stage::Rejected("error.version_unsupported", now);
                self.send(&refused("0.9", &visit.offered).to_string(), true, world);
            }
            Opening::NoCapabilities => {
                self.stage = Stage::Rejected("error.feature_not_available", now);
                self.send(&refused("1.0", &json!({"streaming": true})).to_string(), true, world);
            }
            Opening::EarlyKeepalive => {
                self.stage = Stage::Rejected("error.feature_not_available", now);
                self.send(r#"{"type":"keepalive","timeoutHintSec":9}"#, true, world);
            }
            Opening::Handshake { .. } | Opening::Query | Opening::Resume(_) => {
                self.stage = Stage::Opening(now);
                self.send_handshake(visit, world, rules);
                if visit.carrier != Carrier::Http
                    && self.twin.is_none()
                    && visit.opening != Opening::Resume(ResumeKind::Forged)
                {
                    for _ in 0..visit.pipelined {
                        if let Some(action) = self.actions.pop_front() {
                            self.perform(action, world, rules);
                        }
                    }
                }
            }
        }
        if visit.ending == Ending::AtOnce {
            self.cut(now);
        }
    }

    fn send_handshake(&mut self, visit: &Visit, world: &World, rules: &Rules) {
        let now = rules.now;
        let kind = match visit.opening {
            Opening::Resume(kind) => Some(kind),
            _ => None,
        };
        let token = match kind {
            Some(ResumeKind::Used) => self.used_token.clone(),
            Some(_) => self.session.token.clone(),
            None => None,
        };
        let resume = kind.zip(token).map(|(kind, token)| {
            let is_doubtful = self.doubtful_token.as_ref() == Some(&token);
            ResumeSent::new(&self.session, kind, token, is_doubtful)
        });
        match &resume {
            Some(sent) if sent.kind != ResumeKind::Forged => {
                self.doubtful_token = Some(sent.token.clone());
            }
            Some(_) => {}
            None => {
                self.used_token = None;
                let ended = std::mem::take(&mut self.session);
                self.totals = self.totals.plus(ended.totals);
            }
        }
        let exchanges = visit.opening == (Opening::Handshake { exchanges: true });
        let is_query = visit.carrier == Carrier::Http
            && (visit.opening == Opening::Query || resume.is_some() && self.random.chance(1, 2));
        let offered = if is_query { flags_of(&visit.offered) } else { visit.offered.clone() };
        let is_twin = resume.as_ref().is_some_and(|sent| sent.kind == ResumeKind::Twin);
        let mut text = Vec::new();
        let limits = messages::capabilities(&offered);
        let connected = self.session.client.connect(&mut text, &limits, ("sim", "1"), None);
        assert!(connected.is_ok(), "the session has no transport");
        let mut handshake = messages::handshake("1.0", &offered, exchanges);
        if let Some(sent) = &resume {
            messages::add_resume(&mut handshake, sent);
        }
        let is_right = resume.as_ref().is_none_or(|sent| sent.kind == ResumeKind::Right);
        if is_right && !exchanges {
            // As the client's half of the protocol writes it.
            handshake = serde_json::from_slice(&text).expect("a handshake is JSON");
        }
        if rules.has_tokens {
            self.add_token(visit, &mut handshake, now);
        }
        assert_eq!(schemas::check(&handshake), Ok(()));
        let query = is_query.then(|| messages::query(&offered, resume.as_ref()));
        if resume.as_ref().is_some_and(|sent| sent.kind == ResumeKind::Forged) {
            self.session.due_errors.push("error.auth.unauthorized");
        }
        let sent = HandshakeSent { offered, exchanges, resume, sent_at: now };
        self.session.connect(sent, visit.carrier == Carrier::Http);
        let text = handshake.to_string();
        if is_twin {
            let mut twin = Link::open(visit.carrier, world, &mut self.random);
            let message = Outgoing { text: &text, accepts_events: false, is_first: true };
            twin.send(message, world, &mut self.random);
            self.twin = Some((twin, [Vec::new(), Vec::new()]));
        }
        match (&query, &mut self.link) {
            (Some(query), Some(link)) => link.open_events(Some(query), world),
            _ => self.send(&text, true, world),
        }
    }

    /// Adds a token: over HTTP to each request, otherwise to the handshake.
    fn add_token(&mut self, visit: &Visit, handshake: &mut Value, now: Instant) {
        let is_short = visit.ending == Ending::Expiry;
        let token = token_for(if is_short { TOKEN_TIME } else { TOKEN_TIME_LONG }, now);
        match &mut self.link {
            Some(Link::Http(http)) => http.set_token(&token),
            _ => handshake["auth_token"] = json!(token),
        }
    }

    fn send(&mut self, text: &str, is_first: bool, world: &World) {
        let accepts_events = !is_first && self.random.chance(1, 3);
        if let Some(link) = &mut self.link {
            link.send(Outgoing { text, accepts_events, is_first }, world, &mut self.random);
        }
    }

    /// Performs what is due of its actions, and ends the connection behind them.
    pub(super) fn act(&mut self, world: &World, plan: &ParityPlan, rules: &Rules) {
        while self.stage == Stage::Acting
            && self.next_action <= rules.now
            && !self.is_waiting_for_former()
        {
            match self.actions.pop_front() {
                Some(action) => self.perform(action, world, rules),
                None => self.end_visit(world, plan, rules),
            }
            if self.random.chance(1, 2) {
                let pause = Duration::from_micros(self.random.below(600) as u64);
                self.next_action = self.next_action.max(rules.now.after(pause));
            }
        }
    }

    fn end_visit(&mut self, world: &World, plan: &ParityPlan, rules: &Rules) {
        let Some(visit) = &self.visit else { return };
        let ending = visit.ending;
        let is_settled = self.session.is_settled();
        let is_answered = self.link.as_ref().is_some_and(Link::is_answered);
        let sees_end = self.link.as_ref().is_some_and(Link::has_events);
        match ending {
            Ending::Finish if !is_settled || !is_answered => self.await_all(world, rules),
            Ending::EndSession if visit.carrier == Carrier::Http && is_settled && is_answered => {
                if let Some(link) = &mut self.link {
                    link.end_session(world);
                }
                self.session.is_ended = true;
                self.doubtful_token.clone_from(&self.session.token);
                self.stage = Stage::Abandoning(rules.now.after(Duration::from_millis(50)));
            }
            Ending::Expiry => {
                self.read(Reading::Eager);
                self.stage = Stage::Expiring(rules.now);
            }
            Ending::Silence if plan.may_idle_out() && sees_end && self.has_keepalives(plan) => {
                self.read(Reading::Eager);
                self.stage = Stage::Silent(rules.now);
            }
            _ => self.cut(rules.now),
        }
    }

    /// Returns whether keepalives come soon.
    fn has_keepalives(&self, plan: &ParityPlan) -> bool {
        let timeouts = &plan.options.parity.timeouts;
        let interval =
            if self.is_over_http() { timeouts.sse_keepalive } else { timeouts.keepalive };
        interval < Duration::from_secs(5)
    }

    fn await_all(&mut self, world: &World, rules: &Rules) {
        self.read(Reading::Eager);
        self.open_events(world);
        self.stage = Stage::Awaiting(rules.now);
    }

    /// Opens the event stream, if there is none.
    fn open_events(&mut self, world: &World) {
        if let Some(link) = self.link.as_mut().filter(|link| !link.has_events()) {
            link.open_events(None, world);
            self.session.due_preludes += 1;
        }
    }

    fn perform(&mut self, action: Action, world: &World, rules: &Rules) {
        match action {
            Action::Request { work, streams, key } => {
                self.send_request(work, streams, key, world, rules.now);
            }
            Action::Cancel(target) => self.cancel(target, world),
            Action::Capabilities => self.refine_capabilities(world),
            Action::SecondHandshake => {
                let text = messages::handshake("1.0", &json!({"tools": true}), false).to_string();
                self.session.due_errors.push("error.feature_not_available");
                self.send(&text, false, world);
            }
            Action::Malformed => {
                self.session.due_errors.push("error.internal");
                let text = MALFORMED[self.random.below(MALFORMED.len())];
                self.send(text, false, world);
            }
            Action::Keepalive => self.send_keepalive(world),
            Action::OpenEvents => self.open_events(world),
            Action::StopReading => self.read(Reading::Stopped),
            Action::ReadSlowly => {
                let every = Duration::from_micros(1 + self.random.below(1_000) as u64);
                let bytes = 256 + self.random.below(4_000);
                self.read(Reading::Slow(bytes, every));
            }
            Action::ReadEagerly => self.read(Reading::Eager),
            Action::Wait(time) => self.next_action = rules.now.after(time),
            Action::Await if self.stage == Stage::Acting => self.await_all(world, rules),
            Action::Await => {}
        }
    }

    pub(super) fn send_keepalive(&mut self, world: &World) {
        let text = json!({"type": "keepalive", "timeoutHintSec": 9}).to_string();
        self.send(&text, false, world);
    }

    fn send_request(
        &mut self,
        work: Work,
        streams: bool,
        key: Option<u8>,
        world: &World,
        now: Instant,
    ) {
        self.last_id += 1;
        let number = self.last_id;
        let is_text = self.random.chance(1, 3);
        let name = format!("r{number}");
        let (id, value) = if is_text {
            (Id::Text(&name), json!(name))
        } else {
            (Id::from(number), json!(number))
        };
        let key = key.map(|key| format!("key {key}"));
        let params = work.params(&value).to_string();
        let request = RequestParams {
            id,
            method: work.method(),
            params: Some(params.as_bytes()),
            streams,
            idempotency_key: key.as_deref(),
            auth_token: None,
        };
        let mut text = Vec::new();
        if self.session.client.request(&mut text, &request).is_err() {
            // It needs a capability that is not there, or comes early.
            write::request(&mut text, &request);
        }
        let text = String::from_utf8(text).expect("a request is UTF-8");
        let parsed = serde_json::from_str(&text).expect("a request is JSON");
        assert_eq!(schemas::check(&parsed), Ok(()));
        let request = RequestModel {
            id: value,
            work,
            streams,
            key,
            bytes: text.len(),
            sent_at: now,
            in_flight: self.session.in_flight(),
            state: RequestState::Open,
            is_cancelled: false,
        };
        self.session.send_request(request);
        self.send(&text, false, world);
    }

    fn cancel(&mut self, target: CancelTarget, world: &World) {
        let is_ready = self.session.phase == Phase::Ready;
        let is_capable = is_ready && has(&self.session.capabilities, "cancellation");
        let may_cancel = !is_ready || is_capable;
        let session = &mut self.session;
        let name = match target {
            CancelTarget::UnknownRequest => Some(json!("none")),
            CancelTarget::UnknownStream => Some(json!("s998")),
            CancelTarget::Request => pick_request(session, &mut self.random, may_cancel),
            CancelTarget::Stream => pick_stream(session, &mut self.random, may_cancel),
        };
        let Some(name) = name else { return };
        let is_stream = matches!(target, CancelTarget::Stream | CancelTarget::UnknownStream);
        if is_stream && may_cancel {
            session.cancelled_streams.extend(name.as_str().map(str::to_owned));
        }
        let target = match (&name, is_stream) {
            (Value::String(name), true) => Target::Stream(name),
            (Value::String(name), false) => Target::Request(Id::Text(name)),
            (number, _) => Target::Request(Id::from(number.as_u64().unwrap_or_default())),
        };
        let is_known = name != "none" && name != "s998";
        let mut text = Vec::new();
        if !is_known || session.client.cancel(&mut text, target).is_err() {
            text.clear();
            write::cancel(&mut text, target, None);
        }
        match session.phase {
            Phase::Ready if is_capable => {}
            Phase::Ready => session.due_errors.push("error.feature_not_available"),
            // The server may go on without the capabilities, or may not.
            _ => session.possible_errors.push("error.feature_not_available"),
        }
        let text = String::from_utf8(text).expect("a cancel is UTF-8");
        self.send(&text, false, world);
    }

    /// Sends capabilities, which are rejected unless they are announced.
    pub(super) fn refine_capabilities(&mut self, world: &World) {
        let mut capabilities = self.session.capabilities.clone();
        if !capabilities.is_object() {
            capabilities = json!({"tools": true});
        }
        for flag in ["streaming", "cancellation", "resume"] {
            if self.random.chance(1, 4) {
                capabilities[flag] = json!(false);
            }
        }
        if capabilities["resume"] == false
            && let Some(members) = capabilities.as_object_mut()
        {
            members.remove("resumeWindow");
        }
        let text = json!({"type": "capabilities", "capabilities": capabilities}).to_string();
        let errors = match self.session.phase {
            Phase::Ready => &mut self.session.due_errors,
            _ => &mut self.session.possible_errors,
        };
        errors.push("error.feature_not_available");
        self.send(&text, false, world);
    }

    /// Counts the state in which the connection ends.
    pub(super) fn count_cut(&mut self) {
        let Some(visit) = &self.visit else { return };
        let is_canceling = self.session.client.state() == State::Canceling;
        let count = match (&self.stage, self.session.phase) {
            (Stage::Rejected(..), _) => &mut self.totals.cut_in_closing,
            (Stage::Abandoning(_), Phase::Lost) => &mut self.totals.cut_in_connecting,
            (_, Phase::Acknowledgement) if matches!(visit.opening, Opening::Resume(_)) => {
                &mut self.totals.cut_in_resuming
            }
            (_, Phase::Acknowledgement) => &mut self.totals.cut_in_handshake_sent,
            (_, Phase::Exchange(_)) if !self.session.possible_errors.is_empty() => {
                &mut self.totals.cut_in_caps_exchanged
            }
            (_, Phase::Exchange(_)) => &mut self.totals.cut_in_handshake_acked,
            (_, Phase::Ready) if is_canceling => &mut self.totals.cut_in_canceling,
            (_, Phase::Ready) => &mut self.totals.cut_in_ready,
            (_, Phase::Lost) => return,
        };
        *count += 1;
    }
}

/// Returns the flags of capabilities without their numbers.
fn flags_of(offered: &Value) -> Value {
    let flags = offered.as_object().into_iter().flatten().filter(|(_, value)| value.is_boolean());
    flags.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the id of a request, most often of one in flight, and marks it as cancelled.
fn pick_request(
    session: &mut SessionModel,
    random: &mut Random,
    may_cancel: bool,
) -> Option<Value> {
    let count = session.requests.len();
    let index = random.below(count.max(1));
    let (_, request) = session.requests.iter_mut().nth(index)?;
    request.is_cancelled |= may_cancel;
    let id = request.id.clone();
    let of_it =
        |stream: &&mut StreamModel| stream.request.as_ref().is_some_and(|(known, _)| *known == id);
    if let Some(stream) = session.streams.values_mut().find(of_it) {
        stream.is_cancelled |= may_cancel;
    }
    Some(id)
}

/// Returns the id of a stream, and marks it as cancelled.
fn pick_stream(session: &mut SessionModel, random: &mut Random, may_cancel: bool) -> Option<Value> {
    let count = session.streams.len();
    let index = random.below(count.max(1));
    let (id, stream) = session.streams.iter_mut().nth(index)?;
    stream.is_cancelled |= may_cancel;
    if let Some((request, _)) = &stream.request
        && let Some(request) = session.requests.get_mut(&request.to_string())
    {
        request.is_cancelled |= may_cancel;
    }
    Some(json!(id))
}
