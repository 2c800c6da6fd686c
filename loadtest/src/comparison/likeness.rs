//! Whether two results may be compared: whether they are of the same question on the same machine.
//!
//! What it keeps true: of a plan everything counts but where the server is and what does not change
//! the load; a section that this page does not know counts too.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::result::RunResult;
use crate::target::Target;

/// Members of a plan that do not change what is asked of a server: `target` is compared by its
/// transport, because two servers on one machine are what is compared most. `fields` may hold
/// secrets, which no comparison is to show.
const FREE: [&str; 9] = [
    "target",
    "seed",
    "thresholds",
    "sweep",
    "connect_max",
    "answer_max",
    "drain_max",
    "warm_up",
    "fields",
];

/// How two results are unlike each other.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Likeness {
    /// What makes them no comparison, each with its two values.
    pub apart: Vec<String>,
    /// What differs and may matter.
    pub notes: Vec<String>,
}

impl Likeness {
    /// Of two results.
    pub fn of(base: &RunResult, new: &RunResult) -> Self {
        let mut apart = Vec::new();
        let (one, other) = (&base.manifest, &new.manifest);
        for (name, one, other) in [
            ("kernel", &one.kernel, &other.kernel),
            ("CPU", &one.cpu, &other.cpu),
            ("cores", &one.cores.to_string(), &other.cores.to_string()),
            ("ring", &one.ring, &other.ring),
            ("workers", &one.workers.to_string(), &other.workers.to_string()),
            ("transport", &transport(&base.plan.target), &transport(&new.plan.target)),
        ] {
            tell(&mut apart, name, one, other);
        }
        let (mut left, mut right) = (members(base), members(new));
        for name in FREE {
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
            tell(&mut apart, name, &shown(&left), &shown(&right));
        }
        let mut notes = Vec::new();
        tell(&mut notes, "version", &one.version, &other.version);
        for (name, value) in &one.sysctls {
            let same = other.sysctls.iter().find(|(it, _)| it == name);
            tell(&mut notes, name, value, same.map_or("unknown", |(_, value)| value));
        }
        Self { apart, notes }
    }

    /// Takes in how two others differ, each thing once.
    pub fn add(&mut self, other: Self) {
        for (all, some) in [(&mut self.apart, other.apart), (&mut self.notes, other.notes)] {
            for text in some {
                if !all.contains(&text) {
                    all.push(text);
                }
            }
        }
    }
}

fn tell(into: &mut Vec<String>, name: &str, one: &str, other: &str) {
    if one != other {
        into.push(format!("{name} ({one} / {other})"));
    }
}

fn transport(target: &str) -> String {
    let target: Result<Target, _> = target.parse();
    target.map_or_else(|_| "unknown".into(), |target| target.transport().name().into())
}

fn members(result: &RunResult) -> Map<String, Value> {
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
    fn two_servers_on_one_machine_are_alike() {
        let base = result(1_000, 100.0, 4);
        let mut new = base.clone();
        new.plan.target = "tcp://127.0.0.1:2".into();
        new.plan.seed = 7;
        assert_eq!(Likeness::of(&base, &new), Likeness::default());
    }

    #[test]
    fn what_makes_two_results_no_comparison_is_listed() {
        let base = result(1_000, 100.0, 4);
        let mut new = base.clone();
        new.manifest.kernel = "6.1".into();
        new.plan.target = "http://127.0.0.1:1".into();
        new.plan.connections = 3;
        new.plan.era = Era::Legacy;
        let apart = Likeness::of(&base, &new).apart;
        let expected = [
            "kernel (6.18 / 6.1)",
            "transport (tcp / http)",
            "connections (64 / 3)",
            "era (\"modern\" / \"legacy\")",
        ];
        assert_eq!(apart, expected);
    }

    #[test]
    fn another_version_or_setting_is_noted() {
        let mut base = result(1_000, 100.0, 4);
        base.manifest.sysctls = vec![("fs.nr_open".into(), "1".into())];
        let mut new = base.clone();
        new.manifest.version = "9".into();
        new.manifest.sysctls.clear();
        let likeness = Likeness::of(&base, &new);
        assert!(likeness.apart.is_empty());
        assert_eq!(likeness.notes, ["version ( / 9)", "fs.nr_open (1 / unknown)"]);
        let mut twice = likeness.clone();
        twice.add(likeness.clone());
        assert_eq!(twice, likeness);
    }
}
