//! The bound of what all connections hold together.

use std::future::poll_fn;
use std::task::Poll;

use corelane::Catalog;
use corelane::protocol::era::LogLevel;
use corelane::protocol::message::{Elicitation, Form, ServerInfo};
use corelane::service::{Features, Live, NoArguments, Outcome, Tool};
use serde_json::json;

use crate::client::{Client, LEGACY, call, echo, echoed, expect_error, notification, request};
use crate::stage::{Stage, over_each_ring};

#[test]
fn the_message_that_passes_the_bound_of_all_is_refused_and_the_others_keep_their_memory() {
    over_each_ring(|mut options| {
        options.limits.memory_bytes_max = 100_000;
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        let text = format!("{}\n", echo(1, &"x".repeat(60_000)));
        let (first_half, second_half) = text.as_bytes().split_at(59_000);
        for _ in 0..3 {
            let mut patient = stage.session(LEGACY);
            patient.send_bytes(first_half);
            other.expect_alive();
            let mut greedy = stage.session(LEGACY);
            greedy.send_bytes(first_half);
            let answer = greedy.answer();
            expect_error(&answer, -32603, None);
            greedy.expect_end();
            patient.send_bytes(second_half);
            assert_eq!(echoed(&patient.answer()).len(), 60_000);
            assert_eq!(echoed(&other.ask(echo(2, "unaffected"))), "unaffected");
        }
        drop(other);
        let counters = stage.close();
        assert_eq!(counters.faults.memory, 3, "{counters}");
    });
}

#[test]
fn memory_of_connections_that_have_gone_is_free_again() {
    over_each_ring(|mut options| {
        options.limits.memory_bytes_max = 100_000;
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        for number in 0..20 {
            let mut client = stage.session(LEGACY);
            client.send_bytes(" ".repeat(90_000).as_bytes());
            other.expect_alive();
            if number % 2 == 0 {
                client.reset();
            } else {
                // A line that never got its end is a line all the same.
                client.finish();
                expect_error(&client.answer(), -32700, None);
                client.expect_end();
            }
            assert_eq!(other.ask(echo(number, "unaffected"))["id"], json!(number));
        }
        drop(other);
        let counters = stage.close();
        assert_eq!(counters.faults.memory, 0, "{counters}");
    });
}

/// Tools that say more than a slow peer may be owed, then wait.
fn talkers() -> Catalog {
    const TIMES: i32 = 30;
    let text = "x".repeat(10_000);
    let (told, logged, asked) = (text.clone(), text.clone(), text);
    let tell = Tool::new("tell").local(move |_: NoArguments, live: Live| {
        let text = told.clone();
        async move {
            (1..=TIMES).for_each(|step| live.progress(step.into(), None, Some(&text)));
            live.cancelled().await;
            Ok(Outcome::text("not reached"))
        }
    });
    let log = Tool::new("log").local(move |_: NoArguments, live: Live| {
        let text = logged.clone();
        async move {
            (1..=TIMES).for_each(|_| live.log(LogLevel::Error, None, &text));
            live.cancelled().await;
            Ok(Outcome::text("not reached"))
        }
    });
    let ask = Tool::new("ask").local(move |_: NoArguments, live: Live| {
        let text = asked.clone();
        async move {
            let form = || Elicitation::form(&*text, Form::new());
            let ask = |step: i32| Box::pin(live.elicit(&format!("question {step}"), form()));
            let mut questions: Vec<_> = (1..=TIMES).map(ask).collect();
            poll_fn(|context| {
                let is_over = questions.iter_mut().any(|it| it.as_mut().poll(context).is_ready());
                if is_over { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            Ok(Outcome::text("not reached"))
        }
    });
    let catalog = Catalog::builder(ServerInfo::new("talkers", "1.0.0")).offer(Features::LOGGING);
    catalog.tools([tell, log, ask]).build().expect("tools that fit together")
}

#[test]
fn what_a_handler_says_to_a_peer_that_does_not_read_counts_against_the_bound_of_all() {
    over_each_ring(|mut options| {
        options.limits.memory_bytes_max = 100_000;
        options.tcp.send_buffer_bytes = 16 << 10;
        let stage = Stage::offering(options, talkers());
        for tool in ["tell", "log", "ask"] {
            let mut client = Client::connect_narrow(stage.address(), 16 << 10);
            client.ask(request(
                0,
                "initialize",
                json!({
                    "protocolVersion": LEGACY,
                    "capabilities": {"elicitation": {}},
                    "clientInfo": {"name": "deaf", "version": "1"},
                }),
            ));
            client.send(notification("notifications/initialized"));
            let mut spoken_to = call(1, tool, json!({}));
            spoken_to["params"]["_meta"] = json!({"progressToken": "t"});
            client.send(spoken_to);
            let mut said = client.rest_or_reset();
            // Questions are taken back even so.
            said.retain(|message| message["method"] != "notifications/cancelled");
            let refusal = said.last().expect("what was said before the end");
            expect_error(refusal, -32603, None);
            assert!(said.len() < 15, "{} messages", said.len());
        }
        let counters = stage.close();
        assert_eq!(counters.faults.memory, 3, "{counters}");
    });
}
