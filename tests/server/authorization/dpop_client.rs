//! The client of the library at a server that requires proofs of keys, with nonces of both.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane::client::{MemoryTokenStore, OAuthOptions, block_on};
use corelane::options::DpopMode;
use corelane::{Client, Options};
use corelane_test_support::sockets::Front;
use corelane_test_support::{TestServer, http_options};
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use serde_json::{Value, json};

use crate::authorization::http_server::read_request;
use crate::authorization::{Authority, TestIssuer, catalog};

/// The nonce of the authorization server.
const NONCE: &str = "nonce-of-the-issuer";

/// An authorization server that binds its tokens to the key of the proof of the request.
struct AuthorizationServer {
    address: SocketAddr,
}

impl AuthorizationServer {
    /// Starts it; it grants tokens for `resource` that `signer` signs.
    fn start(resource: String, signer: Arc<TestIssuer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let issuer = format!("http://{address}");
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let request = read_request(&mut stream);
                let response = respond(&request, &issuer, &resource, &signer);
                stream.write_all(response.as_bytes()).unwrap_or_default();
            }
        });
        Self { address }
    }

    fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn respond(request: &str, issuer: &str, resource: &str, signer: &TestIssuer) -> String {
    let line = request.lines().next().unwrap_or_default();
    if line.starts_with("GET /.well-known/oauth-authorization-server ") {
        let metadata = json!({
            "issuer": issuer,
            "token_endpoint": format!("{issuer}/token"),
            "grant_types_supported": ["client_credentials"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "dpop_signing_alg_values_supported": ["ES256"],
        });
        return response("200 OK", "", &metadata);
    }
    if !line.starts_with("POST /token ") {
        return response("404 Not Found", "", &json!({}));
    }
    let proof = request.lines().find_map(|line| line.strip_prefix("DPoP: ")).expect("a proof");
    let part = |index: usize| -> Value {
        let part = proof.split('.').nth(index).expect("three parts");
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).expect("base64url");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    if part(1)["nonce"] != NONCE {
        let nonce = format!("DPoP-Nonce: {NONCE}\r\n");
        return response("400 Bad Request", &nonce, &json!({"error": "use_dpop_nonce"}));
    }
    let jwk: Jwk = serde_json::from_value(part(0)["jwk"].clone()).expect("a key");
    let mut claims = signer.claims("robot", "");
    claims["iss"] = json!(issuer);
    claims["aud"] = json!(resource);
    claims["cnf"] = json!({"jkt": jwk.thumbprint(ThumbprintHash::SHA256).expect("a thumbprint")});
    let token = signer.sign(&claims);
    let granted = json!({"access_token": token, "token_type": "DPoP", "expires_in": 600});
    response("200 OK", "", &granted)
}

fn response(status: &str, fields: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n{fields}\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Options of a server behind `front` that requires proofs with nonces.
fn options_behind(front: &Front, issuer: &str, keys: String) -> Options {
    let mut options = http_options();
    options.engine.shards = Some(2);
    options.auth.resource = Some(front.url());
    options.auth.issuers = vec![issuer.to_owned()];
    options.auth.key_sets = vec![keys];
    options.auth.dpop = DpopMode::Required;
    options.auth.dpop_nonce = true;
    options
}

#[test]
fn client_calls_server_with_proofs_and_nonces() {
    let authority = Authority::new();
    let (front, signer) = (Front::start(), Arc::new(TestIssuer::new()));
    let issuer = AuthorizationServer::start(front.url(), Arc::clone(&signer));
    let keys = authority.write("bound.json", &signer.key_set().to_string());
    let options = options_behind(&front, &issuer.issuer(), keys);
    let server = TestServer::with_catalog(options, catalog());
    front.open(server.http());
    let login = OAuthOptions::new().client_credentials().client_id("robot").client_secret("s");
    for url in [front.url(), front.url().replacen("http", "ws", 1) + "/ws"] {
        let login = login.clone().store(MemoryTokenStore::new());
        let client = Client::builder(url.as_str()).oauth(login).connect_blocking().expect(&url);
        for _ in 0..20 {
            let result = client.call_tool("whoami", &json!({})).wait().expect("a result");
            assert_eq!(result.text(), "robot (user)", "{url}");
        }
        block_on(client.close());
    }
    let counters = server.close();
    assert_eq!((counters.auth.invalid_proof, counters.auth.invalid_token), (0, 0));
    // Each client had none before.
    assert_eq!((counters.auth.missing_token, counters.auth.missing_nonce), (2, 2));
}
