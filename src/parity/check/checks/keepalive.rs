//! Keep-alives, and the end of idle connections.

use std::time::Duration;

use serde_json::json;

use crate::deadline::{Deadline, now};
use crate::http_steps::channel;
use crate::peer::{Message, Peer, capabilities, full_handshake};
use crate::rules::FLAGS;
use crate::steps::{chunks, ensure, expect_end, expect_ready, next_chunk, open_long_stream};
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
        name: "keepalive.before_exchange",
        level: Must,
        needs: &[],
        rule: "a keepalive before an announced exchange of capabilities is accepted",
        run: before_exchange,
    },
    Check {
        name: "keepalive.canceling",
        level: Must,
        needs: &[Need::Flag("streaming"), Need::Flag("cancellation"), Need::LongTool],
        rule: "a keepalive is accepted while a stream runs, and while it is cancelled",
        run: canceling,
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
        needs: &[],
        rule: "a session whose client sends only keepalives stays after timeoutHintSec",
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
/// How much later than it says a server may end an idle session.
pub(super) const END_SLACK: Duration = Duration::from_secs(2);
/// How much later than its hint a server may close a connection.
const CLOSE_SLACK: Duration = Duration::from_secs(5);

/// Keep-alives that are sent at once, more than a server sends meanwhile.
const AT_ONCE: usize = 8;

fn send_keepalive(peer: &mut Peer<'_>) -> CheckResult {
    peer.send(&json!({"type": "keepalive", "timeoutHintSec": 60}))
}

fn accepted(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    for _ in 0..AT_ONCE {
        send_keepalive(&mut peer)?;
    }
    let received = peer.drain_all();
    let (own, others): (Vec<&Message>, Vec<&Message>) =
        received.iter().partition(|message| message.is("keepalive"));
    if let Some(other) = others.first() {
        return Err(CheckError::Failed(format!("it was answered by {}", other.text)));
    }
    // Those of the server come once in a second at most.
    ensure(own.len() < AT_ONCE, || format!("each was answered by {}", own[0].text))?;
    expect_ready(&mut peer)
}

fn before_exchange(context: &Context<'_>) -> CheckResult {
    let mut message = full_handshake(context);
    message["capabilitiesExchange"] = json!(true);
    let mut peer = Peer::ready_with(context, &message)?;
    send_keepalive(&mut peer)?;
    expect_no_answer(&mut peer)?;
    peer.send(&json!({"type": "capabilities", "capabilities": capabilities(&FLAGS)}))?;
    peer.wait("capabilitiesAck", |message| message.is("capabilitiesAck")).map(drop)
}

fn canceling(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let (_, stream) = open_long_stream(&mut peer, context)?;
    send_keepalive(&mut peer)?;
    next_chunk(&mut peer, &stream)?;
    peer.send(&json!({"type": "cancel", "streamId": stream}))?;
    send_keepalive(&mut peer)?;
    let chunks = chunks(&mut peer, context, &stream);
    expect_end(&stream, &chunks)?;
    expect_no_answer(&mut peer)?;
    expect_ready(&mut peer)
}

/// Checks that no keep-alive was answered.
fn expect_no_answer(peer: &mut Peer<'_>) -> CheckResult {
    let received = peer.drain();
    let answer = received.iter().find(|message| message.is("error") || message.is("response"));
    match answer {
        None => Ok(()),
        Some(answer) => Err(CheckError::Failed(format!("it was answered by {}", answer.text))),
    }
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

/// When a server says that it ends an idle session.
pub(super) struct IdleTimes {
    /// From the beginning of a connection, or of an event stream, to its first keepalive.
    pub interval: Duration,
    /// `timeoutHintSec`.
    pub hint: Duration,
}

impl IdleTimes {
    /// Returns the time after which a server has ended an idle session.
    pub(super) fn wait(&self, context: &Context<'_>) -> Duration {
        let intervals = if context.settings.endpoint.is_http() { 2 } else { 1 };
        intervals * self.interval + self.hint + END_SLACK
    }
}

/// Waits for a keepalive, and returns the times if there is time for them.
pub(super) fn idle_times<'a>(
    context: &'a Context<'a>,
) -> Result<(Peer<'a>, IdleTimes), CheckError> {
    let start = now();
    let (peer, keepalive) = first_keepalive(context).map_err(CheckError::blocked)?;
    let interval = start.elapsed();
    let Some(seconds) = keepalive.value["timeoutHintSec"].as_u64() else {
        return Err(CheckError::Blocked(format!("no timeoutHintSec: {}", keepalive.text)));
    };
    if seconds > SHORT_HINT && !context.settings.is_slow {
        let text = format!("timeoutHintSec is {seconds}: --slow waits so long");
        return Err(CheckError::Skipped(text));
    }
    Ok((peer, IdleTimes { interval, hint: Duration::from_secs(seconds) }))
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
    let (mut peer, times) = idle_times(context)?;
    if context.settings.endpoint.is_http() {
        channel(&mut peer)?.detach();
    }
    send_keepalives(context, &mut peer, &times)?;
    expect_ready(&mut peer)
}

/// Sends keep-alives, and nothing else, for longer than an idle session lasts.
fn send_keepalives(context: &Context<'_>, peer: &mut Peer<'_>, times: &IdleTimes) -> CheckResult {
    let (start, wait) = (now(), times.wait(context));
    while start.elapsed() < wait {
        peer.send(&json!({"type": "keepalive", "timeoutHintSec": 60}))?;
        let step = times.hint / 2;
        if let Some(channel) = peer.channel().http() {
            channel.wait(Deadline::after(step));
        } else if peer.closed(Deadline::after(step)).is_ok() {
            return Err(CheckError::failed("it was closed"));
        }
    }
    Ok(())
}

fn idle_close(context: &Context<'_>) -> CheckResult {
    // The server receives the handshake later, and closes after the hint at the earliest.
    let start = now();
    let (mut peer, IdleTimes { hint, .. }) = idle_times(context)?;
    peer.closed(Deadline::after(hint + CLOSE_SLACK))?;
    let idle = start.elapsed();
    ensure(idle >= hint.mul_f32(0.8), || format!("closed after {idle:?}, before {hint:?}"))
}
