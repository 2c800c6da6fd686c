//! Users that arrive at a rate, and users whose number changes.

use corelane_load::plan::{Plan, PlanError};
use corelane_load::target::Transport;

use super::shop::{Shop, ShopModel};
use super::{BUY, TRANSPORTS, plan, run, users};

const CREATE: &str = "[[scenario.step]]\ntool = \"create\"\n\
                      arguments = { item = \"tea\", note = \"u{{user}}\" }\n";

#[test]
fn each_arrival_is_a_new_user() {
    for transport in TRANSPORTS {
        let shop = Shop::new(transport, ShopModel::default());
        let result = run(plan(&shop, "users = 20\nrate = 100", CREATE));
        let (log, found) = (shop.log(), users(&result));
        // In 300 ms.
        assert_eq!((found.arrived, result.totals.due), (30, 30), "{transport:?}");
        // A machine that is busy for long may leave some without a place at the end.
        let unsent = result.totals.failures.get("unsent").copied().unwrap_or_default();
        assert_eq!(log.notes.len() as u64 + unsent, 30, "{transport:?}: {log:?}");
        assert_eq!(log.created, log.notes.len() as u64, "{transport:?}");
        assert!(found.left <= 30 && log.connections <= 20 + found.left, "{transport:?}: {found:?}");
        assert_eq!(found.failed_iterations, 0, "{transport:?}");
    }
}

#[test]
fn arrivals_without_place_are_due_and_unsent() {
    let shop = Shop::new(Transport::Tcp, ShopModel::default());
    let steps = "[[scenario.step]]\ntool = \"slow\"\narguments = {}\n";
    let result = run(plan(&shop, "users = 4\nrate = 100", steps));
    let (totals, found) = (&result.totals, users(&result));
    assert_eq!((found.arrived, totals.due), (30, 30));
    // A machine that is busy for long may leave some of the four unsent, too.
    assert!(totals.sent <= 4 && found.waited >= 26, "{totals:?} {found:?}");
    let failures = |kind| totals.failures.get(kind).copied().unwrap_or_default();
    assert_eq!(failures("timeout"), totals.sent);
    assert_eq!(failures("unsent"), 30 - totals.sent);
    let failed = result.verdict.reason_texts().join("\n");
    assert!(failed.contains("none of 30 due requests got a good answer"), "{failed}");
}

#[test]
fn users_leave_and_return_with_stages() {
    let stages = "stages = [{ users = 4, over = \"100ms\" }, { users = 0, over = \"100ms\" }, \
                  { users = 2, over = \"100ms\" }]\nthink = \"2ms\"";
    for transport in TRANSPORTS {
        let shop = Shop::new(transport, ShopModel::default());
        let mut plan = plan(&shop, stages, BUY);
        plan.phases[0].duration = "1500ms".parse().unwrap();
        let result = run(plan);
        let (log, found) = (shop.log(), users(&result));
        assert_eq!(log.mistakes, Vec::<String>::new(), "{transport:?}");
        // Two leave for good; the others may have a request in flight until they are to return.
        assert!(found.users == 4 && (2..=4).contains(&found.left), "{transport:?}: {found:?}");
        assert_eq!(log.connections, 4 + found.left - 2, "{transport:?}: {found:?}");
        assert!(found.iterations > 0 && found.failed_iterations == 0, "{transport:?}: {found:?}");
        let last = result.seconds.iter().rfind(|second| second.span_s > 0.0).unwrap();
        assert_eq!((last.users, last.open), (2, 2), "{transport:?}: {last:?}");
        assert_eq!(result.verdict.failed, Vec::<String>::new(), "{transport:?}");
    }
}

#[test]
fn run_that_ends_before_its_stages_is_noted() {
    let shop = Shop::new(Transport::Tcp, ShopModel::default());
    let result = run(plan(&shop, "stages = [{ users = 2, over = \"1m\" }]", BUY));
    let note = "the stages of a scenario take 1m, and the run 300ms: it ended before them";
    assert!(result.verdict.notes.iter().any(|it| it == note), "{:?}", result.verdict.notes);
}

#[test]
fn invalid_rate_or_stages_are_explained() {
    let error = |keys: &str| {
        let text = format!(
            "target = \"tcp://127.0.0.1:1\"\n[[phase]]\nduration = 1\n[[scenario]]\n{keys}\n\
             {CREATE}"
        );
        let mut plan = match toml::from_str::<Plan>(&text) {
            Ok(plan) => plan,
            Err(error) => return error.message().to_owned(),
        };
        plan.apply_users();
        let PlanError(why) = plan.run_config().unwrap_err();
        why
    };
    for (keys, part) in [
        ("rate = 10", "rate = 10 needs users, the most at a time"),
        ("rate = 0\nusers = 1", "no user would arrive"),
        ("rate = -1\nusers = 1", "a rate is from 0 to"),
        ("rate = \"10/s\"\nusers = 1", "expected f64"),
        ("stages = []", "stages = []: write one"),
        ("stages = [{ users = 0, over = \"1s\" }]", "users = 1 or more"),
        ("stages = [{ users = -1, over = \"1s\" }]", "expected usize"),
        ("stages = [{ users = 1 }]", "missing field `over`"),
        ("stages = [{ users = 1, over = \"0s\" }]", "a stage lasts 1ms or longer"),
        ("stages = [{ users = 1, over = \"-1s\" }]", "expected"),
        ("stages = [{ over = \"1s\" }]\nusers = 1", "{ users = 100, over = \"1m\" }"),
        ("stages = [{ rate = 1, over = \"1s\" }]\nusers = 1", "such as rate = 10"),
        ("rate = 1\nusers = 1\nstages = [{ users = 1, over = 1 }]", "{ rate = 20, over"),
        ("rate = 0\nusers = 1\nstages = [{ rate = 0, over = 1 }]", "every rate is 0"),
        ("users = 1\nramp = 1\nstages = [{ users = 1, over = 1 }]", "remove one of both"),
    ] {
        let why = error(keys);
        assert!(why.contains(part), "{keys}: {why}");
    }
}
