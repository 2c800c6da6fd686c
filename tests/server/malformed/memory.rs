//! `memory_bytes_max`: the memory limit over all connections.

use std::future::poll_fn;
use std::task::Poll;

use corelane::{CallToolResult, Catalog, Counters, Features, NoArguments, RequestContext, Tool};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::model::{ElicitRequest, Form, Implementation};
use corelane_test_support::messages::{
    LEGACY, call, echo, expect_error, initialize_with_elicitation, notification, result_text,
};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::json;

#[test]
fn largest_holder_is_closed_at_memory_limit() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.memory_bytes_max = 100_000;
        let server = TestServer::start(options);
        let mut other = server.connect_initialized(LEGACY);
        let text = format!("{}\n", echo(1, &"x".repeat(60_000)));
        let (first_half, second_half) = text.as_bytes().split_at(59_000);
        for _ in 0..3 {
            let mut holder = server.connect_initialized(LEGACY);
            holder.send_bytes(first_half);
            other.ping();
            let mut client = server.connect_initialized(LEGACY);
            client.send_bytes(first_half);
            expect_error(&holder.receive(), -32603, None);
            holder.expect_end();
            client.send_bytes(second_half);
            assert_eq!(result_text(&client.receive()).len(), 60_000);
            assert_eq!(result_text(&other.exchange(echo(2, "unaffected"))), "unaffected");
        }
        drop(other);
        let counters = server.close();
        assert_eq!(counters.input_errors.memory, 3, "{counters}");
    });
}

#[test]
fn client_requests_beyond_memory_fail_the_call() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.memory_bytes_max = 100_000;
        let server = TestServer::with_catalog(options, verbose_tools());
        let mut client = server.connect_tcp();
        client.exchange(initialize_with_elicitation(0, LEGACY));
        client.send(notification("notifications/initialized"));
        client.send(call(1, "ask", json!({})));
        // A quarter of the limit has room for two, which are not sent either.
        expect_error(&client.receive(), -32603, Some(1.into()));
        client.ping();
        let counters = server.close();
        let refused = (counters.requests.refused_memory, counters.input_errors.memory);
        assert_eq!(refused, (1, 0), "{counters}");
    });
}

#[test]
fn closed_connections_release_their_memory() {
    over_each_ring(tcp_options(), |mut options| {
        // A message of 90,000 bytes counts with the spare room of its buffer.
        options.limits.memory_bytes_max = 120_000;
        let server = TestServer::start(options);
        let mut other = server.connect_initialized(LEGACY);
        for number in 0..20_u32 {
            let mut client = server.connect_initialized(LEGACY);
            client.send_bytes("x".repeat(90_000).as_bytes());
            other.ping();
            if number % 2 == 0 {
                client.reset();
            } else {
                // End of stream terminates the last line.
                client.shutdown_write();
                expect_error(&client.receive(), -32700, None);
                client.expect_end();
            }
            assert_eq!(other.exchange(echo(number, "unaffected"))["id"], json!(number));
            // A reset may arrive after the request that was sent behind it.
            let is_closed = (0..PINGS_MAX).any(|_| {
                other.ping();
                closed_by_client(&server.handle().counters()) > number.into()
            });
            assert!(is_closed, "{}", server.handle().counters());
        }
        drop(other);
        let counters = server.close();
        assert_eq!(counters.input_errors.memory, 0, "{counters}");
    });
}

/// Pings until the server has seen the end of another connection.
const PINGS_MAX: usize = 100_000;

/// Returns how many connections their clients have closed or reset.
fn closed_by_client(counters: &Counters) -> u64 {
    let connections = &counters.connections;
    connections.closed_by_peer + connections.closed_socket_error
}

/// Tools that send more than `memory_bytes_max`, then wait.
fn verbose_tools() -> Catalog {
    const MESSAGES: i32 = 30;
    let text = "x".repeat(10_000);
    let (progress_text, log_text, request_text) = (text.clone(), text.clone(), text);
    let progress = Tool::new("progress").local(move |_: NoArguments, live: RequestContext| {
        let text = progress_text.clone();
        async move {
            (1..=MESSAGES).for_each(|step| live.progress(step.into(), None, Some(&text)));
            live.cancelled().await;
            Ok(CallToolResult::text("not reached"))
        }
    });
    let log = Tool::new("log").local(move |_: NoArguments, live: RequestContext| {
        let text = log_text.clone();
        async move {
            (1..=MESSAGES).for_each(|_| live.log(LoggingLevel::Error, None, &text));
            live.cancelled().await;
            Ok(CallToolResult::text("not reached"))
        }
    });
    let ask = Tool::new("ask").local(move |_: NoArguments, live: RequestContext| {
        let text = request_text.clone();
        async move {
            let form = || ElicitRequest::form(&*text, Form::new());
            let ask = |step: i32| Box::pin(live.elicit(&format!("question {step}"), form()));
            let mut requests: Vec<_> = (1..=MESSAGES).map(ask).collect();
            let first = poll_fn(|cx| {
                let mut polled = requests.iter_mut().map(|it| it.as_mut().poll(cx));
                polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
            });
            first.await?;
            Ok(CallToolResult::text("not reached"))
        }
    });
    let catalog = Catalog::builder(Implementation::new("talkers", "1.0.0"))
        .enable_features(Features::LOGGING);
    catalog.tools([progress, log, ask]).build().expect("catalog is valid")
}

#[test]
fn unread_handler_messages_count_against_memory_limit() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.memory_bytes_max = 100_000;
        options.tcp.send_buffer_bytes = 16 << 10;
        let server = TestServer::with_catalog(options, verbose_tools());
        for tool in ["progress", "log"] {
            let mut client = LineClient::connect_with_buffers(server.address(), 16 << 10);
            client.handshake(LEGACY);
            let mut tool_call = call(1, tool, json!({}));
            tool_call["params"]["_meta"] = json!({"progressToken": "t"});
            client.send(tool_call);
            let messages = client.receive_rest_or_reset();
            let error = messages.last().expect("an error before the end of stream");
            expect_error(error, -32603, None);
            assert!(messages.len() < 15, "{} messages", messages.len());
        }
        let counters = server.close();
        assert_eq!(counters.input_errors.memory, 2, "{counters}");
    });
}
