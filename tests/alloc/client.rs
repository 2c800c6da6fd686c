//! A warm call of the client over TCP allocates what its result needs, and nothing else, on the
//! thread of its caller and on the I/O thread, which reads the result, together.
//!
//! Only allocations of the thread that is measured count. The server runs on its own threads.

use corelane::client::{CallToolResult, ClientError, IoThread, block_on};
use corelane::model::Implementation;
use corelane::{Catalog, Client, Options, Running, Server, Tool};
use corelane_test_support::alloc_counter::{allocations, count_allocations};
use serde_json::{Value, json};

/// Calls of a measurement.
const CALLS: usize = 1_000;
/// Measurements, at most. Buffers grow to the size of the messages at first use; a path that
/// allocates for every call, or for one in a hundred, fails every measurement.
const MEASUREMENTS_MAX: usize = 20;
/// Allocations of the two tasks that read the counter of the I/O thread.
const TASK_ALLOCATIONS_MAX: usize = CALLS / 50;

fn start_server() -> Running {
    let echo = Tool::new("echo").inline(|arguments: Echo, _| arguments.message);
    let catalog =
        Catalog::builder(Implementation::new("alloc", "1")).tool(echo).build().expect("a catalog");
    let mut options = Options::default();
    options.http.address = None;
    options.engine.shards = Some(1);
    Server::builder(catalog).options(options).tcp("127.0.0.1:0").start().expect("a server")
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

fn connect(server: &Running, thread: &IoThread) -> Client {
    let target = format!("tcp://{}", server.tcp_address().expect("a listener"));
    Client::builder(target.as_str()).io_thread(thread).connect_blocking().expect("a connection")
}

fn arguments() -> Value {
    json!({ "message": "0123456789abcdef0123456789abcdef" })
}

/// Returns the allocations of the result of one call, without `_meta`: that of the result before is
/// the same and is used again.
fn needed() -> usize {
    let content = json!([{ "type": "text", "text": arguments()["message"] }]);
    let text = json!({ "content": content }).to_string();
    count_allocations(|| drop(serde_json::from_str::<CallToolResult>(&text).expect("a result")))
}

/// Makes the calls of a measurement, one after the other. Returns the allocations of this thread.
async fn call(client: &Client) -> Result<usize, ClientError> {
    let arguments = arguments();
    let before = allocations();
    for _ in 0..CALLS {
        client.call_tool("echo", &arguments).await?;
    }
    Ok(allocations() - before)
}

#[test]
fn warm_call_allocates_only_its_result() {
    let (server, thread) = (start_server(), IoThread::start().unwrap());
    let client = connect(&server, &thread);
    let of_io_thread = || block_on(thread.spawn(async || allocations()).unwrap()).unwrap();
    let mut fewest = usize::MAX;
    for _ in 0..MEASUREMENTS_MAX {
        let before = of_io_thread();
        let of_caller = block_on(call(&client)).unwrap();
        fewest = fewest.min(of_caller + of_io_thread() - before);
    }
    assert!(fewest <= CALLS * needed() + TASK_ALLOCATIONS_MAX, "{fewest}");
}

#[test]
fn call_on_io_thread_allocates_only_its_result() {
    let (server, thread) = (start_server(), IoThread::start().unwrap());
    let client = connect(&server, &thread);
    let mut fewest = usize::MAX;
    for _ in 0..MEASUREMENTS_MAX {
        let client = client.clone();
        let task = thread.spawn(async move || call(&client).await).unwrap();
        fewest = fewest.min(block_on(task).unwrap().unwrap());
    }
    assert!(fewest <= CALLS * needed(), "{fewest}");
}
