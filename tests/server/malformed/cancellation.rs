//! `notifications/cancelled`: the call ends without further messages.

use corelane_test_support::messages::{
    LEGACY, call, cancelled, echo, endless, modern, result_text,
};
use corelane_test_support::{TestServer, over_each_ring, tcp_options};
use serde_json::json;

#[test]
fn cancelled_call_sends_no_further_messages() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        let mut stepping = call("s", "slow", json!({"steps": 1000, "step_ms": 1}));
        stepping["params"]["_meta"] = json!({"progressToken": "p"});
        client.send(&stepping);
        // Its first progress notification shows that the call runs.
        assert_eq!(client.receive()["params"]["progressToken"], "p");
        client.send(call("h", "hash", json!({"bytes": 1 << 30})));
        client.send(modern(endless("m")));
        for id in ["s", "h", "m"] {
            client.send(cancelled(id));
        }
        client.send(echo("behind", "x"));
        let behind = std::iter::from_fn(|| Some(client.receive()))
            .find(|message| message["params"]["progressToken"] != "p")
            .expect("response");
        assert_eq!(behind["id"], "behind", "{behind}");
        // Long enough for a late message of a cancelled call to arrive.
        let later = client.exchange(call("later", "slow", json!({"steps": 20, "step_ms": 1})));
        assert_eq!(later["id"], "later", "{later}");
        client.shutdown_write();
        client.expect_end();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 3, "{counters}");
        assert_eq!(counters.errors.total(), 0, "{counters}");
    });
}

#[test]
fn cancellation_of_unknown_request_is_ignored() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        assert_eq!(result_text(&client.exchange(echo(1, "done"))), "done");
        // Completed, never sent, of another id type, of another connection.
        let mut other = server.connect_initialized(LEGACY);
        other.send(call(4, "slow", json!({"steps": 1, "step_ms": 20})));
        for id in [json!(1), json!(2), json!("4"), json!(4)] {
            client.send(cancelled(id));
            client.ping();
        }
        assert_eq!(other.receive()["id"], 4);
        drop((client, other));
        assert_eq!(server.close().requests.cancelled, 0);
    });
}

#[test]
fn repeated_cancellation_counts_once() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        let texts = format!("{}\n{}\n{}\n", endless(1), cancelled(1), cancelled(1));
        client.send_bytes(texts.as_bytes());
        client.ping();
        client.shutdown_write();
        client.expect_end();
        drop(client);
        assert_eq!(server.close().requests.cancelled, 1);
    });
}

#[test]
fn cancelled_call_frees_its_slot() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.requests_in_flight_max = 2;
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        for round in 0..20 {
            client.send(endless(round));
            client.send(cancelled(round));
        }
        assert_eq!(result_text(&client.exchange(echo("x", "free"))), "free");
        drop(client);
        assert_eq!(server.close().requests.cancelled, 20);
    });
}
