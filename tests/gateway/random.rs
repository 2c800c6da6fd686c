//! An upstream that does what a seed decides: every call has one response, to its own caller, and
//! nothing passes between principals or sessions.
//!
//! A run prints its seed, and `CORELANE_SEED=7 cargo test --test gateway random` repeats it. The
//! order in which calls of several clients reach the upstream is not the seed's.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Client, text_of};
use crate::gateway::{
    Folder, Gateway, Kind, LEGACY_HTTP, LEGACY_TCP, MODERN_HTTP, MODERN_TCP, eventually, upstream,
};
use crate::held::KEYS;
use crate::status::status;

const KINDS: [Kind; 4] = [LEGACY_TCP, LEGACY_HTTP, MODERN_TCP, MODERN_HTTP];
const CLIENTS: usize = 16;
const ROUNDS: usize = 6;
/// Calls of one client at once.
const CALLS: usize = 3;
/// What may befall a call, besides its result.
const ERRORS: [&str; 4] = [
    "the seed has decided so",
    "not answered in time",
    "has ended",
    // Programs that have died several times start again later than the calls wait.
    "no connection within 1s",
];

fn seeds() -> Vec<u64> {
    #[expect(clippy::disallowed_methods, reason = "the variable of the simulations")]
    let named = std::env::var("CORELANE_SEED").ok();
    named.map_or_else(|| vec![1, 2], |it| vec![it.parse().expect("CORELANE_SEED: a number")])
}

/// A gateway in front of an upstream with these keys.
fn gateway(seed: u64, share: &str, arguments: &[&str]) -> Gateway {
    let keys = format!("share = \"{share}\"\ncall_timeout = \"1s\"\nmax_calls = 50");
    let keys = if share == "all" { keys } else { keys.replace("\nmax_calls = 50", "") };
    Gateway::declared(&upstream("fixture", &keys, &["--seed", &seed.to_string()]), arguments)
}

/// A client, and who else may use its programs.
struct Caller {
    client: Client,
    owner: String,
}

/// Runs calls of all callers at once. `is_own` is whether a caller may see the state of an owner.
fn run(callers: &mut [Caller], is_own: impl Fn(&str, &str) -> bool) -> BTreeMap<String, usize> {
    let mut outcomes = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut calls: Vec<(usize, u64, String)> = Vec::new();
        for (index, Caller { client, owner }) in callers.iter_mut().enumerate() {
            for number in 0..CALLS {
                let message = format!("call {number} of client {index} in round {round}");
                let arguments = json!({"message": message, "owner": owner});
                let params = json!({"name": "random", "arguments": arguments});
                calls.push((index, client.start("tools/call", params), message));
            }
        }
        for (index, id, message) in calls {
            let Caller { client, owner } = &mut callers[index];
            let response = client.response(id);
            let outcome = outcome_of(&response, &message, |other| is_own(owner, other));
            *outcomes.entry(outcome.to_owned()).or_default() += 1;
        }
    }
    outcomes
}

/// What has become of a call.
fn outcome_of(response: &Value, message: &str, is_own: impl Fn(&str) -> bool) -> &'static str {
    if let Some(error) = response["error"]["message"].as_str() {
        let known = ERRORS.iter().find(|known| error.contains(*known));
        return known.unwrap_or_else(|| panic!("{message}: {response}"));
    }
    let result: Value = serde_json::from_str(text_of(response)).expect("JSON");
    assert_eq!(result["message"], message, "{response}");
    let owners = result["owners"].as_array().expect("a list");
    assert!(owners.iter().all(|it| it.as_str().is_some_and(&is_own)), "{message}: {result}");
    "result"
}

/// Checks that nothing is left of the calls.
fn expect_settled(gateway: Gateway, mut callers: Vec<Caller>, outcomes: &BTreeMap<String, usize>) {
    eprintln!("{outcomes:?}");
    assert_eq!(outcomes.values().sum::<usize>(), CLIENTS * ROUNDS * CALLS);
    assert!(outcomes["result"] > CLIENTS * ROUNDS * CALLS / 2, "{outcomes:?}");
    for Caller { client, .. } in &mut callers {
        // What was sent twice would come before this response.
        client.result("prompts/list", json!({}));
        assert_eq!(client.unclaimed(), 0);
        assert!(client.notifications.is_empty(), "{:?}", client.notifications);
    }
    eventually("no call", || status(&gateway, "fixture")["calls"]["in_flight"] == 0);
    let calls = status(&gateway, "fixture")["calls"].take();
    assert_eq!(calls["total"], CLIENTS * ROUNDS * CALLS, "{calls}");
    drop(callers);
    gateway.end();
}

#[test]
fn random_calls_of_all_are_answered_once() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let gateway = gateway(seed, "all", &[]);
        let kinds = KINDS.into_iter().cycle().take(CLIENTS);
        let caller = |kind| Caller { client: gateway.client(kind), owner: "everybody".to_owned() };
        let mut callers: Vec<Caller> = kinds.map(caller).collect();
        let outcomes = run(&mut callers, |_, _| true);
        expect_settled(gateway, callers, &outcomes);
    }
}

#[test]
fn random_calls_of_sessions_stay_apart() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let gateway = gateway(seed, "session", &[]);
        let kinds = [LEGACY_TCP, LEGACY_HTTP].into_iter().cycle().take(CLIENTS).enumerate();
        let caller = |(index, kind): (usize, Kind)| Caller {
            client: gateway.client(kind),
            owner: format!("session {index}"),
        };
        let mut callers: Vec<Caller> = kinds.map(caller).collect();
        let outcomes = run(&mut callers, |owner, other| owner == other);
        expect_settled(gateway, callers, &outcomes);
    }
}

#[test]
fn random_calls_of_principals_stay_apart() {
    let folder = Folder::new();
    folder.write("keys.txt", KEYS);
    let keys = folder.text_path("keys.txt");
    for seed in seeds() {
        eprintln!("seed {seed}");
        let gateway = gateway(seed, "principal", &["--auth-api-keys", &keys]);
        let kinds = [LEGACY_HTTP, MODERN_HTTP].into_iter().cycle().take(CLIENTS).enumerate();
        let caller = |(index, kind): (usize, Kind)| {
            let owner = ["ada", "bea"][index / 2 % 2].to_owned();
            let key = format!("key-of-{owner}");
            Caller { client: Client::with_key(&gateway, kind, json!({}), Some(&key)), owner }
        };
        let mut callers: Vec<Caller> = kinds.map(caller).collect();
        let outcomes = run(&mut callers, |owner, other| owner == other);
        expect_settled(gateway, callers, &outcomes);
    }
}
