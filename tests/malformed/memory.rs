//! The bound of what all connections hold together.

use serde_json::json;

use crate::client::{LEGACY, echo, echoed, expect_error};
use crate::stage::{Stage, over_each_ring};

#[test]
fn the_message_that_passes_the_bound_of_all_is_refused_and_the_others_keep_their_memory() {
    over_each_ring(|mut options| {
        options.limits.memory_bytes_max = 100_000;
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        let text = format!("{}\n", echo(1, &"x".repeat(60_000)));
        let (first_half, second_half) = text.as_bytes().split_at(59_000);
        for _ in 0..3 {
            let mut patient = stage.session(LEGACY);
            patient.send_bytes(first_half);
            other.expect_alive();
            let mut greedy = stage.session(LEGACY);
            greedy.send_bytes(first_half);
            let answer = greedy.answer();
            expect_error(&answer, -32603, None);
            greedy.expect_end();
            patient.send_bytes(second_half);
            assert_eq!(echoed(&patient.answer()).len(), 60_000);
            assert_eq!(echoed(&other.ask(echo(2, "unaffected"))), "unaffected");
        }
        drop(other);
        let counters = stage.close();
        assert_eq!(counters.faults.memory, 3, "{counters}");
    });
}

#[test]
fn memory_of_connections_that_have_gone_is_free_again() {
    over_each_ring(|mut options| {
        options.limits.memory_bytes_max = 100_000;
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        for number in 0..20 {
            let mut client = stage.session(LEGACY);
            client.send_bytes(" ".repeat(90_000).as_bytes());
            other.expect_alive();
            if number % 2 == 0 {
                client.reset();
            } else {
                // A line that never got its end is a line all the same.
                client.finish();
                expect_error(&client.answer(), -32700, None);
                client.expect_end();
            }
            assert_eq!(other.ask(echo(number, "unaffected"))["id"], json!(number));
        }
        drop(other);
        let counters = stage.close();
        assert_eq!(counters.faults.memory, 0, "{counters}");
    });
}
