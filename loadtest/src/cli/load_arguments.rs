//! Flags of the target and of the load, and the plan that they result in.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use corelane_load::children::StderrMode;
use corelane_load::generator::RunConfig;
use corelane_load::machine::{Machine, warnings};
use corelane_load::metrics::host::MachineUse;
use corelane_load::plan::{
    CallPlan, ChurnPlan, HumanBytes, HumanDuration, ListenPlan, PhasePlan, Plan, PlanError,
    ScenarioPlan, SessionEnd, SourceRange, StdioPlan, StepPlan, ThinkPlan, Thresholds, parse_era,
};
use corelane_load::result::MemoryGrowth;
use corelane_load::target::Era;

use super::calls::CallArguments;
use super::credentials::CredentialArguments;
use super::files::{CiFiles, ResultFiles};
use super::numbers::{parse_count, parse_rate, parse_small_count};
use super::server::{ServerArguments, ServerProcess};
use super::{CliError, print_stderr};

/// Default rate of a run, in requests a second.
const DEFAULT_RATE: f64 = 1_000.0;
/// Default measured time of a run.
const DEFAULT_DURATION: HumanDuration = HumanDuration::from_secs(10);
/// Longest time that the requests of a closed loop may take.
const REQUESTS_TIME_MAX: HumanDuration = HumanDuration::from_secs(24 * 60 * 60);
/// Heading of the common flags in the help.
const LOAD: &str = "Load";
/// Heading of the thresholds in the help.
const THRESHOLDS: &str = "Thresholds: response times, errors and rate";
/// Heading of the flags of files in the help.
pub(super) const OUTPUT: &str = "Output";
/// Help text of the target.
const TARGET: &str = "The server: HOST:PORT/PATH or http://HOST[:PORT]/PATH, \
    ws://HOST[:PORT]/PATH, tcp://HOST:PORT, with TLS tls://, https:// or wss://, or \
    \"stdio:PROGRAM ARGUMENT…\", one process for each connection";

/// Target and load. Flags take precedence over the plan.
#[derive(Args, Debug)]
pub(super) struct LoadArguments {
    #[arg(required_unless_present = "plan", help = TARGET, help_heading = None::<&str>)]
    target: Option<String>,
    #[command(flatten)]
    shape: ShapeArguments,
    #[command(flatten)]
    requests: RequestArguments,
    #[command(flatten)]
    thresholds: ThresholdArguments,
    #[command(flatten, next_help_heading = "Server under test")]
    server: ServerArguments,
    #[command(flatten, next_help_heading = "Credentials and TLS")]
    credentials: CredentialArguments,
    #[command(flatten)]
    connections: ConnectionArguments,
    #[command(flatten)]
    pub(super) generator: GeneratorArguments,
}

/// Common flags of the load.
#[derive(Args, Debug)]
#[command(next_help_heading = LOAD)]
struct ShapeArguments {
    /// Number of connections [default: 64, over stdio 1].
    #[arg(short, long, value_name = "N", value_parser = parse_count)]
    connections: Option<usize>,
    /// Users instead of a rate: each has a connection, and calls again when it has an answer; with
    /// the steps of [[scenario]] in a plan.
    #[arg(
        short,
        long,
        value_name = "N",
        value_parser = parse_count,
        conflicts_with = "connections"
    )]
    users: Option<usize>,
    /// Pause of a user before each call, or before steps without one of their own [default: 0s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    think: Option<HumanDuration>,
    /// Warm-up time, excluded from the results [default: 2s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    warm_up: Option<HumanDuration>,
    /// Timeout of a response [default: 10s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<HumanDuration>,
    /// Requests in flight on each connection [default: 1].
    #[arg(long, value_name = "N", value_parser = parse_count)]
    depth: Option<usize>,
    /// Poisson arrivals instead of evenly spaced requests.
    #[arg(long)]
    poisson: bool,
    /// Plan, a TOML file.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
}

impl ShapeArguments {
    /// Applies the flags of users. Without a scenario of a plan the calls are its steps.
    fn apply_users(&self, plan: &mut Plan) -> Result<(), PlanError> {
        plan.users = self.users.or(plan.users);
        if plan.scenarios.is_empty() && plan.users.is_some() {
            let mut calls = std::mem::take(&mut plan.calls);
            if calls.is_empty() {
                calls.push(CallPlan::default());
            }
            let step = |call| StepPlan { call, ..StepPlan::default() };
            let steps = calls.into_iter().map(step).collect();
            plan.scenarios.push(ScenarioPlan { steps, ..ScenarioPlan::default() });
        }
        if let Some(think) = self.think {
            if plan.scenarios.is_empty() {
                return Err(PlanError("--think is the pause of users: add --users 100".into()));
            }
            for scenario in &mut plan.scenarios {
                scenario.think = Some(ThinkPlan::Fixed(think));
            }
        }
        plan.apply_users();
        Ok(())
    }
}

/// Flags of requests.
#[derive(Args, Debug)]
#[command(next_help_heading = "Requests")]
struct RequestArguments {
    #[command(flatten)]
    calls: CallArguments,
    /// MCP version: auto, modern (2026-07-28), legacy (2025-11-25), or an older version [default:
    /// auto, the latest version that the server supports].
    #[arg(long, value_name = "ERA", value_parser = read_era)]
    era: Option<EraChoice>,
    /// Dialect of the messages, instead of MCP.
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "era")]
    dialect: Option<Dialect>,
}

/// Flags of connections, subscriptions, standard error and reconnects.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
struct ConnectionArguments {
    /// Connections opened a second [default: unlimited].
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    connect_rate: Option<f64>,
    /// Timeout for opening all connections [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    connect_timeout: Option<HumanDuration>,
    /// Local addresses to connect from in turn, such as 10.0.0.2,10.0.0.4-10.0.0.7.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_sources)]
    source: Vec<SourceRange>,
    /// Add this many streams that listen to changes of the list of tools, with a change every
    /// second; see [listen] in a plan.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    listen: Option<usize>,
    /// Connections replaced a second, the oldest first.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    churn: Option<f64>,
    /// Drop replaced connections without ending their sessions.
    #[arg(long)]
    leave_sessions: bool,
    /// Standard error of processes over stdio: keep (report its last lines on failure) or inherit
    /// [default: keep].
    #[arg(long, value_name = "WHERE", value_parser = parse_stderr)]
    server_stderr: Option<StderrMode>,
}

/// Flags of the load generator itself.
#[derive(Args, Debug)]
#[command(next_help_heading = "Load generator")]
pub(super) struct GeneratorArguments {
    /// Load threads.
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(super) threads: u32,
    /// CPU cores to pin the load threads to, such as 2,3.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) cores: Vec<usize>,
    /// Busy-poll this long before an intended send time; 0s to sleep [default: 100us].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    spin_max: Option<HumanDuration>,
    /// Highest 99th percentile of the generator's lag for a run to be valid [default: 1ms or 10 %
    /// of that of the response time, whichever is longer].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    lag_max: Option<HumanDuration>,
    /// Print no progress, notes and warnings.
    #[arg(long)]
    pub(super) quiet: bool,
}

impl GeneratorArguments {
    /// Observes what other programs use of the machine, for warnings.
    pub(super) fn core_use(&self) -> Option<MachineUse> {
        if self.quiet { None } else { MachineUse::observe() }
    }

    /// Prints warnings about the machine before the run of `config`.
    pub(super) fn print_warnings(&self, config: &RunConfig, core_use: Option<MachineUse>) {
        if !self.quiet {
            let machine = Machine::read(config, core_use);
            warnings(&machine, config, self.threads).iter().for_each(print_stderr);
        }
    }
}

/// Flags of thresholds. Those of single calls are in a plan.
#[derive(Args, Debug)]
#[command(next_help_heading = THRESHOLDS)]
struct ThresholdArguments {
    /// Highest median.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    p50_max: Option<HumanDuration>,
    /// Highest 90th percentile.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    p90_max: Option<HumanDuration>,
    /// Highest 95th percentile.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    p95_max: Option<HumanDuration>,
    /// Highest 99th percentile.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    p99_max: Option<HumanDuration>,
    /// Highest 99.9th percentile.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    p999_max: Option<HumanDuration>,
    /// Highest 99.99th percentile.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    p9999_max: Option<HumanDuration>,
    /// Highest mean.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    mean_max: Option<HumanDuration>,
    /// Highest maximum.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    max_max: Option<HumanDuration>,
    /// Highest failure ratio, such as 0.001; without it a run fails above 0.01.
    #[arg(long, value_name = "RATIO")]
    errors_max: Option<f64>,
}

impl ThresholdArguments {
    /// Applies the flags to those of a plan.
    fn apply(&self, thresholds: &mut Thresholds) {
        let Self { p50_max, p90_max, p95_max, p99_max, p999_max, p9999_max, .. } = *self;
        for (flag, limit) in [
            (self.mean_max, &mut thresholds.mean),
            (p50_max, &mut thresholds.p50),
            (p90_max, &mut thresholds.p90),
            (p95_max, &mut thresholds.p95),
            (p99_max, &mut thresholds.p99),
            (p999_max, &mut thresholds.p999),
            (p9999_max, &mut thresholds.p9999),
            (self.max_max, &mut thresholds.max),
        ] {
            *limit = flag.or(*limit);
        }
        thresholds.errors = self.errors_max.or(thresholds.errors);
    }
}

/// Flag of the measured time.
#[derive(Args, Debug)]
#[command(next_help_heading = LOAD)]
pub(super) struct DurationArgument {
    /// Measured time of each run, in addition to the warm-up [default: 10s; in a search 20 response
    /// times, from 1s to 10s].
    #[arg(
        short,
        long,
        visible_alias = "span",
        value_name = "DURATION",
        value_parser = parse_duration
    )]
    pub(super) duration: Option<HumanDuration>,
}

/// Progress display.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Progress {
    /// A block of lines, redrawn each second.
    Block,
    /// One line a second.
    Lines,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub(super) struct RunArguments {
    #[command(flatten)]
    rate: RateArguments,
    #[command(flatten)]
    pub(super) load: LoadArguments,
    #[command(flatten)]
    pub(super) files: ResultFiles,
    #[command(flatten)]
    pub(super) ci: CiFiles,
    #[command(flatten)]
    pub(super) output: OutputArguments,
    /// Lowest rate of successful responses a second.
    #[arg(long, value_name = "N", value_parser = parse_rate, help_heading = THRESHOLDS)]
    rate_min: Option<f64>,
    /// Highest growth of the server's memory a minute, such as 10MiB; missed only if its whole 95 %
    /// interval is above. Needs --pid or --server and 10 s.
    #[arg(long, value_name = "SIZE", help_heading = THRESHOLDS)]
    memory_growth_max: Option<HumanBytes>,
}

/// Flags of rate and time of a run.
#[derive(Args, Debug)]
#[command(next_help_heading = LOAD)]
struct RateArguments {
    /// Requests a second, such as 500 or 1.5k; 0 keeps the connections idle [default: 1000].
    #[arg(short, long, visible_short_alias = 'R', value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,
    #[command(flatten)]
    measured: DurationArgument,
    /// Measured requests, such as 10k, instead of a time.
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        conflicts_with = "duration",
        value_parser = parse_small_count
    )]
    requests: Option<u32>,
    /// Closed loop: send the next request when the previous one is answered.
    #[arg(long)]
    closed: bool,
}

/// Flags of what is written during a run.
#[derive(Args, Debug)]
#[command(next_help_heading = OUTPUT)]
pub(super) struct OutputArguments {
    /// Write one CSV row a second during the run.
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Write the histograms of each second during the run, as an
    /// `HdrHistogram` interval log (.hlog).
    #[arg(long, value_name = "FILE")]
    pub(super) hlog: Option<PathBuf>,
    /// Progress display [default: block on a terminal, otherwise lines].
    #[arg(long, value_name = "HOW")]
    pub(super) progress: Option<Progress>,
}

impl LoadArguments {
    /// Returns the plan of the file, or the default plan, with the flags applied.
    fn plan(&self) -> Result<Plan, PlanError> {
        let mut plan = match &self.shape.plan {
            Some(path) => Plan::read_with_target(path, self.target.as_deref())?,
            None => Plan::new(self.target.clone().unwrap_or_default()),
        };
        self.requests.calls.apply(&mut plan);
        self.credentials.apply(&mut plan)?;
        if let Some(streams) = self.connections.listen {
            let listen = plan.listen.take().unwrap_or_else(|| ListenPlan::new(streams));
            plan.listen = Some(ListenPlan { streams, ..listen });
        }
        if let Some(rate) = self.connections.churn {
            plan.churn = Some(ChurnPlan { rate, ..plan.churn.unwrap_or_default() });
        }
        if self.connections.leave_sessions {
            let churn = plan.churn.as_mut().ok_or_else(|| {
                PlanError("--leave-sessions needs --churn, such as --churn 100".into())
            })?;
            churn.sessions = SessionEnd::Leave;
        }
        plan.warm_up = self.shape.warm_up.unwrap_or(plan.warm_up);
        plan.response_timeout = self.shape.timeout.unwrap_or(plan.response_timeout);
        plan.connect_timeout = self.connections.connect_timeout.unwrap_or(plan.connect_timeout);
        plan.spin_max = self.generator.spin_max.unwrap_or(plan.spin_max);
        plan.lag_max = self.generator.lag_max.or(plan.lag_max);
        plan.connections = self.shape.connections.unwrap_or(plan.connections);
        if !self.connections.source.is_empty() {
            plan.connect.get_or_insert_default().sources.clone_from(&self.connections.source);
        }
        if self.connections.connect_rate.is_some() {
            plan.connect.get_or_insert_default().rate = self.connections.connect_rate;
        }
        plan.depth = self.shape.depth.unwrap_or(plan.depth);
        if let Some(EraChoice(era)) = self.requests.era {
            plan.era = era;
        }
        if let Some(Dialect::Parity) = self.requests.dialect {
            plan.era = Some(Era::Parity);
        }
        plan.poisson |= self.shape.poisson;
        if let Some(stderr) = self.connections.server_stderr {
            plan.stdio = Some(StdioPlan { stderr });
        }
        self.thresholds.apply(&mut plan.thresholds);
        self.shape.apply_users(&mut plan)?;
        Ok(plan)
    }

    /// Starts the server, or finds the process named by `--pid`.
    pub(super) fn server(&self, plan: &Plan) -> Result<ServerProcess, CliError> {
        self.server.start(plan, self.generator.quiet)
    }

    /// Returns whether processes are started: the server, or those of a stdio target.
    pub(super) fn starts_processes(&self) -> bool {
        let of_plan = || Some(Plan::read(self.shape.plan.as_ref()?).ok()?.target);
        let target = self.target.clone().or_else(of_plan).unwrap_or_default();
        self.server.has_command() || target.starts_with("stdio:")
    }

    /// Returns the name of the load: its plan or its target.
    pub(super) fn source(&self) -> String {
        let plan = self.shape.plan.as_ref().map(|path| path.display().to_string());
        plan.or_else(|| self.target.clone()).unwrap_or_default()
    }

    /// Returns the plan of a search, without rates.
    pub(super) fn search_plan(&self) -> Result<Plan, PlanError> {
        let plan = self.plan()?;
        let bounds = &plan.thresholds;
        if bounds.latency_max().is_none()
            && bounds.last_delivery.is_none()
            && bounds.errors.is_none()
        {
            return Err(PlanError(
                "a search needs a threshold: add --p99-max 1ms or --errors-max 0.001".into(),
            ));
        }
        if bounds.rate.is_some() {
            return Err(PlanError(
                "a search determines the rate: remove the threshold rate from the plan".into(),
            ));
        }
        if !plan.scenarios.is_empty() {
            return Err(PlanError(
                "a search determines a rate of requests: remove the users and scenarios".into(),
            ));
        }
        if bounds.memory_growth.is_some() {
            return Err(PlanError(
                "the runs of a search are too short for memory_growth: remove it from the plan"
                    .into(),
            ));
        }
        if plan.closed {
            return Err(PlanError(
                "a search needs an open loop: remove closed from the plan".into(),
            ));
        }
        Ok(plan)
    }
}

impl RunArguments {
    /// Returns the plan of the run.
    pub(super) fn plan(&self) -> Result<Plan, PlanError> {
        let mut plan = self.load.plan()?;
        if !plan.scenarios.is_empty() && (self.rate.rate.is_some() || self.rate.requests.is_some())
        {
            return Err(PlanError(
                "--rate and --requests are those of connections: write rate = 10 into the \
                 [[scenario]] for users that arrive at a rate"
                    .into(),
            ));
        }
        let duration = self.rate.measured.duration;
        plan.closed |= self.rate.closed;
        plan.thresholds.rate = self.rate_min.or(plan.thresholds.rate);
        plan.thresholds.memory_growth = self.memory_growth_max.or(plan.thresholds.memory_growth);
        let is_named =
            self.rate.rate.is_some() || duration.is_some() || self.rate.requests.is_some();
        if plan.phases.is_empty() || is_named {
            let default = if plan.scenarios.is_empty() { DEFAULT_RATE } else { 0.0 };
            let rate = self.rate.rate.unwrap_or(default);
            let span = match self.rate.requests {
                Some(_) if plan.closed => REQUESTS_TIME_MAX,
                Some(requests) => span_of(requests, rate)?,
                None => duration.unwrap_or(DEFAULT_DURATION),
            };
            plan.phases = vec![PhasePlan::constant(rate, span)];
        }
        if plan.closed && (self.rate.requests.is_some() || duration.is_some()) {
            plan.requests = self.rate.requests.map(u64::from);
        }
        if plan.thresholds.memory_growth.is_some() {
            self.check_memory_growth(&plan)?;
        }
        Ok(plan)
    }

    /// Checks that the growth of the server's memory can be measured.
    fn check_memory_growth(&self, plan: &Plan) -> Result<(), PlanError> {
        let seconds = MemoryGrowth::SECONDS_MIN;
        let measured = plan.profile().span().saturating_sub(plan.warm_up.get());
        let why = if !self.load.server.is_named() && !plan.target.starts_with("stdio:") {
            "add --pid or --server".to_owned()
        } else if measured.as_secs() < seconds as u64 {
            format!("measure for {seconds} s or longer (--duration)")
        } else {
            return Ok(());
        };
        Err(PlanError(format!("the growth of the server's memory has a limit: {why}")))
    }
}

/// Returns the time in which this many requests are due.
fn span_of(requests: u32, rate: f64) -> Result<HumanDuration, PlanError> {
    let span = Duration::try_from_secs_f64(f64::from(requests) / rate).ok();
    let span = span.filter(|span| !span.is_zero());
    span.map(HumanDuration::from).ok_or_else(|| {
        PlanError(format!("--requests {requests} at {rate} requests a second: both are above 0"))
    })
}

/// A protocol version of the command line; `None` is detected.
#[derive(Clone, Copy, Debug)]
struct EraChoice(Option<Era>);

/// A dialect that is no version of MCP.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Dialect {
    /// The parity dialect.
    Parity,
}

fn read_era(text: &str) -> Result<EraChoice, String> {
    if text == "parity" {
        return Err("parity is a dialect: write --dialect parity".into());
    }
    parse_era(text).map(EraChoice)
}

fn parse_stderr(text: &str) -> Result<StderrMode, String> {
    match text {
        "keep" => Ok(StderrMode::Capture),
        "inherit" => Ok(StderrMode::Inherit),
        _ => Err("standard error is keep or inherit".into()),
    }
}

pub(super) fn parse_duration(text: &str) -> Result<HumanDuration, String> {
    text.parse().map_err(|error| {
        format!("{error}; write a duration such as 500us, 20ms or 10s, or seconds")
    })
}

fn parse_sources(text: &str) -> Result<SourceRange, String> {
    text.parse()
}
