//! Tests of HTTP tools with servers on sockets.

mod arguments;

mod declarations;

mod faults;

mod results;

mod tls;

use std::time::Duration;

use serde_json::Value;

use super::test_server::{Reply, TestServer};
use super::{HttpClient, HttpDeclaration, HttpTool};
use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::room::{CallRoom, OutputRoom};

/// Limits of most tests: none of them is reached.
fn limits() -> CallLimits {
    CallLimits { timeout: Duration::from_mins(10), output_bytes_max: 1 << 20 }
}

/// A tool whose declaration in TOML may connect to the test server; `ORIGIN` stands for its origin.
fn tool(server: &TestServer, declaration: &str) -> HttpTool {
    tool_with(server, declaration, limits())
}

fn tool_with(server: &TestServer, declaration: &str, limits: CallLimits) -> HttpTool {
    let declaration = declaration.replace("ORIGIN", &server.origin());
    // Tables follow the keys of the declaration.
    let declaration = format!("private_addresses = [\"127.0.0.1\"]\n{declaration}");
    let declaration: HttpDeclaration = toml::from_str(&declaration).unwrap();
    HttpTool::new(&declaration, &mut HttpClient::new(), limits).unwrap()
}

fn problems(declaration: &str) -> Vec<Problem> {
    let declaration: HttpDeclaration = toml::from_str(declaration).unwrap();
    let result = HttpTool::new(&declaration, &mut HttpClient::new(), limits());
    result.map(|_| ()).err().unwrap_or_default()
}

fn arguments(arguments: &Value) -> Call {
    Call { arguments: arguments.as_object().unwrap().clone(), ..Call::default() }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

fn call(tool: &HttpTool, values: &Value) -> Result<Output, Failure> {
    call_within(tool, values, 1 << 20)
}

/// A call whose output has at most `bytes_max` bytes.
fn call_within(tool: &HttpTool, values: &Value, bytes_max: usize) -> Result<Output, Failure> {
    block_on(run(tool, arguments(values), bytes_max))
}

async fn run(tool: &HttpTool, call: Call, bytes_max: usize) -> Result<Output, Failure> {
    let room = OutputRoom::default();
    tool.call(call, &CallRoom::new(&room, bytes_max)).await
}

/// The text of a failed call.
fn failed(tool: &HttpTool, values: &Value) -> String {
    match call(tool, values) {
        Err(Failure::Failed(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// The text of a call with an invalid argument.
fn invalid(tool: &HttpTool, values: &Value) -> String {
    match call(tool, values) {
        Err(Failure::InvalidArgument(text)) => text,
        other => panic!("{other:?}"),
    }
}
