//! A running flow with its connection and its port.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::fetch::{Fetch, FetchOutcome};
use super::redirect::{RedirectListener, RedirectSender};
use crate::error::ClientError;
use crate::io::call_slot::run_callback;
use crate::io::connect::OpenError;
use crate::oauth::{Flow, FlowInput, FlowStep, OAuthOptions, Secret, StoredTokens, UserAgent};
use crate::target::Target;
use corelane_base::time::Instant;
use corelane_engine::clock::unix_ms;
use corelane_engine::ring::{Ring, Socket};

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
