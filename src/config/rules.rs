//! What options must agree on among themselves.
//!
//! What it keeps true: a rule looks at typed options only and knows nothing of the machine; each
//! rule blames the option that is easiest to change.

use crate::config::options::{Executor, Options, RingBackend};
use crate::config::problem::Refusal;
use crate::transport::http::ladder;

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// The options it looks at; the first one is the easiest to change and gets the blame.
    pub reads: &'static [&'static str],
    /// What is wrong where the rule is broken.
    pub judge: fn(&Options) -> Option<Refusal>,
}

/// Every rule.
pub static RULES: [Rule; 10] = [
    Rule { reads: &["http.address", "tcp.address"], judge: one_door_per_address },
    Rule { reads: &["websocket.path"], judge: upgrades_have_a_path_of_their_own },
    Rule { reads: &["shards", "cpus"], judge: enough_cpus },
    Rule { reads: &["executor"], judge: executor_is_built },
    Rule { reads: &["executor", "ring.backend"], judge: executor_has_its_ring },
    Rule { reads: &["ring.backend"], judge: ring_is_built },
    Rule { reads: &["ring.receive_buffers"], judge: buffers_are_a_power_of_two },
    Rule {
        reads: &["ring.completions_max", "ring.submissions_max"],
        judge: completions_outnumber_submissions,
    },
    Rule {
        reads: &["memory_bytes_max", "message_bytes_max", "shards"],
        judge: memory_holds_a_message,
    },
    Rule { reads: &["task_ttl_ms", "task_ttl_ms_max"], judge: tasks_are_kept_within_bounds },
];

fn one_door_per_address(options: &Options) -> Option<Refusal> {
    let (tcp, http) = (options.tcp.address?, options.http.address?);
    let overlaps = tcp.ip() == http.ip() || tcp.ip().is_unspecified() || http.ip().is_unspecified();
    (tcp.port() != 0 && tcp.port() == http.port() && overlaps).then(|| {
        let what = format!("{http} is taken by tcp.address = {tcp}");
        Refusal::new(what, "give one of them another port, or off")
    })
}

fn upgrades_have_a_path_of_their_own(options: &Options) -> Option<Refusal> {
    let path = options.websocket.path.as_deref()?;
    ladder::is_taken(path.as_bytes())
        .then(|| Refusal::new(format!("{path} is taken"), "write another path, or off"))
}

fn enough_cpus(options: &Options) -> Option<Refusal> {
    let cpus = options.engine.cpus.as_ref()?.len();
    let shards = usize::from(options.engine.shards?);
    (shards > cpus).then(|| {
        let what = format!("{shards} shards do not fit on {cpus} cpus");
        Refusal::new(what, "name more cpus, or leave one of the two on auto")
    })
}

fn executor_has_its_ring(options: &Options) -> Option<Refusal> {
    let engine = &options.engine;
    (engine.executor == Executor::Glommio && engine.ring == RingBackend::Poll).then(|| {
        // Its own event loop is io_uring: where readiness is needed glommio cannot run either.
        let remedy = "take ring.backend = uring, or executor = native";
        Refusal::new("glommio runs on io_uring only, not on poll", remedy)
    })
}

fn executor_is_built(options: &Options) -> Option<Refusal> {
    let is_built = cfg!(all(target_os = "linux", feature = "glommio"));
    (options.engine.executor == Executor::Glommio && !is_built).then(|| {
        let remedy = "build on Linux with the feature `glommio`, or take auto";
        Refusal::new("glommio is not part of this build", remedy)
    })
}

fn ring_is_built(options: &Options) -> Option<Refusal> {
    (options.engine.ring == RingBackend::Uring && !cfg!(target_os = "linux"))
        .then(|| Refusal::new("io_uring is a part of Linux", "take auto or poll"))
}

fn buffers_are_a_power_of_two(options: &Options) -> Option<Refusal> {
    let buffers = options.engine.ring_sizes.receive_buffers;
    (!buffers.is_power_of_two()).then(|| {
        let below = 1_u32 << buffers.checked_ilog2().unwrap_or(0);
        let remedy = format!("write {below} or {}", below * 2);
        Refusal::new(format!("{buffers} is no power of two"), remedy)
    })
}

fn completions_outnumber_submissions(options: &Options) -> Option<Refusal> {
    let sizes = &options.engine.ring_sizes;
    (sizes.completions_max < sizes.submissions_max).then(|| {
        let what = format!(
            "{} is below ring.submissions_max = {}",
            sizes.completions_max, sizes.submissions_max
        );
        Refusal::new(
            what,
            "make it at least twice as many: a submission may complete more than once",
        )
    })
}

fn memory_holds_a_message(options: &Options) -> Option<Refusal> {
    let limits = &options.limits;
    let shards = usize::from(options.engine.shards.unwrap_or(1)).max(1);
    let share = limits.memory_bytes_max / shards;
    (share < limits.message_bytes_max).then(|| {
        let what = format!(
            "the share of one shard, {share} bytes, does not hold one message of \
             message_bytes_max = {}",
            limits.message_bytes_max
        );
        Refusal::new(what, "raise it, or lower message_bytes_max")
    })
}

fn tasks_are_kept_within_bounds(options: &Options) -> Option<Refusal> {
    let limits = &options.limits;
    (limits.task_ttl > limits.task_ttl_max).then(|| {
        let what = format!(
            "{} ms is above task_ttl_ms_max = {} ms",
            limits.task_ttl.as_millis(),
            limits.task_ttl_max.as_millis()
        );
        Refusal::new(what, "lower it, or raise task_ttl_ms_max")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The keys that broken rules blame.
    fn broken(options: &Options) -> Vec<&'static str> {
        let rules = RULES.iter().filter(|rule| (rule.judge)(options).is_some());
        rules.map(|rule| rule.reads[0]).collect()
    }

    /// The keys of the rules that `change` breaks.
    fn broken_by(change: impl FnOnce(&mut Options)) -> Vec<&'static str> {
        let mut options = Options::default();
        change(&mut options);
        broken(&options)
    }

    #[test]
    fn rules_read_options_that_exist() {
        let mut keys = RULES.iter().flat_map(|rule| rule.reads);
        assert!(keys.all(|key| crate::config::table::find(key).is_some()));
    }

    #[test]
    fn the_profiles_break_no_rule() {
        assert!(broken(&Options::default()).is_empty());
        assert!(broken(&Options::tiny()).is_empty());
    }

    #[test]
    fn each_rule_names_the_option_to_change() {
        assert_eq!(broken_by(|it| it.http.address = it.tcp.address), ["http.address"]);
        assert_eq!(
            broken_by(|it| it.engine.ring_sizes.receive_buffers = 1000),
            ["ring.receive_buffers"]
        );
        assert_eq!(
            broken_by(|it| it.engine.ring_sizes.completions_max = 8),
            ["ring.completions_max"]
        );
        for taken in ["/mcp", "/", "/status", "/sse", "/messages"] {
            let broken = broken_by(|it| it.websocket.path = Some(taken.to_owned()));
            assert_eq!(broken, ["websocket.path"], "{taken}");
        }
        assert_eq!(broken_by(|it| it.limits.memory_bytes_max = 1 << 20), ["memory_bytes_max"]);
        assert_eq!(broken_by(|it| it.limits.task_ttl_max = Duration::ZERO), ["task_ttl_ms"]);
        assert_eq!(
            broken_by(|it| {
                it.engine.shards = Some(3);
                it.engine.cpus = Some(vec![0, 1]);
            }),
            ["shards"]
        );
    }

    #[test]
    fn any_free_port_may_be_asked_for_twice() {
        assert!(
            broken_by(|it| {
                it.tcp.address = Some(([0, 0, 0, 0], 0).into());
                it.http.address = it.tcp.address;
            })
            .is_empty()
        );
        let wildcard = |it: &mut Options| it.tcp.address = Some(([0, 0, 0, 0], 8080).into());
        assert_eq!(broken_by(wildcard), ["http.address"]);
    }
}
