//! Overload protection over every transport: status, header and body of each refusal.

mod breaker;
mod memory;
mod queue_delay;
mod running_calls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corelane::model::Implementation;
use corelane::options::OverloadOptions;
use corelane::{Catalog, HandlerError, NoArguments, Options, Tool};
use corelane_test_support::messages::{call, modern};
use corelane_test_support::{Request, TestServer, http_and_tcp_options};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Arguments that take memory.
#[derive(Deserialize, JsonSchema)]
struct Padding {
    #[serde(default)]
    padding: String,
}

/// Whether the tool `fragile` fails.
#[derive(Clone, Default)]
struct Failure(Arc<AtomicBool>);

impl Failure {
    fn set(&self, fails: bool) {
        self.0.store(fails, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Options of a server with one shard on free ports, over HTTP and TCP.
fn options(overload: OverloadOptions) -> Options {
    let mut options = http_and_tcp_options();
    options.engine.shards = Some(1);
    options.overload = overload;
    options
}

/// A server with tools that fail while `failure` is set, and tools that wait at the gate.
fn start(overload: OverloadOptions, failure: &Failure) -> TestServer {
    start_with(options(overload), failure)
}

fn start_with(options: Options, failure: &Failure) -> TestServer {
    TestServer::with_gate(options, |gate| {
        let builder = Catalog::builder(Implementation::new("test", "1.0.0"));
        let inline = failure.clone();
        let fragile = Tool::new("fragile")
            .inline(move |_: NoArguments, _| if inline.get() { Err(broken()) } else { Ok("fine") });
        let deferred = failure.clone();
        let panicky = Tool::new("panicky").local(move |_: NoArguments, _| {
            let fails = deferred.get();
            async move {
                assert!(!fails, "on purpose");
                "fine"
            }
        });
        let answer = failure.clone();
        let negative = Tool::new("negative").inline(move |_: NoArguments, _| {
            if answer.get() { Err(HandlerError::tool("no such order")) } else { Ok("fine") }
        });
        let gates = ["gated", "other"].map(|name| {
            let (gate, failure) = (gate.clone(), failure.clone());
            Tool::new(name).local(move |arguments: Padding, ctx| {
                let (gate, failure) = (gate.clone(), failure.clone());
                async move {
                    gate.signal(name);
                    gate.wait(&ctx).await?;
                    drop(arguments.padding);
                    if failure.get() { Err(broken()) } else { Ok("waited") }
                }
            })
        });
        let stubborn_gate = gate.clone();
        let stubborn = Tool::new("stubborn").blocking(move |_: NoArguments, _| {
            stubborn_gate.signal("stubborn");
            stubborn_gate.block_shard();
            "waited"
        });
        let tools = [fragile, panicky, negative, stubborn];
        builder.tools(tools).tools(gates).build().expect("a valid catalog")
    })
}

/// An internal error of a handler.
fn broken() -> HandlerError {
    std::io::Error::other("broken").into()
}

/// A modern call of a tool without arguments, over HTTP.
fn post(id: u32, tool: &str) -> Request {
    Request::modern(&modern(call(id, tool, json!({}))))
}

/// Returns the error of a refused call, without its message, which must not be empty.
fn error_of(response: &Value) -> Value {
    let mut error = response["error"].clone();
    let message = error["message"].take();
    assert!(message.as_str().is_some_and(|text| !text.is_empty()), "{response}");
    error
}

/// Asserts a line of the metrics.
#[track_caller]
fn assert_metric(server: &TestServer, line: &str) {
    let response = server.connect_http().exchange(&Request::new("GET", "/metrics"));
    let text = String::from_utf8(response.body).expect("text");
    assert!(text.lines().any(|it| it == line), "{line}\n{text}");
}
