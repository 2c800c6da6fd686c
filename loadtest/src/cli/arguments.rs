//! What can be said to the commands, and the plan that it comes to.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use corelane_load::children::Errors;
use corelane_load::plan::{
    CallPlan, ChurnPlan, ListenPlan, PhasePlan, Plan, Sessions, Sources, Span, StdioPlan,
    SweepPlan, Wrong,
};
use corelane_load::search::Bounds;
use corelane_load::target::Era;

use super::Failure;
use super::capacity::CapacityArguments;
use super::compare::CompareArguments;
use super::credentials::CredentialArguments;
use super::report::ReportArguments;
use super::server::Server;
use super::telling::Progress;

/// What names a server.
const TARGET: &str = "Which server: tcp://HOST:PORT, http://HOST[:PORT]/PATH, \
    ws://HOST[:PORT]/PATH, or with TLS tls://, https:// or wss://, or \
    \"stdio:PROGRAM ARGUMENT…\", started once for each connection";

/// Capacity planning for any MCP server.
#[derive(Debug, Parser)]
#[command(version, about)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Drive a server and say what it did.
    Run(Box<RunArguments>),
    /// Look for the highest rate at which a server keeps the thresholds.
    Search(Box<SearchArguments>),
    /// Look for the highest rate, and say how the server does at parts of it.
    Sweep(Box<SweepArguments>),
    /// Say how results differ, and whether that is more than chance.
    Compare(Box<CompareArguments>),
    /// Say from results at several sizes what a target needs: cores, memory, machines.
    Capacity(Box<CapacityArguments>),
    /// Show a result that was kept, and make a page or rows of it.
    Report(ReportArguments),
    /// Look at this machine: what of it differs from the profile in tuning/, and what that costs.
    Check(CheckArguments),
}

/// What is asked of which server. Flags go before what a plan says.
#[derive(Args, Debug)]
pub(super) struct LoadArguments {
    #[arg(required_unless_present = "plan", help = TARGET)]
    target: Option<String>,
    /// A plan, as a TOML file.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// What of the beginning is not measured.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    warm_up: Option<Span>,
    /// How long opening all connections may take.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    connect_max: Option<Span>,
    /// The last stretch before a request is due, spent awake so as not to be late; 0s to sleep.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    spin_max: Option<Span>,
    /// How late the generator may be with one request in a hundred for a run to count.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    lag_max: Option<Span>,
    /// Connections; 64 without, and 1 over stdio.
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Local addresses that connections come from in turn, such as 10.0.0.2,10.0.0.4-10.0.0.7.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = sources)]
    source: Vec<Sources>,
    /// Connections opened a second; as fast as the server accepts without it.
    #[arg(long, value_name = "N")]
    connect_rate: Option<f64>,
    /// Requests in flight on each connection.
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// modern (2026-07-28) or legacy (2025-11-25).
    #[arg(long, value_name = "ERA", value_parser = era)]
    era: Option<Era>,
    /// Spread requests as those of many users.
    #[arg(long)]
    poisson: bool,
    /// The length of the message of the tool echo.
    #[arg(long, value_name = "BYTES")]
    bytes: Option<usize>,
    /// A tool to call instead of echo, without arguments.
    #[arg(long, value_name = "NAME", conflicts_with = "bytes")]
    tool: Option<String>,
    #[command(flatten)]
    credentials: CredentialArguments,
    /// Streams that listen to the list of tools, which a tool of the demo changes every second;
    /// a plan can say more.
    #[arg(long, value_name = "N")]
    listen: Option<usize>,
    /// Where standard error of programs over stdio goes: keep tells its last lines when one fails,
    /// inherit passes it through.
    #[arg(long, value_name = "WHERE", value_parser = errors)]
    server_stderr: Option<Errors>,
    /// Connections a second that are closed and opened again, the oldest first.
    #[arg(long, value_name = "RATE")]
    churn: Option<f64>,
    /// Connections that are replaced go without a word; their sessions stay.
    #[arg(long)]
    leave_sessions: bool,
    /// The longest 99th percentile for a run to pass.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    p99_max: Option<Span>,
    /// The largest part of requests that may fail for a run to pass.
    #[arg(long, value_name = "PART")]
    errors_max: Option<f64>,
    /// Threads that drive the load.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) workers: u32,
    /// Cores for these threads, such as 2,3.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) cores: Vec<usize>,
    /// The server's process, to watch what it costs.
    #[arg(long, value_name = "PID", conflicts_with = "server")]
    pid: Option<u32>,
    /// A command that starts the server, split at its spaces. It is watched, and ended afterwards.
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,
    /// No lines while it runs.
    #[arg(long)]
    pub(super) quiet: bool,
}

/// What a run is to do.
#[derive(Args, Debug)]
pub(super) struct RunArguments {
    #[command(flatten)]
    pub(super) load: LoadArguments,
    /// Requests a second; 0 only holds the connections.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// How long, such as 10s; the warm-up comes on top.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    span: Option<Span>,
    /// Ask again as soon as the one before is answered, instead of when it is due.
    #[arg(long)]
    closed: bool,
    /// Where the whole result goes, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Where a page with plots goes: one file that needs no network.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Where a row a second goes while it runs, as CSV.
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Where the histograms of each second go while it runs, as an interval log
    /// (.hlog) for the tools of `HdrHistogram`.
    #[arg(long, value_name = "FILE")]
    pub(super) hlog: Option<PathBuf>,
    /// How it is shown while it runs; without this a block on a terminal, lines elsewhere.
    #[arg(long, value_name = "HOW")]
    pub(super) progress: Option<Progress>,
}

/// What to look for, and how long.
#[derive(Args, Debug)]
pub(super) struct SearchArguments {
    #[command(flatten)]
    pub(super) load: LoadArguments,
    /// How long each run is measured; the warm-up comes on top. The phases of a plan are left out.
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "3s")]
    pub(super) span: Span,
    /// The rate that is tried first, in requests a second.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().rate_first)]
    rate_first: f64,
    /// The lowest rate worth knowing about.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().rate_min)]
    rate_min: f64,
    /// The highest rate that is tried.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().rate_max)]
    rate_max: f64,
    /// How close to the truth the answer has to be: 0.02 is two parts in a hundred.
    #[arg(long, value_name = "PART", default_value_t = Bounds::default().resolution)]
    resolution: f64,
    /// How many runs in a row have to pass at the answer.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().confirmations)]
    confirmations: u32,
    /// Runs altogether, after which the best that is known is the answer; those that the generator
    /// spoiled are done again and not counted.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().runs_max)]
    runs_max: u32,
}

/// What to look for, and what to do with it. Flags go before the section `[sweep]` of a plan.
#[derive(Args, Debug)]
pub(super) struct SweepArguments {
    #[command(flatten)]
    pub(super) load: LoadArguments,
    /// Parts of the highest rate to run at [default: 0.25,0.5,0.75,0.9].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    parts: Vec<f64>,
    /// How often each part is run [default: 3].
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// How long each of these runs is measured; the warm-up comes on top [default: 10s].
    #[arg(long, value_name = "SPAN", value_parser = span)]
    span: Option<Span>,
    /// How long each run of the search is measured; the warm-up comes on top [default: 3s].
    #[arg(long, value_name = "SPAN", value_parser = span)]
    search_span: Option<Span>,
    /// The rate that is tried first, in requests a second [default: 1000].
    #[arg(long, value_name = "N")]
    rate_first: Option<f64>,
    /// The lowest rate worth knowing about [default: 1].
    #[arg(long, value_name = "N")]
    rate_min: Option<f64>,
    /// The highest rate that is tried [default: 100000000].
    #[arg(long, value_name = "N")]
    rate_max: Option<f64>,
    /// How close to the truth the highest rate has to be [default: 0.02].
    #[arg(long, value_name = "PART")]
    resolution: Option<f64>,
    /// How many runs in a row have to pass at the highest rate [default: 3].
    #[arg(long, value_name = "N")]
    confirmations: Option<u32>,
    /// Runs of the search altogether [default: 40].
    #[arg(long, value_name = "N")]
    runs_max: Option<u32>,
    /// Where all of it goes, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Where a page with plots goes: one file that needs no network.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Print a table for a README instead.
    #[arg(long)]
    pub(super) markdown: bool,
}

/// What this machine is to bear.
#[derive(Args, Debug)]
pub(super) struct CheckArguments {
    /// Connections to one address of a server, both ends on this machine.
    #[arg(long, value_name = "N", default_value_t = 60_000)]
    pub(super) connections: u64,
    /// Addresses that they come from.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) sources: NonZeroU64,
    /// The same as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl LoadArguments {
    /// The plan of a file or of nothing, with what the flags say instead.
    fn plan(&self) -> Result<Plan, Wrong> {
        let mut plan = match &self.plan {
            Some(path) => Plan::read(path)?,
            None => Plan::new(self.target.clone().unwrap_or_default()),
        };
        if let Some(target) = &self.target {
            plan.target.clone_from(target);
        }
        if let Some(tool) = &self.tool {
            plan.calls = vec![CallPlan::tool(tool)];
        } else if self.bytes.is_some() {
            plan.calls = vec![CallPlan { bytes: self.bytes, ..CallPlan::tool("echo") }];
        }
        self.credentials.apply(&mut plan)?;
        if let Some(streams) = self.listen {
            let listen = plan.listen.take().unwrap_or_else(|| ListenPlan::new(streams));
            plan.listen = Some(ListenPlan { streams, ..listen });
        }
        if let Some(rate) = self.churn {
            plan.churn = Some(ChurnPlan { rate, ..plan.churn.unwrap_or_default() });
        }
        if self.leave_sessions {
            let churn = plan.churn.as_mut().ok_or_else(|| {
                Wrong("--leave-sessions: no connection goes; write --churn 100 with it".into())
            })?;
            churn.sessions = Sessions::Leave;
        }
        plan.warm_up = self.warm_up.unwrap_or(plan.warm_up);
        plan.connect_max = self.connect_max.unwrap_or(plan.connect_max);
        plan.spin_max = self.spin_max.unwrap_or(plan.spin_max);
        plan.lag_max = self.lag_max.unwrap_or(plan.lag_max);
        plan.connections = self.connections.unwrap_or(plan.connections);
        if !self.source.is_empty() {
            plan.connect.get_or_insert_default().sources.clone_from(&self.source);
        }
        if self.connect_rate.is_some() {
            plan.connect.get_or_insert_default().rate = self.connect_rate;
        }
        plan.depth = self.depth.unwrap_or(plan.depth);
        plan.era = self.era.unwrap_or(plan.era);
        plan.poisson |= self.poisson;
        if let Some(stderr) = self.server_stderr {
            plan.stdio = Some(StdioPlan { stderr });
        }
        plan.thresholds.p99 = self.p99_max.or(plan.thresholds.p99);
        plan.thresholds.errors = self.errors_max.or(plan.thresholds.errors);
        Ok(plan)
    }

    /// The server's process: started, or the one that was named, or none.
    pub(super) fn server(&self, plan: &Plan) -> Result<Server, Failure> {
        match (&self.server, self.pid) {
            (Some(command), _) => Server::start(command, plan, self.quiet),
            (None, Some(pid)) => Server::of(pid),
            (None, None) => Ok(Server::default()),
        }
    }

    /// The plan of a search, but for its rates.
    fn plan_of_search(&self) -> Result<Plan, Wrong> {
        let plan = self.plan()?;
        let bounds = &plan.thresholds;
        if bounds.latency_max().is_none() && bounds.last.is_none() && bounds.errors.is_none() {
            return Err(Wrong(
                "a search needs a threshold: write --p99-max 1ms or --errors-max 0.001".into(),
            ));
        }
        if bounds.rate.is_some() {
            return Err(Wrong(
                "the threshold rate is what a search looks for: leave it out of the plan".into(),
            ));
        }
        if plan.closed {
            return Err(Wrong("a closed loop has no rate: leave closed out of the plan".into()));
        }
        Ok(plan)
    }
}

impl RunArguments {
    /// The plan of the run.
    pub(super) fn plan(&self) -> Result<Plan, Wrong> {
        let mut plan = self.load.plan()?;
        if plan.phases.is_empty() || self.rate.is_some() || self.span.is_some() {
            let rate = self.rate.unwrap_or(1_000.0);
            let span = self.span.unwrap_or(Span::seconds(10));
            plan.phases = vec![PhasePlan::constant(rate, span)];
        }
        plan.closed |= self.closed;
        Ok(plan)
    }
}

impl SearchArguments {
    /// The plan of every run, but for its rate.
    pub(super) fn plan(&self) -> Result<Plan, Wrong> {
        self.load.plan_of_search()
    }

    /// The bounds of the search.
    pub(super) const fn bounds(&self) -> Bounds {
        Bounds {
            rate_first: self.rate_first,
            rate_min: self.rate_min,
            rate_max: self.rate_max,
            resolution: self.resolution,
            confirmations: self.confirmations,
            runs_max: self.runs_max,
        }
    }
}

impl SweepArguments {
    /// The plan of the sweep, with what the flags say of it.
    pub(super) fn plan(&self) -> Result<Plan, Wrong> {
        let mut plan = self.load.plan_of_search()?;
        let sweep = plan.sweep.get_or_insert_with(SweepPlan::default);
        if !self.parts.is_empty() {
            sweep.parts.clone_from(&self.parts);
        }
        sweep.rounds = self.rounds.unwrap_or(sweep.rounds);
        sweep.span = self.span.unwrap_or(sweep.span);
        sweep.search_span = self.search_span.unwrap_or(sweep.search_span);
        sweep.rate_first = self.rate_first.unwrap_or(sweep.rate_first);
        sweep.rate_min = self.rate_min.unwrap_or(sweep.rate_min);
        sweep.rate_max = self.rate_max.unwrap_or(sweep.rate_max);
        sweep.resolution = self.resolution.unwrap_or(sweep.resolution);
        sweep.confirmations = self.confirmations.unwrap_or(sweep.confirmations);
        sweep.runs_max = self.runs_max.unwrap_or(sweep.runs_max);
        Ok(plan)
    }

    /// What a table names the sweep by: its plan, or its server.
    pub(super) fn source(&self) -> String {
        let plan = self.load.plan.as_ref().map(|path| path.display().to_string());
        plan.or_else(|| self.load.target.clone()).unwrap_or_default()
    }
}

/// What was not understood, in one line. clap tells it in several, with the usage behind it.
pub(super) fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let said = said.collect::<Vec<_>>().join(" ");
    format!("{} (see --help)", said.trim_start_matches("error: "))
}

fn era(text: &str) -> Result<Era, String> {
    match text {
        "modern" => Ok(Era::Modern),
        "legacy" => Ok(Era::Legacy),
        _ => Err("an era is modern or legacy".into()),
    }
}

fn errors(text: &str) -> Result<Errors, String> {
    match text {
        "keep" => Ok(Errors::Keep),
        "inherit" => Ok(Errors::Inherit),
        _ => Err("standard error is to keep or to inherit".into()),
    }
}

fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error| format!("{error}; write a span such as 500us, 20ms or 10s"))
}

fn sources(text: &str) -> Result<Sources, String> {
    text.parse()
}
