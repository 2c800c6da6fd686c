//! `notifications/cancelled`: the work ends, and nothing more is said about it.

use serde_json::json;

use crate::client::{LEGACY, call, cancelled, echo, echoed, endless, modern};
use crate::stage::{Stage, over_each_ring};

#[test]
fn nothing_is_said_about_a_call_after_its_cancellation() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        let mut stepping = call("s", "slow", json!({"steps": 1000, "step_ms": 1}));
        stepping["params"]["_meta"] = json!({"progressToken": "p"});
        client.send(&stepping);
        // It is at work: wait for its first words.
        assert_eq!(client.answer()["params"]["progressToken"], "p");
        client.send(call("h", "hash", json!({"bytes": 1 << 30})));
        client.send(modern(endless("m")));
        for id in ["s", "h", "m"] {
            client.send(cancelled(id));
        }
        client.send(echo("behind", "x"));
        let behind = std::iter::from_fn(|| Some(client.answer()))
            .find(|message| message["params"]["progressToken"] != "p")
            .expect("an answer");
        assert_eq!(behind["id"], "behind", "{behind}");
        // Long enough for the cancelled ones to say something, if they did.
        let later = client.ask(call("later", "slow", json!({"steps": 20, "step_ms": 1})));
        assert_eq!(later["id"], "later", "{later}");
        client.finish();
        client.expect_end();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 3, "{counters}");
        assert_eq!(counters.errors.total(), 0, "{counters}");
    });
}

#[test]
fn a_cancellation_that_names_nothing_in_flight_is_passed_over() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        assert_eq!(echoed(&client.ask(echo(1, "done"))), "done");
        // Answered already, never asked, of another type, of another connection.
        let mut other = stage.session(LEGACY);
        other.send(call(4, "slow", json!({"steps": 1, "step_ms": 20})));
        for id in [json!(1), json!(2), json!("4"), json!(4)] {
            client.send(cancelled(id));
            client.expect_alive();
        }
        assert_eq!(other.answer()["id"], 4);
        drop((client, other));
        assert_eq!(stage.close().requests.cancelled, 0);
    });
}

#[test]
fn a_call_cancelled_twice_is_cancelled_once() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        let texts = format!("{}\n{}\n{}\n", endless(1), cancelled(1), cancelled(1));
        client.send_bytes(texts.as_bytes());
        client.expect_alive();
        client.finish();
        client.expect_end();
        drop(client);
        assert_eq!(stage.close().requests.cancelled, 1);
    });
}

#[test]
fn a_place_among_those_in_flight_is_free_after_a_cancellation() {
    over_each_ring(|mut options| {
        options.limits.requests_in_flight_max = 2;
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        for round in 0..20 {
            client.send(endless(round));
            client.send(cancelled(round));
        }
        assert_eq!(echoed(&client.ask(echo("x", "free"))), "free");
        drop(client);
        assert_eq!(stage.close().requests.cancelled, 20);
    });
}
