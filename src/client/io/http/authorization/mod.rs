//! Authorization of the requests to one server: credentials, the flow that obtains them, and the
//! requests that wait for it.
//!
//! Invariants: one flow runs at a time, and no request is sent meanwhile; a request that the server
//! has refused is sent again after it, at most three times.

mod redirect;

mod flow_run;

mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use url::Url;

pub use self::flow_run::FlowRun;
pub use self::redirect::RedirectSender;
pub use self::upgrade::{UpgradeAuthorization, UpgradeVerdict};
use super::exchange::{ExchangeKind, McpExchange, RequestAuthorization};
use super::queue::HttpQueue;
use crate::error::ClientError;
use crate::io::peer_settings::PeerSettings;
use crate::oauth::signing::Claims;
use crate::oauth::{
    Challenge, Credentials, Flow, FlowCause, OAuthOptions, StoredTokens, TokenEntry,
};
use corelane_base::time::Instant;
use corelane_engine::clock::unix_ms;
use corelane_engine::ring::Ring;
use corelane_transport::http::client::response_head::ResponseHead;

/// Authorizations for one request at most.
const ATTEMPTS_MAX: u32 = 3;
/// Seconds before a refresh that has failed is tried again.
const REFRESH_DELAY_SECONDS: u64 = 30;
/// Time that another client has to replace the tokens, and the interval of the checks.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_INTERVAL: Duration = Duration::from_millis(50);
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;

/// What becomes of a response.
#[derive(Debug)]
pub enum ResponseVerdict {
    /// It is an answer to this request.
    Answer(McpExchange),
    /// The request is sent again.
    Kept,
    /// The request has failed.
    Refused(McpExchange, ClientError),
}

/// What a status and its challenges ask for.
#[derive(Debug)]
enum RefusalVerdict {
    /// Nothing that concerns authorization.
    Other,
    /// The flow of this cause, unless a nonce is all that is missing.
    Challenge { cause: FlowCause, needs_nonce: bool },
    /// The request has failed.
    Failed(ClientError),
}

/// The flow of a server.
#[derive(Debug, Default)]
enum FlowState {
    #[default]
    Idle,
    /// Another client replaces the tokens.
    Waiting {
        cause: FlowCause,
        retry_at: Instant,
        /// When the wait ends in any case.
        deadline: Instant,
    },
    Running(Box<FlowRun>),
    /// Another client has replaced the tokens, which this one uses now.
    Replaced,
}

/// How a flow has ended for the requests that waited for it.
#[derive(Debug)]
pub struct FlowEnd {
    /// The requests that the server has refused.
    pub parked: Vec<McpExchange>,
    /// Why they fail.
    pub error: Option<ClientError>,
}

#[derive(Debug)]
pub struct HttpAuthorization {
    server: Url,
    options: Arc<OAuthOptions>,
    entry: TokenEntry,
    credentials: Option<Credentials>,
    /// Counts the credentials.
    generation: u32,
    /// The last nonce of the server (RFC 9449, section 8.2).
    nonce: Option<Box<str>>,
    state: FlowState,
    /// Flows so far.
    runs: u64,
    /// The running flow is not for a refused request.
    is_refresh: bool,
    parked: Vec<McpExchange>,
    redirects: RedirectSender,
    /// Seconds since 1970-01-01 UTC.
    refresh_not_before: u64,
}

impl HttpAuthorization {
    /// Creates the authorization of a server, if it has options for it, with what is stored.
    pub fn new(settings: &PeerSettings, redirects: &RedirectSender) -> Option<Self> {
        let options = Arc::clone(settings.oauth.as_ref()?);
        let server = settings.target.http_url()?;
        let entry = TokenEntry::open(Arc::clone(&options.store), server.as_str());
        Some(Self {
            credentials: entry.known().cloned().and_then(Credentials::new),
            server,
            options,
            entry,
            generation: 0,
            nonce: None,
            state: FlowState::Idle,
            runs: 0,
            is_refresh: false,
            parked: Vec::new(),
            redirects: redirects.clone(),
            refresh_not_before: 0,
        })
    }

    /// Returns what authorizes a request with this HTTP method.
    pub fn fields(&self, method: &str) -> RequestAuthorization<'_> {
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
    pub fn handle_response(
        &mut self,
        mut exchange: McpExchange,
        head: &ResponseHead,
        queue: &mut HttpQueue,
        now: Instant,
    ) -> ResponseVerdict {
        if let Some(nonce) = &head.dpop_nonce {
            self.nonce = Some(nonce.clone());
        }
        let is_refused = matches!(head.status, UNAUTHORIZED | FORBIDDEN);
        if !is_refused || matches!(exchange.kind(), ExchangeKind::Delete) {
            return ResponseVerdict::Answer(exchange);
        }
        let attempt = exchange.count_challenge();
        let (cause, needs_nonce) = match judge(head.status, &head.challenges, attempt) {
            RefusalVerdict::Other => return ResponseVerdict::Answer(exchange),
            RefusalVerdict::Failed(error) => return ResponseVerdict::Refused(exchange, error),
            RefusalVerdict::Challenge { cause, needs_nonce } => (cause, needs_nonce),
        };
        let has_nonce = needs_nonce && head.dpop_nonce.is_some() && self.needs_proof();
        let is_renewed = head.status == UNAUTHORIZED && exchange.generation() < self.generation;
        if self.credentials.is_some() && (has_nonce || is_renewed) {
            queue.push_front(exchange);
            return ResponseVerdict::Kept;
        }
        self.parked.push(exchange);
        if !self.is_running() {
            self.start(cause, now);
        }
        ResponseVerdict::Kept
    }

    /// Returns whether there is a token whose requests need proofs.
    fn needs_proof(&self) -> bool {
        self.credentials.as_ref().is_some_and(Credentials::needs_proof)
    }

    /// Sets the last nonce of the server.
    fn with_nonce(self, nonce: Option<&str>) -> Self {
        Self { nonce: nonce.map(Into::into), ..self }
    }

    /// Begins to refresh the token if it expires soon.
    pub fn refresh_if_due(&mut self, now: Instant) {
        let Some(credentials) = self.credentials.as_ref().filter(|_| !self.is_running()) else {
            return;
        };
        let unix_seconds = unix_seconds();
        let tokens = credentials.tokens();
        if tokens.refresh_token.is_some()
            && tokens.is_refresh_due(unix_seconds)
            && unix_seconds >= self.refresh_not_before
        {
            self.start(FlowCause::Refresh, now);
        }
    }

    /// Begins a flow, once no other client replaces the tokens.
    fn start(&mut self, cause: FlowCause, now: Instant) {
        self.is_refresh = matches!(cause, FlowCause::Refresh);
        self.start_locked(cause, now.after(LOCK_TIMEOUT), now);
    }

    /// Begins a flow if no other client replaces the tokens, or after `deadline`. If another one
    /// has replaced them, they are used instead.
    fn start_locked(&mut self, cause: FlowCause, deadline: Instant, now: Instant) {
        if !self.entry.try_lock() && now < deadline {
            let retry_at = now.after(LOCK_INTERVAL);
            self.state = FlowState::Waiting { cause, retry_at, deadline };
            return;
        }
        if let Some(tokens) = self.entry.reload().cloned()
            && let Some(credentials) = Credentials::new(tokens)
        {
            self.entry.unlock();
            self.set_credentials(credentials);
            self.state = FlowState::Replaced;
            return;
        }
        let stored = self.entry.known().cloned();
        let (server, options) = (self.server.clone(), Arc::clone(&self.options));
        let flow = Flow::new(server, options, stored, cause, Box::new(fill_random));
        self.runs += 1;
        let redirects = self.redirects.clone();
        let run = FlowRun::start(flow, self.runs, &self.options, redirects, now);
        self.state = FlowState::Running(Box::new(run));
    }

    /// Returns whether requests wait for a flow.
    pub const fn is_running(&self) -> bool {
        !matches!(self.state, FlowState::Idle)
    }

    pub fn run(&mut self) -> Option<&mut FlowRun> {
        match &mut self.state {
            FlowState::Running(run) => Some(run),
            FlowState::Idle | FlowState::Waiting { .. } | FlowState::Replaced => None,
        }
    }

    /// Ends the flow, if it has ended.
    pub fn take_end(&mut self) -> Option<FlowEnd> {
        let (outcome, registration) = match &mut self.state {
            FlowState::Running(run) => (Some(run.take_outcome()?), run.take_registration()),
            FlowState::Replaced => (None, None),
            FlowState::Idle | FlowState::Waiting { .. } => return None,
        };
        self.state = FlowState::Idle;
        let parked = std::mem::take(&mut self.parked);
        let error = match outcome.map(|it| it.and_then(|tokens| self.use_tokens(tokens))) {
            None | Some(Ok(())) => None,
            Some(Err(error)) => {
                if let Some(registration) = registration {
                    self.entry.save_registration(registration);
                }
                Some(error)
            }
        };
        self.entry.unlock();
        let error = error.filter(|error| {
            if self.is_refresh {
                tracing::debug!(%error, "the access token is not refreshed");
                self.refresh_not_before = unix_seconds() + REFRESH_DELAY_SECONDS;
            }
            !self.is_refresh
        });
        Some(FlowEnd { parked, error })
    }

    fn use_tokens(&mut self, tokens: StoredTokens) -> Result<(), ClientError> {
        self.entry.save(tokens.clone());
        let credentials = Credentials::new(tokens)
            .ok_or_else(|| ClientError::authorization("the key of the token cannot be read"))?;
        self.set_credentials(credentials);
        Ok(())
    }

    fn set_credentials(&mut self, credentials: Credentials) {
        self.credentials = Some(credentials);
        self.generation += 1;
        self.nonce = None;
    }

    /// Returns when [`HttpAuthorization::expire`] must be called next.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            FlowState::Running(run) => run.deadline(),
            FlowState::Waiting { retry_at, .. } => Some(*retry_at),
            FlowState::Idle | FlowState::Replaced => None,
        }
    }

    /// Ends what has timed out, and looks whether another client still replaces the tokens.
    pub fn expire(&mut self, ring: &mut dyn Ring, now: Instant) {
        match std::mem::take(&mut self.state) {
            FlowState::Waiting { cause, retry_at, deadline } if retry_at <= now => {
                self.start_locked(cause, deadline, now);
            }
            FlowState::Running(mut run) => {
                run.expire(ring, now);
                self.state = FlowState::Running(run);
            }
            state => self.state = state,
        }
    }

    /// Ends the flow without an outcome.
    pub fn cancel(&mut self, ring: &mut dyn Ring) {
        if let Some(run) = self.run() {
            run.close(ring);
        }
        self.state = FlowState::Idle;
        self.entry.unlock();
        self.parked.clear();
    }
}

/// Judges the status and the challenges of a response; `attempt` counts those of the same
/// request from one.
fn judge(status: u16, challenges: &[Box<str>], attempt: u32) -> RefusalVerdict {
    let is_forbidden = status == FORBIDDEN;
    if !is_forbidden && status != UNAUTHORIZED {
        return RefusalVerdict::Other;
    }
    // The header is optional (2025-11-25).
    let challenge = Challenge::parse(challenges.iter().map(|value| &**value));
    let challenge = challenge.unwrap_or_default();
    if is_forbidden && !challenge.is_insufficient_scope() {
        return RefusalVerdict::Other;
    }
    if attempt > ATTEMPTS_MAX {
        return RefusalVerdict::Failed(refused_again(&challenge, status));
    }
    let needs_nonce = challenge.is_nonce_required();
    let cause = FlowCause::Challenge { challenge, is_forbidden, attempt };
    RefusalVerdict::Challenge { cause, needs_nonce }
}

/// The error of a request that is refused with the token of each authorization.
fn refused_again(challenge: &Challenge, status: u16) -> ClientError {
    let mut text = format!(
        "the server refuses the request with HTTP status {status} after {ATTEMPTS_MAX} \
         authorizations"
    );
    let (error, description) = challenge.reason();
    for part in [error, description].into_iter().flatten() {
        text.push_str(": ");
        text.extend(part.chars().filter(|character| !character.is_control()).take(200));
    }
    if let Some(scope) = challenge.scope(false) {
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
