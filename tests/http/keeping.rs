//! Connections that are kept, requests that come together, bodies in every form.

use serde_json::json;

use crate::messages::{call, echo, modern, text};
use crate::request::Request;
use crate::stage::{Stage, options, over_each_ring};

#[test]
fn a_connection_is_kept_for_as_many_requests_as_its_client_sends() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        for number in 0..100 {
            let message = format!("number {number}");
            let answer = client.ask(&Request::modern(&modern(echo(number, &message))));
            assert_eq!(text(&answer.message()), message);
            assert!(!answer.head.closes(), "{answer:?}");
        }
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.connections.accepted, 1, "{counters}");
        assert_eq!(counters.traffic.sends, 100, "one send an answer: {counters}");
    });
}

#[test]
fn requests_that_come_together_are_answered_in_order_and_in_one_send() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let mut together = Vec::new();
        for number in 0..8 {
            let request = Request::modern(&modern(echo(number, "hi")));
            client.expect_answer_to(&request);
            together.extend(request.bytes());
        }
        client.send_bytes(&together);
        for number in 0..8 {
            assert_eq!(client.answer().message()["id"], number);
        }
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.traffic.sends, 1, "{counters}");
    });
}

#[test]
fn what_comes_behind_an_answer_that_takes_its_time_waits_for_it() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let slow = modern(call("slow", "hold", json!({})));
        let requests = [
            Request::modern(&modern(echo("first", "1"))),
            Request::modern(&slow),
            Request::modern(&modern(echo("last", "2"))),
            Request::new("GET", "/healthz"),
        ];
        for request in &requests {
            client.send(request);
        }
        assert_eq!(client.answer().message()["id"], "first");
        assert_eq!(stage.told(), "begun");
        stage.open_gate();
        assert_eq!(text(&client.answer().message()), "held");
        assert_eq!(client.answer().message()["id"], "last");
        assert_eq!(client.answer().status(), 200);
        drop(client);
        stage.close();
    });
}

#[test]
fn a_body_in_chunks_is_a_body() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        for chunk_bytes in [1, 7, 64, 10_000] {
            let message = "x".repeat(5_000);
            let request = Request::modern(&modern(echo(1, &message))).chunked(chunk_bytes);
            assert_eq!(text(&client.ask(&request).message()), message);
        }
        drop(client);
        stage.close();
    });
}

#[test]
fn a_request_is_the_same_wherever_it_is_cut() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let request = Request::modern(&modern(echo(1, "cut"))).chunked(50);
    let bytes = request.bytes();
    for cut in 1..bytes.len() {
        client.expect_answer_to(&request);
        client.send_bytes(&bytes[..cut]);
        client.send_bytes(&bytes[cut..]);
        assert_eq!(text(&client.answer().message()), "cut");
    }
    drop(client);
    stage.close();
}

#[test]
fn a_client_that_waits_before_it_sends_a_body_is_told_to_go_on() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let request = Request::modern(&modern(echo(1, "at last"))).field("Expect", "100-continue");
        for _ in 0..2 {
            let [head, body] = request.parts();
            client.expect_answer_to(&request);
            client.send_bytes(&head);
            assert_eq!(client.head().status, 100);
            client.send_bytes(&body);
            assert_eq!(text(&client.answer().message()), "at last");
        }
        // With its body at hand nobody waits, and the answer is all there is to say.
        assert_eq!(text(&client.ask(&request).message()), "at last");
        drop(client);
        stage.close();
    });
}

#[test]
fn a_client_that_waits_before_it_sends_a_body_is_refused_without_it() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let request = Request::modern(&modern(echo(1, "never")))
            .field("Expect", "100-continue")
            .field("Content-Type", "text/plain");
        client.send_bytes(&request.parts()[0]);
        let answer = client.answer();
        answer.expect_error(415, -32600, None);
        // Nobody knows whether the body comes all the same.
        assert!(answer.head.closes(), "{answer:?}");
        client.expect_end_or_reset();
        drop(client);
        stage.close();
    });
}

#[test]
fn whoever_wants_no_more_than_one_answer_gets_one() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let request = Request::modern(&modern(echo(1, "once")));
        for request in [request.clone().field("Connection", "close"), request.old()] {
            let mut client = stage.connect();
            let answer = client.ask(&request);
            assert_eq!(text(&answer.message()), "once");
            assert!(answer.head.closes(), "{answer:?}");
            client.expect_end();
        }
        let counters = stage.close();
        assert_eq!(counters.traffic.sends, 2, "{counters}");
    });
}

#[test]
fn a_head_is_the_answer_without_its_body() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    for path in ["/", "/healthz", "/readyz", "/status"] {
        let whole = client.ask(&Request::new("GET", path));
        let head = client.ask(&Request::new("HEAD", path));
        assert_eq!((whole.status(), head.status()), (200, 200), "{path}");
        for field in ["Content-Type", "Content-Length", "Content-Security-Policy"] {
            assert_eq!(whole.head.field(field), head.head.field(field), "{path}");
        }
        assert_eq!(whole.head.field("Content-Length"), Some(&*whole.body.len().to_string()));
        client.expect_alive();
    }
    drop(client);
    stage.close();
}

#[test]
fn every_path_tells_which_verbs_it_knows() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    for (path, verbs) in [
        ("/mcp", "POST, GET, DELETE, OPTIONS"),
        ("*", "POST, GET, DELETE, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/readyz", "GET, HEAD, OPTIONS"),
        ("/status", "GET, HEAD, OPTIONS"),
    ] {
        let answer = client.ask(&Request::new("OPTIONS", path));
        answer.expect_bare(204);
        assert_eq!(answer.head.field("Allow"), Some(verbs), "{path}");
        if path != "*" {
            let answer = client.ask(&Request::new("PATCH", path).body("{}"));
            answer.expect_error(405, -32600, None);
        }
    }
    client.ask(&Request::new("GET", "/nowhere")).expect_error(404, -32600, None);
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn a_target_may_name_the_host_itself_and_end_in_a_slash() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    for target in ["/mcp/", "/mcp?x=y", "http://localhost/mcp"] {
        let request = Request::modern(&modern(echo(1, "here"))).target(target);
        assert_eq!(text(&client.ask(&request).message()), "here", "{target}");
    }
    drop(client);
    stage.close();
}
