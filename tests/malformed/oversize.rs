//! Messages longer than they may be.

use std::io::Write;
use std::net::Shutdown;

use crate::client::{LEGACY, echo, echoed, endless, expect_error};
use crate::stage::{Stage, over_each_ring};

#[test]
fn a_message_over_the_limit_is_told_so_and_its_connection_ends() {
    over_each_ring(|mut options| {
        options.limits.message_bytes_max = 1000;
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        let mut client = stage.session(LEGACY);
        // What was asked before is answered; what comes behind is not read.
        let too_long = format!("\"{}\"", "x".repeat(999));
        client.send_bytes(format!("{}\n{too_long}\n{}\n", echo(1, "a"), echo(2, "b")).as_bytes());
        assert_eq!(echoed(&client.answer()), "a");
        expect_error(&client.answer(), -32012, None);
        client.expect_end();
        assert_eq!(echoed(&other.ask(echo(3, "unaffected"))), "unaffected");
        drop((client, other));
        let counters = stage.close();
        assert_eq!((counters.faults.oversize, counters.errors.of(-32012)), (1, 1), "{counters}");
    });
}

#[test]
fn a_message_of_exactly_the_limit_is_taken() {
    over_each_ring(|mut options| {
        options.limits.message_bytes_max = 10_000;
        let stage = Stage::open(options);
        for terminator in ["\n", "\r\n", "\r"] {
            let mut client = stage.session(LEGACY);
            let frame = echo(1, "").to_string().len();
            let text = echo(1, &"x".repeat(10_000 - frame)).to_string();
            assert_eq!(text.len(), 10_000);
            client.send_bytes(format!("{text}{terminator}").as_bytes());
            assert_eq!(echoed(&client.answer()).len(), 10_000 - frame);
            client.send(echo(1, &"x".repeat(10_001 - frame)));
            expect_error(&client.answer(), -32012, None);
            client.expect_end();
        }
        stage.close();
    });
}

#[test]
fn a_message_that_never_ends_is_cut_at_the_limit() {
    over_each_ring(|mut options| {
        options.limits.message_bytes_max = 1 << 20;
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        let mut client = stage.connect();
        let mut writer = client.stream().try_clone().expect("another handle");
        std::thread::scope(|scope| {
            // Not a newline in it, for as long as somebody takes it.
            let block = [b'x'; 8 << 10];
            let flood = scope.spawn(move || while writer.write_all(&block).is_ok() {});
            expect_error(&client.answer(), -32012, None);
            client.expect_end();
            assert_eq!(echoed(&other.ask(echo(1, "unaffected"))), "unaffected");
            client.stream().shutdown(Shutdown::Both).unwrap_or(());
            flood.join().expect("a thread that ends");
        });
        drop((client, other));
        let counters = stage.close();
        assert_eq!((counters.faults.oversize, counters.errors.of(-32012)), (1, 1), "{counters}");
    });
}

#[test]
fn a_peer_that_stops_at_the_limit_reads_why_it_was_ended() {
    over_each_ring(|mut options| {
        options.limits.message_bytes_max = 100_000;
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        client.send_bytes(&vec![b' '; 100_001]);
        expect_error(&client.answer(), -32012, None);
        client.expect_end();
        drop(client);
        stage.close();
    });
}

#[test]
fn a_call_in_flight_of_an_ended_connection_is_cancelled() {
    over_each_ring(|mut options| {
        options.limits.message_bytes_max = 1000;
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        client.send(endless(1));
        client.send("x".repeat(1001));
        expect_error(&client.answer(), -32012, None);
        client.expect_end();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}
