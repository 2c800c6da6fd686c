//! Calls that take longer than they may.

use std::time::Duration;

use serde_json::json;

use crate::client::{LEGACY, call, cancelled, echo, echoed, endless, expect_error, lines, modern};
use crate::stage::{Stage, over_each_ring};

#[test]
fn a_call_past_its_deadline_gets_an_error_and_the_connection_goes_on() {
    over_each_ring(|mut options| {
        options.limits.request_max = Duration::from_millis(30);
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        for request in [endless(1), modern(endless(1))] {
            expect_error(&client.ask(request), -32603, Some(json!(1)));
        }
        expect_error(
            &client.ask(call("h", "hash", json!({"bytes": 1 << 30}))),
            -32603,
            Some(json!("h")),
        );
        // The ids are free, and what ends in time is not touched.
        assert_eq!(echoed(&client.ask(echo(1, "goes on"))), "goes on");
        let in_time = client.ask(call("h", "slow", json!({"steps": 1, "step_ms": 0})));
        assert!(in_time.get("result").is_some(), "{in_time}");
        client.finish();
        client.expect_end();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.requests.timed_out, 3, "{counters}");
        assert_eq!(counters.requests.cancelled, 0, "{counters}");
    });
}

#[test]
fn a_call_is_either_cancelled_or_timed_out() {
    over_each_ring(|mut options| {
        options.limits.request_max = Duration::from_millis(50);
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        client.send(endless(1));
        client.send(endless(2));
        client.send(cancelled(1));
        expect_error(&client.answer(), -32603, Some(json!(2)));
        client.send(cancelled(2));
        client.expect_alive();
        drop(client);
        let counters = stage.close();
        assert_eq!((counters.requests.timed_out, counters.requests.cancelled), (1, 1));
    });
}

#[test]
fn calls_that_never_end_make_place_for_others_at_their_deadline() {
    over_each_ring(|mut options| {
        options.limits.request_max = Duration::from_millis(30);
        options.limits.requests_in_flight_max = 2;
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        for round in 0..3 {
            let ids = [2 * round, 2 * round + 1];
            client.send_bytes(lines(ids.map(endless)).as_bytes());
            let mut answered = ids.map(|_| client.answer());
            answered.sort_by_key(|answer| answer["id"].as_i64());
            for (answer, id) in answered.iter().zip(ids) {
                expect_error(answer, -32603, Some(json!(id)));
            }
        }
        client.expect_alive();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.requests.timed_out, 6, "{counters}");
    });
}
