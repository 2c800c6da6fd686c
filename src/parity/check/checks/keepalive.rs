//! Keep-alives, and the end of idle connections.

use std::time::Duration;

use serde_json::json;

use crate::deadline::{Deadline, now};
use crate::peer::{Message, Peer};
use crate::steps::{ensure, expect_ready};
use crate::suite::Level::Must;
use crate::suite::{Check, CheckError, CheckResult, Context, Need, Settings};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "keepalive.accepted",
        level: Must,
        needs: &[],
        rule: "a keepalive of the client is accepted without an answer",
        run: accepted,
    },
    Check {
        name: "keepalive.hint",
        level: Must,
        needs: &[],
        rule: "a keepalive has timeoutHintSec",
        run: has_hint,
    },
    Check {
        name: "keepalive.event",
        level: Must,
        needs: &[Need::Http],
        rule: "a keepalive on an event stream is an event of that name",
        run: event,
    },
    Check {
        name: "keepalive.answer_keeps",
        level: Must,
        needs: &[Need::Connection],
        rule: "a connection that sends keepalives stays open after timeoutHintSec",
        run: answer_keeps,
    },
    Check {
        name: "keepalive.idle_close",
        level: Must,
        needs: &[Need::Connection],
        rule: "a connection that sends nothing is closed after timeoutHintSec, not before",
        run: idle_close,
    },
];

/// Longest wait for a keepalive with `--slow`.
const SLOW_WAIT: Duration = Duration::from_secs(65);
/// Longest hint that is waited for without `--slow`, in seconds.
const SHORT_HINT: u64 = 5;
/// How much later than its hint a server may close a connection.
const CLOSE_SLACK: Duration = Duration::from_secs(5);

fn accepted(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    peer.send(&json!({"type": "keepalive", "timeoutHintSec": 60}))?;
    let answers = peer.drain();
    ensure(answers.is_empty(), || format!("it was answered by {}", answers[0].text))?;
    expect_ready(&mut peer)
}

/// Waits for a keepalive of the server.
fn first_keepalive<'a>(context: &'a Context<'a>) -> Result<(Peer<'a>, Message), CheckError> {
    let mut peer = Peer::ready(context)?;
    let Settings { is_slow, timeout, .. } = *context.settings;
    let wait = if is_slow { SLOW_WAIT } else { timeout };
    let start = now();
    let deadline = Deadline::after(wait);
    let received = peer.wait_until(deadline, "keepalive", |message| message.is("keepalive"));
    match received {
        Ok(keepalive) => Ok((peer, keepalive)),
        Err(CheckError::Failed(reason)) if peer.is_closed() => {
            let seconds = start.elapsed().as_secs_f32();
            Err(CheckError::Failed(format!("after {seconds:.1} s: {reason}")))
        }
        Err(error) if is_slow => Err(error),
        Err(_) => {
            let text = format!("no keepalive within {wait:?}: --slow waits for one");
            Err(CheckError::Skipped(text))
        }
    }
}

/// Waits for a keepalive, and returns its hint if there is time for it.
fn hint<'a>(context: &'a Context<'a>) -> Result<(Peer<'a>, Duration), CheckError> {
    let (peer, keepalive) = first_keepalive(context).map_err(CheckError::blocked)?;
    let Some(seconds) = keepalive.value["timeoutHintSec"].as_u64() else {
        return Err(CheckError::Blocked(format!("no timeoutHintSec: {}", keepalive.text)));
    };
    if seconds > SHORT_HINT && !context.settings.is_slow {
        let text = format!("timeoutHintSec is {seconds}: --slow waits so long");
        return Err(CheckError::Skipped(text));
    }
    Ok((peer, Duration::from_secs(seconds)))
}

fn has_hint(context: &Context<'_>) -> CheckResult {
    let (_, keepalive) = first_keepalive(context)?;
    let text = &keepalive.text;
    ensure(keepalive.value["timeoutHintSec"].is_u64(), || format!("no timeoutHintSec: {text}"))
}

fn event(context: &Context<'_>) -> CheckResult {
    let (_, keepalive) = first_keepalive(context).map_err(CheckError::blocked)?;
    let name = keepalive.event.as_ref().map(|event| event.name.as_str());
    ensure(name == Some("keepalive"), || format!("its event is {name:?}"))
}

fn answer_keeps(context: &Context<'_>) -> CheckResult {
    let (mut peer, hint) = hint(context)?;
    for _ in 0..4 {
        peer.send(&json!({"type": "keepalive", "timeoutHintSec": 60}))?;
        let deadline = Deadline::after(hint / 2);
        if peer.closed(deadline).is_ok() {
            return Err(CheckError::failed("it was closed"));
        }
    }
    expect_ready(&mut peer)
}

fn idle_close(context: &Context<'_>) -> CheckResult {
    // The server receives the handshake later, and closes after the hint at the earliest.
    let start = now();
    let (mut peer, hint) = hint(context)?;
    peer.closed(Deadline::after(hint + CLOSE_SLACK))?;
    let idle = start.elapsed();
    ensure(idle >= hint.mul_f32(0.8), || format!("closed after {idle:?}, before {hint:?}"))
}
