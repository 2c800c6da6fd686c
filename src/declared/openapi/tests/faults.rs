//! Documents and declarations with faults.

use std::path::Path;

use serde_json::{Value, json};

use super::{generate, generate_from};
use crate::declared::http::HttpClient;
use crate::declared::openapi::{OpenApiDeclaration, read_document};
use crate::declared::problem::Problem;

fn document(paths: &Value) -> Value {
    json!({ "openapi": "3.0.0", "servers": [{ "url": "https://a.example" }], "paths": paths })
}

fn problems(declaration: &str, document: &Value) -> Vec<Problem> {
    generate(declaration, document).map(|_| ()).err().unwrap_or_default()
}

#[test]
fn broken_document_is_named() {
    let cases = [
        ("{\"openapi\":", "is not JSON: EOF"),
        ("openapi: [", "is not YAML: "),
        ("", "has no version"),
        ("- a", "has no version"),
        ("<html>", "has no version"),
        ("{\"swagger\":\"2.0\"}", "is Swagger \"2.0\""),
        ("{\"openapi\":\"4.0.0\"}", "has the version \"4.0.0\""),
        ("openapi: 3.0.0", "`paths` is missing"),
    ];
    for (text, expected) in cases {
        let found = generate_from(&OpenApiDeclaration::default(), text.as_bytes());
        let found = found.map(|_| ()).unwrap_err();
        assert_eq!(found[0].key, "document");
        assert!(found[0].message.contains(expected), "{text}: {}", found[0]);
    }
    let bytes = generate_from(&OpenApiDeclaration::default(), b"\xff\xfe").map(|_| ());
    assert!(bytes.unwrap_err()[0].message.contains("is not UTF-8"));
}

#[test]
fn alias_bomb_is_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        let line = format!("a{level}: &a{level} [{items}]\n");
        text.push_str(&line);
    }
    let found = generate_from(&OpenApiDeclaration::default(), text.as_bytes()).map(|_| ());
    assert!(found.unwrap_err()[0].message.contains("is not YAML"));
    let deep = format!("openapi: {}", "[".repeat(100_000));
    assert!(generate_from(&OpenApiDeclaration::default(), deep.as_bytes()).is_err());
    let deep = format!("{{\"openapi\": {}", "[".repeat(100_000));
    assert!(generate_from(&OpenApiDeclaration::default(), deep.as_bytes()).is_err());
}

#[test]
fn large_document_becomes_tools() {
    let text = "x".repeat(3000);
    let operation = json!({ "get": { "description": text, "responses": { "200": {
        "description": text, "content": { "application/json": { "schema": {
            "type": "object", "description": text, "properties": { "a": { "description": text } },
        }}},
    }}}});
    let paths = (0..2500).map(|number| (format!("/x/{number}"), operation.clone()));
    let document = document(&Value::Object(paths.collect())).to_string();
    assert!(document.len() > 20 << 20);
    let generated = generate_from(&OpenApiDeclaration::default(), document.as_bytes()).unwrap();
    assert_eq!(generated.tools.len(), 2500);
    let larger = format!("{}{document}", " ".repeat(13 << 20));
    let found = generate_from(&OpenApiDeclaration::default(), larger.as_bytes()).map(|_| ());
    assert!(found.unwrap_err()[0].message.contains("more than 33554432 bytes"));
}

#[test]
fn faulty_operation_is_skipped_alone() {
    let parameter = |more: Value| json!({ "get": { "parameters": [more] } });
    let paths = json!({
        "/good": { "get": {} },
        "/missing": { "get": { "requestBody": { "$ref": "#/components/x" } } },
        "/other": parameter(json!({ "$ref": "parameters.yaml#/x" })),
        "/place": parameter(json!({ "name": "a", "in": "body" })),
        "/style": parameter(json!({ "name": "a", "in": "query", "style": "matrix" })),
        "/nameless": parameter(json!({ "in": "query" })),
        "/brace/{id": { "get": {} },
        "/a/../b": { "get": {} },
        "/self": { "$ref": "#/paths/~1self" },
        "/text": { "get": "x" },
        "/server": { "get": {}, "servers": [{ "url": "http://127.0.0.1:1" }] },
        "/host": { "get": {}, "servers": [{ "url": "/v1" }] },
        "/mixed": { "post": { "requestBody": { "content": { "multipart/mixed": {} } } } },
        "/schema": parameter(json!({ "name": "a", "in": "query", "schema": { "$ref": "#/x" } })),
    });
    let generated = generate("", &document(&paths)).unwrap();
    assert_eq!(generated.tools.len(), 1);
    let reason = |path: &str| {
        let is_at = |place: &str| place == path || place.ends_with(&format!(" {path}"));
        let skipped = generated.skipped.iter().find(|skipped| is_at(&skipped.place));
        skipped.map_or("", |skipped| skipped.reason.as_str())
    };
    let expected = [
        ("/missing", "has nothing at the reference \"#/components/x\""),
        ("/other", "refers to another document; bundle"),
        ("/place", "the parameter \"a\" is in \"body\""),
        ("/style", "has the style \"matrix\""),
        ("/nameless", "has no name"),
        ("/brace/{id", "a brace without end"),
        ("/a/../b", "a relative segment"),
        ("/self", "refers to itself"),
        ("/text", "is not an object"),
        ("/server", "private_addresses"),
        ("/host", "has no host; write it as `server`"),
        ("/mixed", "multipart/mixed"),
        ("/schema", "has nothing at the reference \"#/x\""),
    ];
    for (path, expected) in expected {
        assert!(reason(path).contains(expected), "{path}: {:?}", reason(path));
    }
    assert_eq!(generated.skipped.len(), expected.len());
}

#[test]
fn document_without_tools_is_a_problem() {
    let found = problems("", &document(&json!({ "/x": { "trace": {} } })));
    assert!(found[0].message.starts_with("no operation becomes a tool; TRACE /x: "), "{found:?}");
}

#[test]
fn operations_are_filtered() {
    let paths = json!({
        "/pets": { "get": { "tags": ["pets"] }, "post": { "tags": ["pets", "admin"] } },
        "/pets/{id}": { "get": { "operationId": "getPet" }, "delete": { "tags": ["admin"] } },
        "/users": { "get": { "operationId": "getUsers" } },
    });
    let places = |declaration: &str| {
        let generated = generate(declaration, &document(&paths)).unwrap();
        let tools = generated.tools.into_iter().map(|tool| tool.place).collect::<Vec<_>>();
        assert_eq!(generated.excluded + tools.len(), 5);
        tools.join(", ")
    };
    assert_eq!(places("read_only = true"), "GET /pets, GET /pets/{id}, GET /users");
    assert_eq!(
        places("include = [{ path = \"/users\" }, { tag = \"admin\" }]"),
        "POST /pets, DELETE /pets/{id}, GET /users"
    );
    assert_eq!(
        places("include = [{ path = \"/pets*\", method = \"get\" }]"),
        "GET /pets, GET /pets/{id}"
    );
    assert_eq!(
        places("include = [{ operation = \"get*\" }]\nexclude = [{ path = \"/u*\" }]"),
        "GET /pets/{id}"
    );
    let unused = problems("exclude = [{ tag = \"pest\" }]", &document(&paths));
    assert_eq!(unused[0].key, "exclude.0");
    assert!(unused[0].message.contains("applies to no operation: { tag = \"pest\" }"));
    assert_eq!(problems("include = [{}]", &document(&paths))[0].key, "include.0");
}

#[test]
fn every_problem_has_its_key() {
    let declaration = r#"
        prefix = "a b"
        private_addresses = ["a b"]
        security = { other = "x" }
        headers = { Host = "x" }
    "#;
    let other = problems("headers = { X-A = \"{a}\" }", &document(&json!({ "/x": { "get": {} } })));
    assert_eq!(other[0].key, "headers.x-a");
    let found = problems(declaration, &document(&json!({ "/x": { "get": {} } })));
    let keys: Vec<&str> = found.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["prefix", "security.other", "headers.Host", "private_addresses"]);
}

#[test]
fn security_value_is_checked_without_being_shown() {
    let mut document = document(&json!({ "/x": { "get": {} } }));
    document["components"]["securitySchemes"] = json!({
        "basic": { "type": "http", "scheme": "basic" },
        "digest": { "type": "http", "scheme": "digest" },
        "key": { "type": "apiKey", "in": "header", "name": "Host" },
        "bearer": { "type": "http", "scheme": "bearer" },
    });
    let secret = "s3cr3t";
    let declaration = format!(
        "security = {{ basic = \"{secret}\", digest = \"{secret}\", key = \"{secret}\", \
         bearer = \"{secret}\\n{secret}\" }}"
    );
    let found = problems(&declaration, &document);
    assert_eq!(found.len(), 4);
    assert!(!format!("{found:?}").contains(secret), "{found:?}");
    let declaration: OpenApiDeclaration =
        toml::from_str(&format!("document = \"x\"\n{declaration}")).unwrap();
    assert!(!format!("{declaration:?}").contains(secret));
}

#[test]
fn document_is_read_from_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), "openapi: 3.1.0").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let read = |document: &str, folder: &Path| {
        let declaration =
            OpenApiDeclaration { document: document.to_owned(), ..OpenApiDeclaration::default() };
        runtime.block_on(read_document(&declaration, folder, &mut HttpClient::new()))
    };
    assert_eq!(read("a.yaml", folder.path()).unwrap(), "openapi: 3.1.0");
    let missing = read("b.yaml", folder.path()).unwrap_err();
    assert!(missing.message.starts_with("b.yaml: No such file"), "{missing}");
    assert!(read("", folder.path()).is_err());
}
