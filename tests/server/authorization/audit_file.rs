//! The file of the audit log, and calls that are refused without it.

use std::fs;
use std::path::Path;

use corelane::Options;
use corelane_test_support::TestServer;
use corelane_test_support::messages::{echo, modern, request_without_params};
use serde_json::Value;

use crate::authorization::http::post;
use crate::authorization::retry::retry;
use crate::authorization::{Authority, options};

fn audited(authority: &Authority, path: &Path, is_required: bool) -> Options {
    let mut auth = authority.key_options();
    auth.audit = vec!["echo".to_owned()];
    auth.audit_file = Some(path.to_owned());
    auth.audit_required = is_required;
    options(auth)
}

fn lines_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the file is written");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn audited_calls_are_lines_of_their_file() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("audit.jsonl");
    let server = TestServer::start(audited(&authority, &path, true));
    for id in 0..3 {
        let call = modern(echo(id, "not logged"));
        assert_eq!(post(server.http(), &call, Some("key-ada")).status, 200);
    }
    let renamed = folder.path().join("audit.1");
    fs::rename(&path, &renamed).unwrap();
    server.handle().reload_auth(&audited(&authority, &path, true)).unwrap();
    post(server.http(), &modern(echo(3, "not logged")), Some("key-bob"));
    server.close();
    let (before, after) = (lines_of(&renamed), lines_of(&path));
    let of_ada = |line: &Value| {
        line["caller"] == "ada" && line["tool"] == "echo" && line["outcome"] == "succeeded"
    };
    assert!(before.len() + after.len() == 4 && before.iter().all(of_ada), "{before:?}");
    assert_eq!(after.last().expect("a line")["caller"], "bob");
    assert!(!fs::read_to_string(&path).unwrap().contains("not logged"));
}

#[test]
fn call_without_audit_line_is_refused() {
    let authority = Authority::new();
    let server = TestServer::start(audited(&authority, Path::new("/dev/full"), true));
    let call = modern(echo(1, "refused"));
    // The first calls have a place; the thread finds that the disk is full.
    let refused = retry(|| {
        let response = post(server.http(), &call, Some("key-ada"));
        (response.status != 200).then_some(response)
    });
    assert_eq!(refused.status, 503);
    assert_eq!(refused.field("Retry-After").map(str::trim), Some("1"));
    let message: Value = serde_json::from_str(&refused.body).expect("JSON");
    assert_eq!(message["error"]["data"]["retryable"], true, "{message}");
    let list = modern(request_without_params(2, "tools/list"));
    assert_eq!(post(server.http(), &list, Some("key-ada")).status, 200);
    server.close();
}

#[test]
fn calls_go_on_where_lines_may_be_lost() {
    let authority = Authority::new();
    let mut options = audited(&authority, Path::new("/dev/full"), false);
    options.log.queue_bytes_max = 4_096;
    let server = TestServer::start(options);
    for id in 0..100 {
        let call = modern(echo(id, "served"));
        assert_eq!(post(server.http(), &call, Some("key-ada")).status, 200);
    }
    server.close();
}
