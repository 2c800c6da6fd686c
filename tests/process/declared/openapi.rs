//! OpenAPI documents that are broken, cyclic or large.

use std::fs::File;

use serde_json::json;

use super::api::{Api, Reply};
use super::folder::{DeclaredServer, Folder};

const DECLARATION: &str = "[[openapi]]\ndocument = \"api.json\"\nprefix = \"api_\"\n\
                           private_addresses = [\"127.0.0.1\"]\n";

/// A document of one operation, with the members `more`.
fn document(origin: &str, more: &str) -> String {
    let operation = "{\"operationId\": \"put_node\", \"requestBody\": {\"content\": \
                     {\"application/json\": {\"schema\": \
                     {\"$ref\": \"#/components/schemas/Node\"}}}}, \
                     \"responses\": {\"200\": {\"description\": \"ok\"}}}";
    let node = "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \
                \"next\": {\"$ref\": \"#/components/schemas/Node\"}}, \"required\": [\"name\"]}";
    format!(
        "{{\"openapi\": \"3.1.0\", \"info\": {{\"title\": \"t\", \"version\": \"1\"}}, {more} \
         \"servers\": [{{\"url\": \"{origin}\"}}], \
         \"paths\": {{\"/nodes\": {{\"post\": {operation}}}}}, \
         \"components\": {{\"schemas\": {{\"Node\": {node}}}}}}}"
    )
}

#[test]
fn broken_document_is_named_with_place() {
    for (text, expected) in [
        ("{\"openapi\": \"3.1.0\",", "corelane.toml:2:1: openapi: document: "),
        ("<html>not found</html>", "openapi: document: "),
        ("[]", "has no version in `openapi`"),
        ("{\"swagger\": \"2.0\"}", "is Swagger \"2.0\""),
        ("{\"openapi\": \"4.0\", \"paths\": {}}", "has the version \"4.0\""),
        ("{\"openapi\": \"3.1.0\"}", "`paths` is missing"),
        ("\u{0}\u{1}", "openapi: document: "),
    ] {
        let folder = Folder::new(DECLARATION);
        folder.write("api.json", text);
        let faults = folder.faults();
        assert!(faults.contains(expected), "{text}: {faults}");
        assert!(faults.contains("; "), "{text}: {faults}");
    }
    let faults = Folder::new(DECLARATION).faults();
    assert!(faults.contains("api.json: No such file or directory"), "{faults}");
}

#[test]
fn cyclic_schema_becomes_callable_tool() {
    let api = Api::start(|_| Reply::json("{\"stored\": true}"));
    let folder = Folder::new(DECLARATION);
    folder.write("api.json", document(&api.origin(), ""));
    let server = DeclaredServer::start(folder, &[]);
    let mut client = server.connect();
    let node = json!({"name": "a", "next": {"name": "b", "next": {"name": "c"}}});
    let arguments = |node: &serde_json::Value| json!({ "body": node });
    client.text("api_put_node", arguments(&node));
    let request = api.wait_for_request();
    assert!(request.starts_with("POST /nodes HTTP/1.1\r\n"), "{request}");
    let (_, body) = request.split_once("\r\n\r\n").expect("a body");
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).expect("JSON"), node);
    // The schema holds at each depth.
    for wrong in [json!({"name": "a", "next": {"next": {"name": "c"}}}), json!({"next": {}})] {
        client.failure("api_put_node", arguments(&wrong));
    }
    assert!(api.received().is_empty());
}

#[test]
fn references_without_end_are_named() {
    let folder = Folder::new(DECLARATION);
    let text = document("http://127.0.0.1:1", "");
    let text = text.replace("{\"type\": \"object\",", "{\"$ref\": \"#/components/schemas/Node\",");
    folder.write("api.json", text.replace("#/components/schemas/Node\"}}}}", "#/none\"}}}}"));
    // No operation is left, or a fault says why.
    let checked = folder.run("check", &[]);
    assert!(checked.stderr.contains("/nodes"), "{}", checked.stderr);
    assert!(checked.stderr.contains("#/none"), "{}", checked.stderr);
}

#[test]
fn document_of_twenty_megabytes_is_read() {
    let folder = Folder::new(DECLARATION);
    let padding = format!("\"x-padding\": \"{}\",", "x".repeat(20 << 20));
    folder.write("api.json", document("http://127.0.0.1:1", &padding));
    let checked = folder.run("check", &[]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    let file = File::create(folder.path("api.json")).expect("file is created");
    file.set_len(33 << 20).expect("file grows");
    let faults = folder.faults();
    assert!(faults.contains("api.json has more than 33554432 bytes"), "{faults}");
}

#[test]
fn document_is_fetched_from_its_url() {
    let api = Api::start(|target| match target {
        "/openapi.json" => {
            let own = "{\"openapi\": \"3.0.3\", \"info\": {\"title\": \"t\", \"version\": \"1\"}, \
                       \"paths\": {\"/items/{id}\": {\"get\": {\"operationId\": \"item\", \
                       \"parameters\": [{\"name\": \"id\", \"in\": \"path\", \"required\": true, \
                       \"schema\": {\"type\": \"integer\"}}], \
                       \"responses\": {\"200\": {\"description\": \"ok\"}}}}}}";
            Reply::json(own)
        }
        "/items/7" => Reply::json("{\"id\": 7}"),
        _ => Reply::new("404 Not Found", "Content-Type: text/plain", "no such item"),
    });
    let origin = api.origin();
    let declaration = format!(
        "[[openapi]]\ndocument = \"{origin}/openapi.json\"\nserver = \"{origin}\"\n\
         private_addresses = [\"127.0.0.1\"]\n"
    );
    let server = DeclaredServer::new(&declaration);
    let mut client = server.connect();
    let found = client.response("item", json!({"id": 7}));
    assert_eq!(found["result"]["structuredContent"], json!({"id": 7}), "{found}");
    client.expect_failure("item", json!({"id": 8}), "404 Not Found: no such item");
    client.failure("item", json!({"id": "7/../8"}));
    let gone = Folder::new(&declaration.replace("openapi.json", "none.json"));
    let faults = gone.faults();
    assert!(faults.contains("404 Not Found"), "{faults}");
}
