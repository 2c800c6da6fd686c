//! What changes while a client is connected: tools, prompts, a watched directory and its files.

use serde_json::{Value, json};

use crate::stage::{Era, Sdk, Transport, run, text};

#[test]
fn python_hears_of_lists_and_of_the_resource_that_it_subscribed_to() {
    expect_changes(Sdk::Python, Era::Legacy);
}

#[test]
fn python_listens_to_a_stream_of_changes() {
    expect_changes(Sdk::Python, Era::Modern);
}

#[test]
fn rust_hears_of_lists_and_of_the_resource_that_it_subscribed_to() {
    expect_changes(Sdk::Rust, Era::Legacy);
}

#[test]
fn rust_listens_to_a_stream_of_changes() {
    expect_changes(Sdk::Rust, Era::Modern);
}

#[test]
fn typescript_hears_of_lists_and_of_the_resource_that_it_subscribed_to() {
    expect_changes(Sdk::TypeScript, Era::Legacy);
}

#[test]
fn typescript_listens_to_a_stream_of_changes() {
    expect_changes(Sdk::TypeScript, Era::Modern);
}

fn expect_changes(sdk: Sdk, era: Era) {
    for &transport in sdk.transports() {
        expect_changes_over(transport, sdk, era);
    }
}

pub(crate) fn expect_changes_over(transport: Transport, sdk: Sdk, era: Era) {
    let folder = tempfile::tempdir().expect("a folder for a moment");
    // A name that is not its own URI.
    std::fs::write(folder.path().join("a note.txt"), "before").expect("the folder is writable");
    let path = folder.path().to_str().expect("a folder with a name in UTF-8");
    let summary = run(sdk, "changes", era.mode(), transport, &["--resources", path]);
    expect_heard(&summary, era);
    expect_files(&summary);
}

fn expect_heard(summary: &Value, era: Era) {
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
        assert_eq!(summary[kind]["offered"], json!([false, true, false]), "{kind}");
        let changed = json!(format!("notifications/{kind}/list_changed"));
        let heard = summary["heard"].as_array().expect("a list");
        assert_eq!(heard.iter().filter(|item| **item == changed).count(), 2, "{heard:?}");
    }
    assert_eq!(text(&summary["tools"]["called"]), "Here for now.");
    let prompt = &summary["prompts"]["called"]["result"]["messages"][0]["content"];
    assert_eq!(prompt["text"], "Here for now.");
}

/// The scripts go on as soon as they have read what they wrote.
fn expect_files(summary: &Value) {
    assert_eq!(summary["file"]["text"], "after");
    let second = summary["file"]["second"].as_str().expect("a URI");
    assert!(second.ends_with("/second.txt"), "{second}");
}
