//! Valid messages with a few bytes changed. Seeded; a failure prints its seed.

use corelane_base::random::Random;
use corelane_test_support::messages::{
    LEGACY, call, cancelled, echo, initialize, modern, notification, request,
};
use corelane_test_support::{TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

/// Mutated lines per seed.
const LINES_PER_SEED: usize = 3000;

/// Bytes that are significant to a JSON parser, used as replacements.
const SIGNIFICANT_BYTES: &[u8] =
    b"\"\\{}[]:,.-+eE0123456789ntfu/ \t\r\n\0\x1f\x7f\x80\xc3\xed\xf4\xff";

fn valid_lines() -> Vec<Vec<u8>> {
    let mut progress = call("p", "slow", json!({"steps": 2, "step_ms": 0}));
    progress["params"]["_meta"] = json!({"progressToken": "t"});
    let lines = [
        echo(1, "é \\ \" 😀"),
        modern(echo("two", "x")),
        modern(request(3, "server/discover", json!({}))),
        call(4, "add", json!({"a": 0.5, "b": -1e3})),
        call(5, "hash", json!({"bytes": 100})),
        progress,
        initialize(6, LEGACY),
        notification("notifications/initialized"),
        cancelled(5),
        request(7, "tools/list", json!({"cursor": null})),
        json!([echo(8, "batch"), notification("x")]),
        json!({"jsonrpc": "2.0", "id": 9, "result": {"a": [1, 2, {"b": null}]}}),
    ];
    lines.iter().map(|line| line.to_string().into_bytes()).collect()
}

/// Replaces, inserts, removes, truncates or repeats bytes of `line`, up to three times.
fn mutate(line: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        if line.is_empty() {
            return;
        }
        let place = random.below(line.len());
        let byte = SIGNIFICANT_BYTES[random.below(SIGNIFICANT_BYTES.len())];
        match random.below(5) {
            0 => line[place] = byte,
            1 => line.insert(place, byte),
            2 => drop(line.remove(place)),
            3 => line.truncate(place),
            _ => {
                let part = line[place..].to_vec();
                line.extend_from_slice(&part);
            }
        }
    }
}

#[test]
fn mutated_messages_do_not_harm_server() {
    over_each_ring(tcp_options(), |options| {
        for seed in 1..=3 {
            eprintln!("seed {seed}");
            let mut random = Random::seeded(seed);
            let server = TestServer::start(options.clone());
            let good = valid_lines();
            let mut client = server.connect_initialized("2025-03-26");
            for number in 0..LINES_PER_SEED {
                let mut line = good[random.below(good.len())].clone();
                mutate(&mut line, &mut random);
                line.push(b'\n');
                client.send_bytes(&line);
                if number % 100 == 99 {
                    client.send(request("here", "ping", json!({})));
                    // Skips responses to earlier lines; each must be JSON.
                    while client.receive()["id"] != "here" {}
                }
            }
            client.shutdown_write();
            let rest: Vec<Value> = client.receive_rest();
            assert!(rest.len() < LINES_PER_SEED, "{}", rest.len());
            drop(client);
            server.close();
        }
    });
}

#[test]
fn random_bytes_get_one_error_per_line() {
    let mut options = tcp_options();
    options.limits.message_bytes_max = 64 << 10;
    let server = TestServer::start(options);
    for seed in 1..=50 {
        eprintln!("seed {seed}");
        let mut random = Random::seeded(seed);
        let mut client = server.connect_tcp();
        let length = 1 + random.below(5000);
        let bytes: Vec<u8> = (0..length)
            .map(|_| match random.below(3) {
                0 => u8::try_from(random.below(256)).unwrap(),
                _ => SIGNIFICANT_BYTES[random.below(SIGNIFICANT_BYTES.len())],
            })
            .collect();
        let lines = bytes.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.trim_ascii().is_empty()).count();
        client.send_bytes(&bytes);
        client.shutdown_write();
        let responses = client.receive_rest();
        assert!(responses.iter().all(|response| response.get("error").is_some()), "{responses:?}");
        assert_eq!(responses.len(), lines, "{responses:?}");
    }
    server.close();
}
