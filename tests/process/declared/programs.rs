//! `--tools DIR`: programs of a folder as tools.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::folder::{DeclaredServer, Folder};

const GREET: &str = "#!/bin/sh
# corelane: description = \"Greets somebody.\"
# corelane: input = { argument = \"name\" }
# corelane: [arguments.name]
# corelane: type = \"string\"
echo \"hello $(cat)\"
";

/// A folder with the program `greet`.
fn folder() -> Folder {
    let folder = Folder::new("");
    folder.write_program("tools/greet.sh", GREET);
    folder
}

fn server() -> DeclaredServer {
    let folder = folder();
    let tools = folder.text_path("tools");
    DeclaredServer::start(folder, &["--tools", &tools])
}

#[test]
fn programs_come_and_go_while_serving() {
    let server = server();
    let mut list = server.subscribe();
    assert_eq!(list.tools(), ["greet"]);
    assert_eq!(list.call("greet", json!({"name": "Ada"})), "hello Ada\n");
    server.folder.write_program("tools/date", "#!/bin/sh\necho today\n");
    list.wait_for_tools();
    assert_eq!(list.call("date", json!({})), "today\n");
    assert_eq!(list.call("greet", json!({"name": "Bob"})), "hello Bob\n");
    fs::remove_file(server.folder.path("tools/greet.sh")).expect("program is removed");
    list.wait_for_tools();
    assert_eq!(list.tools(), ["date"]);
    assert_eq!(list.call("date", json!({})), "today\n");
}

#[test]
fn changed_description_of_program_is_followed() {
    let server = server();
    let mut list = server.subscribe();
    server.folder.write("tools/greet.toml", "description = \"From a file beside it.\"\n");
    list.wait_for_tools();
    let tools = list.request("tools/list", json!({}));
    assert_eq!(tools["result"]["tools"][0]["description"], "From a file beside it.");
    let path = server.folder.path("tools/greet.sh");
    fs::set_permissions(path, Permissions::from_mode(0o644)).expect("mode is set");
    list.wait_for_tools();
    assert!(list.tools().is_empty());
}

#[test]
fn broken_program_is_logged_and_others_stay() {
    let mut server = server();
    let mut list = server.subscribe();
    server.folder.write_program("tools/broken", "#!/bin/sh\n# corelane: descripton = \"x\"\n");
    let line = server.process.wait_for(|line| line.contains("broken"));
    assert!(line.contains("tools/broken:2:13: ") && line.contains("descripton"), "{line}");
    assert_eq!(list.call("greet", json!({"name": "Ada"})), "hello Ada\n");
    assert_eq!(list.tools(), ["greet"]);
    server.folder.write_program("tools/broken", "#!/bin/sh\n# corelane: description = \"x\"\n");
    list.wait_for_tools();
    assert_eq!(list.tools(), ["greet", "broken"]);
}

#[test]
fn check_names_broken_programs() {
    let folder = folder();
    folder.write_program("tools/broken", "#!/bin/sh\n# corelane: limits.calls = 0\n");
    folder.write("tools/forgotten.sh", "#!/bin/sh\n");
    folder.write("tools/forgotten.toml", "description = \"x\"\n");
    folder.write("tools/README", "not a program");
    let tools = folder.text_path("tools");
    let checked = folder.run("check", &["--tools", &tools]);
    for expected in [
        "tools/broken:2:20: tool broken: limits.calls: is 0; write 1 or more",
        "tools/forgotten.sh: is not executable; make it executable: chmod +x",
    ] {
        assert!(checked.stderr.contains(expected), "{}", checked.stderr);
    }
    assert!(!checked.stderr.contains("README"), "{}", checked.stderr);
}

#[test]
fn arguments_are_json_on_standard_input() {
    let folder = folder();
    let program = "#!/bin/sh\n# corelane: [arguments.a]\n# corelane: type = \"integer\"\ncat\n";
    folder.write_program("tools/input", program);
    let tools = folder.text_path("tools");
    let server = DeclaredServer::start(folder, &["--tools", &tools]);
    assert_eq!(server.connect().text("input", json!({"a": 5})), "{\"a\":5}");
    server.connect().failure("input", json!({"a": "five"}));
}
