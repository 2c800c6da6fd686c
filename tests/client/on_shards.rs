//! Clients on the shards of a server: handlers that call other servers.

use std::sync::Arc;

use corelane::client::{ClientPool, block_on};
use corelane::model::Implementation;
use corelane::{
    CallToolResult, Catalog, Client, HandlerError, Options, RequestContext, Server, Tool,
};
use corelane_test_support::{TestServer, over_each_ring, tcp_options};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The arguments of the tool `proxy`.
#[derive(Deserialize, JsonSchema)]
struct Proxied {
    target: String,
    tool: String,
    arguments: Value,
}

/// A tool that calls a tool of another server and returns its text.
fn proxy(pool: Arc<ClientPool>) -> Tool {
    Tool::new("proxy").local(move |call: Proxied, ctx: RequestContext| {
        let pool = Arc::clone(&pool);
        async move {
            let call = pool.call_tool(call.target.as_str(), &call.tool, &call.arguments);
            let result = ctx.run_until_cancelled(call.into_future()).await?;
            let result =
                result.map_err(|error| HandlerError::tool(format!("{:?}", error.kind())))?;
            Ok::<_, HandlerError>(CallToolResult::text(result.text()))
        }
    })
}

/// Starts a server with the tool `proxy`, whose clients are on its shards.
fn proxy_server(options: Options) -> TestServer {
    let pool = Arc::new(ClientPool::on_shards());
    let catalog = Catalog::builder(Implementation::new("proxy", "1.0.0"));
    let catalog = catalog.tool(proxy(Arc::clone(&pool))).build().unwrap();
    TestServer::with_server(|_| Server::builder(catalog).options(options).client_pool(&*pool))
}

fn target_of(server: &TestServer) -> String {
    format!("tcp://{}", server.tcp())
}

fn proxied(server: &TestServer, tool: &str, arguments: &Value) -> Value {
    json!({ "target": target_of(server), "tool": tool, "arguments": arguments })
}

#[test]
fn local_handler_calls_server_on_its_shard() {
    over_each_ring(tcp_options(), |options| {
        let upstream = TestServer::start(tcp_options());
        let server = proxy_server(options);
        let client = Client::builder(target_of(&server).as_str()).connect_blocking().unwrap();
        for number in 0..3 {
            let echo = json!({ "message": number.to_string() });
            let call = client.call_tool("proxy", &proxied(&upstream, "echo", &echo));
            assert_eq!(block_on(call).unwrap().text(), number.to_string());
        }
        drop(client);
        server.close();
        let counters = upstream.close();
        assert_eq!((counters.connections.accepted, counters.requests.tools_call), (1, 3));
    });
}
