//! Servers of others over their standard streams, which `loadtest/tests/install.sh` installs.

use std::path::{Path, PathBuf};

use corelane::Client;
use corelane::client::{EraPreference, Program};
use corelane::model::{Revision, Root};
use corelane::testing::block_on;
use serde_json::json;

/// Returns a path in the folder that install.sh fills.
fn installed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("other_servers").join(path)
}

/// Every revision, and the choice of the server.
fn eras() -> impl Iterator<Item = EraPreference> {
    let legacy = [
        Revision::V2025_11_25,
        Revision::V2025_06_18,
        Revision::V2025_03_26,
        Revision::V2024_11_05,
    ];
    std::iter::once(EraPreference::Auto).chain(legacy.map(EraPreference::Legacy))
}

#[ignore = "needs server-everything: ./test.sh runs it"]
#[test]
fn server_everything_is_called_in_every_era() {
    for era in eras() {
        let index = "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let client = Client::builder(Program::new("node").arg(installed(index)).arg("stdio"))
            .era(era)
            .on_roots(async || Ok(vec![Root { uri: "file:///srv".into(), name: None }]))
            .connect_blocking()
            .unwrap();
        let tools = block_on(client.list_tools()).unwrap();
        assert!(tools.iter().any(|tool| tool.name == "echo"), "{tools:?}");
        let result = client.call_tool("echo", &json!({ "message": "hi" })).wait().unwrap();
        assert_eq!(result.text(), "Echo: hi", "{era:?}");
        let result = client.call_tool("get-sum", &json!({ "a": 2, "b": "x" })).wait();
        assert!(result.map_or(true, |result| result.is_error), "{era:?}");
        let resources = block_on(client.list_resources()).unwrap();
        let read = client.read_resource(&resources[0].uri).wait().unwrap();
        assert_eq!(read.contents[0].uri, resources[0].uri);
        let prompts = block_on(client.list_prompts()).unwrap();
        let simple = prompts.iter().find(|prompt| prompt.arguments.is_empty()).unwrap();
        let prompt = client.get_prompt(&simple.name, &json!({})).wait().unwrap();
        assert_eq!(prompt.messages[0].role, "user");
        block_on(client.ping()).unwrap();
        block_on(client.close());
    }
}

#[ignore = "needs FastMCP: ./test.sh runs it"]
#[test]
fn fastmcp_server_is_called_in_every_era() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("loadtest/tests/other_servers/fastmcp_server.py");
    for era in eras() {
        let program = Program::new(installed("python/bin/python")).arg(&script);
        let client = Client::builder(program).era(era).connect_blocking().unwrap();
        let result = client.call_tool("add", &json!({ "a": 2, "b": 3 })).wait().unwrap();
        assert_eq!(result.text(), "5", "{era:?}");
        if let Some(content) = result.structured_content {
            assert_eq!(content, json!({ "result": 5 }));
        }
        block_on(client.close());
    }
}
