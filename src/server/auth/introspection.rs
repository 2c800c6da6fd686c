//! Tokens that the authorization server is asked about (RFC 7662). Each shard has the requests that
//! wait for the answer, and the tokens that it has refused ([`PendingTokens`]); threads take tokens
//! from a queue and ask the server ([`Introspector`]).
//!
//! Invariants: a shard asks about a token once at a time; no request waits longer than
//! [`WAIT_MAX`]; the numbers of tokens are bounded; a failure concerns the token that was asked
//! about, which is not asked about again for [`UNANSWERED_SECONDS`].

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use url::Url;
use url::form_urlencoded::{self, Serializer};

use super::AuthTime;
use super::question_queue::{Question, QuestionQueue};
use crate::guard::auth::AuthError;
use crate::guard::auth::introspection::{IntrospectedToken, NotIntrospected, TokenStatus};
use crate::guard::auth::token_table::TokenDigest;
use crate::server::fetch::{self, Fetcher, Form};
use crate::server::options::AuthOptions;
use crate::server::secret_file;
use crate::telemetry::auth_event::AuthEvent;
use crate::telemetry::event::Event;

/// The longest time for which a request waits.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(5);
/// Time in seconds for which a refused token is known.
const REFUSED_SECONDS: u64 = 10;
/// Time in seconds for which nothing is asked about a token that was not answered.
const UNANSWERED_SECONDS: u64 = 1;
/// Refused tokens that are known, at most.
const REFUSED_MAX: usize = 1_024;

/// The tokens of one shard that are asked about.
#[derive(Debug)]
pub(super) struct PendingTokens {
    questions: Arc<QuestionQueue>,
    pending: HashMap<TokenDigest, PendingToken>,
    /// In order of the deadlines, since all have the same time. Some are answered.
    deadlines: VecDeque<(Instant, TokenDigest, u64)>,
    /// Why tokens are refused, and until when in seconds since 1970.
    refused: HashMap<TokenDigest, (u64, AuthError)>,
    /// Number of tokens so far.
    count: u64,
}

/// A token that is asked about.
#[derive(Debug)]
struct PendingToken {
    number: u64,
    /// The connections whose request waits.
    waiting: Vec<Key>,
}

impl PendingTokens {
    pub(super) fn new(questions: Arc<QuestionQueue>) -> Self {
        Self {
            questions,
            pending: HashMap::new(),
            deadlines: VecDeque::new(),
            refused: HashMap::new(),
            count: 0,
        }
    }

    /// Asks about a token, unless that is known or under way. Returns why it is not accepted now.
    pub(super) fn ask(&mut self, question: Question, time: AuthTime) -> AuthError {
        let digest = question.digest;
        match self.refused.get(&digest) {
            Some((until, error)) if time.unix_seconds < *until => return error.clone(),
            _ => {}
        }
        if self.pending.contains_key(&digest) {
            return AuthError::Pending;
        }
        if !self.questions.push(question) {
            return TOO_MANY_QUESTIONS;
        }
        self.count += 1;
        let number = self.count;
        self.pending.insert(digest, PendingToken { number, waiting: Vec::new() });
        self.deadlines.push_back((time.turn.after(WAIT_MAX), digest, number));
        AuthError::Pending
    }

    /// Has a connection wait for the answer about a token. Returns `false` if that is not asked
    /// about.
    pub(super) fn wait(&mut self, digest: &TokenDigest, key: Key) -> bool {
        let Some(token) = self.pending.get_mut(digest) else { return false };
        if !token.waiting.contains(&key) {
            token.waiting.push(key);
        }
        true
    }

    /// Ends the question about a token. Returns the connections that wait.
    pub(super) fn end(&mut self, digest: &TokenDigest) -> Vec<Key> {
        self.pending.remove(digest).map(|token| token.waiting).unwrap_or_default()
    }

    /// Refuses a token for a time, because of the answer.
    pub(super) fn refuse(&mut self, digest: TokenDigest, error: AuthError, unix_seconds: u64) {
        let is_unanswered = matches!(error, AuthError::Unavailable(_));
        let seconds = if is_unanswered { UNANSWERED_SECONDS } else { REFUSED_SECONDS };
        if self.refused.len() >= REFUSED_MAX {
            self.refused.retain(|_, (until, _)| unix_seconds < *until);
            if self.refused.len() >= REFUSED_MAX {
                self.refused.clear();
            }
        }
        self.refused.insert(digest, (unix_seconds.saturating_add(seconds), error));
    }

    /// Forgets the refused tokens: other rules apply.
    pub(super) fn forget_refused(&mut self) {
        self.refused.clear();
    }

    /// Returns when the next question has taken too long.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(due, ..)| *due)
    }

    /// Ends the questions that have taken too long. Returns the connections that wait.
    pub(super) fn expire(&mut self, time: AuthTime) -> Vec<Key> {
        let mut waiting = Vec::new();
        while let Some((_, digest, number)) =
            self.deadlines.pop_front_if(|(due, ..)| *due <= time.turn)
        {
            if self.pending.get(&digest).is_some_and(|token| token.number == number) {
                waiting.append(&mut self.end(&digest));
                self.refuse(digest, NO_ANSWER, time.unix_seconds);
            }
        }
        waiting
    }
}

pub(super) const TOO_MANY_QUESTIONS: AuthError =
    AuthError::Unavailable("too many tokens are being introspected; try again");
pub(super) const NO_ANSWER: AuthError =
    AuthError::Unavailable("the authorization server does not respond to introspection");

/// Time between two log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// The introspection endpoint, and the credential of this server there.
pub(super) struct Introspector {
    url: Url,
    authorization: Option<Box<str>>,
}

/// Limits the log lines about failures.
#[derive(Debug)]
pub(super) struct FailureLog {
    clock: Clock,
    /// Milliseconds of the clock before which no line is logged.
    next_at: AtomicU64,
}

impl FailureLog {
    pub(super) fn new() -> Self {
        Self { clock: Clock::start(), next_at: AtomicU64::new(0) }
    }

    /// Returns whether a failure is logged.
    fn admits(&self) -> bool {
        let now = self.clock.now().milliseconds();
        let next_at = now + LOG_INTERVAL.as_secs() * 1_000;
        let next = |at| (at <= now).then_some(next_at);
        self.next_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

impl Introspector {
    /// Reads the options; `None` without an endpoint.
    ///
    /// # Errors
    ///
    /// Which option or file cannot be used, and why. The text has no part of the secret.
    pub(super) fn load(options: &AuthOptions) -> Result<Option<Self>, String> {
        let Some(url) = &options.introspection else {
            return match options.introspection_client.first() {
                None => Ok(None),
                Some(_) => Err("auth.introspection_client needs auth.introspection".to_owned()),
            };
        };
        let url = fetch::parse_url(url).map_err(|error| format!("auth.introspection: {error}"))?;
        let authorization = match &options.introspection_client[..] {
            [] => None,
            [path] => {
                let text = secret_file::read_text(path);
                let authorization = text.and_then(|text| basic_authorization(&text));
                let name = path.display();
                Some(
                    authorization
                        .map_err(|what| format!("auth.introspection_client: {name}: {what}"))?,
                )
            }
            _ => return Err("auth.introspection_client lists more than one file".to_owned()),
        };
        Ok(Some(Self { url, authorization }))
    }

    /// Asks about a token.
    pub(super) fn introspect(
        &self,
        fetcher: &Fetcher,
        Question { token, digest, .. }: &Question,
        failures: &FailureLog,
    ) -> IntrospectedToken {
        let body = Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("token_type_hint", "access_token")
            .finish();
        let form = Form { authorization: self.authorization.as_deref(), body: &body };
        let fetched = fetcher.fetch(&self.url, Some(&form));
        let answer = fetched.and_then(|it| TokenStatus::parse(&it.body)).map_err(|error| {
            if failures.admits() {
                let location = self.url.as_str();
                Event::Auth(AuthEvent::IntrospectionFailed { location, error: &error }).emit();
            }
            NotIntrospected::NoAnswer
        });
        IntrospectedToken { digest: *digest, answer }
    }
}

impl fmt::Debug for Introspector {
    /// Does not print the credential.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Introspector").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Returns the value of `Authorization` for `client_id:client_secret` (`client_secret_basic`, RFC
/// 6749, section 2.3.1).
fn basic_authorization(text: &str) -> Result<Box<str>, String> {
    let (id, secret) = text.trim().split_once(':').ok_or("write CLIENT_ID:CLIENT_SECRET")?;
    let encode =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = format!("{}:{}", encode(id), encode(secret));
    Ok(format!("Basic {}", BASE64_STANDARD.encode(pair)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::auth::{InvalidToken, TokenFault};
    use crate::server::auth::question_queue::NextQuestion;

    const INACTIVE: InvalidToken = InvalidToken::new(TokenFault::Unknown, "inactive");

    fn tokens(questions_max: usize) -> (PendingTokens, Arc<QuestionQueue>) {
        let queue = Arc::new(QuestionQueue::new(questions_max, 1, WAIT_MAX));
        (PendingTokens::new(Arc::clone(&queue)), queue)
    }

    fn ask(tokens: &mut PendingTokens, number: u8, time: AuthTime) -> AuthError {
        let token = number.to_string().into();
        let digest = [number; 32];
        tokens.ask(Question { token, digest, client: None, is_known: false }, time)
    }

    fn at(seconds: u64) -> AuthTime {
        let turn = Instant::from_milliseconds(1_000 * seconds);
        AuthTime { turn, unix_seconds: seconds }
    }

    fn key(slot: u32) -> Key {
        let mut slab = corelane_base::slab::Slab::new(8);
        let keys: Vec<Key> = (0..=slot).map(|_| slab.insert(()).unwrap()).collect();
        keys[slot as usize]
    }

    #[test]
    fn token_is_asked_about_once() {
        let (mut tokens, queue) = tokens(2);
        assert_eq!(ask(&mut tokens, 1, at(1)), AuthError::Pending);
        assert_eq!(ask(&mut tokens, 1, at(1)), AuthError::Pending);
        assert!(tokens.wait(&[1; 32], key(0)) && tokens.wait(&[1; 32], key(0)));
        assert!(tokens.wait(&[1; 32], key(1)) && !tokens.wait(&[2; 32], key(1)));
        let Some(NextQuestion::Ask(question)) = queue.next() else { panic!("no question") };
        assert_eq!(&*question.token, "1");
        queue.end(&question);
        assert_eq!(tokens.end(&[1; 32]), [key(0), key(1)]);
        let inactive = AuthError::InvalidToken(INACTIVE);
        tokens.refuse([1; 32], inactive.clone(), 1);
        assert_eq!(ask(&mut tokens, 1, at(10)), inactive);
        assert_eq!(ask(&mut tokens, 1, at(11)), AuthError::Pending);
    }

    #[test]
    fn questions_beyond_the_limit_are_refused() {
        let (mut tokens, _queue) = tokens(2);
        assert_eq!(ask(&mut tokens, 1, at(1)), AuthError::Pending);
        assert_eq!(ask(&mut tokens, 2, at(1)), AuthError::Pending);
        assert_eq!(ask(&mut tokens, 3, at(1)), TOO_MANY_QUESTIONS);
        assert_eq!(ask(&mut tokens, 2, at(1)), AuthError::Pending);
    }

    #[test]
    fn failure_concerns_its_token_only() {
        let (mut tokens, _queue) = tokens(2);
        ask(&mut tokens, 1, at(1));
        tokens.end(&[1; 32]);
        tokens.refuse([1; 32], NO_ANSWER, 1);
        assert_eq!(ask(&mut tokens, 1, at(1)), NO_ANSWER);
        assert_eq!(ask(&mut tokens, 2, at(1)), AuthError::Pending);
    }

    #[test]
    fn question_without_answer_ends() {
        let (mut tokens, queue) = tokens(2);
        ask(&mut tokens, 1, at(1));
        assert!(tokens.wait(&[1; 32], key(0)));
        assert_eq!(tokens.next_deadline(), Some(at(6).turn));
        assert!(tokens.expire(at(5)).is_empty());
        assert_eq!(tokens.expire(at(6)), [key(0)]);
        let Some(NextQuestion::Ask(question)) = queue.next() else { panic!("no question") };
        queue.end(&question);
        assert_eq!(ask(&mut tokens, 1, at(6)), NO_ANSWER);
        assert_eq!(ask(&mut tokens, 1, at(7)), AuthError::Pending);
        assert_eq!((tokens.next_deadline(), tokens.end(&[1; 32]).len()), (Some(at(12).turn), 0));
    }

    #[test]
    fn failures_are_logged_once_in_interval() {
        let log = FailureLog::new();
        assert_eq!([(); 3].map(|()| log.admits()), [true, false, false]);
    }

    #[test]
    fn refused_tokens_are_bounded() {
        let (mut tokens, _queue) = tokens(1);
        for number in 0..3 * REFUSED_MAX {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            tokens.refuse(digest, AuthError::InvalidToken(INACTIVE), 1);
            assert!(tokens.refused.len() <= REFUSED_MAX);
        }
    }

    #[test]
    fn client_credential_is_encoded_before_base64() {
        // `my id:a%3Ab` in a form.
        let value = basic_authorization("my id:a:b\n").unwrap();
        let encoded = value.strip_prefix("Basic ").unwrap();
        assert_eq!(BASE64_STANDARD.decode(encoded).unwrap(), b"my+id:a%3Ab");
        assert!(basic_authorization("secret").is_err());
    }

    #[test]
    fn debug_output_hides_the_credential() {
        let introspector = Introspector {
            url: Url::parse("https://as.test/introspect").unwrap(),
            authorization: Some(basic_authorization("id:secret").unwrap()),
        };
        assert!(!format!("{introspector:?}").contains("Basic"));
    }
}
