//! `--timeout`: the time of a whole command.

use std::fs;
use std::path::Path;

use corelane_test_support::run_program;

use crate::CORELANE;

/// Writes a server as a shell script: it notes each request in `requests`, answers the first with
/// its revision, and runs `script` then, in which `answer` reads a request and answers it.
fn write_server(folder: &Path, script: &str) -> String {
    let path = folder.join("server.sh");
    let requests = folder.join("requests");
    let functions = r#"
        answer() {
            read -r request || exit
            echo "$request" >> REQUESTS
            sleep 0.2
            id=${request#*\"id\":}
            printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "${id%%,*}" "$1"
        }
        answer '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{}}}'
    "#;
    let functions = functions.replace("REQUESTS", &requests.display().to_string());
    fs::write(&path, format!("{functions}\n{script}")).expect("a folder");
    format!("stdio:sh {}", path.display())
}

/// Returns the methods that a server has noted.
fn methods(folder: &Path) -> Vec<String> {
    let requests = fs::read_to_string(folder.join("requests")).expect("the requests");
    let method = |line: &str| {
        let request: serde_json::Value = serde_json::from_str(line).expect("a request");
        request["method"].as_str().expect("a method").to_owned()
    };
    requests.lines().map(method).collect()
}

#[test]
fn timeout_bounds_all_requests_together() {
    let folder = tempfile::tempdir().unwrap();
    // A list that does not end, each of whose pages is in time.
    let page = r#"{"tools":[],"nextCursor":"'$count'"}"#;
    let script = format!("count=0; while :; do count=$((count + 1)); answer '{page}'; done");
    let target = write_server(folder.path(), &script);
    let result = run_program(CORELANE, ["tools", &target, "--timeout", "1"]);
    let expected = "error: tools/list did not end within 1s; allow more time with --timeout\n";
    assert_eq!((result.status, result.stderr.as_str()), (1, expected));
    let methods = methods(folder.path());
    assert_eq!(methods[..2], ["server/discover", "tools/list"], "{methods:?}");
    // Each request takes 0.2 s at least, and the last one may be late by 0.25 s.
    let lists = methods.iter().filter(|method| *method == "tools/list").count();
    assert!(lists <= 6, "{methods:?}");
}

#[test]
fn request_has_what_the_handshake_left() {
    let folder = tempfile::tempdir().unwrap();
    let target = write_server(folder.path(), "read -r request; cat > /dev/null");
    let result = run_program(CORELANE, ["call", &target, "t", "--timeout", "1"]);
    assert_eq!(result.status, 1);
    let within = result.stderr.strip_prefix("error: no response within ").unwrap();
    assert!(within.contains("ms; allow more time with --timeout"), "{within}");
}

#[test]
fn failed_tool_causes_no_list() {
    let folder = tempfile::tempdir().unwrap();
    let failed = r#"{"content":[{"type":"text","text":"no luck"}],"isError":true}"#;
    let target = write_server(folder.path(), &format!("answer '{failed}'; cat > /dev/null"));
    let result = run_program(CORELANE, ["call", &target, "t", "--arguments", "{}"]);
    assert_eq!((result.status, result.stderr.as_str()), (1, "error: the tool t failed: no luck\n"));
    assert_eq!(methods(folder.path()), ["server/discover", "tools/call"]);
}
