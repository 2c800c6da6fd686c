//! Malformed HTTP responses and WebSocket frames, and HTTP error statuses.

use std::time::Duration;

use corelane_load::generator;
use corelane_load::metrics::outcome::Failure;
use corelane_load::plan::HumanDuration;
use corelane_load::result::{Manifest, RunResult};
use corelane_load::target::{Era, Transport};

use crate::hostile::scripted_server::{
    Reaction, ReceivedRequest, ScriptedServer, echo_response, frame, response,
};
use crate::hostile::{DUE, assert_all, plan};

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
fn body_without_length_ends_with_connection() {
    for head in ["1.1 200 OK\r\nConnection: close", "1.1 200 OK", "1.0 200 OK"] {
        let server = ScriptedServer::new(Transport::Http, move |request: &ReceivedRequest<'_>| {
            let body = echo_response(request.call);
            Reaction::SendAndClose(format!("HTTP/{head}\r\n\r\n{body}").into_bytes())
        });
        let mut plan = plan(&server, Era::Modern);
        (plan.closed, plan.requests) = (true, Some(DUE));
        plan.phases[0].duration = HumanDuration::from(Duration::from_hours(1));
        let finding = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {});
        let result = RunResult::new(plan, Manifest::default(), &finding.unwrap());
        assert_eq!((result.totals.answered, result.totals.lost), (DUE, 0), "{head}");
        assert!(result.verdict.has_passed(), "{head}: {:?}", result.verdict);
        let error = "500 Broken\r\nConnection: close\r\n\r\nout of order";
        assert_all(Transport::Http, Failure::Http5xx, "no length", move |_| {
            Reaction::SendAndClose(format!("HTTP/1.1 {error}").into_bytes())
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
