//! Clients that do not read: the handlers of their streams pause, and nothing is lost.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use corelane::model::{Implementation, LoggingLevel};
use corelane::{CallToolResult, Catalog, NoArguments, Options, RequestContext, Tool};
use corelane_test_support::websocket::{WebSocketClient, text_frame};
use corelane_test_support::{LineClient, TestServer};
use serde_json::{Value, json};

use crate::client::{ParityClient, call, handshake, resuming, streamed};
use crate::http::{Session, on_shards};
use crate::options;

/// Chunks of a stream.
const STEPS: u64 = 2_000;
/// Bytes of the message in each of them: together more than socket buffers take.
const MESSAGE_BYTES: usize = 4_096;
/// Buffers of the socket of a client.
const BUFFER_BYTES: usize = 16 << 10;

/// A server whose tool `flood` emits progress and log messages in turn, one in each poll, and
/// counts them.
fn start(options: Options) -> (TestServer, Arc<AtomicU64>) {
    let emitted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&emitted);
    let flood = Tool::new("flood").local(move |_: NoArguments, ctx: RequestContext| {
        let counter = Arc::clone(&counter);
        async move {
            let (text, mut done) = ("x".repeat(MESSAGE_BYTES), 0.0);
            for step in 0..STEPS {
                done += 1.0;
                if step % 2 == 0 {
                    ctx.progress(done, None, Some(&text));
                } else {
                    ctx.log(LoggingLevel::Warning, None, json!(text));
                }
                counter.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
            Ok(CallToolResult::text("done"))
        }
    });
    // All in one poll.
    let burst = Tool::new("burst").local(|_: NoArguments, ctx: RequestContext| async move {
        let (text, mut done) = ("x".repeat(MESSAGE_BYTES), 0.0);
        for _ in 0..STEPS {
            done += 1.0;
            ctx.progress(done, None, Some(&text));
        }
        Ok(CallToolResult::text("done"))
    });
    let catalog = Catalog::builder(Implementation::new("test", "1")).tools([flood, burst]).build();
    (TestServer::with_catalog(options, catalog.expect("valid")), emitted)
}

/// Connects over TCP, with small buffers.
fn connect(server: &TestServer) -> ParityClient {
    ParityClient::new(LineClient::connect_with_buffers(server.tcp(), BUFFER_BYTES))
}

/// Connects and makes the handshake.
fn ready(server: &TestServer) -> ParityClient {
    let mut client = connect(server);
    client.exchange(&handshake());
    client
}

/// Resolves at the second poll.
async fn yield_now() {
    let mut is_second = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_second, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Checks that a chunk of `flood` is the next one. Returns whether it is the last.
#[track_caller]
fn check(chunk: &Value, seq: u64) -> bool {
    assert_eq!(chunk["seq"], seq, "{}", chunk["chunkType"]);
    let expected = match seq {
        _ if seq > STEPS + 1 => "eos",
        _ if seq > STEPS => "result",
        _ if seq % 2 == 1 => "progress",
        _ => "log",
    };
    assert_eq!(chunk["chunkType"], expected, "{seq}");
    expected == "eos"
}

#[test]
fn handler_pauses_until_its_client_reads() {
    let (server, emitted) = start(options());
    let mut slow = ready(&server);
    let stream = slow.open_stream(call(1, "flood", json!({})));
    // Other clients are served meanwhile.
    ParityClient::ready(&server).ping();
    let mut seq = 1;
    loop {
        let chunk = slow.receive();
        assert_eq!(chunk["streamId"], stream);
        if seq == 1 {
            assert!(emitted.load(Ordering::Relaxed) < STEPS, "the handler has not paused");
        }
        if check(&chunk, seq) {
            break;
        }
        seq += 1;
    }
    slow.ping();
    drop(slow);
    server.close();
}

#[test]
fn paused_stream_is_cancelled() {
    let (server, _) = start(options());
    let mut slow = ready(&server);
    let stream = slow.open_stream(call(1, "flood", json!({})));
    slow.send(&json!({"type": "cancel", "streamId": stream}));
    let last = loop {
        let chunk = slow.receive();
        if chunk["chunkType"] == "eos" {
            break chunk;
        }
    };
    assert_eq!(last["reason"], "cancelled");
    assert!(last["seq"].as_u64().is_some_and(|seq| seq < STEPS), "{last}");
    slow.ping();
    drop(slow);
    server.close();
}

#[test]
fn streams_of_one_client_pause_in_order() {
    let (server, _) = start(options());
    let mut slow = ready(&server);
    for id in 0..2 {
        slow.send(&streamed(call(id, "flood", json!({}))));
    }
    let mut next = [1, 1];
    let mut ended = 0;
    while ended < next.len() {
        let message = slow.receive();
        if message["type"] == "response" {
            continue;
        }
        let index = usize::from(message["streamId"] != "s1");
        ended += usize::from(check(&message, next[index]));
        next[index] += 1;
    }
    drop(slow);
    server.close();
}

#[test]
fn detached_stream_pauses_at_its_window() {
    let (server, emitted) = start(options());
    let mut client = connect(&server);
    let ack = client.exchange(&handshake());
    let stream = client.open_stream(call(1, "flood", json!({})));
    let mut seq = 1;
    check(&client.receive(), seq);
    client.lines.reset();
    server.wait_for_connections(0);
    assert!(emitted.load(Ordering::Relaxed) < STEPS);
    let mut client = connect(&server);
    let resumed = client.exchange(&resuming(&ack, json!({ &*stream: 1 })));
    if resumed["resumed"] == true {
        loop {
            seq += 1;
            if check(&client.receive(), seq) {
                break;
            }
        }
    } else {
        // More was sent to the lost connection than the window keeps.
        assert_eq!(resumed["reason"], "stale_window");
    }
    drop(client);
    server.close();
}

#[test]
fn remote_client_pauses_its_stream() {
    let (server, emitted) = start(on_shards(2));
    let mut ack = ParityClient::connect(&server).exchange(&handshake());
    for _ in 0..3 {
        let mut client = connect(&server);
        ack = client.exchange(&resuming(&ack, json!({})));
        assert_eq!(ack["resumed"], true, "{ack}");
        let before = emitted.load(Ordering::Relaxed);
        let stream = client.open_stream(call(1, "flood", json!({})));
        let mut seq = 1;
        loop {
            let chunk = client.receive();
            assert_eq!(chunk["streamId"], stream);
            if seq == 1 {
                assert!(emitted.load(Ordering::Relaxed) < before + STEPS, "not paused");
            }
            if check(&chunk, seq) {
                break;
            }
            seq += 1;
        }
    }
    server.close();
}

#[test]
fn websocket_reader_loses_nothing() {
    let (server, _) = start(options());
    let mut client = WebSocketClient::connect(server.http());
    for message in [handshake(), streamed(call(1, "flood", json!({})))] {
        client.send_bytes(&text_frame(&message));
        client.read_text();
    }
    let mut seq = 1;
    loop {
        let chunk: Value = serde_json::from_str(&client.read_text()).expect("JSON");
        if check(&chunk, seq) {
            break;
        }
        seq += 1;
    }
    drop(client);
    server.close();
}

#[test]
fn dropped_chunks_are_counted_for_the_client() {
    let (server, _) = start(options());
    let mut slow = ready(&server);
    let stream = slow.open_stream(call(1, "burst", json!({})));
    let chunks = slow.receive_stream(&stream, 1);
    let progress = chunks.iter().filter(|chunk| chunk["chunkType"] == "progress").count();
    let [.., gap, result, eos] = &chunks[..] else { panic!("{} chunks", chunks.len()) };
    assert_eq!(gap["chunkType"], "log", "{gap}");
    let dropped = gap["data"]["data"]["dropped"].as_u64().expect("a number");
    assert_eq!(progress as u64 + dropped, STEPS);
    assert_eq!(
        (&gap["data"]["level"], &gap["data"]["logger"]),
        (&json!("warning"), &json!("corelane"))
    );
    assert_eq!((&result["chunkType"], &eos["chunkType"]), (&json!("result"), &json!("eos")));
    drop(slow);
    server.close();
}

#[test]
fn event_stream_loses_nothing() {
    let (server, emitted) = start(on_shards(2));
    let session = Session::begin(&server);
    for (id, has_events) in [(1, false), (2, true)] {
        let before = emitted.load(Ordering::Relaxed);
        let attached = has_events.then(|| session.events());
        let (status, opened) = session.post(&streamed(call(id, "flood", json!({}))));
        assert_eq!(status, 200);
        let mut events = attached.unwrap_or_else(|| session.events());
        for seq in 1.. {
            let event = events.next_event().expect("a chunk");
            assert_eq!(event.data["streamId"], opened["result"]["streamId"]);
            if seq == 1 {
                assert!(emitted.load(Ordering::Relaxed) < before + STEPS, "not paused");
            }
            if check(&event.data, seq) {
                break;
            }
        }
    }
    server.close();
}
