//! A server whose tools change the catalog, and helpers for subscriptions.

use corelane::{
    CallToolResult, Catalog, CatalogBuilder, CatalogError, HandlerError, NoArguments, Options,
    Resource, Tool,
};
use corelane_protocol::model::Implementation;
use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{MODERN, listen, modern, request};
use corelane_test_support::test_tools::plain_tool;
use corelane_test_support::{LineClient, TestServer, tcp_options};
use serde_json::{Value, json};

/// Arguments of tools that add a tool or update a resource.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NameArguments {
    /// The name of the tool, or the URI of the resource.
    name: String,
}

/// Starts a server with `shards` shards.
pub(crate) fn start_server(shards: u16, adjust: impl FnOnce(&mut Options)) -> TestServer {
    let mut options = tcp_options();
    options.engine.shards = Some(shards);
    adjust(&mut options);
    TestServer::with_catalog(options, catalog())
}

/// Connects and makes the handshake in `revision`, and waits until the server has handled it.
pub(crate) fn connect_legacy(server: &TestServer, revision: &str) -> LineClient {
    let mut client = server.connect_initialized(revision);
    client.ping();
    client
}

/// Tools that change the catalog or wait, two resources, and no prompts.
fn catalog() -> Catalog {
    let builder = Catalog::builder(Implementation::new("subscriptions", "1.0.0")).tools([
        Tool::new("grow").local(|NameArguments { name }: NameArguments, ctx| async move {
            ctx.update_catalog(|catalog| catalog.tool(plain_tool(name)))
                .await
                .map_err(handler_error)?;
            Ok(CallToolResult::text("grown"))
        }),
        Tool::new("grow-aside").blocking(|NameArguments { name }: NameArguments, ctx| {
            ctx.update_catalog(|catalog| catalog.tool(plain_tool(name))).map_err(handler_error)?;
            Ok(CallToolResult::text("grown"))
        }),
        Tool::new("touch").local(|NameArguments { name }: NameArguments, ctx| async move {
            // Several calls in one turn cause one notification.
            for _ in 0..100 {
                ctx.notify_resource_updated(&name);
            }
            Ok(CallToolResult::text("touched"))
        }),
        Tool::new("touch-aside").blocking(|NameArguments { name }: NameArguments, ctx| {
            ctx.notify_resource_updated(&name);
            Ok(CallToolResult::text("touched"))
        }),
        Tool::new("break").local(|NoArguments {}, ctx| async move {
            ctx.update_catalog(|_| panic!("on purpose")).await.map_err(handler_error)?;
            Ok(CallToolResult::text("not reached"))
        }),
        Tool::new("hold-a-thread").blocking(|NoArguments {}, ctx| {
            ctx.progress(1.0, None, None);
            while !ctx.is_cancelled() {
                std::thread::yield_now();
            }
            Ok(CallToolResult::text("let go"))
        }),
        Tool::new("until-cancelled").local(|NoArguments {}, ctx| async move {
            ctx.cancelled().await;
            Ok(CallToolResult::text("cancelled"))
        }),
    ]);
    add_resources(builder).build().expect("valid catalog")
}

/// Adds `test://one` and `test://two`.
fn add_resources(builder: CatalogBuilder) -> CatalogBuilder {
    let resource = |uri: &'static str| Resource::new(uri, uri).text("text");
    builder.resources([resource("test://one"), resource("test://two")])
}

#[expect(clippy::needless_pass_by_value, reason = "signature required by `map_err`")]
fn handler_error(error: CatalogError) -> HandlerError {
    HandlerError::tool(error.to_string())
}

/// Returns the subscription id in the `_meta` of a notification.
pub(crate) fn subscription_id(message: &Value) -> &Value {
    &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
}

/// Sends `subscriptions/listen` and returns the acknowledged filter.
pub(crate) fn open_subscription(
    client: &mut LineClient,
    id: impl Into<Value>,
    filter: Value,
) -> Value {
    let id = id.into();
    let mut message = client.exchange(listen(id.clone(), filter));
    expect_valid(MODERN, &message, None);
    assert_eq!(message["method"], "notifications/subscriptions/acknowledged", "{message}");
    assert_eq!(subscription_id(&message), &id, "{message}");
    message["params"]["notifications"].take()
}

/// Reads a notification of this method and subscription.
pub(crate) fn expect_notification(
    client: &mut LineClient,
    method: &str,
    id: impl Into<Value>,
) -> Value {
    let message = client.receive();
    expect_valid(MODERN, &message, None);
    assert_eq!(message["method"], method, "{message}");
    assert_eq!(subscription_id(&message), &id.into(), "{message}");
    message
}

/// Returns the names of the tools in `tools/list`.
pub(crate) fn list_tools(client: &mut LineClient) -> Vec<String> {
    let response = client.exchange(modern(request("list", "tools/list", json!({}))));
    let tools = response["result"]["tools"].as_array().unwrap_or_else(|| panic!("{response}"));
    tools.iter().filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect()
}

/// Asserts that the next message is the response to a new request.
pub(crate) fn expect_no_message(client: &mut LineClient) {
    let response = client.exchange(modern(request("no-message", "server/discover", json!({}))));
    assert_eq!(response["id"], "no-message", "{response}");
}

pub(crate) const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
pub(crate) const RESOURCE_UPDATED: &str = "notifications/resources/updated";
