//! Scopes and tiers: what callers may call, and what they see.

use std::fs;

use corelane::files::{Directory, Files};
use corelane_test_support::TestServer;
use serde_json::{Value, json};

use crate::authorization::http::{Response, open_session, post, post_legacy};
use crate::authorization::{Authority, METADATA, call, catalog, options, start};

/// The names in the response of a list.
fn names(response: &Response, list: &str, key: &str) -> Vec<String> {
    let json = response.json();
    let entries = json["result"][list].as_array().unwrap_or_else(|| panic!("{response:?}"));
    entries.iter().map(|entry| entry[key].as_str().unwrap_or_default().to_owned()).collect()
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

#[test]
fn missing_scope_gets_403_with_all_scopes() {
    let authority = Authority::new();
    let mut auth = authority.jwt_options();
    auth.rules = vec!["tools/call scope=tools:call".to_owned()];
    let server = start(auth);
    let token = authority.issuer.token("ada", "tools:read");
    let refused = post(server.http(), &call("deploy_app"), Some(&token));
    let expected = format!(
        "Bearer error=\"insufficient_scope\", scope=\"tools:deploy tools:call\", \
         resource_metadata=\"{METADATA}\", \
         error_description=\"the scope tools:deploy is missing\""
    );
    let error = json!({
        "code": -32011,
        "message": "the scope tools:deploy is missing",
        "data": {"retryable": false, "requiredScopes": ["tools:deploy", "tools:call"]},
    });
    refused.expect_error(403, &expected, Some(1), &error);
    // After step-up.
    let token = authority.issuer.token("ada", "tools:read tools:call tools:deploy");
    assert_eq!(post(server.http(), &call("deploy_app"), Some(&token)).text(), "deployed");
    let counters = server.close();
    assert_eq!(counters.auth.denied, 1);
}

#[test]
fn implied_scopes_are_accepted() {
    let authority = Authority::new();
    let mut auth = authority.jwt_options();
    auth.scope_implies = vec!["admin tools:call tools:deploy".to_owned()];
    auth.rules = vec!["tools/call scope=tools:call".to_owned()];
    let server = start(auth);
    let token = authority.issuer.token("ada", "admin");
    assert_eq!(post(server.http(), &call("deploy_app"), Some(&token)).text(), "deployed");
    server.close();
}

#[test]
fn lists_show_only_what_caller_may_use() {
    let authority = Authority::new();
    let mut auth = authority.jwt_options();
    auth.rules = vec![
        "tools/call whoami_* scope=local".to_owned(),
        "resources/read docs://secret/* tier=admin".to_owned(),
        "prompts/get greet scope=greet".to_owned(),
    ];
    let server = start(auth);
    let list =
        |token: &str, method: &str| post(server.http(), &request(method, &json!({})), Some(token));
    let plain = authority.issuer.token("ada", "");
    assert_eq!(names(&list(&plain, "tools/list"), "tools", "name"), ["whoami"]);
    assert!(names(&list(&plain, "resources/list"), "resources", "uri").is_empty());
    assert!(names(&list(&plain, "prompts/list"), "prompts", "name").is_empty());
    let templates = list(&plain, "resources/templates/list");
    assert_eq!(names(&templates, "resourceTemplates", "uriTemplate"), ["docs://{area}/page"]);
    assert_eq!(templates.json()["result"]["cacheScope"], "private");
    let all = authority.issuer.token("ada", "local tools:deploy greet");
    let tools = names(&list(&all, "tools/list"), "tools", "name");
    assert_eq!(tools, ["whoami", "whoami_local", "deploy_app"]);
    assert_eq!(names(&list(&all, "prompts/list"), "prompts", "name"), ["greet"]);
    server.close();
}

#[test]
fn rule_for_uri_holds_for_encoded_forms() {
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.rules = vec!["resources/read docs://secret/* tier=admin".to_owned()];
    let server = start(auth);
    let read = |key: &str, uri: &str| {
        post(server.http(), &request("resources/read", &json!({"uri": uri})), Some(key))
    };
    for uri in ["docs://secret/plan", "docs://secret/page", "docs://%73ecret/page"] {
        read("key-bob", uri).expect_admin_required();
        assert_ne!(read("key-ada", uri).status, 403, "{uri}");
    }
    assert_eq!(read("key-bob", "docs://open/page").status, 200);
    server.close();
}

/// Each spelling reads the resource, and is denied by a rule in any spelling.
#[test]
fn rule_holds_for_each_spelling_of_uri() {
    let spellings = [
        "docs://secret/plan",
        "DOCS://Secret/plan",
        "docs://SECRET/%70lan",
        "docs://s%65cret/pl%61n",
    ];
    for rule in ["docs://secret/plan", "Docs://SECRET/p*", "*://Secret/%70lan"] {
        let authority = Authority::new();
        let mut auth = authority.key_options();
        auth.rules = vec![format!("resources/read {rule} tier=admin")];
        let server = start(auth);
        for uri in spellings {
            let read = request("resources/read", &json!({"uri": uri}));
            post(server.http(), &read, Some("key-bob")).expect_admin_required();
            let response = post(server.http(), &read, Some("key-ada"));
            assert!(response.status == 200 && response.body.contains("the plan"), "{uri}");
            let filter = json!({"notifications": {"resourceSubscriptions": [uri]}});
            let listen = request("subscriptions/listen", &filter);
            post(server.http(), &listen, Some("key-bob")).expect_admin_required();
        }
        let other = request("resources/read", &json!({"uri": "docs://secret/page"}));
        assert_eq!(post(server.http(), &other, Some("key-ada")).status, 200);
        server.close();
    }
}

/// A query names a part of the file: it avoids no rule for the file.
#[test]
fn rule_holds_for_parts_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("Pläne+1.md"), "secret").expect("a file");
    let directory = Directory::new(folder.path()).expect("a directory");
    let path = directory.path().to_str().expect("a path in UTF-8").to_owned();
    let mut files = Files::new().resources(directory).without_watch();
    let catalog = files.add_to_catalog(&catalog()).expect("a catalog");
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.rules = vec![format!("resources/read FILE:{path}/Pl%c3%a4ne%2B1.md tier=admin")];
    let server = TestServer::with_catalog(options(auth), catalog);
    for file in ["Pl%C3%A4ne%2B1.md", "%50l%C3%A4ne+1.md", "Pl%c3%a4ne+%31.md"] {
        for start in ["file://", "FILE://", "file:", "file://localhost", "File://LOCALHOST"] {
            for query in ["", "?offset=0", "?%6Cength=3"] {
                let uri = format!("{start}{path}/{file}{query}");
                let read = request("resources/read", &json!({"uri": uri}));
                post(server.http(), &read, Some("key-bob")).expect_admin_required();
                assert_eq!(post(server.http(), &read, Some("key-ada")).status, 200, "{uri}");
            }
        }
    }
    server.close();
}

#[test]
fn completion_of_paths_hides_denied_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["open.md", "secret.md"] {
        fs::write(folder.path().join(name), "text").expect("a file");
    }
    let directory = Directory::new(folder.path()).expect("a directory");
    let directory = directory.uri_prefix("files://x/").expect("a prefix");
    let mut files = Files::new().resources(directory).without_watch();
    let catalog = files.add_to_catalog(&catalog()).expect("a catalog");
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.rules = vec!["resources/read files://x/secret.md tier=admin".to_owned()];
    let server = TestServer::with_catalog(options(auth), catalog);
    let params = json!({
        "ref": {"type": "ref/resource", "uri": "files://X/{+path}{?offset,length}"},
        "argument": {"name": "path", "value": ""},
    });
    for (key, expected) in [("key-bob", &["open.md"][..]), ("key-ada", &["open.md", "secret.md"])] {
        let response = post(server.http(), &request("completion/complete", &params), Some(key));
        assert_eq!(response.json()["result"]["completion"]["values"], json!(expected));
    }
    server.close();
}

#[test]
fn related_requests_follow_rules_of_subject() {
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.rules = vec![
        "resources/read docs://secret/* tier=admin".to_owned(),
        "prompts/get greet tier=admin".to_owned(),
    ];
    let server = start(auth);
    let argument = json!({"name": "x", "value": ""});
    let of_prompt = json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": argument});
    let filter = json!({"notifications": {"resourceSubscriptions": ["docs://secret/plan"]}});
    let listen = request("subscriptions/listen", &filter);
    post(server.http(), &listen, Some("key-bob")).expect_admin_required();
    // A feature that the server does not have is not found before.
    let completed =
        post(server.http(), &request("completion/complete", &of_prompt), Some("key-bob"));
    let error = json!({"code": -32601, "message": "method not found: completion/complete"});
    completed.expect_error(404, "", Some(1), &error);
    let prompt = request("prompts/get", &json!({"name": "greet"}));
    post(server.http(), &prompt, Some("key-bob")).expect_admin_required();
    assert_eq!(post(server.http(), &prompt, Some("key-ada")).status, 200);
    server.close();
}

#[test]
fn body_decides_when_headers_name_another_tool() {
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.rules = vec!["tools/call whoami_local tier=admin".to_owned()];
    let server = start(auth);
    let session = open_session(server.http(), "key-bob");
    let fields = format!(
        "Authorization: Bearer key-bob\r\nMcp-Session-Id: {session}\r\nMcp-Method: tools/list\r\n\
         Mcp-Name: whoami\r\n"
    );
    let refused = post_legacy(server.http(), &call("whoami_local"), &fields);
    refused.expect_admin_required();
    assert_eq!(post_legacy(server.http(), &call("whoami"), &fields).text(), "bob (user)");
    server.close();
}

#[test]
fn rule_with_mfa_needs_several_factors() {
    let authority = Authority::new();
    let mut auth = authority.jwt_options();
    auth.tier_claim = Some("role".to_owned());
    auth.rules = vec!["tools/call whoami tier=admin mfa".to_owned()];
    let server = start(auth);
    let token = |methods: Value| {
        let mut claims = authority.issuer.claims("ada", "");
        claims["role"] = json!("admin");
        claims["amr"] = methods;
        authority.issuer.sign(&claims)
    };
    let refused = post(server.http(), &call("whoami"), Some(&token(json!(["pwd"]))));
    let reason = "multi-factor authentication is required";
    let challenge = format!(
        "Bearer error=\"insufficient_scope\", resource_metadata=\"{METADATA}\", \
         error_description=\"{reason}\""
    );
    let data = json!({"retryable": true, "mfaRequired": true, "requiredScopes": []});
    let error = json!({"code": -32011, "message": reason, "data": data});
    refused.expect_error(403, &challenge, Some(1), &error);
    let token = token(json!(["pwd", "mfa"]));
    assert_eq!(post(server.http(), &call("whoami"), Some(&token)).text(), "ada (admin)");
    server.close();
}
