//! `corelane card` and `server-json`, and the card over HTTP.

use std::path::{Path, PathBuf};

use corelane_test_support::{HttpClient, Request, Response, ServeProcess, run_program};
use serde_json::{Value, json};

use crate::CORELANE;

/// Options of a server with a card.
const OPTIONS: [&str; 8] = [
    "--server-name",
    "shop",
    "--server-description",
    "Sells things.",
    "--card-name",
    "com.example/shop",
    "--card-url",
    "https://shop.example/mcp",
];

/// The folder of the official schema of cards, beside that of the revisions, if there is one.
fn schema_folder() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the official schema is outside of this project")]
    let folder = std::env::var_os("MCP_SCHEMA_DIR")?;
    Some(Path::new(&folder).parent()?.join("server-card")).filter(|folder| folder.is_dir())
}

fn read_json(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns whether a card conforms to the official schema; `true` without it.
fn is_valid_card(card: &Value) -> bool {
    let Some(folder) = schema_folder() else { return true };
    let mut schema = read_json(&folder.join("schema.json"));
    schema["$ref"] = "#/$defs/ServerCard".into();
    jsonschema::is_valid(&schema, card)
}

fn run(command: &str, arguments: &[&str]) -> Value {
    let result = run_program(CORELANE, [&[command], &OPTIONS[..], arguments].concat());
    assert_eq!(result.status, 0, "{command} {arguments:?}: {}", result.stderr);
    serde_json::from_str(&result.stdout).expect("one JSON document")
}

#[test]
fn schema_of_cards_distinguishes_its_examples() {
    let Some(folder) = schema_folder() else { return };
    for (kind, expected) in [("valid", true), ("invalid", false)] {
        for entry in folder.join("examples").join(kind).read_dir().expect("examples") {
            let path = entry.expect("an entry").path();
            assert_eq!(is_valid_card(&read_json(&path)), expected, "{}", path.display());
        }
    }
}

#[test]
fn card_conforms_to_schema() {
    let card = run("card", &[]);
    assert!(is_valid_card(&card), "{card:#}");
    assert_eq!(card["remotes"][0]["url"], "https://shop.example/mcp");
    let more = ["--card-website", "https://shop.example", "--server-title", "The shop"];
    let keys = tempfile::NamedTempFile::new().expect("a file");
    let keys = keys.path().to_str().expect("UTF-8");
    let card = run("card", &[&more[..], &["--auth-api-keys", keys]].concat());
    assert!(is_valid_card(&card), "{card:#}");
    assert_eq!(card["remotes"][0]["headers"][0]["name"], "Authorization");
}

#[test]
fn card_without_name_or_description_is_refused() {
    for (arguments, expected) in [
        (&["card"][..], "card.name is not set"),
        (&["card", "--card-name", "shop"], "card.name \"shop\" is not a name"),
        (&["card", "--card-name", "a/b", "--server-name", "b"], "server.description has 0"),
    ] {
        let result = run_program(CORELANE, arguments.iter().copied());
        assert_eq!(result.status, 1, "{arguments:?}");
        assert!(result.stderr.contains(expected), "{}", result.stderr);
    }
    let serve = ["serve", "--http", "127.0.0.1:0", "--tcp", "off", "--card-name", "shop"];
    let result = run_program(CORELANE, serve);
    assert_eq!(result.status, 1);
    assert!(result.stderr.contains("card.name"), "{}", result.stderr);
}

fn document(response: &Response) -> Value {
    serde_json::from_slice(&response.body).expect("one JSON document")
}

#[test]
fn card_is_served_to_every_origin() {
    let server = ServeProcess::http(CORELANE, &OPTIONS);
    let mut client = HttpClient::connect(server.address);
    let mut get = |path: &str, field: Option<(&str, &str)>| {
        let request = Request::new("GET", path).add_field("Origin", "https://elsewhere.example");
        let request = match field {
            Some((name, value)) => request.add_field(name, value),
            None => request,
        };
        client.exchange(&request)
    };
    let card = get("/mcp/server-card", None);
    let field = |name: &str| card.head.field(name).unwrap_or_default().to_owned();
    assert_eq!(card.head.status, 200);
    assert_eq!(field("Content-Type"), "application/mcp-server-card+json");
    assert_eq!(field("Access-Control-Allow-Origin"), "*");
    assert_eq!(field("Access-Control-Allow-Methods"), "GET");
    assert_eq!(field("Access-Control-Allow-Headers"), "Content-Type, If-None-Match");
    assert_eq!(field("Cache-Control"), "public, max-age=3600");
    assert_eq!(field("Access-Control-Expose-Headers"), "ETag");
    assert_eq!(document(&card), run("card", &[]));
    let etag = field("ETag");
    let again = get("/mcp/server-card", Some(("If-None-Match", &format!("\"x\", W/{etag}"))));
    assert_eq!((again.head.status, again.body.len()), (304, 0));
    let changed = get("/mcp/server-card", Some(("If-None-Match", "\"x\"")));
    assert_eq!(changed.head.status, 200);
    let catalog = get("/.well-known/ai-catalog.json", None);
    assert_eq!(catalog.head.field("Content-Type"), Some("application/ai-catalog+json"));
    let entry = json!({
        "identifier": "urn:air:shop.example:mcp:shop",
        "type": "application/mcp-server-card+json",
        "url": "https://shop.example/mcp/server-card",
    });
    assert_eq!(document(&catalog), json!({ "specVersion": "1.0", "entries": [entry] }));
}

#[test]
fn server_without_card_name_serves_no_card() {
    let server = ServeProcess::http(CORELANE, &[]);
    let mut client = HttpClient::connect(server.address);
    for path in ["/mcp/server-card", "/.well-known/ai-catalog.json"] {
        assert_eq!(client.exchange(&Request::new("GET", path)).head.status, 404, "{path}");
    }
}

#[test]
fn registry_entry_has_remote_and_package() {
    let entry = run("server-json", &["--package", "oci=ghcr.io/example/shop:1.0.2"]);
    let schema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
    assert_eq!(entry["$schema"], schema);
    assert_eq!(entry["name"], "com.example/shop");
    let package = json!({
        "registryType": "oci",
        "identifier": "ghcr.io/example/shop:1.0.2",
        "transport": { "type": "stdio" },
    });
    assert_eq!(entry["packages"], json!([package]));
    let remote = json!({ "type": "streamable-http", "url": "https://shop.example/mcp" });
    assert_eq!(entry["remotes"], json!([remote]));
}
