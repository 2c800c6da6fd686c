//! `requestState` values that another server has issued, which has the same keys, other ones, or is
//! in the middle of a change of keys (`request_state_keys`).

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use corelane_test_support::messages::{call, expect_error, modern};
use corelane_test_support::{LineClient, TestServer, tcp_options};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::malformed::interactive_catalog;

/// Writes a file of keys, each of these bytes, in this order.
fn write_keys(directory: &Path, bytes: &[u8]) -> PathBuf {
    let path = directory.join("state-keys");
    let lines: Vec<String> = bytes.iter().map(|byte| BASE64_STANDARD.encode([*byte; 32])).collect();
    // A file that exists keeps its mode.
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(lines.join("\n").as_bytes())).expect("a file");
    path
}

/// A server with keys of its own file.
struct Replica {
    directory: TempDir,
    server: TestServer,
    client: LineClient,
}

impl Replica {
    fn start(keys: &[u8]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = tcp_options();
        options.limits.request_state_keys = vec![write_keys(directory.path(), keys)];
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let client = server.connect_tcp();
        Self { directory, server, client }
    }

    /// Has it use other keys.
    fn reload(&self, keys: &[u8]) -> Result<(), String> {
        let mut options = tcp_options();
        options.limits.request_state_keys = vec![write_keys(self.directory.path(), keys)];
        self.server.handle().reload_state_keys(&options)
    }

    /// Begins a call that requires input. Returns the request that continues it.
    fn begin(&mut self) -> Value {
        let mut request = modern(call(1, "ask_name", json!({"word": "", "other": []})));
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {"form": {}}});
        let response = self.client.exchange(&request);
        assert_eq!(response["result"]["resultType"], "input_required", "{response}");
        request["params"]["requestState"] = response["result"]["requestState"].clone();
        request["params"]["inputResponses"] =
            json!({"user_name": {"action": "accept", "content": {"name": "Ada"}}});
        request
    }

    fn expect_completes(&mut self, request: &Value) {
        let response = self.client.exchange(request);
        assert_eq!(response["result"]["content"][0]["text"], "Hello, Ada!", "{response}");
    }

    fn expect_refuses(&mut self, request: &Value, reason: &str) {
        let response = self.client.exchange(request);
        expect_error(&response, -32602, Some(json!(1)));
        assert!(response["error"]["message"].as_str().is_some_and(|it| it.contains(reason)));
    }

    fn close(self) {
        drop(self.client);
        self.server.close();
    }
}

#[test]
fn request_state_continues_at_another_server() {
    let mut replicas = [7, 7].map(|key| Replica::start(&[key]));
    let request = replicas[0].begin();
    let [issuer, other] = &mut replicas;
    other.expect_completes(&request);
    other.expect_refuses(&request, "was used before");
    // Servers do not know what another one has redeemed.
    issuer.expect_completes(&request);
    issuer.expect_refuses(&request, "was used before");
    replicas.into_iter().for_each(Replica::close);
}

#[test]
fn request_state_under_other_keys_is_refused() {
    let mut replicas = [7, 8].map(|key| Replica::start(&[key]));
    let requests = replicas.each_mut().map(Replica::begin);
    let [first, second] = &mut replicas;
    first.expect_refuses(&requests[1], "was not issued");
    second.expect_refuses(&requests[0], "was not issued");
    replicas.into_iter().for_each(Replica::close);
}

#[test]
fn state_keys_change_without_lost_calls() {
    let mut replicas = [7, 7].map(|key| Replica::start(&[key]));
    let [first, second] = &mut replicas;
    // First all servers can decrypt with the next key, then each encrypts with it.
    let before = first.begin();
    first.reload(&[7, 8]).unwrap();
    second.reload(&[7, 8]).unwrap();
    first.reload(&[8, 7]).unwrap();
    let after = first.begin();
    second.expect_completes(&before);
    second.expect_completes(&after);
    second.reload(&[8]).unwrap();
    let late = second.begin();
    first.expect_completes(&late);
    second.expect_refuses(&before, "was not issued");
    // An unusable file changes nothing.
    let request = second.begin();
    let error = second.reload(&[]).unwrap_err();
    assert!(error.starts_with("request_state_keys: ") && error.ends_with("contains no key"));
    let path = second.directory.path().join("state-keys");
    fs::set_permissions(path, Permissions::from_mode(0o666)).expect("permissions");
    assert!(second.reload(&[9]).unwrap_err().contains("may write it"));
    second.expect_completes(&request);
    replicas.into_iter().for_each(Replica::close);
}
