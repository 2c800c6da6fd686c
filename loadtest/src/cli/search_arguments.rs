//! Flags of `search` and `sweep`.

use std::path::PathBuf;

use clap::Args;
use corelane_load::plan::{HumanDuration, Plan, PlanError, SweepPlan};
use corelane_load::search::SearchOptions;

use super::load_arguments::{LoadArguments, parse_duration};

/// Arguments of `search`.
#[derive(Args, Debug)]
pub(super) struct SearchArguments {
    #[command(flatten)]
    pub(super) load: LoadArguments,
    /// Measured time of each run, in addition to the warm-up; phases of a plan are ignored.
    #[arg(
        short,
        long,
        visible_alias = "span",
        value_name = "DURATION",
        value_parser = parse_duration,
        default_value = "3s"
    )]
    pub(super) duration: HumanDuration,
    /// First rate, in requests a second.
    #[arg(long, value_name = "N", default_value_t = SearchOptions::default().rate_first)]
    rate_first: f64,
    /// Lowest rate.
    #[arg(long, value_name = "N", default_value_t = SearchOptions::default().rate_min)]
    rate_min: f64,
    /// Highest rate.
    #[arg(long, value_name = "N", default_value_t = SearchOptions::default().rate_max)]
    rate_max: f64,
    /// Relative resolution of the found rate.
    #[arg(long, value_name = "RATIO", default_value_t = SearchOptions::default().resolution)]
    resolution: f64,
    /// Consecutive runs that have to pass at the found rate.
    #[arg(long, value_name = "N", default_value_t = SearchOptions::default().confirmations)]
    confirmations: u32,
    /// Maximum number of runs, without the repetitions of invalid ones; then the best known rate is
    /// returned.
    #[arg(long, value_name = "N", default_value_t = SearchOptions::default().runs_max)]
    runs_max: u32,
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write a self-contained HTML report.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

/// Arguments of `sweep`. Flags take precedence over the section `[sweep]` of a plan.
#[derive(Args, Debug)]
pub(super) struct SweepArguments {
    #[command(flatten)]
    pub(super) load: LoadArguments,
    /// Fractions of the highest rate to run at [default: 0.25,0.5,0.75,0.9].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    fractions: Vec<f64>,
    /// Runs at each fraction [default: 3].
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Measured time of each of these runs, in addition to the warm-up [default: 10s].
    #[arg(
        short,
        long,
        visible_alias = "span",
        value_name = "DURATION",
        value_parser = parse_duration
    )]
    duration: Option<HumanDuration>,
    /// Measured time of each run of the search, in addition to the warm-up [default: 3s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    search_duration: Option<HumanDuration>,
    #[command(flatten)]
    search: SweepSearchArguments,
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write a self-contained HTML report.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Print a Markdown table instead.
    #[arg(long)]
    pub(super) markdown: bool,
}

/// Flags of the search of a sweep.
#[derive(Args, Debug)]
struct SweepSearchArguments {
    /// First rate of the search, in requests a second [default: 1000].
    #[arg(long, value_name = "N")]
    rate_first: Option<f64>,
    /// Lowest rate of the search [default: 1].
    #[arg(long, value_name = "N")]
    rate_min: Option<f64>,
    /// Highest rate of the search [default: 100000000].
    #[arg(long, value_name = "N")]
    rate_max: Option<f64>,
    /// Relative resolution of the highest rate [default: 0.02].
    #[arg(long, value_name = "RATIO")]
    resolution: Option<f64>,
    /// Consecutive runs that have to pass at the highest rate [default: 3].
    #[arg(long, value_name = "N")]
    confirmations: Option<u32>,
    /// Maximum number of runs of the search [default: 40].
    #[arg(long, value_name = "N")]
    runs_max: Option<u32>,
}

impl SearchArguments {
    /// Returns the plan of all runs, without rates.
    pub(super) fn plan(&self) -> Result<Plan, PlanError> {
        self.load.search_plan()
    }

    /// Returns the settings of the search.
    pub(super) const fn options(&self) -> SearchOptions {
        SearchOptions {
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
    /// Returns the plan of the sweep.
    pub(super) fn plan(&self) -> Result<Plan, PlanError> {
        let mut plan = self.load.search_plan()?;
        let sweep = plan.sweep.get_or_insert_with(SweepPlan::default);
        if !self.fractions.is_empty() {
            sweep.fractions.clone_from(&self.fractions);
        }
        sweep.rounds = self.rounds.unwrap_or(sweep.rounds);
        sweep.duration = self.duration.unwrap_or(sweep.duration);
        sweep.search_duration = self.search_duration.unwrap_or(sweep.search_duration);
        sweep.rate_first = self.search.rate_first.unwrap_or(sweep.rate_first);
        sweep.rate_min = self.search.rate_min.unwrap_or(sweep.rate_min);
        sweep.rate_max = self.search.rate_max.unwrap_or(sweep.rate_max);
        sweep.resolution = self.search.resolution.unwrap_or(sweep.resolution);
        sweep.confirmations = self.search.confirmations.unwrap_or(sweep.confirmations);
        sweep.runs_max = self.search.runs_max.unwrap_or(sweep.runs_max);
        Ok(plan)
    }

    /// Returns the name of the sweep in a Markdown table: its plan or its target.
    pub(super) fn source(&self) -> String {
        self.load.source()
    }
}
