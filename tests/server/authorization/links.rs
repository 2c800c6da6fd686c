//! Links in a directory of resources: the rules for what they lead to hold for them, too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use corelane::files::{Directory, Files};
use corelane_test_support::TestServer;
use corelane_test_support::messages::{initialize, notification, request};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::authorization::http::post;
use crate::authorization::{Authority, catalog, options};

const LINK: &str = "files://x/open/link.md";
const TARGET: &str = "files://x/secret/plan.md";
/// The same file through a link to its folder, which is not listed.
const THROUGH_FOLDER: &str = "files://x/folder/plan.md";

/// A folder with a file, a link to it, and a link to its folder.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |path: &str| folder.path().join(path);
    for name in ["open", "secret"] {
        fs::create_dir(at(name)).expect("a folder");
    }
    fs::write(at("secret/plan.md"), "the plan").expect("a file");
    fs::write(at("open/page.md"), "a page").expect("a file");
    symlink("../secret/plan.md", at("open/link.md")).expect("a link");
    symlink("page.md", at("open/other.md")).expect("a link");
    symlink("secret", at("folder")).expect("a link");
    folder
}

/// A server of the files in `folder` that offers those below `secret` to admins.
fn start(folder: &Path, authority: &Authority) -> TestServer {
    let directory = Directory::new(folder).expect("a directory");
    let directory = directory.uri_prefix("files://x/").expect("a prefix");
    let mut files = Files::new().resources(directory).without_watch();
    let catalog = files.add_to_catalog(&catalog()).expect("a catalog");
    let mut auth = authority.key_options();
    auth.rules = vec!["resources/read files://x/secret/* tier=admin".to_owned()];
    TestServer::with_catalog(options(auth), catalog)
}

fn uris(response: &Value) -> Vec<&str> {
    let resources = response["result"]["resources"].as_array().expect("a list");
    let uris = resources.iter().filter_map(|resource| resource["uri"].as_str());
    uris.filter(|uri| uri.starts_with("files:")).collect()
}

#[test]
fn http_rule_for_target_holds_for_link() {
    let (folder, authority) = (folder(), Authority::new());
    let server = start(folder.path(), &authority);
    let send = |key: &str, method: &str, params: Value| {
        post(server.http(), &request(1, method, params), Some(key))
    };
    let read = |key: &str, uri: &str| send(key, "resources/read", json!({"uri": uri}));
    for uri in [TARGET, LINK, "files://x/open/l%69nk.md?offset=4"] {
        read("key-bob", uri).expect_admin_required();
        assert!(read("key-ada", uri).body.contains("plan"), "{uri}");
    }
    let missing = read("key-bob", "files://x/open/missing.md").body;
    let refused = read("key-bob", THROUGH_FOLDER).body;
    assert_eq!(refused, missing.replace("open/missing.md", "folder/plan.md"));
    assert!(read("key-ada", THROUGH_FOLDER).body.contains("the plan"));
    assert!(read("key-bob", "files://x/open/other.md").body.contains("a page"));

    let filter = json!({"notifications": {"resourceSubscriptions": [LINK]}});
    send("key-bob", "subscriptions/listen", filter).expect_admin_required();
    let open = ["files://x/open/other.md", "files://x/open/page.md"];
    let listed = send("key-bob", "resources/list", json!({})).json();
    assert_eq!(uris(&listed), open);
    let listed = send("key-ada", "resources/list", json!({})).json();
    assert_eq!(uris(&listed), [LINK, open[0], open[1], TARGET]);
    let completed = send(
        "key-bob",
        "completion/complete",
        json!({
            "ref": {"type": "ref/resource", "uri": "files://x/{+path}{?offset,length}"},
            "argument": {"name": "path", "value": ""},
        }),
    );
    let values = &completed.json()["result"]["completion"]["values"];
    assert_eq!(*values, json!(["open/other.md", "open/page.md"]));
    server.close();
}

#[test]
fn tcp_rule_for_target_holds_for_link() {
    let (folder, authority) = (folder(), Authority::new());
    let server = start(folder.path(), &authority);
    for (key, is_admin) in [("key-bob", false), ("key-ada", true)] {
        let mut client = server.connect_tcp();
        let mut with_token = initialize(1, "2025-11-25");
        with_token["params"]["auth_token"] = json!(key);
        assert!(client.exchange(with_token)["result"].is_object());
        client.send(notification("notifications/initialized"));
        for method in ["resources/read", "resources/subscribe"] {
            let response = client.exchange(request(2, method, json!({"uri": LINK})));
            let code = &response["error"]["code"];
            let expected = if is_admin { Value::Null } else { json!(-32011) };
            assert_eq!(*code, expected, "{method} {response}");
        }
        let read = request(3, "resources/read", json!({"uri": THROUGH_FOLDER}));
        let response = client.exchange(read);
        assert_eq!(response["result"].is_object(), is_admin, "{response}");
        let listed = client.exchange(request(4, "resources/list", json!({})));
        assert_eq!(uris(&listed).contains(&LINK), is_admin);
    }
    server.close();
}

/// The list is of the time before.
#[test]
fn replaced_link_is_checked_when_it_is_read() {
    let (folder, authority) = (folder(), Authority::new());
    let server = start(folder.path(), &authority);
    let link = folder.path().join("open/other.md");
    fs::remove_file(&link).expect("the link");
    symlink("../secret/plan.md", &link).expect("a link");
    let read = request(1, "resources/read", json!({"uri": "files://x/open/other.md"}));
    let refused = post(server.http(), &read, Some("key-bob"));
    assert_eq!(refused.json()["error"]["code"], -32602, "{refused:?}");
    assert!(!refused.body.contains("plan"));
    assert!(post(server.http(), &read, Some("key-ada")).body.contains("the plan"));
    server.close();
}
