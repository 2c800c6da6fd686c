//! `corelane stdio --stdio-sequential`: one request at a time.

use corelane_test_support::messages::{
    LEGACY, call, cancelled, echo, initialize_with_elicitation, modern, notification,
};
use corelane_test_support::process::{SMALL_RINGS, Signal};
use corelane_test_support::{LineClient, Process};
use serde_json::{Value, json};

use crate::CORELANE;

/// Starts `corelane stdio` with small rings and `arguments`.
fn start(arguments: &[&str]) -> (Process, LineClient) {
    let arguments = [&["stdio"], SMALL_RINGS.as_slice(), arguments].concat();
    let mut process = Process::start(CORELANE, &arguments);
    let client = process.take_pipes();
    (process, client)
}

/// A call that waits for `step_ms`.
fn slow(id: u64, step_ms: u64) -> Value {
    modern(call(id, "slow", json!({"steps": 1, "step_ms": step_ms})))
}

/// A call that does not complete within a test.
fn endless(id: u64) -> Value {
    modern(call(id, "slow", json!({"steps": 1000, "step_ms": 60_000})))
}

fn send_together(client: &mut LineClient, messages: &[Value]) {
    let lines = messages.iter().flat_map(|message| [message.to_string(), "\n".to_owned()]);
    let lines = lines.collect::<String>();
    client.send_bytes(lines.as_bytes());
}

/// Receives responses and returns their ids.
fn receive_ids(client: &mut LineClient, count: usize) -> Vec<u64> {
    (0..count).map(|_| client.receive()["id"].as_u64().expect("id of a request")).collect()
}

/// Receives the next message, an elicitation, and declines it.
fn decline_elicitation(client: &mut LineClient) {
    let request = client.receive();
    assert_eq!(request["method"], "elicitation/create", "{request}");
    client.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": {"action": "decline"}}));
}

#[test]
fn sequential_request_starts_after_response_to_previous() {
    let messages = [
        slow(1, 50),
        modern(echo(2, "ünï \" \\ \n 𝄞")),
        modern(call(3, "hash", json!({"bytes": 1000}))),
        modern(echo(4, "last")),
    ];
    for ring in ["poll", "uring"] {
        let (process, mut client) = start(&["--stdio-sequential", "--ring", ring]);
        send_together(&mut client, &messages);
        assert_eq!(receive_ids(&mut client, 1), [1]);
        let second = client.receive();
        assert_eq!(second["result"]["content"][0]["text"], "ünï \" \\ \n 𝄞", "{second}");
        assert_eq!(receive_ids(&mut client, 2), [3, 4]);
        client.ping();
        drop(client);
        assert_eq!(process.wait().status, 0);
        // Without the option the next request overtakes a slow one.
        let (_process, mut client) = start(&["--ring", ring]);
        send_together(&mut client, &messages);
        assert_eq!(receive_ids(&mut client, 1), [2]);
    }
}

#[test]
fn running_sequential_call_can_be_cancelled() {
    let (process, mut client) = start(&["--stdio-sequential"]);
    for cancels_with_next in [true, false] {
        send_together(&mut client, &[endless(1), modern(echo(2, "waits"))]);
        // Overtakes a request only if that is cancelled.
        let cancellation = cancelled(1);
        if cancels_with_next {
            send_together(&mut client, &[cancellation, modern(echo(3, "after it"))]);
        } else {
            client.send(cancellation);
            client.send(modern(echo(3, "after it")));
        }
        assert_eq!(receive_ids(&mut client, 2), [2, 3]);
    }
    drop(client);
    assert_eq!(process.wait().status, 0);
}

#[test]
fn waiting_request_can_be_cancelled() {
    let (_process, mut client) = start(&["--stdio-sequential"]);
    let messages = [slow(1, 50), modern(echo(2, "a")), modern(echo(3, "b")), cancelled(2)];
    send_together(&mut client, &messages);
    assert_eq!(receive_ids(&mut client, 2), [1, 3]);
    // Its id is free again.
    client.send(modern(echo(2, "again")));
    assert_eq!(receive_ids(&mut client, 1), [2]);
}

#[test]
fn id_of_waiting_request_is_in_use() {
    let (_process, mut client) = start(&["--stdio-sequential"]);
    let again = modern(echo(2, "again"));
    send_together(&mut client, &[endless(1), modern(echo(2, "waits")), again, endless(1)]);
    for id in [2, 1] {
        let refused = client.receive();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(id), &json!(-32600)));
    }
    client.send(cancelled(1));
    assert_eq!(client.receive()["result"]["content"][0]["text"], "waits");
}

#[test]
fn sequential_call_can_ask_its_client() {
    let (process, mut client) = start(&["--stdio-sequential", "--demo", "conformance"]);
    client.exchange(initialize_with_elicitation(0, LEGACY));
    let elicitation = call(1, "test_elicitation", json!({"message": "Who?"}));
    let messages = [
        notification("notifications/initialized"),
        elicitation,
        call(2, "test_simple_text", json!({})),
    ];
    send_together(&mut client, &messages);
    decline_elicitation(&mut client);
    assert_eq!(receive_ids(&mut client, 2), [1, 2]);
    drop(client);
    assert_eq!(process.wait().status, 0);
}

#[test]
fn initialized_notification_overtakes_waiting_requests() {
    let (process, mut client) = start(&["--stdio-sequential", "--demo", "conformance"]);
    client.exchange(initialize_with_elicitation(0, LEGACY));
    let messages = [
        call(1, "test_elicitation", json!({"message": "Who?"})),
        call(2, "test_simple_text", json!({})),
        notification("notifications/initialized"),
    ];
    send_together(&mut client, &messages);
    decline_elicitation(&mut client);
    assert_eq!(receive_ids(&mut client, 2), [1, 2]);
    drop(client);
    assert_eq!(process.wait().status, 0);
}

#[test]
fn requests_beyond_limit_are_read_later() {
    for limits in [
        ["--requests-in-flight-max", "4", "--message-bytes-max", "16MiB"],
        ["--requests-in-flight-max", "256", "--message-bytes-max", "2KiB"],
        ["--outgoing-bytes-max", "1KiB", "--requests-in-flight-max", "8"],
    ] {
        let (process, mut client) = start(&[&["--stdio-sequential"], limits.as_slice()].concat());
        let mut messages = vec![slow(0, 50)];
        messages.extend(
            (1..200).map(|id| if id % 50 == 0 { slow(id, 1) } else { modern(echo(id, "x")) }),
        );
        send_together(&mut client, &messages);
        client.shutdown_write();
        assert_eq!(receive_ids(&mut client, 200), (0..200).collect::<Vec<u64>>());
        client.expect_end();
        assert_eq!(process.wait().status, 0);
    }
}

#[test]
fn waiting_requests_get_error_after_end_of_input() {
    let (process, mut client) = start(&["--stdio-sequential", "--drain-timeout", "100"]);
    send_together(&mut client, &[endless(1), modern(echo(2, "waits")), endless(3)]);
    client.shutdown_write();
    let mut responses = client.receive_rest();
    responses.sort_by_key(|response| response["id"].as_u64());
    let ids: Vec<&Value> = responses.iter().map(|response| &response["id"]).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert!(responses.iter().all(|it| it["error"]["code"] == -32603), "{responses:?}");
    assert_eq!(process.wait().status, 0);
}

#[test]
fn waiting_requests_have_not_started_after_sigterm() {
    let (process, mut client) = start(&["--stdio-sequential", "--drain-timeout", "100"]);
    send_together(&mut client, &[endless(1), modern(echo(2, "waits"))]);
    client.send("nonsense");
    // Shows that the lines before are processed.
    assert_eq!(client.receive()["error"]["code"], -32700);
    process.signal(Signal::TERM);
    for (id, has_started) in [(2, false), (1, true)] {
        let cut = client.receive();
        assert_eq!((&cut["id"], &cut["error"]["code"]), (&json!(id), &json!(1001)), "{cut}");
        let data = json!({"started": has_started, "retryable": !has_started});
        assert_eq!(cut["error"]["data"], data, "{cut}");
    }
    client.expect_end();
    let ended = process.wait();
    assert_eq!(ended.status, 0);
    assert!(ended.stderr.contains("cut=2"), "{}", ended.stderr);
}
