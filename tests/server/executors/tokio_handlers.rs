//! Handlers on a tokio runtime of the host program.

use std::sync::mpsc;
use std::time::Duration;

use corelane::model::{ElicitRequest, Field, Form, Implementation};
use corelane::{Catalog, NoArguments, Running, Server, StartError, Tool};
use corelane_test_support::messages::{
    call, cancelled, initialize_with_elicitation, modern, notification, result_text, with_progress,
};
use corelane_test_support::{LineClient, tcp_options};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A runtime on one thread of its own.
fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_time().build().expect("a runtime")
}

fn catalog(tool: Tool) -> Catalog {
    Catalog::builder(Implementation::new("tokio", "1"))
        .tool(tool)
        .build()
        .expect("the catalog is valid")
}

fn start(tool: Tool, runtime: &Runtime) -> (Running, LineClient) {
    let server = Server::builder(catalog(tool)).tokio(runtime.handle().clone());
    let running = server.options(tcp_options()).start().expect("the server starts");
    let client = LineClient::connect(running.addresses()[0].1);
    (running, client)
}

fn stop(running: Running) {
    running.handle().drain();
    running.join().expect("no shard fails");
}

#[test]
fn tokio_handler_awaits_timers_and_sends_progress() {
    let tool = Tool::new("nap").tokio(|_: NoArguments, ctx| async move {
        for step in 1..=3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            ctx.progress(step.into(), Some(3.0), None);
        }
        format!("{} {}", ctx.request().name(), ctx.request().id())
    });
    let runtime = runtime();
    let (running, mut client) = start(tool, &runtime);
    client.send(with_progress(modern(call(1, "nap", json!({})))));
    for step in 1..=3 {
        assert_eq!(client.receive()["params"]["progress"], step);
    }
    assert_eq!(result_text(&client.receive()), "nap 1");
    drop(client);
    stop(running);
}

#[test]
fn tokio_handler_streams_partial_results() {
    let tool = Tool::new("rows").tokio(|_: NoArguments, ctx| async move {
        assert!(ctx.request().is_streamed());
        ctx.partial_result([1, 2]);
        "[1,2,3]"
    });
    let runtime = runtime();
    let (running, mut client) = start(tool, &runtime);
    // Messages of the parity dialect.
    let capabilities = json!({"tools": true, "streaming": true});
    client.send(json!({
        "type": "handshake", "protocolVersion": "1.0", "capabilities": capabilities,
    }));
    client.send(json!({
        "type": "request", "id": 1, "method": "tools/call", "params": {"name": "rows"},
        "stream": true,
    }));
    let lines: Vec<Value> = std::iter::from_fn(|| client.receive_line())
        .take(4)
        .map(|line| serde_json::from_str(&line).expect("JSON"))
        .collect();
    assert_eq!(lines[1]["type"], "response");
    assert_eq!((&lines[2]["chunkType"], &lines[2]["data"]), (&json!("partial"), &json!([1, 2])));
    assert_eq!(lines[3]["data"]["content"][0]["text"], "[1,2,3]");
    drop(client);
    stop(running);
}

#[test]
fn tokio_handler_requests_input() {
    let tool = Tool::new("order").tokio(|_: NoArguments, ctx| async move {
        let form = Form::new().field(Field::text("dish").required());
        let result = ctx.elicit("dish", ElicitRequest::form("Which dish?", form)).await?;
        Ok(format!("{}", result.content["dish"]))
    });
    let runtime = runtime();
    let (running, mut client) = start(tool, &runtime);
    client.exchange(initialize_with_elicitation(0, "2025-11-25"));
    client.send(notification("notifications/initialized"));
    client.send(call(1, "order", json!({})));
    let request = client.receive();
    assert_eq!(request["method"], "elicitation/create", "{request}");
    let result = json!({ "action": "accept", "content": { "dish": "soup" } });
    client.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    assert_eq!(result_text(&client.receive()), "\"soup\"");
    drop(client);
    stop(running);
}

/// Sends a message when it is dropped.
struct DropSignal(mpsc::Sender<()>);

impl Drop for DropSignal {
    fn drop(&mut self) {
        self.0.send(()).unwrap_or_default();
    }
}

#[test]
fn cancelled_call_drops_the_tokio_future() {
    let (started_tx, started) = mpsc::channel();
    let (dropped_tx, dropped) = mpsc::channel();
    let tool = Tool::new("wait").tokio(move |_: NoArguments, _| {
        let (started, signal) = (started_tx.clone(), DropSignal(dropped_tx.clone()));
        async move {
            let _signal = signal;
            started.send(()).unwrap_or_default();
            std::future::pending::<()>().await;
        }
    });
    let runtime = runtime();
    let (running, mut client) = start(tool, &runtime);
    client.send(modern(call(1, "wait", json!({}))));
    started.recv_timeout(corelane_test_support::TIMEOUT).unwrap();
    client.send(cancelled(1));
    dropped.recv_timeout(corelane_test_support::TIMEOUT).unwrap();
    client.ping();
    drop(client);
    stop(running);
}

#[test]
fn tokio_timer_in_local_handler_names_the_kind() {
    let tool = Tool::new("nap").local(|_: NoArguments, _| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
    });
    let runtime = runtime();
    let (running, mut client) = start(tool, &runtime);
    let error = &client.exchange(modern(call(1, "nap", json!({}))))["error"];
    assert_eq!(error["code"], -32603, "{error}");
    assert!(error["message"].as_str().unwrap().contains("`tokio`"), "{error}");
    drop(client);
    stop(running);
}

#[test]
fn progress_flood_of_tokio_handler_is_bounded() {
    const STEPS: u32 = 100_000;
    let tool = Tool::new("flood").tokio(|_: NoArguments, ctx| async move {
        // Never awaits: the shard may read in between or not.
        for step in 1..=STEPS {
            ctx.progress(step.into(), None, None);
        }
        "done"
    });
    let runtime = runtime();
    let (running, mut client) = start(tool, &runtime);
    client.send(with_progress(modern(call(1, "flood", json!({})))));
    let mut last = 0.0;
    let response = loop {
        let message = client.receive();
        let Some(progress) = message["params"]["progress"].as_f64() else { break message };
        assert!(progress > last, "{message}");
        last = progress;
    };
    assert_eq!(result_text(&response), "done");
    drop(client);
    stop(running);
}

#[test]
fn tokio_panic_is_an_internal_error() {
    let tool = Tool::new("panic").tokio(|_: NoArguments, _| async {
        assert!(tokio::runtime::Handle::try_current().is_err(), "on purpose");
    });
    let runtime = runtime();
    let (running, mut client) = start(tool, &runtime);
    let error = &client.exchange(modern(call(1, "panic", json!({}))))["error"];
    assert_eq!(error["code"], -32603, "{error}");
    assert!(!error.to_string().contains("purpose"), "{error}");
    drop(client);
    stop(running);
}

#[test]
fn tokio_tool_without_runtime_fails_the_start() {
    let tool = || Tool::new("nap").tokio(|_: NoArguments, _| async {});
    let error = Server::builder(catalog(tool())).options(tcp_options()).start().unwrap_err();
    assert!(matches!(error, StartError::Catalog(_)), "{error}");
    assert!(error.to_string().contains("`nap`"), "{error}");
    let runtime = runtime();
    let _entered = runtime.enter();
    stop(Server::builder(catalog(tool())).options(tcp_options()).start().unwrap());
}
