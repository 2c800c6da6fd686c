//! Change notifications: tools, prompts, and resources of a watched directory.

use serde_json::{Value, json};

use crate::interop::sdk::{Era, Sdk, Transport, run, text};

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_receives_list_changed_and_resource_updated() {
    expect_changes(Sdk::Python, Era::Legacy);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_receives_changes_on_subscriptions_listen() {
    expect_changes(Sdk::Python, Era::Modern);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn rust_receives_list_changed_and_resource_updated() {
    expect_changes(Sdk::Rust, Era::Legacy);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn rust_receives_changes_on_subscriptions_listen() {
    expect_changes(Sdk::Rust, Era::Modern);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_receives_list_changed_and_resource_updated() {
    expect_changes(Sdk::TypeScript, Era::Legacy);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_receives_changes_on_subscriptions_listen() {
    expect_changes(Sdk::TypeScript, Era::Modern);
}

fn expect_changes(sdk: Sdk, era: Era) {
    for &transport in sdk.transports() {
        expect_changes_over(transport, sdk, era);
    }
}

pub(crate) fn expect_changes_over(transport: Transport, sdk: Sdk, era: Era) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // A name that needs percent-encoding in its URI.
    std::fs::write(dir.path().join("a note.txt"), "before").expect("the directory is writable");
    let path = dir.path().to_str().expect("the path is UTF-8");
    let summary = run(sdk, "changes", era.mode(), transport, &["--resources", path]);
    expect_notifications(&summary, era);
    expect_files(&summary);
}

fn expect_notifications(summary: &Value, era: Era) {
    let uri = summary["uri"].as_str().expect("the file is listed");
    assert!(uri.ends_with("/a%20note.txt"), "{uri}");
    let honored = match era {
        Era::Legacy => json!({}),
        Era::Modern => json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": true,
            "resourceSubscriptions": [uri],
        }),
    };
    assert_eq!(summary["honored"], honored);
    for kind in ["tools", "prompts"] {
        assert_eq!(summary[kind]["listed"], json!([false, true, false]), "{kind}");
        let changed = json!(format!("notifications/{kind}/list_changed"));
        let received = summary["notifications"].as_array().expect("a list");
        assert_eq!(received.iter().filter(|item| **item == changed).count(), 2, "{received:?}");
    }
    assert_eq!(text(&summary["tools"]["called"]), "Here for now.");
    let prompt = &summary["prompts"]["called"]["result"]["messages"][0]["content"];
    assert_eq!(prompt["text"], "Here for now.");
}

fn expect_files(summary: &Value) {
    assert_eq!(summary["file"]["text"], "after");
    let second = summary["file"]["second"].as_str().expect("a URI");
    assert!(second.ends_with("/second.txt"), "{second}");
}
