//! One client with all its connections: its actions and their times.
//!
//! [`super::receiver`] checks what arrives. The client drops each connection that the server has
//! closed, and resumes lost streams while it waits for its responses.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use corelane::options::SecondStream;
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::World;
use corelane_protocol::revision::Revision;
use serde_json::Value;

use super::connection::{HttpConnection, HttpRequest, RequestKind};
use super::http_requests::{self, RequestStyle};
use super::tracked_requests::TrackedRequest;
use crate::harness::server::listen_address;
use crate::harness::socket::ClientSocket;
use crate::http_simulation::catalog::CLIENTS_MAX;
use crate::http_simulation::checks::session_checker::SessionChecker;
use crate::http_simulation::checks::shared_model::HttpSharedModel;
use crate::http_simulation::hostile::fault_proxy::HttpFaultProxy;
use crate::http_simulation::plan::HttpAction;
use crate::totals::Totals;

/// What a client has to know of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunConditions {
    /// Idle timeout of sessions; `None` if they may be evicted at any time.
    pub(crate) session_ttl: Option<Duration>,
    /// The outgoing buffer of a client is small.
    pub(crate) has_small_buffers: bool,
    /// The server may drop old events.
    pub(crate) may_drop_events: bool,
    /// A call may exceed the limit of requests in flight.
    pub(crate) may_exceed_in_flight: bool,
    /// The memory limit may be reached.
    pub(crate) may_exhaust_memory: bool,
    /// Connections may break without cause.
    pub(crate) may_break: bool,
    pub(crate) is_draining: bool,
    /// What happens to the general streams of a session when another one opens.
    pub(crate) second_stream: SecondStream,
    /// Revision of a strict server.
    pub(crate) strict_revision: Option<Revision>,
}

impl RunConditions {
    /// Returns whether messages may be lost for good in either direction.
    pub(super) const fn may_lose(&self) -> bool {
        self.is_draining || self.may_drop_events || self.may_break
    }
}

#[derive(Debug)]
pub(crate) struct HttpClient {
    pub(super) number: u32,
    pub(super) random: Random,
    pub(super) sessions: Vec<SessionChecker>,
    /// Index of its current session.
    pub(super) current_session: Option<usize>,
    pub(super) connections: Vec<HttpConnection>,
    /// Client requests to respond to, with their session.
    pub(super) client_requests: Vec<(usize, Value)>,
    pub(super) is_slow: bool,
    /// The outgoing buffer of the client is small.
    pub(super) has_small_buffers: bool,
    /// It stopped reading at some time.
    pub(super) has_stopped_reading: bool,
    pub(super) totals: Totals,
    pub(super) digest: u64,
    /// A session for which `notifications/initialized` is due.
    pub(super) initialized_due: Option<usize>,
    pub(super) shared_model: Rc<RefCell<HttpSharedModel>>,
    pub(super) proxy: Rc<RefCell<HttpFaultProxy>>,
    /// A legacy HTTP+SSE session for which `initialize` is due.
    pub(super) initialize_due: Option<usize>,
    /// Revision of a strict server.
    pub(super) strict_revision: Option<Revision>,
    /// Requests whose responses are checked in detail.
    pub(super) tracked_requests: BTreeMap<u64, TrackedRequest>,
    /// Catalog version in the last response.
    pub(super) seen_version: Option<u64>,
    pub(super) last_id: u64,
    actions: VecDeque<HttpAction>,
    next_action: Instant,
    is_awaiting_responses: bool,
    ended_at: Option<Instant>,
}

impl HttpClient {
    pub(crate) fn new(
        number: u32,
        actions: Vec<HttpAction>,
        is_slow: bool,
        random: Random,
        shared_model: Rc<RefCell<HttpSharedModel>>,
        proxy: Rc<RefCell<HttpFaultProxy>>,
        now: Instant,
    ) -> Self {
        Self {
            number,
            random,
            sessions: Vec::new(),
            current_session: None,
            connections: Vec::new(),
            client_requests: Vec::new(),
            is_slow,
            has_small_buffers: false,
            has_stopped_reading: false,
            totals: Totals::default(),
            digest: 0,
            initialized_due: None,
            shared_model,
            proxy,
            initialize_due: None,
            strict_revision: None,
            tracked_requests: BTreeMap::new(),
            seen_version: None,
            actions: actions.into(),
            next_action: now,
            last_id: 1_000 * u64::from(number),
            is_awaiting_responses: false,
            ended_at: None,
        }
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.ended_at.is_some()
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = &SessionChecker> {
        self.sessions.iter()
    }

    pub(crate) const fn totals(&self) -> Totals {
        self.totals
    }

    /// Hash of what it received and when.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Describes its state for a failure report.
    pub(crate) fn describe(&self) -> String {
        let Self {
            number,
            current_session: session,
            is_slow,
            last_id: ids,
            actions,
            sessions: checkers,
            ..
        } = self;
        let lines: Vec<String> =
            self.connections.iter().map(|line| format!("\n  {line}")).collect();
        let checkers: Vec<String> =
            checkers.iter().map(|checker| format!("\n  {checker:?}")).collect();
        format!(
            "client {number} in {session:?} (slow {is_slow}), {ids} sent, to do {actions:?}{}{}",
            lines.concat(),
            checkers.concat(),
        )
    }

    /// Returns when it does something by itself.
    pub(crate) fn next_action(&self) -> Option<Instant> {
        let waits =
            self.connections.iter().filter(|line| line.is_waiting() && !line.is_reading_stopped);
        let limit = waits.map(|line| line.waiting_since.after(RESPONSE_MAX)).min();
        let action = (!self.is_awaiting_responses).then_some(self.next_action);
        let pair = self.oldest_legacy_sse_request().map(|since| since.after(RESPONSE_MAX));
        let pair = pair
            .filter(|_| self.is_awaiting_responses && !self.is_slow && !self.has_stopped_reading);
        [limit, action, pair].into_iter().flatten().min().filter(|_| !self.is_over())
    }

    /// Receives what has arrived, then performs what is due.
    ///
    /// # Errors
    ///
    /// Describes the violated rule.
    pub(crate) fn turn(
        &mut self,
        world: &World,
        now: Instant,
        facts: RunConditions,
    ) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        (self.has_small_buffers, self.strict_revision) =
            (facts.has_small_buffers, facts.strict_revision);
        self.receive_all(now, facts).map_err(|what| format!("{what}; {}", self.describe()))?;
        if let Some(session) = self.initialized_due.take() {
            self.send_message(HttpAction::Initialize, session, world, now);
        }
        if let Some(session) = self.initialize_due.take() {
            self.initialize_legacy_sse(session, world, now);
        }
        while !self.is_over() && self.next_action <= now {
            let Some(action) = self.actions.pop_front() else {
                self.close(now);
                break;
            };
            if action == HttpAction::AwaitResponses && !self.await_responses(world, now, facts) {
                self.actions.push_front(action);
                self.is_awaiting_responses = true;
                break;
            }
            self.is_awaiting_responses = false;
            self.perform(action, world, now);
        }
        if self.is_legacy_sse_late(now, facts, RESPONSE_MAX) {
            return Err(format!("a posted request has no response; {}", self.describe()));
        }
        let late = self.connections.iter().find(|line| {
            line.is_waiting()
                && !line.is_reading_stopped
                && !self.is_slow
                && now >= line.waiting_since.after(RESPONSE_MAX)
        });
        match late.filter(|_| !facts.is_draining) {
            Some(line) => {
                Err(format!("{:?} has no response; {}", line.requests[0], self.describe()))
            }
            None => Ok(()),
        }
    }

    fn close(&mut self, now: Instant) {
        for line in &self.connections {
            self.totals.clients_vanished += u64::from(!line.requests.is_empty());
            line.socket.close();
        }
        self.ended_at = Some(now);
    }

    /// Returns whether every possible response has arrived; resumes lost streams.
    fn await_responses(&mut self, world: &World, now: Instant, facts: RunConditions) -> bool {
        for place in 0..self.connections.len() {
            self.resume_reading(place, now);
        }
        if self.connections.iter().any(HttpConnection::is_waiting) {
            return false;
        }
        // Responses that a slow client or one that has shut down may miss are not required.
        let is_required = !self.is_slow && !self.has_stopped_reading && !facts.may_lose();
        let is_required =
            is_required && self.connections.iter().all(|line| !line.is_write_shut_down);
        if is_required && self.oldest_legacy_sse_request().is_some() {
            return false;
        }
        let mut lost = self.sessions.iter().enumerate().filter(|(_, checker)| {
            checker.gone_since.is_none() && !checker.is_deleted && !facts.is_draining
        });
        let lost =
            lost.find_map(|(place, checker)| Some((place, *checker.resumable_streams().first()?)));
        let Some((session, seen)) = lost else { return true };
        self.resume_stream(session, seen, world, now);
        false
    }

    fn perform(&mut self, action: HttpAction, world: &World, now: Instant) {
        let session = self.current_session;
        let is_pair = session.is_some_and(|session| self.sessions[session].is_legacy_sse());
        match (action, session) {
            (
                HttpAction::OpenGeneralStream
                | HttpAction::ResumeStream
                | HttpAction::DeleteSession,
                _,
            ) if is_pair => {}
            (HttpAction::LegacySse, _) => self.open_legacy_sse(world, now),
            (HttpAction::Wait(span), _) => self.next_action = now.after(span),
            (HttpAction::Initialize, _) => self.initialize(world, now),
            (HttpAction::ModernCall, _) => self.call_work_modern(world, now),
            (HttpAction::OpenSubscription, _) => self.open_subscription(world, now),
            (HttpAction::PlainRequest, _) => self.send_plain_request(world, now),
            (HttpAction::Burst, _) => self.send_pipelined(world, now),
            (HttpAction::Discover, _) => self.discover(world, now),
            (HttpAction::TaskRequest, session) => self.send_task_request(session, world, now),
            (HttpAction::ChangeCatalog, session) => self.change_catalog(session, world, now),
            (HttpAction::Batch, Some(session)) => self.send_batch(session, world, now),
            (HttpAction::CutConnection, _) => self.cut_connection(),
            (
                HttpAction::ShutdownWrite | HttpAction::StopReading | HttpAction::ResumeReading,
                _,
            ) => self.change_connection(action, now),
            (HttpAction::Work, Some(session)) => self.call_work(session, world, now),
            (HttpAction::SubscribeResource, Some(session)) => {
                let params = http_requests::subscribe_params(self.number);
                self.send_request(
                    session,
                    "resources/subscribe",
                    params,
                    Duration::ZERO,
                    world,
                    now,
                );
            }
            (HttpAction::TouchResource, Some(session)) => {
                let params =
                    http_requests::touch_params(self.random.below(CLIENTS_MAX as usize) as u32);
                self.send_request(session, "tools/call", params, Duration::ZERO, world, now);
            }
            (HttpAction::OpenGeneralStream, Some(session)) => {
                self.open_general_stream(session, world, now);
            }
            (HttpAction::ResumeStream, Some(session)) => {
                let known = self.sessions[session].streams.iter();
                let known = known.filter(|(_, stream)| !stream.is_lost && stream.last_event() > 0);
                let known: Vec<_> = known.map(|(number, it)| (*number, it.last_event())).collect();
                if !known.is_empty() {
                    let last = known[self.random.below(known.len())];
                    self.resume_stream(session, last, world, now);
                }
            }
            (HttpAction::DeleteSession, Some(session)) => {
                self.delete_session(session, world, now);
            }
            (HttpAction::Notify | HttpAction::Cancel | HttpAction::Respond, Some(session)) => {
                self.send_message(action, session, world, now);
            }
            _ => {}
        }
    }

    fn delete_session(&mut self, session: usize, world: &World, now: Instant) {
        let request = HttpRequest::new(RequestKind::Delete, None, Some(session), now);
        let text = http_requests::session_request(
            "DELETE",
            self.sessions[session].name(),
            None,
            RequestStyle::default(),
        );
        self.send(request, &text, world, now);
        self.sessions[session].is_deleted = true;
    }

    pub(super) fn send(&mut self, asked: HttpRequest, text: &[u8], world: &World, now: Instant) {
        let place = self.pick_connection(world, now);
        let text = self.proxy.borrow().forward_request(text.to_vec());
        self.connections[place].send_request(asked, &text, now);
    }

    /// Returns a connection for the next request: an open one, or a new one.
    pub(super) fn pick_connection(&mut self, world: &World, now: Instant) -> usize {
        let open = self.connections.iter().enumerate().filter(|(_, line)| line.is_open());
        let open: Vec<usize> = open.map(|(place, _)| place).collect();
        if !open.is_empty()
            && (self.random.chance(1, 2) || self.connections.len() > CONNECTIONS_MAX)
        {
            return open[self.random.below(open.len())];
        }
        self.connect(world, now)
    }

    pub(super) fn connect(&mut self, world: &World, now: Instant) -> usize {
        let wire = ClientSocket::stream(world.connect(listen_address()));
        if self.is_slow {
            let bytes = 64 + self.random.below(2_000);
            wire.read_slowly(bytes, Duration::from_micros(1 + self.random.below(800) as u64));
        } else {
            wire.read_eagerly();
        }
        self.connections.push(HttpConnection::new(wire, now));
        self.connections.len() - 1
    }

    /// Closes or resets a connection.
    fn cut_connection(&mut self) {
        if self.connections.is_empty() {
            return;
        }
        let line = self.connections.swap_remove(self.random.below(self.connections.len()));
        self.totals.connections_cut += u64::from(!line.requests.is_empty());
        self.record_closed(&line);
        if self.random.chance(1, 2) { line.socket.reset() } else { line.socket.close() }
    }

    fn change_connection(&mut self, action: HttpAction, now: Instant) {
        if self.connections.is_empty() {
            return;
        }
        let place = self.random.below(self.connections.len());
        let line = &mut self.connections[place];
        match action {
            HttpAction::ShutdownWrite => {
                line.is_write_shut_down = true;
                line.socket.shut_down_write();
            }
            HttpAction::StopReading => {
                line.is_reading_stopped = true;
                self.has_stopped_reading = true;
                line.socket.stop_reading();
            }
            _ => self.resume_reading(place, now),
        }
    }

    fn resume_reading(&mut self, place: usize, now: Instant) {
        let line = &mut self.connections[place];
        if std::mem::take(&mut line.is_reading_stopped) {
            line.socket.read_eagerly();
            line.waiting_since = now;
        }
    }

    pub(super) const fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

/// How long a response may take: a call, a client request in it, and delays.
const RESPONSE_MAX: Duration = Duration::from_millis(1_500);
/// Limit of the connections that a client opens by choice.
const CONNECTIONS_MAX: usize = 5;
