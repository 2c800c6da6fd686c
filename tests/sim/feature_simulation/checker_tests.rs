//! Tests of the checkers of client requests, tasks and streams: each must reject what violates its
//! rules and accept what does not.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::feature_simulation::catalog_versions::CatalogVersionChecker;
use crate::feature_simulation::connection_checker::ConnectionChecker;
use crate::feature_simulation::shared_model::{RequestSpan, SharedModel, StateRefusal};

const fn at(milliseconds: u64) -> Instant {
    Instant::ORIGIN.after(Duration::from_millis(milliseconds))
}

const fn span(sent: u64, received: u64) -> RequestSpan {
    RequestSpan { sent: at(sent), received: at(received) }
}

fn checker(revision: Revision) -> ConnectionChecker {
    let mut checker = ConnectionChecker::new(revision);
    checker.record_request(1, "tools/call", at(0));
    checker
}

fn response(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {}})
}

fn stream_notification(method: &str, stream: u64, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": stream});
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const TOOLS: &str = "notifications/tools/list_changed";

/// A checker with a stream for changes of tools and one task, under the id 2.
fn checker_with_stream() -> ConnectionChecker {
    let mut checker = checker(Revision::LATEST);
    checker.record_listen(2, &json!({"toolsListChanged": true, "taskIds": ["t"]}), at(0));
    checker
}

fn acknowledged() -> Value {
    stream_notification(
        ACKNOWLEDGED,
        2,
        json!({"notifications": {"toolsListChanged": true, "taskIds": ["t"]}}),
    )
}

/// Checks the messages in turn; returns the result of the last one.
fn check_last(checker: &mut ConnectionChecker, messages: &[Value]) -> Result<(), String> {
    let (last, before) = messages.split_last().expect("a message");
    for message in before {
        checker.check_message(message, at(1))?;
    }
    checker.check_message(last, at(1)).map(drop)
}

#[test]
fn second_response_or_one_after_cancellation_is_rejected() {
    assert!(check_last(&mut checker(Revision::LATEST), &[response(1)]).is_ok());
    assert!(check_last(&mut checker(Revision::LATEST), &[response(1), response(1)]).is_err());
    let mut cancelled = checker(Revision::LATEST);
    cancelled.record_cancellation(1);
    cancelled.record_request(2, "server/discover", at(0));
    assert!(check_last(&mut cancelled, &[response(2), response(1)]).is_err());
}

#[test]
fn stream_notification_before_acknowledgement_is_rejected() {
    let changed = stream_notification(TOOLS, 2, json!({}));
    assert!(check_last(&mut checker_with_stream(), &[acknowledged(), changed.clone()]).is_ok());
    assert!(check_last(&mut checker_with_stream(), std::slice::from_ref(&changed)).is_err());
    assert!(check_last(&mut checker_with_stream(), &[acknowledged(), acknowledged()]).is_err());
    assert!(
        check_last(&mut checker_with_stream(), &[acknowledged(), response(2), changed.clone()])
            .is_err()
    );
    let mut ended = checker_with_stream();
    ended.record_cancellation(2);
    ended.record_request(3, "server/discover", at(0));
    assert!(check_last(&mut ended, &[acknowledged(), response(3), changed]).is_err());
}

#[test]
fn notification_without_subscription_is_rejected() {
    let prompts = stream_notification("notifications/prompts/list_changed", 2, json!({}));
    let nameless = json!({"jsonrpc": "2.0", "method": TOOLS, "params": {}});
    for wrong in [prompts, stream_notification(TOOLS, 3, json!({})), nameless.clone()] {
        assert!(check_last(&mut checker_with_stream(), &[acknowledged(), wrong]).is_err());
    }
    let more = json!({"notifications": {"promptsListChanged": true}});
    assert!(
        check_last(&mut checker_with_stream(), &[stream_notification(ACKNOWLEDGED, 2, more)])
            .is_err()
    );
    // Not before the handshake either.
    let mut session = checker(Revision::LATEST_LEGACY);
    assert!(check_last(&mut session, std::slice::from_ref(&nameless)).is_err());
    session.record_initialized();
    assert!(check_last(&mut session, &[nameless]).is_ok());
    let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": "test://a"}});
    assert!(check_last(&mut session, std::slice::from_ref(&updated)).is_err());
    session.record_subscribe(2, "test://a", at(0));
    assert!(check_last(&mut session, &[updated]).is_ok());
}

#[test]
fn missing_or_reverted_task_end_is_rejected() {
    let task_notification = |status: &str| {
        stream_notification("notifications/tasks", 2, json!({"taskId": "t", "status": status}))
    };
    let mut stream = checker_with_stream();
    check_last(&mut stream, &[acknowledged(), task_notification("working")]).unwrap();
    assert!(stream.missing_task_end(|task| task == "t").is_some());
    check_last(&mut stream, &[task_notification("completed")]).unwrap();
    assert!(stream.missing_task_end(|task| task == "t").is_none());
    assert!(check_last(&mut stream, &[task_notification("working")]).is_err());
}

#[test]
fn client_request_without_call_is_rejected() {
    let asked = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
    let taken_back = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": "q"}});
    let session = || checker(Revision::LATEST_LEGACY);
    assert!(check_last(&mut session(), &[asked.clone(), taken_back.clone()]).is_ok());
    assert!(check_last(&mut session(), &[asked.clone(), taken_back.clone(), taken_back]).is_err());
    assert!(check_last(&mut session(), &[asked.clone(), asked.clone()]).is_err());
    assert!(check_last(&mut session(), &[response(1), asked.clone()]).is_err());
    assert!(check_last(&mut checker(Revision::LATEST), &[asked]).is_err());
    let mut model = SharedModel::new(Duration::from_secs(1));
    assert!(model.add_client_request("q").is_ok() && model.add_client_request("q").is_err());
}

/// A task that was created within 10 ms and has a TTL of one second.
fn model_with_task() -> SharedModel {
    let mut model = SharedModel::new(Duration::from_secs(1));
    let begun = json!({"taskId": "t", "status": "working", "ttlMs": 1000});
    model.add_task(&begun, true, span(0, 10)).expect("the first of its name");
    assert!(model.add_task(&begun, true, span(0, 10)).is_err());
    model
}

fn task_status(status: &str, updated: &str) -> Value {
    json!({"taskId": "t", "status": status, "lastUpdatedAt": updated})
}

#[test]
fn task_status_going_back_is_rejected() {
    let mut model = model_with_task();
    let mut see = |status, updated| model.update_task(&task_status(status, updated), None, at(20));
    assert!(see("working", "1").is_ok() && see("input_required", "2").is_ok());
    assert!(see("completed", "3").is_ok());
    // An old status that arrives late.
    assert!(see("working", "2").is_ok());
    assert!(see("working", "4").is_err() && see("failed", "3").is_err());
}

#[test]
fn task_expiring_early_or_never_is_rejected() {
    let mut model = model_with_task();
    assert!(model.task_not_found("t", span(900, 990)).is_err());
    assert!(model.task_not_found("t", span(900, 1000)).is_ok());
    let working = task_status("working", "1");
    assert!(model.update_task(&working, Some(span(1000, 1100)), at(1100)).is_ok());
    assert!(model.update_task(&working, Some(span(1100, 1110)), at(1110)).is_err());
}

#[test]
fn request_state_accepted_twice_or_late_is_rejected() {
    let given = json!({"requestState": "s", "inputRequests": {"key": {}}});
    let state = || {
        let mut model = SharedModel::new(Duration::from_secs(1));
        model.issue_state(&given, "tool", Vec::new(), span(0, 10)).unwrap();
        model.use_state("s").unwrap();
        model
    };
    let mut twice = state();
    assert!(
        twice.state_accepted("s", span(20, 30)).is_ok()
            && twice.state_accepted("s", span(20, 30)).is_err()
    );
    assert!(state().state_accepted("s", span(1100, 1110)).is_err());
    assert!(state().state_refused("s", StateRefusal::Expired, span(20, 30)).is_err());
    assert!(state().state_refused("s", StateRefusal::Expired, span(20, 1000)).is_ok());
    assert!(state().issue_state(&given, "tool", Vec::new(), span(0, 10)).is_err());
    let mut unused = state();
    unused.state_refused("s", StateRefusal::Used, span(20, 30)).unwrap();
    assert!(unused.check_end(0).is_err());
    unused.use_state("s").unwrap();
    assert!(unused.state_accepted("s", span(20, 30)).is_ok() && unused.check_end(0).is_ok());
}

#[test]
fn catalog_version_old_or_made_twice_is_rejected() {
    let (mut versions, mut model) =
        (CatalogVersionChecker::default(), SharedModel::new(Duration::from_secs(1)));
    let mut check_version = |method, result| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        versions.check(method, &message, &mut model.catalog_versions)
    };
    let offered = |number| json!({"instructions": format!("catalog version {number}")});
    let changed = |number| json!({"content": [{"text": format!("catalog version {number}")}]});
    assert!(check_version("server/discover", offered(2)).is_ok());
    assert!(check_version("server/discover", offered(1)).is_err());
    // An update may be answered after a newer version was seen.
    assert!(
        check_version("tools/call", changed(1)).is_ok()
            && check_version("tools/call", changed(3)).is_ok()
    );
    assert!(check_version("server/discover", offered(2)).is_err());
    assert!(check_version("server/discover", offered(3)).is_ok());
    assert!(check_version("tools/call", changed(3)).is_err());
    assert!(model.check_end(3).is_ok() && model.check_end(2).is_err());
}
