//! A running flow with its port, and its requests, each on a connection of its own.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use super::redirect::{RedirectListener, RedirectSender};
use crate::error::ClientError;
use crate::io::call_slot::run_callback;
use crate::io::connect::OpenError;
use crate::io::http::connection::{HttpConnection, HttpRequest};
use crate::oauth::{
    FetchRequest, FetchResponse, Flow, FlowInput, FlowStep, OAuthOptions, Secret, StoredTokens,
    UserAgent,
};
use crate::target::Target;
use corelane_base::time::Instant;
use corelane_engine::clock::unix_ms;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_transport::http::client::response_head::ResponseLimits;
use corelane_transport::http::client::response_reader::ResponseEvent;

#[derive(Debug)]
pub struct FlowRun {
    flow: Flow,
    number: u64,
    fetches: u64,
    fetch: Option<Fetch>,
    listener: Option<RedirectListener>,
    redirects: RedirectSender,
    /// When the user has had enough time.
    login_deadline: Option<Instant>,
    login_timeout: Duration,
    user_agent: UserAgent,
    outcome: Option<Result<StoredTokens, ClientError>>,
}

impl FlowRun {
    /// Starts `flow`.
    pub(super) fn start(
        flow: Flow,
        number: u64,
        options: &OAuthOptions,
        redirects: RedirectSender,
        now: Instant,
    ) -> Self {
        let mut run = Self {
            flow,
            number,
            // The numbers of requests differ from those of other flows.
            fetches: number << 16,
            fetch: None,
            listener: None,
            redirects,
            login_deadline: None,
            login_timeout: options.login_timeout,
            user_agent: options.user_agent.clone(),
            outcome: None,
        };
        run.advance(FlowInput::Start, now);
        run
    }

    /// Does what the flow needs, as far as it is not waited for.
    fn advance(&mut self, input: FlowInput, now: Instant) {
        let mut input = input;
        loop {
            input = match self.flow.advance(input, unix_ms() / 1_000) {
                FlowStep::Fetch(request) => {
                    self.fetches += 1;
                    match Fetch::new(&request, self.fetches, now) {
                        Ok(fetch) => {
                            self.fetch = Some(fetch);
                            return;
                        }
                        Err(error) => FlowInput::Response(Err(error)),
                    }
                }
                FlowStep::Listen(port) => {
                    let bound = RedirectListener::bind(port).map_err(|error| error.to_string());
                    FlowInput::RedirectUri(bound.map(|listener| {
                        let uri = listener.uri();
                        self.listener = Some(listener);
                        uri
                    }))
                }
                FlowStep::Authorize { url, state } => {
                    match self.begin_login(url.as_str(), state, now) {
                        Ok(()) => return,
                        Err(error) => FlowInput::Redirect(Err(error)),
                    }
                }
                FlowStep::Done(outcome) => {
                    self.outcome = Some(outcome);
                    return;
                }
            };
        }
    }

    /// Passes the URL to the program and waits for the redirect with this `state`.
    fn begin_login(&mut self, url: &str, state: String, now: Instant) -> Result<(), String> {
        let UserAgent::Callback(on_url) = &self.user_agent else {
            return Err("there is no way to ask the user".to_owned());
        };
        let listener = self.listener.as_mut().ok_or("no port waits for the redirect")?;
        let waits = listener.wait(self.redirects.clone(), self.number, state);
        waits.map_err(|error| format!("no port waits for the redirect: {error}"))?;
        self.login_deadline = Some(now.after(self.login_timeout));
        run_callback(|| on_url(url));
        Ok(())
    }

    /// Takes the registration that the flow has made.
    pub(super) fn take_registration(&self) -> Option<StoredTokens> {
        self.flow.take_registration()
    }

    pub(super) const fn take_outcome(&mut self) -> Option<Result<StoredTokens, ClientError>> {
        self.outcome.take()
    }
}

/// Input.
impl FlowRun {
    /// Returns what to connect to, once for each request, with its number.
    pub fn take_target(&mut self) -> Option<(u64, Arc<Target>)> {
        self.fetch.as_mut()?.take_target()
    }

    pub fn owns(&self, socket: Socket) -> bool {
        self.fetch.as_ref().is_some_and(|fetch| fetch.owns(socket))
    }

    /// Handles the connection for request `number`. Returns `false` if it is not needed.
    pub fn handle_connected(&mut self, ring: &mut dyn Ring, number: u64, socket: Socket) -> bool {
        match self.fetch.as_mut().filter(|fetch| fetch.number() == number) {
            Some(fetch) => {
                fetch.handle_connected(ring, socket);
                true
            }
            None => false,
        }
    }

    /// Handles the failure to connect for request `number`.
    pub fn handle_connect_failure(&mut self, number: u64, error: OpenError, now: Instant) {
        if let Some(fetch) = self.fetch.take_if(|fetch| fetch.number() == number) {
            let error = error.describe(fetch.target()).to_string();
            self.advance(FlowInput::Response(Err(error)), now);
        }
    }

    pub fn receive(&mut self, ring: &mut dyn Ring, bytes: &[u8], now: Instant) {
        if let Some(outcome) = self.fetch.as_mut().and_then(|fetch| fetch.receive(bytes, now)) {
            self.finish_fetch(ring, outcome, now);
        }
    }

    /// Handles the end of a send on the connection. If it has failed, the end follows.
    pub fn handle_sent(
        &mut self,
        ring: &mut dyn Ring,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
        now: Instant,
    ) {
        if let Some(connection) = self.fetch.as_mut().and_then(Fetch::connection) {
            connection.handle_sent(ring, buffer, result, now);
        }
    }

    /// Handles the end of the connection, or the failure of a send.
    pub fn handle_end(&mut self, ring: &mut dyn Ring, is_failed: bool, now: Instant) {
        if let Some(outcome) = self.fetch.as_mut().map(|fetch| fetch.handle_end(is_failed, now)) {
            self.finish_fetch(ring, outcome, now);
        }
    }

    fn finish_fetch(&mut self, ring: &mut dyn Ring, outcome: FetchOutcome, now: Instant) {
        if let Some(fetch) = self.fetch.take() {
            fetch.close(ring);
        }
        self.advance(FlowInput::Response(outcome), now);
    }

    /// Handles the redirect of the browser for flow `number`.
    pub fn handle_redirect(&mut self, number: u64, query: Result<Secret, String>, now: Instant) {
        if number == self.number && self.login_deadline.take().is_some() {
            self.listener = None;
            self.advance(FlowInput::Redirect(query), now);
        }
    }
}

/// Time and the end.
impl FlowRun {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.fetch.as_ref().map(Fetch::deadline).into_iter().chain(self.login_deadline).min()
    }

    /// Ends what has timed out.
    pub(super) fn expire(&mut self, ring: &mut dyn Ring, now: Instant) {
        if self.fetch.as_ref().is_some_and(|fetch| fetch.deadline() <= now) {
            self.finish_fetch(ring, Err("it has not answered in time".to_owned()), now);
        }
        if self.login_deadline.is_some_and(|deadline| deadline <= now) {
            let seconds = self.login_timeout.as_secs();
            let text = format!("the user has not allowed access within {seconds} seconds");
            self.handle_redirect(self.number, Err(text), now);
        }
    }

    /// Closes what is open.
    pub(super) fn close(&mut self, ring: &mut dyn Ring) {
        self.listener = None;
        if let Some(fetch) = self.fetch.take() {
            fetch.close(ring);
        }
    }
}

/// Time from the request to the end of the response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest body of a response in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

struct Fetch {
    number: u64,
    target: Arc<Target>,
    is_connecting: bool,
    /// Not sent yet.
    request: Vec<u8>,
    connection: Option<HttpConnection<()>>,
    deadline: Instant,
}

/// The response, or why there is none.
type FetchOutcome = Result<FetchResponse, String>;

impl Fetch {
    /// Prepares a request; `number` names its connection.
    fn new(request: &FetchRequest, number: u64, now: Instant) -> Result<Self, String> {
        let mut url = request.url.clone();
        url.set_fragment(None);
        let target: Target =
            url.as_str().parse().map_err(|error: ClientError| error.to_string())?;
        let Target::Http(endpoint) = &target else { return Err("not a URL of HTTP".to_owned()) };
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let mut head = format!("{} {path} HTTP/1.1\r\n", request.method);
        let length = request.body.len().to_string();
        let own = [("Host", endpoint.authority()), ("Connection", "close".to_owned())];
        let length = (request.method == "POST").then_some(("Content-Length", length));
        for (name, value) in own.iter().chain(&length).chain(&request.fields) {
            head.extend([*name, ": ", value.as_str(), "\r\n"]);
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&request.body);
        Ok(Self {
            number,
            target: Arc::new(target),
            is_connecting: false,
            request: bytes,
            connection: None,
            deadline: now.after(TIMEOUT),
        })
    }

    /// Returns the target to connect to, once, with the number of this request.
    fn take_target(&mut self) -> Option<(u64, Arc<Target>)> {
        let is_first = !std::mem::replace(&mut self.is_connecting, true);
        is_first.then(|| (self.number, Arc::clone(&self.target)))
    }

    fn target(&self) -> &Target {
        &self.target
    }

    const fn number(&self) -> u64 {
        self.number
    }

    const fn deadline(&self) -> Instant {
        self.deadline
    }

    fn owns(&self, socket: Socket) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.socket() == socket)
    }

    /// Returns the connection, once there is one.
    const fn connection(&mut self) -> Option<&mut HttpConnection<()>> {
        self.connection.as_mut()
    }

    /// Sends the request.
    fn handle_connected(&mut self, ring: &mut dyn Ring, socket: Socket) {
        let mut connection = HttpConnection::open(ring, socket);
        let request = std::mem::take(&mut self.request);
        let request = HttpRequest { bytes: request, deadline: Some(self.deadline) };
        connection.start(ring, (), request);
        self.connection = Some(connection);
    }

    /// Handles received bytes; returns the outcome once it is known.
    fn receive(&mut self, bytes: &[u8], now: Instant) -> Option<FetchOutcome> {
        let connection = self.connection.as_mut()?;
        let limits = ResponseLimits { body_bytes_max: BODY_BYTES_MAX, ..Default::default() };
        let mut from = 0;
        loop {
            match connection.receive(bytes, &mut from, &limits, |(), _| {}) {
                Ok(ResponseEvent::NeedMore) => return None,
                Ok(ResponseEvent::HeadComplete) => {}
                Ok(ResponseEvent::Complete) => return Some(self.finish(now)),
                Err(error) => return Some(Err(error.to_string())),
            }
        }
    }

    /// Handles the end of the connection.
    fn handle_end(&mut self, is_failed: bool, now: Instant) -> FetchOutcome {
        let ended = self.connection.as_mut().map(HttpConnection::end_of_stream);
        match ended {
            Some(Ok(true)) if !is_failed => self.finish(now),
            _ => Err("the connection ended before the response".to_owned()),
        }
    }

    fn finish(&mut self, now: Instant) -> FetchOutcome {
        let finished = self.connection.as_mut().and_then(|connection| connection.finish(now));
        let ((), response) = finished.ok_or("the response has no head")?;
        let head = response.head;
        Ok(FetchResponse {
            status: head.status,
            location: head.location.map(Into::into),
            dpop_nonce: head.dpop_nonce.map(Into::into),
            body: response.body,
        })
    }

    /// Closes the connection.
    fn close(self, ring: &mut dyn Ring) {
        if let Some(connection) = self.connection {
            ring.submit(Operation::Close(connection.socket()));
        }
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fetch").field("number", &self.number).finish_non_exhaustive()
    }
}
