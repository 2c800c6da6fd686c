//! Authorization by the authorization server of others: npm `oidc-provider`, which
//! `tests/judges/interop/install.sh` installs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use corelane::Client;
use corelane::client::{OAuthOptions, SigningAlgorithm, block_on};
use corelane::options::DpopMode;
use corelane_test_support::messages::modern;
use corelane_test_support::sockets::Front;
use corelane_test_support::{ListeningProcess, Request, TIMEOUT, TestServer, http_options};
use serde_json::{Value, json};
use url::Url;

use crate::gateway::gateway;

/// Redirects of one login at most.
const REDIRECTS_MAX: usize = 10;

/// Starts the server. Returns the URLs of its two endpoints with it.
fn start() -> (ListeningProcess, Url, Url) {
    let server = ListeningProcess::start(|port| {
        let script = "tests/judges/interop/typescript/authorization_server.mjs";
        let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop/node");
        let mut command = Command::new("node");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script)).arg(port.to_string());
        command.env("INTEROP_PACKAGES", packages);
        command
    });
    let bearer: Url = server.url().parse().expect("a URL");
    let bound = bearer.join("/dpop").expect("a URL");
    (server, bearer, bound)
}

/// Requests a URL in this version of HTTP; returns the head of the response and its body.
fn get(url: &Url, version: &str, cookies: &BTreeMap<String, String>) -> (String, String) {
    let address = (url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(address).expect("a listener");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let pairs: Vec<String> =
        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let target = &url[url::Position::BeforePath..];
    write!(
        stream,
        "GET {target} {version}\r\nHost: {}:{}\r\nConnection: close\r\nCookie: {}\r\n\r\n",
        address.0,
        address.1,
        pairs.join("; ")
    )
    .expect("a connection");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn fetch(server: &Url, path: &str) -> String {
    // The body is not in chunks.
    get(&server.join(path).expect("a URL"), "HTTP/1.0", &BTreeMap::new()).1
}

/// Opens a page as a browser does: with cookies, and up to the page of the client.
fn browse(url: &str) {
    let mut url: Url = url.parse().expect("a URL");
    let mut cookies = BTreeMap::new();
    for _ in 0..REDIRECTS_MAX {
        let (head, _) = get(&url, "HTTP/1.1", &cookies);
        let fields = || head.lines().filter_map(|line| line.split_once(": "));
        for (_, value) in fields().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (name, value) = value.split_once('=').expect("a cookie");
            let value = value.split(';').next().unwrap_or_default();
            match value {
                "" => cookies.remove(name),
                value => cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
        let location = fields().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        let Some((_, location)) = location else {
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            return;
        };
        url = url.join(location).expect("a URL");
    }
    panic!("too many redirects");
}

fn with_browser() -> OAuthOptions {
    OAuthOptions::new().on_authorization_url(|url| {
        let url = url.to_owned();
        drop(thread::spawn(move || browse(&url)));
    })
}

fn connect(url: &Url, options: OAuthOptions) -> Client {
    Client::builder(url.as_str()).oauth(options).connect_blocking().expect("a login")
}

fn call(client: &Client) {
    let result = client.call_tool("a", &json!({})).wait().expect("a result");
    assert_eq!(result.text(), "called");
}

/// The number of grants by type, and of registrations.
fn counts(server: &Url) -> Value {
    serde_json::from_str(&fetch(server, "/counts")).expect("JSON")
}

#[ignore = "needs oidc-provider: ./test.sh runs it"]
#[test]
fn oidc_provider_grants_and_rotates_tokens() {
    let (_server, bearer, bound) = start();
    for (number, url) in (1..).zip([&bearer, &bound]) {
        let options = with_browser();
        let client = connect(url, options.clone());
        call(&client);
        // Each refresh token is accepted once.
        for _ in 0..2 {
            fetch(&bearer, "/expire");
            call(&client);
        }
        block_on(client.close());
        // A later client uses the stored tokens.
        let client = connect(url, options);
        fetch(&bearer, "/expire");
        call(&client);
        block_on(client.close());
        let expected = json!({
            "authorization_code": number, "refresh_token": 3 * number, "registration": number,
        });
        assert_eq!(counts(&bearer), expected, "{url}");
    }
}

#[ignore = "needs oidc-provider: ./test.sh runs it"]
#[test]
fn oidc_provider_grants_tokens_to_clients() {
    let (_server, bearer, bound) = start();
    let key = fetch(&bearer, "/key");
    let secret = || {
        OAuthOptions::new().client_credentials().client_id("secret-client").client_secret(
            // The encoding of RFC 6749, section 2.3.1, matters.
            "a:secret with %",
        )
    };
    let signed = || {
        let options = OAuthOptions::new().client_credentials().client_id("key-client");
        options.private_key(key.as_bytes(), SigningAlgorithm::Es256).expect("a key")
    };
    for options in [secret(), signed()] {
        for url in [&bearer, &bound] {
            let client =
                connect(url, options.clone().store(corelane::client::MemoryTokenStore::new()));
            call(&client);
            fetch(&bearer, "/expire");
            call(&client);
            block_on(client.close());
        }
    }
    assert_eq!(counts(&bearer), json!({ "client_credentials": 8 }));
}

#[ignore = "needs oidc-provider: ./test.sh runs it"]
#[test]
fn oidc_provider_grants_tokens_to_gateway() {
    let (_server, bearer, bound) = start();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("key.pem"), fetch(&bearer, "/key")).expect("a file");
    let issuer = bearer.join("/").expect("a URL");
    let secret = format!(
        "client_id = \"secret-client\", client_secret = \"a:secret with %\", issuer = \"{}\"",
        issuer.as_str().trim_end_matches('/')
    );
    let key = "client_id = \"key-client\", private_key = \"${file:key.pem}\"".to_owned();
    for keys in [secret, key] {
        for url in [&bearer, &bound] {
            let program = gateway(folder.path(), url.as_str(), &format!("oauth = {{ {keys} }}"));
            let client = Client::builder(program).connect_blocking().expect("a gateway");
            call(&client);
            fetch(&bearer, "/expire");
            call(&client);
            block_on(client.close());
        }
    }
    assert_eq!(counts(&bearer), json!({ "client_credentials": 8 }));
}

#[ignore = "needs oidc-provider: ./test.sh runs it"]
#[test]
fn oidc_provider_refuses_wrong_secret() {
    let (_server, bearer, _) = start();
    let options = OAuthOptions::new().client_credentials().client_id("secret-client");
    let options = options.client_secret("wrong");
    let error = Client::builder(bearer.as_str()).oauth(options).connect_blocking().unwrap_err();
    assert!(error.to_string().contains("invalid_client"), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
}

/// Sends a form as the client `secret-client`; returns the body of the response.
fn post_form(url: &Url, form: &str) -> Value {
    let address = (url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(address).expect("a listener");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let credential = BASE64_STANDARD.encode("secret-client:a%3Asecret+with+%25");
    write!(
        stream,
        "POST {} HTTP/1.0\r\nHost: {}:{}\r\nAuthorization: Basic {credential}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        url.path(),
        address.0,
        address.1,
        form.len()
    )
    .expect("a connection");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("not JSON: {answer}"))
}

/// Obtains a token for this resource.
fn token_for(issuer: &Url, resource: &str) -> String {
    let form = format!("grant_type=client_credentials&scope=tools&resource={resource}");
    let granted = post_form(&issuer.join("/token").expect("a URL"), &form);
    let token = granted["access_token"].as_str().unwrap_or_else(|| panic!("{granted}"));
    token.to_owned()
}

#[ignore = "needs oidc-provider: ./test.sh runs it"]
#[test]
fn server_asks_oidc_provider_about_opaque_tokens() {
    const RESOURCE: &str = "https://mcp.test/mcp";
    let (_server, bearer, _) = start();
    let directory = tempfile::tempdir().expect("a directory");
    let client = directory.path().join("client.txt");
    fs::write(&client, "secret-client:a:secret with %\n").expect("a file");
    let mut options = http_options();
    let issuer = bearer.as_str().trim_end_matches("/mcp");
    options.auth.resource = Some(RESOURCE.to_owned());
    options.auth.issuers = vec![issuer.to_owned()];
    options.auth.introspection = Some(format!("{issuer}/token/introspection"));
    options.auth.introspection_client = vec![client];
    options.auth.rules = vec!["tools/call scope=tools".to_owned()];
    let server = TestServer::start(options);
    let call = modern(corelane_test_support::messages::call(1, "echo", json!({"message": "hi"})));
    let status = |token: &str| {
        let request = Request::modern(&call).field("Authorization", format!("Bearer {token}"));
        let mut client = server.connect_http();
        client.send(&request);
        client.read_head().status
    };
    let token = token_for(&bearer, RESOURCE);
    assert_eq!([status(&token), status(&token)], [200; 2]);
    // For a sibling service, unknown, and withdrawn.
    assert_eq!(status(&token_for(&bearer, "https://sibling.test/mcp")), 401);
    assert_eq!(status("unknown"), 401);
    let withdrawn = token_for(&bearer, RESOURCE);
    fetch(&bearer, "/expire");
    assert_eq!(status(&withdrawn), 401);
    server.close();
}

#[ignore = "needs oidc-provider: ./test.sh runs it"]
#[test]
fn server_accepts_dpop_tokens_of_oidc_provider() {
    let (_server, bearer, _) = start();
    let directory = tempfile::tempdir().expect("a directory");
    let client = directory.path().join("client.txt");
    fs::write(&client, "secret-client:a:secret with %\n").expect("a file");
    let front = Front::start();
    let mut options = http_options();
    let issuer = bearer.as_str().trim_end_matches("/mcp");
    options.auth.resource = Some(front.url());
    options.auth.issuers = vec![issuer.to_owned()];
    options.auth.introspection = Some(format!("{issuer}/token/introspection"));
    options.auth.introspection_client = vec![client];
    options.auth.scopes_supported = vec!["tools".to_owned()];
    options.auth.rules = vec!["tools/call scope=tools".to_owned()];
    options.auth.dpop = DpopMode::Required;
    options.auth.dpop_nonce = true;
    let server = TestServer::start(options);
    front.open(server.http());
    let url: Url = front.url().parse().expect("a URL");
    let by_secret =
        OAuthOptions::new().client_credentials().client_id("secret-client").client_secret(
            // The encoding of RFC 6749, section 2.3.1, matters.
            "a:secret with %",
        );
    for options in [with_browser(), by_secret] {
        let client = connect(&url, options.store(corelane::client::MemoryTokenStore::new()));
        for _ in 0..3 {
            let result = client.call_tool("echo", &json!({"message": "hi"})).wait();
            assert_eq!(result.expect("a result").text(), "hi");
        }
        block_on(client.close());
    }
    // A token that is not bound is refused.
    let token = token_for(&bearer, &front.url());
    let call = modern(corelane_test_support::messages::call(1, "echo", json!({"message": "hi"})));
    let mut plain = server.connect_http();
    plain.send(&Request::modern(&call).field("Authorization", format!("Bearer {token}")));
    assert_eq!(plain.read_head().status, 401);
    let counters = server.close();
    assert_eq!((counters.auth.invalid_proof, counters.auth.invalid_token), (0, 1));
}
