//! An MCP server that requires authorization, with its authorization server at the same address.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use serde_json::{Value, json};
use tungstenite::WebSocket;
use tungstenite::protocol::Role;

use crate::hostile::scripted_server::upgraded;

/// What the server does.
#[derive(Clone, Copy, Debug)]
pub(super) struct OAuthModel {
    /// How long tokens are accepted.
    pub(super) lifetime: Duration,
    /// `expires_in` of tokens, in seconds.
    pub(super) expires_in: u64,
    /// Tokens after which the token endpoint fails.
    pub(super) tokens_max: usize,
    /// No authorization server is named.
    pub(super) is_unnamed: bool,
}

impl Default for OAuthModel {
    fn default() -> Self {
        let lifetime = Duration::from_mins(1);
        Self { lifetime, expires_in: 60, tokens_max: usize::MAX, is_unnamed: false }
    }
}

/// What the server was asked.
#[derive(Debug, Default)]
pub(super) struct OAuthLog {
    /// Values of `grant_type`, of refused requests, too.
    pub(super) grants: Vec<String>,
    /// Tokens issued, each with its client and the time.
    pub(super) tokens: Vec<(String, String, Instant)>,
    /// `note` of calls with the client of their token.
    pub(super) notes: BTreeSet<(String, String)>,
    /// Calls by token.
    pub(super) calls: BTreeMap<String, u64>,
    /// MCP requests with a token that is not accepted any more, by method.
    pub(super) refused: Vec<String>,
    /// Sessions ended.
    pub(super) deleted: u64,
}

/// The server.
pub(super) struct OAuthServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    model: OAuthModel,
    origin: String,
    clock: Clock,
    log: Mutex<OAuthLog>,
}

struct Request {
    /// Method and path, without the query.
    line: String,
    query: String,
    authorization: Option<String>,
    /// `Sec-WebSocket-Key` of an upgrade.
    key: Option<String>,
    body: String,
}

impl OAuthServer {
    /// Starts a server that knows the clients `ada` and `bo`, with the secrets `secret-a` and
    /// `secret-b`, and the client `person` without one. It runs until the end of the test process.
    pub(super) fn new(model: OAuthModel) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (origin, clock) = (format!("http://{address}"), Clock::start());
        let shared = Arc::new(Shared { model, origin, clock, log: Mutex::default() });
        let server = Self { address, shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                // An I/O error ends only this connection.
                std::thread::spawn(move || shared.serve(stream).unwrap_or(()));
            }
        });
        server
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(super) fn log(&self) -> MutexGuard<'_, OAuthLog> {
        self.shared.log.lock().unwrap()
    }

    /// Returns whether a token is accepted now.
    pub(super) fn accepts(&self, token: &str) -> bool {
        self.shared.client_of(&self.log(), Some(token)).is_some()
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        while let Some(request) = read_request(&mut reader)? {
            let client = self.client_of(&self.log.lock().unwrap(), request.token());
            if let (Some(key), Some(client)) = (&request.key, client) {
                writer.write_all(&upgraded(key))?;
                self.serve_frames(writer, &client, request.token().unwrap_or_default());
                return Ok(());
            }
            writer.write_all(self.respond(&request).as_bytes())?;
        }
        Ok(())
    }

    /// Serves a connection whose upgrade had a token.
    fn serve_frames(&self, stream: TcpStream, client: &str, token: &str) {
        let mut socket = WebSocket::from_raw_socket(stream, Role::Server, None);
        while let Ok(message) = socket.read() {
            let Ok(text) = message.to_text() else { continue };
            let Ok(message) = serde_json::from_str::<Value>(text) else { continue };
            let answer = Self::answer(&mut self.log.lock().unwrap(), &message, client, token);
            if let Some(answer) = answer {
                socket.send(answer.to_string().into()).unwrap();
            }
        }
    }

    fn respond(&self, request: &Request) -> String {
        let origin = &self.origin;
        match &*request.line {
            line if line.ends_with(" /mcp") => self.serve_mcp(request),
            _ if self.model.is_unnamed => response("404 Not Found", "", ""),
            "GET /.well-known/oauth-protected-resource/mcp" => json_body(
                "200 OK",
                &json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin] }),
            ),
            "GET /.well-known/oauth-authorization-server" => json_body(
                "200 OK",
                &json!({
                    "issuer": origin,
                    "authorization_endpoint": format!("{origin}/authorize"),
                    "token_endpoint": format!("{origin}/token"),
                    "token_endpoint_auth_methods_supported": ["client_secret_post", "none"],
                    "code_challenge_methods_supported": ["S256"],
                }),
            ),
            "GET /authorize" => {
                let query = parameters(&request.query);
                let location =
                    format!("{}?code=code&state={}", query["redirect_uri"], query["state"]);
                response("302 Found", &format!("Location: {location}\r\n"), "")
            }
            "POST /token" => self.issue(&parameters(&request.body)),
            _ => response("404 Not Found", "", ""),
        }
    }

    fn issue(&self, form: &BTreeMap<String, String>) -> String {
        let mut log = self.log.lock().unwrap();
        log.grants.push(form["grant_type"].clone());
        let (client, secret) = (&form["client_id"], form.get("client_secret"));
        let is_known = match &**client {
            "ada" => secret.is_some_and(|secret| secret == "secret-a"),
            "bo" => secret.is_some_and(|secret| secret == "secret-b"),
            client => client == "person",
        };
        if !is_known {
            let described = format!("no client with {}", secret.map_or("", String::as_str));
            let error = json!({ "error": "invalid_client", "error_description": described });
            return json_body("401 Unauthorized", &error);
        }
        if log.tokens.len() >= self.model.tokens_max {
            return response("503 Service Unavailable", "", "");
        }
        let token = format!("token-{client}-{}", log.tokens.len());
        log.tokens.push((token.clone(), client.clone(), self.clock.now()));
        let mut issued = json!({ "access_token": token, "token_type": "Bearer",
            "expires_in": self.model.expires_in });
        if client == "person" {
            issued["refresh_token"] = "refresh".into();
        }
        json_body("200 OK", &issued)
    }

    /// Returns the client of a token that is accepted.
    fn client_of(&self, log: &OAuthLog, token: Option<&str>) -> Option<String> {
        let now = self.clock.now();
        let (_, client, issued) = log.tokens.iter().find(|(known, ..)| Some(&**known) == token)?;
        (now.since(*issued) < self.model.lifetime).then(|| client.clone())
    }

    fn serve_mcp(&self, request: &Request) -> String {
        let mut log = self.log.lock().unwrap();
        let token = request.token();
        let Some(client) = self.client_of(&log, token) else {
            if token.is_some() {
                log.refused.push(request.line.clone());
            }
            return response("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", "");
        };
        if request.line.starts_with("DELETE") {
            log.deleted += 1;
            return response("200 OK", "", "");
        }
        let Ok(message) = serde_json::from_str::<Value>(&request.body) else {
            return response("405 Method Not Allowed", "", "");
        };
        let token = token.unwrap_or_default();
        let Some(answer) = Self::answer(&mut log, &message, &client, token) else {
            return response("202 Accepted", "", "");
        };
        let fields = "Content-Type: application/json\r\nMcp-Session-Id: session\r\n";
        response("200 OK", fields, &answer.to_string())
    }

    /// Answers a message of MCP.
    fn answer(log: &mut OAuthLog, message: &Value, client: &str, token: &str) -> Option<Value> {
        let id = message.get("id")?;
        let result = match message["method"].as_str() {
            Some("initialize") => json!({ "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "guarded", "version": "1" } }),
            Some("tools/list") => {
                json!({ "tools": [{ "name": "create", "inputSchema": { "type": "object",
                    "properties": { "note": { "type": "string" } } } }] })
            }
            Some("tools/call") => {
                let note = message["params"]["arguments"]["note"].as_str().unwrap_or_default();
                log.notes.insert((note.to_owned(), client.to_owned()));
                *log.calls.entry(token.to_owned()).or_default() += 1;
                json!({ "content": [] })
            }
            _ => {
                let error = json!({ "code": -32601, "message": "Method not found" });
                return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        };
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }
}

impl Request {
    fn token(&self) -> Option<&str> {
        self.authorization.as_deref()?.strip_prefix("Bearer ")
    }
}

/// Reads a request, or `None` at the end.
fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let target = line.rsplit_once(' ').map_or("", |(target, _)| target).to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (mut length, mut authorization, mut key) = (0, None, None);
    loop {
        let mut field = String::new();
        reader.read_line(&mut field)?;
        let Some((name, value)) = field.trim_end().split_once(':') else { break };
        match &*name.to_ascii_lowercase() {
            "content-length" => length = value.trim().parse().unwrap(),
            "authorization" => authorization = Some(value.trim().to_owned()),
            "sec-websocket-key" => key = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    let (line, query) = (path.to_owned(), query.to_owned());
    Ok(Some(Request { line, query, authorization, key, body }))
}

/// Returns the parameters of a query or form.
fn parameters(text: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| {
        let mut bytes = text.bytes();
        let mut decoded = Vec::new();
        while let Some(byte) = bytes.next() {
            decoded.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap()
                }
                byte => byte,
            });
        }
        String::from_utf8(decoded).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn json_body(status: &str, body: &Value) -> String {
    response(status, "Content-Type: application/json\r\n", &body.to_string())
}

fn response(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}
