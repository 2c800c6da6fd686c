//! Arguments of commands that try to be more than a value.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::folder::{DeclaredServer, Folder};

const TOOLS: &str = "
[[tool]]
name = \"word\"
command = [\"printf\", \"[%s]\", \"{text}\"]
arguments.text = { type = \"string\" }

[[tool]]
name = \"behind_dashes\"
command = [\"echo\", \"--\", \"{text}\"]
arguments.text = { type = \"string\" }

[[tool]]
name = \"part\"
command = [\"printf\", \"[%s]\", \"--name={text}\"]
arguments.text = { type = \"string\" }

[[tool]]
name = \"count\"
command = [\"wc\", \"-c\"]
input = { argument = \"text\" }
arguments.text = { type = \"string\" }

[[tool]]
name = \"object\"
command = [\"cat\"]
arguments.text = { type = \"string\" }

[[tool]]
name = \"variable\"
command = [\"sh\", \"-c\", \"printf %s \\\"$TEXT\\\"\"]
env = { TEXT = \"{text}\" }
arguments.text = { type = \"string\" }

[[tool]]
name = \"read\"
command = [\"cat\", \"--\", \"{path}\"]
arguments.path = { type = \"string\", within = \"data\" }
";

/// Texts that a shell, a program or a path would read as more than a value.
const ATTACKS: [&str; 11] = [
    "line\nbreak\r\n",
    "; rm -rf .",
    "$(touch pwned)",
    "`touch pwned`",
    "| touch pwned",
    "&& touch pwned &",
    "> pwned",
    "../../etc/passwd",
    "%s %n {text} ${HOME} ~ *",
    "'\"\\'",
    "",
];

fn server() -> DeclaredServer {
    let folder = Folder::new(TOOLS);
    folder.write("data/inside.txt", "inside");
    folder.write("outside.txt", "outside");
    symlink("../outside.txt", folder.path("data/link.txt")).expect("link is made");
    symlink("inside.txt", folder.path("data/own.txt")).expect("link is made");
    DeclaredServer::start(folder, &[])
}

fn names(server: &DeclaredServer) -> Vec<String> {
    let entries = fs::read_dir(server.folder.path("")).expect("folder is listed");
    let names = entries.map(|entry| entry.expect("entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("name is UTF-8")).collect();
    names.sort();
    names
}

fn text(value: &str) -> Value {
    json!({ "text": value })
}

#[test]
fn argument_stays_one_word_without_shell() {
    let server = server();
    let before = names(&server);
    let mut client = server.connect();
    for attack in ATTACKS {
        assert_eq!(client.text("word", text(attack)), format!("[{attack}]"));
        assert_eq!(client.text("part", text(attack)), format!("[--name={attack}]"));
        assert_eq!(client.text("behind_dashes", text(attack)), format!("-- {attack}\n"));
        assert_eq!(client.text("variable", text(attack)), attack);
        let object: Value =
            serde_json::from_str(&client.text("object", text(attack))).expect("input is JSON");
        assert_eq!(object, text(attack));
    }
    assert_eq!(names(&server), before);
}

#[test]
fn argument_like_an_option_is_refused() {
    let server = server();
    let mut client = server.connect();
    for option in ["--output=/etc/x", "-o", "-", "--"] {
        let expected = "argument text must not begin with -";
        client.expect_failure("word", text(option), expected);
        assert_eq!(client.text("part", text(option)), format!("[--name={option}]"));
        assert_eq!(client.text("behind_dashes", text(option)), format!("-- {option}\n"));
    }
}

#[test]
fn argument_with_nul_is_refused_or_input() {
    let server = server();
    let mut client = server.connect();
    client.expect_failure("word", text("a\0b"), "must not contain a NUL character");
    client.expect_failure("variable", text("a\0b"), "would contain a NUL character");
    assert_eq!(client.text("count", text("a\0b")).trim(), "3");
}

#[test]
fn argument_of_megabyte_is_refused_or_input() {
    let server = server();
    let mut client = server.connect();
    let megabyte = "x".repeat(1 << 20);
    client.expect_failure("word", text(&megabyte), "argument text is longer than 131071 bytes");
    assert_eq!(client.text("count", text(&megabyte)).trim(), "1048576");
    client.failure("variable", text(&megabyte));
    assert_eq!(client.text("word", text("after")), "[after]");
}

#[test]
fn path_cannot_leave_its_folder() {
    let server = server();
    let mut client = server.connect();
    let path = |path: &str| json!({ "path": path });
    for inside in ["inside.txt", "./inside.txt", "own.txt", "../data/inside.txt"] {
        let response = client.response("read", path(inside));
        let result = &response["result"];
        // A path that leaves the folder on its way may be refused.
        if inside.starts_with("..") {
            assert!(!response.to_string().contains("outside\""), "{response}");
        } else {
            assert_eq!(result["content"][0]["text"], "inside", "{inside}: {response}");
        }
    }
    for outside in ["../outside.txt", "link.txt", "/etc/passwd", "a/../../outside.txt", "none"] {
        client.failure("read", path(outside));
    }
    client.failure("read", path("inside.txt\0"));
}
