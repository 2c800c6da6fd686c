//! Requests of one session that have the same id in flight, each in its own POST.

use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, HandlerError, NoArguments, TaskSupport, Tool};
use corelane_test_support::messages::{
    BATCHED, LEGACY, SESSION_REVISIONS, call, cancelled, echo, expect_error, request, result_text,
    with_progress,
};
use corelane_test_support::{HttpClient, TestServer, on_one_shard_and_two};
use serde_json::{Value, json};

use crate::http::http_session::HttpSession;

/// Posts a call on a connection of its own, and waits until it has begun.
fn begin(server: &TestServer, session: &HttpSession, call: &Value) -> HttpClient {
    let mut client = session.connect();
    client.send(&session.post(call));
    assert_eq!(server.next_signal(), "begun");
    client
}

/// Reads to the end of a stream that ends without a response.
fn expect_cancelled(mut client: HttpClient) {
    client.read_stream_head();
    client.expect_end_of_stream();
    client.expect_alive();
}

#[test]
fn requests_with_equal_ids_are_each_answered() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for revision in SESSION_REVISIONS {
            let session = HttpSession::initialize(server.address(), revision);
            let ids = [json!(1), json!(1), json!("1"), json!(1)];
            let mut calls: Vec<_> = ids
                .iter()
                .map(|id| begin(&server, &session, &call(id.clone(), "hold", json!({}))))
                .collect();
            // Requests that are answered at once have the id, too.
            for text in ["a", "b"] {
                let response = session.connect().exchange(&session.post(&echo(1, text)));
                assert_eq!(result_text(&response.message()), text);
            }
            server.open_gate();
            for (client, id) in calls.iter_mut().zip(&ids) {
                let response = client.read_response().message();
                assert_eq!((&response["id"], result_text(&response)), (id, "held"));
            }
            session.connect().exchange(&session.delete()).expect_empty_body(204);
            server.close_gate();
        }
        server.close();
    });
}

#[test]
fn equal_ids_receive_their_own_messages() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut calls: Vec<_> = (0..3)
            .map(|_| {
                let mut client = session.connect();
                client.request_stream(&session.post(&call(1, "ask", json!({}))));
                client.read_priming_event();
                let elicitation = client.read_message().1;
                assert_eq!(elicitation["method"], "elicitation/create", "{elicitation}");
                (client, elicitation["id"].clone())
            })
            .collect();
        for (number, (client, elicitation)) in calls.iter_mut().enumerate().rev() {
            let result = json!({"action": "accept", "content": {"name": number.to_string()}});
            let answer = json!({"jsonrpc": "2.0", "id": elicitation, "result": result});
            session.connect().exchange(&session.post(&answer)).expect_empty_body(202);
            let response = client.read_message().1;
            assert_eq!(result_text(&response), format!("Hello, {number}!"));
            client.expect_end_of_stream();
        }
        drop(calls);
        server.close();
    });
}

#[test]
fn cancellation_ends_all_requests_with_the_id() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let [session, other] = [(); 2].map(|()| HttpSession::initialize(server.address(), LEGACY));
        let endless = |id: Value| call(id, "until-cancelled", json!({}));
        for _ in 0..4 {
            let calls =
                [json!(1), json!(1.0), json!(1)].map(|id| begin(&server, &session, &endless(id)));
            let of_text = begin(&server, &session, &endless(json!("1")));
            let of_other = begin(&server, &other, &endless(json!(1)));
            let cancel = |session: &HttpSession, id: Value| {
                session.connect().exchange(&session.post(&cancelled(id))).expect_empty_body(202);
            };
            cancel(&session, json!(1));
            for client in calls {
                assert_eq!(server.next_signal(), "cancelled");
                expect_cancelled(client);
            }
            server.expect_no_signal();
            cancel(&session, json!("1"));
            cancel(&other, json!(1));
            expect_cancelled(of_text);
            expect_cancelled(of_other);
            assert_eq!((server.next_signal(), server.next_signal()), ("cancelled", "cancelled"));
            // The id is free again.
            cancel(&session, json!(1));
        }
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 20, "{counters}");
    });
}

#[test]
fn completed_request_leaves_others_with_its_id() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut held = begin(&server, &session, &call(1, "hold", json!({})));
        let endless =
            [(); 2].map(|()| begin(&server, &session, &call(1, "until-cancelled", json!({}))));
        server.open_gate();
        assert_eq!(result_text(&held.read_response().message()), "held");
        session.connect().exchange(&session.post(&cancelled(1))).expect_empty_body(202);
        for client in endless {
            assert_eq!(server.next_signal(), "cancelled");
            expect_cancelled(client);
        }
        drop(held);
        server.close();
    });
}

#[test]
fn equal_ids_within_batch_are_refused() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), BATCHED);
        let hold = call(1, "hold", json!({}));
        let mut single = begin(&server, &session, &hold);
        let mut batch = session.connect();
        batch.send(&session.post(&json!([hold, echo(1, "again")])));
        assert_eq!(server.next_signal(), "begun");
        batch.read_stream_head();
        let refused = batch.read_message().1;
        let Some([refused]) = refused.as_array().map(Vec::as_slice) else { panic!("{refused}") };
        expect_error(refused, -32600, Some(json!(1)));
        server.open_gate();
        assert_eq!(result_text(&batch.read_message().1), "held");
        batch.expect_end_of_stream();
        assert_eq!(result_text(&single.read_response().message()), "held");
        drop((single, batch));
        server.close();
    });
}

#[test]
fn batch_cancels_its_request_and_others() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), BATCHED);
        let endless = call(1, "until-cancelled", json!({}));
        let single = begin(&server, &session, &endless);
        let mut batch = session.connect();
        let slow = call(2, "slow", json!({"steps": 1, "step_ms": 1}));
        let posted = session.post(&json!([endless, slow, cancelled(1)]));
        let (before, response) = batch.exchange_to_end(&posted);
        assert_eq!((before.len(), &response["id"]), (0, &json!(2)), "{response}");
        expect_cancelled(single);
        drop(batch);
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 2, "{counters}");
    });
}

#[test]
fn resumed_streams_have_their_own_responses() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let seen = ["hold", "until-cancelled", "hold"].map(|tool| {
            let mut client = begin(&server, &session, &with_progress(call(1, tool, json!({}))));
            client.read_stream_head();
            client.read_priming_event();
            let (event, progress) = client.read_message();
            assert_eq!(progress["params"]["progressToken"], "token", "{progress}");
            event.expect("an event id")
        });
        server.wait_for_connections(0);
        let mut resumed = seen.map(|event| {
            let mut client = session.connect();
            client.request_stream(&session.resume(&event));
            client
        });
        server.open_gate();
        for number in [2, 0] {
            assert_eq!(result_text(&resumed[number].read_message().1), "held");
            resumed[number].expect_end_of_stream();
        }
        session.connect().exchange(&session.post(&cancelled(1))).expect_empty_body(202);
        assert_eq!(server.next_signal(), "cancelled");
        resumed[1].expect_end_of_stream();
        drop(resumed);
        server.close();
    });
}

#[test]
fn deleted_session_answers_each_equal_id() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let endless = call(1, "until-cancelled", json!({}));
        let mut calls = [(); 3].map(|()| begin(&server, &session, &endless));
        session.connect().exchange(&session.delete()).expect_empty_body(204);
        for client in &mut calls {
            expect_error(&client.read_response().message(), -32600, Some(json!(1)));
        }
        drop(calls);
        server.close();
    });
}

#[test]
fn equal_ids_count_against_requests_in_flight() {
    on_one_shard_and_two(|mut options| {
        options.limits.requests_in_flight_max = 2;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let hold = call(1, "hold", json!({}));
        let mut calls = [(); 2].map(|()| begin(&server, &session, &hold));
        session.connect().exchange(&session.post(&hold)).expect_error(503, -32603, Some(json!(1)));
        server.open_gate();
        for client in &mut calls {
            assert_eq!(result_text(&client.read_response().message()), "held");
        }
        let response = session.connect().exchange(&session.post(&hold)).message();
        assert_eq!(result_text(&response), "held");
        drop(calls);
        let counters = server.close();
        assert_eq!(counters.requests.refused_in_flight, 1, "{counters}");
    });
}

#[test]
fn task_results_with_equal_ids_are_each_sent() {
    on_one_shard_and_two(|options| {
        let later = Tool::new("later").task_support(TaskSupport::Optional);
        let later = later.local(|_: NoArguments, ctx| async move {
            ctx.sleep(Duration::from_millis(50)).await?;
            Ok::<_, HandlerError>("done")
        });
        let catalog = Catalog::builder(Implementation::new("test", "1")).tool(later).build();
        let server = TestServer::with_catalog(options, catalog.expect("a valid catalog"));
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut start = call(1, "later", json!({}));
        start["params"]["task"] = json!({"ttl": 60_000});
        let started = session.connect().exchange(&session.post(&start)).message();
        let task = started["result"]["task"]["taskId"].clone();
        assert!(task.is_string(), "{started}");
        let wanted = session.post(&request(1, "tasks/result", json!({"taskId": task})));
        let mut clients = [(); 3].map(|()| session.connect());
        for client in &mut clients {
            client.send(&wanted);
        }
        for client in &mut clients {
            let response = client.read_response().message();
            assert_eq!(result_text(&response), "done");
        }
        drop(clients);
        server.close();
    });
}
