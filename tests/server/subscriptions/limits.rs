//! Subscription filters that are malformed or exceed limits.

use corelane_test_support::LineClient;
use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{MODERN, cancelled, expect_error, listen, modern, request};
use corelane_test_support::test_tools::plain_tool;
use serde_json::{Value, json};

use crate::subscriptions::test_catalog::{
    TOOLS_CHANGED, expect_no_message, expect_notification, open_subscription, start_server,
};

#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
fn expect_refused(client: &mut LineClient, text: Value, code: i64) {
    let response = client.exchange(&text);
    expect_valid(MODERN, &response, None);
    expect_error(&response, code, Some(text["id"].clone()));
}

#[test]
fn malformed_subscription_filter_is_rejected() {
    let server = start_server(1, |_| {});
    let mut client = server.connect_tcp();
    for filter in [
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
        expect_refused(&mut client, listen("s", filter), -32602);
    }
    expect_refused(&mut client, modern(request("s", "subscriptions/listen", json!({}))), -32602);
    let once = listen("twice", json!({})).to_string();
    client.send(once.replace(r#""notifications":{}"#, r#""notifications":{},"notifications":{}"#));
    expect_error(&client.receive(), -32602, Some(json!("twice")));
    // The id is still free.
    open_subscription(&mut client, "s", json!({"toolsListChanged": true}));
    drop(client);
    assert_eq!(server.close().subscriptions.opened, 1);
}

#[test]
fn subscription_limits_refuse_only_the_excess() {
    let server = start_server(1, |options| {
        options.limits.subscriptions_per_connection_max = 2;
        options.limits.subscription_uris_max = 3;
        options.limits.subscription_uri_bytes_max = 20;
    });
    let mut client = server.connect_tcp();
    let uris = ["test://1", "test://2", "test://3", "test://4"];
    expect_refused(&mut client, listen(1, json!({"resourceSubscriptions": uris})), -32602);
    let long = format!("test://{}", "x".repeat(20));
    expect_refused(&mut client, listen(1, json!({"resourceSubscriptions": [long]})), -32602);
    for id in 1..=2 {
        open_subscription(&mut client, id, json!({"toolsListChanged": true}));
    }
    expect_refused(&mut client, listen(3, json!({})), -32603);
    // The limit applies to each connection.
    let mut other = server.connect_tcp();
    open_subscription(&mut other, 3, json!({"toolsListChanged": true}));
    client.send(cancelled(1));
    open_subscription(&mut client, 3, json!({"resourceSubscriptions": &uris[..3]}));
    server.handle().update_catalog(|catalog| catalog.tool(plain_tool("more"))).unwrap();
    expect_notification(&mut client, TOOLS_CHANGED, 2);
    expect_notification(&mut other, TOOLS_CHANGED, 3);
    expect_no_message(&mut client);
    drop((client, other));
    assert_eq!(server.close().subscriptions.refused, 3);
}

#[test]
fn subscription_bytes_max_limits_all_streams_together() {
    let server = start_server(1, |options| options.limits.subscription_bytes_max = 16 << 10);
    let mut client = server.connect_tcp();
    let mut open = 0;
    let refusal = (0..1000)
        .find_map(|id| {
            let uri = format!("test://{id}/{}", "x".repeat(1000));
            let response = client.exchange(listen(id, json!({"resourceSubscriptions": [uri]})));
            open += u32::from(response.get("method").is_some());
            response.get("error").cloned()
        })
        .expect("no request was refused");
    assert_eq!(refusal["code"], -32603, "{refusal}");
    assert!((8..16).contains(&open), "{open} streams");
    drop(client);
    let mut client = server.connect_tcp();
    // The memory is free once the server has noticed the end of the other connection.
    let served =
        (0..1000).find(|id| client.exchange(listen(*id, json!({}))).get("method").is_some());
    assert!(served.is_some());
    drop(client);
    server.close();
}

#[test]
fn subscriptions_do_not_count_as_requests_in_flight() {
    let server = start_server(1, |options| {
        options.limits.requests_in_flight_max = 2;
        options.limits.subscriptions_per_connection_max = 3;
    });
    let mut client = server.connect_tcp();
    for id in 1..=3 {
        open_subscription(&mut client, id, json!({"toolsListChanged": true}));
    }
    let wait = |id: i32| modern(request(id, "tools/call", json!({"name": "until-cancelled"})));
    client.send(wait(4));
    client.send(wait(5));
    expect_refused(&mut client, wait(6), -32603);
    client.send(cancelled(4));
    client.send(wait(6));
    expect_no_message(&mut client);
    drop(client);
    assert_eq!(server.close().requests.refused_in_flight, 1);
}
