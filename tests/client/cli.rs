//! The client commands of the `corelane` binary: output, errors and exit status.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use corelane_test_support::{
    ExitResult, LineClient, Process, TestServer, http_options, run_program, tcp_options,
};
use serde_json::{Value, json};

use super::{discover_result, response};

use crate::CORELANE;

/// Runs a command whose target is `server`, which `TARGET` stands for.
fn run(server: &TestServer, arguments: &[&str]) -> ExitResult {
    let target = format!("tcp://{}", server.tcp());
    let argument = |argument: &&str| match *argument {
        "TARGET" => target.clone(),
        other => other.to_owned(),
    };
    let arguments: Vec<String> = arguments.iter().map(argument).collect();
    run_program(CORELANE, arguments.iter().map(String::as_str))
}

/// Runs a command that succeeds and returns what it prints.
fn output(server: &TestServer, arguments: &[&str]) -> String {
    let result = run(server, arguments);
    assert_eq!((result.status, result.stderr.as_str()), (0, ""), "{arguments:?}");
    result.stdout
}

/// Runs a command that prints one JSON document.
fn json_output(server: &TestServer, arguments: &[&str]) -> Value {
    serde_json::from_str(&output(server, arguments)).expect("one JSON document")
}

/// Runs a command that fails, and returns its exit status and the first line of its error.
fn failure(server: &TestServer, arguments: &[&str]) -> (i32, String) {
    let result = run(server, arguments);
    assert_eq!(result.stdout, "", "{arguments:?}");
    let first = result.stderr.lines().next().unwrap_or_default();
    (result.status, first.to_owned())
}

/// The server of this library as a program.
fn stdio_target() -> String {
    format!("stdio:{CORELANE} stdio --log error")
}

#[test]
fn call_prints_text_of_result() {
    let server = TestServer::start(tcp_options());
    assert_eq!(output(&server, &["call", "TARGET", "echo", "message=hi"]), "hi\n");
    // The schema of the tool makes it a string.
    assert_eq!(output(&server, &["call", "TARGET", "echo", "message=5"]), "5\n");
    assert_eq!(output(&server, &["call", "TARGET", "echo", "message:=\"{}\""]), "{}\n");
    let sum = output(&server, &["call", "TARGET", "add", "a=1", "b=-0.5"]);
    assert_eq!(sum, "{\n  \"sum\": 0.5\n}\n");
}

#[test]
fn repeated_call_prints_what_it_takes() {
    let server = TestServer::start(tcp_options());
    let echo = ["call", "TARGET", "echo", "message=hi", "--repeat"];
    let text = output(&server, &[&echo[..], &["20"]].concat());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("20 calls, 0 failed, in "), "{text}");
    assert!(lines[0].ends_with("/s, one at a time") && lines.len() == 2, "{text}");
    let names: Vec<&str> = lines[1].split(" · ").filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(names, ["min", "median", "p95", "max"]);
    let document = json_output(&server, &[&echo[..], &["3", "--json"]].concat());
    assert_eq!((&document["calls"], &document["failed"]), (&json!(3), &json!(0)));
    let most = document["max_ms"].as_f64().expect("a number");
    assert!(document["median_ms"].as_f64().is_some_and(|median| median <= most), "{document}");
    assert_eq!(server.close().requests.tools_call, 23);
}

#[test]
fn repeated_call_that_fails_is_counted() {
    let server = TestServer::start(tcp_options());
    let result = run(&server, &["call", "TARGET", "none", "--repeat", "2"]);
    assert_eq!(result.status, 1, "{}", result.stdout);
    assert!(result.stdout.starts_with("2 calls, 2 failed, in "), "{}", result.stdout);
    assert!(result.stderr.contains("the tool none failed: "), "{}", result.stderr);
    let refused = failure(&server, &["call", "TARGET", "echo", "--repeat", "0"]);
    assert_eq!(refused.0, 2, "{}", refused.1);
    server.close();
}

#[test]
fn json_flag_prints_result_as_sent() {
    let server = TestServer::start(tcp_options());
    let text = output(&server, &["call", "TARGET", "echo", "message=hi", "--json"]);
    assert!(text.starts_with(r#"{"content":[{"type":"text","text":"hi"}]"#), "{text}");
    assert_eq!(text.lines().count(), 1);
    let tools = json_output(&server, &["tools", "TARGET", "--json"]);
    assert_eq!(tools["tools"][0]["name"], "echo");
    assert_eq!(tools["resultType"], "complete");
}

#[test]
fn arguments_are_read_as_one_object() {
    let server = TestServer::start(tcp_options());
    let call = |arguments| output(&server, &["call", "TARGET", "echo", "--arguments", arguments]);
    assert_eq!(call(r#"{"message":"inline"}"#), "inline\n");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "{\n  \"message\": \"file\"\n}\n").unwrap();
    assert_eq!(call(&format!("@{}", file.path().display())), "file\n");

    let target = format!("tcp://{}", server.tcp());
    let mut command = Command::new(CORELANE);
    let process = Process::spawn(command.args(["call", &target, "echo", "--arguments", "-"]));
    let result = process.wait_with_input(r#"{"message":"input"}"#);
    assert_eq!((result.status, result.stdout.as_str()), (0, "input\n"));
}

#[test]
fn program_is_called_over_its_streams() {
    let target = stdio_target();
    let result = run_program(CORELANE, ["call", &target, "echo", "message=hi", "-v"]);
    assert_eq!((result.status, result.stdout.as_str()), (0, "hi\n"));
    // The program writes to the same standard error.
    let notes: Vec<&str> = result.stderr.lines().filter(|line| !line.contains(" INFO ")).collect();
    assert!(notes[0].contains("connected to corelane"), "{notes:?}");
    assert!(notes[0].ends_with("MCP 2026-07-28"), "{notes:?}");
    assert!(notes[1].ends_with("ms tools/call"), "{notes:?}");
}

#[test]
fn variables_reach_the_program() {
    let target = stdio_target();
    let variable = "CORELANE_SERVER_NAME=renamed";
    let result = run_program(CORELANE, ["inspect", &target, "--env", variable, "--json"]);
    assert_eq!(result.status, 0, "{}", result.stderr);
    let page: Value = serde_json::from_str(&result.stdout).unwrap();
    assert_eq!(page["serverInfo"]["name"], "renamed");
}

#[test]
fn command_waits_until_its_program_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ended");
    let target = |serve: &str| {
        let file = file.display();
        format!("stdio:sh -c '{serve}; sleep 0.2; echo ended > {file}'")
    };
    let serve = format!("{CORELANE} stdio --log error");
    for (serve, timeout, status) in [(serve.as_str(), "30", 0), ("cat > /dev/null", "0.05", 1)] {
        let mut command = Command::new(CORELANE);
        command.args(["ping", &target(serve), "--timeout", timeout]);
        // The program must not hold a pipe, whose end the test would wait for.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        assert_eq!(command.status().unwrap().code(), Some(status), "{serve}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "ended\n", "{serve}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn era_flag_chooses_revision() {
    let server = TestServer::start(tcp_options());
    for (era, revision) in [
        ("auto", "2026-07-28"),
        ("modern", "2026-07-28"),
        ("2026-07-28", "2026-07-28"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
    ] {
        let page = json_output(&server, &["inspect", "TARGET", "--json", "--era", era]);
        assert_eq!(page["protocolVersion"], revision, "{era}");
    }
}

#[test]
fn failed_call_names_tools_and_arguments() {
    let server = TestServer::start(tcp_options());
    for (arguments, parts) in [
        (&["ech", "message=hi"][..], &["-32602", "there is no tool ech, did you mean echo?"][..]),
        (&["frobnicate"], &["there is no tool frobnicate, only echo, add, slow, hash"]),
        (&["add", "a=1"], &["the tool add failed: tool `add`: argument `b` is missing"]),
        (&["add", "a=1", "b=two"], &["the tool add failed: "]),
        (&["echo", "mesage=hi"], &["the tool echo failed: "]),
        (&["echo", "--arguments", "{}"], &["the tool echo failed: "]),
    ] {
        let arguments = [&["call", "TARGET"], arguments].concat();
        let (status, line) = failure(&server, &arguments);
        assert_eq!(status, 1, "{line}");
        for part in parts {
            assert!(line.contains(part), "{line}");
        }
    }
}

#[test]
fn tool_error_exits_with_one() {
    let server = TestServer::with_test_tools(tcp_options());
    let (status, line) = failure(&server, &["call", "TARGET", "test_error_handling"]);
    assert_eq!(status, 1);
    assert!(line.starts_with("error: the tool test_error_handling failed: "), "{line}");
    let result = run(&server, &["call", "TARGET", "test_error_handling", "--json"]);
    let document: Value = serde_json::from_str(&result.stdout).unwrap();
    assert_eq!((result.status, &document["isError"]), (1, &json!(true)));
}

#[test]
fn failures_without_text_are_described() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", listener.local_addr().unwrap());
    let peer = thread::spawn(move || {
        for failure in [
            json!({ "result": { "content": [], "isError": true } }),
            json!({ "result": { "structuredContent": { "code": 7 }, "isError": true } }),
            json!({ "error": { "code": -32000, "message": "no\u{1b}[2J", "data": { "a": 1 } } }),
        ] {
            let mut peer = LineClient::accept(&listener);
            let discover = peer.receive();
            peer.send(discover_result(&discover));
            let mut answer = failure;
            answer["id"] = peer.receive()["id"].clone();
            answer["jsonrpc"] = "2.0".into();
            peer.send(answer);
            assert_eq!(peer.receive_rest().len(), 0);
        }
    });
    for expected in [
        "error: the tool a failed: the result has isError and no text\n",
        "error: the tool a failed: {\"code\":7}\n",
        "error: the server answered with error -32000: no\u{fffd}[2J\ndata: {\"a\":1}\n",
    ] {
        let result = run_program(CORELANE, ["call", &target, "a"]);
        assert_eq!((result.status, result.stdout.as_str()), (1, ""));
        assert_eq!(result.stderr, expected);
    }
    peer.join().unwrap();
}

#[test]
fn usage_errors_exit_with_two() {
    let server = TestServer::start(tcp_options());
    for (arguments, part) in [
        (&["call", "ftp://127.0.0.1", "echo"][..], "ftp://127.0.0.1"),
        (&["call", "TARGET"], "<TOOL>"),
        (&["call", "TARGET", "echo", "message"], "key=value"),
        (&["call", "TARGET", "echo", "message:={"], "not JSON"),
        (&["call", "TARGET", "echo", "message=1", "message=2"], "given twice"),
        (&["call", "TARGET", "echo", "--arguments", "[]"], "JSON object"),
        (&["call", "TARGET", "echo", "--arguments", "{}", "a=1"], "cannot be used with"),
        (&["call", "TARGET", "echo", "--jsno"], "--json"),
        (&["tools", "TARGET", "--timeout", "soon"], "write seconds"),
        (&["tools", "TARGET", "--era", "2020-01-01"], "2026-07-28"),
        (&["tools", "TARGET", "--env", "A=b"], "stdio:"),
        (&["complete", "TARGET", "a=b"], "--prompt"),
        (&["ping"], "<TARGET>"),
    ] {
        let result = run(&server, arguments);
        assert_eq!((result.status, result.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(result.stderr.contains(part), "{}", result.stderr);
    }
}

#[test]
fn refused_connection_exits_with_one() {
    let server = TestServer::start(tcp_options());
    let target = format!("tcp://{}", server.tcp());
    server.close();
    for (target, part) in [
        (target.as_str(), target.as_str()),
        ("unix:/no/such/socket", "/no/such/socket"),
        ("stdio:/no/such/program", "/no/such/program"),
        ("stdio:false", "exited with status 1"),
    ] {
        let result = run_program(CORELANE, ["tools", target]);
        assert_eq!((result.status, result.stdout.as_str()), (1, ""), "{target}");
        assert!(result.stderr.starts_with("error: ") && result.stderr.contains(part), "{target}");
        assert!(result.stderr.contains("; check "), "{}", result.stderr);
    }
}

#[test]
fn timeout_ends_call_with_one() {
    let server = TestServer::with_test_tools(tcp_options());
    let arguments = ["call", "TARGET", "until-cancelled", "--timeout", "1"];
    let (status, line) = failure(&server, &arguments);
    assert_eq!(status, 1);
    assert_eq!(line, "error: no response within 1s; allow more time with --timeout");
    assert_eq!((server.next_signal(), server.next_signal()), ("begun", "cancelled"));
}

#[test]
fn silent_server_times_out_in_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", listener.local_addr().unwrap());
    let peer = thread::spawn(move || LineClient::accept(&listener).receive_rest());
    let result = run_program(CORELANE, ["ping", &target, "--timeout", "0.05"]);
    assert_eq!(result.status, 1);
    assert!(result.stderr.contains("initialize: no response within 50ms"), "{}", result.stderr);
    assert_eq!(peer.join().unwrap().len(), 2);
}

#[test]
fn lists_fit_into_hundred_columns() {
    let server = TestServer::with_test_tools(tcp_options());
    for command in ["tools", "prompts", "resources", "inspect"] {
        let text = output(&server, &[command, "TARGET"]);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
    let tools = output(&server, &["tools", "TARGET"]);
    let lines: Vec<&str> = tools.lines().collect();
    let add = lines.iter().position(|line| line.starts_with("add  Add: Adds two")).unwrap();
    assert_eq!(lines[add + 1], "  a  number  required  The first number.");
    let resources = output(&server, &["resources", "TARGET"]);
    assert!(resources.contains("test://static-text"), "{resources}");
    assert!(resources.contains("template"), "{resources}");
}

#[test]
fn pages_of_list_are_one_document() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", listener.local_addr().unwrap());
    let peer = thread::spawn(move || {
        let mut peer = LineClient::accept(&listener);
        let discover = peer.receive();
        peer.send(discover_result(&discover));
        let pages = [
            json!({ "tools": [{ "name": "a" }], "nextCursor": "2", "ttlMs": 0 }),
            json!({ "tools": [{ "name": "b" }] }),
        ];
        for page in pages {
            let list = peer.receive();
            peer.send(response(&list, &page));
        }
        peer.receive_rest();
    });
    let result = run_program(CORELANE, ["tools", &target, "--json"]);
    let document: Value = serde_json::from_str(&result.stdout).unwrap();
    assert_eq!(document, json!({ "tools": [{ "name": "a" }, { "name": "b" }], "ttlMs": 0 }));
    peer.join().unwrap();
}

#[test]
fn contents_are_printed_or_written_to_file() {
    let server = TestServer::with_test_tools(tcp_options());
    let text = output(&server, &["read", "TARGET", "test://one"]);
    assert_eq!(text, "text\n");
    let image = output(&server, &["call", "TARGET", "test_image_content"]);
    assert!(image.starts_with("[image/png, ") && image.ends_with(" bytes]\n"), "{image}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("image.png");
    let path = file.to_str().unwrap();
    let saved = output(&server, &["call", "TARGET", "test_image_content", "--output", path]);
    assert_eq!(saved, image);
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && image.contains(&bytes.len().to_string()));
    assert_eq!(output(&server, &["read", "TARGET", "test://one", "--output", path]), "");
    assert_eq!(fs::read(&file).unwrap(), b"text");
}

#[test]
fn prompt_prints_messages_by_role() {
    let server = TestServer::with_test_tools(tcp_options());
    let simple = output(&server, &["prompt", "TARGET", "test_simple_prompt"]);
    assert!(simple.starts_with("user:\n"), "{simple}");
    let arguments = ["prompt", "TARGET", "test_prompt_with_arguments", "arg1=first", "arg2=2"];
    let text = output(&server, &arguments);
    assert!(text.contains("first") && text.contains('2'), "{text}");
    let (status, line) = failure(&server, &["prompt", "TARGET", "test_prompt_with_arguments"]);
    assert_eq!(status, 1);
    assert!(line.contains("the argument arg1 is missing"), "{line}");
    let (status, line) = failure(&server, &["prompt", "TARGET", "test_simple_promt"]);
    assert_eq!(status, 1);
    assert!(line.contains("did you mean test_simple_prompt?"), "{line}");
}

#[test]
fn complete_prints_values() {
    let server = TestServer::with_test_tools(tcp_options());
    let reference = ["--prompt", "test_prompt_with_arguments"];
    let arguments = [&["complete", "TARGET", "arg1=par"][..], &reference].concat();
    let document = json_output(&server, &[&arguments[..], &["--json"]].concat());
    let values = document["completion"]["values"].as_array().unwrap();
    let text = output(&server, &arguments);
    assert_eq!(text.lines().count(), values.len());
    assert_eq!(text.lines().next(), values[0].as_str());
}

#[test]
fn ping_prints_time_of_round_trips() {
    let server = TestServer::start(tcp_options());
    for era in ["modern", "2025-11-25"] {
        let text = output(&server, &["ping", "TARGET", "-n", "3", "--era", era]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].contains(" answered in ") && lines[0].ends_with(" ms"), "{text}");
        assert!(lines[3].starts_with("3 round trips: min "), "{text}");
    }
    let document = json_output(&server, &["ping", "TARGET", "--json"]);
    assert_eq!(document["roundTripMs"].as_array().unwrap().len(), 1);
}

#[test]
fn inspect_prints_declarations_and_lists() {
    let server = TestServer::with_test_tools(tcp_options());
    let text = output(&server, &["inspect", "TARGET"]);
    for part in
        ["server        test 1.0.0", "revision      2026-07-28", "capabilities  ", "\nTools ("]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = json_output(&server, &["inspect", "TARGET", "--json"]);
    for key in ["tools", "prompts", "resources", "resourceTemplates"] {
        assert!(!page[key].as_array().unwrap().is_empty(), "{key}");
    }
    assert!(page["capabilities"]["tools"].is_object());
}

#[test]
fn closed_standard_output_ends_quietly() {
    let server = TestServer::with_test_tools(tcp_options());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let target = format!("tcp://{}", server.tcp());
    let mut command = Command::new(CORELANE);
    command.args(["tools", &target]).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    let result = ExitResult::from(command.output().unwrap());
    assert_eq!((result.status, result.stderr.as_str()), (0, ""));
}

#[test]
fn readme_commands_call_a_server() {
    let readme = include_str!("../../README.md");
    let section = readme.split("\n## Call a server\n").nth(1).expect("the section");
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let server = TestServer::start(http_options());
    let mut count = 0;
    for line in block.expect("its commands").lines() {
        let (command, printed) = line.split_once("# ").expect("what it prints");
        let command = command.replace("127.0.0.1:8080", &server.http().to_string());
        let command = command.replace("stdio:corelane", &format!("stdio:{CORELANE}"));
        let words = shlex::split(&command).expect("the quotes are balanced");
        assert_eq!(words[0], "corelane");
        let result = run_program(CORELANE, words[1..].iter().map(String::as_str));
        assert_eq!(result.status, 0, "{command}: {}", result.stderr);
        assert!(result.stdout.starts_with(printed), "{command}: {}", result.stdout);
        count += 1;
    }
    assert_eq!(count, 2);
}

#[test]
fn listen_prints_changes_until_server_ends() {
    let server = TestServer::with_test_tools(http_options());
    let target = format!("{}/mcp", server.http());
    let mut command = Command::new(CORELANE);
    command.args(["listen", &target, "test://one"]).stdout(Stdio::piped());
    let mut listener = command.spawn().unwrap();
    let mut lines = BufReader::new(listener.stdout.take().unwrap()).lines().map(Result::unwrap);
    server.wait_for_status(|status| status["streams"] == 1);
    let result = run_program(CORELANE, ["call", &target, "touch"]);
    assert_eq!(result.status, 0, "{}", result.stderr);
    assert_eq!(lines.next().unwrap(), "test://one has changed");
    server.add_tool("added");
    assert_eq!(lines.next().unwrap(), "the list of tools has changed");
    server.drain();
    assert_eq!(lines.next(), None);
    listener.wait().unwrap();
}
