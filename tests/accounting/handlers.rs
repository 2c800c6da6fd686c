//! Handlers that fail, crash or hang.

use std::time::Duration;

use corelane::service::{HandlerError, Live, NoArguments, Outcome, Tool, Worker};
use crossbeam::channel::bounded;

use crate::loopback::options;
use crate::stage::Stage;

/// Three tools that crash, one of each kind, and one that works.
fn crashing() -> [Tool; 5] {
    [
        Tool::new("inline").inline(|_: NoArguments, answer| {
            answer.text("half an answer");
            panic!("on purpose")
        }),
        Tool::new("local").local(|_: NoArguments, live: Live| async move {
            live.sleep(Duration::from_millis(1)).await?;
            panic!("on purpose")
        }),
        Tool::new("local_at_once")
            .local(|_: NoArguments, _: Live| -> std::future::Ready<_> { panic!("on purpose") }),
        Tool::new("blocking").blocking(|_: NoArguments, _: Worker| panic!("on purpose")),
        Tool::new("works").inline(|_: NoArguments, answer| {
            answer.text("well");
            Ok(())
        }),
    ]
}

#[test]
fn a_handler_that_crashes_answers_an_internal_error_and_is_counted() {
    let stage = Stage::open(options(), crashing());
    let mut client = stage.connect();
    for tool in ["inline", "local", "local_at_once", "blocking"] {
        let answer = client.call(tool);
        assert_eq!(answer["error"]["code"], -32603, "{tool}: {answer}");
        assert!(!answer.to_string().contains("purpose"), "nothing of it is told");
        assert_eq!(client.call("works")["result"]["content"][0]["text"], "well");
    }
    let counters = stage.close();
    assert_eq!(counters.requests.handlers_panicked, 4, "{counters}");
    assert_eq!(counters.errors.of(-32603), 4);
    assert_eq!(counters.requests.tools_call, 8);
    assert_eq!(counters.requests.tools_failed, 0);
}

fn failed<T>() -> Result<T, HandlerError> {
    Err(HandlerError::failed("not today"))
}

#[test]
fn a_tool_that_says_it_failed_is_counted_whatever_its_kind() {
    let stage = Stage::open(
        options(),
        [
            Tool::new("inline").inline(|_: NoArguments, _| failed()),
            Tool::new("in_words").inline(|_: NoArguments, answer| {
                answer.text("alas").mark_failed();
                Ok(())
            }),
            Tool::new("local").local(|_: NoArguments, _: Live| async { failed() }),
            Tool::new("blocking")
                .blocking(|_: NoArguments, _: Worker| Ok(Outcome::failed("not today"))),
        ],
    );
    let mut client = stage.connect();
    for tool in ["inline", "in_words", "local", "blocking"] {
        assert_eq!(client.call(tool)["result"]["isError"], true, "{tool}");
    }
    let counters = stage.close();
    assert_eq!(counters.requests.tools_failed, 4, "{counters}");
    assert_eq!(counters.errors.total(), 0);
}

#[test]
fn a_blocking_handler_that_hangs_does_not_keep_the_server_from_ending() {
    let mut options = options();
    options.engine.drain_max = Duration::from_millis(100);
    let (release, hangs) = bounded::<()>(0);
    let (tell, begun) = bounded(0);
    let tool = Tool::new("hang").blocking(move |_: NoArguments, _: Worker| {
        tell.send(()).map_err(HandlerError::failed)?;
        hangs.recv().map_err(HandlerError::failed)?;
        Ok(Outcome::text("never heard"))
    });
    let stage = Stage::open(options, [tool]);
    let mut client = stage.connect();
    client.ask_tool("hang");
    begun.recv().unwrap();
    let counters = stage.close();
    assert_eq!(counters.connections.closed_draining, 1, "{counters}");
    assert_eq!(counters.requests.cancelled, 1);
    client.hear_end();
    drop(release);
}
