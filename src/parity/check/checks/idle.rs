//! When a session ends because its client is silent: not while it is busy, and not without an
//! error.
//!
//! A server ends a session after the time between keep-alives and `timeoutHintSec`, which the
//! checks learn from its first keep-alive. Over HTTP the time between the keep-alives of an event
//! stream may be half of that of the session.

use std::time::Duration;

use serde_json::json;

use super::keepalive::{END_SLACK, idle_times};
use crate::deadline::{Deadline, now};
use crate::http_steps::channel;
use crate::peer::{Message, Peer, expect_error};
use crate::steps::{ensure, expect_ready, long_call, open_long_stream};
use crate::suite::Level::{Must, Transition};
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "idle.request",
        level: Must,
        needs: &[Need::LongTool],
        rule: "a session in which a request runs does not end as idle, and its idle time begins \
               after it",
        run: request,
    },
    Check {
        name: "idle.stream",
        level: Must,
        needs: &[Need::Flag("streaming"), Need::LongTool],
        rule: "a session in which a stream runs does not end as idle, over HTTP also without an \
               event stream, and its idle time begins after it",
        run: stream,
    },
    Check {
        name: "idle.event_stream",
        level: Must,
        needs: &[Need::Http],
        rule: "a session with an open event stream does not end as idle",
        run: event_stream,
    },
    Check {
        name: "idle.announced",
        level: Transition,
        needs: &[Need::Connection],
        rule: "Ready --(timeout(idleTimeout))--> Closing: an idle session ends by error.internal, \
               retryable, details.reason idle_timeout, and then the close (WebSocket: 1011)",
        run: announced,
    },
];

/// Close code of a WebSocket that ends after an error of the server.
const INTERNAL_ERROR: u16 = 1011;

/// What is known of the call that keeps a session.
enum Call {
    Running,
    /// It has ended after this time.
    Ended(Duration),
}

/// Checks that the session has not ended after `wait`, in which nothing was sent.
fn expect_kept(peer: &mut Peer<'_>, wait: Duration, what: &str) -> CheckResult {
    expect_ready(peer).map_err(|error| match error {
        CheckError::Failed(reason) => {
            CheckError::Failed(format!("ended within {wait:.1?} in spite of {what}: {reason}"))
        }
        error => error,
    })
}

/// Waits until the call ends or `wait` is over.
fn follow(
    peer: &mut Peer<'_>,
    wait: Duration,
    what: &str,
    is_end: impl Fn(&Message) -> bool,
) -> Result<Call, CheckError> {
    let start = now();
    match peer.wait_until(Deadline::after(wait), "end of the call", is_end) {
        Ok(_) => Ok(Call::Ended(start.elapsed())),
        Err(CheckError::Failed(reason)) if peer.is_closed() => {
            let time = start.elapsed();
            Err(CheckError::Failed(format!("ended after {time:.1?} in spite of {what}: {reason}")))
        }
        Err(_) => Ok(Call::Running),
    }
}

/// Fails a check whose tool is too short to show anything.
fn too_short(ran: Duration, needed: Duration) -> CheckError {
    CheckError::Skipped(format!(
        "the tool ran for {ran:.1?}: --long-arguments with {needed:.0?} or more show whether it \
         keeps the session"
    ))
}

/// Waits for the rest of the time, in which the connection must not end.
fn wait_rest(
    context: &Context<'_>,
    peer: &mut Peer<'_>,
    ran: Duration,
    wait: Duration,
) -> CheckResult {
    if context.settings.endpoint.is_http() {
        return Err(too_short(ran, wait));
    }
    if ran < 2 * END_SLACK {
        return Err(too_short(ran, 2 * END_SLACK));
    }
    match peer.closed(Deadline::after(wait.saturating_sub(ran))) {
        Ok(_) => {
            let reason = format!("ended within {wait:.1?}, though a call ran for {ran:.1?} of it");
            Err(CheckError::Failed(reason))
        }
        Err(_) => Ok(()),
    }
}

fn request(context: &Context<'_>) -> CheckResult {
    let (mut peer, times) = idle_times(context)?;
    if context.settings.endpoint.is_http() {
        channel(&mut peer)?.detach();
    }
    let (wait, what) = (times.wait(context), "a running request");
    let id = peer.request(json!({"method": "tools/call", "params": long_call(context)}))?;
    if let Call::Ended(ran) = follow(&mut peer, wait, what, |it| it.is_response(&id))? {
        wait_rest(context, &mut peer, ran, wait)?;
    }
    expect_kept(&mut peer, wait, what)?;
    peer.send(&json!({"type": "cancel", "id": id}))
}

fn stream(context: &Context<'_>) -> CheckResult {
    let (mut peer, times) = idle_times(context)?;
    let (wait, what) = (times.wait(context), "a running stream");
    if context.settings.endpoint.is_http() {
        return stream_without_event_stream(context, peer, wait, what);
    }
    let (id, stream) = open_long_stream(&mut peer, context)?;
    let is_end = |it: &Message| it.is_chunk("eos") && it.value["streamId"] == stream.as_str();
    if let Call::Ended(ran) = follow(&mut peer, wait, what, is_end)? {
        wait_rest(context, &mut peer, ran, wait)?;
    }
    expect_kept(&mut peer, wait, what)?;
    peer.send(&json!({"type": "cancel", "id": id}))
}

/// Opens a stream that nothing shows, beside a request of another session that takes as long.
fn stream_without_event_stream(
    context: &Context<'_>,
    mut peer: Peer<'_>,
    wait: Duration,
    what: &str,
) -> CheckResult {
    open_long_stream(&mut peer, context)?;
    channel(&mut peer)?.detach();
    let mut other = Peer::acked(context)?;
    let id = other.request(json!({"method": "tools/call", "params": long_call(context)}))?;
    if let Call::Ended(ran) = follow(&mut other, wait, what, |it| it.is_response(&id))? {
        return Err(too_short(ran, wait));
    }
    expect_kept(&mut peer, wait, what)
}

fn event_stream(context: &Context<'_>) -> CheckResult {
    let (mut peer, times) = idle_times(context)?;
    let (wait, what) = (times.wait(context), "its event stream");
    follow(&mut peer, wait, what, |_| false)?;
    expect_kept(&mut peer, wait, what)
}

fn announced(context: &Context<'_>) -> CheckResult {
    let (mut peer, times) = idle_times(context)?;
    let code = peer
        .closed(Deadline::after(times.hint + times.interval + END_SLACK))
        .map_err(CheckError::blocked)?;
    let messages = peer.take_pending();
    let last = messages.iter().rfind(|message| !message.is("keepalive"));
    let Some(error) = last.filter(|last| last.is("error")) else {
        return Err(CheckError::failed("it was closed without an error"));
    };
    expect_error(error, "error.internal", None)?;
    let object = &error.value["error"];
    let is_named = object["retryable"] == true && object["details"]["reason"] == "idle_timeout";
    ensure(is_named, || format!("not retryable with details.reason: {}", error.text))?;
    let is_websocket = context.settings.endpoint.is_websocket();
    ensure(!is_websocket || code == Some(INTERNAL_ERROR), || {
        format!("the close code is {code:?} instead of {INTERNAL_ERROR}")
    })
}
