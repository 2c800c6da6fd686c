//! Users against a scripted server over each transport: what they send, in which order, and how
//! that is counted.

#![expect(clippy::unwrap_used, reason = "test setup")]
#![expect(clippy::disallowed_types, reason = "the threads of a server share its log")]

mod answers;
mod arrivals;
pub(crate) mod event_server;
mod event_streams;
mod oauth_server;
mod shop;
mod sign_in;

use std::time::Duration;

use corelane_load::generator;
use corelane_load::plan::{Plan, PlanError};
use corelane_load::result::{Manifest, RunResult, UsersResult};
use corelane_load::target::Transport;

use self::shop::{Shop, ShopModel};
use crate::file_path;

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Http, Transport::WebSocket];

/// Lists all pages of items, creates an order of the last item, and reads it.
const BUY: &str = r#"
[[scenario.step]]
method = "resources/list"
params = { cursor = "{{value cursor}}" }
take = { cursor = "/nextCursor", item = "/resources/0/name" }
while = "/nextCursor"

[[scenario.step]]
tool = "create"
arguments = { item = "{{value item}}", note = "of {{user}}" }
take = { order = "/structuredContent/order" }

[[scenario.step]]
tool = "{{value item}}"
arguments = { order = "{{value order}}" }
repeat = 2
"#;

/// Returns a plan of one scenario.
fn plan(shop: &Shop, keys: &str, steps: &str) -> Plan {
    let text = format!(
        "target = \"{}\"\nera = \"legacy\"\nwarm_up = \"0s\"\nresponse_timeout = \"2s\"\n\
         [[phase]]\nduration = \"300ms\"\n[[scenario]]\n{keys}\n{steps}",
        shop.target()
    );
    let mut plan: Plan = toml::from_str(&text).unwrap();
    plan.apply_users();
    plan
}

fn run(plan: Plan) -> RunResult {
    let config = plan.run_config().unwrap();
    let measurements = generator::run(&config, 2, &[], None, |_, _| {}).unwrap();
    RunResult::new(plan, Manifest::default(), &measurements)
}

fn users(result: &RunResult) -> UsersResult {
    result.users.clone().unwrap()
}

#[test]
fn steps_follow_in_order_with_taken_values() {
    for transport in TRANSPORTS {
        let shop = Shop::new(transport, ShopModel::default());
        let result = run(plan(&shop, "users = 3", BUY));
        let log = shop.log();
        assert_eq!(log.mistakes, Vec::<String>::new(), "{transport:?}");
        let found = users(&result);
        assert!(found.iterations >= 3 && log.read / 2 >= found.iterations, "{transport:?}");
        // The end of the run may cut one iteration of each user.
        assert!(log.read / 2 <= found.iterations + 3, "{transport:?}: {log:?} {found:?}");
        assert_eq!((found.failed_iterations, found.left, found.users), (0, 0, 3));
        assert_eq!(result.totals.answered, log.listed + log.created + log.read);
        let names: Vec<&str> = result.calls.iter().map(|call| &*call.name).collect();
        assert_eq!(names, ["resources/list", "create", "{{value item}}"]);
    }
}

#[test]
fn users_that_leave_bring_new_sessions() {
    for transport in TRANSPORTS {
        let shop = Shop::new(transport, ShopModel::default());
        let mut plan = plan(&shop, "users = 2\nleave = true\nrepeat = 2", BUY);
        plan.phases[0].duration = "600ms".parse().unwrap();
        let result = run(plan);
        let (log, found) = (shop.log(), users(&result));
        assert_eq!(log.mistakes, Vec::<String>::new(), "{transport:?}");
        assert!(found.left >= 2, "{transport:?}: {found:?}");
        // The run may end before the last ones come.
        let arrived = found.left..=found.left + 2;
        assert!(arrived.contains(&log.connections), "{transport:?}: {log:?} {found:?}");
        assert_eq!((result.totals.lost, found.failed_iterations), (0, 0), "{transport:?}");
        // Each user has a number of its own.
        let numbers = log.notes.len() as u64;
        assert!((found.left..=found.left + 2).contains(&numbers), "{transport:?}: {log:?}");
    }
}

#[test]
fn failed_step_ends_the_iteration() {
    for transport in TRANSPORTS {
        let shop = Shop::new(transport, ShopModel { refuses_create: true, ..ShopModel::default() });
        let result = run(plan(&shop, "users = 1\nthink = \"1ms\"", BUY));
        let (log, found) = (shop.log(), users(&result));
        assert_eq!((log.read, found.iterations), (0, 0), "{transport:?}");
        // The run may end before the user goes on after the last one.
        let failed = log.created - 1..=log.created;
        assert!(failed.contains(&found.failed_iterations), "{transport:?}: {log:?} {found:?}");
        assert!(log.created > 2 && result.totals.failures["rpc_error"] == log.created);
    }
}

#[test]
fn user_ends_after_its_iterations() {
    let shop = Shop::new(Transport::Tcp, ShopModel::default());
    let result = run(plan(&shop, "users = 4\nrepeat = 3\nramp = \"50ms\"", BUY));
    assert_eq!((users(&result).iterations, shop.log().created), (12, 12));
    assert_eq!(result.totals.answered, 12 * (3 + 1 + 2));
}

#[test]
fn reports_have_figures_of_users() {
    let shop = Shop::new(Transport::Tcp, ShopModel::default());
    let result = run(plan(&shop, "users = 2\nrepeat = 2", BUY));
    let markdown = corelane_load::report::markdown::run(&result);
    assert!(markdown.contains("\nusers: 2 · 4 iterations"), "{markdown}");
    assert!(markdown.contains("\n| iteration | "), "{markdown}");
    let metrics = corelane_load::report::openmetrics::run(&result);
    for line in [
        "corelane_load_users 2",
        "corelane_load_user_iterations{state=\"complete\"} 4",
        "corelane_load_user_iteration_seconds{statistic=\"max\"}",
    ] {
        assert!(metrics.contains(&format!("\n{line}")), "{line}: {metrics}");
    }
    let table = corelane_load::report::table::table(&result);
    assert_eq!(table.matches("\niteration ").count(), 1, "{table}");
}

#[test]
fn value_that_no_result_has_is_noted() {
    let shop = Shop::new(Transport::Tcp, ShopModel::default());
    let steps = "[[scenario.step]]\nname = \"list\"\nmethod = \"resources/list\"\n\
                 take = { a = \"/resources/0/name\", b = \"/tools/0/name\" }\n";
    let result = run(plan(&shop, "users = 2\nrepeat = 2", steps));
    let note = "none of 4 results of list had a value at /tools/0/name: {{value b}} was left out";
    assert!(result.verdict.notes.contains(&note.to_owned()), "{:?}", result.verdict.notes);
    assert!(!result.verdict.notes.iter().any(|note| note.contains("{{value a}}")));
}

#[test]
fn step_is_skipped_unless_its_value_was_taken() {
    let steps = format!(
        "{BUY}[[scenario.step]]\nwhen = \"cursor\"\ntool = \"never\"\narguments = {{}}\n\
         [[scenario.step]]\nwhen = 'item=\"item 3\"'\n[[scenario.step.step]]\n\
         tool = \"{{{{value item}}}}\"\narguments = {{ order = \"{{{{value order}}}}\" }}\n"
    );
    let shop = Shop::new(Transport::Tcp, ShopModel::default());
    let result = run(plan(&shop, "users = 1\nrepeat = 2", &steps));
    let log = shop.log();
    assert_eq!(log.mistakes, Vec::<String>::new());
    assert_eq!((users(&result).iterations, log.created, log.read), (2, 2, 2 * 3));
}

#[test]
fn pauses_lie_between_answer_and_request() {
    let pause = Duration::from_millis(20);
    for think in ["\"20ms\"", "{ uniform = [\"20ms\", \"30ms\"] }"] {
        let shop = Shop::new(Transport::Http, ShopModel::default());
        let result = run(plan(&shop, &format!("users = 2\nthink = {think}"), BUY));
        let log = shop.log();
        assert_eq!(log.mistakes, Vec::<String>::new());
        assert!(log.pause_min.is_some_and(|shortest| shortest >= pause), "{log:?}");
        let iteration = users(&result).iteration;
        assert!(iteration.p50_us.is_some_and(|p50| p50 >= 100_000.0), "{iteration:?}");
    }
}

#[test]
fn retries_after_429_are_counted() {
    let limited = ShopModel { limits_each: Some(2), ..ShopModel::default() };
    for (retries, is_failed) in [(1, false), (0, true)] {
        let shop = Shop::new(Transport::Http, limited);
        let result = run(plan(&shop, &format!("users = 1\nretries = {retries}"), BUY));
        let (log, found) = (shop.log(), users(&result));
        let failed = result.totals.failures.get("http_429").copied().unwrap_or_default();
        let counts = if is_failed { (0, log.limited) } else { (log.limited, 0) };
        assert!(log.limited > 1, "{log:?}");
        assert_eq!((found.retried, failed), counts, "{log:?}");
        assert_eq!(found.failed_iterations > 0, is_failed, "{found:?}");
    }
}

#[test]
fn cancelled_requests_free_their_users() {
    let steps = "[[scenario.step]]\ntool = \"slow\"\narguments = {}\ncancel = 1.0\n\
                 cancel_after = \"5ms\"\n[[scenario.step]]\nmethod = \"resources/list\"\n";
    for transport in TRANSPORTS {
        let shop = Shop::new(transport, ShopModel::default());
        let result = run(plan(&shop, "users = 2", steps));
        let (log, found) = (shop.log(), users(&result));
        assert!(found.cancelled > 2 && found.iterations <= found.cancelled, "{found:?}");
        assert!(found.iterations + 2 >= found.cancelled, "{found:?}");
        assert_eq!(result.totals.failures.values().sum::<u64>(), 0, "{transport:?}");
        assert_eq!(found.failed_iterations, 0, "{transport:?}: {found:?}");
        let is_http = transport == Transport::Http;
        let reported = if is_http { log.connections - 2 } else { log.cancelled };
        // The last ones may end the run.
        let expected = found.cancelled - 2..=found.cancelled;
        assert!(expected.contains(&reported), "{transport:?}: {log:?} {found:?}");
        let totals = &result.totals;
        assert_eq!(totals.due, totals.answered + found.cancelled, "{transport:?}");
    }
}

#[test]
fn each_user_sends_its_token_and_row() {
    let file = file_path("users-tokens.csv");
    std::fs::write(&file, "name,token\nAda,secret-a\nBo,secret-b\n").unwrap();
    let keys = format!("users = 4\ndata = {file:?}\nbearer = \"{{{{user token}}}}\"");
    let steps = "[[scenario.step]]\ntool = \"create\"\n\
                 arguments = { item = \"tea\", note = \"{{user name}}\" }\n";
    for transport in [Transport::Http, Transport::WebSocket] {
        let shop = Shop::new(transport, ShopModel::default());
        let result = run(plan(&shop, &format!("{keys}\nleave = true"), steps));
        let log = shop.log();
        assert!(users(&result).left > 2, "{transport:?}: {:?}", result.verdict);
        let expected = [("Ada", "Bearer secret-a"), ("Bo", "Bearer secret-b")];
        let expected = expected.map(|(name, token)| (name.to_owned(), token.to_owned()));
        assert_eq!(log.tokens, expected.into(), "{transport:?}");
        let written = serde_json::to_string(&result).unwrap();
        assert!(!written.contains("secret-a"), "a token is in the result");
    }
}

#[test]
fn invalid_scenario_is_explained() {
    let step = "[[scenario.step]]\ntool = \"a\"\n";
    let error = |text: &str| {
        let text = format!("target = \"tcp://127.0.0.1:1\"\n[[phase]]\nduration = 1\n{text}");
        let mut plan: Plan = toml::from_str(&text).unwrap();
        plan.apply_users();
        let PlanError(why) = plan.run_config().unwrap_err();
        why
    };
    for (keys, steps, part) in [
        ("", String::new(), "it has no [[scenario.step]]"),
        ("users = 0", step.into(), "users = 1 or more"),
        ("", format!("{step}arguments = {{ a = \"{{{{value b}}}}\" }}"), "there are none"),
        ("", format!("{step}take = {{ a = \"b\" }}"), "take.a: 'b' is not a JSON pointer"),
        ("", format!("{step}while = \"/a=b\""), "write JSON behind ="),
        ("", format!("{step}when = \"b\""), "no step takes b"),
        ("", format!("{step}cancel = 2.0"), "a share is from 0 to 1"),
        ("", format!("{step}cancel_after = 1"), "cancel_after needs cancel"),
        ("", format!("{step}weight = 2"), "a step has no weight"),
        ("", format!("{step}[[scenario.step.step]]\ntool = \"b\""), "a block has steps"),
        ("repeat = 0", step.into(), "repeat = 0"),
        ("think = { uniform = [2, 1] }", step.into(), "the shortest time comes first"),
        ("think = { lognormal = [0, 1] }", step.into(), "a median above zero"),
        ("data = \"/nowhere.csv\"", step.into(), "cannot read /nowhere.csv"),
        ("bearer = \"x\"", step.into(), "write {{user COLUMN}}"),
    ] {
        let why = error(&format!("[[scenario]]\n{keys}\n{steps}"));
        assert!(why.contains(part), "{keys} {steps}: {why}");
    }
    let mixed = error(&format!("[[call]]\ntool = \"b\"\n[[scenario]]\n{step}"));
    assert!(mixed.contains("move the calls into steps"), "{mixed}");
    let unknown =
        toml::from_str::<Plan>("target = \"a\"\n[[scenario]]\n[[scenario.step]]\ntol = 1");
    assert!(unknown.unwrap_err().message().contains("unknown field `tol`"));
}
