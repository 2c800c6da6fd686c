//! Commands that fail in every way: the model gets one sentence, and nothing else is lost.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::fifo::Lifeline;
use super::folder::{DeclaredServer, Folder};

const ECHO: &str = "
[[tool]]
name = \"echo\"
command = [\"echo\", \"alive\"]
";

/// A server of a tool `bad` with these keys, and of `echo`.
fn server(keys: &str) -> DeclaredServer {
    DeclaredServer::new(&format!("[[tool]]\nname = \"bad\"\n{keys}\n{ECHO}"))
}

/// Calls `bad`, whose failure must have `expected`, then `echo`.
fn expect_failure(server: &DeclaredServer, expected: &str) {
    let mut client = server.connect();
    client.expect_failure("bad", json!({}), expected);
    assert_eq!(client.text("echo", json!({})), "alive\n");
}

/// [`expect_failure`] of a command `sh -c`.
fn expect_failure_of(script: &str, keys: &str, expected: &str) {
    let keys = format!("command = [\"sh\", \"-c\", '''{script}''']\n{keys}");
    expect_failure(&server(&keys), expected);
}

#[test]
fn program_removed_after_start_is_named() {
    let folder =
        Folder::new(&format!("[[tool]]\nname = \"bad\"\ncommand = [\"./program.sh\"]\n{ECHO}"));
    folder.write_program("program.sh", "#!/bin/sh\necho works\n");
    let server = DeclaredServer::start(folder, &[]);
    assert_eq!(server.connect().text("bad", json!({})), "works\n");
    let path = server.folder.path("program.sh");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("mode is set");
    // Root may not execute it either.
    expect_failure(&server, "program.sh` is not executable; run chmod +x on it");
    fs::remove_file(&path).expect("program is removed");
    expect_failure(&server, "program.sh could not be started: ");
}

#[test]
fn program_without_interpreter_is_named() {
    let folder =
        Folder::new(&format!("[[tool]]\nname = \"bad\"\ncommand = [\"./program\"]\n{ECHO}"));
    folder.write_program("program", "#!/no/such/interpreter\n");
    let server = DeclaredServer::start(folder, &[]);
    expect_failure(&server, "the interpreter in its first line, or its loader, does not exist");
}

#[test]
fn hanging_command_ends_at_its_timeout() {
    let server = server(
        "command = [\"sh\", \"-c\", \"exec 3>alive; echo up >&3; sleep 1000 & sleep 1000\"]\n\
         limits.timeout = \"300ms\"",
    );
    let mut alive = Lifeline::new(&server.folder.path("alive"));
    expect_failure(&server, "did not end within 300 ms and was ended (limits.timeout)");
    alive.wait_for_end();
}

#[test]
fn command_ignoring_sigterm_is_killed() {
    let server = server(
        "command = [\"sh\", \"-c\", \"trap '' TERM; exec 3>alive; sleep 1000 & sleep 1000\"]\n\
         limits.timeout = \"300ms\"",
    );
    let mut alive = Lifeline::new(&server.folder.path("alive"));
    expect_failure(&server, "(limits.timeout)");
    alive.wait_for_end();
}

#[test]
fn grandchildren_with_open_pipe_delay_no_result() {
    let server = server(
        "command = [\"sh\", \"-c\", \"exec 3>alive; sleep 1000 & setsid sleep 1000 & echo done\"]",
    );
    let mut alive = Lifeline::new(&server.folder.path("alive"));
    assert_eq!(server.connect().text("bad", json!({})), "done\n");
    // They end with the call.
    alive.wait_for_end();
}

#[test]
fn command_writing_gigabyte_is_ended() {
    let server = server(
        "command = [\"sh\", \"-c\", \"exec 3>alive; head -c 1000000000 /dev/zero\"]\n\
         limits.output_bytes = \"64KiB\"",
    );
    let mut alive = Lifeline::new(&server.folder.path("alive"));
    expect_failure(&server, "wrote more than 65536 bytes and was ended (limits.output_bytes)");
    alive.wait_for_end();
}

#[test]
fn long_stderr_keeps_its_last_lines() {
    let script = "head -c 10000000 /dev/zero >&2; echo \"the reason\" >&2; exit 7";
    expect_failure_of(script, "", "the reason");
}

#[test]
fn binary_output_as_text_is_failure() {
    expect_failure_of("printf \"a\\377\\376\"", "", "sh wrote 3 bytes that are not UTF-8 text");
    let json = "result = \"json\"";
    expect_failure_of("printf \"\\377\"", json, "did not write the JSON that is its result");
}

#[test]
fn invalid_json_output_shows_its_beginning() {
    let keys = "result = \"json\"";
    let expected = "it begins with \"<html>not JSON\\n\"";
    expect_failure_of("echo \"<html>not JSON\"", keys, expected);
    expect_failure_of("true", keys, "did not write the JSON that is its result (EOF");
}

#[test]
fn killed_command_names_its_signal() {
    expect_failure_of("kill -KILL $$", "", "sh killed by SIGKILL");
    expect_failure_of("echo why >&2; kill -SEGV $$", "", "why");
}

#[test]
fn failed_command_gives_status_and_errors() {
    let script = "echo partial; echo first >&2; echo \"no space left\" >&2; exit 3";
    expect_failure_of(script, "", "sh exited with status 3: first\nno space left");
}

#[test]
fn media_and_lines_become_their_content() {
    let server = DeclaredServer::new(
        "[[tool]]\nname = \"image\"\ncommand = [\"printf\", 'P\\377']\nresult = \"image/png\"\n\
         [[tool]]\nname = \"json\"\ncommand = [\"echo\", '{{\"n\": 1}}']\nresult = \"json\"\n\
         [[tool]]\nname = \"lines\"\ncommand = [\"printf\", 'one\\ntwo\\nlast\\n']\n\
         result = \"lines\"\n",
    );
    let mut client = server.connect();
    let image = client.response("image", json!({}));
    let content = json!([{"type": "image", "data": "UP8=", "mimeType": "image/png"}]);
    assert_eq!(image["result"]["content"], content);
    let structured = client.response("json", json!({}));
    assert_eq!(structured["result"]["structuredContent"], json!({"n": 1}));
    let params = json!({"name": "lines", "arguments": {}, "_meta": {"progressToken": "t"}});
    let id = client.send_request("tools/call", params);
    let response = client.receive_response(id, "tools/call");
    assert_eq!(super::folder::result_text(&response), "last");
    let progress = client.notifications.iter().map(|it| &it["params"]["message"]);
    assert_eq!(progress.collect::<Vec<_>>(), ["one", "two", "last"]);
}
