//! A server that requires authorization, with its authorization server under the same address.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use corelane::client::ClientBuilder;
use serde_json::{Value, json};
use url::Url;
use url::form_urlencoded::parse;

use super::http_peer::{HttpRequest, http_response, text_result};
use super::http_responder::{HttpResponder, Reply};
use super::{discover_result, response};

#[expect(clippy::disallowed_types, reason = "shared by the threads of the connections")]
type Mutex<T> = std::sync::Mutex<T>;

/// What the server does, and what it was asked.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Each token is refused.
    pub(crate) refuses_all: bool,
    /// The scheme of its URLs. Default `http`.
    pub(crate) scheme: Option<&'static str>,
    /// The user does not allow access.
    pub(crate) denies: bool,
    /// The first access token expires at once, and a refresh token comes with it.
    pub(crate) expires: bool,
    /// Bytes of the metadata of the resource besides its own.
    pub(crate) padding: usize,
    /// Number of requests by method and path.
    pub(crate) counts: HashMap<String, usize>,
    /// Values of `grant_type`.
    pub(crate) grants: Vec<String>,
    /// Number of tokens issued.
    pub(crate) tokens: usize,
}

pub(crate) struct OAuthServer {
    responder: HttpResponder,
    state: Arc<Mutex<State>>,
}

impl OAuthServer {
    pub(crate) fn start(state: State) -> Self {
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let responder = HttpResponder::start(move |request| {
            let mut state = shared.lock().expect("no panic");
            Reply::Send(respond(&mut state, request))
        });
        Self { responder, state }
    }

    pub(crate) fn client(&self) -> ClientBuilder {
        self.responder.client()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.responder.address()
    }

    pub(crate) fn url(&self) -> String {
        self.responder.url()
    }

    pub(crate) fn set_refusing(&self) {
        self.state.lock().expect("no panic").refuses_all = true;
    }

    /// Lets the user allow access.
    pub(crate) fn allow_access(&self) {
        self.state.lock().expect("no panic").denies = false;
    }

    /// Accepts no token that was issued before.
    pub(crate) fn revoke_tokens(&self) {
        self.state.lock().expect("no panic").tokens += 1;
    }

    /// Returns the number of requests with this method and path.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.state.lock().expect("no panic").counts.get(line).copied().unwrap_or_default()
    }

    pub(crate) fn grants(&self) -> Vec<String> {
        self.state.lock().expect("no panic").grants.clone()
    }

    pub(crate) fn stop(self) {
        self.responder.stop();
    }
}

/// Answers a request of a client.
pub(crate) fn respond(state: &mut State, request: &HttpRequest) -> String {
    let (line, query) = request.line().split_once('?').unwrap_or_else(|| (request.line(), ""));
    *state.counts.entry(line.to_owned()).or_default() += 1;
    let scheme = state.scheme.unwrap_or("http");
    let origin = format!("{scheme}://{}", request.header("Host").unwrap_or_default());
    match line {
        "GET /.well-known/oauth-protected-resource/mcp"
        | "GET /.well-known/oauth-protected-resource/mcp/ws" => json_response(&json!({
            "resource": format!("{origin}/mcp"),
            "authorization_servers": [origin],
            "padding": " ".repeat(state.padding),
        })),
        "GET /.well-known/oauth-authorization-server" => json_response(&json!({
            "issuer": origin,
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        })),
        "POST /register" => json_response(&json!({ "client_id": "client" })),
        "GET /authorize" => {
            let parameters: HashMap<_, _> = parse(query.as_bytes()).into_owned().collect();
            let mut location = Url::parse(&parameters["redirect_uri"]).expect("a URI");
            let outcome = if state.denies { ("error", "access_denied") } else { ("code", "code") };
            location.query_pairs_mut().extend_pairs([
                outcome,
                ("state", &*parameters["state"]),
                ("iss", &*origin),
            ]);
            http_response("302 Found", &format!("Location: {location}\r\n"), "")
        }
        "POST /token" => token_response(state, request),
        _ => serve(state, request),
    }
}

fn token_response(state: &mut State, request: &HttpRequest) -> String {
    let form = request.body.as_str().expect("a form");
    let form: HashMap<_, _> = parse(form.as_bytes()).into_owned().collect();
    state.grants.push(form["grant_type"].clone());
    state.tokens += 1;
    let mut tokens = json!({
        "access_token": format!("token-{}", state.tokens), "token_type": "Bearer",
        "expires_in": 3_600,
    });
    if state.expires && state.tokens == 1 {
        tokens["expires_in"] = 0.into();
        tokens["refresh_token"] = "refresh".into();
    }
    json_response(&tokens)
}

/// Returns whether the token of a request is the newest.
pub(crate) fn is_authorized(state: &State, request: &HttpRequest) -> bool {
    let expected = format!("Bearer token-{}", state.tokens);
    !state.refuses_all && request.header("Authorization") == Some(&expected)
}

/// The response to a request without a valid token.
pub(crate) fn unauthorized() -> String {
    let fields = "WWW-Authenticate: Bearer scope=\"tools\"\r\n";
    http_response("401 Unauthorized", fields, "")
}

/// Answers a message of MCP if its token is the newest.
fn serve(state: &State, request: &HttpRequest) -> String {
    if !is_authorized(state, request) {
        return unauthorized();
    }
    json_response(&match request.body["method"].as_str() {
        Some("server/discover") => discover_result(&request.body),
        Some("tools/list") => {
            let tools = json!([{ "name": "echo", "inputSchema": { "type": "object" } }]);
            response(&request.body, &json!({ "resultType": "complete", "tools": tools }))
        }
        _ => text_result(request, "called"),
    })
}

fn json_response(body: &Value) -> String {
    http_response("200 OK", "Content-Type: application/json\r\n", &body.to_string())
}

/// Opens a page as a browser does: follows its redirect.
pub(crate) fn browse(url: &str) {
    let answer = get(&Url::parse(url).expect("a URL"));
    let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    let page = get(&Url::parse(location.expect("a redirect")).expect("a URL"));
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
}

fn get(url: &Url) -> String {
    let address = (url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(address).expect("a listener");
    let target = &url[url::Position::BeforePath..];
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {}:{}\r\n\r\n", address.0, address.1)
        .expect("a connection");
    let mut answer = Vec::new();
    let mut bytes = [0; 1_024];
    // Neither answer has a body that matters.
    while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
        let length = stream.read(&mut bytes).expect("an answer");
        assert!(length > 0, "the connection ended");
        answer.extend_from_slice(&bytes[..length]);
    }
    String::from_utf8(answer).expect("text")
}
