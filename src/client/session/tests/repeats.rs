//! Calls that are sent again after a failure.

use super::*;
use crate::retry::RetryPolicy;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn session(retry: RetryPolicy) -> TestSession {
    let mut session = TestSession::with(|options| {
        (options.retry, options.request_timeout) = (retry, seconds(10));
    });
    session.receive(DISCOVERED);
    session.sent();
    session.events();
    session
}

fn closed_error() -> ClientError {
    ClientError::new(ClientErrorKind::Closed, "reset by the server")
}

fn error(id: u64, code: i64, data: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"m","data":{data}}}}}"#
    )
}

#[test]
fn call_that_may_have_run_is_sent_once() {
    for policy in [RetryPolicy::never(), RetryPolicy::safe()] {
        let mut session = session(policy);
        session.call("late", Method::ToolsCall);
        session.pass(seconds(10));
        assert_eq!(session.events(), ["late Timeout"]);
        session.call("refused", Method::ToolsCall);
        session.receive(&error(3, 1001, r#"{"started":true,"retryable":false}"#));
        assert_eq!(session.events(), ["refused Rpc { code: 1001 }"]);
        session.call("lost", Method::ToolsCall);
        session.run(|session, ctx| session.fail_request(4, closed_error(), ctx));
        assert_eq!(session.events(), ["lost Closed"]);
        session.sent();
        session.pass(seconds(60));
        assert!(session.sent().is_empty(), "{policy:?}");
    }
}

#[test]
fn timed_out_call_is_repeated_if_asked() {
    let mut session = session(RetryPolicy::all());
    let id = session.call("a", Method::ToolsCall);
    session.sent();
    for (number, delay) in [1, 2, 4].into_iter().enumerate() {
        session.pass(seconds(10));
        assert_eq!(session.sent_methods(), ["notifications/cancelled"]);
        assert_eq!(session.events(), [format!("tools/call again in {delay}s: Timeout")]);
        session.pass(Duration::from_millis(1_000 * delay - 1));
        assert!(session.sent().is_empty());
        session.pass(Duration::from_millis(1));
        let sent = session.sent();
        assert_eq!((sent.len(), &sent[0]["method"]), (1, &json!("tools/call")));
        // Ids are not used again.
        assert_eq!(sent[0]["id"], json!(number + 3));
    }
    session.pass(seconds(10));
    assert_eq!(session.events(), ["a Timeout"]);
    assert_eq!(session.run(|session, ctx| session.cancel(id, None, ctx)), None);
}

#[test]
fn repetition_waits_as_server_asks() {
    let mut session = session(RetryPolicy::all());
    session.call("a", Method::ToolsCall);
    session.receive(&error(2, 1002, r#"{"retryable":true,"retryAfterMs":1500}"#));
    assert_eq!(session.events(), ["tools/call again in 1.5s: Rpc { code: 1002 }"]);
    session.sent();
    session.pass(Duration::from_millis(1_500));
    assert_eq!(session.sent_methods(), ["tools/call"]);
    session.receive(&result(3));
    assert_eq!(session.events(), ["a ok"]);
    // The error of a handler is final.
    session.call("b", Method::ToolsCall);
    session.receive(&error(4, -32603, "{}"));
    assert_eq!(session.events(), ["b Rpc { code: -32603 }"]);
}

#[test]
fn delayed_call_can_be_cancelled() {
    let mut session = session(RetryPolicy::all());
    let id = session.call("a", Method::ToolsCall);
    session.run(|session, ctx| session.fail_request(2, closed_error(), ctx));
    session.sent();
    assert_eq!(session.run(|session, ctx| session.cancel(id, None, ctx)), Some("a"));
    session.pass(seconds(60));
    assert!(session.sent().is_empty());
}

#[test]
fn delayed_call_outlives_lost_connection() {
    let mut session = session(RetryPolicy::all());
    session.call("delayed", Method::ToolsCall);
    session.call("sent", Method::ToolsCall);
    session.run(|session, ctx| session.fail_request(2, closed_error(), ctx));
    session.events();
    session.session.suspend(closed_error(), false, session.now, &mut session.events);
    assert_eq!(session.events(), ["tools/call again in 1s: Closed"]);
    session.sent();
    session.run(|session, ctx| session.start(false, ctx));
    session.receive(&DISCOVERED.replace("\"id\":1", "\"id\":4"));
    assert_eq!(session.sent_methods(), ["server/discover", "tools/call", "tools/call"]);
    session.session.disconnect(closed_error(), &mut session.events);
    assert_eq!(session.events(), ["ready", "delayed Closed", "sent Closed"]);
}
