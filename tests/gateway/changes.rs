//! Changes of an upstream reach the clients: of its lists, and of resources that they follow.

use serde_json::json;

use crate::gateway::{Gateway, KINDS};

/// Calls are shared, so that the upstream whose lists are followed is the one that changes.
fn gateways() -> impl Iterator<Item = Gateway> {
    let eras = ["2025-06-18", "legacy", "modern"].into_iter();
    eras.map(|era| Gateway::with_keys("share = \"all\"", &["--era", era]))
}

#[test]
fn changed_tools_are_notified_and_listed() {
    for gateway in gateways() {
        for (index, kind) in KINDS.into_iter().enumerate() {
            let mut client = gateway.client(kind);
            client.listen(&[]);
            assert_eq!(client.text("change", json!({})), "changed");
            client.notification("notifications/tools/list_changed");
            let added = format!("added_{}", index + 1);
            let tools = client.tools();
            assert!(tools.contains(&added), "{kind:?}: {tools:?}");
            assert_eq!(client.text(&added, json!({})), added);
        }
        gateway.end();
    }
}

#[test]
fn change_of_one_client_is_notified_to_all() {
    for gateway in gateways() {
        let mut clients = KINDS.map(|kind| gateway.client(kind));
        for client in &mut clients {
            client.listen(&[]);
        }
        assert_eq!(gateway.client(KINDS[0]).text("change", json!({})), "changed");
        for client in &mut clients {
            client.notification("notifications/tools/list_changed");
            assert!(client.tools().contains(&"added_1".to_owned()));
        }
        gateway.end();
    }
}

#[test]
fn unchanged_lists_are_not_notified() {
    for gateway in gateways() {
        let mut clients = KINDS.map(|kind| gateway.client(kind));
        for client in &mut clients {
            client.listen(&[]);
        }
        let mut changer = gateway.client(KINDS[0]);
        // The fixture notifies although its prompts are the same.
        let arguments = json!({"kind": "prompts"});
        assert_eq!(changer.text("change", arguments), "changed");
        let lists = changer.state()["lists"].as_u64().expect("a number");
        while changer.state()["lists"].as_u64().expect("a number") == lists {}
        assert_eq!(changer.text("change", json!({})), "changed");
        for client in &mut clients {
            client.notification("notifications/tools/list_changed");
            assert!(client.notifications.is_empty(), "{:?}", client.notifications);
        }
        gateway.end();
    }
}

#[test]
fn updates_of_resources_reach_their_subscribers() {
    let updated = "notifications/resources/updated";
    for gateway in gateways() {
        for kind in KINDS {
            let mut client = gateway.client(kind);
            let mut other = gateway.client(kind);
            client.listen(&["fixture://two"]);
            other.listen(&["fixture://three"]);
            let is_known = |state: serde_json::Value| {
                let text = state["subscriptions"].to_string();
                text.contains("fixture://two") && text.contains("fixture://three")
            };
            while !is_known(client.state()) {}
            client.text("touch", json!({"uri": "fixture://one"}));
            client.text("touch", json!({"uri": "fixture://three"}));
            client.text("touch", json!({"uri": "fixture://two"}));
            let notification = client.notification(updated);
            assert_eq!(notification["params"]["uri"], "fixture://two", "{notification}");
            let notification = other.notification(updated);
            assert_eq!(notification["params"]["uri"], "fixture://three", "{notification}");
            client.end_session(&gateway);
            other.end_session(&gateway);
            // Without subscribers the upstream is not asked either.
            let mut last = gateway.client(kind);
            while last.state()["subscriptions"].to_string().contains("fixture://t") {}
        }
        gateway.end();
    }
}

#[test]
fn ended_subscription_of_resource_is_opened_again() {
    let gateway = Gateway::with_keys("share = \"all\"", &["--era", "modern"]);
    for kind in KINDS {
        let mut client = gateway.client(kind);
        client.listen(&["fixture://two"]);
        let is_known =
            |state: serde_json::Value| state["subscriptions"].to_string().contains("fixture://two");
        while !is_known(client.state()) {}
        assert_eq!(client.text("end_listens", json!({})), "ended");
        // It may have changed meanwhile.
        let notification = client.notification("notifications/resources/updated");
        assert_eq!(notification["params"]["uri"], "fixture://two", "{notification}");
        while !is_known(client.state()) {}
        client.text("touch", json!({"uri": "fixture://two"}));
        client.notification("notifications/resources/updated");
        client.end_session(&gateway);
        let mut last = gateway.client(kind);
        while is_known(last.state()) {}
    }
    gateway.end();
}
