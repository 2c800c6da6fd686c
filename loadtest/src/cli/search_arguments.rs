//! Flags of `search`.

use std::path::PathBuf;

use clap::Args;
use corelane_load::plan::{HumanDuration, Plan, PlanError, SweepPlan};

use super::files::ResultFiles;
use super::load_arguments::{DurationArgument, LoadArguments, OUTPUT, parse_duration};
use super::numbers::parse_rate;

/// Arguments of `search`. Flags take precedence over the section `[sweep]` of a plan.
#[derive(Args, Debug)]
pub(super) struct SearchArguments {
    #[command(flatten)]
    measured: DurationArgument,
    #[command(flatten)]
    pub(super) load: LoadArguments,
    #[command(flatten)]
    search: RateSearchArguments,
    #[command(flatten)]
    fractions: FractionArguments,
    #[command(flatten)]
    pub(super) files: ResultFiles,
    /// Write Markdown; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(super) markdown: Option<PathBuf>,
}

/// Flags of the runs at fractions of the highest rate.
#[derive(Args, Debug)]
#[command(next_help_heading = "Fractions")]
struct FractionArguments {
    /// Fractions of the highest rate to run at afterwards, such as 0.25,0.5,0.75,0.9 [default:
    /// none].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    fractions: Vec<f64>,
    /// Runs at each fraction [default: 3].
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Measured time of each run at a fraction, in addition to the warm-up [default: 10s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    fraction_duration: Option<HumanDuration>,
}

/// Flags of the search for the highest rate.
#[derive(Args, Debug)]
#[command(next_help_heading = "Search")]
struct RateSearchArguments {
    /// First rate, in requests a second [default: what one connection reaches with one request at a
    /// time].
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate_first: Option<f64>,
    /// Lowest rate [default: 1, or an eighth of the first rate].
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate_min: Option<f64>,
    /// Highest rate [default: 100000000].
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate_max: Option<f64>,
    /// Relative resolution of the highest rate [default: 0.05].
    #[arg(long, value_name = "RATIO")]
    resolution: Option<f64>,
    /// Runs that have to pass at the highest rate [default: 3].
    #[arg(long, value_name = "N")]
    confirmations: Option<u32>,
    /// Maximum number of runs; then the best known rate is returned [default: 60].
    #[arg(long, value_name = "N")]
    runs_max: Option<u32>,
}

impl RateSearchArguments {
    /// Applies the flags to the section of a plan.
    fn apply(&self, sweep: &mut SweepPlan) {
        sweep.rate_first = self.rate_first.or(sweep.rate_first);
        sweep.rate_min = self.rate_min.or(sweep.rate_min);
        sweep.rate_max = self.rate_max.unwrap_or(sweep.rate_max);
        sweep.resolution = self.resolution.unwrap_or(sweep.resolution);
        sweep.confirmations = self.confirmations.unwrap_or(sweep.confirmations);
        sweep.runs_max = self.runs_max.unwrap_or(sweep.runs_max);
    }
}

impl FractionArguments {
    /// Applies the flags to the section of a plan.
    fn apply(&self, sweep: &mut SweepPlan) {
        if !self.fractions.is_empty() {
            sweep.fractions.clone_from(&self.fractions);
        }
        sweep.rounds = self.rounds.unwrap_or(sweep.rounds);
        sweep.duration = self.fraction_duration.unwrap_or(sweep.duration);
    }
}

impl SearchArguments {
    /// Returns the plan of all runs, without rates.
    pub(super) fn plan(&self) -> Result<Plan, PlanError> {
        let mut plan = self.load.search_plan()?;
        let sweep = plan.sweep.get_or_insert_default();
        sweep.search_duration = self.measured.duration.or(sweep.search_duration);
        self.search.apply(sweep);
        self.fractions.apply(sweep);
        Ok(plan)
    }

    /// Returns the name of the search in a Markdown table: its plan or its target.
    pub(super) fn source(&self) -> String {
        self.load.source()
    }
}
