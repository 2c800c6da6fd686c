//! The end of an in-process server, and its use on a tokio runtime.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use corelane::testing::{TestServer, block_on};
use corelane::{NoArguments, Server, Tool};
use corelane_test_support::TIMEOUT;
use corelane_test_support::messages::{call, initialize, modern, notification};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::in_process::tools::{busy, catalog, greet, nap, server, sleeper};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

#[test]
fn dropped_connection_cancels_local_handler() {
    let (tool, ends) = sleeper();
    let mut connection = Server::builder(catalog(tool)).connect().expect("the server starts");
    connection.send(modern(call(1, "sleeper", json!({}))).to_string());
    assert_eq!(connection.try_receive(), None);
    drop(connection);
    assert_eq!(ends.try_recv(), Ok(true));
}

#[test]
fn dropped_connection_cancels_blocking_handler() {
    let (tool, starts, ends) = busy();
    let mut connection = Server::builder(catalog(tool)).connect().expect("the server starts");
    connection.send(modern(call(1, "busy", json!({}))).to_string());
    starts.recv_timeout(TIMEOUT).expect("the handler starts");
    drop(connection);
    ends.recv_timeout(TIMEOUT).expect("the handler is cancelled");
}

#[test]
fn drained_server_ends_its_connection() {
    let mut connection = Server::builder(catalog(greet())).connect().expect("the server starts");
    connection.handle().drain();
    assert_eq!(block_on(connection.receive()), None);
    assert!(connection.has_ended());
    connection.send("{}");
    assert_eq!(connection.try_receive(), None);
}

#[test]
fn catalog_update_is_offered_and_announced() {
    let mut connection = Server::builder(catalog(greet())).connect().expect("the server starts");
    connection.send(initialize(0, "2025-11-25").to_string());
    assert!(connection.try_receive().is_some());
    connection.send(notification("notifications/initialized").to_string());
    let handle = connection.handle();
    handle.update_catalog(|catalog| catalog.tool(nap())).expect("the catalog is valid");
    let message = block_on(connection.receive()).expect("a notification");
    let message: serde_json::Value = serde_json::from_slice(message).expect("JSON");
    assert_eq!(message["method"], "notifications/tools/list_changed");
}

#[test]
fn guard_of_start_callback_outlives_server() {
    struct Guard(mpsc::Sender<&'static str>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.send("guard").expect("the test receives");
        }
    }
    struct State(mpsc::Sender<&'static str>);
    impl Drop for State {
        fn drop(&mut self) {
            self.0.send("state").expect("the test receives");
        }
    }
    let (sender, dropped) = mpsc::channel();
    let of_guard = sender.clone();
    let server = Server::with_state(catalog(greet()), move |_| State(sender.clone()));
    let connection = server.on_start(move |_| Guard(of_guard)).connect();
    drop(connection.expect("the server starts"));
    assert_eq!(dropped.try_iter().collect::<Vec<_>>(), ["state", "guard"]);
}

#[test]
fn every_handler_kind_runs_on_current_thread_runtime() {
    runtime().block_on(async {
        let tool = Tool::new("tokio").tokio(|_: NoArguments, ctx| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            ctx.progress(1.0, None, None);
            "from tokio"
        });
        let result = server(tool).call_tool("tokio", json!({})).await.expect("a result");
        assert_eq!((result.text().as_str(), result.progress().len()), ("from tokio", 1));
        let result = server(nap()).call_tool("nap", json!({})).await.expect("a result");
        assert_eq!(result.text(), "awake");
    });
}

#[test]
fn tokio_handler_without_runtime_fails_start() {
    let tool = Tool::new("tokio").tokio(|_: NoArguments, _| async { "never" });
    let error = TestServer::new(catalog(tool)).expect_err("there is no runtime");
    assert!(error.to_string().contains("needs a tokio runtime"), "{error}");
}

#[test]
fn serve_refuses_tokio_handler_on_blocked_runtime() {
    let tool = || Tool::new("tokio").tokio(|_: NoArguments, _| async { "never" });
    runtime().block_on(async {
        for serve in [Server::serve, Server::stdio] {
            let error = serve(Server::builder(catalog(tool()))).expect_err("it would hang");
            assert!(error.to_string().contains("start_stdio"), "{error}");
        }
    });
}

#[test]
fn task_of_same_thread_wakes_local_handler() {
    let notify = Arc::new(Notify::new());
    let of_tool = Arc::clone(&notify);
    let tool = Tool::new("wait").local(move |_: NoArguments, _| {
        let notify = Arc::clone(&of_tool);
        async move {
            notify.notified().await;
            "woken"
        }
    });
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime(), async {
        let waits = tokio::task::spawn_local(async move {
            let server = server(tool);
            server.call_tool("wait", json!({})).await.expect("a result").text()
        });
        tokio::task::yield_now().await;
        notify.notify_waiters();
        assert_eq!(waits.await.expect("no panic"), "woken");
    });
}
