//! Rules that several options must satisfy together.
//!
//! A rule reads typed options only and knows nothing of the machine. A broken rule is reported at
//! the option that is easiest to change.

use corelane_protocol::eras::Method;
use corelane_transport::http::checks;

use crate::config::issue::Diagnostic;
use crate::config::options::{ExecutorKind, ExposeMode, Options, RingBackend};
use crate::guard::rate::rules::{RateRules, parse_quota};

/// A condition on one or more options.
#[derive(Debug)]
pub struct Rule {
    /// Keys of the options it reads; a violation is reported at the first.
    pub keys: &'static [&'static str],
    /// Returns what is wrong if the options violate the rule.
    pub check: fn(&Options) -> Option<Diagnostic>,
}

/// All rules.
pub static RULES: [Rule; 25] = [
    Rule { keys: &["http.address", "tcp.address"], check: listener_addresses_differ },
    Rule {
        keys: &[MCP_PATH, SSE_PATH, MESSAGES_PATH, WEBSOCKET_PATH, PARITY_PATH],
        check: mcp_path_is_free,
    },
    Rule {
        keys: &[SSE_PATH, MCP_PATH, MESSAGES_PATH, WEBSOCKET_PATH, PARITY_PATH],
        check: sse_path_is_free,
    },
    Rule {
        keys: &[MESSAGES_PATH, MCP_PATH, SSE_PATH, WEBSOCKET_PATH, PARITY_PATH],
        check: messages_path_is_free,
    },
    Rule {
        keys: &[WEBSOCKET_PATH, MCP_PATH, SSE_PATH, MESSAGES_PATH, PARITY_PATH],
        check: websocket_path_is_free,
    },
    Rule {
        keys: &[PARITY_PATH, MCP_PATH, SSE_PATH, MESSAGES_PATH, WEBSOCKET_PATH],
        check: parity_path_is_free,
    },
    Rule { keys: &["trusted_proxies"], check: trusted_proxies_are_networks },
    Rule {
        keys: &["tls.require", "tcp.address", "http.address", "admin.address"],
        check: tls_is_required,
    },
    Rule { keys: &["shards", "cpus"], check: cpus_suffice_for_shards },
    Rule { keys: &["executor"], check: executor_is_built },
    Rule { keys: &["executor", "ring.backend"], check: executor_supports_ring },
    Rule { keys: &["ring.backend"], check: ring_is_built },
    Rule { keys: &["ring.receive_buffers"], check: buffers_are_a_power_of_two },
    Rule {
        keys: &["ring.completions_max", "ring.submissions_max"],
        check: completions_outnumber_submissions,
    },
    Rule {
        keys: &["memory_bytes_max", "message_bytes_max", "shards"],
        check: memory_holds_a_message,
    },
    Rule { keys: &["task_ttl", "task_ttl_max"], check: task_ttl_is_within_max },
    Rule { keys: &["breaker.wait", "breaker.wait_max"], check: breaker_wait_is_within_max },
    Rule { keys: &MEMORY_STEPS, check: memory_steps_follow_each_other },
    Rule { keys: &[RATE_RULES], check: rate_rules_are_valid },
    Rule { keys: &[RATE_CONNECTIONS], check: rate_of_connections_is_valid },
    Rule { keys: &["gateway.expose", "auth.rules"], check: searched_tools_have_no_rules },
    Rule { keys: &["auth.audit"], check: audit_names_tools },
    Rule { keys: &["overload.tool_calls"], check: limits_name_tools },
    Rule { keys: &["traces.endpoint"], check: endpoint_of_traces_is_valid },
    Rule { keys: &["traces.resource_attributes"], check: resource_attributes_are_valid },
];

fn trusted_proxies_are_networks(options: &Options) -> Option<Diagnostic> {
    let error = options.proxies.trusted().err()?;
    Some(Diagnostic::new(error, "write addresses and prefixes such as 127.0.0.1,10.0.0.0/8"))
}

fn endpoint_of_traces_is_valid(options: &Options) -> Option<Diagnostic> {
    let error = options.traces.endpoint_url().err()?;
    Some(Diagnostic::new(error, "write a URL such as http://127.0.0.1:4318/v1/traces"))
}

fn resource_attributes_are_valid(options: &Options) -> Option<Diagnostic> {
    let error = options.traces.resource_attributes().err()?;
    Some(Diagnostic::new(error, "write attributes such as service.namespace=shop"))
}

/// Rules name tools, and a call of `call_tool` would pass them.
fn searched_tools_have_no_rules(options: &Options) -> Option<Diagnostic> {
    let is_searched = options.gateway.expose != ExposeMode::All;
    (is_searched && !options.auth.rules.is_empty()).then(|| {
        Diagnostic::new(
            "call_tool is one tool for auth.rules, whatever tool it calls",
            "set gateway.expose to all, or give upstreams scopes in place of auth.rules",
        )
    })
}

fn audit_names_tools(options: &Options) -> Option<Diagnostic> {
    let names = options.auth.audit.iter();
    let method = names.map(|entry| entry.split_ascii_whitespace().next().unwrap_or_default());
    method_among_tools(method)
}

fn limits_name_tools(options: &Options) -> Option<Diagnostic> {
    let names = options.overload.tool_calls.iter().map(|(name, _)| name.as_str());
    method_among_tools(names.map(|it| it.split_ascii_whitespace().next().unwrap_or_default()))
}

/// Returns what is wrong if a list of tools has the name of a method.
fn method_among_tools<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Diagnostic> {
    let method = names.find(|name| Method::parse(name.trim_end_matches('*')).is_some())?;
    let message = format!("{method} is a method, not the name of a tool");
    Some(Diagnostic::new(message, "write names of tools only, such as deploy_app"))
}

const RATE_RULES: &str = "rate.rules";
const RATE_CONNECTIONS: &str = "rate.connections";

fn rate_rules_are_valid(options: &Options) -> Option<Diagnostic> {
    let error = RateRules::parse(&options.rate.rules).err()?;
    let hint = "write rules such as tools/call rate=100/s burst=200 per=principal";
    Some(Diagnostic::new(error, hint))
}

fn rate_of_connections_is_valid(options: &Options) -> Option<Diagnostic> {
    let error = parse_quota(options.rate.connections.as_deref()?).err()?;
    Some(Diagnostic::new(error, "write a rate such as rate=20/s burst=50"))
}

fn listener_addresses_differ(options: &Options) -> Option<Diagnostic> {
    let (tcp, http) = (options.tcp.address?, options.http.address?);
    let overlaps = tcp.ip() == http.ip() || tcp.ip().is_unspecified() || http.ip().is_unspecified();
    (tcp.port() != 0 && tcp.port() == http.port() && overlaps).then(|| {
        let message = format!("{http} is in use by tcp.address = {tcp}");
        Diagnostic::new(message, "set another port for one of them, or off")
    })
}

const MCP_PATH: &str = "http.path";
const SSE_PATH: &str = "http.legacy_sse_path";
const MESSAGES_PATH: &str = "http.legacy_messages_path";
const WEBSOCKET_PATH: &str = "websocket.path";
const PARITY_PATH: &str = "parity.path";

fn mcp_path_is_free(options: &Options) -> Option<Diagnostic> {
    path_is_free(options, MCP_PATH)
}

fn sse_path_is_free(options: &Options) -> Option<Diagnostic> {
    path_is_free(options, SSE_PATH)
}

fn messages_path_is_free(options: &Options) -> Option<Diagnostic> {
    path_is_free(options, MESSAGES_PATH)
}

fn parity_path_is_free(options: &Options) -> Option<Diagnostic> {
    path_is_free(options, PARITY_PATH)
}

fn websocket_path_is_free(options: &Options) -> Option<Diagnostic> {
    let in_use = path_is_free(options, WEBSOCKET_PATH)?;
    Some(Diagnostic::new(in_use.message, "set another path, or off"))
}

/// Two options with one path are reported at the one that differs from its default; if both do, at
/// the later one.
fn path_is_free(options: &Options, key: &str) -> Option<Diagnostic> {
    let defaults = Options::default();
    let (paths, defaults) = (paths(options), paths(&defaults));
    let index = paths.iter().position(|(known, _)| *known == key)?;
    let path = paths[index].1?;
    let hint = "set another path";
    if checks::is_fixed_path(path.as_bytes()) {
        return Some(Diagnostic::new(format!("{path} is in use by the server itself"), hint));
    }
    let is_set = |index: usize| paths[index] != defaults[index];
    let other = (0..paths.len()).find(|other| {
        let is_reported_here =
            if is_set(index) == is_set(*other) { index > *other } else { is_set(index) };
        is_reported_here && paths[*other].1 == Some(path)
    })?;
    Some(Diagnostic::new(format!("{path} is in use by {}", paths[other].0), hint))
}

/// Returns the paths that options set, with their keys.
fn paths(options: &Options) -> [(&'static str, Option<&str>); 5] {
    [
        (MCP_PATH, Some(&options.http.path)),
        (SSE_PATH, Some(&options.http.legacy_sse_path)),
        (MESSAGES_PATH, Some(&options.http.legacy_messages_path)),
        (WEBSOCKET_PATH, options.websocket.path.as_deref()),
        (PARITY_PATH, Some(&options.parity.path)),
    ]
}

fn tls_is_required(options: &Options) -> Option<Diagnostic> {
    let address = options.public_without_tls().filter(|_| options.tls.require)?;
    let message = format!("{address} is reachable from other machines without TLS");
    Some(Diagnostic::new(message, "set tls.certificates and tls.keys, or listen on 127.0.0.1"))
}

fn cpus_suffice_for_shards(options: &Options) -> Option<Diagnostic> {
    let cpus = options.engine.cpus.as_ref()?.len();
    let shards = usize::from(options.engine.shards?);
    (shards > cpus).then(|| {
        let message = format!("{shards} shards need {shards} cpus, only {cpus} are listed");
        Diagnostic::new(message, "list more cpus, or set one of the two to auto")
    })
}

fn executor_supports_ring(options: &Options) -> Option<Diagnostic> {
    let engine = &options.engine;
    (engine.executor == ExecutorKind::Glommio && engine.ring == RingBackend::Poll).then(|| {
        // glommio's event loop is io_uring: on machines that need poll it cannot run either.
        let hint = "set ring.backend = uring, or executor = native";
        Diagnostic::new("glommio runs on io_uring only, not on poll", hint)
    })
}

fn executor_is_built(options: &Options) -> Option<Diagnostic> {
    let is_built = cfg!(all(target_os = "linux", feature = "glommio"));
    (options.engine.executor == ExecutorKind::Glommio && !is_built).then(|| {
        let hint = "build on Linux with the feature `glommio`, or set auto";
        Diagnostic::new("glommio is not part of this build", hint)
    })
}

fn ring_is_built(options: &Options) -> Option<Diagnostic> {
    (options.engine.ring == RingBackend::Uring && !cfg!(target_os = "linux"))
        .then(|| Diagnostic::new("io_uring is available on Linux only", "set auto or poll"))
}

fn buffers_are_a_power_of_two(options: &Options) -> Option<Diagnostic> {
    let buffers = options.engine.ring_sizes.receive_buffers;
    (!buffers.is_power_of_two()).then(|| {
        let below = 1_u32 << buffers.checked_ilog2().unwrap_or(0);
        let hint = format!("write {below} or {}", below * 2);
        Diagnostic::new(format!("{buffers} is not a power of two"), hint)
    })
}

fn completions_outnumber_submissions(options: &Options) -> Option<Diagnostic> {
    let sizes = &options.engine.ring_sizes;
    (sizes.completions_max < sizes.submissions_max).then(|| {
        let message = format!(
            "{} is below ring.submissions_max = {}",
            sizes.completions_max, sizes.submissions_max
        );
        Diagnostic::new(
            message,
            "set at least twice as many: a submission may complete more than once",
        )
    })
}

fn memory_holds_a_message(options: &Options) -> Option<Diagnostic> {
    let limits = &options.limits;
    let shards = usize::from(options.engine.shards.unwrap_or(1)).max(1);
    let share = limits.memory_bytes_max / shards;
    (share < limits.message_bytes_max).then(|| {
        let message = format!(
            "{share} bytes per shard are less than one message (message_bytes_max = {})",
            limits.message_bytes_max
        );
        Diagnostic::new(message, "raise it, or lower message_bytes_max")
    })
}

fn task_ttl_is_within_max(options: &Options) -> Option<Diagnostic> {
    let limits = &options.limits;
    (limits.task_ttl > limits.task_ttl_max).then(|| {
        let message = format!(
            "{} ms is above task_ttl_max = {} ms",
            limits.task_ttl.as_millis(),
            limits.task_ttl_max.as_millis()
        );
        Diagnostic::new(message, "lower it, or raise task_ttl_max")
    })
}

fn breaker_wait_is_within_max(options: &Options) -> Option<Diagnostic> {
    let breaker = &options.overload.breaker;
    (breaker.wait > breaker.wait_max).then(|| {
        let (wait, wait_max) = (breaker.wait.as_millis(), breaker.wait_max.as_millis());
        let message = format!("{wait} ms is above breaker.wait_max = {wait_max} ms");
        Diagnostic::new(message, "lower it, or raise breaker.wait_max")
    })
}

const MEMORY_STEPS: [&str; 4] = [
    "memory_guard.refuse_connections_percent",
    "memory_guard.refuse_messages_percent",
    "memory_guard.end_streams_percent",
    "memory_guard.close_slowest_percent",
];

fn memory_steps_follow_each_other(options: &Options) -> Option<Diagnostic> {
    let memory = &options.overload.memory;
    let percentages = [
        memory.refuse_connections_percent,
        memory.refuse_messages_percent,
        memory.end_streams_percent,
        memory.close_slowest_percent,
    ];
    let steps = MEMORY_STEPS.into_iter().zip(percentages).filter(|(_, percent)| *percent > 0);
    let steps: Vec<(&str, u8)> = steps.collect();
    let pair = steps.windows(2).find(|pair| pair[0].1 > pair[1].1)?;
    let message = format!("{} = {} is above {} = {}", pair[0].0, pair[0].1, pair[1].0, pair[1].1);
    Some(Diagnostic::new(message, "each step must begin at or above the one before"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the first keys of violated rules.
    fn broken(options: &Options) -> Vec<&'static str> {
        let rules = RULES.iter().filter(|rule| (rule.check)(options).is_some());
        rules.map(|rule| rule.keys[0]).collect()
    }

    /// Returns the first keys of the rules that `change` violates.
    fn broken_by(change: impl FnOnce(&mut Options)) -> Vec<&'static str> {
        let mut options = Options::default();
        change(&mut options);
        broken(&options)
    }

    #[test]
    fn rules_name_existing_options() {
        let mut keys = RULES.iter().flat_map(|rule| rule.keys);
        assert!(keys.all(|key| crate::config::table::find(key).is_some()));
    }

    #[test]
    fn profiles_satisfy_all_rules() {
        assert!(broken(&Options::default()).is_empty());
        assert!(broken(&Options::tiny()).is_empty());
    }

    #[test]
    fn violated_rules_name_option_to_change() {
        assert_eq!(broken_by(|it| it.http.address = it.tcp.address), ["http.address"]);
        assert_eq!(
            broken_by(|it| it.engine.ring_sizes.receive_buffers = 1000),
            ["ring.receive_buffers"]
        );
        assert_eq!(
            broken_by(|it| it.engine.ring_sizes.completions_max = 8),
            ["ring.completions_max"]
        );
        assert_eq!(broken_by(|it| it.limits.memory_bytes_max = 1 << 20), ["memory_bytes_max"]);
        assert_eq!(broken_by(|it| it.limits.task_ttl_max = Duration::ZERO), ["task_ttl"]);
        assert_eq!(broken_by(|it| it.overload.breaker.wait = Duration::MAX), ["breaker.wait"]);
        for entry in ["tools/call", "tools/call deploy_*"] {
            assert_eq!(broken_by(|it| it.auth.audit = vec![entry.to_owned()]), ["auth.audit"]);
            let limit = (entry.to_owned(), 4);
            assert_eq!(
                broken_by(|it| it.overload.tool_calls = vec![limit]),
                ["overload.tool_calls"]
            );
        }
        let steps = |it: &mut Options| {
            it.overload.memory.refuse_connections_percent = 90;
            it.overload.memory.end_streams_percent = 80;
        };
        assert_eq!(broken_by(steps), [MEMORY_STEPS[0]]);
        assert_eq!(
            broken_by(|it| {
                it.engine.shards = Some(3);
                it.engine.cpus = Some(vec![0, 1]);
            }),
            ["shards"]
        );
    }

    #[test]
    fn used_path_is_reported_where_it_is_set() {
        type SetPath = fn(&mut Options, &str);
        let set: [(&str, SetPath); 5] = [
            ("http.path", |it, path| it.http.path = path.to_owned()),
            ("http.legacy_sse_path", |it, path| it.http.legacy_sse_path = path.to_owned()),
            ("http.legacy_messages_path", |it, path| {
                it.http.legacy_messages_path = path.to_owned();
            }),
            ("websocket.path", |it, path| it.websocket.path = Some(path.to_owned())),
            ("parity.path", |it, path| it.parity.path = path.to_owned()),
        ];
        let fixed =
            ["/", "/status", "/healthz", "/readyz", "/metrics", "/connections", "/upstreams"];
        let defaults = ["/mcp", "/sse", "/messages", "/mcp/ws", "/parity"];
        for (index, (key, set_path)) in set.into_iter().enumerate() {
            let others = (0..defaults.len()).filter(|other| *other != index);
            for path in others.clone().map(|other| defaults[other]).chain(fixed) {
                assert_eq!(broken_by(|it| set_path(it, path)), [key], "{path}");
            }
            assert!(broken_by(|it| set_path(it, "/own")).is_empty());
            for other in others {
                let later = set[index.max(other)].0;
                let both = broken_by(|it| {
                    set_path(it, "/own");
                    set[other].1(it, "/own");
                });
                assert_eq!(both, [later]);
            }
        }
        let swapped = broken_by(|it| {
            it.http.path = "/sse".to_owned();
            it.http.legacy_sse_path = "/mcp".to_owned();
        });
        assert!(swapped.is_empty());
        assert!(broken_by(|it| it.websocket.path = None).is_empty());
    }

    #[test]
    fn port_zero_may_be_set_twice() {
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
