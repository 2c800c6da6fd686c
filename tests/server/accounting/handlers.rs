//! Handlers that fail, panic or block.

use std::time::Duration;

use corelane::{BlockingContext, CallToolResult, HandlerError, NoArguments, RequestContext, Tool};
use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_test_support::tcp_options;
use crossbeam::channel::bounded;

use crate::accounting::tool_calls::{call_tool, start_server, tool_call};

/// Four tools that panic, by kind of handler, and one that works.
fn panicking_tools() -> [Tool; 5] {
    [
        Tool::new("inline").inline_writer(|_: NoArguments, response, _| {
            response.text("partial result");
            panic!("on purpose")
        }),
        Tool::new("local").local(|_: NoArguments, live: RequestContext| async move {
            live.sleep(Duration::from_millis(1)).await?;
            assert!(live.is_cancelled(), "on purpose");
            Ok(())
        }),
        Tool::new("local_at_once").local(
            |_: NoArguments, _: RequestContext| -> std::future::Ready<()> { panic!("on purpose") },
        ),
        Tool::new("blocking")
            .blocking(|_: NoArguments, _: BlockingContext| -> () { panic!("on purpose") }),
        Tool::new("works").inline_writer(|_: NoArguments, response, _| {
            response.text("well");
            Ok(())
        }),
    ]
}

#[test]
fn handler_panic_is_internal_error_and_counted() {
    let server = start_server(tcp_options(), panicking_tools());
    let mut client = server.connect_tcp();
    for tool in ["inline", "local", "local_at_once", "blocking"] {
        let response = call_tool(&mut client, tool);
        assert_eq!(response["error"]["code"], -32603, "{tool}: {response}");
        assert!(!response.to_string().contains("purpose"), "the panic message is not sent");
        assert_eq!(call_tool(&mut client, "works")["result"]["content"][0]["text"], "well");
    }
    let counters = server.close();
    assert_eq!(counters.requests.handler_panics, 4, "{counters}");
    assert_eq!(counters.errors.count_of(-32603), 4);
    assert_eq!(counters.requests.tools_call, 8);
    assert_eq!(counters.requests.tool_errors, 0);
}

fn failed<T>() -> Result<T, HandlerError> {
    Err(HandlerError::tool("not today"))
}

#[test]
fn failed_tool_calls_are_counted_for_every_handler() {
    let server = start_server(
        tcp_options(),
        [
            Tool::new("inline").inline_writer(|_: NoArguments, _, _| failed()),
            Tool::new("in_words").inline_writer(|_: NoArguments, response, _| {
                response.text("alas").mark_error();
                Ok(())
            }),
            Tool::new("local").local(|_: NoArguments, _: RequestContext| async { failed::<()>() }),
            Tool::new("blocking").blocking(|_: NoArguments, _: BlockingContext| {
                Ok(CallToolResult::error("not today"))
            }),
        ],
    );
    let mut client = server.connect_tcp();
    for tool in ["inline", "in_words", "local", "blocking"] {
        assert_eq!(call_tool(&mut client, tool)["result"]["isError"], true, "{tool}");
    }
    let counters = server.close();
    assert_eq!(counters.requests.tool_errors, 4, "{counters}");
    assert_eq!(counters.errors.total(), 0);
}

/// Three tools that fail with an error that the client is not to read.
fn tools_with_internal_errors() -> [Tool; 3] {
    fn fail<T>() -> Result<T, HandlerError> {
        Err(std::io::Error::other("the password is swordfish"))?
    }
    [
        Tool::new("inline").inline_writer(|_: NoArguments, response, _| {
            response.text("partial result");
            fail()
        }),
        Tool::new("local").local(|_: NoArguments, _: RequestContext| async { fail::<()>() }),
        Tool::new("blocking").blocking(|_: NoArguments, _: BlockingContext| fail::<()>()),
    ]
}

#[test]
fn internal_error_answers_tool_failed_with_number() {
    let server = start_server(tcp_options(), tools_with_internal_errors());
    let mut client = server.connect_tcp();
    for (tool, number) in [("inline", 1), ("local", 2), ("blocking", 3)] {
        let result = &call_tool(&mut client, tool)["result"];
        assert_eq!(result["isError"], true, "{tool}: {result}");
        assert_eq!(result["content"].as_array().unwrap().len(), 1, "{tool}: {result}");
        let text = format!("tool failed (request {number})");
        assert_eq!(result["content"][0]["text"], text, "{tool}");
    }
    assert_eq!(server.close().requests.tool_errors, 3);
}

#[test]
fn exposed_internal_error_has_its_text() {
    let mut options = tcp_options();
    options.service.expose_errors = true;
    let server = start_server(options, tools_with_internal_errors());
    let mut client = server.connect_tcp();
    let result = &call_tool(&mut client, "local")["result"];
    let text = "tool failed (request 1): the password is swordfish";
    assert_eq!(result["content"][0]["text"], text, "{result}");
}

#[test]
fn hanging_blocking_handler_does_not_delay_drain() {
    let mut options = tcp_options();
    options.engine.drain_timeout = Duration::from_millis(100);
    let (release, blocked) = bounded::<()>(0);
    let (tx, rx) = bounded(0);
    let tool = Tool::new("hang").blocking(move |_: NoArguments, _: BlockingContext| {
        tx.send(()).map_err(HandlerError::tool)?;
        blocked.recv().map_err(HandlerError::tool)?;
        Ok(CallToolResult::text("not reached"))
    });
    let server = start_server(options, [tool]);
    let mut client = server.connect_tcp();
    client.send(tool_call("hang"));
    rx.recv().unwrap();
    let counters = server.close();
    assert_eq!(counters.connections.closed_draining, 1, "{counters}");
    assert_eq!(counters.requests.cancelled, 1);
    client.receive_rest_or_reset();
    drop(release);
}

/// Keeps the thread busy for 2 ms.
fn work() {
    let clock = Clock::start();
    while clock.now() < Instant::from_milliseconds(2) {}
}

#[test]
fn each_slow_poll_is_counted() {
    let mut options = tcp_options();
    options.service.slow_handler_threshold = Duration::from_millis(1);
    let slow = Tool::new("slow").local(|_: NoArguments, ctx: RequestContext| async move {
        work();
        ctx.sleep(Duration::from_millis(1)).await?;
        work();
        Ok("done")
    });
    let waiting = Tool::new("waiting").local(|_: NoArguments, ctx: RequestContext| async move {
        ctx.sleep(Duration::from_millis(20)).await?;
        Ok("done")
    });
    let server = start_server(options, [slow, waiting]);
    let mut client = server.connect_tcp();
    call_tool(&mut client, "slow");
    call_tool(&mut client, "waiting");
    // A busy machine may make the other one slow, too.
    assert!(server.close().requests.slow_handlers >= 2);
}

#[test]
fn slow_inline_handler_is_counted() {
    let mut options = tcp_options();
    options.service.slow_handler_threshold = Duration::from_millis(1);
    let slow = Tool::new("slow").inline(|_: NoArguments, _| work());
    let fast = Tool::new("fast").inline(|_: NoArguments, _| "done");
    let server = start_server(options, [slow, fast]);
    let mut client = server.connect_tcp();
    for _ in 0..3 {
        call_tool(&mut client, "slow");
    }
    // A busy machine may make the other one slow, too.
    assert!(server.close().requests.slow_handlers >= 3);
}
