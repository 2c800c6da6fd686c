//! Resources, resource templates, prompts, completion, scopes and the name of the caller.

use std::fmt::Write as _;

use corelane_test_support::messages::{call, request};
use corelane_test_support::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::folder::{DeclaredServer, Folder, result_text};
use crate::mcp_client::McpClient;

const CONTENTS: &str = "
[[resource]]
uri = \"info://text\"
name = \"text\"
text = \"fixed\"

[[resource]]
uri = \"info://command\"
name = \"command\"
command = [\"echo\", \"from a command\"]

[[resource]]
uri = \"info://failing\"
name = \"failing\"
command = [\"sh\", \"-c\", \"echo reason >&2; exit 1\"]

[[resource_template]]
uri_template = \"notes://{name}\"
name = \"notes\"
mime_type = \"text/markdown\"
file = \"notes/{name}.md\"

[resource_template.arguments.name]
pattern = \"^[a-z.]+$\"
complete = [\"first\", \"second\", \"farther\"]

[[prompt]]
name = \"messages\"
messages = [{ text = \"Read {note}.\" }, { role = \"assistant\", text = \"I read {note}.\" }]
arguments.note = { complete = { tool = \"names\" } }

[[prompt]]
name = \"command\"
command = [\"echo\", \"{word}\"]
arguments.word = { required = false }

[[tool]]
name = \"names\"
command = [\"printf\", \"alpha\\\\nbeta\\\\nbetween\\\\n\"]
";

fn contents() -> DeclaredServer {
    let folder = Folder::new(CONTENTS);
    folder.write("notes/first.md", "# First");
    folder.write("notes/.hidden.md", "hidden");
    folder.write("secret.md", "secret");
    DeclaredServer::start(folder, &[])
}

#[test]
fn resources_and_templates_are_read() {
    let server = contents();
    let mut client = server.connect();
    let mut text = |uri: &str| {
        let result = client.expect_result("resources/read", json!({ "uri": uri }));
        result["contents"][0].clone()
    };
    assert_eq!(text("info://text")["text"], "fixed");
    assert_eq!(text("info://command")["text"], "from a command\n");
    let note = text("notes://first");
    let expected = json!({"uri": "notes://first", "mimeType": "text/markdown", "text": "# First"});
    assert_eq!(note, expected);
    let lists = client.expect_result("resources/templates/list", json!({}));
    assert_eq!(lists["resourceTemplates"][0]["uriTemplate"], "notes://{name}");
    let failing = json!({"uri": "info://failing"});
    let id = client.send_request("resources/read", failing);
    let response = client.receive_response(id, "resources/read");
    assert!(response["error"].to_string().contains("reason"), "{response}");
}

#[test]
fn template_value_cannot_leave_its_folder() {
    let server = contents();
    let mut client = server.connect();
    for uri in [
        "notes://..%2Fsecret",
        "notes://%2e%2e%2fsecret",
        "notes://UPPER",
        "notes://none",
        "notes://",
        "notes://first%00",
        "notes://first/second",
    ] {
        client.expect_error_code("resources/read", json!({ "uri": uri }));
    }
}

#[test]
fn prompts_have_messages_or_command() {
    let server = contents();
    let mut client = server.connect();
    let prompt = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let params = prompt("messages", json!({"note": "$(id)"}));
    let result = client.expect_result("prompts/get", params);
    assert_eq!(result["messages"][0]["content"]["text"], "Read $(id).");
    assert_eq!(result["messages"][1]["role"], "assistant");
    let result = client.expect_result("prompts/get", prompt("command", json!({"word": "; id"})));
    assert_eq!(result["messages"][0]["content"]["text"], "; id\n");
    client.expect_error_code("prompts/get", prompt("messages", json!({})));
    client.expect_error_code("prompts/get", prompt("command", json!({"word": "--help"})));
}

fn complete(client: &mut McpClient, reference: &Value, name: &str, value: &str) -> Value {
    let argument = json!({"name": name, "value": value});
    let params = json!({"ref": reference, "argument": argument});
    client.expect_result("completion/complete", params)["completion"]["values"].take()
}

#[test]
fn arguments_complete_from_list_and_tool() {
    let server = contents();
    let mut client = server.connect();
    let template = json!({"type": "ref/resource", "uri": "notes://{name}"});
    assert_eq!(complete(&mut client, &template, "name", "f"), json!(["first", "farther"]));
    let prompt = json!({"type": "ref/prompt", "name": "messages"});
    // The values of a tool are known once it has ended.
    let mut values = complete(&mut client, &prompt, "note", "be");
    for _ in 0..10_000 {
        if values != json!([]) {
            break;
        }
        // A call of the tool takes about as long as that for the completion.
        client.text("names", json!({}));
        values = complete(&mut client, &prompt, "note", "be");
    }
    assert_eq!(values, json!(["beta", "between"]));
}

const GUARDED: &str = "
auth.api_keys = [\"KEYS\"]
auth.audit = [\"*\"]

[[tool]]
name = \"open\"
text = \"caller {principal}\"

[[tool]]
name = \"guarded\"
text = \"guarded\"
scopes = [\"deploy\"]

[[tool]]
name = \"command\"
command = [\"sh\", \"-c\", \"echo $CALLER $1\", \"sh\", \"{principal}\"]
env = { CALLER = \"{principal}\" }

[[tool]]
name = \"statement\"
sql = { database = \"sqlite:shop.db\", query = \"select :principal as caller\", one = true }

[[tool]]
name = \"request\"
http.url = \"ORIGIN/\"
http.private_addresses = [\"127.0.0.1\"]
http.headers.X-Caller = \"{principal}\"

[[prompt]]
name = \"prompt\"
messages = [{ text = \"Write to {principal}.\" }]

[[resource]]
uri = \"info://caller\"
name = \"caller\"
text = \"caller {principal}\"
";

fn key_line(id: &str, key: &str, scopes: &str) -> String {
    let mut line = format!("{id}:");
    for byte in Sha256::digest(key) {
        write!(line, "{byte:02x}").expect("text grows");
    }
    format!("{line}:user:{scopes}\n")
}

fn guarded(api: &super::api::Api) -> DeclaredServer {
    let folder = Folder::new("");
    let keys = folder.text_path("keys.txt");
    folder.write("keys.txt", key_line("ada", "k1", "deploy") + &key_line("bob", "k2", "other"));
    let text = GUARDED.replace("KEYS", &keys).replace("ORIGIN", &api.origin());
    folder.write("corelane.toml", text);
    let database = rusqlite::Connection::open(folder.path("shop.db")).expect("database is opened");
    database.execute_batch("create table t (a)").expect("table is made");
    DeclaredServer::start(folder, &[])
}

#[test]
fn scopes_decide_who_may_call() {
    let api = super::api::Api::start(|_| super::api::Reply::json("1"));
    let server = guarded(&api);
    let guarded = || call(1, "guarded", json!({}));
    assert_eq!(result_text(&server.http_request("k1", guarded())), "guarded");
    let refused = server.http_request("k2", guarded());
    assert!(refused.get("error").is_some(), "{refused}");
    let names = |key: &str| {
        let list = server.http_request(key, request(1, "tools/list", json!({})));
        let tools = list["result"]["tools"].as_array().expect("tools are a list").clone();
        tools.iter().map(|tool| tool["name"].to_string()).collect::<Vec<_>>()
    };
    assert!(names("k1").contains(&"\"guarded\"".to_owned()));
    assert!(names("k2").contains(&"\"open\"".to_owned()));
}

#[test]
fn caller_is_available_to_each_kind() {
    let api = super::api::Api::start(|_| super::api::Reply::json("1"));
    let server = guarded(&api);
    for (key, id) in [("k1", "ada"), ("k2", "bob")] {
        let call = |tool: &str| server.http_request(key, call(1, tool, json!({})));
        assert_eq!(result_text(&call("open")), format!("caller {id}"));
        assert_eq!(result_text(&call("command")), format!("{id} {id}\n"));
        assert_eq!(call("statement")["result"]["structuredContent"], json!({ "caller": id }));
        call("request");
        let received = api.wait_for_request().to_ascii_lowercase();
        assert!(received.contains(&format!("x-caller: {id}")), "{received}");
        let prompt = request(2, "prompts/get", json!({"name": "prompt"}));
        let prompt = server.http_request(key, prompt);
        let text = &prompt["result"]["messages"][0]["content"]["text"];
        assert_eq!(text, &json!(format!("Write to {id}.")), "{prompt}");
        let resource = request(3, "resources/read", json!({"uri": "info://caller"}));
        let resource = server.http_request(key, resource);
        let text = &resource["result"]["contents"][0]["text"];
        assert_eq!(text, &json!(format!("caller {id}")), "{resource}");
    }
}

#[test]
fn argument_cannot_replace_the_caller() {
    let api = super::api::Api::start(|_| super::api::Reply::json("1"));
    let server = guarded(&api);
    for tool in ["open", "command", "statement"] {
        let response = server.http_request("k2", call(1, tool, json!({"principal": "ada"})));
        assert!(!response["result"]["content"].to_string().contains("caller ada"), "{response}");
        assert!(!response["result"]["structuredContent"].to_string().contains("ada"), "{response}");
    }
}

#[test]
fn declared_calls_are_audited() {
    let api = super::api::Api::start(|_| super::api::Reply::json("1"));
    let mut server = guarded(&api);
    server.http_request("k1", call(1, "command", json!({})));
    let line = server.process.wait_for(|line| line.contains("tool=command"));
    assert!(line.contains("ada"), "{line}");
    server.http_request("k2", call(1, "guarded", json!({})));
    let line = server.process.wait_for(|line| line.contains("tool=guarded"));
    assert!(line.contains("bob"), "{line}");
}

#[test]
fn declared_tools_are_in_the_audit_file() {
    let folder = Folder::new("");
    let (keys, audit) = (folder.text_path("keys.txt"), folder.text_path("audit.jsonl"));
    folder.write("keys.txt", key_line("ada", "k1", ""));
    let head = format!("auth.api_keys = [\"{keys}\"]\nauth.audit_file = \"{audit}\"\n");
    let tool = |name: &str| format!("[[tool]]\nname = \"{name}\"\ncommand = [\"false\"]\n");
    folder.write("corelane.toml", head.clone() + &tool("first"));
    let mut server = DeclaredServer::start(folder, &[]);
    server.http_request("k1", call(1, "first", json!({"secret": "hidden"})));
    server.folder.write("corelane.toml", head + &tool("first") + &tool("second"));
    server.process.wait_for(|line| line.contains("declarations changed"));
    server.http_request("k1", call(2, "second", json!({})));
    let DeclaredServer { folder: _folder, process, .. } = server;
    process.signal(Signal::TERM);
    assert_eq!(process.wait().status, 0);
    let lines = std::fs::read_to_string(audit).expect("file is read");
    assert!(!lines.contains("hidden"), "{lines}");
    for name in ["first", "second"] {
        let tool = format!("\"tool\":\"{name}\"");
        let line =
            lines.lines().find(|line| line.contains(&tool)).unwrap_or_else(|| panic!("{lines}"));
        assert!(line.contains("\"ada\"") && line.contains("failed"), "{line}");
    }
}
