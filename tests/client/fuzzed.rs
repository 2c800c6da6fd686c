//! Seeded inputs through the bodies of the fuzz targets of the client.

#[path = "../../fuzz/bodies/authorization.rs"]
mod authorization_fuzz;
#[path = "../../fuzz/bodies/server_frames.rs"]
mod server_frames_fuzz;
#[path = "../../fuzz/bodies/servers.rs"]
mod servers_fuzz;
#[path = "../../fuzz/bodies/session.rs"]
mod session_fuzz;
#[path = "../../fuzz/bodies/upgrade.rs"]
mod upgrade;

use authorization_fuzz::check_text;
use corelane_base::random::Random;
use server_frames_fuzz::check_frames;
use servers_fuzz::{CALLS, CallEnds, FuzzTransport, run_client};
use session_fuzz::{CallCounts, run_session};

const SEEDS: u64 = 2_000;
/// Bytes of the steps of a session.
const STEPS_BYTES: usize = 400;

#[test]
fn random_sessions_end_every_call_once() {
    let mut all = CallCounts::default();
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        let mut random = Random::seeded(seed);
        // Small numbers name requests and calls that exist.
        let mut byte = || u8::try_from(random.below(20)).unwrap();
        let mut steps: Vec<u8> = (0..STEPS_BYTES).map(|_| byte()).collect();
        if !seed.is_multiple_of(4) {
            // Another order of steps seldom completes the handshake.
            let response = if steps[0] % 3 == 2 { 2 } else { 1 };
            steps[3..6].copy_from_slice(&[5, 0, response]);
        }
        let counts = run_session(&steps);
        all.completed += counts.completed;
        all.failed += counts.failed;
        all.cancelled += counts.cancelled;
    }
    let least = usize::try_from(SEEDS).unwrap();
    assert!(all.completed > least && all.failed > least && all.cancelled > least, "{all:?}");
}

/// What a server may send. The handshake has id 5: the calls are made before it.
const MESSAGES: [&str; 7] = [
    r#"{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete",
        "supportedVersions":["2026-07-28"],
        "capabilities":{"tools":{},"resources":{},"prompts":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,
        "progress":1}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}"#,
    r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"a"}}"#,
    r#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required",
        "requestState":"s"}}"#,
    r#"{"jsonrpc":"2.0","id":4,"result":{"messages":[]}}"#,
];

/// The messages as `transport` carries them.
fn stream(transport: FuzzTransport) -> Vec<u8> {
    let frame = |line: &str| match transport {
        FuzzTransport::Lines => format!("{line}\n").into_bytes(),
        FuzzTransport::WebSocket => {
            let length = u8::try_from(line.len()).ok().filter(|length| *length < 126);
            if let Some(length) = length {
                return [&[0x81, length], line.as_bytes()].concat();
            }
            let length = u16::try_from(line.len()).expect("a short line").to_be_bytes();
            [&[0x81, 0x7E], &length[..], line.as_bytes()].concat()
        }
        FuzzTransport::Http => {
            let body = format!("id: 1\ndata: {line}\n\n");
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length";
            format!("{head}: {}\r\n\r\n{body}", body.len()).into_bytes()
        }
    };
    MESSAGES.iter().flat_map(|message| frame(&message.replace('\n', ""))).collect()
}

#[test]
fn damaged_server_output_ends_each_call() {
    for transport in FuzzTransport::ALL {
        let mut ends = CallEnds::default();
        for seed in 0..60 {
            let mut random = Random::seeded(seed);
            let mut stream = stream(transport);
            for _ in 0..random.below(4) {
                let at = random.below(stream.len());
                match random.below(3) {
                    0 => stream[at] = random.next_u64().to_le_bytes()[0],
                    1 => drop(stream.remove(at)),
                    _ => stream.truncate(at.max(1)),
                }
            }
            let run = run_client(transport, &stream, 1 + random.below(200));
            assert_eq!(run.answered + run.failed, CALLS);
            ends.answered += run.answered;
            ends.failed += run.failed;
        }
        assert!(ends.failed > 0, "{transport:?}: {ends:?}");
        // Over HTTP the responses arrive before their requests, and answer none.
        let is_http = transport == FuzzTransport::Http;
        assert_eq!(ends.answered == 0, is_http, "{transport:?}: {ends:?}");
    }
}

#[test]
fn frames_do_not_depend_on_split() {
    let text = b"\x81\x02{}\x01\x01[\x89\x01p\x80\x01]\x88\x02\x03\xE8";
    for length in 1..=text.len() {
        let (messages, error) = check_frames(text, length);
        assert_eq!(messages, [b"{}", b"[]"]);
        assert!(error.unwrap().contains("close code 1000"));
    }
    for seed in 0..300 {
        let mut random = Random::seeded(seed);
        let mut stream = text.to_vec();
        let at = random.below(stream.len());
        stream[at] = random.next_u64().to_le_bytes()[0];
        check_frames(&stream, 1 + random.below(5));
    }
}

#[test]
fn authorization_texts_are_read() {
    assert!(check_text("Bearer resource_metadata=\"https://a/b\""));
    for text in [
        "https://user@a:1/b?c#d",
        "http://a",
        r#"{"issuer":"https://a/b","token_endpoint":"https://c"}"#,
        r#"{"resource":"https://a/b"}"#,
    ] {
        assert!(!check_text(text), "{text}");
    }
}
