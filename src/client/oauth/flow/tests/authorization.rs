//! The authorization code flow.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::world::{ISSUER, NOW, SERVER, World, automatic, challenge, document, refusal};
use crate::oauth::tokens::ClientAuth;
use crate::oauth::{
    Challenge, FlowCause, MemoryTokenStore, OAuthOptions, Secret, StoredTokens, TokenStore,
};

/// Obtains tokens with a refresh token that expire.
fn with_refresh_token(world: &mut World) -> StoredTokens {
    world.token_answers.push_back(document(&json!({
        "access_token": "first", "token_type": "Bearer", "expires_in": "60",
        "refresh_token": "refresh-1",
    })));
    let tokens = world.authorize(automatic(), challenge("Bearer scope=\"a b\"")).unwrap();
    assert_eq!((tokens.issued_at, tokens.expires_in), (NOW, Some(60)));
    world.requests.clear();
    tokens
}

fn refused(attempt: u32) -> FlowCause {
    FlowCause::Challenge { challenge: Challenge::default(), is_forbidden: false, attempt }
}

#[test]
fn code_is_exchanged_with_pkce_and_resource() {
    let mut world = World::new();
    let options = OAuthOptions::new().on_authorization_url(|_| {});
    let tokens = world.authorize(options, challenge("Bearer scope=\"a b\"")).unwrap();
    let [request] = &world.parameters("/authorize")[..] else { panic!("one request") };
    let [exchange] = &world.parameters("/token")[..] else { panic!("one request") };
    let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&exchange["code_verifier"]));
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "registered at https://as/"),
        ("redirect_uri", "http://127.0.0.1:7777/callback"),
        ("code_challenge_method", "S256"),
        ("code_challenge", &digest),
        ("resource", SERVER),
        ("scope", "a b"),
    ] {
        assert_eq!(request[name], value, "{name}");
    }
    assert_ne!(request["state"], exchange["code_verifier"]);
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "the-code"),
        ("client_id", "registered at https://as/"),
        ("redirect_uri", "http://127.0.0.1:7777/callback"),
        ("resource", SERVER),
    ] {
        assert_eq!(exchange[name], value, "{name}");
    }
    assert_eq!(tokens.scopes, ["a", "b"]);
    let registration = world.requests.iter().find(|request| request.url.path() == "/register");
    let registration: Value = serde_json::from_slice(&registration.unwrap().body).unwrap();
    assert_eq!(registration["application_type"], "native");
    assert_eq!(registration["redirect_uris"], json!(["http://127.0.0.1:7777/callback"]));
    assert_eq!(registration["grant_types"], json!(["authorization_code", "refresh_token"]));
}

#[test]
fn server_without_pkce_is_refused() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let mut world = World::new();
        world.set_server(ISSUER, &json!({ "code_challenge_methods_supported": methods }));
        assert!(world.refuse(automatic()).contains("PKCE"));
    }
}

#[test]
fn redirect_of_another_server_is_refused() {
    let parameter = "authorization_response_iss_parameter_supported";
    for (is_announced, issuer, is_accepted) in [
        (true, Some("https://as"), true),
        (true, None, false),
        (true, Some("https://evil"), false),
        (true, Some("https://as/"), false),
        (false, None, true),
        (false, Some("https://as"), true),
        (false, Some("https://evil"), false),
    ] {
        let mut world = World::new();
        world.set_server(ISSUER, &json!({ parameter: is_announced }));
        world.redirect = issuer.map(|issuer| ("iss", issuer.to_owned())).into_iter().collect();
        let outcome = world.authorize(automatic(), Challenge::default());
        assert_eq!(outcome.is_ok(), is_accepted, "{is_announced} {issuer:?}");
        assert_eq!(world.parameters("/token").len(), usize::from(is_accepted));
    }
}

#[test]
fn invalid_redirect_is_refused() {
    for (redirect, reason) in [
        (vec![("code", "a"), ("state", "other")], "state"),
        (vec![("code", "a")], "state"),
        (vec![("code", "a"), ("state", "STATE"), ("code", "b")], "twice"),
        (vec![("state", "STATE")], "no code"),
        (vec![("state", "STATE"), ("code", "")], "no code"),
        (vec![("state", ""), ("code", "a")], "state"),
        (vec![("state", "STATE"), ("error", "access_denied"), ("code", "a")], "access_denied"),
        (vec![("state", "STATE"), ("error", "x"), ("iss", "https://evil")], "https://evil"),
    ] {
        let mut world = World::new();
        world.redirect =
            redirect.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let error = world.refuse(automatic());
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn client_without_user_is_not_registered() {
    let mut world = World::new();
    let error = world.refuse(OAuthOptions::new());
    assert!(error.contains("login"), "{error}");
    assert!(world.parameters("/register").is_empty());
}

#[test]
fn scopes_are_those_that_server_names() {
    let supported = json!({
        "resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": ["c", "d"],
    });
    for (metadata, value, options, expected) in [
        (Some(&supported), "Bearer scope=\"a b\"", automatic(), Some("a b")),
        (Some(&supported), "Bearer", automatic(), Some("c d")),
        (None, "Bearer", automatic(), None),
        (Some(&supported), "Bearer scope=a", automatic().scope("e f"), Some("e f")),
    ] {
        let mut world = World::new();
        if let Some(metadata) = metadata {
            world.set_resource(metadata);
        }
        world.authorize(options, challenge(value)).unwrap();
        let request = &world.parameters("/authorize")[0];
        assert_eq!(request.get("scope").map(String::as_str), expected);
    }
}

#[test]
fn offline_access_is_asked_where_supported() {
    for (grants, expected) in
        [(json!(null), "a offline_access"), (json!(["authorization_code"]), "a")]
    {
        let mut world = World::new();
        let members =
            json!({ "scopes_supported": ["offline_access"], "grant_types_supported": grants });
        world.set_server(ISSUER, &members);
        world.authorize(automatic(), challenge("Bearer scope=a")).unwrap();
        assert_eq!(world.parameters("/authorize")[0]["scope"], expected);
    }
}

#[test]
fn step_up_keeps_earlier_scopes() {
    let mut world = World::new();
    let stored = with_refresh_token(&mut world);
    let challenge = challenge("Bearer error=insufficient_scope, scope=\"c a\"");
    let cause = FlowCause::Challenge { challenge, is_forbidden: true, attempt: 1 };
    let tokens = world.run(automatic(), Some(stored), cause).unwrap();
    assert_eq!(world.parameters("/authorize")[0]["scope"], "a b c");
    assert_eq!(tokens.scopes, ["a", "b", "c"]);
    // The client is registered once.
    assert!(world.parameters("/register").is_empty());
}

#[test]
fn client_is_found_in_specified_order() {
    let document = "https://client/metadata.json";
    for (options, supports_documents, expected) in [
        (automatic().client_id("known").client_metadata_document(document), true, "known"),
        (automatic().client_metadata_document(document), true, document),
        (automatic().client_metadata_document(document), false, "registered at https://as/"),
    ] {
        let mut world = World::new();
        let members = json!({ "client_id_metadata_document_supported": supports_documents });
        world.set_server(ISSUER, &members);
        let tokens = world.authorize(options, Challenge::default()).unwrap();
        assert_eq!(tokens.client.id, expected);
        assert_eq!(world.parameters("/authorize")[0]["client_id"], expected);
    }
    let mut world = World::new();
    world.set_server(ISSUER, &json!({ "registration_endpoint": null }));
    assert!(world.refuse(automatic()).contains("client id"));
}

#[test]
fn client_authenticates_as_server_supports() {
    for (method, auth) in [
        ("client_secret_basic", ClientAuth::ClientSecretBasic),
        ("client_secret_post", ClientAuth::ClientSecretPost),
        ("none", ClientAuth::None),
    ] {
        let mut world = World::new();
        let methods = json!({ "token_endpoint_auth_methods_supported": [method] });
        world.set_server(ISSUER, &methods);
        let options = automatic().client_id("a b").client_secret("c:d");
        let tokens = world.authorize(options, Challenge::default()).unwrap();
        assert_eq!(tokens.client.auth, auth);
        let form = &world.parameters("/token")[0];
        let basic = (auth == ClientAuth::ClientSecretBasic).then_some("Basic YStiOmMlM0Fk");
        assert_eq!(world.field("/token", "Authorization").as_deref(), basic);
        assert_eq!(form.contains_key("client_secret"), auth == ClientAuth::ClientSecretPost);
        assert_eq!(form.contains_key("client_id"), auth != ClientAuth::ClientSecretBasic);
    }
}

#[test]
fn token_is_refreshed_and_rotated() {
    let mut world = World::new();
    let stored = with_refresh_token(&mut world);
    let rotated = json!({ "access_token": "second", "refresh_token": "refresh-2" });
    world.token_answers.push_back(document(&rotated));
    let tokens = world.run(automatic(), Some(stored), FlowCause::Refresh).unwrap();
    assert_eq!(world.urls(), ["https://as/token"]);
    let form = &world.parameters("/token")[0];
    let expected = ["refresh_token", "refresh-1", SERVER].map(Some);
    let found = ["grant_type", "refresh_token", "resource"].map(|name| form.get(name));
    assert_eq!(found.map(|value| value.map(String::as_str)), expected);
    assert_eq!(tokens.refresh_token.as_ref().unwrap().expose(), "refresh-2");

    // A server that does not rotate; the first refusal of a request.
    let tokens = world.run(automatic(), Some(tokens), refused(1)).unwrap();
    assert_eq!(tokens.refresh_token.unwrap().expose(), "refresh-2");
    assert!(world.parameters("/authorize").is_empty());
}

#[test]
fn failing_server_keeps_refresh_token() {
    for error in ["server_error", "temporarily_unavailable"] {
        let mut world = World::new();
        let stored = with_refresh_token(&mut world);
        world.requests.clear();
        world.token_answers.push_back(refusal(error));
        let failure = world.run(automatic(), Some(stored), FlowCause::Refresh).unwrap_err();
        assert!(failure.to_string().contains(error), "{failure}");
        assert!(world.parameters("/authorize").is_empty(), "{error}");
    }
}

#[test]
fn tokens_of_another_client_replace_used_refresh_token() {
    let mut world = World::new();
    let stored = with_refresh_token(&mut world);
    let store = MemoryTokenStore::new();
    let replaced = StoredTokens { access_token: Secret::new("theirs"), ..stored.clone() };
    store.save(SERVER, &replaced).unwrap();
    world.requests.clear();
    world.token_answers.push_back(refusal("invalid_grant"));
    let tokens = world.run(automatic().store(store), Some(stored), FlowCause::Refresh).unwrap();
    assert_eq!(tokens.access_token.expose(), "theirs");
    assert!(world.parameters("/authorize").is_empty());
}

#[test]
fn refused_refresh_begins_new_authorization() {
    for (error, registrations) in [("invalid_grant", 0), ("invalid_client", 1)] {
        let mut world = World::new();
        let stored = with_refresh_token(&mut world);
        world.token_answers.push_back(refusal(error));
        let tokens = world.run(automatic(), Some(stored), FlowCause::Refresh).unwrap();
        assert_eq!(world.parameters("/authorize").len(), 1);
        assert_eq!(world.parameters("/register").len(), registrations);
        assert_eq!(tokens.scopes, ["a", "b"]);
    }
    let mut world = World::new();
    let stored = with_refresh_token(&mut world);
    world.run(automatic(), Some(stored), refused(2)).unwrap();
    assert_eq!(world.parameters("/token")[0]["grant_type"], "authorization_code");
}

#[test]
fn new_authorization_server_gets_nothing_of_old() {
    let mut world = World::new();
    let stored = with_refresh_token(&mut world);
    let issuer = "https://new";
    world.set_resource(&json!({ "resource": SERVER, "authorization_servers": [issuer] }));
    world.set_server(issuer, &json!({}));
    let tokens = world.run(automatic(), Some(stored.clone()), refused(1)).unwrap();
    assert_eq!((&*tokens.issuer, &*tokens.client.id), (issuer, "registered at https://new/"));
    let texts = world.requests.iter().map(|request| {
        format!("{} {} {:?}", request.url, String::from_utf8_lossy(&request.body), request.fields)
    });
    let sent: String = texts.collect();
    assert!(sent.contains("new") && !sent.contains("as%2F"), "{sent}");
    assert!(!sent.contains("refresh-1"), "{sent}");

    let error = world.run(automatic().client_id("id"), Some(stored), refused(1)).unwrap_err();
    assert!(error.to_string().contains("has changed from https://as"), "{error}");
}

#[test]
fn refused_code_is_an_error() {
    let mut world = World::new();
    let answer = json!({ "error": "invalid_grant", "error_description": "code\r\nused" });
    let refused = crate::oauth::FetchResponse { status: 400, ..document(&answer) };
    world.token_answers.push_back(refused);
    let error = world.authorize(automatic(), Challenge::default()).unwrap_err();
    assert!(error.to_string().ends_with("invalid_grant: codeused"), "{error}");

    let invalid = json!({ "access_token": "a\r\nb" });
    world.token_answers.push_back(document(&invalid));
    assert!(world.authorize(automatic(), Challenge::default()).is_err());
}

#[test]
fn error_with_status_200_is_shown() {
    let answer = json!({ "error": "bad_verification_code", "error_description": "it has expired" });
    let mut world = World::new();
    world.token_answers.push_back(document(&answer));
    let error = world.authorize(automatic(), Challenge::default()).unwrap_err();
    assert!(error.to_string().ends_with("bad_verification_code: it has expired"), "{error}");

    let mut world = World::new();
    let stored = with_refresh_token(&mut world);
    world.token_answers.push_back(document(&json!({ "error": "invalid_grant" })));
    world.run(automatic(), Some(stored), FlowCause::Refresh).unwrap();
    assert_eq!(world.parameters("/authorize").len(), 1, "the refresh token is of no use");

    let mut world = World::new();
    let answer = json!({ "error": { "code": 403, "message": "no clients here" } });
    world.set("https://as/register", document(&answer));
    let error = world.refuse(automatic());
    assert!(error.ends_with("403: no clients here"), "{error}");
}

#[test]
fn unknown_token_type_is_refused() {
    for (token_type, is_accepted) in [
        (json!("Bearer"), true),
        (json!("BEARER"), true),
        (json!(null), true),
        (json!("mac"), false),
        (json!("N_A"), false),
        // Without a key of the client.
        (json!("DPoP"), false),
    ] {
        let mut world = World::new();
        let answer = json!({ "access_token": "a", "token_type": token_type });
        world.token_answers.push_back(document(&answer));
        let outcome = world.authorize(automatic(), Challenge::default());
        assert_eq!(outcome.is_ok(), is_accepted, "{token_type}");
        if let Err(error) = outcome {
            assert!(error.to_string().contains("token_type"), "{error}");
        }
    }
}

#[test]
fn resource_parameter_can_be_left_out() {
    let mut world = World::new();
    world.token_answers.push_back(document(&json!({
        "access_token": "a", "token_type": "Bearer", "refresh_token": "refresh",
    })));
    let tokens = world.authorize(automatic().without_resource(), Challenge::default()).unwrap();
    // Tokens remember it.
    world.run(automatic(), Some(tokens), FlowCause::Refresh).unwrap();
    let requests = [world.parameters("/authorize"), world.parameters("/token")].concat();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| !request.contains_key("resource")), "{requests:?}");
}

#[test]
fn automatic_approval_follows_few_redirects() {
    let mut world = World::new();
    world.set_server(ISSUER, &json!({ "authorization_endpoint": "https://as/loop" }));
    // The query differs each time.
    let error = world.refuse(automatic());
    assert!(error.contains("404"), "{error}");
    world.set_server(ISSUER, &json!({ "authorization_endpoint": "https://as/authorize?a=b" }));
    let tokens = world.authorize(automatic(), Challenge::default()).unwrap();
    assert_eq!(tokens.resource, SERVER);
    assert_eq!(world.parameters("/authorize")[0]["a"], "b");
}
