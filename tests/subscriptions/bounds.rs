//! Wishes that are too large, too many, or none.

use serde_json::{Value, json};

use crate::client::{Client, MODERN, cancelled, expect_error, modern, request};
use crate::stage::{Stage, TOOLS, expect_silence, fits, hear, listen, open_stream, plain};

#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
fn refused(client: &mut Client, text: Value, code: i64) {
    let answer = client.ask(&text);
    fits(MODERN, &answer, None);
    expect_error(&answer, code, Some(text["id"].clone()));
}

#[test]
fn a_wish_of_the_wrong_shape_is_refused_and_leaves_nothing() {
    let stage = Stage::open(1, |_| {});
    let mut client = stage.connect();
    for wish in [
        json!(null),
        json!(7),
        json!([]),
        json!("toolsListChanged"),
        json!({"toolsListChanged": 1}),
        json!({"promptsListChanged": "true"}),
        json!({"resourcesListChanged": {}}),
        json!({"resourceSubscriptions": "test://one"}),
        json!({"resourceSubscriptions": ["test://one", 7]}),
        json!({"resourceSubscriptions": {"0": "test://one"}}),
        json!({"taskIds": 7}),
    ] {
        refused(&mut client, listen("s", wish), -32602);
    }
    refused(&mut client, modern(request("s", "subscriptions/listen", json!({}))), -32602);
    let once = listen("twice", json!({})).to_string();
    client.send(once.replace(r#""notifications":{}"#, r#""notifications":{},"notifications":{}"#));
    expect_error(&client.answer(), -32602, Some(json!("twice")));
    // The id was never taken.
    open_stream(&mut client, "s", json!({"toolsListChanged": true}));
    drop(client);
    assert_eq!(stage.close().subscriptions.opened, 1);
}

#[test]
fn more_than_may_be_listened_to_is_refused_and_what_listens_goes_on() {
    let stage = Stage::open(1, |options| {
        options.limits.subscriptions_per_connection_max = 2;
        options.limits.subscription_uris_max = 3;
        options.limits.subscription_uri_bytes_max = 20;
    });
    let mut client = stage.connect();
    let uris = ["test://1", "test://2", "test://3", "test://4"];
    refused(&mut client, listen(1, json!({"resourceSubscriptions": uris})), -32602);
    let long = format!("test://{}", "x".repeat(20));
    refused(&mut client, listen(1, json!({"resourceSubscriptions": [long]})), -32602);
    for id in 1..=2 {
        open_stream(&mut client, id, json!({"toolsListChanged": true}));
    }
    refused(&mut client, listen(3, json!({})), -32603);
    // Another connection has its own.
    let mut other = stage.connect();
    open_stream(&mut other, 3, json!({"toolsListChanged": true}));
    client.send(cancelled(1));
    open_stream(&mut client, 3, json!({"resourceSubscriptions": &uris[..3]}));
    stage.handle().change(|catalog| catalog.tool(plain("more"))).unwrap();
    hear(&mut client, TOOLS, 2);
    hear(&mut other, TOOLS, 3);
    expect_silence(&mut client);
    drop((client, other));
    assert_eq!(stage.close().subscriptions.refused, 3);
}

#[test]
fn all_streams_together_hold_no_more_than_they_may() {
    let stage = Stage::open(1, |options| options.limits.subscription_bytes_max = 16 << 10);
    let mut client = stage.connect();
    let mut open = 0;
    let refusal = (0..1000)
        .find_map(|id| {
            let uri = format!("test://{id}/{}", "x".repeat(1000));
            let answer = client.ask(listen(id, json!({"resourceSubscriptions": [uri]})));
            open += u32::from(answer.get("method").is_some());
            answer.get("error").cloned()
        })
        .expect("a refusal");
    assert_eq!(refusal["code"], -32603, "{refusal}");
    assert!((8..16).contains(&open), "{open} streams");
    drop(client);
    let mut client = stage.connect();
    // What the other one held is free once its end is seen; until then this is refused too.
    let served = (0..1000).find(|id| client.ask(listen(*id, json!({}))).get("method").is_some());
    assert!(served.is_some());
    drop(client);
    stage.close();
}

#[test]
fn streams_take_no_place_from_the_calls_of_their_connection() {
    let stage = Stage::open(1, |options| {
        options.limits.requests_in_flight_max = 2;
        options.limits.subscriptions_per_connection_max = 3;
    });
    let mut client = stage.connect();
    for id in 1..=3 {
        open_stream(&mut client, id, json!({"toolsListChanged": true}));
    }
    let wait = |id: i32| modern(request(id, "tools/call", json!({"name": "until-cancelled"})));
    client.send(wait(4));
    client.send(wait(5));
    refused(&mut client, wait(6), -32603);
    client.send(cancelled(4));
    client.send(wait(6));
    expect_silence(&mut client);
    drop(client);
    assert_eq!(stage.close().requests.refused_in_flight, 1);
}
