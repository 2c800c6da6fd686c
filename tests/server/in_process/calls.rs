//! Tool calls of the client for tests: results, errors, progress, cancellation.

use corelane::model::Revision;
use corelane::testing::{TestError, TestServer, block_on};
use corelane::{HandlerError, NoArguments, Structured, Tool};
use corelane_test_support::TIMEOUT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::in_process::tools::{add_up, builder, busy, greet, nap, server, sleeper};

#[test]
fn call_returns_result_of_every_revision() {
    for revision in Revision::ALL {
        let server = server(greet()).revision(revision);
        let result = block_on(server.call_tool("greet", json!({ "name": "Ada" })));
        let result = result.expect("a result");
        assert_eq!((result.text().as_str(), result.is_error()), ("Hello, Ada!", false));
        assert_eq!(result.content().len(), 1);
    }
}

#[test]
fn progress_and_log_belong_to_call() {
    for revision in Revision::ALL {
        let server = server(nap()).revision(revision);
        let result = block_on(server.call_tool("nap", json!({}))).expect("a result");
        let progress: Vec<_> = result.progress().iter().map(|it| it["progress"].clone()).collect();
        assert_eq!(progress, [1, 2], "{revision}");
        let logged = result.log_messages();
        assert_eq!((logged.len(), &logged[0]["data"]["steps"]), (1, &json!(2)), "{revision}");
        assert!(server.take_notifications().is_empty(), "{revision}");
    }
}

#[test]
fn structured_result_is_read_as_type() {
    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    struct Sum {
        sum: i64,
    }
    let server = server(Tool::new("sum").inline(|_: NoArguments, _| Structured(Sum { sum: 3 })));
    let result = block_on(server.call_tool("sum", json!({}))).expect("a result");
    assert_eq!(result.structured::<Sum>().expect("a sum"), Sum { sum: 3 });
    assert_eq!(result.structured_content(), Some(&json!({ "sum": 3 })));
    assert!(result.structured::<String>().is_err());
}

#[test]
fn errors_keep_the_texts_of_clients() {
    let failing = Tool::new("fail").inline(|_: NoArguments, _| {
        Err::<(), HandlerError>(std::io::Error::other("disk on fire").into())
    });
    let catalog = builder().tool(greet()).tool(add_up()).tool(failing).build();
    let server = TestServer::new(catalog.expect("the catalog is valid")).expect("it starts");
    let text = |name, arguments| {
        let result = block_on(server.call_tool(name, arguments)).expect("a result");
        assert!(result.is_error());
        result.text()
    };
    let invalid = text("greet", json!({ "name": 1 }));
    assert!(invalid.contains("`name` must be a string, received number 1"), "{invalid}");
    assert_eq!(text("add_up", json!({ "name": "" })), "the name is empty: pass one");
    assert_eq!(text("fail", json!({})), "tool failed (request 1): disk on fire");
    let error = block_on(server.call_tool("wave", json!({}))).expect_err("it is unknown");
    assert_eq!(error.code(), Some(-32602));
    assert!(error.to_string().contains("wave"), "{error}");
    let error = block_on(server.request("tools/wave", json!({}))).expect_err("it is unknown");
    assert_eq!(error.code(), Some(-32601));
}

#[test]
fn cancelled_call_is_observed_by_handler() {
    for revision in [Revision::LATEST, Revision::LATEST_LEGACY] {
        let (tool, ends) = sleeper();
        let server = server(tool).revision(revision);
        server.call("sleeper").start().cancel();
        assert_eq!(ends.try_recv(), Ok(true));
        drop(server.call("sleeper").start());
        assert_eq!(ends.try_recv(), Ok(true), "a dropped call is cancelled");
    }
}

#[test]
fn cancelled_blocking_call_is_observed() {
    let (tool, starts, ends) = busy();
    let server = server(tool);
    let call = server.call("busy").start();
    starts.recv_timeout(TIMEOUT).expect("the handler starts");
    call.cancel();
    ends.recv_timeout(TIMEOUT).expect("the handler is cancelled");
}

#[test]
fn calls_in_flight_end_in_any_order() {
    let catalog = builder().tool(greet()).tool(nap()).tool(add_up()).build();
    let server = TestServer::new(catalog.expect("the catalog is valid")).expect("it starts");
    let slow = server.call("nap").start();
    let pool = server.call("add_up").arguments(json!({ "name": "Ada" })).start();
    let fast = server.call("greet").arguments(json!({ "name": "Ada" })).start();
    assert_eq!(block_on(fast).expect("a result").text(), "Hello, Ada!");
    assert_eq!(block_on(slow).expect("a result").text(), "awake");
    let result = block_on(pool).expect("a result");
    assert_eq!((result.text().as_str(), result.progress().len()), ("3 bytes", 1));
}

#[test]
fn calls_of_two_tasks_wake_each_other() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let tasks = tokio::task::LocalSet::new();
    let results = tasks.block_on(&runtime, async {
        let server = std::rc::Rc::new(server(nap()));
        let spawn = || {
            let server = std::rc::Rc::clone(&server);
            tokio::task::spawn_local(async move { server.call("nap").await })
        };
        let tasks: Vec<_> = (0..5).map(|_| spawn()).collect();
        tasks[4].abort();
        let mut results = Vec::new();
        for task in tasks.into_iter().take(4) {
            results.push(task.await.expect("no panic").expect("a result").text());
        }
        results
    });
    assert_eq!(results, ["awake"; 4]);
}

#[test]
fn call_after_drain_is_an_error() {
    let server = server(greet());
    server.handle().drain();
    assert!(server.take_notifications().is_empty());
    let ended = block_on(server.call_tool("greet", json!({ "name": "Ada" })));
    assert_eq!(ended, Err(TestError::Ended));
}
