//! Changes of the catalog while it is served, from outside and from handlers.

use serde_json::json;

use crate::client::{LEGACY, call, cancelled, echoed, modern};
use crate::stage::{Stage, TOOLS, UPDATED, expect_silence, hear, listed, open_stream, plain};

#[test]
fn a_handler_that_has_changed_the_catalog_finds_it_changed() {
    let stage = Stage::open(2, |_| {});
    let mut listener = stage.connect();
    open_stream(&mut listener, 1, json!({"toolsListChanged": true}));
    for (tool, name) in [("grow", "from-a-shard"), ("grow-aside", "from-a-thread")] {
        let mut client = stage.connect();
        let answer = client.ask(modern(call(1, tool, json!({"name": name}))));
        assert_eq!(echoed(&answer), "grown", "{answer}");
        let answer = client.ask(modern(call(2, name, json!({}))));
        assert_eq!(echoed(&answer), "plain", "{answer}");
        hear(&mut listener, TOOLS, 1);
    }
    drop(listener);
    stage.close();
}

#[test]
fn a_change_that_is_no_catalog_changes_nothing() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.connect();
    open_stream(&mut client, 1, json!({"toolsListChanged": true}));
    let before = listed(&mut client);
    let refused = stage.handle().change(|catalog| catalog.tool(plain("grow")));
    assert!(refused.is_err());
    let answer = client.ask(modern(call("c", "grow", json!({"name": "grow"}))));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    // One that changes no list is told to nobody.
    stage.handle().change(|catalog| catalog).unwrap();
    assert_eq!(listed(&mut client), before);
    expect_silence(&mut client);
    drop(client);
    stage.close();
}

#[test]
fn an_edit_that_panics_leaves_the_catalog_to_the_next_one() {
    let stage = Stage::open(1, |_| {});
    let handle = stage.handle();
    let panicked = std::thread::spawn(move || handle.change(|_| panic!("on purpose"))).join();
    assert!(panicked.is_err());
    stage.handle().change(|catalog| catalog.tool(plain("after"))).unwrap();
    let mut client = stage.connect();
    assert_eq!(listed(&mut client).last().map(String::as_str), Some("after"));
    drop(client);
    stage.close();
}

#[test]
fn an_edit_of_a_handler_that_panics_ends_its_call_and_nothing_else() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.connect();
    let before = listed(&mut client);
    let answer = client.ask(modern(call(1, "break", json!({}))));
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let answer = client.ask(modern(call(2, "grow", json!({"name": "after"}))));
    assert_eq!(echoed(&answer), "grown", "{answer}");
    assert_eq!(listed(&mut client).len(), before.len() + 1);
    drop(client);
    stage.close();
}

#[test]
fn a_change_waits_for_a_thread_and_its_shard_does_not() {
    let stage = Stage::open(1, |options| {
        options.engine.blocking_threads = 1;
        options.engine.blocking_queue_max = 1;
    });
    let mut client = stage.connect();
    let mut runs = modern(call("runs", "hold-a-thread", json!({})));
    runs["params"]["_meta"]["progressToken"] = json!("p");
    client.send(runs);
    // It has the only thread; the next one takes the only place in the queue.
    assert_eq!(client.answer()["params"]["progressToken"], "p");
    client.send(modern(call("waits", "hold-a-thread", json!({}))));
    client.send(modern(call("grows", "grow", json!({"name": "late"}))));
    // The shard goes on while its edit has no thread.
    assert!(!listed(&mut client).contains(&"late".to_owned()));
    for id in ["runs", "waits"] {
        client.send(cancelled(id));
    }
    let answer = client.answer();
    assert_eq!((&answer["id"], echoed(&answer)), (&json!("grows"), "grown"), "{answer}");
    assert!(listed(&mut client).contains(&"late".to_owned()));
    drop(client);
    stage.close();
}

#[test]
fn changes_from_many_threads_are_all_made() {
    let stage = Stage::open(2, |_| {});
    let mut client = stage.connect();
    let before = listed(&mut client).len();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let handle = stage.handle();
            scope.spawn(move || {
                for number in 0..5 {
                    let name = format!("tool-{thread}-{number}");
                    handle.change(|catalog| catalog.tool(plain(name))).unwrap();
                }
            });
        }
    });
    assert_eq!(listed(&mut client).len(), before + 20);
    drop(client);
    stage.close();
}

#[test]
fn a_handler_tells_subscribers_on_every_shard_of_its_resource() {
    let stage = Stage::open(2, |_| {});
    let mut listeners: Vec<_> = (0..8).map(|_| stage.connect()).collect();
    for client in &mut listeners {
        open_stream(client, 1, json!({"resourceSubscriptions": ["test://one"]}));
    }
    for tool in ["touch", "touch-aside"] {
        let mut client = stage.connect();
        let answer = client.ask(modern(call(1, tool, json!({"name": "test://one"}))));
        assert_eq!(echoed(&answer), "touched", "{answer}");
        for client in &mut listeners {
            assert_eq!(hear(client, UPDATED, 1)["params"]["uri"], "test://one");
        }
    }
    for client in &mut listeners {
        expect_silence(client);
    }
    drop(listeners);
    stage.close();
}

#[test]
fn a_call_in_flight_ends_with_the_tool_that_it_began_with() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.session(LEGACY);
    client.send(call("waits", "until-cancelled", json!({})));
    client.expect_alive();
    stage.handle().change(|catalog| catalog.remove_tool("until-cancelled")).unwrap();
    assert_eq!(client.answer()["method"], TOOLS);
    let answer = client.ask(call(2, "until-cancelled", json!({})));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    // It is still at work, and still ends by being cancelled.
    client.send(cancelled("waits"));
    client.expect_alive();
    drop(client);
    assert_eq!(stage.close().requests.cancelled, 1);
}
