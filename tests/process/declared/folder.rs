//! A folder with a file of declarations, and the server of it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;

use corelane_test_support::messages::{call, modern};
use corelane_test_support::process::Signal;
use corelane_test_support::{ExitResult, HttpClient, LineClient, Process, Request, SMALL_RINGS};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::CORELANE;
use crate::mcp_client::McpClient;

/// A folder with `corelane.toml`.
pub(super) struct Folder {
    directory: TempDir,
}

impl Folder {
    /// A folder whose `corelane.toml` has `declarations`.
    pub(super) fn new(declarations: &str) -> Self {
        let folder = Self { directory: tempfile::tempdir().expect("temporary directory") };
        folder.write("corelane.toml", declarations);
        folder
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn text_path(&self, name: &str) -> String {
        self.path(name).to_str().expect("path is UTF-8").to_owned()
    }

    /// Writes a file and the folders that contain it.
    pub(super) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("file is in a folder")).expect("folder is made");
        // A file that is replaced is never read half.
        let part = path.with_extension("part");
        fs::write(&part, text).expect("file is written");
        fs::rename(part, path).expect("file is replaced");
    }

    /// Replaces text of `corelane.toml`.
    pub(super) fn replace(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.path("corelane.toml")).expect("file is read");
        assert!(text.contains(from), "{from} is not in the file");
        self.write("corelane.toml", text.replace(from, to));
    }

    /// Writes a file that can be executed.
    pub(super) fn write_program(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("file is in a folder")).expect("folder is made");
        let part = self.path(".part");
        let options = &mut fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o755).open(&part);
        let file = file.as_mut().expect("file is created");
        std::io::Write::write_all(file, text.as_bytes()).expect("file is written");
        fs::rename(part, path).expect("file is replaced");
    }

    /// A command of `corelane` with this configuration, and no variables.
    pub(super) fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut process = Command::new(CORELANE);
        process.args([command, "--config"]).arg(self.path("corelane.toml"));
        process.args(arguments).env_clear();
        process
    }

    /// Runs a command of `corelane` to its end.
    pub(super) fn run(&self, command: &str, arguments: &[&str]) -> ExitResult {
        self.command(command, arguments).output().expect("process starts").into()
    }

    /// Runs `corelane check`, which must fail, and returns its errors.
    pub(super) fn faults(&self) -> String {
        let ExitResult { status, stderr, .. } = self.run("check", &[]);
        assert_eq!(status, 1, "{stderr}");
        stderr
    }
}

/// A running `corelane serve`.
pub(super) struct DeclaredServer {
    pub(super) folder: Folder,
    pub(super) process: Process,
    pub(super) tcp: SocketAddr,
    pub(super) http: SocketAddr,
}

impl DeclaredServer {
    /// Starts a server of `declarations`.
    pub(super) fn new(declarations: &str) -> Self {
        Self::start(Folder::new(declarations), &[])
    }

    /// Starts a server of a folder, with further arguments.
    pub(super) fn start(folder: Folder, arguments: &[&str]) -> Self {
        let command = &mut folder.command("serve", arguments);
        Self::spawn(folder, command)
    }

    /// Starts a server by `command`, which is completed with listeners on free ports.
    pub(super) fn spawn(folder: Folder, command: &mut Command) -> Self {
        let free = "127.0.0.1:0";
        command.args(["--tcp", free, "--http", free, "--shards", "1"]).args(SMALL_RINGS);
        let mut process = Process::spawn(command);
        let tcp = listener(&mut process, "listening tcp ");
        let http = listener(&mut process, "listening http ");
        Self { folder, process, tcp, http }
    }

    /// A client of the newest protocol version.
    pub(super) fn connect(&self) -> McpClient {
        McpClient::modern(LineClient::connect(self.tcp))
    }

    /// A client that gets notifications about changed lists.
    pub(super) fn subscribe(&self) -> ListClient {
        let mut peer = LineClient::connect(self.tcp);
        peer.handshake("2025-11-25");
        ListClient { peer, last_id: 0, changes: Vec::new() }
    }

    /// Sends a request over HTTP with an API key; returns the response message.
    pub(super) fn http_request(&self, key: &str, request: Value) -> Value {
        let request = Request::modern(&modern(request));
        let request = request.field("Authorization", format!("Bearer {key}"));
        let mut client = HttpClient::connect(self.http);
        client.exchange_to_end(&request).1
    }

    /// Ends the server in order; returns its log.
    pub(super) fn end(self) -> String {
        self.process.signal(Signal::TERM);
        let ended = self.process.wait();
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        ended.stderr
    }
}

fn listener(process: &mut Process, text: &str) -> SocketAddr {
    let line = process.wait_for(|line| line.contains(text));
    let url = line.rsplit(' ').next().unwrap_or_default();
    let address = url.split('/').next().unwrap_or_default().parse();
    address.unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// A client of 2025-11-25, which has list changes without a subscription.
pub(super) struct ListClient {
    peer: LineClient,
    last_id: u64,
    /// Methods of the notifications that were received.
    pub(super) changes: Vec<String>,
}

impl ListClient {
    /// Waits for a notification with this method, unless it has been received already.
    pub(super) fn wait_for(&mut self, method: &str) {
        while !self.changes.iter().any(|known| known == method) {
            let message = self.peer.receive();
            self.keep(&message);
        }
    }

    fn keep(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_else(|| panic!("{message}"));
        self.changes.push(method.to_owned());
    }

    /// Waits for changed tools; the next wait is for a later change.
    pub(super) fn wait_for_tools(&mut self) {
        self.wait_for(TOOLS_CHANGED);
        self.changes.retain(|known| known != TOOLS_CHANGED);
    }

    /// Sends a request; returns the response.
    #[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
    pub(super) fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.peer.send(request);
        self.receive_response(id)
    }

    fn receive_response(&mut self, id: u64) -> Value {
        loop {
            let message = self.peer.receive();
            if message["id"] == id {
                return message;
            }
            self.keep(&message);
        }
    }

    /// Calls a tool; returns the text of its result.
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> String {
        let request = call(0, tool, arguments);
        result_text(&self.request("tools/call", request["params"].clone()))
    }

    /// Names of the tools, in the order of the list.
    pub(super) fn tools(&mut self) -> Vec<String> {
        let response = self.request("tools/list", json!({}));
        let tools = response["result"]["tools"].as_array().expect("tools are a list");
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Receives until the server closes the connection; returns all methods.
    pub(super) fn rest(mut self) -> Vec<String> {
        for message in self.peer.receive_rest_or_reset() {
            self.keep(&message);
        }
        self.changes
    }
}

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// The text of a result without error.
#[track_caller]
pub(super) fn result_text(response: &Value) -> String {
    assert_ne!(response["result"]["isError"], true, "{response}");
    corelane_test_support::messages::result_text(response).to_owned()
}

/// Calls of a client that tests compare.
impl McpClient {
    /// Calls a tool; returns the response.
    #[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
    pub(super) fn response(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let id = self.send_request("tools/call", params);
        self.receive_response(id, "tools/call")
    }

    /// Calls a tool; returns the text of its result.
    #[track_caller]
    pub(super) fn text(&mut self, tool: &str, arguments: Value) -> String {
        result_text(&self.response(tool, arguments))
    }

    /// Calls a tool that must fail; returns the sentence, of an error of the tool or of JSON-RPC.
    #[track_caller]
    pub(super) fn failure(&mut self, tool: &str, arguments: Value) -> String {
        let response = self.response(tool, arguments);
        let result = &response["result"];
        let text = if result["isError"] == true {
            &result["content"][0]["text"]
        } else {
            &response["error"]["message"]
        };
        text.as_str().unwrap_or_else(|| panic!("{tool} did not fail: {response}")).to_owned()
    }

    /// Calls a tool that must fail with a sentence that has `expected`.
    #[track_caller]
    pub(super) fn expect_failure(&mut self, tool: &str, arguments: Value, expected: &str) {
        let text = self.failure(tool, arguments);
        assert!(text.contains(expected), "{tool}: {text:?} does not have {expected:?}");
    }
}
