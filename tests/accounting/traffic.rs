//! Messages, requests, sends, turns and letters.

use corelane::service::{NoArguments, Outcome, Tool, Worker};
use serde_json::json;

use crate::loopback::options;
use crate::stage::Stage;

fn tools() -> [Tool; 2] {
    [
        Tool::new("echo").inline(|_: NoArguments, answer| {
            answer.text("hello");
            Ok(())
        }),
        Tool::new("block").blocking(|_: NoArguments, _: Worker| Ok(Outcome::text("hello"))),
    ]
}

#[test]
fn every_text_is_counted_on_its_way_in_and_out() {
    let stage = Stage::open(options(), tools());
    let mut client = stage.connect();
    client.call("echo");
    client.call("block");
    client.say(b"not JSON\n");
    assert_eq!(client.hear()["error"]["code"], -32700);
    client.say(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/whatever\"}\n");
    client.say(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n");
    client.ask("tools/list", json!({}));
    client.hear();
    let counters = stage.close();
    let traffic = &counters.traffic;
    assert_eq!((traffic.messages_in, traffic.messages_out), (5, 4), "{counters}");
    assert_eq!(traffic.sends, 4, "each was waited for");
    assert!(traffic.bytes_in > 500 && traffic.bytes_out > 200);
    let requests = &counters.requests;
    assert_eq!((requests.notifications, requests.responses), (1, 1));
    assert_eq!((requests.tools_call, requests.tools_list), (2, 1));
}

#[test]
fn what_arrives_together_leaves_together() {
    let stage = Stage::open(options(), tools());
    let mut client = stage.connect();
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
    client.say(ping.repeat(50).as_bytes());
    for _ in 0..50 {
        client.hear();
    }
    let counters = stage.close();
    assert_eq!(counters.traffic.messages_out, 50);
    assert!(counters.traffic.sends < 10, "{counters}");
}

#[test]
fn every_request_is_counted_by_its_method_served_or_not() {
    let stage = Stage::open(options(), tools());
    let mut client = stage.connect();
    // Before a handshake none of these is served, but for the modern ones.
    for method in ["ping", "tools/list", "tools/call", "no/such/method", "resources/list"] {
        client
            .say(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\"}}\n").as_bytes());
        client.hear();
    }
    client.ask("server/discover", json!({}));
    client.hear();
    let counters = stage.close();
    let requests = &counters.requests;
    assert_eq!((requests.ping, requests.discover), (1, 1), "{counters}");
    assert_eq!((requests.tools_list, requests.tools_call, requests.other), (1, 1, 2));
}

#[test]
fn letters_and_turns_are_counted() {
    let stage = Stage::open(options(), tools());
    let mut client = stage.connect();
    for _ in 0..10 {
        client.call("block");
    }
    let counters = stage.close();
    let shard = &counters.shard;
    assert_eq!(shard.blocking_calls, 10);
    assert_eq!(shard.letters_in, 11, "ten ends and the word to drain: {counters}");
    assert!(shard.turns >= 10);
}
