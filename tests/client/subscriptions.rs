//! Notifications of changes.

use corelane::client::{Change, ClientErrorKind, EraPreference, SubscriptionFilter, ToolInfo};
use corelane::model::Revision;
use corelane::testing::block_on;
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

use super::{ERAS, client_of, over_each_transport};

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
fn legacy_subscription_receives_changes_it_asked_for() {
    over_each_transport(|server, client| {
        for (number, era) in ERAS.into_iter().enumerate().skip(2) {
            let client = client().era(era).connect_blocking().unwrap();
            let mut filter = SubscriptionFilter::default().resource("test://one");
            filter.tools_list_changed = true;
            let mut changes = block_on(client.subscribe(&filter)).unwrap();
            assert_eq!(changes.granted(), &filter, "{era:?}");
            client.call_tool("touch", &json!({})).wait().unwrap();
            let change = block_on(changes.next()).unwrap().unwrap();
            assert_eq!(change, Change::Resource { uri: "test://one".into() }, "{era:?}");
            server.add_tool(&format!("added-{number}"));
            let change = block_on(changes.next()).unwrap().unwrap();
            assert_eq!(change, Change::ToolList, "{era:?}");
            // The server notifies of the list all the same; nothing arrives for the resource.
            drop(changes);
            block_on(client.ping()).unwrap();
            block_on(client.close());
        }
    });
}

#[test]
fn watched_list_is_read_again_after_changes() {
    over_each_transport(|server, client| {
        for number in [0, 2] {
            let era = ERAS[number];
            let client = client().era(era).connect_blocking().unwrap();
            let mut watch = block_on(client.watch::<ToolInfo>()).unwrap();
            let first = block_on(watch.next()).unwrap().unwrap();
            for index in 0..2 {
                let name = format!("added-{number}-{index}");
                server.add_tool(&name);
                let tools = block_on(watch.next()).unwrap().unwrap();
                assert!(tools.iter().any(|tool| tool.name == name), "{era:?}");
                assert_eq!(tools.len(), first.len() + index + 1, "{era:?}");
            }
        }
    });
}

#[test]
fn lost_connection_ends_legacy_subscription() {
    let server = TestServer::with_test_tools(tcp_options());
    let client = client_of(&server).era(EraPreference::Legacy(Revision::V2025_11_25));
    let client = client.connect_blocking().unwrap();
    let mut changes = block_on(client.subscribe(&SubscriptionFilter::lists())).unwrap();
    server.close();
    let error = block_on(changes.next()).unwrap().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed);
    assert!(block_on(changes.next()).is_none());
}
