//! Results of a run, as shown, stored as JSON and compared.
//!
//! Invariants: latencies are in microseconds; requests of the warm-up are excluded.

pub mod calls;
pub mod connections;
mod disturbance;

pub mod distribution;
pub mod drift;
pub mod listen;
pub mod manifest;
pub mod memory_growth;
pub mod percentiles;
pub mod run_status;
pub mod threshold_checks;
pub mod users;
pub mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::calls::CallResult;
pub use self::connections::{ConnectionsResult, SlowReadersResult};
use self::distribution::distribution;
use self::disturbance::Disturbance;
pub use self::drift::Drift;
pub use self::listen::ListenResult;
pub use self::manifest::{Manifest, RunOrigin, ServerIdentity};
pub use self::memory_growth::MemoryGrowth;
pub use self::percentiles::Percentiles;
pub use self::run_status::RunStatus;
pub use self::threshold_checks::ThresholdCheck;
use self::threshold_checks::threshold_checks;
pub use self::users::{EventStreamsResult, UsersResult};
use self::verdict::RunMeasurements;
pub use self::verdict::Verdict;
use crate::generator::{Measurements, Period};
use crate::metrics::backlog::{BacklogGrowth, BacklogWindow};
use crate::metrics::outcome::Failure;
use crate::metrics::process_group::{Accounting, ProgramCounts};
pub use crate::metrics::second::SecondResult;
use crate::plan::Plan;

/// The result of a run.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct RunResult {
    /// Whether the run is valid and kept its thresholds.
    pub verdict: Verdict,
    /// The plan of the run.
    pub plan: Plan,
    /// The environment of the run.
    pub manifest: Manifest,
    /// Totals of requests and connections.
    pub totals: Totals,
    /// First answer or error of each kind of failure that occurred.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failure_examples: BTreeMap<String, String>,
    /// Response time: from the intended send time to the complete response, of successful requests.
    pub response: Percentiles,
    /// Service time: from the actual send time to the complete response.
    pub service: Percentiles,
    /// Time of requests that failed: from the intended send time to the failure. Requests that were
    /// not sent have none.
    #[serde(default)]
    pub failed: Percentiles,
    /// Time from the intended send time to the first event of the stream of a request that is not
    /// its response, of calls with `progress` or `stream` that got one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_event: Option<Percentiles>,
    /// The same to the first progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_progress: Option<Percentiles>,
    /// Lag of the load generator behind the intended send times.
    pub lag: Percentiles,
    /// Points of the percentile curve of the response time: percentile and microseconds.
    #[serde(default)]
    pub response_distribution: Vec<(f64, f64)>,
    /// Points of the percentile curve of the service time.
    #[serde(default)]
    pub service_distribution: Vec<(f64, f64)>,
    /// Results of each kind of request, if the plan has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallResult>,
    /// Results of the users, if the plan has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<UsersResult>,
    /// Results of the fan-out, if the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<ListenResult>,
    /// CPU and memory of the load generator.
    pub generator: ProcessCost,
    /// CPU and memory of the server, if its process was watched.
    pub server: Option<ProcessCost>,
    /// Growth of the memory of the server over the measured window, if its process was watched for
    /// at least ten seconds of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_growth: Option<MemoryGrowth>,
    /// How the server processes ended, for a stdio target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<ProgramCounts>,
    /// Results of opening connections.
    #[serde(default)]
    pub connections: ConnectionsResult,
    /// Results of slow readers, if the plan has any.
    #[serde(default)]
    pub slow_readers: Option<SlowReadersResult>,
    /// End of the run compared with its beginning, if at least ten seconds were measured.
    #[serde(default)]
    pub drift: Option<Drift>,
    /// Results of each second.
    pub seconds: Vec<SecondResult>,
}

/// Totals of a run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct Totals {
    /// Measured time in seconds.
    pub duration_s: f64,
    /// Requests with an intended send time within the measured time.
    pub due: u64,
    /// Requests sent.
    pub sent: u64,
    /// Requests that were due and not completed at the end of the measured window, those in flight
    /// included.
    #[serde(default)]
    pub backlog: u64,
    /// By how many requests a second the backlog grew over the window, or, if users arrive at a
    /// rate, by how many users without a free connection; `None` in a closed loop, or
    /// if nothing completed.
    #[serde(default)]
    pub backlog_growth: Option<f64>,
    /// Requests answered successfully, also those whose responses arrived in the drain.
    pub answered: u64,
    /// Successful responses a second that arrived in the measured window: from the end of the
    /// warm-up to the end of the schedule. Responses to requests of the warm-up are included,
    /// responses in the drain are not.
    pub rate: f64,
    /// Requests that were due a second; `None` in a closed loop.
    #[serde(default)]
    pub due_rate: Option<f64>,
    /// Failed requests by kind.
    pub failures: BTreeMap<String, u64>,
    /// Failed requests divided by all requests; `None` without a request.
    pub failure_ratio: Option<f64>,
    /// Responses without a matching request.
    pub unsolicited: u64,
    /// Responses to requests that had timed out.
    #[serde(default)]
    pub late: u64,
    /// What is received besides single responses.
    #[serde(flatten)]
    pub streams: StreamTotals,
    /// Connections that were open when the first request was sent.
    pub opened: u64,
    /// Time to open them, in seconds.
    #[serde(default)]
    pub connect_s: f64,
    /// Connections that ended although the load generator did not close them.
    pub lost: u64,
    /// The last error of opening a connection, of a lost connection, or of TLS.
    pub last_error: Option<String>,
    /// CPU steal: the share of the time of all cores taken by the hypervisor, from 0 to 1; `None`
    /// if the system does not report it.
    #[serde(default)]
    pub steal_ratio: Option<f64>,
}

/// Totals of what is received besides single responses.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct StreamTotals {
    /// Notifications received after the warm-up.
    #[serde(default)]
    pub notifications: u64,
    /// Responses received as event streams after the warm-up.
    #[serde(default)]
    pub streamed: u64,
    /// Chunks of streams of the parity dialect received in the measured time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub chunks: u64,
}

impl Totals {
    /// Returns the chunks of streams a second.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn chunk_rate(&self) -> f64 {
        self.streams.chunks as f64 / self.duration_s.max(f64::MIN_POSITIVE)
    }
}

/// CPU and memory of a process.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ProcessCost {
    /// CPU time for each successful response, in microseconds, without busy polling; `None`
    /// without a response.
    #[serde(default, deserialize_with = "crate::metrics::unmeasured::measured")]
    pub cpu_us_per_response: Option<f64>,
    /// The same CPU time as a number of cores.
    pub cores: f64,
    /// Busy polling of the load generator before intended send times, as a number of cores.
    #[serde(default)]
    pub spin_cores: f64,
    /// Highest resident memory seen, in bytes; `None` if it was not measured.
    #[serde(default, deserialize_with = "crate::metrics::unmeasured::measured")]
    pub resident_bytes_max: Option<u64>,
    /// Which processes count as the server's; none for the generator and for programs of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting: Option<Accounting>,
}

impl RunResult {
    /// Returns the latencies of the run, each with its name in tables; `first event`,
    /// `first progress` and `iteration` only if there were any.
    pub fn latencies(&self) -> Vec<(&'static str, &Percentiles)> {
        let rare = [("first event", &self.first_event), ("first progress", &self.first_progress)];
        let rare = rare.into_iter().filter_map(|(name, times)| Some((name, times.as_ref()?)));
        let mut all = vec![("response", &self.response)];
        all.extend(rare);
        all.extend([("service", &self.service), ("failed", &self.failed), ("lag", &self.lag)]);
        let users = self.users.as_ref().filter(|users| users.iterations > 0);
        all.extend(users.map(|users| ("iteration", &users.iteration)));
        all
    }

    /// Returns the status of the run.
    pub fn status(&self) -> RunStatus {
        self.verdict.status(&self.plan.thresholds)
    }

    /// Returns each threshold with what was measured, except `last_delivery`.
    pub fn threshold_checks(&self) -> Vec<ThresholdCheck> {
        let Self { totals, response, calls, memory_growth, .. } = self;
        threshold_checks(&self.plan.thresholds, totals, response, *memory_growth, calls)
    }

    /// Evaluates the measurements of a run.
    pub fn new(plan: Plan, manifest: Manifest, finding: &Measurements) -> Self {
        let total = &finding.total;
        let whole = whole_span(&plan, finding);
        let span = whole.saturating_sub(plan.warm_up.get());
        let growth = backlog_growth(&plan, total, span);
        let totals = totals(finding, &plan, span, growth);
        let response = Percentiles::from_histogram(total.latencies.response());
        let service = Percentiles::from_histogram(total.latencies.service());
        let lag = Percentiles::from_histogram(&total.lag);
        let generator = generator_cost(finding, totals.rate);
        let server = server_cost(finding, totals.rate);
        let memory_growth = MemoryGrowth::of(&finding.seconds);
        let drift = drift(finding, plan.warm_up.get(), span);
        let slow_readers = plan.slow_readers.map(|_| SlowReadersResult::of(finding));
        let connections = ConnectionsResult::of(&total.connects);
        let window = window_span(finding, plan.warm_up.get(), span);
        let calls = CallResult::of(&plan, finding, window);
        let disturbance = Disturbance::of(&finding.usage, &generator, server.as_ref());
        let users = UsersResult::of(&plan, &total.users);
        let measurements = RunMeasurements {
            disturbance: &disturbance,
            response: &response,
            calls: &calls,
            memory_growth,
            lag: &lag,
            generator: &generator,
            threads: finding.setup.threads,
            open_at_end: total.open,
            waiting: total.outcomes.waiting,
            growth,
            users: users.as_ref(),
        };
        let mut verdict = Verdict::evaluate(&plan, &totals, &measurements);
        if finding.programs.is_some() {
            verdict.check_programs(totals.lost, total.errors.first(Failure::Closed));
        }
        verdict.notes.extend(notes(&plan, finding));
        verdict.check_reopened(&plan, &totals, &connections);
        verdict.check_stopped(&plan, finding.is_stopped.then_some(whole));
        let listen = plan.listen.as_ref().map(|listen| ListenResult::of(listen, finding));
        if let Some(listen) = &listen {
            verdict.check_deliveries(&plan.thresholds, listen);
        }
        Self {
            verdict,
            calls,
            users,
            plan,
            manifest,
            failure_examples: failure_examples(total, &totals, &connections, listen.as_ref()),
            totals,
            response,
            service,
            failed: Percentiles::of(total.latencies.failed()).unwrap_or_default(),
            first_event: Percentiles::of(total.latencies.first_event()),
            first_progress: Percentiles::of(total.latencies.first_progress()),
            lag,
            response_distribution: distribution(total.latencies.response()),
            service_distribution: distribution(total.latencies.service()),
            listen,
            generator,
            server,
            memory_growth,
            connections,
            slow_readers,
            drift,
            programs: finding.programs,
            seconds: finding.seconds.clone(),
        }
    }
}

/// Returns the notes on what users did.
fn notes(plan: &Plan, finding: &Measurements) -> Vec<String> {
    let untaken = users::untaken_notes(plan, &finding.total.users);
    let users = &finding.total.users;
    let unreached =
        users::unreached_stages(plan).into_iter().chain(users::event_streams_note(plan, users));
    finding.sign_in_note.iter().cloned().chain(untaken).chain(unreached).collect()
}

/// Returns the length of the run, warm-up included.
fn whole_span(plan: &Plan, finding: &Measurements) -> Duration {
    let planned = plan.profile().span();
    match plan.requests {
        Some(_) => finding.total.until,
        None if finding.is_stopped => finding.window.until.min(planned),
        None => planned,
    }
}

/// Returns the drift over the measured seconds; later ones contain only the last responses.
fn drift(finding: &Measurements, warm_up: Duration, span: Duration) -> Option<Drift> {
    let [warm_up, measured] =
        [warm_up, span].map(|time| usize::try_from(time.as_secs()).unwrap_or(usize::MAX));
    finding.seconds.get(warm_up..warm_up.saturating_add(measured)).and_then(Drift::of)
}

/// Returns the examples of failures that were counted.
fn failure_examples(
    total: &Period,
    totals: &Totals,
    connections: &ConnectionsResult,
    listen: Option<&ListenResult>,
) -> BTreeMap<String, String> {
    let is_counted = |kind: &str| {
        // Without an answer, that of a request of the warm-up explains the run.
        totals.answered == 0
            || totals.failures.contains_key(kind)
            || connections.failures.contains_key(kind)
            || listen.is_some_and(|listen| listen.failures.contains_key(kind))
            || (kind == Failure::UNSOLICITED.0 && totals.unsolicited > 0)
    };
    let counted = total.errors.iter().filter(|(kind, _)| is_counted(kind));
    let counted = counted.map(|(kind, text)| (kind.to_owned(), text.to_owned()));
    let unsent = (Failure::Unsent.name().to_owned(), Failure::Unsent.description().to_owned());
    counted.chain(Some(unsent).filter(|(kind, _)| totals.failures.contains_key(kind))).collect()
}

fn totals(
    finding: &Measurements,
    plan: &Plan,
    span: Duration,
    growth: Option<BacklogGrowth>,
) -> Totals {
    let Measurements { total, window, .. } = finding;
    let outcomes = total.outcomes;
    let failures = Failure::ALL.into_iter().map(|kind| (kind, outcomes.failed(kind)));
    let failures = failures.filter(|(_, count)| *count > 0);
    let due = total.due.saturating_sub(outcomes.abandoned);
    Totals {
        duration_s: span.as_secs_f64(),
        due,
        sent: total.sent,
        backlog: window.due.saturating_sub(window.completed),
        backlog_growth: growth.map(|growth| growth.requests_per_second),
        answered: outcomes.answered,
        rate: ratio(window.answered, window_span(finding, plan.warm_up.get(), span)),
        due_rate: (!plan.closed).then(|| ratio(due, span)),
        failures: failures.map(|(kind, count)| (kind.name().into(), count)).collect(),
        failure_ratio: outcomes.failure_ratio(),
        unsolicited: outcomes.unsolicited,
        late: outcomes.late,
        streams: StreamTotals {
            notifications: outcomes.notifications,
            streamed: outcomes.streamed,
            chunks: outcomes.chunks,
        },
        opened: finding.opened,
        connect_s: finding.connect_time.as_secs_f64(),
        lost: total.connects.lost,
        last_error: total.errors.last().map(ToOwned::to_owned),
        steal_ratio: finding.usage.machine.map(|machine| machine.steal_ratio),
    }
}

/// Returns the length of the measured window: a load thread may end late.
fn window_span(finding: &Measurements, warm_up: Duration, span: Duration) -> Duration {
    finding.window.until.saturating_sub(warm_up).max(span)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns the growth of the backlog, of requests or of users that arrive; `None` in a closed loop,
/// or if nothing completed.
fn backlog_growth(plan: &Plan, total: &Period, span: Duration) -> Option<BacklogGrowth> {
    let timeout_ratio = part_of(total.outcomes.failed(Failure::Timeout), total.due);
    let window = BacklogWindow { span, timeout_ratio, is_poisson: plan.poisson };
    total.backlog.growth(window).filter(|_| !plan.closed || plan.has_arrivals())
}

fn generator_cost(finding: &Measurements, rate: f64) -> ProcessCost {
    let Measurements { usage, window, seconds, .. } = finding;
    let span = usage.span.max(Duration::from_millis(1));
    let spun = window.spun.min(usage.cpu);
    let resident = seconds.iter().filter_map(|second| second.generator_resident_bytes);
    ProcessCost {
        spin_cores: spun.div_duration_f64(span),
        resident_bytes_max: resident.max(),
        ..cost(usage.cpu.saturating_sub(spun).div_duration_f64(span), rate)
    }
}

fn server_cost(finding: &Measurements, rate: f64) -> Option<ProcessCost> {
    let usage = &finding.usage;
    Some(ProcessCost {
        resident_bytes_max: usage.server_resident_bytes_max,
        accounting: usage.server_accounting,
        ..cost(usage.server_cpu?.div_duration_f64(usage.span), rate)
    })
}

/// Returns the cost of so many cores at this rate of successful responses.
fn cost(cores: f64, rate: f64) -> ProcessCost {
    let cpu_us_per_response = (rate > 0.0).then(|| cores / rate * 1e6);
    ProcessCost { cpu_us_per_response, cores, ..ProcessCost::default() }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn part_of(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn ratio(count: u64, span: Duration) -> f64 {
    count as f64 / span.as_secs_f64().max(f64::MIN_POSITIVE)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
