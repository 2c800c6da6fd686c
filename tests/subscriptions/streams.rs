//! Streams of modern clients: begun, told, cancelled, ended.

use serde_json::{Value, json};

use crate::client::{MODERN, call, cancelled, modern};
use crate::stage::{
    Stage, TOOLS, UPDATED, expect_silence, fits, hear, listed, listen, open_stream, plain,
    stream_of,
};

#[test]
fn a_stream_is_acknowledged_with_what_it_will_hear_of() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.connect();
    let granted = open_stream(
        &mut client,
        1,
        json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": false,
            "resourceSubscriptions": ["test://one", "test://absent"],
            "fromTheFuture": {"anything": 7},
        }),
    );
    // There are no prompts here; what is not there yet may come.
    let uris = ["test://one", "test://absent"];
    assert_eq!(granted, json!({"toolsListChanged": true, "resourceSubscriptions": uris}));
    assert_eq!(open_stream(&mut client, 2, json!({})), json!({}));
    drop(client);
    stage.close();
}

#[test]
fn every_stream_hears_what_it_asked_for_under_its_own_id() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.connect();
    let ids = [json!(7), json!("7"), json!(-1), json!(u64::MAX), json!("a \"b\" \u{1F980}")];
    for id in &ids {
        open_stream(&mut client, id.clone(), json!({"toolsListChanged": true}));
    }
    open_stream(&mut client, "other", json!({"resourceSubscriptions": ["test://one"]}));
    stage.handle().change(|catalog| catalog.tool(plain("more"))).unwrap();
    let mut heard: Vec<Value> = ids
        .iter()
        .map(|_| {
            let said = client.answer();
            fits(MODERN, &said, None);
            assert_eq!(said["method"], TOOLS);
            stream_of(&said).clone()
        })
        .collect();
    let sorted = |ids: &mut Vec<Value>| ids.sort_by_key(ToString::to_string);
    let mut asked = ids.to_vec();
    sorted(&mut asked);
    sorted(&mut heard);
    assert_eq!(heard, asked);
    stage.handle().updated("test://two");
    stage.handle().updated("test://one");
    let said = hear(&mut client, UPDATED, "other");
    assert_eq!(said["params"]["uri"], "test://one");
    expect_silence(&mut client);
    drop(client);
    let counters = stage.close();
    assert_eq!(counters.subscriptions.publications_encoded, 2, "{counters}");
    assert_eq!(counters.subscriptions.frames_published, 6, "{counters}");
}

#[test]
fn a_cancelled_stream_ends_without_a_word_and_its_id_is_free() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.connect();
    open_stream(&mut client, 1, json!({"toolsListChanged": true}));
    open_stream(&mut client, 2, json!({"resourceSubscriptions": ["test://one"]}));
    // Unknown ones are passed over: nobody listens as that, or not any more.
    for id in [json!("1"), json!(99), json!(1), json!(1)] {
        client.send(cancelled(id));
    }
    expect_silence(&mut client);
    stage.handle().change(|catalog| catalog.tool(plain("more"))).unwrap();
    stage.handle().updated("test://one");
    hear(&mut client, UPDATED, 2);
    open_stream(&mut client, 1, json!({"resourceSubscriptions": ["test://one"]}));
    drop(client);
    stage.close();
}

#[test]
fn a_drain_ends_every_stream_with_its_result_and_waits_for_none() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.connect();
    for id in [json!("one"), json!(2)] {
        open_stream(&mut client, id, json!({"toolsListChanged": true}));
    }
    let reader = std::thread::spawn(move || client.rest());
    let counters = stage.close();
    let mut ended = reader.join().unwrap();
    ended.sort_by_key(|message| message["id"].to_string());
    assert_eq!(ended.len(), 2, "{ended:?}");
    for (message, id) in ended.iter().zip([json!("one"), json!(2)]) {
        fits(MODERN, message, Some("subscriptions/listen"));
        assert_eq!(message["id"], id);
        assert_eq!(message["result"]["resultType"], "complete");
        let meta = &message["result"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], id);
        assert_eq!(meta["io.modelcontextprotocol/serverInfo"]["name"], "subscriptions");
    }
    assert_eq!(counters.connections.closed_draining, 1, "{counters}");
}

#[test]
fn a_connection_that_goes_takes_its_streams_along() {
    let stage = Stage::open(1, |_| {});
    for ends_in_order in [true, false] {
        let mut client = stage.connect();
        open_stream(&mut client, 1, json!({"toolsListChanged": true}));
        if ends_in_order {
            client.finish();
            client.expect_end();
        } else {
            client.reset();
        }
    }
    // Whatever is said to a connection that is gone harms nobody.
    let mut client = stage.connect();
    open_stream(&mut client, 1, json!({"toolsListChanged": true}));
    stage.handle().change(|catalog| catalog.tool(plain("more"))).unwrap();
    hear(&mut client, TOOLS, 1);
    drop(client);
    stage.close();
}

#[test]
fn what_is_told_is_offered_already_on_every_shard_once_and_in_order() {
    const CHANGES: usize = 10;
    let stage = Stage::open(2, |_| {});
    // The kernel deals connections out to both shards.
    let mut clients: Vec<_> = (0..16).map(|_| stage.connect()).collect();
    for client in &mut clients {
        open_stream(client, "s", json!({"toolsListChanged": true}));
    }
    for change in 0..CHANGES {
        let name = format!("more-{change}");
        stage.handle().change(|catalog| catalog.tool(plain(name.clone()))).unwrap();
        for client in &mut clients {
            hear(client, TOOLS, "s");
            assert_eq!(listed(client).last(), Some(&name));
        }
    }
    for client in &mut clients {
        expect_silence(client);
    }
    drop(clients);
    let counters = stage.close();
    let streams = &counters.subscriptions;
    assert_eq!(streams.frames_published, 16 * CHANGES as u64, "{counters}");
    assert!(streams.publications_encoded <= 2 * CHANGES as u64, "{counters}");
}

#[test]
fn a_stream_is_neither_a_request_that_waits_nor_one_that_takes_too_long() {
    let stage = Stage::open(1, |options| {
        options.limits.requests_in_flight_max = 1;
        options.limits.request_max = std::time::Duration::from_millis(20);
    });
    let mut client = stage.connect();
    for id in 0..3 {
        open_stream(&mut client, id, json!({"resourceSubscriptions": ["test://one"]}));
    }
    // Longer than any request may take.
    let answer = client.ask(modern(call("late", "until-cancelled", json!({}))));
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    expect_silence(&mut client);
    stage.handle().updated("test://one");
    let mut heard: Vec<i64> = (0..3)
        .map(|_| stream_of(&client.answer()).as_i64().expect("an id that is a number"))
        .collect();
    heard.sort_unstable();
    assert_eq!(heard, [0, 1, 2]);
    drop(client);
    stage.close();
}

#[test]
fn whoever_listens_is_not_silent() {
    let stage = Stage::open(1, |options| {
        options.tcp.idle_max = std::time::Duration::from_millis(50);
    });
    let mut listener = stage.connect();
    open_stream(&mut listener, 1, json!({"resourceSubscriptions": ["test://one"]}));
    let mut idle = stage.session("2025-11-25");
    idle.expect_end();
    stage.handle().updated("test://one");
    hear(&mut listener, UPDATED, 1);
    // It was the last of its streams: from now on it is as any other.
    listener.send(cancelled(1));
    listener.expect_end();
    assert_eq!(stage.close().connections.closed_idle, 2);
}

#[test]
fn the_id_of_a_stream_is_taken_while_it_listens() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.connect();
    open_stream(&mut client, "s", json!({}));
    for second in [listen("s", json!({})), modern(call("s", "touch", json!({"name": "x"})))] {
        let answer = client.ask(second);
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
    }
    drop(client);
    stage.close();
}
