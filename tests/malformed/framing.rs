//! How bytes are cut on their way must not matter, and neither how lines end.

use serde_json::json;

use crate::client::{
    Client, LEGACY, bare, call, echo, echoed, expect_error, initialize, lines, modern, notification,
};
use crate::stage::{Stage, options, over_each_ring};

/// A session with good and bad lines, every terminator, escapes and characters of several bytes.
fn session() -> Vec<u8> {
    let lines: [(String, &str); 12] = [
        (initialize(1, "2025-03-26").to_string(), "\n"),
        (notification("notifications/initialized").to_string(), "\r\n"),
        (echo("ü", "é€😀 \" \\ \n").to_string(), "\r"),
        (r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#.to_owned(), "\n\n\r\n\r"),
        (r#"{"jsonrpc":"2.0","id":"#.to_owned(), "\n"),
        ("{}".to_owned(), "\r\n"),
        (bare(3, "nope").to_string(), "\n"),
        (echo(4, r"\u0041").to_string().replace(r"\\u", r"\u"), "\r"),
        (format!("[{},{}]", bare(5, "ping"), echo(6, "x")), "\r\n"),
        (modern(echo(7, "modern")).to_string(), "\n"),
        (format!("  \t {} \t ", bare(8, "ping")), "\n"),
        (call(9, "add", json!({"a": 0.5, "b": 1e3})).to_string(), "\n"),
    ];
    let mut bytes = Vec::new();
    for (line, terminator) in lines {
        bytes.extend_from_slice(line.as_bytes());
        bytes.extend_from_slice(terminator.as_bytes());
    }
    // One line that is not UTF-8.
    bytes.extend_from_slice(b"\"\xc3(\"\n");
    bytes
}

/// Everything that the server says to `parts`. It has read each of them before the next is sent:
/// `other` asks something on the same shard in between.
fn answers(stage: &Stage, other: &mut Client, parts: &[&[u8]]) -> Vec<u8> {
    let mut client = stage.connect();
    for part in parts {
        client.send_bytes(part);
        other.expect_alive();
    }
    client.finish();
    client.rest_bytes()
}

#[test]
fn a_session_split_at_any_byte_gets_the_same_answers() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut other = stage.connect();
        let bytes = session();
        let whole = answers(&stage, &mut other, &[&bytes]);
        assert_eq!(
            whole.split(|&byte| byte == b'\n').count(),
            12 + 1,
            "{}",
            String::from_utf8_lossy(&whole)
        );
        for split in 1..bytes.len() {
            let (first, second) = bytes.split_at(split);
            let cut = answers(&stage, &mut other, &[first, second]);
            assert!(cut == whole, "split at {split}: {}", String::from_utf8_lossy(&cut));
        }
        drop(other);
        stage.close();
    });
}

#[test]
fn a_session_that_comes_byte_by_byte_gets_the_same_answers() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut other = stage.connect();
        let bytes = session();
        let whole = answers(&stage, &mut other, &[&bytes]);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert!(answers(&stage, &mut other, &single) == whole);
        drop(other);
        stage.close();
    });
}

#[test]
fn receive_buffers_smaller_than_a_message_give_the_same_answers() {
    over_each_ring(|options| {
        let stage = Stage::open(options.clone());
        let mut other = stage.connect();
        let bytes = session().repeat(20);
        let whole = answers(&stage, &mut other, &[&bytes]);
        drop(other);
        stage.close();

        let mut narrow = options;
        narrow.engine.ring_sizes.receive_buffers = 2;
        narrow.engine.ring_sizes.receive_buffer_bytes = 16;
        let stage = Stage::open(narrow);
        let mut other = stage.connect();
        assert!(answers(&stage, &mut other, &[&bytes]) == whole);
        drop(other);
        stage.close();
    });
}

#[test]
fn every_terminator_ends_a_line_and_empty_lines_say_nothing() {
    let stage = Stage::open(options());
    for terminator in ["\n", "\r\n", "\r", "\n\n\n", "\r\r", "\n\r", "\r\n\r\n"] {
        let mut client = stage.connect();
        client.send_bytes(b"\n\r\n\r");
        for id in 0..3 {
            client.send_bytes(format!("{}{terminator}", bare(id, "ping")).as_bytes());
            assert_eq!(client.answer()["id"], id);
        }
        client.expect_alive();
    }
    // Not empty, and no JSON text either.
    let mut client = stage.connect();
    expect_error(&client.ask(" \t "), -32700, None);
    drop(client);
    stage.close();
}

#[test]
fn answers_stay_on_one_line_whatever_they_repeat() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    let message = "a\nb\r\nc\rd\u{2028}e\u{0}f\u{1b}g\u{85}";
    client.send(echo(1, message));
    let line = client.line().expect("an answer");
    assert!(!line.bytes().any(|byte| byte < b' '), "{line:?}");
    let answer = serde_json::from_str(&line).expect("JSON");
    assert_eq!(echoed(&answer), message);
    drop(client);
    stage.close();
}

#[test]
fn a_thousand_requests_in_one_write_are_answered_in_order() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        let requests = lines((0..1000).map(|id| echo(id, &format!("message {id}"))));
        client.send_bytes(requests.as_bytes());
        for id in 0..1000 {
            let answer = client.answer();
            assert_eq!(answer["id"], id);
            assert_eq!(echoed(&answer), format!("message {id}"));
        }
        client.finish();
        client.expect_end();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.requests.tools_call, 1000, "{counters}");
    });
}

#[test]
fn a_ring_that_runs_out_of_everything_still_answers_everybody_in_order() {
    over_each_ring(|mut options| {
        options.engine.ring_sizes.submissions_max = 4;
        options.engine.ring_sizes.completions_max = 8;
        options.engine.ring_sizes.receive_buffers = 4;
        options.engine.ring_sizes.receive_buffer_bytes = 128;
        let stage = Stage::open(options);
        let mut clients: Vec<Client> = (0..32).map(|_| stage.session(LEGACY)).collect();
        let requests = lines((0..100).map(|id| echo(id, "small")));
        for client in &mut clients {
            client.send_bytes(requests.as_bytes());
        }
        for client in &mut clients {
            for id in 0..100 {
                assert_eq!(client.answer()["id"], id);
            }
        }
        drop(clients);
        stage.close();
    });
}
