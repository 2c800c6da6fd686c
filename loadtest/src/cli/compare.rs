//! `corelane-load compare`: differences between results, with a significance test.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use corelane_load::comparison::comparability::Comparability;
use corelane_load::comparison::repetitions::repetitions;
use corelane_load::comparison::{ComparisonFile, ComparisonOptions, ComparisonVerdict, Side};
use corelane_load::plan::Budgets;
use corelane_load::report::compare::{self as report, markdown, table};
use corelane_load::report::junit;

use super::files::{write_json, write_or_print};
use super::results::read_run;
use super::{CliError, EXIT_FAILED, EXIT_INVALID, print_stderr};

/// Exit status 0: no budget is exceeded; 1: one is, significantly; 2: error; 3: nothing could be
/// significant, or a budget could not be checked.
#[derive(Args, Debug)]
pub(super) struct CompareArguments {
    /// Directories with results of run (*.json), or single results; each is compared with the
    /// first. Without any, the runs that a comparison needs are printed for a spread of 3 %.
    #[arg(value_name = "RESULTS", conflicts_with = "base")]
    results: Vec<PathBuf>,
    /// Results of the base. Without --new, the runs that a comparison needs are printed for the
    /// spread of these.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    base: Vec<PathBuf>,
    /// Results to compare with the base.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "base")]
    new: Vec<PathBuf>,
    /// How much worse figures may be, such as "p95 +15 %, rate -10 %, errors +0.5 points"; only
    /// these are tested [default: [budgets] of the plan of the new results].
    #[arg(long, value_name = "BUDGETS", value_parser = parse_budgets, conflicts_with = "budgets")]
    budget: Option<Budgets>,
    /// File with the section [budgets], such as a plan.
    #[arg(long, value_name = "FILE")]
    budgets: Option<PathBuf>,
    /// Acceptable relative worsening of each figure, if there are no budgets.
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
    /// Write the comparison as Markdown; - for standard output.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write `JUnit` XML, with a test case for each budget.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Runs the command and returns its exit status.
pub(super) fn compare(arguments: &CompareArguments) -> Result<ExitCode, CliError> {
    arguments.check()?;
    if arguments.results.is_empty() && arguments.new.is_empty() {
        return print_repetitions(arguments);
    }
    let (base, others) = arguments.sides()?;
    let options = arguments.options(&others)?;
    let likeness = Comparability::of_sides(&base, &others);
    if !likeness.differences.is_empty() && !arguments.even_different {
        return Err(format!(
            "the results are not comparable, they differ in {}: measure both alike, or add \
             --even-different",
            likeness.differences.join(", ")
        )
        .into());
    }
    for (word, all) in [("differs", &likeness.differences), ("note", &likeness.notes)] {
        for text in all {
            print_stderr(&format!("{word}: {text}"));
        }
    }
    let file = ComparisonFile::new(&base, &others, options);
    if arguments.markdown.as_deref() != Some(Path::new("-")) {
        std::io::stdout().write_all(table(&file).as_bytes())?;
    }
    if let Some(path) = &arguments.markdown {
        write_or_print(path, &markdown(&file))?;
    }
    if let Some(path) = &arguments.junit {
        write_or_print(path, &junit::comparison(&file))?;
    }
    if let Some(path) = &arguments.json {
        write_json(path, &file)?;
    }
    Ok(match file.verdict() {
        ComparisonVerdict::NotWorse => ExitCode::SUCCESS,
        ComparisonVerdict::Worse => ExitCode::from(EXIT_FAILED),
        ComparisonVerdict::Undecided => ExitCode::from(EXIT_INVALID),
    })
}

/// Prints how many runs a side a comparison needs, before there is anything to compare.
fn print_repetitions(arguments: &CompareArguments) -> Result<ExitCode, CliError> {
    let base = arguments.side(&arguments.base)?;
    let options = arguments.options(std::slice::from_ref(&base))?;
    let sides: &[&[_]] = if base.runs.is_empty() { &[] } else { &[&base.runs] };
    let needed = repetitions(sides, &options);
    let text = report::repetitions(&needed, &options).join("\n") + "\n";
    std::io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &arguments.json {
        write_json(path, &needed)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl CompareArguments {
    fn check(&self) -> Result<(), CliError> {
        let Self { tolerance, level, .. } = *self;
        if !(tolerance >= 0.0 && tolerance.is_finite()) {
            return Err(format!("tolerance = {tolerance}: write a ratio, such as 0.03").into());
        }
        if !(level > 0.0 && level < 1.0) {
            return Err(format!("level = {level}: write a probability, such as 0.05").into());
        }
        Ok(())
    }

    /// Returns the settings; budgets are those of the flags, else those of the plan.
    fn options(&self, new: &[Side]) -> Result<ComparisonOptions, CliError> {
        let of_plan = || {
            let run = new.iter().flat_map(|side| &side.runs).next();
            run.map(|run| run.plan.budgets.clone()).unwrap_or_default()
        };
        let budgets = match (&self.budget, &self.budgets) {
            (Some(budgets), _) => budgets.clone(),
            (None, Some(path)) => Budgets::read(path)?,
            (None, None) => of_plan(),
        };
        Ok(ComparisonOptions { budgets, tolerance: self.tolerance, level: self.level })
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
            return Err("there is only one side: name two results or directories, or more".into());
        }
        let base = sides.remove(0);
        Ok((base, sides))
    }

    /// Reads the results of one side.
    fn side(&self, paths: &[PathBuf]) -> Result<Side, CliError> {
        let mut files = Vec::new();
        for path in paths {
            if path.is_dir() {
                files.extend(results_in(path)?);
            } else {
                files.push(path.clone());
            }
        }
        let mut runs = Vec::new();
        for path in files {
            let result = read_run(&path)?;
            if !result.verdict.is_valid() && !self.even_invalid {
                let why = result.verdict.reason_texts().join("; ");
                let shown = path.display();
                return Err(format!(
                    "{shown} is invalid: {why}; measure again, or add --even-invalid"
                )
                .into());
            }
            runs.push(result);
        }
        let shown = |path: Option<&PathBuf>| path.map(|path| path.display().to_string());
        let name = match (shown(paths.first()), shown(paths.get(1..).and_then(<[_]>::last))) {
            (Some(first), Some(last)) => format!("{first} … {last}"),
            (first, _) => first.unwrap_or_default(),
        };
        Ok(Side { name, runs })
    }
}

/// Returns the JSON files of a directory in the order of their names.
fn results_in(directory: &Path) -> Result<Vec<PathBuf>, CliError> {
    let error = |why: &dyn std::fmt::Display| -> CliError {
        format!(
            "cannot read {}: {why}; name a directory with results (--json)",
            directory.display()
        )
        .into()
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|why| error(&why))? {
        let path = entry.map_err(|why| error(&why))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(error(&"it has no *.json file")) } else { Ok(files) }
}

fn parse_budgets(text: &str) -> Result<Budgets, String> {
    Budgets::parse(text).map_err(|error| error.to_string())
}
