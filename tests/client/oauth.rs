//! Authorization: tokens are obtained when the server asks for them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use corelane::Client;
use corelane::client::{ClientErrorKind, FileTokenStore, OAuthOptions, TlsOptions, block_on};
use corelane_test_support::tls::{Issuer, Terminator, TlsFault};
use serde_json::json;

use super::gateway::gateway;
use super::oauth_server::{OAuthServer, State, browse};

use crate::CORELANE;

/// Time after which a test that waits fails.
const TIMEOUT: Duration = Duration::from_secs(20);

fn automatic() -> OAuthOptions {
    OAuthOptions::new().approve_automatically()
}

fn call(client: &Client) -> String {
    client.call_tool("echo", &json!({})).wait().expect("a result").text()
}

#[test]
fn refused_requests_wait_for_one_authorization() {
    let server = OAuthServer::start(State::default());
    let client = server.client().oauth(automatic()).connect_lazy().unwrap();
    let calls: Vec<_> =
        (0..20).map(|_| client.call_tool("echo", &json!({})).into_future()).collect();
    for result in calls {
        assert_eq!(block_on(result).unwrap().text(), "called");
    }
    assert_eq!(server.count("GET /authorize"), 1);
    assert_eq!(server.count("POST /register"), 1);
    // The handshake twice, and each call once.
    assert_eq!(server.count("POST /mcp"), 22);
    block_on(client.close());
    server.stop();
}

#[test]
fn login_ends_with_redirect_of_browser() {
    let server = OAuthServer::start(State::default());
    let options = OAuthOptions::new().on_authorization_url(|url| {
        let url = url.to_owned();
        drop(thread::spawn(move || browse(&url)));
    });
    let client = server.client().oauth(options).connect_blocking().unwrap();
    assert_eq!(call(&client), "called");
    block_on(client.close());
    server.stop();
}

#[test]
fn login_ends_after_its_timeout() {
    let server = OAuthServer::start(State::default());
    let options = OAuthOptions::new().on_authorization_url(|_| {});
    let options = options.login_timeout(Duration::from_millis(20));
    let error = server.client().oauth(options).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Authorization);
    assert!(error.to_string().contains("has not allowed access"), "{error}");
    server.stop();
}

#[test]
fn call_cancelled_during_login_is_not_sent() {
    let server = OAuthServer::start(State::default());
    let (urls_tx, urls_rx) = mpsc::channel();
    let options = OAuthOptions::new().on_authorization_url(move |url| {
        urls_tx.send(url.to_owned()).expect("the test waits");
    });
    let client = server.client().oauth(options).connect_lazy().unwrap();
    let start = || client.call_tool("echo", &json!({})).into_future();
    let next_url = || urls_rx.recv_timeout(TIMEOUT).expect("a URL");
    let first = start();
    browse(&next_url());
    assert_eq!(block_on(first).unwrap().text(), "called");

    server.revoke_tokens();
    let cancelled = start();
    let url = next_url();
    drop(cancelled);
    let last = start();
    browse(&url);
    assert_eq!(block_on(last).unwrap().text(), "called");
    // The handshake twice, the first call, the refused one, and the last.
    assert_eq!(server.count("POST /mcp"), 5);
    block_on(client.close());
    server.stop();
}

#[test]
fn authorization_over_tls_trusts_own_authority() {
    let issuer = Issuer::new();
    let server = OAuthServer::start(State { scheme: Some("https"), ..State::default() });
    let terminator = Terminator::start(server.address(), issuer.good_server(), TlsFault::NoFault);
    let target = format!("https://localhost:{}/mcp", terminator.port());
    let tls = TlsOptions::new().ca(issuer.pem().into_bytes());
    let client = Client::builder(target.as_str()).tls(tls).oauth(automatic());
    let client = client.connect_blocking().unwrap();
    assert_eq!(call(&client), "called");
    assert_eq!(server.count("GET /authorize"), 1);
    block_on(client.close());
}

#[test]
fn endless_refusal_ends_after_three_authorizations() {
    let server = OAuthServer::start(State { refuses_all: true, ..State::default() });
    let error = server.client().oauth(automatic()).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Authorization);
    assert!(error.to_string().contains("401 after 3 authorizations"), "{error}");
    assert_eq!(server.count("GET /authorize"), 3);
    assert_eq!(server.count("POST /mcp"), 4);
    server.stop();
}

#[test]
fn later_refusal_fails_only_its_calls() {
    let server = OAuthServer::start(State::default());
    let client = server.client().oauth(automatic()).connect_blocking().unwrap();
    assert_eq!(call(&client), "called");
    server.set_refusing();
    let error = client.call_tool("echo", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Authorization);
    assert_eq!(server.count("GET /authorize"), 4);
    block_on(client.close());
    server.stop();
}

#[test]
fn tokens_are_kept_for_next_client() {
    let server = OAuthServer::start(State::default());
    let options = automatic();
    for _ in 0..2 {
        let client = server.client().oauth(options.clone()).connect_blocking().unwrap();
        assert_eq!(call(&client), "called");
        block_on(client.close());
    }
    assert_eq!(server.count("GET /authorize"), 1);
    server.stop();
}

#[test]
fn expiring_token_is_refreshed_once() {
    let server = OAuthServer::start(State { expires: true, ..State::default() });
    let client = server.client().oauth(automatic()).connect_blocking().unwrap();
    let calls: Vec<_> =
        (0..20).map(|_| client.call_tool("echo", &json!({})).into_future()).collect();
    for result in calls {
        assert_eq!(block_on(result).unwrap().text(), "called");
    }
    assert_eq!(server.grants(), ["authorization_code", "refresh_token"]);
    block_on(client.close());
    server.stop();
}

#[test]
fn clients_of_one_store_refresh_once() {
    let server = OAuthServer::start(State { expires: true, ..State::default() });
    let directory = tempfile::tempdir().unwrap();
    // As in two processes, each client has a store of its own in the same directory.
    let client = || {
        let store = FileTokenStore::new(directory.path());
        server.client().oauth(automatic().store(store)).connect_lazy().unwrap()
    };
    let (first, second) = (client(), client());
    block_on(first.server()).unwrap();
    block_on(second.server()).unwrap();
    assert_eq!(server.grants(), ["authorization_code", "refresh_token"]);
    server.revoke_tokens();
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let client = if number % 2 == 0 { &first } else { &second };
            client.call_tool("echo", &json!({})).into_future()
        })
        .collect();
    for result in calls {
        assert_eq!(block_on(result).unwrap().text(), "called");
    }
    assert_eq!(server.grants(), ["authorization_code", "refresh_token", "refresh_token"]);
    block_on(first.close());
    block_on(second.close());
    server.stop();
}

#[test]
fn registration_outlives_denied_access() {
    let server = OAuthServer::start(State { denies: true, ..State::default() });
    let options = automatic();
    for _ in 0..2 {
        let error = server.client().oauth(options.clone()).connect_blocking().unwrap_err();
        assert!(error.to_string().contains("access_denied"), "{error}");
    }
    server.allow_access();
    let client = server.client().oauth(options).connect_blocking().unwrap();
    assert_eq!(call(&client), "called");
    assert_eq!((server.count("POST /register"), server.count("GET /authorize")), (1, 3));
    block_on(client.close());
    server.stop();
}

#[test]
fn denied_access_is_typed_error() {
    let server = OAuthServer::start(State { denies: true, ..State::default() });
    let client = server.client().oauth(automatic()).connect_lazy().unwrap();
    let error = client.call_tool("echo", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Authorization);
    assert!(error.to_string().contains("access_denied"), "{error}");
    assert_eq!(server.count("POST /mcp"), 1);
    block_on(client.close());
    server.stop();
}

#[test]
fn huge_metadata_is_refused() {
    let server = OAuthServer::start(State { padding: 1 << 20, ..State::default() });
    let error = server.client().oauth(automatic()).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Authorization);
    assert!(error.to_string().contains("too large"), "{error}");
    server.stop();
}

#[test]
fn invalid_oauth_option_fails_connection() {
    let token = Client::builder("http://127.0.0.1:1").bearer("a").oauth(automatic());
    let tcp = Client::builder("tcp://127.0.0.1:1").oauth(automatic());
    for builder in [token, tcp] {
        let error = builder.connect_lazy().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    }
}

#[test]
fn gateway_gets_tokens_for_itself() {
    let server = OAuthServer::start(State::default());
    let folder = tempfile::tempdir().unwrap();
    let issuer = format!("http://{}", server.address());
    let client = format!("client_id = \"a\", client_secret = \"b\", issuer = \"{issuer}\"");
    let keys = format!("share = \"principal\"\noauth = {{ {client} }}");
    let program = gateway(folder.path(), &server.url(), &keys);
    let client = Client::builder(program).connect_blocking().unwrap();
    let call = || client.call_tool("remote", &json!({})).wait().expect("a result").text();
    // That of the lists, and that of the principal, use one token.
    assert_eq!((call(), server.grants()), ("called".to_owned(), vec!["client_credentials".into()]));
    server.revoke_tokens();
    assert_eq!((call(), server.grants().len()), ("called".to_owned(), 2));
    server.set_refusing();
    let error = client.call_tool("remote", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Rpc { code: -32603 });
    assert!(error.message().starts_with("upstream `crm`: ") && !error.message().contains("token-"));
    block_on(client.close());
    server.stop();
}

#[test]
fn gateway_uses_and_refreshes_stored_login() {
    let server = OAuthServer::start(State { expires: true, ..State::default() });
    let folder = tempfile::tempdir().unwrap();
    let store = FileTokenStore::new(folder.path().join("corelane/tokens"));
    let client = server.client().oauth(automatic().store(store)).connect_blocking().unwrap();
    block_on(client.close());
    let program = gateway(folder.path(), &server.url(), "oauth = { login = true }");
    let client = Client::builder(program).connect_blocking().unwrap();
    let result = client.call_tool("remote", &json!({})).wait().unwrap();
    assert_eq!(result.text(), "called");
    assert_eq!(server.grants(), ["authorization_code", "refresh_token"]);
    block_on(client.close());
    server.stop();
}

#[test]
fn login_command_keeps_tokens_in_private_file() {
    let server = OAuthServer::start(State::default());
    let state = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(CORELANE);
        command.args(["call", &server.url(), "echo"]).args(arguments);
        command.env("XDG_STATE_HOME", state.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let refused = command(&[]).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && text.contains("log in with --login"), "{text}");

    let mut login = command(&["--login", "--scope", "tools"]).spawn().unwrap();
    let lines = BufReader::new(login.stderr.take().unwrap()).lines();
    let url = lines.map(|line| line.unwrap()).find(|line| line.starts_with("http")).unwrap();
    assert!(url.contains("scope=tools"), "{url}");
    browse(&url);
    let output = login.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"called\n"[..]));

    let output = command(&[]).output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"called\n"[..]));
    let files = fs::read_dir(state.path().join("corelane/tokens")).unwrap();
    let modes: Vec<u32> =
        files.map(|file| file.unwrap().metadata().unwrap().permissions().mode() & 0o777).collect();
    // The tokens, and the lock beside them.
    assert_eq!(modes, [0o600, 0o600]);
    server.stop();
}
