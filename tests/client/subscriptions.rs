//! Notifications of changes.

use corelane::client::{Change, ClientErrorKind, EraPreference, SubscriptionFilter};
use corelane::model::Revision;
use corelane::testing::block_on;
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

use super::{client_of, over_each_transport};

#[test]
fn subscription_receives_changes_it_asked_for() {
    over_each_transport(|server, client| {
        let client = client().connect_blocking().unwrap();
        let mut filter = SubscriptionFilter::default().resource("test://one");
        filter.tools_list_changed = true;
        let mut changes = block_on(client.subscribe(&filter)).unwrap();
        assert_eq!(changes.granted(), &filter);
        client.call_tool("touch", &json!({})).wait().unwrap();
        let change = block_on(changes.next()).unwrap().unwrap();
        assert_eq!(change, Change::Resource { uri: "test://one".into() });
        server.add_tool("added");
        assert_eq!(block_on(changes.next()).unwrap().unwrap(), Change::ToolList);
        let tools = block_on(client.list_tools()).unwrap();
        assert!(tools.iter().any(|tool| tool.name == "added"));
    });
}

#[test]
fn drained_server_ends_subscription() {
    over_each_transport(|server, client| {
        let client = client().connect_blocking().unwrap();
        let mut changes = block_on(client.subscribe(&SubscriptionFilter::lists())).unwrap();
        server.drain();
        let end = block_on(changes.next());
        assert!(end.is_none_or(|end| end.is_err()), "the subscription goes on");
        assert!(block_on(changes.next()).is_none());
    });
}

#[test]
fn legacy_server_has_no_subscriptions() {
    let server = TestServer::with_test_tools(tcp_options());
    let client = client_of(&server).era(EraPreference::Legacy(Revision::V2025_11_25));
    let client = client.connect_blocking().unwrap();
    let error = block_on(client.subscribe(&SubscriptionFilter::lists())).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Unsupported);
}
