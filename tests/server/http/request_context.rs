//! What handlers read of their HTTP request: headers, session, peer, `_meta`.

use corelane::model::Implementation;
use corelane::{Catalog, ClientImplementation, NoArguments, Tool};
use corelane_test_support::messages::{LEGACY, call, modern, result_text};
use corelane_test_support::{Request, TestServer, http_options, on_one_shard_and_two};
use serde_json::json;

use crate::http::http_session::HttpSession;

/// One tool of each kind that returns the same facts of its request.
fn catalog() -> Catalog {
    let inline = Tool::new("inline").inline(|_: NoArguments, ctx| {
        let request = ctx.request();
        let id = request.id().to_string();
        let meta = request.meta("com.example/tag").and_then(|tag| tag.as_str().map(str::to_owned));
        let header = request.header("X-Tenant").map(str::to_owned);
        let session = request.session_id();
        format!("{id} {} {meta:?} {header:?} {session:?}", request.name())
    });
    let facts = |request: &corelane::RequestInfo| {
        let meta = request.meta("com.example/tag").and_then(|tag| tag.as_str());
        let (header, session) = (request.header("X-Tenant"), request.session_id());
        let id = request.id().to_string();
        format!("{id} {} {meta:?} {header:?} {session:?}", request.name())
    };
    let local = Tool::new("local").local(move |_: NoArguments, ctx| async move {
        ctx.sleep(std::time::Duration::from_millis(1)).await?;
        Ok(facts(ctx.request()))
    });
    let blocking = Tool::new("blocking").blocking(move |_: NoArguments, ctx| facts(ctx.request()));
    let peer = Tool::new("peer").inline(|_: NoArguments, ctx| {
        let addr = ctx.request().peer_addr().map(|addr| addr.to_string());
        format!("{} {}", ctx.request().transport(), addr.unwrap_or_default())
    });
    let client = |client: Option<ClientImplementation<'_>>| {
        client.map_or_else(String::new, |it| format!("{} {} {:?}", it.name, it.version, it.title))
    };
    let inline_client = Tool::new("inline_client")
        .inline(move |_: NoArguments, ctx| client(ctx.client_implementation()));
    let local_client = Tool::new("local_client")
        .local(move |_: NoArguments, ctx| async move { client(ctx.client_implementation()) });
    let blocking_client = Tool::new("blocking_client")
        .blocking(move |_: NoArguments, ctx| client(ctx.client_implementation()));
    let info = Implementation::new("context", "1");
    Catalog::builder(info)
        .tools([inline, local, blocking, peer])
        .tools([inline_client, local_client, blocking_client])
        .build()
        .expect("the catalog is valid")
}

/// A call with a member of `_meta` that the protocol does not define.
fn tagged_call(tool: &str) -> serde_json::Value {
    let mut message = call(7, tool, json!({}));
    message["params"]["_meta"] = json!({ "com.example/tag": "blue" });
    message
}

#[test]
fn handler_reads_headers_and_meta() {
    let server = TestServer::with_catalog(http_options(), catalog());
    let mut client = server.connect_http();
    for tool in ["inline", "local", "blocking"] {
        let request = Request::modern(&modern(tagged_call(tool))).field("x-tenant", "acme");
        let response = client.exchange(&request).message();
        let text = format!("7 {tool} Some(\"blue\") Some(\"acme\") None");
        assert_eq!(result_text(&response), text);
    }
    server.close();
}

#[test]
fn handler_reads_session_id_on_every_shard() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, catalog());
        let session = HttpSession::initialize(server.address(), LEGACY);
        let id = session.id().to_owned();
        for _ in 0..8 {
            let mut client = session.connect();
            for tool in ["inline", "local", "blocking"] {
                let request = session.post(&tagged_call(tool)).field("X-Tenant", "acme");
                let response = client.exchange_to_end(&request).1;
                let text = format!("7 {tool} Some(\"blue\") Some(\"acme\") Some({id:?})");
                assert_eq!(result_text(&response), text);
            }
            let peer = client.socket().local_addr().unwrap();
            let response = client.exchange(&session.post(&tagged_call("peer"))).message();
            assert_eq!(result_text(&response), format!("http {peer}"));
        }
        server.close();
    });
}

/// Tools that return the `Implementation` of the client.
const CLIENT_TOOLS: [&str; 3] = ["inline_client", "local_client", "blocking_client"];

#[test]
fn handler_reads_client_of_session_on_every_shard() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, catalog());
        let session = HttpSession::initialize(server.address(), LEGACY);
        for _ in 0..8 {
            let mut client = session.connect();
            for tool in CLIENT_TOOLS {
                let request = session.post(&call(7, tool, json!({})));
                let response = client.exchange_to_end(&request).1;
                assert_eq!(result_text(&response), "test 1 None");
            }
        }
        server.close();
    });
}

#[test]
fn handler_reads_client_of_each_modern_request() {
    let server = TestServer::with_catalog(http_options(), catalog());
    let mut client = server.connect_http();
    for tool in CLIENT_TOOLS {
        let mut message = modern(call(7, tool, json!({})));
        let mut text = |client_info| {
            message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = client_info;
            let response = client.exchange(&Request::modern(&message)).message();
            result_text(&response).to_owned()
        };
        let client_info = json!({ "name": "a", "version": "2", "title": "A" });
        assert_eq!(text(client_info), r#"a 2 Some("A")"#);
        assert_eq!(text(json!({ "name": "a", "version": 2 })), "");
        assert_eq!(text(json!(null)), "");
    }
    drop(client);
    server.close();
}
