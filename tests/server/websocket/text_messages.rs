//! Text messages that hold no JSON-RPC message: they get an error, and the connection stays open.

use corelane_test_support::messages::{LEGACY, echo, expect_error, modern, result_text};
use corelane_test_support::websocket::{FIN, TEXT, text_frame};
use corelane_test_support::{TestServer, WebSocketClient, http_options, over_each_ring};

#[test]
fn invalid_json_gets_error_on_open_connection() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        for (wrong, code) in [
            ("{", -32700),
            ("nonsense", -32700),
            ("\"", -32700),
            ("\"\t\"", -32700),
            // Decoding its escapes makes the string shorter than its source text.
            ("{\"a\":\"\\n\\n\u{e9}\u{20ac}\" x}", -32700),
            ("1", -32600),
            ("{}", -32600),
            ("[]", -32600),
        ] {
            peer.send_bytes(&text_frame(wrong));
            expect_error(&peer.read_message(), code, None);
        }
        let deep = "[".repeat(100) + &"]".repeat(100);
        peer.send_bytes(&text_frame(deep));
        expect_error(&peer.read_message(), -32600, None);
        // A message between two invalid lines gets a response.
        let call = echo(1, "between");
        peer.register_request(&call);
        peer.send_bytes(&text_frame(format!("{{\n{call}\n}}")));
        expect_error(&peer.read_message(), -32700, None);
        assert_eq!(result_text(&peer.read_message()), "between");
        expect_error(&peer.read_message(), -32700, None);
        peer.close(1000);
        server.close();
    });
}

#[test]
fn empty_text_message_is_ignored() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        for nothing in [&b""[..], b"\n", b"\r\n\n"] {
            peer.send(FIN | TEXT, nothing);
        }
        assert_eq!(result_text(&peer.exchange(&echo(1, "something"))), "something");
        peer.close(1000);
        server.close();
    });
}

#[test]
fn strict_delimiter_requires_newline_after_message() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.strict_delimiter = true;
        let server = TestServer::with_test_tools(options);
        for wrong in [b"".to_vec(), b"\n{}".to_vec(), echo(1, "hi").to_string().into_bytes()] {
            let mut peer = WebSocketClient::connect(server.address());
            let call = modern(echo(0, "delimited"));
            peer.register_request(&call);
            peer.send_bytes(&text_frame(format!("{call}\n")));
            assert_eq!(result_text(&peer.read_message()), "delimited");
            peer.send(FIN | TEXT, &wrong);
            peer.expect_close(1002);
        }
        let counters = server.close();
        assert_eq!(counters.websockets.closed_protocol_error, 3, "{counters}");
    });
}

#[test]
fn response_lengths_around_header_sizes_are_framed() {
    let server = TestServer::with_test_tools(http_options());
    let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
    let empty = peer.exchange(&echo(0, "")).to_string().len();
    // Around the payload lengths at which the frame header grows.
    let lengths = [0, 124, 125, 126, 127, 128, 65_534, 65_535, 65_536, 65_537, 1 << 20];
    for length in lengths.map(|length: usize| length.saturating_sub(empty)) {
        for length in [length, length + 1] {
            let message = "m".repeat(length);
            assert_eq!(result_text(&peer.exchange(&echo(0, &message))), message);
        }
    }
    peer.close(1000);
    server.close();
}
