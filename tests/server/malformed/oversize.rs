//! Messages over `message_bytes_max`.

use std::io::Write;
use std::net::Shutdown;

use corelane_test_support::messages::{LEGACY, echo, endless, expect_error, result_text};
use corelane_test_support::{TestServer, over_each_ring, tcp_options};
use serde_json::json;

#[test]
fn oversize_message_gets_error_and_closes_connection() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.message_bytes_max = 1000;
        let server = TestServer::start(options);
        let mut other = server.connect_initialized(LEGACY);
        let mut client = server.connect_initialized(LEGACY);
        // Requests before it are served; input behind it is not read.
        let too_long = format!("\"{}\"", "x".repeat(999));
        client.send_bytes(format!("{}\n{too_long}\n{}\n", echo(1, "a"), echo(2, "b")).as_bytes());
        assert_eq!(result_text(&client.receive()), "a");
        expect_error(&client.receive(), -32012, None);
        client.expect_end();
        assert_eq!(result_text(&other.exchange(echo(3, "unaffected"))), "unaffected");
        drop((client, other));
        let counters = server.close();
        assert_eq!(
            (counters.input_errors.oversize, counters.errors.count_of(-32012)),
            (1, 1),
            "{counters}"
        );
    });
}

#[test]
fn message_of_exact_limit_is_accepted() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.message_bytes_max = 10_000;
        let server = TestServer::start(options);
        for terminator in ["\n", "\r\n"] {
            let mut client = server.connect_initialized(LEGACY);
            let frame = echo(1, "").to_string().len();
            let text = echo(1, &"x".repeat(10_000 - frame)).to_string();
            assert_eq!(text.len(), 10_000);
            client.send_bytes(format!("{text}{terminator}").as_bytes());
            assert_eq!(result_text(&client.receive()).len(), 10_000 - frame);
            // Its id comes after the arguments, or before them.
            let text = echo(1, &"x".repeat(10_001 - frame)).to_string();
            let id = (text.find("\"id\"") < text.find("xxx")).then(|| json!(1));
            client.send(text);
            expect_error(&client.receive(), -32012, id);
            client.expect_end();
        }
        server.close();
    });
}

#[test]
fn endless_message_is_cut_at_limit() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.message_bytes_max = 1 << 20;
        let server = TestServer::start(options);
        let mut other = server.connect_initialized(LEGACY);
        let mut client = server.connect_tcp();
        let mut writer = client.socket().try_clone().expect("socket is cloned");
        std::thread::scope(|scope| {
            // Never contains a newline; sends until the server stops reading.
            let block = [b'x'; 8 << 10];
            let flood = scope.spawn(move || while writer.write_all(&block).is_ok() {});
            expect_error(&client.receive(), -32012, None);
            client.expect_end();
            assert_eq!(result_text(&other.exchange(echo(1, "unaffected"))), "unaffected");
            client.socket().shutdown(Shutdown::Both).unwrap_or(());
            flood.join().expect("sender thread finishes");
        });
        drop((client, other));
        let counters = server.close();
        assert_eq!(
            (counters.input_errors.oversize, counters.errors.count_of(-32012)),
            (1, 1),
            "{counters}"
        );
    });
}

#[test]
fn oversize_error_reaches_peer_that_stops_sending() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.message_bytes_max = 100_000;
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        client.send_bytes(&vec![b' '; 100_001]);
        expect_error(&client.receive(), -32012, None);
        client.expect_end();
        drop(client);
        server.close();
    });
}

#[test]
fn oversize_message_cancels_calls_in_flight() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.message_bytes_max = 1000;
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        client.send(endless(1));
        client.send("x".repeat(1001));
        expect_error(&client.receive(), -32012, None);
        client.expect_end();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}
