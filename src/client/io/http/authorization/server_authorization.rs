//! The credentials for one server, and the requests that wait for others.
//!
//! Invariants: one flow runs at a time, and no request is sent meanwhile; a request that the server
//! has refused is sent again after it, at most three times.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use url::Url;

use super::flow_run::FlowRun;
use super::redirect::RedirectSender;
use crate::base::time::Instant;
use crate::client::error::ClientError;
use crate::client::io::http::exchange::{Exchange, ExchangeKind, RequestAuthorization};
use crate::client::io::http::queue::HttpQueue;
use crate::client::io::peer_handle::PeerHandle;
use crate::client::oauth::signing::Claims;
use crate::client::oauth::{Challenge, Credentials, Flow, FlowCause, OAuthOptions, StoredTokens};
use crate::engine::clock::unix_ms;
use crate::engine::ring::Ring;
use crate::transport::http::client::response_head::ResponseHead;

/// Authorizations for one request at most.
const ATTEMPTS_MAX: u32 = 3;
/// Seconds before a refresh that has failed is tried again.
const REFRESH_DELAY_SECONDS: u64 = 30;
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;

/// What becomes of a response.
#[derive(Debug)]
pub(in crate::client::io::http) enum Verdict {
    /// It is an answer to this request.
    Answer(Exchange),
    /// The request is sent again.
    Kept,
    /// The request has failed.
    Refused(Exchange, ClientError),
}

/// How a flow has ended for the requests that waited for it.
#[derive(Debug)]
pub(super) struct FlowEnd {
    /// The requests that the server has refused.
    pub(super) parked: Vec<Exchange>,
    /// Why they fail.
    pub(super) error: Option<ClientError>,
}

#[derive(Debug)]
pub(in crate::client::io) struct HttpAuthorization {
    server: Url,
    options: Arc<OAuthOptions>,
    credentials: Option<Credentials>,
    /// Counts the credentials.
    generation: u32,
    /// The last nonce of the server (RFC 9449, section 8.2).
    nonce: Option<Box<str>>,
    run: Option<FlowRun>,
    /// Flows so far.
    runs: u64,
    /// The running flow is not for a refused request.
    is_refresh: bool,
    parked: Vec<Exchange>,
    redirects: RedirectSender,
    /// Seconds since 1970-01-01 UTC.
    refresh_not_before: u64,
}

impl HttpAuthorization {
    /// Creates the authorization of a server, if it has options for it, with what is stored.
    pub(in crate::client::io) fn new(
        handle: &PeerHandle,
        redirects: &RedirectSender,
    ) -> Option<Self> {
        let options = Arc::clone(handle.oauth.as_ref()?);
        let server: Url = handle.target.to_string().parse().ok()?;
        let stored = options.store.load(server.as_str()).unwrap_or_else(|error| {
            tracing::warn!(%error, "stored tokens cannot be read");
            None
        });
        Some(Self {
            server,
            options,
            credentials: stored.and_then(Credentials::new),
            generation: 0,
            nonce: None,
            run: None,
            runs: 0,
            is_refresh: false,
            parked: Vec::new(),
            redirects: redirects.clone(),
            refresh_not_before: 0,
        })
    }

    /// Returns what authorizes a request with this HTTP method.
    pub(super) fn fields(&self, method: &str) -> RequestAuthorization<'_> {
        let generation = self.generation;
        let Some(credentials) = &self.credentials else {
            return RequestAuthorization { generation, ..RequestAuthorization::default() };
        };
        let value = Some(credentials.authorization());
        let proof = credentials.needs_proof().then(|| self.proof(credentials, method));
        RequestAuthorization { value, proof: proof.flatten(), generation }
    }

    fn proof(&self, credentials: &Credentials, method: &str) -> Option<String> {
        let mut url = self.server.clone();
        url.set_query(None);
        let mut id = [0; 16];
        fill_random(&mut id);
        let id = BASE64_URL_SAFE_NO_PAD.encode(id);
        let claims = Claims { unix_seconds: unix_seconds(), id: &id };
        let proof = credentials.proof(method, url.as_str(), self.nonce.as_deref(), claims)?;
        proof.inspect_err(|error| tracing::warn!(%error, "a request has no proof of DPoP")).ok()
    }

    /// Judges the response to `exchange`; begins a flow if the server asks for authorization.
    pub(super) fn handle_response(
        &mut self,
        mut exchange: Exchange,
        head: &ResponseHead,
        queue: &mut HttpQueue,
        now: Instant,
    ) -> Verdict {
        if let Some(nonce) = &head.dpop_nonce {
            self.nonce = Some(nonce.clone());
        }
        let is_forbidden = head.status == FORBIDDEN;
        let is_refused = is_forbidden || head.status == UNAUTHORIZED;
        if !is_refused || matches!(exchange.kind(), ExchangeKind::Delete) {
            return Verdict::Answer(exchange);
        }
        let values = head.challenges.iter().map(|value| &**value);
        // The header is optional (2025-11-25).
        let challenge = Challenge::parse(values).unwrap_or_default();
        if is_forbidden && !challenge.is_insufficient_scope() {
            return Verdict::Answer(exchange);
        }
        let attempt = exchange.count_challenge();
        if attempt > ATTEMPTS_MAX {
            let error = refused_again(&challenge, head.status);
            return Verdict::Refused(exchange, error);
        }
        let needs_nonce = challenge.is_nonce_required() && head.dpop_nonce.is_some();
        let is_renewed = !is_forbidden && exchange.generation() < self.generation;
        if self.credentials.is_some() && (needs_nonce || is_renewed) {
            queue.push_front(exchange);
            return Verdict::Kept;
        }
        self.parked.push(exchange);
        if self.run.is_none() {
            self.is_refresh = false;
            self.start(FlowCause::Challenge { challenge, is_forbidden, attempt }, now);
        }
        Verdict::Kept
    }

    /// Begins to refresh the token if it expires soon.
    pub(super) fn refresh_if_due(&mut self, now: Instant) {
        let Some(credentials) = self.credentials.as_ref().filter(|_| self.run.is_none()) else {
            return;
        };
        let unix_seconds = unix_seconds();
        let tokens = credentials.tokens();
        if tokens.refresh_token.is_some()
            && tokens.is_refresh_due(unix_seconds)
            && unix_seconds >= self.refresh_not_before
        {
            self.is_refresh = true;
            self.start(FlowCause::Refresh, now);
        }
    }

    fn start(&mut self, cause: FlowCause, now: Instant) {
        let stored = self.credentials.as_ref().map(|credentials| credentials.tokens().clone());
        let (server, options) = (self.server.clone(), Arc::clone(&self.options));
        let flow = Flow::new(server, options, stored, cause, Box::new(fill_random));
        self.runs += 1;
        let redirects = self.redirects.clone();
        self.run = Some(FlowRun::start(flow, self.runs, &self.options, redirects, now));
    }

    /// Returns whether requests wait for a flow.
    pub(super) const fn is_running(&self) -> bool {
        self.run.is_some()
    }

    pub(super) const fn run(&mut self) -> Option<&mut FlowRun> {
        self.run.as_mut()
    }

    /// Ends the flow, if it has ended.
    pub(super) fn take_end(&mut self) -> Option<FlowEnd> {
        let outcome = self.run.as_mut()?.take_outcome()?;
        self.run = None;
        let parked = std::mem::take(&mut self.parked);
        let error = match outcome.and_then(|tokens| self.use_tokens(tokens)) {
            Ok(()) => None,
            Err(error) if self.is_refresh => {
                tracing::debug!(%error, "the access token is not refreshed");
                self.refresh_not_before = unix_seconds() + REFRESH_DELAY_SECONDS;
                None
            }
            Err(error) => Some(error),
        };
        Some(FlowEnd { parked, error })
    }

    fn use_tokens(&mut self, tokens: StoredTokens) -> Result<(), ClientError> {
        if let Err(error) = self.options.store.save(self.server.as_str(), &tokens) {
            tracing::warn!(%error, "tokens cannot be stored");
        }
        let credentials = Credentials::new(tokens)
            .ok_or_else(|| ClientError::authorization("the key of the token cannot be read"))?;
        self.credentials = Some(credentials);
        self.generation += 1;
        self.nonce = None;
        Ok(())
    }

    /// Returns when the flow must be checked for what has timed out.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.run.as_ref().and_then(FlowRun::deadline)
    }

    /// Ends the flow without an outcome.
    pub(super) fn cancel<R: Ring>(&mut self, ring: &mut R) {
        if let Some(mut run) = self.run.take() {
            run.close(ring);
        }
        self.parked.clear();
    }
}

/// The error of a request that is refused with the token of each authorization.
fn refused_again(challenge: &Challenge, status: u16) -> ClientError {
    let mut text = format!(
        "the server refuses the request with HTTP status {status} after {ATTEMPTS_MAX} \
         authorizations"
    );
    for part in [&challenge.error, &challenge.error_description].into_iter().flatten() {
        text.push_str(": ");
        text.extend(part.chars().filter(|character| !character.is_control()).take(200));
    }
    if let Some(scope) = &challenge.scope {
        text.push_str("; it asks for the scope ");
        text.extend(scope.chars().filter(|character| !character.is_control()).take(200));
    }
    ClientError::authorization(text)
}

fn unix_seconds() -> u64 {
    unix_ms() / 1_000
}

/// Fills `bytes` from the random source of the system.
fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has had a random source at start");
}
