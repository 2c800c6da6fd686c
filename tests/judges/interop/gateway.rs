//! The official clients through `corelane gateway`, in front of servers with the SDKs: each client
//! in both eras, each server in both eras, over standard streams.

use std::path::Path;
use std::process::Command;

use corelane_test_support::ServeProcess;
use serde_json::json;

use super::sdk::{Era, LEGACY, MODERN, Sdk, each, node_packages, rust_program, summary_of, text};
use crate::CORELANE;

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn clients_call_typescript_upstream() {
    let script = script("typescript/greeting_server.mjs");
    let packages = format!("INTEROP_PACKAGES={}", node_packages().display());
    #[expect(clippy::disallowed_methods, reason = "the gateway has no environment, so no path")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let node = std::env::split_paths(&path).map(|dir| dir.join("node")).find(|it| it.exists());
    let node = node.expect("Node.js in the path").display().to_string();
    expect_greetings(&["/usr/bin/env", &packages, &node, &script]);
}

#[ignore = "needs Node.js and FastMCP: ./test.sh installs them and runs it"]
#[test]
fn clients_call_fastmcp_upstream() {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other_servers/python/bin/python");
    assert!(python.exists(), "run loadtest/tests/install.sh (./test.sh does)");
    // No bytecode in the source directory.
    expect_greetings(&[&python.display().to_string(), "-B", &script("python/greeting_server.py")]);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn clients_call_rmcp_upstream() {
    expect_greetings(&[&rust_program().display().to_string(), "serve"]);
}

fn script(name: &str) -> String {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/interop");
    scripts.join(name).display().to_string()
}

/// Every client lists the tools of the upstream `program`, calls one, and gives another its name.
fn expect_greetings(program: &[&str]) {
    for upstream in [MODERN, LEGACY] {
        let arguments = [&["--era", upstream, "--"], program].concat();
        let gateway = ServeProcess::gateway(CORELANE, &arguments);
        for sdk in [Sdk::TypeScript, Sdk::Python, Sdk::Rust] {
            for (era, revision) in [(Era::Modern, MODERN), (Era::Legacy, LEGACY)] {
                eprintln!("{sdk:?}, {era:?}, upstream {upstream}");
                let mut client = sdk.client();
                client.args(["greeting", era.mode(), &gateway.url("/mcp")]);
                expect_greeting(client, revision);
            }
        }
    }
}

fn expect_greeting(client: Command, revision: &str) {
    let (summary, _) = summary_of(client);
    assert_eq!(summary["revision"], revision, "{summary:#}");
    assert_eq!(summary["tools"], json!(["echo", "greet"]), "{summary:#}");
    assert_eq!(text(&summary["echo"]), "ünï ☃");
    assert_eq!(text(&summary["greet"]), "Hello, Ada!");
    assert_eq!(each(&summary["requests"], "method"), ["elicitation/create"]);
    assert_eq!(summary["requests"][0]["params"]["message"], "Who are you?");
}
