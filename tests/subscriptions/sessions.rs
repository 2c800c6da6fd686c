//! Legacy sessions: lists are told without asking, resources to whoever subscribed.

use serde_json::{Value, json};

use crate::client::{Client, MODERN, modern, request};
use crate::stage::{Stage, TOOLS, UPDATED, fits, plain};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
fn ask(client: &mut Client, method: &str, uri: Value) -> Value {
    client.ask(request(1, method, json!({"uri": uri})))
}

#[test]
fn a_session_hears_of_lists_and_of_what_it_subscribed_to() {
    let stage = Stage::open(1, |_| {});
    for revision in REVISIONS {
        let mut client = stage.session(revision);
        let before_handshake = &mut stage.connect();
        let answer = ask(&mut client, "resources/subscribe", json!("test://one"));
        fits(revision, &answer, Some("resources/subscribe"));
        assert_eq!(answer["result"], json!({}), "{answer}");
        // Twice is once.
        ask(&mut client, "resources/subscribe", json!("test://one"));
        stage.handle().updated("test://two");
        stage.handle().updated("test://one");
        let said = client.answer();
        fits(revision, &said, None);
        assert_eq!(
            (&said["method"], &said["params"]),
            (&json!(UPDATED), &json!({"uri": "test://one"}))
        );
        let answer = ask(&mut client, "resources/unsubscribe", json!("test://one"));
        fits(revision, &answer, Some("resources/unsubscribe"));
        assert_eq!(answer["result"], json!({}), "{answer}");
        stage.handle().updated("test://one");
        let name = format!("more-{revision}");
        stage.handle().change(|catalog| catalog.tool(plain(name))).unwrap();
        let said = client.answer();
        fits(revision, &said, None);
        assert_eq!(said, json!({"jsonrpc": "2.0", "method": TOOLS}));
        client.expect_alive();
        // Whoever has not made the handshake hears nothing.
        before_handshake.expect_alive();
    }
    stage.close();
}

#[test]
fn a_session_hears_of_a_list_that_becomes_empty_and_may_read_it() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.session("2025-11-25");
    let gone = ["test://one", "test://two"].map(String::from).into();
    stage.handle().change(move |catalog| catalog.remove_resources(&gone)).unwrap();
    let said = client.answer();
    assert_eq!(said["method"], "notifications/resources/list_changed", "{said}");
    let answer = client.ask(request(1, "resources/list", json!({})));
    assert_eq!(answer["result"]["resources"], json!([]), "{answer}");
    stage.close();
}

#[test]
fn unknown_resources_are_refused_and_unknown_subscriptions_are_ended_all_the_same() {
    let stage = Stage::open(1, |_| {});
    for revision in REVISIONS {
        let mut client = stage.session(revision);
        let answer = ask(&mut client, "resources/subscribe", json!("nowhere://one"));
        fits(revision, &answer, None);
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        assert_eq!(answer["error"]["data"]["uri"], "nowhere://one", "{answer}");
        let answer = ask(&mut client, "resources/unsubscribe", json!("nowhere://one"));
        assert_eq!(answer["result"], json!({}), "{answer}");
        for wrong in [json!(null), json!(7), json!(["test://one"])] {
            for method in ["resources/subscribe", "resources/unsubscribe"] {
                let answer = ask(&mut client, method, wrong.clone());
                assert_eq!(answer["error"]["code"], -32602, "{answer}");
            }
        }
    }
    stage.close();
}

#[test]
fn each_era_has_its_own_way_to_subscribe() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.session("2025-11-25");
    let answer = client.ask(request(1, "subscriptions/listen", json!({"notifications": {}})));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let answer = client.ask(modern(request(1, method, json!({"uri": "test://one"}))));
        fits(MODERN, &answer, None);
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    drop(client);
    stage.close();
}
