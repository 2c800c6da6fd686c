//! Proof that the checkers of questions, tasks and streams look: each is given what it must not let
//! pass, and what it must.

use std::time::Duration;

use corelane::base::time::Moment;
use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

use crate::meeting::commons::{Commons, Span, Why};
use crate::meeting::editions::Shelf;
use crate::meeting::ledger::Ledger;

const fn at(milliseconds: u64) -> Moment {
    Moment::ORIGIN.after(Duration::from_millis(milliseconds))
}

const fn span(said: u64, heard: u64) -> Span {
    Span { said: at(said), heard: at(heard) }
}

fn ledger(revision: Revision) -> Ledger {
    let mut ledger = Ledger::new(revision);
    ledger.ask(1, "tools/call", at(0));
    ledger
}

fn answer(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {}})
}

fn frame(method: &str, stream: u64, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": stream});
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const TOOLS: &str = "notifications/tools/list_changed";

/// A stream for changes of tools, asked for under the id 2.
fn listening() -> Ledger {
    let mut ledger = ledger(Revision::LATEST);
    ledger.listen(2, &json!({"toolsListChanged": true, "taskIds": ["t"]}), at(0));
    ledger
}

fn acknowledged() -> Value {
    frame(ACKNOWLEDGED, 2, json!({"notifications": {"toolsListChanged": true, "taskIds": ["t"]}}))
}

/// What comes of these messages, one after the other: that of the last one.
fn last(ledger: &mut Ledger, messages: &[Value]) -> Result<(), String> {
    let (last, before) = messages.split_last().expect("a message");
    for message in before {
        ledger.hear(message, at(1))?;
    }
    ledger.hear(last, at(1)).map(drop)
}

#[test]
fn a_second_answer_is_noticed_and_so_is_one_to_what_was_taken_back() {
    assert!(last(&mut ledger(Revision::LATEST), &[answer(1)]).is_ok());
    assert!(last(&mut ledger(Revision::LATEST), &[answer(1), answer(1)]).is_err());
    let mut cancelled = ledger(Revision::LATEST);
    cancelled.cancel(1);
    cancelled.ask(2, "server/discover", at(0));
    assert!(last(&mut cancelled, &[answer(2), answer(1)]).is_err());
}

#[test]
fn a_frame_before_the_acknowledgement_or_after_the_end_is_noticed() {
    let changed = frame(TOOLS, 2, json!({}));
    assert!(last(&mut listening(), &[acknowledged(), changed.clone()]).is_ok());
    assert!(last(&mut listening(), std::slice::from_ref(&changed)).is_err());
    assert!(last(&mut listening(), &[acknowledged(), acknowledged()]).is_err());
    assert!(last(&mut listening(), &[acknowledged(), answer(2), changed.clone()]).is_err());
    let mut ended = listening();
    ended.cancel(2);
    ended.ask(3, "server/discover", at(0));
    assert!(last(&mut ended, &[acknowledged(), answer(3), changed]).is_err());
}

#[test]
fn a_frame_that_was_not_asked_for_or_names_no_stream_is_noticed() {
    let prompts = frame("notifications/prompts/list_changed", 2, json!({}));
    let nameless = json!({"jsonrpc": "2.0", "method": TOOLS, "params": {}});
    for wrong in [prompts, frame(TOOLS, 3, json!({})), nameless.clone()] {
        assert!(last(&mut listening(), &[acknowledged(), wrong]).is_err());
    }
    let more = json!({"notifications": {"promptsListChanged": true}});
    assert!(last(&mut listening(), &[frame(ACKNOWLEDGED, 2, more)]).is_err());
    // Nor before the handshake.
    let mut session = ledger(Revision::LATEST_LEGACY);
    assert!(last(&mut session, std::slice::from_ref(&nameless)).is_err());
    session.confirm();
    assert!(last(&mut session, &[nameless]).is_ok());
    let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": "test://a"}});
    assert!(last(&mut session, std::slice::from_ref(&updated)).is_err());
    session.subscribe(2, "test://a", at(0));
    assert!(last(&mut session, &[updated]).is_ok());
}

#[test]
fn the_end_of_a_task_that_is_not_told_or_taken_back_is_noticed() {
    let told =
        |status: &str| frame("notifications/tasks", 2, json!({"taskId": "t", "status": status}));
    let mut stream = listening();
    last(&mut stream, &[acknowledged(), told("working")]).unwrap();
    assert!(stream.untold(|task| task == "t").is_some());
    last(&mut stream, &[told("completed")]).unwrap();
    assert!(stream.untold(|task| task == "t").is_none());
    assert!(last(&mut stream, &[told("working")]).is_err());
}

#[test]
fn a_question_without_a_call_or_taken_back_twice_is_noticed() {
    let asked = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
    let taken_back = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": "q"}});
    let session = || ledger(Revision::LATEST_LEGACY);
    assert!(last(&mut session(), &[asked.clone(), taken_back.clone()]).is_ok());
    assert!(last(&mut session(), &[asked.clone(), taken_back.clone(), taken_back]).is_err());
    assert!(last(&mut session(), &[asked.clone(), asked.clone()]).is_err());
    assert!(last(&mut session(), &[answer(1), asked.clone()]).is_err());
    assert!(last(&mut ledger(Revision::LATEST), &[asked]).is_err());
    let mut commons = Commons::new(Duration::from_secs(1));
    assert!(commons.name_question("q").is_ok() && commons.name_question("q").is_err());
}

/// A task that began within 10 ms and is kept for a second.
fn commons() -> Commons {
    let mut commons = Commons::new(Duration::from_secs(1));
    let begun = json!({"taskId": "t", "status": "working", "ttlMs": 1000});
    commons.begin(&begun, true, span(0, 10)).expect("the first of its name");
    assert!(commons.begin(&begun, true, span(0, 10)).is_err());
    commons
}

fn stands(status: &str, updated: &str) -> Value {
    json!({"taskId": "t", "status": status, "lastUpdatedAt": updated})
}

#[test]
fn a_task_that_goes_back_is_noticed() {
    let mut commons = commons();
    let mut see = |status, updated| commons.see(&stands(status, updated), None, at(20));
    assert!(see("working", "1").is_ok() && see("input_required", "2").is_ok());
    assert!(see("completed", "3").is_ok());
    // Heard late of an earlier time.
    assert!(see("working", "2").is_ok());
    assert!(see("working", "4").is_err() && see("failed", "3").is_err());
}

#[test]
fn a_task_that_is_forgotten_early_or_kept_for_ever_is_noticed() {
    let mut commons = commons();
    assert!(commons.miss("t", span(900, 990)).is_err());
    assert!(commons.miss("t", span(900, 1000)).is_ok());
    let working = stands("working", "1");
    assert!(commons.see(&working, Some(span(1000, 1100)), at(1100)).is_ok());
    assert!(commons.see(&working, Some(span(1100, 1110)), at(1110)).is_err());
}

#[test]
fn a_state_that_counts_twice_late_or_never_is_noticed() {
    let given = json!({"requestState": "s", "inputRequests": {"key": {}}});
    let state = || {
        let mut commons = Commons::new(Duration::from_secs(1));
        commons.give(&given, "tool", Vec::new(), span(0, 10)).unwrap();
        commons.bring("s").unwrap();
        commons
    };
    let mut twice = state();
    assert!(twice.take("s", span(20, 30)).is_ok() && twice.take("s", span(20, 30)).is_err());
    assert!(state().take("s", span(1100, 1110)).is_err());
    assert!(state().refuse("s", Why::Late, span(20, 30)).is_err());
    assert!(state().refuse("s", Why::Late, span(20, 1000)).is_ok());
    assert!(state().give(&given, "tool", Vec::new(), span(0, 10)).is_err());
    let mut unused = state();
    unused.refuse("s", Why::Used, span(20, 30)).unwrap();
    assert!(unused.close(0).is_err());
    unused.bring("s").unwrap();
    assert!(unused.take("s", span(20, 30)).is_ok() && unused.close(0).is_ok());
}

#[test]
fn an_edition_that_is_old_made_twice_or_by_nobody_is_noticed() {
    let (mut shelf, mut commons) = (Shelf::default(), Commons::new(Duration::from_secs(1)));
    let mut hear = |method, result| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        shelf.hear(method, &message, &mut commons.editions)
    };
    let offered = |number| json!({"instructions": format!("edition {number}")});
    let changed = |number| json!({"content": [{"text": format!("edition {number}")}]});
    assert!(hear("server/discover", offered(2)).is_ok());
    assert!(hear("server/discover", offered(1)).is_err());
    // What was made before others is told after they were seen.
    assert!(hear("tools/call", changed(1)).is_ok() && hear("tools/call", changed(3)).is_ok());
    assert!(hear("server/discover", offered(2)).is_err());
    assert!(hear("server/discover", offered(3)).is_ok());
    assert!(hear("tools/call", changed(3)).is_err());
    assert!(commons.close(3).is_ok() && commons.close(2).is_err());
}
