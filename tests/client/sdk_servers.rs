//! Servers with other SDKs: TypeScript, versions 1 and 2, which `tests/judges/interop/install.sh`
//! installs, and rmcp.

use std::path::{Path, PathBuf};
use std::process::Command;

use corelane::Client;
use corelane::client::{ClientBuilder, ClientErrorKind, EraPreference, Program};
use corelane::model::Revision;
use corelane::testing::block_on;
use corelane_test_support::ListeningProcess;
use serde_json::json;

use super::other_servers::eras;

use crate::CORELANE;

const VERSIONS: [&str; 2] = ["v1", "v2"];

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/interop/typescript/server.mjs")
}

fn packages() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop/node")
}

/// Uses what a server with the TypeScript SDK has.
fn use_typescript(client: ClientBuilder, version: &str, era: EraPreference) {
    let client = client.era(era).connect_blocking().expect("a handshake");
    let server = block_on(client.server()).expect("a server");
    // Version 1 knows the legacy revisions only.
    let expected = match era {
        EraPreference::Legacy(revision) => revision,
        _ if version == "v1" => Revision::LATEST_LEGACY,
        _ => Revision::LATEST,
    };
    assert_eq!(server.revision, expected, "{version} {era:?}");
    let tools = block_on(client.list_tools()).expect("tools");
    assert_eq!(tools.len(), 2, "{tools:?}");
    let result = client.call_tool("echo", &json!({ "text": "hi" })).wait().expect("a result");
    assert_eq!(result.text(), "hi", "{version} {era:?}");
    let failed = client.call_tool("fail", &json!({})).wait().expect("a result");
    assert!(failed.is_error && failed.text().contains("the tool failed"), "{failed:?}");
    let unknown = client.read_resource("test://none").wait().expect_err("no such resource");
    assert!(matches!(unknown.kind(), ClientErrorKind::Rpc { .. }), "{unknown}");
    let resources = block_on(client.list_resources()).expect("resources");
    let read = client.read_resource(&resources[0].uri).wait().expect("contents");
    assert_eq!(read.contents[0].text.as_deref(), Some("a note"));
    let prompt = client.get_prompt("greet", &json!({ "name": "Ada" })).wait().expect("messages");
    assert_eq!(prompt.messages[0].content.as_text(), Some("Greet Ada."));
    block_on(client.ping()).expect("an answer");
    block_on(client.close());
}

#[ignore = "needs the TypeScript SDK: ./test.sh runs it"]
#[test]
fn typescript_sdk_serves_stdio_in_every_era() {
    for (version, era) in
        VERSIONS.into_iter().flat_map(|version| eras().map(move |era| (version, era)))
    {
        let program = Program::new("node").arg(script()).arg(version).arg("stdio");
        let program = program.env("INTEROP_PACKAGES", packages());
        use_typescript(Client::builder(program), version, era);
    }
}

#[ignore = "needs the TypeScript SDK: ./test.sh runs it"]
#[test]
fn typescript_sdk_serves_http_in_every_era() {
    for version in VERSIONS {
        let server = ListeningProcess::start(|port| {
            let mut command = Command::new("node");
            command.arg(script()).arg(version).arg(port.to_string());
            command.env("INTEROP_PACKAGES", packages());
            command
        });
        for era in eras() {
            use_typescript(Client::builder(server.url().as_str()), version, era);
        }
    }
}

#[ignore = "needs the shop of benches/rmcp: ./test.sh runs it"]
#[test]
fn rmcp_serves_http_in_every_era() {
    let program = Path::new(CORELANE).with_file_name("shop_rmcp");
    let server = ListeningProcess::start(|port| {
        let mut command = Command::new(&program);
        command.args([&format!("127.0.0.1:{port}"), ""]);
        command
    });
    for era in eras() {
        let client = Client::builder(server.url().as_str()).era(era);
        let client = client.connect_blocking().expect("a handshake");
        let tools = block_on(client.list_tools()).expect("tools");
        assert!(tools.iter().any(|tool| tool.name == "list_products"), "{tools:?}");
        let listed = client.call_tool("list_products", &json!({})).wait().expect("products");
        assert!(listed.text().contains("kettle"), "{era:?}: {listed:?}");
        let unknown = client.call_tool("none", &json!({})).wait();
        assert!(unknown.map_or(true, |result| result.is_error), "{era:?}");
        block_on(client.ping()).expect("an answer");
        block_on(client.close());
    }
}
