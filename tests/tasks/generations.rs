//! Both generations at once: a task is known in the one that began it.

use serde_json::json;

use crate::peer::{Peer, expect_error, text};
use crate::stage::{Stage, options};

/// The bounds that both share.
fn open() -> (Stage, Peer, Peer) {
    let stage = Stage::open(options());
    let (core, modern) = (stage.core(), stage.modern());
    (stage, core, modern)
}

#[test]
fn a_task_of_one_generation_is_unknown_to_the_other() {
    let (stage, mut core, mut modern) = open();
    let (old, new) = (core.begin("hold"), modern.begin("hold"));
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        expect_error(&core.task(method, &new), -32602);
    }
    for method in ["tasks/get", "tasks/cancel"] {
        expect_error(&modern.task(method, &old), -32602);
    }
    assert_eq!(core.request("tasks/list", json!({}))["result"]["tasks"][0]["taskId"], old.as_str());
    stage.open_gate();
    assert_eq!(text(&core.task("tasks/result", &old)["result"]), "held");
    assert_eq!(text(&modern.until(&new, "completed")["result"]), "held");
    stage.close();
}

#[test]
fn a_task_outlives_its_connection() {
    let (stage, mut core, mut modern) = open();
    let (old, new) = (core.begin("hold"), modern.begin("hold"));
    drop((core, modern));
    let (mut core, mut modern) = (stage.core(), stage.modern());
    assert_eq!(core.task("tasks/get", &old)["result"]["status"], "working");
    stage.open_gate();
    assert_eq!(text(&core.task("tasks/result", &old)["result"]), "held");
    assert_eq!(text(&modern.until(&new, "completed")["result"]), "held");
    // It is not this connection's, all the same.
    assert_eq!(core.request("tasks/list", json!({}))["result"]["tasks"], json!([]));
    stage.close();
}
