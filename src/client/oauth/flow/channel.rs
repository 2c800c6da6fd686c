//! What a flow asks of its driver, and the answers.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::task::Poll;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use url::Url;

use crate::error::{ClientError, quote};
use crate::oauth::tokens::{Secret, StoredTokens};

/// Redirects of one request for metadata at most.
const REDIRECTS_MAX: u32 = 3;

/// Fills a slice with unpredictable bytes.
pub type RandomSource = Box<dyn FnMut(&mut [u8])>;

/// An HTTP request, of which redirects are not followed. It has secrets: the debug format omits
/// them.
#[derive(Clone, Eq, PartialEq)]
pub struct FetchRequest {
    pub method: &'static str,
    pub url: Url,
    /// Fields besides those of the connection and of the body.
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl FetchRequest {
    pub(super) fn get(url: Url, accept: &str) -> Self {
        Self { method: "GET", url, fields: vec![("Accept", accept.to_owned())], body: Vec::new() }
    }

    pub(super) fn post(url: Url, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let fields = vec![
            ("Accept", "application/json".to_owned()),
            ("Content-Type", media_type.to_owned()),
        ];
        Self { method: "POST", url, fields, body: body.into() }
    }
}

impl fmt::Debug for FetchRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FetchRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

/// A response to a [`FetchRequest`]. It may have secrets: the debug format omits them.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct FetchResponse {
    pub status: u16,
    pub location: Option<String>,
    pub dpop_nonce: Option<String>,
    pub body: Vec<u8>,
}

impl FetchResponse {
    /// Returns where the response redirects to.
    pub(super) fn redirect(&self) -> Option<&str> {
        self.location.as_deref().filter(|_| matches!(self.status, 301 | 302 | 303 | 307 | 308))
    }

    pub(super) const fn is_success(&self) -> bool {
        matches!(self.status, 200..300)
    }

    /// Returns the body without a byte order mark (RFC 8259, section 8.1).
    pub(super) fn text(&self) -> &[u8] {
        self.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.body)
    }

    /// Reads the body; `what` names it in the error.
    pub(super) fn json<T: DeserializeOwned>(&self, what: &str) -> Result<T, ClientError> {
        serde_json::from_slice(self.text())
            .map_err(|error| ClientError::authorization(format!("{what} is invalid: {error}")))
    }

    /// Returns the error for a response that `what` was expected from.
    pub(super) fn failure(&self, what: &str) -> ClientError {
        let (status, body) = (self.status, quote(&self.body));
        ClientError::authorization(format!("{what} was refused with HTTP status {status}{body}"))
    }
}

impl fmt::Debug for FetchResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FetchResponse")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// What a flow needs next.
pub enum FlowStep {
    /// Send this and provide [`FlowInput::Response`].
    Fetch(FetchRequest),
    /// Listen for the redirect of the browser on this port, or any if it is zero, and provide
    /// [`FlowInput::RedirectUri`].
    Listen(u16),
    /// Let the user open this URL and provide [`FlowInput::Redirect`].
    Authorize {
        url: Url,
        /// `state` of the redirect; one with another is not that of this request.
        state: String,
    },
    /// Nothing: the flow has ended.
    Done(Result<StoredTokens, ClientError>),
}

/// What a driver provides.
pub enum FlowInput {
    Start,
    Response(Result<FetchResponse, String>),
    RedirectUri(Result<String, String>),
    /// The query of the redirect.
    Redirect(Result<Secret, String>),
}

/// Connects the future of a flow with its driver.
pub(super) struct Channel {
    step: Cell<Option<FlowStep>>,
    input: Cell<Option<FlowInput>>,
    unix_seconds: Cell<u64>,
    random: RefCell<RandomSource>,
    /// The client that was registered in this run, without tokens.
    registration: Cell<Option<StoredTokens>>,
}

/// What the driver of a flow calls.
impl Channel {
    pub(super) fn new(random: RandomSource) -> Self {
        Self {
            step: Cell::new(None),
            input: Cell::new(None),
            unix_seconds: Cell::new(0),
            random: RefCell::new(random),
            registration: Cell::new(None),
        }
    }

    pub(super) fn take_registration(&self) -> Option<StoredTokens> {
        self.registration.take()
    }

    pub(super) fn provide(&self, input: FlowInput, unix_seconds: u64) {
        self.input.set(Some(input));
        self.unix_seconds.set(unix_seconds);
    }

    pub(super) fn take_step(&self) -> FlowStep {
        self.step.take().unwrap_or_else(|| FlowStep::Done(Err(unexpected_input())))
    }
}

/// What the flow calls.
impl Channel {
    /// Returns the time in seconds since 1970-01-01 UTC.
    pub(super) fn unix_seconds(&self) -> u64 {
        self.unix_seconds.get()
    }

    /// Returns 32 random bytes as text of 43 characters.
    pub(super) fn random_text(&self) -> String {
        let mut bytes = [0; 32];
        let mut random = self.random.borrow_mut();
        random(&mut bytes);
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Notes a registration, which outlives a login that fails.
    pub(super) fn note_registration(&self, registration: StoredTokens) {
        self.registration.set(Some(registration));
    }

    async fn ask(&self, step: FlowStep) -> FlowInput {
        self.input.set(None);
        self.step.set(Some(step));
        poll_fn(|_| self.input.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Sends a request.
    pub(super) async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, ClientError> {
        let origin = request.url.origin().ascii_serialization();
        match self.ask(FlowStep::Fetch(request)).await {
            FlowInput::Response(response) => response.map_err(|error| {
                ClientError::authorization(format!("no response of {origin}: {error}"))
            }),
            _ => Err(unexpected_input()),
        }
    }

    /// Requests a document, following redirects on the same origin.
    pub(super) async fn fetch_document(&self, url: Url) -> Result<FetchResponse, ClientError> {
        let mut url = url;
        for _ in 0..=REDIRECTS_MAX {
            let response = self.fetch(FetchRequest::get(url.clone(), "application/json")).await?;
            let Some(location) = response.redirect() else { return Ok(response) };
            let next = url.join(location).ok().filter(|next| next.origin() == url.origin());
            let Some(next) = next else {
                let text = format!("{url} redirects to another server, which is not followed");
                return Err(ClientError::authorization(text));
            };
            url = next;
        }
        Err(ClientError::authorization(format!("{url}: too many redirects")))
    }

    /// Returns the URI of a redirect receiver.
    pub(super) async fn listen(&self, port: u16) -> Result<String, ClientError> {
        match self.ask(FlowStep::Listen(port)).await {
            FlowInput::RedirectUri(uri) => uri.map_err(|error| {
                let text = "the redirect of the browser cannot be received on 127.0.0.1";
                ClientError::authorization(format!("{text}: {error}"))
            }),
            _ => Err(unexpected_input()),
        }
    }

    /// Lets the user open `url`; returns the query of the redirect with this `state`.
    pub(super) async fn authorize(&self, url: Url, state: &str) -> Result<Secret, ClientError> {
        let step = FlowStep::Authorize { url, state: state.to_owned() };
        match self.ask(step).await {
            FlowInput::Redirect(query) => query.map_err(ClientError::authorization),
            _ => Err(unexpected_input()),
        }
    }
}

fn unexpected_input() -> ClientError {
    ClientError::authorization("the driver of the authorization has provided the wrong input")
}
