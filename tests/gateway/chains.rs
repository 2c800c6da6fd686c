//! A gateway behind a gateway: upstreams that are addresses, over each transport.

use serde_json::json;

use crate::client::{Client, all_inputs};
use crate::gateway::{Gateway, KINDS};

/// Runs `test` with a gateway in front of an address of another one, whose upstream is the
/// fixture.
fn behind_addresses(share: &str, test: impl Fn(&Gateway)) {
    for era in ["legacy", "modern"] {
        let last = Gateway::with_keys(&format!("share = \"{share}\""), &["--era", era]);
        for url in [
            format!("http://{}/mcp", last.http),
            format!("ws://{}/mcp/ws", last.http),
            format!("tcp://{}", last.tcp),
        ] {
            eprintln!("{url}, {era}");
            let declaration = format!("[[upstream]]\nname = \"next\"\nurl = \"{url}\"\n");
            let first = Gateway::declared(&declaration, &[]);
            test(&first);
            first.end();
        }
        last.end();
    }
}

#[test]
fn calls_and_reads_pass_through_addresses() {
    behind_addresses("auto", |gateway| {
        for kind in KINDS {
            let mut client = gateway.client(kind);
            assert!(client.tools().len() >= 19);
            assert_eq!(client.text("echo", json!({"message": "hello"})), "hello");
            let result = client.result("resources/read", json!({"uri": "fixture://item/7"}));
            assert_eq!(result["contents"][0]["text"], "text of fixture://item/7");
            let params = json!({"name": "greet", "arguments": {"name": "Ada"}});
            let result = client.result("prompts/get", params);
            assert_eq!(result["messages"][0]["content"]["text"], "Greet Ada.");
            let params = json!({
                "ref": {"type": "ref/prompt", "name": "greet"},
                "argument": {"name": "name", "value": "a"},
            });
            let result = client.result("completion/complete", params);
            assert_eq!(result["completion"]["values"], json!(["ada", "alan"]), "{result}");
            let params = json!({
                "name": "progress", "arguments": {}, "_meta": {"progressToken": "mine"},
            });
            client.result("tools/call", params);
            assert_eq!(client.notifications.len(), 3, "{kind:?}: {:?}", client.notifications);
            let error = client.call("error", json!({}));
            assert_eq!(error["error"]["code"], -32050, "{error}");
        }
    });
}

#[test]
fn input_requests_pass_through_addresses() {
    behind_addresses("auto", |gateway| {
        for kind in KINDS {
            for tool in ["ask", "sample", "roots"] {
                let mut client = Client::with_capabilities(gateway, kind, all_inputs());
                client.text(tool, json!({"rounds": 2}));
                assert_eq!(
                    client.input_requests.len(),
                    2,
                    "{kind:?}, {tool}: {:?}",
                    client.input_requests
                );
            }
        }
    });
}

#[test]
fn changes_pass_through_addresses() {
    behind_addresses("all", |gateway| {
        for kind in KINDS {
            let mut client = gateway.client(kind);
            client.listen(&[]);
            let before = client.tools().len();
            client.text("change", json!({}));
            client.notification("notifications/tools/list_changed");
            assert_eq!(client.tools().len(), before + 1, "{kind:?}");
        }
    });
}
