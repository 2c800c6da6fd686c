//! The session id in the query, for clients that cannot set `Mcp-Session-Id`.

use corelane::Options;
use corelane_test_support::messages::{LEGACY, echo, modern, result_text};
use corelane_test_support::{Request, TestServer, on_one_shard_and_two};

use crate::http::http_session::HttpSession;

const UNKNOWN_SESSION: &str = "0123456789abcdef0123456789abcdef";

fn with_query(mut options: Options) -> Options {
    options.http.session_id_query = true;
    options
}

fn get(target: &str) -> Request {
    Request::new("GET", target).field("Accept", "text/event-stream")
}

#[test]
fn session_id_in_query_names_the_session() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_query(options));
        for round in 0..4 {
            let session = HttpSession::initialize(server.address(), LEGACY);
            let target = format!("/mcp?a=b&sessionId={}", session.id());
            let mut client = session.connect();
            let post = Request::post(echo(1, "queried")).target(&target);
            assert_eq!(result_text(&client.exchange(&post).message()), "queried");
            let both = post.field("Mcp-Session-Id", session.id());
            assert_eq!(result_text(&client.exchange(&both).message()), "queried");
            let mut listener = session.connect();
            listener.request_stream(&get(&target));
            server.add_tool(&format!("more-{round}"));
            let id = listener.read_message().0.expect("no event id");
            drop(listener);
            let mut resumed = session.connect();
            resumed.request_stream(&get(&target).field("Last-Event-ID", &id));
            client.exchange(&Request::new("DELETE", &target)).expect_empty_body(204);
            resumed.expect_end_of_stream();
            client.exchange(&get(&target)).expect_error(404, -32600, None);
        }
        server.close();
    });
}

#[test]
fn session_id_differing_from_query_gets_400() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_query(options));
        let session = HttpSession::initialize(server.address(), LEGACY);
        let target = format!("/mcp?sessionId={UNKNOWN_SESSION}");
        let mut client = session.connect();
        for request in [session.post(&echo(1, "hi")), session.get(), session.delete()] {
            let error = client.exchange(&request.target(&target)).expect_error(400, -32600, None);
            assert_eq!(
                error["error"]["message"],
                "Mcp-Session-Id differs from the query parameter sessionId"
            );
        }
        for request in [Request::post(echo(1, "hi")).target(&target), get(&target)] {
            client.exchange(&request).expect_error(404, -32600, None);
        }
        let mut modern_client = server.connect_http();
        let request = Request::modern(&modern(echo(1, "stateless"))).target(&target);
        assert_eq!(result_text(&modern_client.exchange(&request).message()), "stateless");
        assert_eq!(
            result_text(&client.exchange(&session.post(&echo(2, "still here"))).message()),
            "still here"
        );
        drop((client, modern_client));
        server.close();
    });
}

#[test]
fn session_id_in_query_is_ignored_by_default() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let target = format!("/mcp?sessionId={}", session.id());
        let mut client = session.connect();
        let post = Request::post(echo(1, "hi")).target(&target);
        client.exchange(&post).expect_error(400, -32600, Some(1.into()));
        client.exchange(&get(&target)).expect_error(405, -32600, None);
        client.exchange(&Request::new("DELETE", &target)).expect_error(405, -32600, None);
        let other = session.get().target(&format!("/mcp?sessionId={UNKNOWN_SESSION}"));
        session.connect().request_stream(&other);
        drop(client);
        server.close();
    });
}
