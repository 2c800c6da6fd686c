//! `corelane-load compare`: differences between results, with significance tests.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use corelane_load::comparison::comparability::Comparability;
use corelane_load::comparison::repetitions::{Repetitions, repetitions};
use corelane_load::comparison::{Comparison, ComparisonOptions, evaluate};
use corelane_load::report::compare::{self as report, table};
use corelane_load::result::RunResult;
use serde::Serialize;

use super::files::write_json;
use super::results::read_run;
use super::{CliError, EXIT_FAILED, print_stderr};

/// Exit status 0: nothing is significantly worse; 1: something is, by more than the tolerance; 2:
/// nothing could be compared.
#[derive(Args, Debug)]
pub(super) struct CompareArguments {
    /// Results of run; each is compared with the first. Without any, the runs that a comparison
    /// needs are printed for a spread of 3 %.
    #[arg(value_name = "RESULT", conflicts_with = "base")]
    results: Vec<PathBuf>,
    /// Results of several runs, as the base. Without --new, the runs that a comparison needs are
    /// printed for the spread of these.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    base: Vec<PathBuf>,
    /// Results of several runs to compare with the base.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "base")]
    new: Vec<PathBuf>,
    /// Acceptable relative worsening of a figure.
    #[arg(long, value_name = "RATIO", default_value_t = ComparisonOptions::default().tolerance)]
    tolerance: f64,
    /// Significance level: probability of any false alarm among all figures.
    #[arg(long, value_name = "RATIO", default_value_t = ComparisonOptions::default().level)]
    level: f64,
    /// Compare invalid runs, too.
    #[arg(long)]
    even_invalid: bool,
    /// Compare results of different machines or plans, too.
    #[arg(long)]
    even_different: bool,
    /// Write the comparison as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The results of one side.
struct Side {
    name: String,
    results: Vec<RunResult>,
}

/// The JSON output.
#[derive(Serialize)]
struct ComparisonFile<'a> {
    options: ComparisonOptions,
    comparability: &'a Comparability,
    /// The names of both sides with their comparison.
    compared: Vec<(&'a (String, String), &'a Comparison)>,
    /// The runs a side that show a change as large as the tolerance.
    repetitions: Vec<Repetitions>,
}

/// Runs the command and returns its exit status.
pub(super) fn compare(arguments: &CompareArguments) -> Result<ExitCode, CliError> {
    let bounds = arguments.options()?;
    if arguments.results.is_empty() && arguments.new.is_empty() {
        return print_repetitions(arguments, bounds);
    }
    let (base, others) = arguments.sides()?;
    let likeness = comparability(&base, &others);
    if !likeness.differences.is_empty() && !arguments.even_different {
        return Err(format!(
            "the results are not comparable, they differ in {}: measure both alike, or add \
             --even-different",
            likeness.differences.join(", ")
        )
        .into());
    }
    let compare = |other: &Side| Comparison::between(&base.results, &other.results);
    let mut comparisons: Vec<Comparison> = others.iter().map(compare).collect();
    evaluate(&mut comparisons, bounds);
    if !comparisons.iter().any(Comparison::has_enough_samples) {
        return Err(
            "nothing could be compared: it takes four complete seconds of one run a side, or four \
             runs a side (--base, --new)"
                .into(),
        );
    }
    for (word, all) in [("differs", &likeness.differences), ("note", &likeness.notes)] {
        for text in all {
            print_stderr(&format!("{word}: {text}"));
        }
    }
    let names: Vec<(String, String)> =
        others.iter().map(|other| (base.name.clone(), other.name.clone())).collect();
    let sides: Vec<&[RunResult]> =
        std::iter::once(&base).chain(&others).map(|side| &side.results[..]).collect();
    let needed = repetitions(&sides, bounds);
    let text = table(&names, &comparisons, bounds, &report::repetitions(&needed, bounds));
    std::io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &arguments.json {
        let compared = names.iter().zip(&comparisons).collect();
        let file = ComparisonFile {
            options: bounds,
            comparability: &likeness,
            compared,
            repetitions: needed,
        };
        write_json(path, &file)?;
    }
    let is_worse = comparisons.iter().any(Comparison::is_worse);
    Ok(if is_worse { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

/// Prints how many runs a side a comparison needs, before there is anything to compare.
fn print_repetitions(
    arguments: &CompareArguments,
    bounds: ComparisonOptions,
) -> Result<ExitCode, CliError> {
    let base = arguments.side(&arguments.base)?.results;
    let sides: &[&[RunResult]] = if base.is_empty() { &[] } else { &[&base] };
    let needed = repetitions(sides, bounds);
    let text = report::repetitions(&needed, bounds).join("\n") + "\n";
    std::io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &arguments.json {
        write_json(path, &needed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns how results differ from the first.
fn comparability(base: &Side, others: &[Side]) -> Comparability {
    let mut likeness = Comparability::default();
    let Some((first, rest)) = base.results.split_first() else { return likeness };
    for other in rest.iter().chain(others.iter().flat_map(|side| &side.results)) {
        likeness.add(Comparability::of(first, other));
    }
    likeness
}

impl CompareArguments {
    fn options(&self) -> Result<ComparisonOptions, CliError> {
        let Self { tolerance, level, .. } = *self;
        if !(tolerance >= 0.0 && tolerance.is_finite()) {
            return Err(format!("tolerance = {tolerance}: write a ratio, such as 0.03").into());
        }
        if !(level > 0.0 && level < 1.0) {
            return Err(format!("level = {level}: write a probability, such as 0.05").into());
        }
        Ok(ComparisonOptions { tolerance, level })
    }

    /// Returns the base and the sides compared with it.
    fn sides(&self) -> Result<(Side, Vec<Side>), CliError> {
        if !self.base.is_empty() {
            return Ok((self.side(&self.base)?, vec![self.side(&self.new)?]));
        }
        let mut sides = Vec::new();
        for path in &self.results {
            sides.push(self.side(std::slice::from_ref(path))?);
        }
        if sides.len() < 2 {
            return Err("there is only one result: name two or more".into());
        }
        let base = sides.remove(0);
        Ok((base, sides))
    }

    fn side(&self, paths: &[PathBuf]) -> Result<Side, CliError> {
        let mut results = Vec::new();
        for path in paths {
            let result = read_run(path)?;
            if !result.verdict.is_valid() && !self.even_invalid {
                let why = result.verdict.reason_texts().join("; ");
                let shown = path.display();
                return Err(format!(
                    "{shown} is invalid: {why}; measure again, or add --even-invalid"
                )
                .into());
            }
            results.push(result);
        }
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        Ok(Side { name: names.join(" "), results })
    }
}
