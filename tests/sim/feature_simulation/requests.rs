//! Messages that the actions of a client send, each recorded with its expected response.

use corelane_base::time::Instant;
use serde_json::{Value, json};

use crate::feature_simulation::action::{Action, TaskChoice};
use crate::feature_simulation::client::SimClient;
use crate::feature_simulation::messages::{self, ReplyKind};
use crate::feature_simulation::request_expectation::RequestExpectation;
use crate::feature_simulation::shared_model::SharedModel;

impl SimClient {
    /// Performs an action that sends messages, if the client's revision supports it.
    pub(super) fn send_action(&mut self, action: Action, now: Instant, model: &mut SharedModel) {
        let is_modern = self.profile.revision.is_modern();
        match action {
            Action::Call(tool) => self.call_with_state(tool, None, now),
            Action::CallAsTask(tool) => self.call_as_task(tool, now),
            Action::Respond(reply) => self.respond(reply, model),
            Action::RespondAgain if !self.answered_requests.is_empty() => {
                let question =
                    self.answered_requests[self.random.below(self.answered_requests.len())].clone();
                self.send(&messages::client_response(&question, ReplyKind::Accept, "twice"));
            }
            Action::Retry(_) | Action::RetryWithoutResponses | Action::ReplayState if is_modern => {
                self.retry_call(action, now, model);
            }
            Action::CancelCall => {
                let waiting: Vec<u64> = self.checker.unanswered_requests().collect();
                self.cancel_request(&waiting);
            }
            Action::CancelStream => {
                let streams: Vec<u64> = self.checker.open_streams().collect();
                self.cancel_request(&streams);
            }
            Action::GetTask(whose) => self.request_task("tasks/get", whose, now, model),
            Action::CancelTask(whose) => self.request_task("tasks/cancel", whose, now, model),
            Action::UpdateTask(reply) if is_modern => self.update_task(reply, now, model),
            Action::AwaitTaskResult if self.has_core_tasks() => {
                self.request_task("tasks/result", TaskChoice::Any, now, model);
            }
            Action::Listen if is_modern => self.open_stream(now, model),
            Action::Subscribe | Action::Unsubscribe if !is_modern => {
                self.change_subscription(action, now);
            }
            Action::TouchResource => self.call_tool("touch", now),
            Action::ChangeCatalog => self.call_tool("vary", now),
            Action::Ping => self.ping(now),
            _ => {}
        }
    }

    pub(super) fn initialize(&mut self, now: Instant) {
        let id = self.new_id();
        self.checker.record_request(id, "initialize", now);
        self.send(&messages::initialize(id, self.profile.revision));
        self.checker.record_initialized();
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    pub(super) fn ping(&mut self, now: Instant) {
        let is_modern = self.profile.revision.is_modern();
        let method = if is_modern { "server/discover" } else { "ping" };
        self.send_request(method, json!({}), now);
    }

    fn call_tool(&mut self, tool: &'static str, now: Instant) {
        let uri = messages::RESOURCES[self.random.below(messages::RESOURCES.len())];
        self.send_request("tools/call", json!({"name": tool, "arguments": {"uri": uri}}), now);
    }

    fn call_with_state(
        &mut self,
        tool: &'static str,
        more: Option<(Value, RequestExpectation)>,
        now: Instant,
    ) {
        let mut params = json!({"name": tool, "arguments": {}});
        let mut expectation = RequestExpectation::Call { tool, state: None, texts: Vec::new() };
        if let Some((extras, why)) = more {
            params["requestState"] = extras["requestState"].clone();
            params["inputResponses"] = extras["inputResponses"].clone();
            expectation = why;
        }
        let id = self.send_request("tools/call", params, now);
        self.expectations.insert(id, expectation);
    }

    fn call_as_task(&mut self, tool: &'static str, now: Instant) {
        if !self.profile.revision.is_modern() && !self.has_core_tasks() {
            return;
        }
        let seconds = [0.0, 0.01, 0.2, 3.0][self.random.below(4)];
        let arguments = match tool {
            "confirm_delete" => json!({"filename": "nothing"}),
            "slow_compute" => json!({"seconds": seconds}),
            _ => json!({}),
        };
        let mut params = json!({"name": tool, "arguments": arguments});
        if self.has_core_tasks() {
            let ttl = [Value::Null, json!(1), json!(1500)][self.random.below(3)].clone();
            params["task"] = if ttl.is_null() { json!({}) } else { json!({"ttl": ttl}) };
        }
        let id = self.send_request("tools/call", params, now);
        self.expectations
            .insert(id, RequestExpectation::Call { tool, state: None, texts: Vec::new() });
    }

    fn respond(&mut self, reply: ReplyKind, model: &mut SharedModel) {
        if self.client_requests.is_empty() {
            return;
        }
        let question = self.client_requests.remove(self.random.below(self.client_requests.len()));
        model.totals.client_responses += 1;
        self.send(&messages::client_response(&question, reply, "a legacy word"));
        self.answered_requests.push(question);
    }

    /// Calls again with a state of any connection: one not sent yet, or a replay.
    fn retry_call(&mut self, action: Action, now: Instant, model: &mut SharedModel) {
        let is_replay = action == Action::ReplayState;
        let states = model.states.iter().filter(|(_, state)| (state.uses > 0) == is_replay);
        let states: Vec<&String> = states.map(|(text, _)| text).collect();
        if states.is_empty() {
            return;
        }
        let text = states[self.random.below(states.len())].clone();
        let Some(state) = model.use_state(&text) else { return };
        let word = format!("word {} of {}", self.last_id, self.profile.number);
        let reply = if let Action::Retry(reply) = action { reply } else { ReplyKind::Accept };
        let (mut words, mut answers) = (state.expected_texts, json!({}));
        if action != Action::RetryWithoutResponses {
            answers = messages::input_responses(&state.input_requests, reply, &word);
            let questions = state.input_requests.as_object().into_iter().flatten();
            let is_text_requested =
                questions.into_iter().any(|(_, asked)| messages::requests_text(asked));
            if reply == ReplyKind::Accept && is_text_requested {
                words.push(word);
            }
        }
        let extras = json!({"requestState": text, "inputResponses": answers});
        let expectation =
            RequestExpectation::Call { tool: state.tool, state: Some(text), texts: words };
        self.call_with_state(state.tool, Some((extras, expectation)), now);
    }

    fn cancel_request(&mut self, ids: &[u64]) {
        if ids.is_empty() {
            return;
        }
        let id = ids[self.random.below(ids.len())];
        self.checker.record_cancellation(id);
        self.send(&messages::cancelled(id));
    }

    fn request_task(
        &mut self,
        method: &'static str,
        whose: TaskChoice,
        now: Instant,
        model: &mut SharedModel,
    ) {
        if !self.profile.revision.is_modern() && !self.has_core_tasks() {
            return;
        }
        let Some((task, expectation)) = self.choose_task(whose, model) else { return };
        let id = self.send_request(method, json!({"taskId": task}), now);
        self.expectations.insert(id, expectation);
    }

    fn choose_task(
        &mut self,
        whose: TaskChoice,
        model: &mut SharedModel,
    ) -> Option<(String, RequestExpectation)> {
        if whose == TaskChoice::Unknown {
            let name = format!("{:032x}", self.random.next_u64());
            return Some((name, RequestExpectation::Refused));
        }
        let is_ours = self.profile.revision.is_modern() == (whose == TaskChoice::Any);
        let tasks = model.tasks.iter().filter(|(_, task)| task.is_modern == is_ours);
        let tasks: Vec<&String> = tasks.map(|(id, _)| id).collect();
        let count = tasks.len();
        let id = (*tasks.get(self.random.below(count.max(1)))?).clone();
        let is_own = self.checker.has_created(&id);
        model.totals.tasks_accessed_elsewhere += u64::from(!is_own);
        let is_known = whose == TaskChoice::Any;
        let expectation = if is_known {
            RequestExpectation::Task(id.clone())
        } else {
            RequestExpectation::Refused
        };
        Some((id, expectation))
    }

    fn update_task(&mut self, reply: ReplyKind, now: Instant, model: &mut SharedModel) {
        let Some((task, expectation)) = self.choose_task(TaskChoice::Any, model) else { return };
        let questions = &model.tasks[&task].input_requests;
        let mut answers = messages::input_responses(questions, reply, "word");
        if self.random.chance(1, 4) {
            answers["extra inputs"] = json!({"action": "accept"});
        }
        model.totals.client_responses += u64::from(questions.is_object());
        let params = json!({"taskId": task, "inputResponses": answers});
        let id = self.send_request("tasks/update", params, now);
        self.expectations.insert(id, expectation);
    }

    fn open_stream(&mut self, now: Instant, model: &SharedModel) {
        let id = self.new_id();
        let mut tasks = Vec::new();
        for (task, _) in model.tasks.iter().filter(|(_, task)| task.is_modern) {
            if self.random.chance(1, 2) && tasks.len() < 8 {
                tasks.push(task);
            }
        }
        let requested = messages::draw_filter(&mut self.random, &tasks);
        self.checker.record_listen(id, &requested, now);
        let params = json!({"notifications": requested});
        self.send(&messages::request(id, "subscriptions/listen", params, self.profile.revision));
    }

    fn change_subscription(&mut self, action: Action, now: Instant) {
        let (id, uri) =
            (self.new_id(), messages::RESOURCES[self.random.below(messages::RESOURCES.len())]);
        let method = if action == Action::Subscribe {
            self.checker.record_subscribe(id, uri, now);
            "resources/subscribe"
        } else {
            self.checker.record_unsubscribe(id, uri, now);
            "resources/unsubscribe"
        };
        self.send(&messages::request(id, method, json!({"uri": uri}), self.profile.revision));
    }

    fn has_core_tasks(&self) -> bool {
        self.profile.revision.dialect().core_tasks
    }

    const fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn send_request(&mut self, method: &'static str, params: Value, now: Instant) -> u64 {
        let id = self.new_id();
        self.checker.record_request(id, method, now);
        self.send(&messages::request(id, method, params, self.profile.revision));
        id
    }

    fn send(&mut self, message: &Value) {
        self.complete_since = None;
        self.unsent.extend(format!("{message}\n").bytes());
    }
}
