//! Users that sign in at an authorization server.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use corelane_client::{Client, FileTokenStore, OAuthOptions};
use corelane_load::generator;
use corelane_load::plan::Plan;
use corelane_load::result::{Manifest, RunResult};
use corelane_test_support::ExitResult;

use super::oauth_server::{OAuthModel, OAuthServer};
use crate::{LOAD, file_path, load};

const STEP: &str =
    "[[scenario.step]]\ntool = \"create\"\narguments = { note = \"{{user name}}\" }\n";
/// Lets `ada` sign in.
const ADA: &str = "client_id = \"ada\"\nclient_secret_file = \"sign-in-ada\"";

/// Returns the text of a plan with data of `ada` and `bo`.
fn plan(server: &OAuthServer, duration: &str, keys: &str, oauth: &str) -> String {
    let text = "name,id,secret\nAda,ada,secret-a\nBo,bo,secret-b\n";
    std::fs::write(file_path("sign-in.csv"), text).unwrap();
    std::fs::write(file_path("sign-in-ada"), "secret-a\n").unwrap();
    std::fs::write(file_path("sign-in-wrong"), "wr0ng\n").unwrap();
    format!(
        "target = \"{}\"\nera = \"legacy\"\nwarm_up = \"0s\"\nresponse_timeout = \"5s\"\n\
         [[phase]]\nduration = \"{duration}\"\n[[scenario]]\nthink = \"5ms\"\n\
         data = \"sign-in.csv\"\n{keys}\n[scenario.oauth]\n{oauth}\n{STEP}",
        server.url()
    )
}

fn run(text: &str) -> RunResult {
    let mut plan: Plan = toml::from_str(text).unwrap();
    plan.directory = file_path("");
    plan.apply_users();
    let config = plan.run_config().unwrap();
    let measurements = generator::run(&config, 2, &[], None, |_, _| {}).unwrap();
    RunResult::new(plan, Manifest::default(), &measurements)
}

/// Writes a plan of one test.
fn plan_file(name: &str, text: &str) -> String {
    let path = file_path(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Asserts that a command ends before the run with one line that has all parts, and no secret.
fn assert_refused(ended: &ExitResult, parts: &[&str]) {
    let ExitResult { status, stdout, stderr } = ended;
    assert_eq!((*status, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "'{part}' is not in: {stderr}");
    }
    assert!(!stderr.contains("wr0ng"), "{stderr}");
}

#[test]
fn client_credentials_are_renewed_during_run() {
    let lifetime = Duration::from_secs(2);
    let server = OAuthServer::new(OAuthModel { lifetime, expires_in: 2, ..OAuthModel::default() });
    let result = run(&plan(&server, "3s", "users = 3", ADA));
    assert_eq!((result.totals.failures.len(), result.totals.lost), (0, 0), "{:?}", result.totals);
    let notes = &result.verdict.notes;
    assert!(!notes.iter().any(|note| note.contains("renewals")), "{notes:?}");
    let log = server.log();
    assert!(log.grants.len() >= 3 && log.calls.len() >= 3, "{log:?}");
    assert!(log.grants.iter().all(|grant| grant == "client_credentials"), "{log:?}");
    assert_eq!((&*log.refused, log.calls.values().sum()), (&[][..], result.totals.answered));
    let (first, ..) = log.tokens[0].clone();
    drop(log);
    assert!(!server.accepts(&first), "{first}");
    let written = serde_json::to_string(&result).unwrap() + &format!("{result:?}");
    assert!(!written.contains("secret-a") && !written.contains("token-ada"), "{written}");
}

#[test]
fn each_user_has_token_of_its_row() {
    let oauth = "client_id = \"{{user id}}\"\nclient_secret = \"{{user secret}}\"";
    for scheme in ["http", "ws"] {
        let server = OAuthServer::new(OAuthModel::default());
        let plan = plan(&server, "300ms", "users = 4\nleave = true", oauth);
        let result = run(&plan.replace("http://", &format!("{scheme}://")));
        let log = server.log();
        assert!(result.users.is_some_and(|users| users.left > 4), "{scheme}: {log:?}");
        let expected = [("Ada", "ada"), ("Bo", "bo")];
        let expected = expected.map(|(name, client)| (name.to_owned(), client.to_owned()));
        assert_eq!(log.notes, expected.into(), "{scheme}");
        assert!(log.tokens.len() == 2 && log.refused.is_empty(), "{scheme}: {log:?}");
        // Those of the sign-in, and those of the users that left.
        assert_eq!(log.deleted > 4, scheme == "http", "{log:?}");
    }
}

#[test]
fn row_without_user_does_not_sign_in() {
    let server = OAuthServer::new(OAuthModel::default());
    let oauth = "client_id = \"{{user id}}\"\nclient_secret = \"{{user secret}}\"";
    let result = run(&plan(&server, "100ms", "users = 1", oauth));
    let log = server.log();
    assert_eq!((log.tokens.len(), log.notes.len(), result.totals.lost), (1, 1, 0), "{log:?}");
}

#[test]
fn failed_renewal_is_noted_and_old_token_stays() {
    let server =
        OAuthServer::new(OAuthModel { expires_in: 1, tokens_max: 1, ..OAuthModel::default() });
    let result = run(&plan(&server, "1500ms", "users = 1", ADA));
    assert!(result.totals.failures.is_empty() && result.totals.answered > 10, "{result:?}");
    let notes = &result.verdict.notes;
    assert!(
        notes.iter().any(|note| note.contains("renewals of access tokens failed")),
        "{notes:?}"
    );
    assert_eq!(server.log().calls.len(), 1);
}

#[test]
fn stored_login_is_used_and_refreshed() {
    let model = OAuthModel { expires_in: 1, ..OAuthModel::default() };
    let server = OAuthServer::new(model);
    let state = tempfile::tempdir().unwrap();
    let plan = plan_file("sign-in-login.toml", &plan(&server, "1s", "users = 2", "login = true"));
    let run = || -> ExitResult {
        let mut command = Command::new(LOAD);
        command.args(["run", "--quiet", "--errors-max=0", "--plan", &plan]);
        command.env("XDG_STATE_HOME", state.path()).output().unwrap().into()
    };
    assert_refused(&run(), &["no login for", "corelane tools URL --login"]);
    let directory: PathBuf = state.path().join("corelane/tokens");
    let store = FileTokenStore::new(&directory);
    let login = OAuthOptions::new().client_id("person").store(store).approve_automatically();
    Client::builder(&*server.url()).oauth(login).connect_blocking().unwrap();
    let ended = run();
    assert_eq!((ended.status, &*ended.stderr), (0, ""), "{}", ended.stdout);
    let log = server.log();
    assert_eq!(log.grants[0], "authorization_code");
    assert!(log.grants[1..].iter().all(|grant| grant == "refresh_token"), "{log:?}");
    assert!(log.grants.len() >= 3 && log.notes.len() == 2, "{log:?}");
}

#[test]
fn refused_sign_in_ends_before_the_run() {
    let server = OAuthServer::new(OAuthModel::default());
    let wrong = "client_id = \"ada\"\nclient_secret_file = \"sign-in-wrong\"";
    let path = plan_file("sign-in-wrong.toml", &plan(&server, "1s", "", wrong));
    let parts = ["invalid_client", "correct client_id, client_secret"];
    assert_refused(&load(["run", "--quiet", "--plan", &path]), &parts);
    assert!(server.log().calls.is_empty());
    let unnamed = OAuthServer::new(OAuthModel { is_unnamed: true, ..OAuthModel::default() });
    let path = plan_file("sign-in-unnamed.toml", &plan(&unnamed, "1s", "", ADA));
    assert_refused(
        &load(["run", "--quiet", "--plan", &path]),
        &["oauth: ", "authorization server"],
    );
}

#[test]
fn invalid_oauth_section_is_explained() {
    let server = OAuthServer::new(OAuthModel::default());
    let why = |text: &str| {
        let mut plan: Plan = toml::from_str(text).unwrap();
        plan.directory = file_path("");
        plan.apply_users();
        plan.run_config().unwrap_err().to_string()
    };
    for (oauth, part) in [
        ("", "oauth: add client_id, or login = true"),
        ("login = true\nclient_id = \"a\"", "not both"),
        ("client_secret_file = \"a\"\nlogin = true", "needs client_id"),
        ("client_id = \"{{user ids}}\"", "there are name, id, secret"),
        ("client_id = \"a\"\nclient_secret = \"s3cret\"", "or client_secret_file"),
        ("client_id = \"a\"\nclient_secret_file = \"/nowhere\"", "cannot read /nowhere"),
    ] {
        let found = why(&plan(&server, "1s", "", oauth));
        assert!(found.contains(part) && !found.contains("s3cret"), "{oauth}: {found}");
    }
    let both = why(&plan(&server, "1s", "bearer = \"{{user id}}\"", ADA));
    assert!(both.contains("bearer or oauth"), "{both}");
    let lines = plan(&server, "1s", "", ADA).replace("http://", "tcp://").replace("/mcp", "");
    let lines = why(&lines);
    assert!(lines.contains("use HTTP or WebSocket"), "{lines}");
    let rate =
        why("target = \"http://127.0.0.1:1\"\noauth = { login = true }\n[[phase]]\nrate = 1\n\
                    duration = 1");
    assert!(rate.contains("[[scenario]]"), "{rate}");
}
