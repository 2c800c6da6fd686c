//! Comparability of two results: same plan, same machine.
//!
//! All keys of a plan count, including unknown ones, except those in `IGNORED_KEYS`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Side;
use crate::result::RunResult;
use crate::target::Target;

/// Keys of a plan that do not change the load. Of `target` only the transport is compared, since
/// two servers on one machine are the usual comparison. `headers` may hold secrets, which must not
/// be shown.
const IGNORED_KEYS: [&str; 10] = [
    "target",
    "seed",
    "thresholds",
    "budgets",
    "sweep",
    "connect_timeout",
    "response_timeout",
    "drain_timeout",
    "warm_up",
    "headers",
];

/// Differences between the environments and plans of two results.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Comparability {
    /// Differences that make the results incomparable, each with both values.
    pub differences: Vec<String>,
    /// Differences that may matter.
    pub notes: Vec<String>,
}

impl Comparability {
    /// Compares all results with the first of the base.
    pub fn of_sides(base: &Side, others: &[Side]) -> Self {
        let mut all = Self::default();
        let Some((first, rest)) = base.runs.split_first() else { return all };
        for other in rest.iter().chain(others.iter().flat_map(|side| &side.runs)) {
            all.add(Self::of(first, other));
        }
        let is_apart = |side: &Side| {
            let ends = |runs: &[RunResult]| {
                let ends = runs.iter().map(|run| run.manifest.ended_unix_s);
                Some((ends.clone().min()?, ends.max()?))
            };
            let (Some((first, last)), Some((new_first, new_last))) =
                (ends(&base.runs), ends(&side.runs))
            else {
                return false;
            };
            first > 0 && new_first > 0 && (last < new_first || new_last < first)
        };
        if others.iter().any(|side| side.runs.len() > 1 && is_apart(side)) {
            all.notes.push(
                "one side was measured after the other: a change of the machine in between looks \
                 like one of the server; measure in turn (base, new, base, new, …)"
                    .into(),
            );
        }
        all
    }

    /// Compares two results.
    pub fn of(base: &RunResult, new: &RunResult) -> Self {
        let mut differences = Vec::new();
        let (one, other) = (&base.manifest, &new.manifest);
        for (name, one, other) in [
            ("kernel", &one.kernel, &other.kernel),
            ("CPU", &one.cpu, &other.cpu),
            ("cores", &one.cores.to_string(), &other.cores.to_string()),
            ("ring", &one.ring, &other.ring),
            ("threads", &one.threads.to_string(), &other.threads.to_string()),
            ("transport", &transport(&base.plan.target), &transport(&new.plan.target)),
        ] {
            add_difference(&mut differences, name, one, other);
        }
        let (mut left, mut right) = (plan_keys(base), plan_keys(new));
        for name in IGNORED_KEYS {
            left.remove(name);
            right.remove(name);
        }
        let mut names: Vec<&String> = left.keys().chain(right.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let shown = |plan: &Map<String, Value>| match plan.get(name) {
                None | Some(Value::Null) => "nothing".into(),
                Some(value) => value.to_string(),
            };
            add_difference(&mut differences, name, &shown(&left), &shown(&right));
        }
        let mut notes = Vec::new();
        add_difference(&mut notes, "version", &one.version, &other.version);
        for (name, value) in &one.sysctls {
            let same = other.sysctls.iter().find(|(it, _)| it == name);
            add_difference(&mut notes, name, value, same.map_or("unknown", |(_, value)| value));
        }
        Self { differences, notes }
    }

    /// Adds the differences of another pair, each once.
    pub fn add(&mut self, other: Self) {
        for (all, some) in
            [(&mut self.differences, other.differences), (&mut self.notes, other.notes)]
        {
            for text in some {
                if !all.contains(&text) {
                    all.push(text);
                }
            }
        }
    }
}

fn add_difference(into: &mut Vec<String>, name: &str, one: &str, other: &str) {
    if one != other {
        into.push(format!("{name} ({one} / {other})"));
    }
}

fn transport(target: &str) -> String {
    let target: Result<Target, _> = target.parse();
    target.map_or_else(|_| "unknown".into(), |target| target.transport().name().into())
}

fn plan_keys(result: &RunResult) -> Map<String, Value> {
    match serde_json::to_value(&result.plan) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::result;
    use crate::target::Era;

    #[test]
    fn results_of_two_servers_are_comparable() {
        let base = result(1_000, 100.0);
        let mut new = base.clone();
        new.plan.target = "tcp://127.0.0.1:2".into();
        new.plan.seed = 7;
        assert_eq!(Comparability::of(&base, &new), Comparability::default());
    }

    #[test]
    fn incomparable_results_list_differences() {
        let mut base = result(1_000, 100.0);
        base.plan.era = Some(Era::Modern);
        let mut new = base.clone();
        new.manifest.kernel = "6.1".into();
        new.plan.target = "http://127.0.0.1:1".into();
        new.plan.connections = 3;
        new.plan.era = Some(Era::Legacy);
        let apart = Comparability::of(&base, &new).differences;
        let expected = [
            "kernel (6.18 / 6.1)",
            "transport (tcp / http)",
            "connections (64 / 3)",
            "era (\"modern\" / \"legacy\")",
        ];
        assert_eq!(apart, expected);
    }

    #[test]
    fn sides_that_do_not_alternate_are_noted() {
        let side = |ends: &[u64]| {
            let runs = ends.iter().map(|end| {
                let mut run = result(1_000, 100.0);
                run.manifest.ended_unix_s = *end;
                run
            });
            Side { name: String::new(), runs: runs.collect() }
        };
        let notes = |new: &[u64]| Comparability::of_sides(&side(&[1, 3]), &[side(new)]).notes;
        assert!(notes(&[2, 4]).is_empty());
        assert!(notes(&[4, 5])[0].contains("measure in turn"));
    }

    #[test]
    fn version_and_setting_differences_are_notes() {
        let mut base = result(1_000, 100.0);
        base.manifest.sysctls = vec![("fs.nr_open".into(), "1".into())];
        let mut new = base.clone();
        new.manifest.version = "9".into();
        new.manifest.sysctls.clear();
        let likeness = Comparability::of(&base, &new);
        assert!(likeness.differences.is_empty());
        assert_eq!(likeness.notes, ["version ( / 9)", "fs.nr_open (1 / unknown)"]);
        let mut twice = likeness.clone();
        twice.add(likeness.clone());
        assert_eq!(twice, likeness);
    }
}
