//! Bundles of `corelane mcpb` judged by the official tool (npm `@anthropic-ai/mcpb`), which
//! validates and unpacks them, and by a client of the unpacked server.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use corelane_test_support::run_program;
use serde_json::{Value, json};

use crate::CORELANE;

/// Runs the tool with these arguments, which must succeed.
fn mcpb(arguments: &[&str]) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bundle");
    assert!(
        folder.join("installed").is_file(),
        "the tool is not in {}: run tests/judges/bundle/install.sh (./test.sh does)",
        folder.display()
    );
    let mut command = Command::new(folder.join("node_modules/.bin/mcpb"));
    let output = command.args(arguments).output().expect("the tool starts");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "mcpb {arguments:?}: {text}");
    text
}

const CONFIG: &str = r#"
server.name = "shop"
server.title = "Shop"
server.description = "Sells things."
server.version = "1.0.2"
card.name = "com.example/shop"
skills.directory = "skills"

[[tool]]
name = "greet"
description = "Greets the caller."
command = ["./greet.sh", "${SHOP_GREETING}"]
"#;

#[ignore = "needs npm: ./test.sh installs the tool and runs the test"]
#[test]
fn bundle_is_valid_and_its_server_works() {
    let top = tempfile::tempdir().expect("a folder");
    let source = top.path().join("shop");
    fs::create_dir_all(source.join("skills/buy")).expect("a folder");
    fs::write(source.join("corelane.toml"), CONFIG).expect("a file");
    let skill = "---\nname: buy\ndescription: Buys things.\n---\nCall greet first.\n";
    fs::write(source.join("skills/buy/SKILL.md"), skill).expect("a file");
    fs::write(source.join(".secret"), "not packed").expect("a file");
    let script = source.join("greet.sh");
    fs::write(&script, "#!/bin/sh\necho \"$1, friend\"\n").expect("a file");
    let mode = Command::new("chmod").arg("+x").arg(&script).status().expect("chmod starts");
    assert!(mode.success());
    let path = |name: &str| top.path().join(name).to_str().expect("UTF-8").to_owned();
    let (config, bundle, unpacked) =
        (path("shop/corelane.toml"), path("shop.mcpb"), path("unpacked"));
    let packed = Command::new(CORELANE)
        .args(["mcpb", "--config", &config, "--output", &bundle])
        .env("SHOP_GREETING", "Hello")
        .output()
        .expect("corelane starts");
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));

    mcpb(&["unpack", &bundle, &unpacked]);
    mcpb(&["validate", &format!("{unpacked}/manifest.json")]);
    assert!(mcpb(&["info", &bundle]).contains("shop.mcpb"));
    let manifest = fs::read(format!("{unpacked}/manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    assert_eq!(
        manifest["tools"],
        json!([{ "name": "greet", "description": "Greets the caller." }])
    );
    assert_eq!(manifest["user_config"]["SHOP_GREETING"]["sensitive"], true);
    assert!(!Path::new(&unpacked).join("config/.secret").exists());

    // As a host starts it.
    let server = &manifest["server"]["mcp_config"];
    let place = |text: &Value| text.as_str().expect("text").replace("${__dirname}", &unpacked);
    let arguments: Vec<String> =
        server["args"].as_array().expect("arguments").iter().map(place).collect();
    let target = format!("stdio:{} {}", place(&server["command"]), arguments.join(" "));
    let greeted =
        run_program(CORELANE, ["call", &target, "greet", "--env", "SHOP_GREETING=Welcome"]);
    assert_eq!(greeted.stdout, "Welcome, friend\n", "{}", greeted.stderr);
    let skill = run_program(
        CORELANE,
        ["skill", &target, "skill://buy/SKILL.md", "--env", "SHOP_GREETING=Welcome"],
    );
    assert_eq!(skill.stdout, "Call greet first.\n", "{}", skill.stderr);
}
