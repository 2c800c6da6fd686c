//! Damaged messages through the body of the fuzz target.

use crate::fuzz::check_text;
use corelane_base::random::Random;

/// A conversation of valid messages, one on each line.
pub(crate) const EXAMPLE: &str = concat!(
    r#"{"type":"handshake","protocolVersion":"1.0","capabilitiesExchange":true,"capabilities":"#,
    r#"{"tools":true,"resources":true,"prompts":true,"streaming":true,"resume":true,"#,
    r#""cancellation":true,"maxConcurrent":2,"resumeWindow":{"chunks":9,"seconds":9}},"#,
    r#""resumeToken":"t","lastAckSeq":{"s-1":3}}"#,
    "\n",
    r#"{"type":"capabilities","capabilities":{"tools":true,"streaming":true,"cancellation":true}}"#,
    "\n",
    r#"{"type":"request","id":1,"method":"tools/call","params":{"name":"a"},"stream":true}"#,
    "\n",
    r#"{"type":"request","id":"2","method":"tools/list","idempotencyKey":"k"}"#,
    "\n",
    r#"{"type":"cancel","streamId":"s-1","reason":"r"}"#,
    "\n",
    r#"{"type":"keepalive","timeoutHintSec":120}"#,
    "\n",
    r#"{"type":"error","id":1,"error":{"code":"error.internal","message":"m","retryable":true}}"#,
    "\n",
);

/// Returns the lines of a text, some of them damaged.
pub(crate) fn damage(text: &str, random: &mut Random) -> Vec<String> {
    let mut below =
        |end: usize| usize::try_from(random.next_u64() % end as u64).expect("below a usize");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=below(3) {
        let (line, other) = (below(lines.len()), below(lines.len()));
        match below(3) {
            0 => lines.swap(line, other),
            1 => lines.push(lines[line].clone()),
            _ => {
                let at = below(lines[line].len());
                lines[line].replace_range(at..=at, ["\"", "{", "0", "true", ""][other % 5]);
            }
        }
    }
    lines
}

#[test]
fn damaged_messages_violate_no_invariant() {
    assert_eq!(check_text(EXAMPLE), EXAMPLE.lines().count());
    let mut random = Random::seeded(20);
    for _ in 0..2_000 {
        check_text(&damage(EXAMPLE, &mut random).join("\n"));
    }
}
