//! Plans: the configuration of a run, from a TOML file or from flags.
//!
//! ```toml
//! target = "http://127.0.0.1:8080"
//! era = "modern"
//! connections = 1000
//! warm_up = "2s"
//!
//! [[phase]]
//! rate = 10000
//! duration = "10s"
//!
//! [[call]]
//! tool = "echo"
//! bytes = 200
//! weight = 9
//!
//! [[call]]
//! method = "tools/list"
//!
//! [thresholds]
//! p99 = "1ms"
//! errors = 0.001
//! ```
//!
//! [`Plan::run_config`] validates a plan; its error states in one line what is wrong and what to
//! write instead.

pub mod answers;
pub mod budgets;
pub mod call;
pub mod churn;
pub mod human_bytes;
mod human_duration;
pub mod listen;
pub mod oauth;
pub mod phase;
pub mod scenario;
pub mod slow_readers;
pub mod source_ranges;
pub mod stages;
pub mod stdio;
pub mod sweep;
pub mod think;
pub mod thresholds;
pub mod tls;

pub mod connect;

mod credentials;

pub mod reference;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::answers::AnswersPlan;
pub use self::budgets::Budgets;
pub use self::call::CallPlan;
pub use self::churn::{ChurnPlan, SessionEnd, StormPlan};
pub use self::connect::ConnectPlan;
pub use self::human_bytes::HumanBytes;
pub use self::human_duration::HumanDuration;
pub use self::listen::ListenPlan;
pub use self::oauth::OAuthPlan;
pub use self::phase::PhasePlan;
use self::scenario::{ScenarioBuilder, TakenValue};
pub use self::scenario::{ScenarioPlan, StepPlan};
pub use self::slow_readers::SlowReadersPlan;
pub use self::source_ranges::SourceRange;
pub use self::stdio::StdioPlan;
pub use self::sweep::SweepPlan;
pub use self::think::ThinkPlan;
pub use self::thresholds::Thresholds;
pub use self::tls::TlsPlan;
use crate::generator::{ConnectionRoles, Endpoint, LoadMode, RunConfig, RunLimits, StopRequest};
use crate::mcp::{HttpField, RequestSettings, RequestTemplate, Secret};
use crate::schedule::{ArrivalPattern, RateProfile, Segment};
use crate::sign_in::SignInConfig;
use crate::target::{Era, Target};
use crate::users::UsersConfig;
use crate::wire::tls::RunTls;

/// Bits of the seed of a call below its number.
const CALL_SEED_SHIFT: u32 = 48;
/// Highest accepted request rate a second.
pub const RATE_MAX: f64 = 1e8;

/// How long a run lasts.
#[derive(Clone, Copy, Debug)]
struct RunTimes {
    /// Time at the beginning that is not measured.
    warm_up: Duration,
    /// The whole time, the warm-up included.
    total: Duration,
}

impl RunTimes {
    /// Returns the time that is measured.
    const fn measured(self) -> Duration {
        self.total.saturating_sub(self.warm_up)
    }
}

/// A reason why a plan is invalid, with a correction.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub String);

impl PlanError {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A plan: everything that configures a run, a search or a sweep.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The server: `tcp://HOST:PORT`, `http://HOST[:PORT]/PATH`, `ws://HOST[:PORT]/PATH`, the same
    /// with TLS as `tls://`, `https://` and `wss://`, or `stdio:COMMAND`. Default: that of the
    /// command line, which takes precedence.
    #[serde(default)]
    pub target: String,
    /// The MCP protocol version of requests: `auto`, `modern` (2026-07-28), `legacy` (2025-11-25),
    /// `2025-06-18`, `2025-03-26` or `2024-11-05`; or `parity`, the parity dialect. Default `auto`:
    /// modern if the server supports it, else the latest that it supports.
    #[schemars(with = "String")]
    #[serde(default, deserialize_with = "era", skip_serializing_if = "Option::is_none")]
    pub era: Option<Era>,
    /// Number of connections; over stdio each is a process. Default 64, over stdio 1.
    #[serde(default = "connections")]
    pub connections: usize,
    /// Maximum requests in flight on each connection. Default 1.
    #[serde(default = "depth")]
    pub depth: usize,
    /// Warm-up time, excluded from the results. Default 2 s.
    #[serde(default = "warm_up")]
    pub warm_up: HumanDuration,
    /// Closed loop: a request is sent when the previous one is answered, and rates are ignored.
    /// Default false.
    #[serde(default)]
    pub closed: bool,
    /// Measured requests after which a closed loop ends; its phases are the longest time that they
    /// may take. Default: the phases end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Poisson arrivals of requests, or of users with a `rate`, instead of evenly spaced ones.
    /// Default false.
    #[serde(default)]
    pub poisson: bool,
    /// Seed of all random choices. Default 1.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Timeout for opening all connections. Default 30 s.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: HumanDuration,
    /// Timeout of a response; the request is cancelled then. Also of a handshake, if that is
    /// shorter than `connect_timeout`, except over stdio. Default 10 s.
    #[serde(default = "response_timeout")]
    pub response_timeout: HumanDuration,
    /// How long before an intended send time a load thread stops sleeping and polls; zero if others
    /// need its cores. Default 100 µs.
    #[serde(default = "spin_max")]
    pub spin_max: HumanDuration,
    /// Highest 99th percentile of the generator's lag for a run to be valid. Default: the longer of
    /// 1 ms and 10 % of that of the response time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_max: Option<HumanDuration>,
    /// How long responses are awaited after the last intended send time; requests still in flight
    /// then count as timed out. Default: the response timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<HumanDuration>,
    /// Additional HTTP header fields, each a name and a value. Default none. Values of fields whose
    /// names suggest a secret are not written to results.
    #[schemars(with = "Vec<(String, String)>")]
    #[serde(default)]
    pub headers: Vec<HttpField>,
    /// File with the bearer token of every request. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_file: Option<PathBuf>,
    /// The bearer token itself, never written; takes precedence over `bearer_file`.
    #[serde(skip)]
    pub bearer: Option<Secret>,
    /// TLS settings. Default: trust the root certificates of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPlan>,
    /// The phases in their order; the warm-up precedes them, at the first rate.
    #[serde(default, rename = "phase")]
    pub phases: Vec<PhasePlan>,
    /// The kinds of requests. Default: a tool that the server offers, one that returns its
    /// arguments, else the first that is read-only.
    #[serde(default, rename = "call")]
    pub calls: Vec<CallPlan>,
    /// Users at a time, over all scenarios; each is a connection. Default: those of the scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<usize>,
    /// How users sign in, unless their scenario says it. Default: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthPlan>,
    /// What users do, instead of requests at a rate. Default none.
    #[serde(default, rename = "scenario", skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<ScenarioPlan>,
    /// What users answer to requests of the server. Default: nothing.
    #[serde(default, skip_serializing_if = "AnswersPlan::is_empty")]
    pub answers: AnswersPlan,
    /// Directory that paths in scenarios are relative to: that of the plan.
    #[serde(skip)]
    pub directory: PathBuf,
    /// Connections that are replaced during the run. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<ChurnPlan>,
    /// Connections that read slowly. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_readers: Option<SlowReadersPlan>,
    /// Streams that receive notifications. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<ListenPlan>,
    /// Limits that the run has to keep to pass.
    #[serde(default)]
    pub thresholds: Thresholds,
    /// How much worse than a base the run may be, for `corelane-load compare`.
    #[serde(default, skip_serializing_if = "Budgets::is_empty")]
    pub budgets: Budgets,
    /// How connections are opened. Default: unlimited rate, 128 at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<ConnectPlan>,
    /// How processes are started, for a stdio target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdio: Option<StdioPlan>,
    /// Settings of `corelane-load search`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepPlan>,
}

/// Reads a protocol version, or `None` for `auto`.
fn era<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Era>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_era(&text).map_err(serde::de::Error::custom)
}

/// Parses a protocol version; `None` stands for `auto`.
///
/// # Errors
///
/// If `text` names no version; the message has those that can be named.
pub fn parse_era(text: &str) -> Result<Option<Era>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let versions = Era::ALL.into_iter().filter(|era| !era.is_parity()).map(Era::mcp_version);
    let versions = versions.collect::<Vec<_>>().join(", ");
    Era::named(text)
        .map(Some)
        .ok_or_else(|| format!("an era is auto, modern or legacy, or a version: {versions}"))
}

const fn connections() -> usize {
    64
}

/// Returns the default number of connections: a program serves one client, an address many.
fn default_connections(target: &str) -> usize {
    if matches!(target.parse(), Ok(Target::Command(_))) { 1 } else { connections() }
}

const fn depth() -> usize {
    1
}

const fn warm_up() -> HumanDuration {
    HumanDuration::from_secs(2)
}

const fn seed() -> u64 {
    1
}

const fn connect_timeout() -> HumanDuration {
    HumanDuration::from_secs(30)
}

const fn response_timeout() -> HumanDuration {
    HumanDuration::from_secs(10)
}

fn spin_max() -> HumanDuration {
    RunLimits::default().spin_before.into()
}

impl Plan {
    /// Returns a plan with default settings and no phase.
    pub fn new(target: impl Into<String>) -> Self {
        let target = target.into();
        Self {
            connections: default_connections(&target),
            target,
            era: None,
            depth: depth(),
            warm_up: warm_up(),
            closed: false,
            requests: None,
            poisson: false,
            seed: seed(),
            connect_timeout: connect_timeout(),
            response_timeout: response_timeout(),
            spin_max: spin_max(),
            lag_max: None,
            drain_timeout: None,
            headers: Vec::new(),
            bearer_file: None,
            bearer: None,
            tls: None,
            phases: Vec::new(),
            calls: Vec::new(),
            users: None,
            oauth: None,
            scenarios: Vec::new(),
            answers: AnswersPlan::default(),
            directory: PathBuf::new(),
            churn: None,
            slow_readers: None,
            listen: None,
            thresholds: Thresholds::default(),
            budgets: Budgets::default(),
            connect: None,
            stdio: None,
            sweep: None,
        }
    }

    /// Reads a plan from a TOML file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a plan; the message contains the line.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        Self::read_with_target(path, None)
    }

    /// Reads a plan from a TOML file, for another target if there is one.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a plan; the message contains the line.
    pub fn read_with_target(path: &Path, target: Option<&str>) -> Result<Self, PlanError> {
        let shown = path.display();
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| {
            PlanError(format!("cannot read {shown}: {error}; name an existing TOML file"))
        })?;
        let mut plan = toml::from_str::<Self>(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            PlanError(format!("{shown}, line {line}: {why}"))
        })?;
        if let Some(target) = target {
            target.clone_into(&mut plan.target);
        }
        if plan.target.is_empty() {
            return Err(PlanError(format!(
                "{shown} has no target: name it on the command line, such as \
                 http://127.0.0.1:8080, or write target = \"http://127.0.0.1:8080\" into the plan"
            )));
        }
        // The default depends on the target, which serde's defaults cannot see.
        let table = toml::from_str::<toml::Table>(&text).unwrap_or_default();
        if !table.contains_key("connections") {
            plan.connections = default_connections(&plan.target);
        }
        plan.directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
        plan.apply_users();
        Ok(plan)
    }

    /// Derives the load from the users, if there are any: a connection for each, and a closed loop.
    pub fn apply_users(&mut self) {
        if !self.scenarios.is_empty() {
            self.connections = scenario::user_counts(&self.scenarios, self.users).iter().sum();
            self.closed = true;
        }
        if self.closed {
            // The rate of a phase is ignored.
            self.phases.iter_mut().for_each(PhasePlan::default_rate);
        }
    }

    /// Returns all requests: those of the scenarios, or else those of the mix.
    pub fn calls_mut(&mut self) -> Vec<&mut CallPlan> {
        if self.scenarios.is_empty() {
            return self.calls.iter_mut().collect();
        }
        self.scenarios.iter_mut().flat_map(ScenarioPlan::calls_mut).collect()
    }

    /// Returns the values that steps take from results, in order.
    pub fn taken_values(&self) -> Vec<TakenValue<'_>> {
        scenario::taken_values(&self.scenarios)
    }

    /// Returns the names of all requests in results.
    pub fn call_names(&self) -> Vec<String> {
        if self.scenarios.is_empty() {
            return CallPlan::names(&self.calls);
        }
        scenario::step_names(&self.scenarios, self.era.unwrap_or_default().is_modern())
    }

    /// Returns the name of the MCP protocol version in reports.
    pub fn era_name(&self) -> &'static str {
        self.era.map_or("auto", Era::name)
    }

    /// Returns whether its messages are those of the parity dialect.
    pub fn is_parity(&self) -> bool {
        self.era.is_some_and(Era::is_parity)
    }

    /// Returns the number of all connections: for requests, for streams, and for publishing.
    pub fn total_connections(&self) -> usize {
        self.connections + self.listen.as_ref().map_or(0, ListenPlan::connections)
    }

    /// Returns whether its users arrive at a rate.
    pub fn has_arrivals(&self) -> bool {
        self.scenarios.iter().any(|scenario| scenario.level_keys().has_arrivals())
    }

    /// Returns the number of connections that are open at the end of a run: fewer than all if the
    /// number of users falls.
    pub fn connections_at_end(&self) -> usize {
        let counts = scenario::user_counts(&self.scenarios, self.users);
        let span = self.profile().span();
        let closed = self.scenarios.iter().zip(counts).map(|(scenario, users)| {
            let keys = scenario.level_keys();
            let levels = keys.levels(users);
            let is_falling = levels.falls() && !keys.has_arrivals();
            if is_falling { users.saturating_sub(levels.users_at(span)) } else { 0 }
        });
        self.total_connections() - closed.sum::<usize>()
    }

    /// Returns the arrival rates of the whole run, warm-up included.
    pub fn profile(&self) -> RateProfile {
        let phases = self.phases.iter().flat_map(PhasePlan::segments);
        let first = self.phases.first().map_or(0.0, |phase| phase.rate);
        let warm_up = Segment::constant(first, self.warm_up.get());
        RateProfile::new([warm_up].into_iter().chain(phases))
    }

    fn request_settings(
        &self,
        target: &Target,
        fields: Vec<HttpField>,
    ) -> Result<RequestSettings, PlanError> {
        let (authority, path) = match target {
            Target::Address { authority, path, .. } => (&**authority, &**path),
            Target::Command(_) => ("", ""),
        };
        let era = self.era.unwrap_or_default();
        let has_tasks = self.scenarios.iter().any(ScenarioPlan::has_tasks);
        RequestSettings::new(target.transport(), era, authority, path, fields)
            .map(|settings| settings.of_client(self.answers.build(), has_tasks))
            .map_err(|why| PlanError(format!("{why}: remove it from headers and --header")))
    }

    /// Validates the plan and builds the configuration of a run. Without a protocol version it is
    /// that of the modern era.
    ///
    /// # Errors
    ///
    /// If the plan is invalid, or the target cannot be resolved.
    pub fn run_config(&self) -> Result<RunConfig, PlanError> {
        let target = Target::parse(&self.target, self.era.unwrap_or_default())
            .map_err(|error| PlanError(format!("{error}")))?;
        self.check()?;
        let program = StdioPlan::program(self, &target)?;
        let fields = self.request_headers(&target)?;
        let tls = tls::build_tls(self.tls.as_ref(), &target)?;
        let addresses = target.resolve().map_err(|error| PlanError(format!("{error}")))?;
        let opening = self.connect.clone().unwrap_or_default();
        let connect =
            opening.build(self.total_connections(), &addresses, self.connect_timeout.get())?;
        let settings = self.request_settings(&target, fields)?;
        let mut calls = Vec::new();
        for (number, call) in (1..).zip(&self.calls) {
            // Random values differ between calls.
            let seed = self.seed ^ (number << CALL_SEED_SHIFT);
            calls.push((call.build(&settings, seed)?, call.weight));
        }
        let users = self.build_users(self.sign_in(target, &settings, tls.as_ref()), &mut calls)?;
        if calls.is_empty() {
            calls.push((CallPlan::default().build(&settings, self.seed)?, 1));
        }
        let profile = self.profile();
        let warm_up = self.warm_up.get();
        let times = RunTimes { warm_up, total: profile.span() };
        let churn = self.churn.map(|churn| churn.build(self.connections, times)).transpose()?;
        let readers = self.slow_readers.map(|plan| plan.build(self.connections, &settings, times));
        let readers = readers.transpose()?.map(|(mut readers, call)| {
            if let Some(call) = call {
                readers.call = u16::try_from(calls.len()).ok();
                calls.push((call, 0));
            }
            readers
        });
        let listen = self
            .listen
            .as_ref()
            .map(|listen| listen.build(&settings, times, self.seed))
            .transpose()?;
        Ok(RunConfig {
            request_settings: settings,
            tls,
            endpoint: program.map_or_else(|| Endpoint::Addresses(addresses), Endpoint::Program),
            connect,
            calls,
            users,
            connections: self.connections,
            depth: self.depth,
            mode: self.drive(profile),
            warm_up,
            seed: self.seed,
            roles: ConnectionRoles { subscribers: listen, churn, slow_readers: readers },
            limits: RunLimits {
                connect_timeout: self.connect_timeout.get(),
                connecting_max: opening.concurrency,
                response_timeout: self.response_timeout.get(),
                spin_before: self.spin_max.get(),
                drain_timeout: self.drain_timeout.map(HumanDuration::get),
                ..RunLimits::default()
            },
            stop: StopRequest::default(),
        })
    }

    /// Returns how users sign in, without credentials.
    fn sign_in(
        &self,
        target: Target,
        settings: &RequestSettings,
        tls: Option<&RunTls>,
    ) -> SignInConfig {
        SignInConfig {
            target,
            settings: settings.clone(),
            tls: tls.cloned(),
            connect_timeout: self.connect_timeout.get(),
            response_timeout: self.response_timeout.get(),
            credentials: Vec::new(),
        }
    }

    /// Builds the users of the scenarios, and adds their request templates.
    fn build_users(
        &self,
        sign_in: SignInConfig,
        calls: &mut Vec<(RequestTemplate, u32)>,
    ) -> Result<Option<Arc<UsersConfig>>, PlanError> {
        if self.scenarios.is_empty() {
            return Ok(None);
        }
        let settings = &sign_in.settings.clone();
        let mut builder = ScenarioBuilder {
            oauth: self.oauth.as_ref(),
            sign_in,
            settings,
            seed: self.seed,
            directory: &self.directory,
            calls: std::mem::take(calls),
            takes: 0,
            span: self.profile().span(),
            pattern: self.pattern(),
        };
        let users = builder.build(&self.scenarios, self.users)?;
        *calls = builder.calls;
        Ok(Some(Arc::new(users)))
    }

    /// Returns the distribution of requests, or of users that arrive, around their rate.
    const fn pattern(&self) -> ArrivalPattern {
        if self.poisson { ArrivalPattern::Poisson } else { ArrivalPattern::Constant }
    }

    /// Returns the load model: users, open loop, closed loop or idle connections.
    fn drive(&self, profile: RateProfile) -> LoadMode {
        if !self.scenarios.is_empty() {
            return LoadMode::Users { span: profile.span() };
        }
        match (self.closed, profile.rate_max() > 0.0) {
            (true, _) => LoadMode::Closed { span: profile.span(), requests: self.requests },
            (false, true) => LoadMode::Open { profile, pattern: self.pattern() },
            (false, false) => LoadMode::Hold { span: profile.span() },
        }
    }

    /// Checks that nothing else decides on the requests of users.
    fn check_users(&self) -> Result<(), PlanError> {
        for scenario in &self.scenarios {
            scenario.level_keys().check(self.users.is_some())?;
        }
        let why = match (&self.scenarios[..], self.users) {
            ([], None) if !self.answers.is_empty() => {
                "[answers] are those of users: add [[scenario]], or --users".into()
            }
            ([], None) if self.oauth.is_some() => {
                "[oauth] is how users sign in: write a [[scenario]] with their steps, or use \
                 bearer_file"
                    .into()
            }
            ([], None) => return Ok(()),
            ([], Some(users)) => {
                format!("users = {users}: the plan has no [[scenario]] that says what they do")
            }
            _ if self.connections == 0 => "a scenario needs users: write users = 1 or more".into(),
            _ if !self.calls.is_empty() => {
                "a plan has [[scenario]] or [[call]]: move the calls into steps".into()
            }
            _ if self.depth != 1 => {
                "a user has one request in flight: remove depth, or use more users".into()
            }
            _ if self.churn.is_some() || self.slow_readers.is_some() => {
                "[churn] and [slow_readers] are about connections without users: use leave = true"
                    .into()
            }
            _ if self.requests.is_some() => {
                "requests ends a loop without users: use repeat, or a duration".into()
            }
            _ => return Ok(()),
        };
        Err(PlanError(why))
    }

    /// Checks the number of requests.
    fn check_requests(&self) -> Result<(), PlanError> {
        let Some(requests) = self.requests else { return Ok(()) };
        let has_roles =
            self.churn.is_some() || self.listen.is_some() || self.slow_readers.is_some();
        let why = match requests {
            0 => "no request would be sent; write 1 or more",
            _ if !self.closed => {
                "it ends a closed loop: add closed = true, or write a rate and a duration"
            }
            _ if has_roles => {
                "connections that are replaced, listen or read slowly need a duration instead"
            }
            _ => return Ok(()),
        };
        Err(PlanError(format!("requests = {requests}: {why}")))
    }

    fn check(&self) -> Result<(), PlanError> {
        self.check_users()?;
        let is_rate = |rate: f64| rate.is_finite() && (0.0..=RATE_MAX).contains(&rate);
        if self.connections == 0 {
            return Err(PlanError::new(
                "connections = 0: no request could be sent; write 1 or more",
            ));
        }
        if self.depth == 0 {
            return Err(PlanError::new("depth = 0: no request could be sent; write 1 or more"));
        }
        if self.phases.is_empty() {
            return Err(PlanError::new(
                "the plan has no [[phase]]: add one with rate and duration",
            ));
        }
        for phase in &self.phases {
            if phase.rate.is_nan() {
                return Err(PlanError::new("a [[phase]] has no rate: add one, such as rate = 100"));
            }
            if !is_rate(phase.rate) || !is_rate(phase.to_rate.unwrap_or(phase.rate)) {
                let rate = phase.rate;
                return Err(PlanError(format!(
                    "rate = {rate}: a rate is from 0 to {RATE_MAX} requests a second"
                )));
            }
            if phase.duration.get().is_zero() {
                return Err(PlanError::new(
                    "duration = \"0s\": write a positive duration such as 10s",
                ));
            }
        }
        self.check_requests()?;
        if !self.calls.is_empty() && self.calls.iter().all(|call| call.weight == 0) {
            return Err(PlanError::new("every call has weight 0: no request would be sent"));
        }
        self.thresholds.check(&self.call_names())
    }
}

#[cfg(test)]
mod tests;
