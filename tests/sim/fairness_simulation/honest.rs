//! Clients that do one call at a time, and again from the beginning if they find no place.

use std::collections::VecDeque;
use std::time::Duration;

use corelane::Transport;
use corelane::internal::PlaceKind;
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::World;
use serde_json::{Value, json};

use crate::fairness_simulation::checker::FairnessChecker;
use crate::fairness_simulation::link::{Link, Reply};
use crate::fairness_simulation::messages::{self, Envelope, encode};
use crate::fairness_simulation::plan::{HonestKind, HonestPlan, TASK_TTL};

/// A message of a call, and what it waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Initialize,
    Initialized,
    Handshake,
    Listen,
    Call,
    CreateTask,
    GetTask,
}

/// What a reply means.
enum Meaning {
    /// The step is done.
    Done,
    /// It belongs to another step.
    Other,
    /// The step is repeated.
    Again,
    /// There is no place.
    NoPlace,
    /// The place of this kind is lost.
    Lost(PlaceKind),
    Wrong,
}

/// An honest client.
pub(crate) struct HonestClient<'a> {
    plan: &'a HonestPlan,
    is_newcomer: bool,
    random: Random,
    link: Option<Link>,
    /// A request over the present connection has its result.
    is_served: bool,
    session: Option<String>,
    task: Option<String>,
    /// The steps of the call that follow.
    steps: VecDeque<Step>,
    /// The one that waits for a reply.
    waiting: Option<Step>,
    /// When the present call began.
    began: Option<Instant>,
    last_use: Instant,
    next_at: Option<Instant>,
    last_id: u64,
    pub(crate) calls: u64,
    pub(crate) begun_again: u64,
}

impl<'a> HonestClient<'a> {
    pub(crate) const fn new(plan: &'a HonestPlan, is_newcomer: bool, random: Random) -> Self {
        Self {
            plan,
            is_newcomer,
            random,
            link: None,
            is_served: false,
            session: None,
            task: None,
            steps: VecDeque::new(),
            waiting: None,
            began: None,
            last_use: Instant::ORIGIN,
            next_at: Some(Instant::ORIGIN.after(plan.arrives_at)),
            last_id: 0,
            calls: 0,
            begun_again: 0,
        }
    }

    /// Returns when something is due.
    pub(crate) const fn next_due(&self) -> Option<Instant> {
        self.next_at
    }

    /// Returns whether it waits for a result.
    pub(crate) const fn is_calling(&self) -> bool {
        self.began.is_some()
    }

    pub(crate) fn describe(&self) -> String {
        let Self { plan, session, waiting, began, begun_again, calls, .. } = self;
        let (kind, address) = (plan.kind, plan.address);
        format!(
            "{kind:?} of {address}: {calls} calls, {begun_again} begun again, \
             waits for {waiting:?} since {began:?}, session {session:?}"
        )
    }

    /// Closes its connection, and does nothing more.
    pub(crate) fn leave(&mut self) {
        self.next_at = None;
        self.link.take().inspect(Link::close);
    }

    /// Reads replies and sends what is due.
    ///
    /// # Errors
    ///
    /// A violated rule.
    pub(crate) fn turn(
        &mut self,
        world: &World,
        checker: &mut FairnessChecker,
        now: Instant,
    ) -> Result<(), String> {
        if let Some(began) = self.began {
            checker.check_call(began, self.is_newcomer, now)?;
        }
        while let Some(reply) = self.link.as_mut().map_or(Ok(None), Link::next_reply)? {
            self.handle(&reply, checker, now)?;
        }
        if self.link.as_ref().is_some_and(Link::has_ended) {
            self.lose_connection(checker, now)?;
        }
        if self.next_at.is_some_and(|at| at <= now) {
            self.next_at = None;
            self.act(world, now);
        }
        Ok(())
    }

    fn act(&mut self, world: &World, now: Instant) {
        if self.waiting.is_none() && self.steps.is_empty() {
            self.began.get_or_insert(now);
            let is_new = self.link.is_none();
            if is_new {
                let transport = self.transport();
                self.link = Some(Link::open(world, self.plan.address, transport));
                self.is_served = false;
            }
            self.steps = self.script(is_new).iter().copied().collect();
        }
        self.send_next(now);
    }

    const fn transport(&self) -> Transport {
        match self.plan.kind {
            HonestKind::Http | HonestKind::Session | HonestKind::ParityHttp => Transport::Http,
            _ => Transport::Tcp,
        }
    }

    /// Returns the steps of a call, over a new connection or the last one.
    fn script(&self, is_new: bool) -> &'static [Step] {
        use Step::{Call, CreateTask, GetTask, Handshake, Initialize, Initialized, Listen};
        let needs_session = self.session.is_none();
        match self.plan.kind {
            HonestKind::LegacyTcp if is_new => &[Initialize, Initialized, Call],
            HonestKind::Session if needs_session => &[Initialize, Initialized, Call],
            HonestKind::ParityTcp if is_new => &[Handshake, Call],
            HonestKind::ParityHttp if needs_session => &[Handshake, Call],
            HonestKind::Stream if is_new => &[Listen, Call],
            HonestKind::Task => &[CreateTask, GetTask],
            _ => &[Call],
        }
    }

    fn send_next(&mut self, now: Instant) {
        while self.waiting.is_none()
            && let Some(step) = self.steps.pop_front()
        {
            self.last_id += 1;
            self.last_use = now;
            let bytes = self.message(step);
            if let Some(link) = &self.link {
                link.send(&bytes);
            }
            let has_reply = step != Step::Initialized || self.transport() == Transport::Http;
            self.waiting = has_reply.then_some(step);
        }
    }

    fn message(&self, step: Step) -> Vec<u8> {
        let (id, token) = (self.last_id, self.plan.token.as_deref());
        let text = format!("call {id}");
        let session = self.session.as_deref();
        let is_parity = matches!(self.plan.kind, HonestKind::ParityTcp | HonestKind::ParityHttp);
        let is_legacy = matches!(self.plan.kind, HonestKind::LegacyTcp | HonestKind::Session);
        let (message, envelope) = match step {
            Step::Initialize => (messages::initialize(), Envelope::Legacy(None)),
            Step::Initialized => (messages::initialized(), Envelope::Legacy(session)),
            Step::Handshake => (messages::handshake(), Envelope::Parity(None)),
            Step::Call if is_parity => {
                let call = messages::parity(id, "tools/call", &messages::echo(&text));
                (call, Envelope::Parity(session))
            }
            Step::Call if is_legacy => {
                let call = messages::legacy(id, "tools/call", messages::echo(&text));
                (call, Envelope::Legacy(session))
            }
            Step::Call => {
                (messages::modern(id, "tools/call", messages::echo(&text)), Envelope::Modern)
            }
            Step::Listen => {
                let params = messages::listen(1, 8, u64::from(self.plan.token.is_some()));
                (messages::modern(id, "subscriptions/listen", params), Envelope::Modern)
            }
            Step::CreateTask => {
                (messages::modern(id, "tools/call", messages::task(false)), Envelope::Modern)
            }
            Step::GetTask => {
                let params = json!({"taskId": self.task});
                (messages::modern(id, "tasks/get", params), Envelope::Modern)
            }
        };
        encode(message, self.transport(), envelope, token)
    }

    fn handle(
        &mut self,
        reply: &Reply,
        checker: &mut FairnessChecker,
        now: Instant,
    ) -> Result<(), String> {
        match self.meaning(reply) {
            Meaning::Other => {}
            Meaning::Done => {
                self.last_use = now;
                self.is_served = true;
                self.waiting = None;
                if self.steps.is_empty() {
                    self.end_call(checker, now)?;
                } else {
                    self.send_next(now);
                }
            }
            Meaning::Again => {
                self.steps.extend(self.waiting.take());
                self.next_at = Some(now.after(POLL_PAUSE));
            }
            Meaning::NoPlace => self.begin_again(now),
            Meaning::Lost(kind) => {
                checker.check_loss(kind, self.plan.address, now.since(self.last_use))?;
                self.session = None;
                self.begin_again(now);
            }
            Meaning::Wrong => return Err(format!("wrong reply to {:?}: {reply:?}", self.waiting)),
        }
        Ok(())
    }

    fn meaning(&mut self, reply: &Reply) -> Meaning {
        let Reply { status, session, message } = reply;
        let code = &message["error"]["code"];
        let is_refused = matches!(*status, 429 | 503)
            || [json!(1001), json!(1002), json!(-32603), json!("error.rate_limited")]
                .contains(code);
        // Over TCP a first message with a token is answered before it is known that no place is
        // free.
        let is_first = self.plan.token.is_some()
            && self.transport() == Transport::Tcp
            && *code == 1001
            && message["error"]["message"].as_str().is_some_and(|text| text.starts_with(REFUSAL));
        if is_refused && self.is_served && !self.takes_place() && !is_first {
            return Meaning::Lost(PlaceKind::Connection(self.transport()));
        }
        if is_refused {
            return Meaning::NoPlace;
        }
        let Some(step) = self.waiting else { return Meaning::Other };
        if *status == 404 && self.session.is_some() {
            let is_parity = self.plan.kind == HonestKind::ParityHttp;
            return Meaning::Lost(if is_parity {
                PlaceKind::ParitySession
            } else {
                PlaceKind::Session
            });
        }
        if self.transport() == Transport::Tcp && !is_reply(step, message) {
            return Meaning::Other;
        }
        let result = &message["result"];
        let is_right = match step {
            Step::Initialize => {
                self.session.clone_from(session);
                !result["protocolVersion"].is_null()
            }
            Step::Initialized => *status == 202,
            Step::Handshake => {
                self.session.clone_from(session);
                message["type"] == "handshakeAck"
            }
            Step::Listen => true,
            Step::Call => result["content"][0]["text"] == format!("call {}", self.last_id),
            Step::CreateTask => {
                self.task = result["taskId"].as_str().map(str::to_owned);
                self.task.is_some()
            }
            Step::GetTask if code == -32602 => return Meaning::Lost(PlaceKind::Task),
            Step::GetTask if result["status"] == "working" => return Meaning::Again,
            Step::GetTask => result["status"] == "completed",
        };
        if is_right { Meaning::Done } else { Meaning::Wrong }
    }

    /// Returns whether the step that waits takes a place beside that of the connection.
    const fn takes_place(&self) -> bool {
        matches!(
            self.waiting,
            Some(Step::Initialize | Step::Handshake | Step::Listen | Step::CreateTask)
        )
    }

    /// The connection has ended: at its beginning because there is no place.
    fn lose_connection(&mut self, checker: &FairnessChecker, now: Instant) -> Result<(), String> {
        if self.is_served {
            let kind = PlaceKind::Connection(self.transport());
            checker.check_loss(kind, self.plan.address, now.since(self.last_use))?;
        }
        if self.began.is_some() {
            self.begin_again(now);
        } else {
            self.link.take().inspect(Link::close);
        }
        Ok(())
    }

    /// Tries the call again over a new connection, after a pause.
    fn begin_again(&mut self, now: Instant) {
        self.begun_again += 1;
        self.link.take().inspect(Link::close);
        self.steps.clear();
        self.waiting = None;
        let pause = Duration::from_millis(10 + self.random.below(40) as u64);
        self.next_at = Some(now.after(pause));
    }

    fn end_call(&mut self, checker: &mut FairnessChecker, now: Instant) -> Result<(), String> {
        self.calls += 1;
        if let Some(began) = self.began.take() {
            checker.check_call(began, self.is_newcomer, now)?;
        }
        self.is_newcomer = false;
        let pause = self.random.below(self.plan.pause_max.as_micros() as usize);
        let mut pause = Duration::from_micros(pause as u64);
        if self.plan.kind == HonestKind::Task {
            // Its only place may be that of the last task.
            pause += TASK_TTL + POLL_PAUSE;
        }
        self.next_at = Some(now.after(pause));
        if self.random.chance(1, self.plan.close_chance) {
            self.link.take().inspect(Link::close);
        }
        Ok(())
    }
}

/// Returns whether a message over TCP is the reply to a step.
fn is_reply(step: Step, message: &Value) -> bool {
    match step {
        Step::Listen => message["method"] == "notifications/subscriptions/acknowledged",
        Step::Handshake => message["type"] == "handshakeAck" || message["type"] == "error",
        _ => !message["id"].is_null() || !message["error"].is_null(),
    }
}

/// Beginning of the error that a connection gets which had no place.
const REFUSAL: &str = "connection limit of the server reached";

/// Time between two looks at a task.
const POLL_PAUSE: Duration = Duration::from_millis(5);
