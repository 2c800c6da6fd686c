//! Results of blocking handlers that their shard does not take, under `memory_bytes_max`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use corelane::internal::demo;
use corelane::{
    BlockingContext, CallToolResult, Catalog, HandlerError, NoArguments, TaskSupport, Tool,
};
use corelane_protocol::model::Implementation;
use corelane_test_support::messages::{call, echo, modern, request};
use corelane_test_support::server::Gate;
use corelane_test_support::{LineClient, TestServer, over_each_ring};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::abuse::honest_clients::{HonestClients, all_transports};
use crate::abuse::open_requests::with_tasks;

const LIMIT_BYTES: usize = 16 << 20;

/// What results may take before they are written: an eighth of the limit.
const RESULTS_BYTES: usize = LIMIT_BYTES / 8;

/// Two such results fit with little to spare: as base64, in which large ones wait for their shard.
const LARGE_BYTES: usize = RESULTS_BYTES / 2 / 4 * 3 - 4096;

/// Does not fit besides two large results, but is less than the share of a connection.
const SHARE_BYTES: usize = 20 << 10;

#[derive(Deserialize, JsonSchema)]
struct Size {
    bytes: usize,
}

/// The bytes of all results that exist, now and at most.
#[derive(Debug, Default)]
struct ResultBytes {
    now: AtomicUsize,
    max: AtomicUsize,
}

/// The content of a result.
struct Content {
    data: Vec<u8>,
    total: Arc<ResultBytes>,
}

impl Content {
    fn new(bytes: usize, total: &Arc<ResultBytes>) -> Self {
        let now = total.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        total.max.fetch_max(now, Ordering::Relaxed);
        Self { data: vec![0; bytes], total: Arc::clone(total) }
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.total.now.fetch_sub(self.data.len(), Ordering::Relaxed);
    }
}

/// The demo tools, `block`, which blocks the shard until the gate opens, and `image`, which waits
/// on a thread until the shard is blocked, signals that, and returns an image.
fn catalog(gate: &Gate, total: &Arc<ResultBytes>) -> Catalog {
    let is_blocked = Arc::new(AtomicBool::new(false));
    let (blocked, opened) = (Arc::clone(&is_blocked), gate.clone());
    let block = Tool::new("block").inline_writer(move |_: NoArguments, out, _| {
        blocked.store(true, Ordering::Relaxed);
        opened.block_shard();
        out.text("unblocked");
        Ok(())
    });
    let (gate, total) = (gate.clone(), Arc::clone(total));
    let image = move |Size { bytes }: Size, ctx: BlockingContext| {
        while !is_blocked.load(Ordering::Relaxed) {
            ctx.check_cancelled()?;
            thread::yield_now();
        }
        gate.signal("image");
        let content = Bytes::from_owner(Content::new(bytes, &total));
        Ok::<_, HandlerError>(CallToolResult::default().with_image(content, "image/png"))
    };
    let image = Tool::new("image").task_support(TaskSupport::Optional).blocking(image);
    let builder = demo::add_services(Catalog::builder(Implementation::new("abuse", "1.0.0")));
    builder.tools([block, image]).build().expect("valid catalog")
}

fn image(id: i64, bytes: usize) -> Value {
    call(id, "image", json!({ "bytes": bytes }))
}

fn expect_image(response: &Value, bytes: usize) {
    let data = response["result"]["content"][0]["data"].as_str();
    assert_eq!(data.map(str::len), Some(bytes.div_ceil(3) * 4), "{:.200}", response.to_string());
}

/// Waits until the server has read all messages of a modern client.
fn wait_until_read(client: &mut LineClient) {
    assert_eq!(client.exchange(modern(echo(100, "read")))["id"], 100);
}

#[test]
fn blocking_handlers_wait_for_room_for_results() {
    over_each_ring(all_transports(), |mut options| {
        options.limits.memory_bytes_max = LIMIT_BYTES;
        options.engine.blocking_threads = 1;
        let total = Arc::<ResultBytes>::default();
        let server = TestServer::with_gate(options, |gate| catalog(gate, &total));
        let mut honest = HonestClients::connect(&server);
        // The thread serves them in turns.
        let [mut greedy, mut other, mut blocking] = [(); 3].map(|()| server.connect_tcp());
        for id in 1..=5 {
            greedy.send(modern(image(id, LARGE_BYTES)));
        }
        let created = greedy.exchange(with_tasks(image(6, LARGE_BYTES)));
        let task = json!({"taskId": created["result"]["taskId"]});
        wait_until_read(&mut greedy);
        let sizes = [1, 1, 1, SHARE_BYTES, 1];
        for (id, bytes) in (1..).zip(sizes) {
            other.send(modern(image(id, bytes)));
        }
        wait_until_read(&mut other);
        honest.call_all();
        blocking.send(modern(call(1, "block", json!({}))));
        // From the first result on, room for one as large is reserved: after the second large one
        // no other handler starts. A small one may come before it.
        for _ in 0..2 {
            assert_eq!(server.next_signal(), "image");
        }
        let max = total.max.load(Ordering::Relaxed);
        assert!(max <= RESULTS_BYTES, "{max}");
        server.open_gate();
        for _ in 0..5 {
            expect_image(&greedy.receive(), LARGE_BYTES);
        }
        for bytes in sizes {
            expect_image(&other.receive(), bytes);
        }
        for _ in 2..6 + sizes.len() {
            assert_eq!(server.next_signal(), "image");
        }
        let result = greedy.exchange(with_tasks(request(9, "tasks/get", task)));
        assert_ne!(result["result"]["status"], "failed", "{result}");
        blocking.receive();
        honest.call_all();
        let max = total.max.load(Ordering::Relaxed);
        assert!(max <= 3 * LARGE_BYTES + SHARE_BYTES + 4, "{max}");
        drop((honest, greedy, other, blocking));
        let counters = server.close();
        assert_eq!(counters.requests.refused_memory, 0, "{counters}");
        assert_eq!(counters.input_errors.memory, 0, "{counters}");
    });
}
