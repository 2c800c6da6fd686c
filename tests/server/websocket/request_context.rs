//! What handlers read of a WebSocket: the header fields of its upgrade, and its client.

use corelane::model::Implementation;
use corelane::{Catalog, ClientImplementation, NoArguments, Tool};
use corelane_test_support::messages::{LEGACY, call, modern, result_text};
use corelane_test_support::websocket::upgrade_request;
use corelane_test_support::{TestServer, WebSocketClient, on_one_shard_and_two, sockets};
use serde_json::json;

/// Fields of the upgrade, the last of which belong to the handshake.
const NAMES: [&str; 5] = ["x-tenant", "Host", "Connection", "Upgrade", "Sec-WebSocket-Key"];

fn describe(
    header: impl Fn(&str) -> Option<String>,
    client: Option<ClientImplementation<'_>>,
) -> String {
    format!("{:?} {:?}", NAMES.map(header), client.map(|client| client.name))
}

/// One tool of each kind that returns the same facts.
fn catalog() -> Catalog {
    let inline = Tool::new("inline").inline(|_: NoArguments, ctx| {
        let header = |name: &str| ctx.request().header(name).map(str::to_owned);
        describe(header, ctx.client_implementation())
    });
    let local = Tool::new("local").local(|_: NoArguments, ctx| async move {
        let header = |name: &str| ctx.request().header(name).map(str::to_owned);
        describe(header, ctx.client_implementation())
    });
    let info = Implementation::new("context", "1");
    Catalog::builder(info).tools([inline, local]).build().expect("the catalog is valid")
}

#[test]
fn handler_reads_headers_of_the_upgrade() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, catalog());
        let request = upgrade_request().field("X-Tenant", "acme").bytes();
        let (_, mut peer) = WebSocketClient::upgrade(sockets::connect(server.address()), &request);
        let headers = r#"[Some("acme"), Some("localhost"), None, None, None]"#;
        let tools = ["inline", "local"];
        for tool in tools {
            let response = peer.exchange(&modern(call(tool, tool, json!({}))));
            assert_eq!(result_text(&response), format!(r#"{headers} Some("test")"#));
        }
        let mut peer = peer.handshake(LEGACY);
        for tool in tools {
            let response = peer.exchange(&call(tool, tool, json!({})));
            assert_eq!(result_text(&response), format!(r#"{headers} Some("test")"#));
        }
        drop(peer);
        server.close();
    });
}
