//! The `[[scenario]]` sections of a plan: users that execute steps in order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::human_duration::HumanDuration;
use super::oauth::{OAuthPlan, user_column};
use super::stages::{LevelKeys, StagePlan};
use super::think::ThinkPlan;
use super::{CallPlan, PlanError};
use crate::mcp::{RequestSettings, RequestTemplate, UserData, ValueNames};
use crate::schedule::ArrivalPattern;
use crate::sign_in::SignInConfig;
use crate::target::Transport;
use crate::users::{
    Cancel, Condition, Instruction, Pause, ResultPointer, Scenario, Step, Take, ThinkTime,
    UsersConfig,
};

/// How often a step with `while` and without `repeat` is executed at most.
const WHILE_MAX: u32 = 100;
/// How often a task is polled at most.
const POLLS_MAX: u32 = 10_000;
/// Time after which a request is cancelled, by default.
const CANCEL_AFTER: HumanDuration = HumanDuration::from_secs(0);

/// Users that do the same: each has a connection with a session of its own, executes the steps in
/// order, and begins again. A step that fails ends the iteration.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioPlan {
    /// Name in results. Default: `scenario` and its number, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of users at a time; with `rate` the most at a time, with `stages` those at the
    /// beginning. With `users` of the plan or `--users` it is a weight. Default 1, with `stages` 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<usize>,
    /// Share of the users of the plan, in proportion to the weights of the other scenarios. Default
    /// `users`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<usize>,
    /// Users that arrive a second, whether or not earlier ones have ended: each takes a free
    /// connection, executes the steps once, and leaves, as with `leave`. One that finds none waits,
    /// which its first response time includes; if the number of these grows, the run fails. Needs
    /// `users`. Default: users come again as soon as they have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Time in which the users begin one after another, or `rate` rises from 0; the warm-up is a
    /// part of it. Short for `stages` with one stage. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<HumanDuration>,
    /// How the number of users, or `rate`, changes: `[{ users = 200, over = "1m" }, …]`; the
    /// warm-up is a part of it, and the last one stays. If the number falls, users leave after the
    /// request in flight, and their connections stay closed until it rises. Default: it stays the
    /// same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<StagePlan>>,
    /// Pause before each step without a pause of its own: a time, `{ uniform = [MIN, MAX] }` or
    /// `{ lognormal = [MEDIAN, P95] }`. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkPlan>,
    /// Iterations of a user, after which it ends, or leaves. Default: no limit, with `leave` or
    /// `rate` 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Whether a user leaves after its iterations: its session ends, its connection closes, and a
    /// new user with the next number comes with a new connection. Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub leave: bool,
    /// How often a request is sent again if the server answers with HTTP status 429 or
    /// `data.retryAfterMs`, after the time that it names, else 1 s. Such requests count as
    /// `retried`, and their response time includes the wait. Default 0: they have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// CSV file with data of the users, relative to the plan. Its first line names the columns;
    /// `{{user COLUMN}}` in a step stands for the field of the user's row. Rows are taken in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// Bearer token of each user, over HTTP and WebSocket: `{{user COLUMN}}` of the data. Default:
    /// that of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
    /// How users sign in. Default: `[oauth]` of the plan, unless there is `bearer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthPlan>,
    /// Whether the session of each user opens the event stream of the server with GET, over HTTP
    /// up to 2025-11-25, as official clients do, and keeps it: a further connection and about 850
    /// bytes for each user. Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub event_stream: bool,
    /// The steps of an iteration.
    #[serde(rename = "step")]
    pub steps: Vec<StepPlan>,
}

/// A step: one request, with the keys of `[[call]]` except `weight`; or a block of steps.
///
/// `{{value NAME}}` in it stands for a value that an earlier step has taken; a member whose value
/// was not taken is left out. `{{user}}` and `{{iteration}}` are numbers from 0.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StepPlan {
    /// Name in results. Default: the tool or method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The request.
    #[serde(flatten)]
    pub call: CallPlan,
    /// Pause before the step, from the answer to the request before it. Default: `think` of the
    /// scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkPlan>,
    /// Values taken from the result, by name, each with a JSON pointer into the result, in which
    /// `*` is a random element of an array: `{ tool = "/tools/*/name" }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub take: BTreeMap<String, String>,
    /// How often the step or block is executed; with `while` at most. Default 1, with `while` 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Repeats the step or block while the result of its last request has this: a JSON pointer to
    /// a value other than null, false and an empty text, or `/POINTER=JSON`.
    #[serde(default, rename = "while", skip_serializing_if = "Option::is_none")]
    pub repeat_while: Option<String>,
    /// Executes the step or block only if an earlier step has taken this value: the name of a value
    /// other than null, false and an empty text, or `NAME=JSON`. Default: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Share of the requests that the user cancels, from 0 to 1. They count as `cancelled`, and
    /// the user goes on. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<f64>,
    /// Time from a request to its cancellation. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_after: Option<HumanDuration>,
    /// Requests the call as a task, and polls it until it is complete: `params.task` in 2025-11-25,
    /// and the extension of tasks in 2026-07-28. `take` reads its result. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub task: bool,
    /// The steps of a block, which has no request of its own.
    #[serde(default, rename = "step", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Self>,
}

impl StepPlan {
    /// Returns the values that the step takes.
    fn taken_values(&self) -> Vec<TakenValue<'_>> {
        let step = self.name.as_deref().or(self.call.tool.as_deref());
        let step = step.or(self.call.method.as_deref()).unwrap_or("echo");
        let value = |(name, pointer)| TakenValue { step, name, pointer };
        let texts = self.take.iter().map(|(name, pointer)| (name.as_str(), pointer.as_str()));
        texts.map(value).collect()
    }

    /// Returns the steps with a request, in order.
    fn requests(&self) -> Vec<&Self> {
        match &self.steps[..] {
            [] => vec![self],
            steps => steps.iter().flat_map(Self::requests).collect(),
        }
    }

    /// Returns the steps with a request, in order.
    fn requests_mut(&mut self) -> Vec<&mut Self> {
        if self.steps.is_empty() {
            return vec![self];
        }
        self.steps.iter_mut().flat_map(Self::requests_mut).collect()
    }
}

impl ScenarioPlan {
    /// Returns the requests of its steps, in order.
    pub fn calls_mut(&mut self) -> impl Iterator<Item = &mut CallPlan> {
        self.steps.iter_mut().flat_map(StepPlan::requests_mut).map(|step| &mut step.call)
    }

    /// Returns the steps with a request, in order.
    fn requests(&self) -> impl Iterator<Item = &StepPlan> {
        self.steps.iter().flat_map(StepPlan::requests)
    }

    /// Returns whether a step is a task.
    pub(super) fn has_tasks(&self) -> bool {
        self.requests().any(|step| step.task)
    }

    /// Returns the keys that say how many users there are.
    pub fn level_keys(&self) -> LevelKeys<'_> {
        let &Self { users, rate, ramp, ref stages, .. } = self;
        LevelKeys { users, rate, ramp, stages: stages.as_deref() }
    }

    /// Returns its weight among the scenarios.
    fn weight(&self) -> usize {
        self.weight.unwrap_or_else(|| self.level_keys().users_max())
    }
}

impl Program {
    /// Lets the instruction at `place` skip what was added since.
    fn skip_to_end(&mut self, place: usize) {
        let end = self.instructions.len();
        if let Some(Instruction::SkipUnless { to, .. }) = self.instructions.get_mut(place) {
            *to = end;
        }
    }
}

/// Returns the condition that an earlier step has taken a value: `NAME`, or `NAME=JSON`.
fn value_condition(program: &Program, text: &str) -> Result<Condition, PlanError> {
    let (name, expected) = split_expected(text);
    let slot = program.names.taken.iter().position(|taken| taken == name);
    let slot = slot.ok_or_else(|| PlanError(format!("when = \"{text}\": no step takes {name}")))?;
    Ok(Condition { slot, equals: expected_json("when", text, expected)? })
}

/// Splits a condition from the value that it expects.
fn split_expected(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((what, expected)) => (what, Some(expected)),
        None => (text, None),
    }
}

/// Parses the value that a condition expects.
fn expected_json(
    key: &str,
    text: &str,
    expected: Option<&str>,
) -> Result<Option<Value>, PlanError> {
    expected.map(serde_json::from_str::<Value>).transpose().map_err(|error| {
        PlanError(format!("{key} = \"{text}\": {error}; write JSON behind =, such as \"working\""))
    })
}

/// Returns the call that begins a task. Its result is not that of the tool.
fn task_call(call: &CallPlan, is_modern: bool) -> CallPlan {
    let mut call = CallPlan { output_schema: None, expect: Vec::new(), ..call.clone() };
    let arguments = call.arguments.take().unwrap_or_default();
    let name = call.tool.take().unwrap_or_default();
    let mut params = json!({ "name": name, "arguments": arguments });
    if !is_modern {
        params["task"] = json!({});
    }
    (call.method, call.params) = (Some("tools/call".into()), params.as_object().cloned());
    call
}

/// Returns the number of users of each scenario: `total` in proportion to their weights, or their
/// own.
pub fn user_counts(scenarios: &[ScenarioPlan], total: Option<usize>) -> Vec<usize> {
    let Some(total) = total else {
        return scenarios.iter().map(|scenario| scenario.level_keys().users_max()).collect();
    };
    let all = scenarios.iter().map(ScenarioPlan::weight).sum::<usize>().max(1);
    let (mut weights, mut given) = (0, 0);
    let share = |scenario: &ScenarioPlan| {
        weights += scenario.weight();
        let count = total * weights / all - given;
        given += count;
        count
    };
    scenarios.iter().map(share).collect()
}

/// A value that a step takes from its result.
#[derive(Clone, Copy, Debug)]
pub struct TakenValue<'a> {
    /// Name of the step, tool or method.
    pub step: &'a str,
    /// Name of the value.
    pub name: &'a str,
    /// JSON pointer into the result.
    pub pointer: &'a str,
}

/// Returns the values that the steps take, in order.
pub fn taken_values(scenarios: &[ScenarioPlan]) -> Vec<TakenValue<'_>> {
    let steps = scenarios.iter().flat_map(ScenarioPlan::requests);
    steps.flat_map(StepPlan::taken_values).collect()
}

/// Returns the name of each request of the steps in results.
pub fn step_names(scenarios: &[ScenarioPlan], is_modern: bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        let prefix = match (&scenario.name, scenarios.len()) {
            (Some(name), _) => format!("{name}: "),
            (None, 1) => String::new(),
            (None, _) => format!("scenario {}: ", index + 1),
        };
        for step in scenario.requests() {
            let call = &step.call;
            let own = step.name.as_deref().or(call.tool.as_deref()).or(call.method.as_deref());
            let name = format!("{prefix}{}", own.unwrap_or("echo"));
            let same = names.iter().filter(|other| other.split(" #").next() == Some(&name)).count();
            let name = if same == 0 { name } else { format!("{name} #{}", same + 1) };
            let of_task = ["tasks/get", "tasks/result"].into_iter();
            let of_task = of_task.take(usize::from(step.task) * (2 - usize::from(is_modern)));
            let of_task = of_task.map(|method| format!("{name} {method}")).collect::<Vec<_>>();
            names.push(name);
            names.extend(of_task);
        }
    }
    names
}

/// What the steps of all scenarios are built with.
pub(super) struct ScenarioBuilder<'a> {
    /// Settings of requests.
    pub(super) settings: &'a RequestSettings,
    /// Seed of random values.
    pub(super) seed: u64,
    /// Directory that paths are relative to.
    pub(super) directory: &'a Path,
    /// How users sign in whose scenario does not say it.
    pub(super) oauth: Option<&'a OAuthPlan>,
    /// How users sign in, with the credentials so far.
    pub(super) sign_in: SignInConfig,
    /// The request templates so far.
    pub(super) calls: Vec<(RequestTemplate, u32)>,
    /// Number of values that steps take so far.
    pub(super) takes: usize,
    /// Duration of the run.
    pub(super) span: Duration,
    /// Distribution of users that arrive.
    pub(super) pattern: ArrivalPattern,
}

/// A scenario in construction.
struct Program {
    names: ValueNames,
    instructions: Vec<Instruction>,
    counters: usize,
    /// Pause of steps without one of their own.
    think: ThinkTime,
}

impl ScenarioBuilder<'_> {
    /// Builds the users of the scenarios and adds their request templates.
    ///
    /// # Errors
    ///
    /// If a step is invalid; the message names it.
    pub(super) fn build(
        &mut self,
        scenarios: &[ScenarioPlan],
        users: Option<usize>,
    ) -> Result<UsersConfig, PlanError> {
        let counts = user_counts(scenarios, users);
        let built = scenarios.iter().zip(counts).map(|(scenario, count)| {
            let scenario = self.build_scenario(scenario, count);
            scenario.map_err(|error| PlanError(format!("[[scenario]]: {error}")))
        });
        let scenarios = built.collect::<Result<_, _>>()?;
        let sign_in = Some(&self.sign_in).filter(|sign_in| !sign_in.credentials.is_empty());
        Ok(UsersConfig { scenarios, sign_in: sign_in.cloned(), pattern: self.pattern })
    }

    fn build_scenario(&mut self, plan: &ScenarioPlan, users: usize) -> Result<Scenario, PlanError> {
        if plan.steps.is_empty() {
            return Err(PlanError::new("it has no [[scenario.step]]: add one with a tool"));
        }
        if plan.repeat == Some(0) {
            return Err(PlanError::new("repeat = 0: no step would be executed; write 1 or more"));
        }
        if users == 0 && plan.level_keys().has_arrivals() {
            return Err(PlanError::new("rate: none of the users is for this scenario: use more"));
        }
        if plan.event_stream {
            self.check_event_stream()?;
        }
        let data = plan.data.as_ref().map(|path| UserData::read(&self.directory.join(path)));
        let data = data.transpose().map_err(PlanError)?.map(Arc::new);
        let mut names = ValueNames::default();
        if let Some(data) = &data {
            names.columns = data.columns().to_vec();
        }
        for name in plan.requests().flat_map(|step| step.take.keys()) {
            names.slot(name);
        }
        let bearer = plan.bearer.as_deref();
        let bearer = bearer.map(|text| user_column("bearer", text, &names.columns)).transpose()?;
        if bearer.is_some() {
            self.check_authorization("bearer")?;
        }
        let sign_in = self.add_credentials(plan, data.as_deref())?;
        let think = plan.think.map(ThinkPlan::build).transpose()?;
        let think = think.unwrap_or(ThinkTime::Fixed(Duration::ZERO));
        let mut program = Program { names, instructions: Vec::new(), counters: 0, think };
        for step in &plan.steps {
            self.add_step(&mut program, step)?;
        }
        Ok(Scenario {
            users,
            levels: plan.level_keys().levels(users),
            arrivals: plan.level_keys().arrivals(self.span),
            counters: program.counters,
            slots: program.names.taken.len(),
            instructions: program.instructions,
            repeat: plan.repeat,
            leaves: plan.leave || plan.level_keys().has_arrivals(),
            retries: plan.retries.unwrap_or_default(),
            bearer,
            sign_in,
            data,
            event_stream: plan.event_stream && !self.settings.era.is_modern(),
        })
    }

    /// Returns the indices of the credentials of the users, and adds the credentials.
    fn add_credentials(
        &mut self,
        plan: &ScenarioPlan,
        data: Option<&UserData>,
    ) -> Result<Vec<usize>, PlanError> {
        let oauth = match (&plan.oauth, &plan.bearer) {
            (Some(_), Some(_)) => {
                return Err(PlanError::new("a scenario has bearer or oauth: remove one of both"));
            }
            (None, Some(_)) => None,
            (own, None) => own.as_ref().or(self.oauth),
        };
        let Some(oauth) = oauth else { return Ok(Vec::new()) };
        self.check_authorization("oauth")?;
        if self.settings.era.is_parity() {
            return Err(PlanError::new("oauth: the parity dialect needs bearer: write that"));
        }
        oauth.build(data, self.directory, &mut self.sign_in.credentials)
    }

    /// Checks that the transport and the dialect have event streams of sessions.
    fn check_event_stream(&self) -> Result<(), PlanError> {
        let RequestSettings { transport, era, .. } = self.settings;
        let why = if *transport != Transport::Http {
            "only over HTTP: other transports have one connection for everything, remove it"
        } else if era.is_parity() {
            "the parity dialect has none: remove it"
        } else {
            return Ok(());
        };
        Err(PlanError(format!("event_stream = true: {why}")))
    }

    /// Checks that the transport has bearer tokens, and that the run has no other.
    fn check_authorization(&self, key: &str) -> Result<(), PlanError> {
        let RequestSettings { transport, era, fields, .. } = self.settings;
        let is_sent =
            matches!(transport, Transport::Http | Transport::WebSocket) || era.is_parity();
        if !is_sent {
            return Err(PlanError(format!("{key}: lines carry no token: use HTTP or WebSocket")));
        }
        if fields.iter().any(|field| field.name().eq_ignore_ascii_case("authorization")) {
            return Err(PlanError(format!(
                "{key}: the run has an Authorization field, too: remove one of both"
            )));
        }
        Ok(())
    }

    /// Adds a step or a block, and its loop.
    fn add_step(&mut self, program: &mut Program, step: &StepPlan) -> Result<(), PlanError> {
        let skip = step.when.as_deref().map(|text| value_condition(program, text)).transpose()?;
        let skip = skip.map(|condition| {
            program.instructions.push(Instruction::SkipUnless { condition, to: 0 });
            program.instructions.len() - 1
        });
        let from = program.instructions.len();
        if step.steps.is_empty() {
            if step.task {
                self.add_task(program, step)?;
            } else {
                let request = self.request(program, step)?;
                program.instructions.push(Instruction::Send(Box::new(request)));
            }
        } else {
            let has_request = step.call != CallPlan::default()
                || step.think.is_some()
                || !step.take.is_empty()
                || step.cancel.is_some();
            if has_request {
                return Err(PlanError::new(
                    "a block has steps, repeat and while only: move its request into a step",
                ));
            }
            for inner in &step.steps {
                self.add_step(program, inner)?;
            }
        }
        let condition = match &step.repeat_while {
            None => None,
            Some(text) => Some(self.add_condition(program, text)?),
        };
        let otherwise = if condition.is_some() { WHILE_MAX } else { 1 };
        match step.repeat.unwrap_or(otherwise) {
            0 => {
                return Err(PlanError::new(
                    "repeat = 0: the step would not be executed: remove it",
                ));
            }
            1 => {}
            times => {
                let counter = program.counters;
                program.counters += 1;
                let repeat = Instruction::Repeat { from, times, condition, counter };
                program.instructions.push(repeat);
            }
        }
        if let Some(skip) = skip {
            program.skip_to_end(skip);
        }
        Ok(())
    }

    /// Adds a call that is a task: the call, its polls, and in 2025-11-25 the request of its
    /// result.
    fn add_task(&mut self, program: &mut Program, step: &StepPlan) -> Result<(), PlanError> {
        if step.call.method.is_some() {
            return Err(PlanError::new("task = true is about a tool: name it with tool"));
        }
        let is_modern = self.settings.era.is_modern();
        let [id, status, interval] = ["id", "status", "interval"]
            .map(|name| program.names.slot(&format!("task {} {name}", program.counters)));
        let in_task = if is_modern { "" } else { "/task" };
        let interval_name = if is_modern { "pollIntervalMs" } else { "pollInterval" };
        let take = |slot, pointer: String| {
            let pointer = ResultPointer::parse(&pointer).map_err(PlanError)?;
            Ok::<_, PlanError>(Take { slot, pointer, number: None })
        };
        let is_working = |slot| Condition { slot, equals: Some(Value::from("working")) };
        let names = program.names.clone();
        let first = task_call(&step.call, is_modern);
        let plan = StepPlan { call: first, task: false, take: BTreeMap::new(), ..step.clone() };
        let mut call = self.request(program, &plan)?;
        for (slot, name) in [(id, "taskId"), (status, "status"), (interval, interval_name)] {
            call.takes.push(take(slot, format!("{in_task}/{name}"))?);
        }
        self.keep_result(call.call);
        program.instructions.push(Instruction::Send(Box::new(call)));
        let skip = program.instructions.len();
        let is_task = Condition { slot: id, equals: None };
        program.instructions.push(Instruction::SkipUnless { condition: is_task, to: 0 });
        let of_task = |method: &str| CallPlan {
            method: Some(method.into()),
            params: json!({ "taskId": format!("{{{{value {}}}}}", names.taken[id]) })
                .as_object()
                .cloned(),
            ..CallPlan::default()
        };
        let mut poll = StepPlan { call: of_task("tasks/get"), ..StepPlan::default() };
        if is_modern {
            let behind =
                |(name, pointer): (&String, &String)| (name.clone(), format!("/result{pointer}"));
            poll.take = step.take.iter().map(behind).collect();
        }
        let from = program.instructions.len();
        let mut get = self.request(program, &poll)?;
        get.think = Pause::Taken { slot: interval };
        get.takes.push(take(status, "/status".into())?);
        get.takes.push(take(interval, format!("/{interval_name}"))?);
        self.keep_result(get.call);
        program.instructions.push(Instruction::Send(Box::new(get)));
        let (times, counter) = (POLLS_MAX, program.counters);
        program.counters += 1;
        let condition = Some(is_working(status));
        program.instructions.push(Instruction::Repeat { from, times, condition, counter });
        let is_complete = Condition { slot: status, equals: Some(Value::from("completed")) };
        program.instructions.push(Instruction::Require(is_complete));
        if !is_modern {
            let call = CallPlan { expect: step.call.expect.clone(), ..of_task("tasks/result") };
            let result = StepPlan { call, take: step.take.clone(), ..StepPlan::default() };
            let mut result = self.request(program, &result)?;
            result.think = Pause::Drawn(ThinkTime::Fixed(Duration::ZERO));
            program.instructions.push(Instruction::Send(Box::new(result)));
        }
        program.skip_to_end(skip);
        Ok(())
    }

    /// Reports the results of a request template.
    fn keep_result(&mut self, call: u16) {
        if let Some((template, _)) = self.calls.get_mut(usize::from(call)) {
            *template = template.clone().keeping_result();
        }
    }

    /// Builds the request of a step.
    fn request(&mut self, program: &Program, step: &StepPlan) -> Result<Step, PlanError> {
        if step.call.weight != CallPlan::default().weight {
            return Err(PlanError::new("a step has no weight: steps are executed in order"));
        }
        let cancel = match (step.cancel, step.cancel_after) {
            (None, None) => None,
            (Some(share), after) if (0.0..=1.0).contains(&share) => {
                Some(Cancel { share, after: after.unwrap_or(CANCEL_AFTER).get() })
            }
            (Some(share), _) => {
                return Err(PlanError(format!("cancel = {share}: a share is from 0 to 1")));
            }
            (None, Some(_)) => {
                return Err(PlanError::new("cancel_after needs cancel, such as cancel = 0.1"));
            }
        };
        let first = self.takes;
        self.takes += step.take.len();
        let take = |(place, (name, pointer)): (usize, (&String, &String))| {
            let slot = program.names.taken.iter().position(|taken| taken == name);
            let pointer = ResultPointer::parse(pointer)
                .map_err(|why| PlanError(format!("take.{name}: {why}")))?;
            let number = Some(first + place);
            Ok(Take { slot: slot.unwrap_or_default(), pointer, number })
        };
        let takes = step.take.iter().enumerate().map(take);
        let takes: Vec<Take> = takes.collect::<Result<_, PlanError>>()?;
        let number = self.calls.len() as u64 + 1;
        let seed = self.seed ^ (number << super::CALL_SEED_SHIFT);
        let template = step.call.build_step(self.settings, seed, &program.names)?;
        let template = if takes.is_empty() { template } else { template.keeping_result() };
        let call = u16::try_from(self.calls.len())
            .map_err(|_| PlanError::new("the scenarios have too many steps"))?;
        self.calls.push((template, 1));
        let think = step.think.map(ThinkPlan::build).transpose()?;
        let think = Pause::Drawn(think.unwrap_or(program.think));
        Ok(Step { call, think, takes, cancel })
    }

    /// Lets the last request take the value of a condition.
    fn add_condition(&mut self, program: &mut Program, text: &str) -> Result<Condition, PlanError> {
        let (pointer, expected) = split_expected(text);
        let pointer = ResultPointer::parse(pointer)
            .map_err(|why| PlanError(format!("while = \"{text}\": {why}")))?;
        let equals = expected_json("while", text, expected)?;
        // A space: no name of a plan has one.
        let slot = program.names.slot(&format!("while {}", program.counters));
        let last =
            program.instructions.iter_mut().rev().find_map(|instruction| match instruction {
                Instruction::Send(step) => Some(step),
                _ => None,
            });
        if let Some(step) = last {
            step.takes.push(Take { slot, pointer, number: None });
            let call = step.call;
            self.keep_result(call);
        }
        Ok(Condition { slot, equals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenarios(text: &str) -> Vec<ScenarioPlan> {
        toml::from_str::<crate::plan::Plan>(&format!("target = \"a\"\n{text}")).unwrap().scenarios
    }

    #[test]
    fn users_are_shared_by_weight() {
        let all = scenarios(
            "[[scenario]]\nweight = 1\n[[scenario]]\nusers = 3\n[[scenario]]\nweight = 2",
        );
        assert_eq!(user_counts(&all, None), [1, 3, 1]);
        assert_eq!(user_counts(&all, Some(60)), [10, 30, 20]);
        for total in 0..50 {
            assert_eq!(user_counts(&all, Some(total)).iter().sum::<usize>(), total);
        }
    }

    #[test]
    fn steps_have_distinct_names() {
        let all = scenarios(
            "[[scenario]]\n[[scenario.step]]\ntool = \"a\"\n[[scenario.step]]\nrepeat = 2\n\
             [[scenario.step.step]]\ntool = \"a\"\n[[scenario.step.step]]\nname = \"b\"\n\
             method = \"ping\"\n[[scenario]]\nname = \"c\"\n[[scenario.step]]\ntool = \"a\"",
        );
        let expected = ["scenario 1: a", "scenario 1: a #2", "scenario 1: b", "c: a"];
        assert_eq!(step_names(&all, true), expected);
    }
}
