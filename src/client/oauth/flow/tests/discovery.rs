//! Discovery of metadata.

use serde_json::json;

use super::world::{
    ISSUER, SERVER, World, automatic, challenge, document, redirect_to, server_metadata,
};
use crate::oauth::{Challenge, FetchResponse};

#[test]
fn metadata_of_challenge_is_read_first() {
    let mut world = World::new();
    let metadata = json!({ "resource": SERVER, "authorization_servers": [ISSUER] });
    world.set("https://mcp/custom", document(&metadata));
    let named = challenge("Bearer resource_metadata=\"https://mcp/custom\"");
    world.authorize(automatic(), named).unwrap();
    assert_eq!(
        world.urls()[..3],
        [
            "https://mcp/custom",
            "https://as/.well-known/oauth-authorization-server",
            "https://as/register",
        ]
    );
}

#[test]
fn missing_metadata_is_searched_elsewhere() {
    let mut world = World::new();
    world.documents.clear();
    let issuer = "https://as/tenant";
    let metadata = json!({ "resource": "https://mcp", "authorization_servers": [issuer] });
    world.set("https://mcp/.well-known/oauth-protected-resource", document(&metadata));
    let url = "https://as/tenant/.well-known/openid-configuration";
    let mut metadata = server_metadata(ISSUER);
    metadata["issuer"] = issuer.into();
    world.set(url, document(&metadata));
    let tokens = world.authorize(automatic(), Challenge::default()).unwrap();
    assert_eq!((&*tokens.resource, &*tokens.issuer), ("https://mcp", issuer));
    assert_eq!(
        world.urls()[..5],
        [
            "https://mcp/.well-known/oauth-protected-resource/mcp",
            "https://mcp/.well-known/oauth-protected-resource",
            "https://as/.well-known/oauth-authorization-server/tenant",
            "https://as/.well-known/openid-configuration/tenant",
            url,
        ]
    );
}

#[test]
fn server_without_metadata_authorizes_itself() {
    let mut world = World::new();
    world.documents.clear();
    let tokens = world.authorize(automatic(), Challenge::default()).unwrap();
    assert_eq!((&*tokens.issuer, &*tokens.resource), ("https://mcp", SERVER));
    let last = ["https://mcp/register", "https://mcp/authorize", "https://mcp/token"];
    assert!(world.urls().ends_with(&last.map(str::to_owned)), "{:?}", world.urls());

    // Below another path than the issuer's (2025-03-26).
    let mut metadata = server_metadata("https://mcp");
    metadata["issuer"] = "https://mcp/oauth".into();
    world.set("https://mcp/.well-known/oauth-authorization-server", document(&metadata));
    let tokens = world.authorize(automatic(), Challenge::default()).unwrap();
    assert_eq!(tokens.issuer, "https://mcp/oauth");
}

#[test]
fn metadata_of_foreign_issuer_is_refused() {
    for issuer in ["https://evil", "https://as/"] {
        let mut world = World::new();
        world.set_server(ISSUER, &json!({ "issuer": issuer }));
        let error = world.refuse(automatic());
        assert!(error.contains(issuer), "{error}");
        assert!(world.parameters("/register").is_empty());
    }
    let mut world = World::new();
    world.documents.clear();
    let url = "https://mcp/.well-known/oauth-authorization-server";
    world.set(url, document(&server_metadata("https://evil")));
    assert!(world.refuse(automatic()).contains("https://evil"));
}

#[test]
fn metadata_of_another_resource_is_refused() {
    for resource in ["https://evil/mcp", "https://mcp/other", "none"] {
        let mut world = World::new();
        world.set_resource(&json!({ "resource": resource, "authorization_servers": [ISSUER] }));
        assert!(world.refuse(automatic()).contains(resource));
        assert_eq!(world.requests.len(), 1);
    }
}

#[test]
fn only_the_named_issuer_is_used() {
    let mut world = World::new();
    let error = world.refuse(automatic().client_id("id").issuer("https://known"));
    assert!(error.contains("https://known"), "{error}");
    let issuers = json!({ "resource": SERVER, "authorization_servers": ["https://b", ISSUER] });
    world.set_resource(&issuers);
    let options = automatic().client_id("id").issuer(ISSUER);
    assert_eq!(world.authorize(options, Challenge::default()).unwrap().issuer, ISSUER);
}

#[test]
fn endpoint_without_tls_is_refused() {
    for endpoint in ["http://as/token", "http://127.0.0.1/token", "file:///token"] {
        let mut world = World::new();
        world.set_server(ISSUER, &json!({ "token_endpoint": endpoint }));
        let error = world.refuse(automatic());
        assert!(error.contains("token endpoint"), "{error}");
    }
    let mut world = World::new();
    let named = challenge("Bearer resource_metadata=\"http://127.0.0.1/metadata\"");
    assert!(world.authorize(automatic(), named).is_err());
    assert_eq!(world.requests.len(), 0);
}

#[test]
fn redirects_of_metadata_are_bounded() {
    let first = "https://mcp/.well-known/oauth-protected-resource/mcp";
    let mut world = World::new();
    world.set(first, redirect_to(first));
    assert!(world.refuse(automatic()).contains("too many redirects"));
    // Then the other well-known path.
    assert_eq!(world.requests.len(), 5);

    world.set(first, redirect_to("https://evil/"));
    assert!(world.refuse(automatic()).contains("another server"));

    let mut world = World::new();
    let metadata = world.documents[first].clone();
    world.set(first, redirect_to("/moved"));
    world.set("https://mcp/moved", metadata);
    assert!(world.authorize(automatic(), Challenge::default()).is_ok());
}

/// Answers of servers that have no document below a path, and of those that fail.
fn unusable() -> [FetchResponse; 5] {
    let answer = |status, body: &str| FetchResponse {
        status,
        body: body.into(),
        ..FetchResponse::default()
    };
    [
        answer(200, "<!doctype html>"),
        answer(200, "{}"),
        answer(200, ""),
        answer(502, "bad gateway"),
        redirect_to("https://elsewhere/"),
    ]
}

#[test]
fn unusable_metadata_is_searched_elsewhere() {
    let resource = "https://mcp/.well-known/oauth-protected-resource";
    let server = "https://as/.well-known/";
    for answer in unusable() {
        let mut world = World::new();
        let metadata = world.documents[&format!("{resource}/mcp")].clone();
        world.set(&format!("{resource}/mcp"), answer.clone());
        world.set(resource, metadata);
        let metadata = world.documents[&format!("{server}oauth-authorization-server")].clone();
        world.set(&format!("{server}oauth-authorization-server"), answer);
        world.set(&format!("{server}openid-configuration"), metadata);
        let tokens = world.authorize(automatic(), Challenge::default()).unwrap();
        assert_eq!((&*tokens.resource, &*tokens.issuer), (SERVER, ISSUER));
    }
}

#[test]
fn unusable_metadata_everywhere_is_named() {
    for answer in unusable() {
        let mut world = World::new();
        world.set("https://as/.well-known/oauth-authorization-server", answer.clone());
        world.set("https://as/.well-known/openid-configuration", answer);
        let error = world.refuse(automatic());
        for path in ["oauth-authorization-server: ", "openid-configuration: "] {
            assert!(error.contains(&format!("https://as/.well-known/{path}")), "{error}");
        }
    }
}

#[test]
fn page_instead_of_resource_metadata_leaves_server() {
    let page = FetchResponse { status: 200, body: b"<html>".into(), ..FetchResponse::default() };
    let mut world = World::new();
    world.set("https://mcp/.well-known/oauth-protected-resource/mcp", page);
    // No default endpoints: the server has said nothing of MCP 2025-03-26.
    assert!(world.refuse(automatic()).contains("<html>"));
    world.set_server("https://mcp", &json!({}));
    let tokens = world.authorize(automatic(), Challenge::default()).unwrap();
    assert_eq!(tokens.issuer, "https://mcp");
}

#[test]
fn metadata_url_may_be_relative() {
    let metadata = json!({ "resource": SERVER, "authorization_servers": [ISSUER] });
    for reference in ["/custom", "https://mcp/custom", "//mcp/custom", "custom"] {
        let mut world = World::new();
        world.documents.remove("https://mcp/.well-known/oauth-protected-resource/mcp");
        world.set("https://mcp/custom", document(&metadata));
        let named = challenge(&format!("Bearer resource_metadata=\"{reference}\""));
        assert!(world.authorize(automatic(), named).is_ok(), "{reference}");
    }
    for reference in ["http://mcp/custom", "file:///custom", "https://u@mcp/custom"] {
        let named = challenge(&format!("Bearer resource_metadata=\"{reference}\""));
        let error = World::new().authorize(automatic(), named).unwrap_err();
        assert!(error.to_string().contains("resource_metadata"), "{error}");
    }
}

#[test]
fn invalid_metadata_is_an_error() {
    for (status, body) in [(200, "{"), (200, "[]"), (200, "{\"resource\":1}"), (503, "busy")] {
        let mut world = World::new();
        let response = FetchResponse { status, body: body.into(), ..FetchResponse::default() };
        world.set("https://mcp/.well-known/oauth-protected-resource/mcp", response);
        let error = world.refuse(automatic());
        assert!(error.contains("protected resource at https://mcp/"), "{error}");
    }
}
