//! Malformed HTTP responses and WebSocket frames, and HTTP error statuses.

use corelane_load::metrics::outcome::Failure;
use corelane_load::target::Transport;

use crate::assert_all;
use crate::scripted_server::{Reaction, echo_response, frame, response};

#[test]
fn http_error_status_is_counted_by_class() {
    for (status, failure) in [
        ("500 Internal Server Error", Failure::Http5xx),
        ("503 Service Unavailable", Failure::Http5xx),
        ("401 Unauthorized", Failure::Http4xx),
        ("404 Not Found", Failure::Http4xx),
        ("302 Found", Failure::Garbage),
        ("204 No Content", Failure::Garbage),
    ] {
        // A correct body does not make an error status a success.
        assert_all(Transport::Http, failure, status, move |call| {
            let body = if status.starts_with("204") { String::new() } else { echo_response(call) };
            Reaction::Send(response(status, &body))
        });
    }
}

#[test]
fn malformed_http_response_closes_connection() {
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(100_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(100));
    for bytes in [
        endless.as_str(),
        many.as_str(),
        "HTTP/1.1 200 OK\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\0\0\0\0\r\n\r\n",
    ] {
        let start = bytes[..bytes.len().min(60)].to_owned();
        let bytes = bytes.as_bytes().to_vec();
        assert_all(Transport::Http, Failure::Garbage, &start, move |_| {
            Reaction::Send(bytes.clone())
        });
    }
}

#[test]
fn invalid_websocket_frame_closes_connection() {
    for bytes in [
        // Masked, reserved bits, binary, stray continuation, fragmented ping, endless, reserved
        // opcode.
        &b"\x81\x82\0\0\0\0{}"[..],
        b"\xC1\x02{}",
        b"\x82\x02{}",
        b"\x80\x02{}",
        b"\x09\x00",
        b"\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
        b"\x83\x00",
    ] {
        let name = bytes.escape_ascii().to_string();
        assert_all(Transport::WebSocket, Failure::Garbage, &name, move |_| {
            Reaction::Send(bytes.to_vec())
        });
    }
    assert_all(Transport::WebSocket, Failure::Garbage, "no UTF-8", |call| {
        let mut text = echo_response(call).into_bytes();
        let place = text.windows(3).position(|part| part == b"abc").unwrap();
        text[place] = 0xFF;
        Reaction::Send(frame(0x81, &text))
    });
    assert_all(Transport::WebSocket, Failure::Closed, "close", |_| {
        Reaction::SendAndClose(frame(0x88, &1_011_u16.to_be_bytes()))
    });
}
