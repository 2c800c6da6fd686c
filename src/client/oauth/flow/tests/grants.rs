//! Tokens without a browser, and tokens that are bound to a key.

use serde_json::json;

use super::world::{ISSUER, SERVER, World, challenge, document, refusal};
use crate::oauth::{Challenge, IdentityAssertion, OAuthOptions};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

#[test]
fn client_credentials_need_no_user() {
    let mut world = World::new();
    let methods = json!({ "token_endpoint_auth_methods_supported": ["client_secret_basic"] });
    world.set_server(ISSUER, &methods);
    let options = OAuthOptions::new().client_credentials().client_id("id").client_secret("s");
    world.authorize(options, challenge("Bearer scope=a")).unwrap();
    let form = &world.parameters("/token")[0];
    let expected = ["client_credentials", SERVER, "a"];
    assert_eq!(["grant_type", "resource", "scope"].map(|name| &*form[name]), expected);
    assert!(world.parameters("/authorize").is_empty());

    let error = world.authorize(OAuthOptions::new().client_credentials(), Challenge::default());
    assert!(error.unwrap_err().to_string().contains("client id"));
}

#[test]
fn refused_workload_assertion_is_not_retried() {
    for error in ["invalid_grant", "invalid_scope", "unauthorized_client"] {
        let mut world = World::new();
        world.token_answers.push_back(refusal(error));
        let options = OAuthOptions::new().workload_assertion("a.b.c").client_id("id");
        let failure = world.authorize(options, Challenge::default()).unwrap_err();
        assert!(failure.to_string().contains(error), "{failure}");
        let [form] = &world.parameters("/token")[..] else { panic!("one request") };
        assert_eq!([&*form["grant_type"], &*form["assertion"]], [JWT_BEARER, "a.b.c"]);
        assert_eq!(form["client_id"], "id");
    }
}

#[test]
fn sign_on_is_exchanged_for_token() {
    let id_jag = "urn:ietf:params:oauth:token-type:id-jag";
    let sign_on = || IdentityAssertion::new("https://idp/token", "idp-client", "id.token");
    let options = || {
        let options = OAuthOptions::new().client_id("id").client_secret("s");
        options.identity_assertion(sign_on())
    };
    let mut world = World::new();
    let exchanged =
        json!({ "access_token": "the-jag", "issued_token_type": id_jag, "token_type": "N_A" });
    world.token_answers.push_back(document(&exchanged));
    world.authorize(options(), Challenge::default()).unwrap();
    let [exchange, grant] = &world.parameters("/token")[..] else { panic!("two requests") };
    for (name, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", id_jag),
        ("audience", ISSUER),
        ("resource", SERVER),
        ("subject_token", "id.token"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("client_id", "idp-client"),
    ] {
        assert_eq!(exchange[name], value, "{name}");
    }
    assert_eq!([&*grant["grant_type"], &*grant["assertion"]], [JWT_BEARER, "the-jag"]);

    let other = json!({ "access_token": "a", "issued_token_type": "other" });
    world.token_answers.push_back(document(&other));
    assert!(world.authorize(options(), Challenge::default()).is_err());
}

#[cfg(feature = "oauth-jwt")]
mod keys {
    use base64::Engine;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use serde_json::Value;

    use super::*;
    use crate::oauth::{FetchResponse, FlowCause};

    fn claims(jwt: &str) -> Value {
        let part = jwt.split('.').nth(1).unwrap();
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    fn automatic() -> OAuthOptions {
        OAuthOptions::new().approve_automatically()
    }

    #[test]
    fn token_is_bound_where_server_requires_it() {
        let mut world = World::new();
        world.set_server(ISSUER, &json!({ "dpop_signing_alg_values_supported": ["ES256"] }));
        let nonce = Some("n".to_owned());
        let required = FetchResponse { dpop_nonce: nonce, ..refusal("use_dpop_nonce") };
        world.token_answers.push_back(required);
        let bound = json!({ "access_token": "a", "token_type": "DPoP" });
        world.token_answers.push_back(document(&bound));
        let tokens = world.authorize(automatic(), challenge("DPoP algs=ES256")).unwrap();
        assert!(tokens.dpop_key.is_some());
        assert_eq!(world.parameters("/token").len(), 2);
        let proof = claims(&world.field("/token", "DPoP").unwrap());
        assert_eq!((&proof["htm"], &proof["nonce"]), (&json!("POST"), &json!("n")));
        assert_eq!(proof["htu"], "https://as/token");
    }

    #[test]
    fn unbound_token_is_refused_where_required() {
        let mut world = World::new();
        let error = world.authorize(automatic(), challenge("DPoP")).unwrap_err();
        assert!(error.to_string().contains("DPoP"), "{error}");
        world.set_server(ISSUER, &json!({ "dpop_signing_alg_values_supported": ["RS256"] }));
        let error = world.authorize(automatic(), challenge("DPoP")).unwrap_err();
        assert!(error.to_string().contains("ES256"), "{error}");
        let tokens = world.authorize(automatic(), challenge("Bearer")).unwrap();
        assert!(tokens.dpop_key.is_none());
    }

    #[test]
    fn bearer_token_meets_one_of_two_challenges() {
        for value in [
            "DPoP algs=\"ES256\", Bearer scope=\"read\"",
            "Bearer scope=\"read\", DPoP algs=\"ES256\"",
            "DPoP algs=\"RS256\", Bearer scope=\"read\"",
        ] {
            let mut world = World::new();
            let tokens = world.authorize(automatic(), challenge(value)).unwrap();
            assert!(tokens.dpop_key.is_none(), "{value}");
            assert_eq!(world.parameters("/authorize")[0]["scope"], "read");
            let has_proof = world.field("/token", "DPoP").is_some();
            assert_eq!(has_proof, !value.contains("RS256"), "{value}");
        }
        // The server does not take a token that it does not offer.
        let mut world = World::new();
        let error = world.authorize(automatic(), challenge("DPoP algs=\"RS256\"")).unwrap_err();
        assert!(error.to_string().contains("RS256"), "{error}");
    }

    #[test]
    fn refreshed_token_keeps_its_binding() {
        let bound =
            json!({ "access_token": "a", "token_type": "DPoP", "refresh_token": "refresh" });
        for (token_type, is_bound) in
            [(json!("DPoP"), true), (json!(null), true), (json!("Bearer"), false)]
        {
            let mut world = World::new();
            world.token_answers.push_back(document(&bound));
            let tokens = world.authorize(automatic(), challenge("DPoP")).unwrap();
            let refreshed = json!({ "access_token": "b", "token_type": token_type });
            world.token_answers.push_back(document(&refreshed));
            let tokens = world.run(automatic(), Some(tokens), FlowCause::Refresh).unwrap();
            assert_eq!(tokens.access_token.expose(), "b");
            assert_eq!(tokens.dpop_key.is_some(), is_bound);
        }
    }
}
