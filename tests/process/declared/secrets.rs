//! Values of variables and of secret files are shown nowhere.

use serde_json::json;

use super::api::{Api, Reply};
use super::folder::{DeclaredServer, Folder};

const FROM_VARIABLE: &str = "variable-value-4711";
const FROM_FILE: &str = "file-value-0815";

fn folder(declarations: &str) -> Folder {
    let folder = Folder::new(declarations);
    folder.write("secret.txt", format!("{FROM_FILE}\n"));
    folder
}

#[track_caller]
fn expect_hidden(text: &str) {
    for secret in [FROM_VARIABLE, FROM_FILE] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// Declarations whose failures repeat their secrets.
fn leaking(api: &Api) -> String {
    let origin = api.origin();
    format!(
        "[[tool]]\nname = \"command\"\n\
         command = [\"sh\", \"-c\", \"echo key $KEY $FILE ${{TOKEN}} >&2; exit 1\"]\n\
         env = {{ KEY = \"${{TOKEN}}\", FILE = \"${{file:secret.txt}}\" }}\n\
         [[tool]]\nname = \"json\"\n\
         command = [\"echo\", \"${{TOKEN}}\"]\nresult = \"json\"\n\
         [[tool]]\nname = \"http\"\n\
         http = {{ url = \"{origin}/${{file:secret.txt}}\", private_addresses = [\"127.0.0.1\"], \
         headers = {{ Authorization = \"Bearer ${{TOKEN}}\" }} }}\n\
         [[tool]]\nname = \"moved\"\n\
         http = {{ url = \"{origin}/moved\", private_addresses = [\"127.0.0.1\"], \
         headers = {{ Authorization = \"Bearer ${{TOKEN}}\" }} }}\n"
    )
}

fn api() -> Api {
    Api::start(|target| {
        let text = format!("{target} {FROM_VARIABLE} {FROM_FILE}");
        if target == "/moved" {
            let location = format!("Location: http://{FROM_FILE}.example.com/{FROM_VARIABLE}");
            return Reply::new("301 Moved Permanently", &location, "");
        }
        Reply::new("500 Internal Server Error", "Content-Type: text/plain", &text)
    })
}

#[test]
fn failures_lists_and_log_have_no_secret() {
    let api = api();
    let folder = folder(&leaking(&api));
    let mut command = folder.command("serve", &["--log-level", "debug"]);
    let server = DeclaredServer::spawn(folder, command.env("TOKEN", FROM_VARIABLE));
    let mut client = server.connect();
    for tool in ["command", "json", "http", "moved"] {
        let text = client.failure(tool, json!({}));
        expect_hidden(&text);
        assert!(text.contains("[secret]"), "{tool}: {text}");
    }
    expect_hidden(&client.expect_result("tools/list", json!({})).to_string());
    // The API gets them.
    let requests = api.received().join("\n");
    assert!(requests.contains(&format!("Bearer {FROM_VARIABLE}")), "{requests}");
    assert!(requests.contains(&format!("/{FROM_FILE} HTTP/1.1")), "{requests}");
    expect_hidden(&server.end());
}

#[test]
fn try_shows_no_secret() {
    let api = api();
    let folder = folder(&leaking(&api));
    for tool in ["command", "json", "http"] {
        let mut command = folder.command("try", &[tool]);
        let output = command.env("TOKEN", FROM_VARIABLE).output().expect("process starts");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).expect("output is UTF-8");
        expect_hidden(&text);
        assert!(text.contains("[secret]"), "{tool}: {text}");
        assert!(!output.status.success(), "{tool}: {text}");
    }
}

#[test]
fn faults_show_no_secret() {
    for declaration in [
        "name = \"${TOKEN} x\"\ntext = \"a\"",
        "name = \"a\"\nenabled = \"${TOKEN}\"\ntext = \"a\"",
        "name = \"a\"\nlimits.timeout = \"${TOKEN}\"\ntext = \"a\"",
        "name = \"a\"\nlimits.rate = \"${TOKEN}\"\ntext = \"a\"",
        "name = \"a\"\nhttp = { url = \"${TOKEN}://${file:secret.txt}\" }",
        "name = \"a\"\nhttp = { url = \"http://example.com\", proxy = \"${TOKEN}\" }",
        "name = \"a\"\ncommand = [\"${TOKEN}\"]",
        "name = \"a\"\ncommand = [\"echo\", \"${TOKEN}{b\"]",
        "name = \"a\"\ncommand = [\"echo\"]\nuser = \"${TOKEN}\"",
        "name = \"a\"\ncommand = [\"echo\"]\ncwd = \"${TOKEN}\"",
        "name = \"a\"\ncommand = [\"echo\"]\nresult = \"${TOKEN}\"",
        "name = \"a\"\nsql = { database = \"${TOKEN}\", query = \"select 1\" }",
        "name = \"a\"\nsql = { database = \"sqlite:x.db\", query = \"select ${TOKEN};select 1\" }",
        "name = \"a\"\nfile = \"${file:secret.txt}/x\"",
        "name = \"a\"\ntext = \"a\"\nicons = [{ src = \"${TOKEN}\" }]",
        "name = \"a\"\ntext = \"a\"\nschema = \"${TOKEN}\"",
        "name = \"a\"\ntext = \"a\"\narguments.a = { type = \"${TOKEN}\" }",
    ] {
        let folder = folder(&format!("[[tool]]\n{declaration}\n"));
        let mut command = folder.command("check", &[]);
        let output = command.env("TOKEN", FROM_VARIABLE).output().expect("process starts");
        let text = String::from_utf8(output.stderr).expect("output is UTF-8");
        assert_eq!(output.status.code(), Some(1), "{declaration}: {text}");
        assert!(text.contains("corelane.toml:"), "{declaration}: {text}");
        expect_hidden(&text);
    }
}

#[test]
fn unset_variable_and_missing_file_are_faults() {
    let folder = folder("[[tool]]\nname = \"a\"\ntext = \"${NOT_SET}\"\n");
    let expected = "corelane.toml:3:8: tool a: environment variable NOT_SET is not set; \
                    set the variable";
    let faults = folder.faults();
    assert!(faults.contains(expected), "{faults}");
    folder.replace("NOT_SET", "file:none.txt");
    let faults = folder.faults();
    assert!(faults.contains("corelane.toml:3:8: tool a: none.txt: "), "{faults}");
}

#[test]
fn secret_with_quotes_and_braces_is_hidden() {
    let secret = "pa\"ss\\{word}";
    let tool = "[[tool]]\nname = \"a\"\nresult = \"json\"\ncommand = [\"echo\", \"${TOKEN}\"]\n";
    let folder = folder(tool);
    let mut command = folder.command("serve", &[]);
    let server = DeclaredServer::spawn(folder, command.env("TOKEN", secret));
    let text = server.connect().failure("a", json!({}));
    assert!(text.contains("begins with \"[secret]"), "{text}");
    let folder = self::folder(&tool.replace("${TOKEN}", "${TOKEN}{b"));
    let output = folder.command("check", &[]).env("TOKEN", secret).output();
    let output = output.expect("process starts");
    let text = String::from_utf8(output.stderr).expect("output is UTF-8");
    assert!(text.contains("[secret]") && !text.contains("word"), "{text}");
}

#[test]
fn changed_secret_file_is_followed() {
    let folder = folder(
        "[[tool]]\nname = \"a\"\ntitle = \"${file:title.txt}\"\n\
         command = [\"echo\", \"${file:secret.txt}\"]\n",
    );
    folder.write("title.txt", "first");
    let server = DeclaredServer::start(folder, &[]);
    let mut list = server.subscribe();
    assert_eq!(list.call("a", json!({})), format!("{FROM_FILE}\n"));
    server.folder.write("secret.txt", "rotated-value");
    server.folder.write("title.txt", "second");
    list.wait_for_tools();
    assert_eq!(list.call("a", json!({})), "rotated-value\n");
}
