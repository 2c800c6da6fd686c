//! API keys as bearer tokens.

use std::fs;

use corelane::model::Implementation;
use corelane::options::AuthOptions;
use corelane::{Catalog, NoArguments, Server, Tool};
use corelane_test_support::TestServer;
use corelane_test_support::process::run_program;
use serde_json::json;

use crate::CORELANE;
use crate::authorization::http::{post, send};
use crate::authorization::{Authority, call, catalog, options, start};

#[test]
fn key_is_accepted_with_its_principal() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    for tool in ["whoami", "whoami_local"] {
        let response = post(server.http(), &call(tool), Some("key-bob"));
        assert!(response.text().starts_with("bob"), "{response:?}");
    }
    assert_eq!(post(server.http(), &call("whoami"), Some("key-ada")).text(), "ada (admin)");
    server.close();
}

#[test]
fn unknown_key_gets_401_without_metadata() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    let missing = post(server.http(), &call("whoami"), None);
    missing.expect_missing_token("Bearer");
    for key in ["key-adb", "key-ada=", "ada", "key-ada.x.y"] {
        let refused = post(server.http(), &call("whoami"), Some(key));
        refused.expect_unknown_key();
    }
    // Without an authorization server there is no metadata.
    let place = "/.well-known/oauth-protected-resource";
    assert_eq!(send(server.http(), "GET", place, "").status, 404);
    server.close();
}

#[test]
fn endpoints_of_operators_need_no_token() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(send(server.http(), "GET", path, "").status, 200, "{path}");
    }
    let metrics = {
        post(server.http(), &call("whoami"), None);
        send(server.http(), "GET", "/metrics", "").body
    };
    assert!(
        metrics.contains("corelane_auth_refused_total{reason=\"missing_token\"} 1"),
        "{metrics}"
    );
    server.close();
}

#[test]
fn anonymous_callers_are_served_if_admitted() {
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.anonymous = true;
    auth.rules = vec!["tools/call whoami_local tier=user".to_owned()];
    let server = start(auth);
    assert_eq!(post(server.http(), &call("whoami"), None).text(), "anonymous");
    let refused = post(server.http(), &call("whoami_local"), None);
    let message = "a token is needed: the tier user is required";
    let error = json!({"code": -32010, "message": message, "data": {"retryable": false}});
    refused.expect_error(401, "Bearer", Some(1), &error);
    // An invalid token is not the same as none.
    let unknown = post(server.http(), &call("whoami"), Some("key-x"));
    unknown.expect_unknown_key();
    assert_eq!(post(server.http(), &call("whoami_local"), Some("key-bob")).text(), "bob");
    server.close();
}

#[test]
fn unusable_configuration_does_not_start() {
    let authority = Authority::new();
    let try_start = |change: &dyn Fn(&mut AuthOptions)| {
        let mut auth = AuthOptions::default();
        change(&mut auth);
        TestServer::try_start(options(auth)).err().map(|error| error.to_string())
    };
    assert_eq!(try_start(&|_| {}), None);
    let rules = try_start(&|auth| auth.rules = vec!["tools/call tier=admin".to_owned()]);
    assert!(rules.unwrap().contains("no token can be verified"));
    let anonymous = try_start(&|auth| auth.anonymous = true);
    assert!(anonymous.unwrap().contains("auth.anonymous"));
    let keys = authority.key_options().api_keys;
    let missing = try_start(&|auth| auth.api_keys = vec!["/nowhere/keys".into()]);
    assert!(missing.unwrap().contains("/nowhere/keys"));
    let rule = try_start(&|auth| {
        auth.api_keys.clone_from(&keys);
        auth.rules = vec!["tools/call".to_owned()];
    });
    assert!(rule.unwrap().contains("it requires nothing"));
    let tier = try_start(&|auth| {
        auth.api_keys.clone_from(&keys);
        auth.tiers = vec!["anonymous".to_owned(), "user".to_owned()];
    });
    assert!(tier.unwrap().contains("the tier admin is not in auth.tiers"));
    fs::write(&keys[0], "ada:secret-in-clear").unwrap();
    let clear = try_start(&|auth| auth.api_keys.clone_from(&keys)).unwrap();
    assert!(clear.contains("line 1") && !clear.contains("secret"), "{clear}");
    let audience = try_start(&|auth| {
        auth.issuers = vec!["https://as.test".to_owned()];
        auth.key_sets = vec!["keys.json".to_owned()];
    });
    assert!(audience.unwrap().contains("auth.resource"));
    let plain = try_start(&|auth| {
        auth.resource = Some(crate::authorization::RESOURCE.to_owned());
        auth.issuers = vec!["https://as.test".to_owned()];
        auth.key_sets = vec!["http://as.test/keys".to_owned()];
    });
    assert!(plain.unwrap().contains("must begin with https"));
}

#[test]
fn check_reports_rules_without_verifier() {
    let program = CORELANE;
    for arguments in [
        ["check", "--auth-rules", "tools/call tier=admin"],
        ["check", "--auth-audit", "deploy_*"],
        ["check", "--auth-anonymous", "true"],
    ] {
        let checked = run_program(program, arguments);
        let text = checked.stdout + &checked.stderr;
        assert_ne!(checked.status, 0, "{text}");
        assert!(text.contains("no token can be verified"), "{text}");
    }
}

#[test]
fn scoped_tool_without_authentication_does_not_start() {
    let server = Server::builder(catalog()).options(options(AuthOptions::default()));
    let error = server.start().expect_err("no caller is known").to_string();
    assert!(error.contains("`deploy_app`") && error.contains("`tools:deploy`"), "{error}");
    assert!(error.contains("token_verifier") && error.contains("auth.api_keys"), "{error}");
}

#[test]
fn scoped_tool_without_authentication_is_not_added() {
    let catalog = Catalog::builder(Implementation::new("test", "1")).build().expect("valid");
    let server = TestServer::with_catalog(options(AuthOptions::default()), catalog);
    let deploy = Tool::new("deploy").require_scope("deploy").inline(|_: NoArguments, _| "done");
    let updated = server.handle().update_catalog(|catalog| catalog.tool(deploy));
    assert!(updated.expect_err("no caller is known").to_string().contains("`deploy`"));
    server.close();
}
