//! Peers that do not read: the server stops reading from them, then resumes or closes.

use std::time::Duration;

use corelane_test_support::messages::{LEGACY, call, echo, result_text, with_progress};
use corelane_test_support::websocket::{
    FIN, TEXT, close_code, encode_frame, is_control, text_frame,
};
use corelane_test_support::{TestServer, WebSocketClient, http_options, over_each_ring};
use serde_json::json;

use corelane::Options;

/// Socket buffers of minimal size, so that the kernel buffers little.
const SMALL_BUFFER_BYTES: usize = 4 << 10;

fn set_small_buffers(options: &mut Options) {
    options.websocket.outgoing_bytes_max = 20_000;
    options.tcp.send_buffer_bytes = 4 << 10;
    options.tcp.receive_buffer_bytes = 4 << 10;
}

#[test]
fn non_reading_peer_is_paused_and_loses_nothing() {
    over_each_ring(http_options(), |mut options| {
        set_small_buffers(&mut options);
        options.websocket.send_timeout = Duration::from_mins(1);
        let server = TestServer::with_test_tools(options);
        let mut peer =
            WebSocketClient::initialize_with_buffers(server.address(), SMALL_BUFFER_BYTES);
        let calls = 400;
        let mut frames = Vec::new();
        for id in 0..calls {
            let call = echo(id, &"x".repeat(5_000));
            peer.register_request(&call);
            frames.extend(text_frame(call));
        }
        // Written by another thread, because this one does not read yet.
        let mut socket = peer.clone_socket();
        let writer = std::thread::spawn(move || {
            std::io::Write::write_all(&mut socket, &frames).expect("write to server");
        });
        let mut other = WebSocketClient::initialize(server.address(), LEGACY);
        for _ in 0..200 {
            assert_eq!(result_text(&other.exchange(&echo(1, "meanwhile"))), "meanwhile");
        }
        for id in 0..calls {
            let response = peer.read_message();
            assert_eq!(
                (response["id"].as_i64(), result_text(&response).len()),
                (Some(id.into()), 5_000)
            );
        }
        writer.join().expect("writer thread panicked");
        peer.close(1000);
        drop(other);
        let counters = server.close();
        assert!(counters.traffic.read_pauses > 0, "{counters}");
    });
}

#[test]
fn multi_line_message_pauses_until_responses_are_read() {
    over_each_ring(http_options(), |mut options| {
        set_small_buffers(&mut options);
        options.websocket.send_timeout = Duration::from_mins(1);
        options.limits.memory_bytes_max = 3 << 20;
        options.limits.message_bytes_max = 1 << 20;
        options.limits.requests_in_flight_max = 10_000;
        let server = TestServer::with_test_tools(options);
        // Each text has some 60 bytes and each response some thousand: all responses together
        // exceed the memory limit.
        let texts: Vec<_> = (0..5_000)
            .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}}))
            .collect();
        let lines: Vec<String> = texts.iter().map(ToString::to_string).collect();
        let message = lines.join("\n");
        let whole = encode_frame(FIN | TEXT, message.as_bytes());
        let (first, second) = message.as_bytes().split_at(message.len() / 3);
        let parts = [encode_frame(TEXT, first), encode_frame(FIN, second)].concat();
        for bytes in [whole, parts] {
            let mut peer =
                WebSocketClient::initialize_with_buffers(server.address(), SMALL_BUFFER_BYTES);
            let next = echo("next", "behind it");
            peer.register_requests(&texts);
            peer.register_request(&next);
            let mut socket = peer.clone_socket();
            let writer = std::thread::spawn(move || {
                let bytes = [bytes, text_frame(next)].concat();
                std::io::Write::write_all(&mut socket, &bytes).expect("write to server");
            });
            for id in 0..texts.len() {
                let response = peer.read_text();
                assert!(
                    response.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")),
                    "{response}"
                );
            }
            assert_eq!(result_text(&peer.read_message()), "behind it");
            writer.join().expect("writer thread panicked");
            peer.close(1000);
        }
        let counters = server.close();
        assert_eq!(counters.input_errors.memory, 0, "{counters}");
        assert!(counters.traffic.read_pauses > 0, "{counters}");
    });
}

#[test]
fn non_reading_peer_is_closed_after_send_timeout() {
    over_each_ring(http_options(), |mut options| {
        set_small_buffers(&mut options);
        options.websocket.send_timeout = Duration::from_millis(50);
        let server = TestServer::with_test_tools(options);
        let mut other = WebSocketClient::initialize(server.address(), LEGACY);
        let mut peer =
            WebSocketClient::initialize_with_buffers(server.address(), SMALL_BUFFER_BYTES);
        // Fills the output queue; the kernel takes only some of the responses.
        let call = text_frame(echo(1, &"x".repeat(5_000)));
        while peer.try_send_bytes(&call).is_ok() {}
        // The close frame may be lost.
        let rest = peer.read_to_end();
        if let Some(last) = rest.last().filter(|it| is_control(it)) {
            assert_eq!(close_code(last), Some(1011));
        }
        assert_eq!(result_text(&other.exchange(&echo(2, "unharmed"))), "unharmed");
        drop((peer, other));
        let counters = server.close();
        assert_eq!(counters.websockets.closed_internal, 1, "{counters}");
    });
}

#[test]
fn progress_is_dropped_for_non_reading_peer() {
    over_each_ring(http_options(), |mut options| {
        set_small_buffers(&mut options);
        options.websocket.outgoing_bytes_max = 2_000;
        options.websocket.send_timeout = Duration::from_mins(1);
        let server = TestServer::with_test_tools(options);
        let mut peer =
            WebSocketClient::initialize_with_buffers(server.address(), SMALL_BUFFER_BYTES);
        let mut other = WebSocketClient::initialize(server.address(), LEGACY);
        let request = with_progress(call("slow", "slow", json!({"steps": 1_000, "step_ms": 0})));
        peer.send_message(&request);
        for _ in 0..200 {
            assert_eq!(result_text(&other.exchange(&echo(1, "meanwhile"))), "meanwhile");
        }
        let messages = peer.read_until_response(&json!("slow"));
        let (response, steps) = messages.split_last().expect("no response");
        assert_eq!(result_text(response), "took 1000 steps of 0 ms");
        assert!(steps.len() < 1_000, "{}", steps.len());
        peer.close(1000);
        drop(other);
        server.close();
    });
}
