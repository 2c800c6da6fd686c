//! What tasks of 2025-11-25 ask by requests has its time, like what calls ask.

use std::time::Duration;

use serde_json::json;

use crate::loopback::over_each_ring;
use crate::peer::RELATED;
use crate::stage::{Stage, options};

#[test]
fn a_question_that_nobody_answers_in_time_is_taken_back_and_the_handler_hears_it() {
    let mut options = options();
    options.limits.question_max = Duration::from_millis(50);
    let stage = Stage::open(options);
    let mut peer = stage.core();
    let id = peer.begin("confirm");
    let asked = peer.told("elicitation/create");
    let taken_back = peer.told("notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"], "{taken_back}");
    peer.until(&id, "failed");
    // An answer that comes too late changes nothing.
    peer.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}}));
    peer.until(&id, "failed");
    let counters = stage.close();
    assert_eq!((counters.questions.timed_out, counters.questions.unasked), (1, 1), "{counters}");
}

#[test]
fn a_client_that_tells_progress_works_on_the_question_of_a_task() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("confirm");
    let asked = peer.told("elicitation/create");
    let token = &asked["params"]["_meta"]["progressToken"];
    let method = "notifications/progress";
    let params = json!({"progressToken": token, "progress": 1});
    peer.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    peer.until(&id, "input_required");
    let counters = stage.close();
    assert_eq!((counters.questions.progress, counters.questions.unknown_progress), (1, 0));
}

#[test]
fn an_address_that_a_task_asked_to_open_is_over_with_the_task() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("page");
    let asked = peer.told("elicitation/create");
    assert_eq!(asked["params"]["mode"], "url", "{asked}");
    assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], id.as_str(), "{asked}");
    let address = asked["params"]["elicitationId"].as_str().expect("an id").to_owned();
    peer.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}}));
    peer.until(&id, "working");
    stage.open_gate();
    peer.task("tasks/result", &id);
    let told = peer.told("notifications/elicitation/complete");
    assert_eq!(told["params"]["elicitationId"], address.as_str(), "{told}");
    stage.close();
}

#[test]
fn a_question_goes_with_the_task_whose_time_is_over() {
    let mut options = options();
    options.limits.task_ttl = Duration::from_millis(100);
    let stage = Stage::open(options);
    let mut peer = stage.core();
    peer.begin("confirm");
    let asked = peer.told("elicitation/create");
    let taken_back = peer.told("notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"], "{taken_back}");
    assert_eq!(stage.close().questions.withdrawn, 1);
}

#[test]
fn a_drain_takes_the_questions_of_tasks_back() {
    let mut options = options();
    options.engine.drain_max = Duration::from_mins(1);
    let stage = Stage::open(options);
    let mut peer = stage.core();
    peer.begin("confirm");
    let asked = peer.told("elicitation/create");
    stage.drain();
    let taken_back = peer.told("notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"], "{taken_back}");
    // The handler has heard it: nothing is left to wait for.
    assert_eq!(stage.join().requests.tasks_cancelled, 0);
}

#[test]
fn a_task_asks_in_vain_while_its_server_drains() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("confirm");
    peer.told("elicitation/create");
    // Owed until the task ends: the connection stays.
    let waiting = peer.send("tasks/result", json!({"taskId": id}));
    peer.until(&id, "input_required");
    stage.drain();
    let result = peer.answer_to(waiting, "tasks/result");
    assert_eq!(result["result"]["isError"], true, "{result}");
    peer.expect_end();
    assert_eq!(stage.join().requests.tasks_cancelled, 0);
}

#[test]
fn a_task_asks_in_vain_once_its_peer_has_said_its_last() {
    over_each_ring(options, |options| {
        let stage = Stage::open(options);
        let mut peer = stage.core();
        let id = peer.begin("confirm");
        peer.told("elicitation/create");
        // Owed until the task ends: the connection stays.
        let waiting = peer.send("tasks/result", json!({"taskId": id}));
        peer.finish();
        let result = peer.answer_to(waiting, "tasks/result");
        assert_eq!(result["result"]["isError"], true, "{result}");
        peer.expect_end();
        let counters = stage.close();
        assert_eq!((counters.questions.asked, counters.questions.answered), (1, 0), "{counters}");
    });
}

#[test]
fn a_peer_that_has_said_its_last_is_asked_nothing_more() {
    over_each_ring(options, |options| {
        let stage = Stage::open(options);
        let mut peer = stage.core();
        let id = peer.begin("ask_late");
        let waiting = peer.send("tasks/result", json!({"taskId": id}));
        peer.finish();
        // Whether the server has read the end before the task asks or after: nobody answers.
        stage.open_gate();
        let result = peer.answer_to(waiting, "tasks/result");
        assert_eq!(result["result"]["isError"], true, "{result}");
        peer.expect_end();
        assert_eq!(stage.close().questions.answered, 0);
    });
}
