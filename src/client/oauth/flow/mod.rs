//! The flow that obtains tokens, sans-IO.
//!
//! A [`Flow`] ends with [`FlowStep::Done`]; every other step asks for one thing, which the next
//! input brings. Its future is polled by [`Flow::advance`] alone and waits for input only.

mod channel;

mod discovery;
mod token;

mod registration;

mod grants;

mod run;

#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use url::Url;

use self::channel::{Channel, RandomSource};
pub use self::channel::{FetchRequest, FetchResponse, FlowInput, FlowStep};
use self::run::FlowTask;
use super::challenge::Challenge;
use super::options::OAuthOptions;
use super::tokens::StoredTokens;
use crate::error::ClientError;

/// Why a flow runs.
#[derive(Clone, Debug)]
pub enum FlowCause {
    /// The access token expires soon.
    Refresh,
    /// The server has refused a request.
    Challenge {
        challenge: Challenge,
        /// With status 403 and not 401.
        is_forbidden: bool,
        /// Counts the refusals of the same request from one.
        attempt: u32,
    },
}

/// One run: from its cause to tokens, or to an error.
pub struct Flow {
    channel: Rc<Channel>,
    future: Pin<Box<dyn Future<Output = Result<StoredTokens, ClientError>>>>,
}

impl Flow {
    /// Creates a flow for the server at the URL `server`; `stored` is what earlier ones have
    /// obtained.
    pub fn new(
        server: Url,
        options: Arc<OAuthOptions>,
        stored: Option<StoredTokens>,
        cause: FlowCause,
        random: RandomSource,
    ) -> Self {
        let channel = Rc::new(Channel::new(random));
        let task = FlowTask { channel: Rc::clone(&channel), server, options };
        Self { channel, future: Box::pin(task.run(stored, cause)) }
    }

    /// Takes the registration that was made in this run, without tokens.
    pub fn take_registration(&self) -> Option<StoredTokens> {
        self.channel.take_registration()
    }

    /// Goes on with what the last step asked for; the first input is [`FlowInput::Start`].
    pub fn advance(&mut self, input: FlowInput, unix_seconds: u64) -> FlowStep {
        self.channel.provide(input, unix_seconds);
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => FlowStep::Done(outcome),
            Poll::Pending => self.channel.take_step(),
        }
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Flow").finish_non_exhaustive()
    }
}
