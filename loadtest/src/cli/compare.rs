//! `corelane-load compare`: how results differ, and whether that is more than chance.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use corelane_load::comparison::likeness::Likeness;
use corelane_load::comparison::{Bounds, Comparison, judge};
use corelane_load::report::compare::table;
use corelane_load::result::RunResult;
use serde::Serialize;

use super::results::read_run;
use super::{Failure, MISSED, complain, keep};

/// Status 0: nothing is significantly worse; 1: something is, by more than the tolerance; 2:
/// nothing was compared.
#[derive(Args, Debug)]
pub(super) struct CompareArguments {
    /// Results of run, each of one file; the first is what the others are compared with.
    #[arg(value_name = "RESULT", required_unless_present = "base", conflicts_with = "base")]
    results: Vec<PathBuf>,
    /// Results of several runs that the others are compared with.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "new")]
    base: Vec<PathBuf>,
    /// Results of several runs to compare.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "base")]
    new: Vec<PathBuf>,
    /// How much worse a figure may get.
    #[arg(long, value_name = "PART", default_value_t = Bounds::default().tolerance)]
    tolerance: f64,
    /// How probable one false alarm among all figures may be.
    #[arg(long, value_name = "PART", default_value_t = Bounds::default().level)]
    level: f64,
    /// Compare runs that do not count too.
    #[arg(long)]
    even_invalid: bool,
    /// Compare results of different machines or plans too.
    #[arg(long)]
    even_different: bool,
    /// Where all of it goes, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A side: its files and what they hold.
struct Side {
    name: String,
    results: Vec<RunResult>,
}

/// What is kept of a comparison.
#[derive(Serialize)]
struct Kept<'a> {
    bounds: Bounds,
    likeness: &'a Likeness,
    /// The names of the two sides with their comparison.
    compared: Vec<(&'a (String, String), &'a Comparison)>,
}

/// Runs the command; its status.
pub(super) fn compare(arguments: &CompareArguments) -> Result<ExitCode, Failure> {
    let bounds = arguments.bounds()?;
    let (base, others) = arguments.sides()?;
    let likeness = likeness(&base, &others);
    if !likeness.apart.is_empty() && !arguments.even_different {
        return Err(format!(
            "these results cannot be compared, they differ in {}: measure both alike, or write \
             --even-different",
            likeness.apart.join(", ")
        )
        .into());
    }
    let compare = |other: &Side| Comparison::between(&base.results, &other.results);
    let mut comparisons: Vec<Comparison> = others.iter().map(compare).collect();
    judge(&mut comparisons, bounds);
    if !comparisons.iter().any(Comparison::is_fruitful) {
        return Err(
            "nothing could be compared: it takes four whole seconds of one run a side, or \
                    four runs a side (--base, --new)"
                .into(),
        );
    }
    for (word, all) in [("differs", &likeness.apart), ("note", &likeness.notes)] {
        for text in all {
            complain(&format!("{word}: {text}"));
        }
    }
    let names: Vec<(String, String)> =
        others.iter().map(|other| (base.name.clone(), other.name.clone())).collect();
    std::io::stdout().write_all(table(&names, &comparisons, bounds).as_bytes())?;
    if let Some(path) = &arguments.json {
        let compared = names.iter().zip(&comparisons).collect();
        keep(path, &Kept { bounds, likeness: &likeness, compared })?;
    }
    let is_worse = comparisons.iter().any(Comparison::is_worse);
    Ok(if is_worse { ExitCode::from(MISSED) } else { ExitCode::SUCCESS })
}

/// How any of the results differ from the first.
fn likeness(base: &Side, others: &[Side]) -> Likeness {
    let mut likeness = Likeness::default();
    let Some((first, rest)) = base.results.split_first() else { return likeness };
    for other in rest.iter().chain(others.iter().flat_map(|side| &side.results)) {
        likeness.add(Likeness::of(first, other));
    }
    likeness
}

impl CompareArguments {
    fn bounds(&self) -> Result<Bounds, Failure> {
        let Self { tolerance, level, .. } = *self;
        if !(tolerance >= 0.0 && tolerance.is_finite()) {
            return Err(format!("tolerance = {tolerance}: write a part, such as 0.03").into());
        }
        if !(level > 0.0 && level < 1.0) {
            return Err(format!("level = {level}: write a probability, such as 0.05").into());
        }
        Ok(Bounds { tolerance, level })
    }

    /// What is compared with what.
    fn sides(&self) -> Result<(Side, Vec<Side>), Failure> {
        if !self.base.is_empty() {
            return Ok((self.side(&self.base)?, vec![self.side(&self.new)?]));
        }
        let mut sides = Vec::new();
        for path in &self.results {
            sides.push(self.side(std::slice::from_ref(path))?);
        }
        if sides.len() < 2 {
            return Err("there is nothing to compare it with: name two results or more".into());
        }
        let base = sides.remove(0);
        Ok((base, sides))
    }

    fn side(&self, paths: &[PathBuf]) -> Result<Side, Failure> {
        let mut results = Vec::new();
        for path in paths {
            let result = read_run(path)?;
            if !result.verdict.is_valid() && !self.even_invalid {
                let verdict = &result.verdict;
                let why = [&verdict.invalid[..], &verdict.beyond].concat().join("; ");
                let shown = path.display();
                return Err(format!(
                    "{shown} does not count: {why}; measure it again, or write --even-invalid"
                )
                .into());
            }
            results.push(result);
        }
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        Ok(Side { name: names.join(" "), results })
    }
}
