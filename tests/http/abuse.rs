//! Peers that do not behave: heads that never end, bodies that never come, bytes that are no HTTP,
//! readers that do not read, and whatever comes by the thousand.

use std::time::Duration;

use serde_json::json;

use crate::client::Client;
use crate::messages::{LEGACY, call, echo, expect_error, initialize, modern, text, with_progress};
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, options, over_each_ring};

#[test]
fn heads_that_never_end_and_bodies_that_never_come_have_the_time_of_a_lease() {
    over_each_ring(|mut options| {
        options.tcp.lease_max = Duration::from_millis(30);
        let stage = Stage::open(options);
        let good = Request::modern(&modern(echo(1, "hi")));
        let [head, body] = good.parts();
        let chunked = good.clone().chunked(16).bytes();
        let unfinished: [&[u8]; 6] = [
            b"",
            b"P",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
            &head,
            &[&head[..], &body[..body.len() - 1]].concat(),
            &chunked[..chunked.len() - 2],
        ];
        let mut closed = 0;
        for bytes in unfinished {
            let mut client = stage.connect();
            client.send_bytes(bytes);
            client.expect_end_or_reset();
            closed += 1;
            if bytes.is_empty() {
                continue;
            }
            // The same behind a request that was whole.
            let mut client = stage.connect();
            assert_eq!(text(&client.ask(&good).message()), "hi");
            client.send_bytes(bytes);
            client.expect_end_or_reset();
            closed += 1;
        }
        let counters = stage.close();
        assert_eq!(counters.connections.closed_lease, closed, "{counters}");
    });
}

#[test]
fn what_is_no_http_is_answered_once_and_ended() {
    over_each_ring(|mut options| {
        options.http.head_bytes_max = 4_096;
        let stage = Stage::open(options);
        let line = "POST /mcp HTTP/1.1\r\nHost: localhost\r\n";
        let long = "x".repeat(5_000);
        let json = modern(echo(1, "smuggled")).to_string();
        let head = |fields: &str| format!("{line}{fields}\r\n\r\n{json}");
        let many = "X-Many: x\r\n".repeat(100);
        for (bytes, status) in [
            (format!("{json}\n"), 400),
            ("\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03".to_owned(), 400),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
            ("GET / HTTP/3.0\r\nHost: localhost\r\n\r\n".to_owned(), 505),
            ("GET /\r\n\r\n".to_owned(), 400),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
            (head("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400),
            (head("Content-Length: 5\r\nContent-Length: 6"), 400),
            (head("Content-Length: -5"), 400),
            (head("Content-Length: +5"), 400),
            (head("Content-Length: 5, 6"), 400),
            (head("Content-Length: 99999999999999999999999"), 413),
            (head("Transfer-Encoding: chunked, chunked"), 400),
            (head("Transfer-Encoding: gzip, chunked"), 501),
            (head("Transfer-Encoding: xchunked"), 501),
            (head("Transfer-Encoding : chunked"), 400),
            (head("X-Folded: a\r\n b: c"), 400),
            (head("X-Null: \0"), 400),
            (head("Host: evil.example"), 400),
            (head("Expect: 200-ok"), 417),
            (format!("{line}X-Long: {long}\r\n\r\n"), 431),
            (format!("{line}{many}\r\n"), 431),
            (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), 414),
            (head("Transfer-Encoding: chunked"), 400),
            (format!("{line}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"), 413),
        ] {
            let mut client = stage.connect();
            client.send_bytes(bytes.as_bytes());
            let answer = client.answer();
            let shown: String = bytes.chars().take(120).collect();
            assert_eq!(answer.status(), status, "{shown:?}: {answer:?}");
            assert!(answer.head.closes(), "{shown:?}");
            expect_error(&answer.message(), if status == 413 { -32012 } else { -32600 }, None);
            client.expect_end_or_reset();
        }
        let counters = stage.close();
        assert_eq!(counters.traffic.messages_in, 0, "nothing was smuggled: {counters}");
    });
}

#[test]
fn requests_before_a_broken_one_are_answered() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let good = Request::modern(&modern(echo(1, "whole")));
        let mut together = good.bytes();
        together.extend(good.bytes());
        together.extend(b"nonsense\r\n\r\n");
        together.extend(good.bytes());
        client.send_bytes(&together);
        for _ in 0..2 {
            client.expect_answer_to(&good);
            assert_eq!(text(&client.answer().message()), "whole");
        }
        assert_eq!(client.answer().status(), 400);
        client.expect_end_or_reset();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.requests.tools_call, 2, "{counters}");
    });
}

#[test]
fn a_body_larger_than_a_message_may_be_is_refused_and_so_is_one_that_grows() {
    over_each_ring(|mut options| {
        options.limits.message_bytes_max = 10_000;
        let stage = Stage::open(options);
        let large = Request::modern(&modern(echo(1, &"x".repeat(20_000))));
        for request in [large.clone(), large.chunked(1_000)] {
            let mut client = stage.connect();
            client.send_bytes(&request.bytes());
            client.answer().expect_error(413, -32012, None);
            client.expect_end_or_reset();
        }
        stage.close();
    });
}

#[test]
fn one_connection_too_many_is_told_when_to_come_back() {
    over_each_ring(|mut options| {
        options.http.connections_max = 2;
        let stage = Stage::open(options);
        let mut clients = [stage.connect(), stage.connect()];
        clients.iter_mut().for_each(Client::expect_alive);
        let mut third = stage.connect();
        let answer = third.answer();
        assert_eq!(answer.status(), 503, "{answer:?}");
        assert!(answer.head.closes() && answer.head.field("Retry-After").is_some(), "{answer:?}");
        expect_error(&answer.message(), 1001, None);
        third.expect_end_or_reset();
        clients.iter_mut().for_each(Client::expect_alive);
        drop((clients, third));
        let counters = stage.close();
        assert_eq!(counters.connections.refused_full, 1, "{counters}");
    });
}

#[test]
fn a_reader_of_a_stream_that_does_not_read_misses_advice_and_gets_its_answer() {
    over_each_ring(|mut options| {
        options.limits.outgoing_bytes_max = 2_000;
        options.tcp.send_buffer_bytes = 4 << 10;
        let stage = Stage::open(options);
        let mut client = Client::connect_narrow(stage.address(), 4 << 10);
        let asking = with_progress(modern(call(1, "slow", json!({"steps": 1_000, "step_ms": 0}))));
        client.send(&Request::modern(&asking));
        // Somebody else is served meanwhile.
        let mut other = stage.connect();
        for _ in 0..200 {
            other.expect_alive();
        }
        client.begin_stream();
        let mut said = client.rest_of_stream();
        assert_eq!(text(&said.pop().expect("an answer")), "took 1000 steps of 0 ms");
        let steps: Vec<_> =
            said.iter().filter_map(|word| word["params"]["progress"].as_f64()).collect();
        assert!(steps.is_sorted() && steps.len() < 1_000, "{}", steps.len());
        client.expect_alive();
        drop((client, other));
        stage.close();
    });
}

#[test]
fn a_session_whose_client_does_not_read_loses_the_connection_and_not_the_answer() {
    over_each_ring(|mut options| {
        options.limits.outgoing_bytes_max = 4_000;
        options.tcp.send_buffer_bytes = 4 << 10;
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut client = Client::connect_narrow(stage.address(), 4 << 10).speaking(LEGACY);
        let slow = call(1, "slow", json!({"steps": 300, "step_ms": 1}));
        client.ask_stream(&session.post(&with_progress(slow)));
        let first = client.primed();
        stage.until_connections(0);
        let mut again = session.connect();
        again.ask_stream(&session.resume(&first));
        let said = again.rest_of_stream();
        let answer = said.last().expect("an answer");
        assert_eq!(text(answer), "took 300 steps of 1 ms");
        assert!(said.len() < 300, "what is kept is bounded");
        drop((client, again));
        let counters = stage.close();
        assert_eq!(counters.connections.closed_by_fault, 1, "{counters}");
    });
}

#[test]
fn calls_that_a_session_leaves_behind_are_bounded() {
    over_each_ring(|mut options| {
        options.limits.requests_in_flight_max = 16;
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut begun = 0;
        for number in 0..100 {
            let mut client = session.connect();
            let asking = with_progress(call(number, "until-cancelled", json!({})));
            client.send(&session.post(&asking));
            let head = client.head();
            if head.status == 200 {
                client.follow(&head);
                begun += 1;
                assert_eq!(stage.told(), "begun");
                client.reset();
            } else {
                assert_eq!((head.status, head.field("Retry-After")), (503, Some("1")));
                client.rest_of(head);
            }
        }
        assert_eq!(begun, 16);
        session.connect().ask(&session.end()).expect_bare(204);
        for _ in 0..16 {
            assert_eq!(stage.told(), "cancelled");
        }
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 16, "{counters}");
    });
}

#[test]
fn an_answer_that_nobody_waits_for_comes_on_no_stream_of_another_request() {
    over_each_ring(|mut options| {
        options.limits.requests_in_flight_max = 1;
        options.tcp.send_buffer_bytes = 4 << 10;
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        // A stream that has ended and was not read to its end: there is no room for another.
        let mut slow = Client::connect_narrow(stage.address(), 4 << 10).speaking(LEGACY);
        let asking = call("slow", "slow", json!({"steps": 1_000, "step_ms": 0}));
        slow.send(&session.post(&with_progress(asking)));
        let is_free = || {
            let answer = session.connect().ask(&session.post(&echo("slow", "free"))).message();
            answer.get("result").is_some()
        };
        while !is_free() {}
        let mut refused = session.connect();
        refused.send(&session.post(&call("refused", "hold", json!({}))));
        assert_eq!(stage.told(), "begun");
        slow.begin_stream();
        assert!(slow.rest_of_stream().len() > 1);
        stage.open_gate();
        // Where the kernel took all of the stream there was room after all.
        let head = refused.head();
        assert!(matches!(head.status, 200 | 503), "{head:?}");
        refused.rest_of(head);
        let mut client = session.connect();
        let answer = loop {
            let asking = call("mine", "slow", json!({"steps": 20, "step_ms": 1}));
            client.send(&session.post(&asking));
            let head = client.head();
            if head.status == 200 {
                break client.body_of(head).message();
            }
            client.rest_of(head);
        };
        assert_eq!((&answer["id"], text(&answer)), (&json!("mine"), "took 20 steps of 1 ms"));
        drop((slow, refused, client));
        stage.close();
    });
}

#[test]
fn ten_thousand_sessions_that_are_begun_and_left_make_room_for_each_other() {
    let mut options = options();
    options.http.sessions_max = 100;
    let stage = Stage::open(options);
    let mut client = stage.connect().speaking(LEGACY);
    let asking = Request::post(initialize(1, LEGACY));
    for _ in 0..10_000 / TOGETHER {
        for _ in 0..TOGETHER {
            client.send(&asking);
        }
        for _ in 0..TOGETHER {
            let answer = client.answer();
            assert!(answer.head.field("Mcp-Session-Id").is_some(), "{answer:?}");
        }
    }
    let status = client.ask(&Request::new("GET", "/status")).message();
    assert_eq!(status["sessions"], 100, "{status}");
    drop(client);
    stage.close();
}

/// Requests that are sent together.
const TOGETHER: usize = 100;

#[test]
fn whoever_sends_and_never_reads_is_not_read_on() {
    over_each_ring(|mut options| {
        options.limits.outgoing_bytes_max = 10_000;
        options.tcp.send_buffer_bytes = 4 << 10;
        let stage = Stage::open(options);
        let mut client = Client::connect_narrow(stage.address(), 4 << 10);
        let good = Request::modern(&modern(echo(1, &"x".repeat(1_000))));
        let mut sent = 0;
        let mut other = stage.connect();
        // As many as the server has read; the rest would wait in the kernel.
        for _ in 0..20 {
            client.expect_answer_to(&good);
            client.send_bytes(&good.bytes());
            other.expect_alive();
            sent += 1;
        }
        for _ in 0..sent {
            assert_eq!(client.answer().status(), 200);
        }
        client.expect_alive();
        drop((client, other));
        stage.close();
    });
}
