//! A server and its authorization servers, as the requests of a flow meet them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use crate::error::{ClientError, ClientErrorKind};
use crate::oauth::{
    Challenge, FetchRequest, FetchResponse, Flow, FlowCause, FlowInput, FlowStep, OAuthOptions,
    Secret, StoredTokens,
};

pub(super) const SERVER: &str = "https://mcp/mcp";
pub(super) const ISSUER: &str = "https://as";
pub(super) const NOW: u64 = 1_000;
/// More requests than any flow needs.
const REQUESTS_MAX: usize = 100;

/// Parameters of a request.
pub(super) type Parameters = BTreeMap<String, String>;

/// What the servers answer, and what they were asked.
#[derive(Debug)]
pub(super) struct World {
    pub(super) documents: HashMap<String, FetchResponse>,
    /// What the redirect of an authorization has besides `code` and `state`; replaces both.
    pub(super) redirect: Vec<(&'static str, String)>,
    /// Answers of token endpoints; then tokens.
    pub(super) token_answers: VecDeque<FetchResponse>,
    pub(super) requests: Vec<FetchRequest>,
}

pub(super) fn document(body: &Value) -> FetchResponse {
    FetchResponse { status: 200, body: body.to_string().into_bytes(), ..FetchResponse::default() }
}

pub(super) fn refusal(error: &str) -> FetchResponse {
    FetchResponse { status: 400, ..document(&json!({ "error": error })) }
}

pub(super) fn redirect_to(location: &str) -> FetchResponse {
    let location = Some(location.to_owned());
    FetchResponse { status: 302, location, ..FetchResponse::default() }
}

/// The metadata of an authorization server with all endpoints.
pub(super) fn server_metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    })
}

impl World {
    /// A server with metadata below the well-known path, and one authorization server.
    pub(super) fn new() -> Self {
        let mut world = Self {
            documents: HashMap::new(),
            redirect: Vec::new(),
            token_answers: VecDeque::new(),
            requests: Vec::new(),
        };
        world.set_resource(&json!({ "resource": SERVER, "authorization_servers": [ISSUER] }));
        world.set_server(ISSUER, &json!({}));
        world
    }

    pub(super) fn set(&mut self, url: &str, response: FetchResponse) {
        self.documents.insert(url.to_owned(), response);
    }

    pub(super) fn set_resource(&mut self, metadata: &Value) {
        self.set("https://mcp/.well-known/oauth-protected-resource/mcp", document(metadata));
    }

    /// Sets the metadata of an authorization server without a path: with these members.
    pub(super) fn set_server(&mut self, issuer: &str, members: &Value) {
        let mut metadata = server_metadata(issuer);
        for (name, value) in members.as_object().unwrap() {
            metadata[name] = value.clone();
        }
        let url = format!("{issuer}/.well-known/oauth-authorization-server");
        self.set(&url, document(&metadata));
    }

    fn respond(&mut self, request: &FetchRequest) -> FetchResponse {
        self.requests.push(request.clone());
        assert!(self.requests.len() < REQUESTS_MAX, "the flow does not end");
        let mut url = request.url.clone();
        if let Some(response) = self.documents.get(url.as_str()) {
            return response.clone();
        }
        match url.path() {
            "/authorize" => {
                let parameters: Parameters = url.query_pairs().into_owned().collect();
                let mut query = form_urlencoded::Serializer::new(String::new());
                query.extend_pairs(&self.redirect);
                if self.redirect.is_empty() || self.redirect.iter().all(|(name, _)| *name == "iss")
                {
                    query
                        .append_pair("code", "the-code")
                        .append_pair("state", &parameters["state"]);
                }
                let query = query.finish().replace("STATE", &parameters["state"]);
                redirect_to(&format!("{}?{query}", parameters["redirect_uri"]))
            }
            "/token" => self.token_answers.pop_front().unwrap_or_else(|| {
                let token = format!("token-{}", self.requests.len());
                document(&json!({ "access_token": token, "token_type": "bearer" }))
            }),
            "/register" => {
                url.set_path("");
                document(&json!({ "client_id": format!("registered at {url}") }))
            }
            _ => FetchResponse { status: 404, ..FetchResponse::default() },
        }
    }

    /// Runs a flow to its end.
    pub(super) fn run(
        &mut self,
        options: OAuthOptions,
        stored: Option<StoredTokens>,
        cause: FlowCause,
    ) -> Result<StoredTokens, ClientError> {
        let mut counter = 0;
        let random = Box::new(move |bytes: &mut [u8]| {
            counter += 1;
            bytes.fill(counter);
        });
        let server = Url::parse(SERVER).unwrap();
        let mut flow = Flow::new(server, Arc::new(options), stored, cause, random);
        let mut input = FlowInput::Start;
        loop {
            input = match flow.advance(input, NOW) {
                FlowStep::Fetch(request) => FlowInput::Response(Ok(self.respond(&request))),
                FlowStep::Listen(port) => {
                    let port = if port == 0 { 7_777 } else { port };
                    FlowInput::RedirectUri(Ok(format!("http://127.0.0.1:{port}/callback")))
                }
                FlowStep::Authorize { url, .. } => {
                    let response = self.respond(&FetchRequest::get(url, "text/html"));
                    let location = Url::parse(&response.location.unwrap()).unwrap();
                    FlowInput::Redirect(Ok(Secret::new(location.query().unwrap())))
                }
                FlowStep::Done(outcome) => return outcome,
            };
        }
    }

    /// Runs a flow for a first refusal with this challenge.
    pub(super) fn authorize(
        &mut self,
        options: OAuthOptions,
        challenge: Challenge,
    ) -> Result<StoredTokens, ClientError> {
        let cause = FlowCause::Challenge { challenge, is_forbidden: false, attempt: 1 };
        self.run(options, None, cause)
    }

    /// Returns the error of a flow that must fail before a token is requested.
    pub(super) fn refuse(&mut self, options: OAuthOptions) -> String {
        let error = self.authorize(options, Challenge::default()).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Authorization);
        assert!(self.parameters("/token").is_empty(), "a token was requested");
        error.to_string()
    }

    /// Returns the URLs that were requested, without queries.
    pub(super) fn urls(&self) -> Vec<String> {
        let mut urls = Vec::new();
        for request in &self.requests {
            let mut url = request.url.clone();
            url.set_query(None);
            urls.push(url.to_string());
        }
        urls
    }

    /// Returns the parameters of the requests for a path, from the query or the form.
    pub(super) fn parameters(&self, path: &str) -> Vec<Parameters> {
        let requests = self.requests.iter().filter(|request| request.url.path() == path);
        let read = |request: &FetchRequest| match request.method {
            "GET" => request.url.query_pairs().into_owned().collect(),
            _ => form_urlencoded::parse(&request.body).into_owned().collect(),
        };
        requests.map(read).collect()
    }

    /// Returns a field of the last request for a path.
    pub(super) fn field(&self, path: &str, name: &str) -> Option<String> {
        let request = self.requests.iter().rfind(|request| request.url.path() == path)?;
        let field = request.fields.iter().find(|(other, _)| *other == name);
        field.map(|(_, value)| value.clone())
    }
}

/// Options that need no user.
pub(super) fn automatic() -> OAuthOptions {
    OAuthOptions::new().approve_automatically()
}

/// Returns the challenge of a value of `WWW-Authenticate`.
pub(super) fn challenge(value: &str) -> Challenge {
    Challenge::parse([value]).unwrap()
}
