//! Seeded mutations of real messages through the body of the fuzz target.
//!
//! A failure prints its seed and bytes; the same seed produces the same bytes.

use crate::fuzz;
use corelane_base::random::Random;
use corelane_protocol::json::{ParseLimits, Parser};

const ROUNDS_PER_SEED: usize = 4_000;
const SEEDS: std::ops::Range<u64> = 0..12;

const MESSAGES: &[&str] = &[
    concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"#,
        r#""protocolVersion":"2025-11-25","#,
        r#""capabilities":{"roots":{"listChanged":true},"elicitation":{}},"#,
        r#""clientInfo":{"name":"c","version":"1"}}}"#
    ),
    concat!(
        r#"{"jsonrpc":"2.0","id":"d\u00e9","method":"server/discover","params":{"_meta":{"#,
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientCapabilities":{},"#,
        r#""io.modelcontextprotocol/logLevel":"info","progressToken":7}}}"#
    ),
    concat!(
        r#"{"jsonrpc":"2.0","id":-3,"method":"tools/call","params":{"name":"echo","#,
        r#""arguments":{"message":"a\"\\\n\ud83d\ude00é","n":[0,-1,2.5e-3,true,null]}}}"#
    ),
    concat!(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","#,
        r#""params":{"requestId":18446744073709551615,"reason":"x"}}"#
    ),
    concat!(
        r#"{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"#,
        r#""toolsListChanged":true,"resourceSubscriptions":["file:///a\u0000"],"taskIds":["t"]}}}"#
    ),
    concat!(
        r#"{"jsonrpc":"2.0","id":8,"method":"completion/complete","params":{"#,
        r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"\""},"#,
        r#""context":{"arguments":{"b":"c"}}}}"#
    ),
    concat!(
        r#"{"jsonrpc":"2.0","id":9,"method":"tasks/update","params":{"taskId":"t","#,
        r#""inputResponses":{"k":{"action":"accept","content":{"name":"é","age":8,"some":"a,b"}},"#,
        r#""q":{"role":"assistant","content":[{"type":"text","text":"x"},"#,
        r#"{"type":"image","data":"iVBORw==","mimeType":"a/b"}],"model":"m"},"#,
        r#""r":{"roots":[{"uri":"file:///p","name":"p"}]}}}}"#
    ),
    r#"{"jsonrpc":"2.0","id":4,"result":{"action":"accept","content":{"age":7,"name":"n"}}}"#,
    concat!(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","#,
        r#""params":{"progressToken":"p","progress":1}}"#
    ),
    r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"no"}}"#,
    r#"[{"jsonrpc":"2.0","id":5,"result":{}},{"jsonrpc":"2.0","id":6,"method":"ping"}]"#,
];

/// Fragments with a meaning for a parser.
const FRAGMENTS: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud83d",
    b"\\\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"true",
    b"-",
    b"0",
    b"1e400",
    b"18446744073709551616",
    b"\"id\":1,",
    b"\"_meta\":{",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xe2",
    b"\x00",
    b"\n",
    b" ",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

/// Applies one to four random mutations to `bytes`.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = at + random.below(bytes.len() - at + 1).min(24);
        match random.below(5) {
            0 => {
                drop(
                    bytes.splice(at..at, FRAGMENTS[random.below(FRAGMENTS.len())].iter().copied()),
                );
            }
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            3 => bytes.truncate(at),
            _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => bytes.push(b'}'),
        }
    }
}

#[test]
fn mutated_messages_hold_fuzz_properties() {
    let mut accepted = 0;
    for seed in SEEDS {
        let mut random = Random::seeded(seed);
        let mut parser = Parser::new(ParseLimits::default());
        for round in 0..ROUNDS_PER_SEED {
            let mut bytes = MESSAGES[random.below(MESSAGES.len())].as_bytes().to_vec();
            if random.chance(9, 10) {
                mutate(&mut random, &mut bytes);
            }
            // Printed only if the test fails.
            let shown = PrintOnPanic { seed, round, bytes: &bytes };
            accepted += usize::from(fuzz::check_message(&mut parser, &bytes));
            drop(shown);
        }
    }
    let rounds = ROUNDS_PER_SEED * usize::try_from(SEEDS.end).expect("few seeds");
    assert!(
        accepted > rounds / 8,
        "{accepted} of {rounds} accepted: mutations are too destructive"
    );
    assert!(accepted < rounds / 2, "{accepted} of {rounds} accepted: mutations are too mild");
}

/// Prints the input when dropped during a panic.
struct PrintOnPanic<'b> {
    seed: u64,
    round: usize,
    bytes: &'b [u8],
}

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, round, bytes } = self;
            eprintln!("seed {seed}, round {round}: {}", bytes.escape_ascii());
        }
    }
}
