//! A client: its connections one after the other, and what it does on each.

use std::collections::VecDeque;
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::World;
use corelane_parity::error::ErrorCode;
use serde_json::Value;

use super::fault::FaultState;
use super::link::{Carrier, Link, Reading};
use super::plan::{Action, Ending, Opening, ParityPlan, Visit};
use super::request_model::Rules;
use super::resumption::ResumeKind;
use super::session_model::{Phase, SessionModel};
use super::totals::ParityTotals;
use crate::line_simulation::expected_response::CONNECTION_LIMIT;

/// What a client is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// It has no connection until then.
    Away(Instant),
    /// It waits for the acknowledgement since then.
    Opening(Instant),
    /// It performs its actions.
    Acting,
    /// It waits since then for what is due.
    Awaiting(Instant),
    /// It is silent since then.
    Silent(Instant),
    /// It waits since then for the end of its token.
    Expiring(Instant),
    /// It waits since then for this error, and the end.
    Rejected(&'static str, Instant),
    /// It leaves what it has begun then.
    Abandoning(Instant),
    Over,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(super) random: Random,
    pub(super) visits: VecDeque<Visit>,
    pub(super) visit: Option<Visit>,
    pub(super) actions: VecDeque<Action>,
    pub(super) link: Option<Link>,
    /// A second connection with the same token, and what has come on both.
    pub(super) twin: Option<(Link, [Vec<Vec<u8>>; 2])>,
    /// An earlier connection that its client has not closed.
    former: Option<FormerLink>,
    pub(super) session: SessionModel,
    pub(super) used_token: Option<String>,
    /// A token that was presented on a connection without acknowledgement.
    pub(super) doubtful_token: Option<String>,
    pub(super) stage: Stage,
    pub(super) next_action: Instant,
    pub(super) last_id: u64,
    /// Connections made only because streams are open.
    recoveries: u32,
    /// It has not read eagerly on this connection.
    pub(super) is_slow: bool,
    fault: Option<FaultState>,
    pub(super) totals: ParityTotals,
    digest: u64,
}

impl Peer {
    pub(super) fn new(plan: &ParityPlan, index: usize, random: Random, now: Instant) -> Self {
        Self {
            random,
            visits: plan.peers[index].1.clone().into(),
            visit: None,
            actions: VecDeque::new(),
            link: None,
            twin: None,
            former: None,
            session: SessionModel::default(),
            used_token: None,
            doubtful_token: None,
            stage: Stage::Away(now),
            next_action: now,
            last_id: 0,
            recoveries: 0,
            is_slow: false,
            fault: plan.fault.map(FaultState::new),
            totals: ParityTotals::default(),
            digest: 0xCBF2_9CE4_8422_2325,
        }
    }

    /// A client whose only connection is there.
    pub(super) fn with_link(mut self, link: Link) -> Self {
        self.link = Some(link);
        self
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    pub(super) fn totals(&self) -> ParityTotals {
        self.totals.plus(self.session.totals)
    }

    /// Hash of what it received and when.
    pub(super) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Describes its state for a failure report.
    pub(super) fn describe(&self) -> String {
        let Self { visit, actions, stage, session, link, .. } = self;
        let link = link.as_ref().map(Link::describe);
        format!("{stage:?} of {visit:?}, to do {actions:?}\n  {session:?}\n  {link:?}")
    }

    /// Returns when it does something by itself, or has waited for too long.
    pub(super) fn next_due(&self) -> Option<Instant> {
        match self.stage {
            Stage::Away(until) | Stage::Abandoning(until) => Some(until),
            Stage::Opening(since) | Stage::Awaiting(since) | Stage::Rejected(_, since) => {
                Some(since.after(WAIT_MAX))
            }
            Stage::Silent(since) => Some(since.after(SILENCE_MAX)),
            Stage::Expiring(since) => Some(since.after(EXPIRY_MAX)),
            Stage::Acting if self.is_waiting_for_former() => {
                let since = self.former.as_ref().and_then(|former| former.taken_over_at);
                since.map(|since| since.after(WAIT_MAX))
            }
            Stage::Acting => Some(self.next_action),
            Stage::Over => None,
        }
    }

    /// Returns whether HTTP requests carry its session.
    pub(super) fn is_over_http(&self) -> bool {
        self.visit.as_ref().is_some_and(|visit| visit.carrier == Carrier::Http)
    }

    /// Returns whether the actions are done, and an earlier connection has to end before this one.
    pub(super) fn is_waiting_for_former(&self) -> bool {
        let is_taken_over = |former: &FormerLink| former.taken_over_at.is_some();
        self.actions.is_empty() && self.former.as_ref().is_some_and(is_taken_over)
    }

    /// Receives what has arrived, and does what is due.
    ///
    /// # Errors
    ///
    /// Describes the violated rule.
    pub(super) fn turn(
        &mut self,
        world: &World,
        plan: &ParityPlan,
        rules: Rules,
    ) -> Result<(), String> {
        let turned = self.turn_at(world, plan, rules);
        turned.map_err(|problem| format!("{problem}; {}", self.describe()))
    }

    fn turn_at(&mut self, world: &World, plan: &ParityPlan, rules: Rules) -> Result<(), String> {
        let now = rules.now;
        self.receive(world, &rules)?;
        self.check_former(&rules)?;
        while self.next_due().is_some_and(|due| due <= now) {
            match self.stage.clone() {
                Stage::Away(_) => self.start_visit(world, &rules),
                Stage::Acting if !self.is_waiting_for_former() => self.act(world, plan, &rules),
                Stage::Acting | Stage::Abandoning(_) => self.cut(now),
                // Chunks may have gone to an event stream of an earlier connection.
                _ if rules.is_draining
                    || plan.may_break()
                    || self.is_slow
                    || self.session.take_stale_events() =>
                {
                    self.cut(now);
                }
                // An open event stream keeps its session.
                Stage::Silent(_) if self.is_over_http() => self.cut(now),
                Stage::Silent(_) => return Err("a silent client is not closed".to_owned()),
                _ => return Err("it has waited for too long".to_owned()),
            }
        }
        let is_settled =
            self.session.is_settled() && self.link.as_ref().is_some_and(Link::is_answered);
        if matches!(self.stage, Stage::Awaiting(_)) && is_settled {
            (self.stage, self.next_action) = (Stage::Acting, now);
            self.act(world, plan, &rules);
        }
        Ok(())
    }

    fn receive(&mut self, world: &World, rules: &Rules) -> Result<(), String> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let mut messages = link.receive(&mut self.random)?;
        let mut has_ended = link.has_ended();
        if self.twin.is_some() {
            (messages, has_ended) = self.receive_of_twins(messages, has_ended)?;
        }
        for byte in messages.iter().flatten() {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        if !messages.is_empty() {
            self.digest ^= rules.now.nanoseconds();
        }
        if let Some(fault) = &mut self.fault {
            messages = messages.into_iter().flat_map(|text| fault.apply(text)).collect();
        }
        for text in messages {
            if self.link.is_some() {
                self.receive_message(&text, world, rules)?;
            }
        }
        if has_ended && self.link.is_some() {
            self.handle_end(rules)?;
        }
        Ok(())
    }

    /// Holds back what comes on two connections until both are answered; then the one that was
    /// resumed stays.
    fn receive_of_twins(
        &mut self,
        messages: Vec<Vec<u8>>,
        has_ended: bool,
    ) -> Result<(Vec<Vec<u8>>, bool), String> {
        let Some((mut twin, mut held)) = self.twin.take() else { return Ok((messages, has_ended)) };
        held[0].extend(messages);
        held[1].extend(twin.receive(&mut self.random)?);
        let has_ack = |held: &[Vec<u8>]| held.iter().any(|text| is_ack(text));
        let is_done = [has_ack(&held[0]) || has_ended, has_ack(&held[1]) || twin.has_ended()];
        if is_done != [true, true] {
            self.twin = Some((twin, held));
            return Ok((Vec::new(), false));
        }
        let is_resumed = |held: &[Vec<u8>]| held.iter().any(|text| acked(text) == Some(true));
        let is_resumed = [is_resumed(&held[0]), is_resumed(&held[1])];
        if is_resumed == [true, true] && !has_ended && !twin.has_ended() {
            // One of them must have been lost before the other one was resumed.
            self.twin = Some((twin, held));
            return Ok((Vec::new(), false));
        }
        let [first, second] = held;
        match is_resumed {
            [is_first, true] if has_ended || !is_first => {
                let twin_has_ended = twin.has_ended();
                if let Some(mut link) = self.link.replace(twin) {
                    link.close(false, &mut self.random);
                }
                self.totals.twins_restarted += 1;
                Ok((second, twin_has_ended))
            }
            _ => {
                twin.close(false, &mut self.random);
                self.totals.twins_restarted += u64::from(has_ack(&second));
                Ok((first, has_ended))
            }
        }
    }

    fn receive_message(&mut self, text: &[u8], world: &World, rules: &Rules) -> Result<(), String> {
        if rules.is_draining && is_refusal(text) {
            return Ok(());
        }
        if let Stage::Rejected(code, _) = self.stage {
            return self.check_rejection(text, code, rules);
        }
        let keepalives = self.session.totals.keepalives;
        let phase = self.session.phase;
        let token = self.session.token.clone();
        let resumed = self.session.totals.sessions_resumed;
        let unauthorized = self.session.totals.errors_unauthorized;
        self.session.receive(text, rules)?;
        if self.session.has_gap {
            self.cut(rules.now);
            return Ok(());
        }
        let is_http = self.visit.as_ref().is_some_and(|visit| visit.carrier == Carrier::Http);
        let is_expiring = matches!(self.stage, Stage::Expiring(_));
        if self.session.totals.errors_unauthorized > unauthorized && is_http && !is_expiring {
            self.totals.tokens_rejected += 1;
            self.cut(rules.now);
            return Ok(());
        }
        if phase == Phase::Acknowledgement && self.session.phase != phase {
            // The token of a session that restarts is not used.
            let is_resumed = self.session.totals.sessions_resumed > resumed;
            self.record_ack(token.filter(|_| is_resumed), world, rules);
        }
        let is_silent = matches!(self.stage, Stage::Silent(_));
        if self.session.totals.keepalives > keepalives && !is_silent {
            self.send_keepalive(world);
        }
        Ok(())
    }

    fn record_ack(&mut self, token: Option<String>, world: &World, rules: &Rules) {
        self.used_token = token;
        self.doubtful_token = None;
        (self.stage, self.next_action) = (Stage::Acting, rules.now);
        let Some(visit) = &self.visit else { return };
        self.totals.count_connection(visit.carrier);
        if matches!(self.session.phase, Phase::Exchange(_)) && self.random.chance(4, 5) {
            self.refine_capabilities(world);
        }
    }

    /// Checks the error of a rejected handshake.
    fn check_rejection(&mut self, text: &[u8], code: &str, rules: &Rules) -> Result<(), String> {
        let message: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let is_it = message["type"] == "error" && message["error"]["code"] == code;
        if !is_it && !rules.is_draining {
            return Err(format!("expected {code}: {message}"));
        }
        super::schemas::check_of_server(&message)?;
        self.totals.handshakes_rejected += 1;
        self.totals.count_error(code);
        if self.visit.as_ref().is_some_and(|visit| visit.carrier == Carrier::Http) {
            self.cut(rules.now);
        }
        Ok(())
    }

    /// The server has ended the connection, or it was lost.
    fn handle_end(&mut self, rules: &Rules) -> Result<(), String> {
        let Some(visit) = &self.visit else { return Ok(()) };
        // The token ends each exchange of HTTP by itself.
        let is_expiring = matches!(self.stage, Stage::Expiring(_));
        if is_expiring && self.link.as_ref().is_some_and(|link| !link.is_over()) {
            return Ok(());
        }
        let is_forged = visit.opening == Opening::Resume(ResumeKind::Forged);
        let is_without_handshake = self.session.phase == Phase::Acknowledgement;
        let is_exchange = matches!(self.session.phase, Phase::Exchange(_));
        let is_late = is_exchange && !rules.capabilities_timeout.1;
        let code = self.link.as_ref().and_then(Link::close_code);
        let is_explained = match self.stage {
            Stage::Silent(_) => {
                self.totals.idle_closes += 1;
                !self.is_over_http()
            }
            Stage::Expiring(_) => {
                if !rules.is_draining {
                    self.check_expiry(code)?;
                }
                true
            }
            Stage::Rejected(expected, _) => {
                let expected = ErrorCode::parse(expected).and_then(|it| it.properties().close_code);
                if let Some(code) = code.filter(|code| Some(*code) != expected)
                    && !rules.is_draining
                {
                    return Err(format!("closed with {code}, not with {expected:?}"));
                }
                true
            }
            Stage::Abandoning(_) => true,
            _ => {
                let is_timed_out = is_without_handshake && rules.may_time_out_handshake;
                is_forged || is_late || is_timed_out || self.session.is_too_large
            }
        };
        let may_end = rules.may_break || rules.is_draining || rules.may_idle_out || self.is_slow;
        if !is_explained && !may_end && !self.session.take_stale_events() {
            return Err(format!("the server has ended the connection ({code:?})"));
        }
        self.totals.tokens_rejected += u64::from(is_forged && is_without_handshake);
        self.cut(rules.now);
        Ok(())
    }

    /// Checks the end of a connection whose token has expired: the server has said so, after what
    /// was begun with it.
    fn check_expiry(&self, close_code: Option<u16>) -> Result<(), String> {
        if !self.session.has_expired {
            return Err("the expiry of the token is not announced".to_owned());
        }
        if !self.session.is_settled() {
            return Err("what was begun with the token has not ended".to_owned());
        }
        match close_code {
            None | Some(1008) => Ok(()),
            Some(code) => Err(format!("closed with {code} at the expiry of the token")),
        }
    }

    /// All connections are lost at once, and the client comes back at once.
    pub(super) fn storm(&mut self, now: Instant) {
        if self.is_over() || self.link.is_none() {
            return;
        }
        let carriers = [Carrier::Tcp, Carrier::WebSocket, Carrier::Http];
        let carrier = carriers[self.random.below(3)];
        let actions = [Action::OpenEvents, Action::Await];
        self.visits.push_front(Visit::new(carrier, Opening::Resume(ResumeKind::Right), &actions));
        self.cut(now);
        self.totals.storms += 1;
    }

    /// Ends the connection, and waits for the next one.
    pub(super) fn cut(&mut self, now: Instant) {
        self.count_cut();
        if let Some(mut former) = self.former.take() {
            former.link.close(false, &mut self.random);
        }
        self.session.stale_events += self.link.as_ref().map_or(0, Link::unread_events);
        self.keep_former();
        let resets = self.visit.as_ref().is_some_and(|visit| visit.ending == Ending::Reset);
        let twin = self.twin.take().map(|(twin, _)| twin);
        for mut link in self.link.take().into_iter().chain(twin) {
            link.close(resets, &mut self.random);
        }
        self.session.disconnect();
        self.visit = None;
        self.actions.clear();
        let next = self.visits.front().map(|visit| visit.after);
        self.stage = Stage::Away(now.after(next.unwrap_or_default()));
    }

    /// Keeps the connection open, if the next one takes over its session.
    fn keep_former(&mut self) {
        let right = Opening::Resume(ResumeKind::Right);
        let is_kept = self.visit.as_ref().is_some_and(|it| it.ending == Ending::TakenOver)
            && self.visits.front().is_some_and(|next| next.opening == right)
            && self.stage == Stage::Acting
            && self.session.token.is_some();
        if let Some(mut link) = self.link.take_if(|link| is_kept && !link.has_ended()) {
            link.read(Reading::Eager);
            self.former = Some(FormerLink { link, taken_over_at: None });
        }
    }

    /// Checks that an earlier connection ends once its session continues on this one.
    fn check_former(&mut self, rules: &Rules) -> Result<(), String> {
        let Some(former) = &mut self.former else { return Ok(()) };
        // What was on its way is repeated on the other connection.
        former.link.receive(&mut self.random)?;
        let is_answered = self.session.phase == Phase::Ready;
        let is_resumed = is_answered && self.session.is_resumed;
        if is_resumed {
            former.taken_over_at.get_or_insert(rules.now);
        }
        let may_last = rules.may_break || rules.is_draining || rules.may_idle_out || self.is_slow;
        let since = former.taken_over_at.filter(|_| !may_last);
        if since.is_some_and(|since| rules.now > since.after(WAIT_MAX / 2)) {
            return Err(format!("an earlier connection stays open: {}", former.link.describe()));
        }
        // It may end before the acknowledgement comes.
        let is_over = former.link.is_over();
        if is_answered && (is_over || !is_resumed) {
            self.totals.taken_over += u64::from(is_over && is_resumed);
            former.link.close(false, &mut self.random);
            self.former = None;
        }
        Ok(())
    }

    /// Leaves, or makes another connection if a stream is open.
    pub(super) fn leave_or_recover(&mut self, rules: &Rules) -> Option<Visit> {
        let is_recoverable = self.session.token.is_some() && self.session.has_open_streams();
        if rules.is_draining || !is_recoverable || self.recoveries >= RECOVERIES_MAX {
            self.stage = Stage::Over;
            return None;
        }
        self.recoveries += 1;
        let carriers = [Carrier::Tcp, Carrier::WebSocket, Carrier::Http];
        let carrier = carriers[self.random.below(3)];
        Some(Visit::new(carrier, Opening::Resume(ResumeKind::Right), &[Action::Await]))
    }

    /// Changes how it reads.
    pub(super) fn read(&mut self, reading: Reading) {
        self.is_slow |= reading != Reading::Eager;
        if let Some(link) = &mut self.link {
            link.read(reading);
        }
    }
}

/// A connection whose session continues on another one.
#[derive(Debug)]
struct FormerLink {
    link: Link,
    taken_over_at: Option<Instant>,
}

/// Returns whether a server that drains refuses a connection, before it knows the dialect.
fn is_refusal(text: &[u8]) -> bool {
    let message: Value = serde_json::from_slice(text).unwrap_or_default();
    message["jsonrpc"] == "2.0" && message["error"]["code"] == CONNECTION_LIMIT
}

/// Returns whether a message acknowledges a handshake.
fn is_ack(text: &[u8]) -> bool {
    memchr::memmem::find(text, br#""type":"handshakeAck""#).is_some()
}

/// Returns `resumed` of an acknowledgement.
fn acked(text: &[u8]) -> Option<bool> {
    let message: Value = serde_json::from_slice(text).ok()?;
    message["resumed"].as_bool().filter(|_| is_ack(text))
}

/// How long a response may take.
const WAIT_MAX: Duration = Duration::from_secs(8);
/// How long the end of a token may take: tokens are checked at intervals.
const EXPIRY_MAX: Duration = Duration::from_secs(15);
/// How long the end of a silent connection may take.
const SILENCE_MAX: Duration = Duration::from_secs(8);
/// Connections made only because streams are open.
const RECOVERIES_MAX: u32 = 6;
