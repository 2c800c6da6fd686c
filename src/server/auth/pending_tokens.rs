//! Tokens that the authorization server is asked about (RFC 7662): the requests that wait for the
//! answer, and the tokens that it has refused.
//!
//! Invariants: a shard asks about a token once at a time; no request waits longer than
//! [`WAIT_MAX`]; the numbers of tokens are bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use corelane_base::slab::Key;
use corelane_base::time::Instant;

use super::AuthTime;
use crate::guard::auth::AuthError;
use crate::guard::auth::token_table::TokenDigest;

/// The longest time for which a request waits.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Time in seconds for which a refused token is known.
const REFUSED_SECONDS: u64 = 10;
/// Time in seconds for which nothing is asked about a token that was not answered.
const UNANSWERED_SECONDS: u64 = 1;
/// Refused tokens that are known, at most.
const REFUSED_MAX: usize = 1_024;

/// Asks about tokens, on a thread that may wait; one for each shard.
#[derive(Clone, Debug)]
pub(super) struct Questions {
    /// The tokens to ask about.
    pub(super) tokens: SyncSender<Box<str>>,
    /// Wakes the thread; a full channel has woken it already.
    pub(super) wake: SyncSender<()>,
}

/// The tokens of one shard that are asked about.
#[derive(Debug)]
pub(super) struct PendingTokens {
    questions: Questions,
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
    pub(super) fn new(questions: Questions) -> Self {
        Self {
            questions,
            pending: HashMap::new(),
            deadlines: VecDeque::new(),
            refused: HashMap::new(),
            count: 0,
        }
    }

    /// Asks about a token, unless that is known or under way. Returns why it is not accepted now.
    pub(super) fn ask(&mut self, token: &str, digest: TokenDigest, time: AuthTime) -> AuthError {
        match self.refused.get(&digest) {
            Some((until, error)) if time.unix_seconds < *until => return error.clone(),
            _ => {}
        }
        if self.pending.contains_key(&digest) {
            return AuthError::Pending;
        }
        if self.questions.tokens.try_send(token.into()).is_err() {
            return TOO_MANY_QUESTIONS;
        }
        self.questions.wake.try_send(()).ok();
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

const TOO_MANY_QUESTIONS: AuthError =
    AuthError::Unavailable("too many tokens are being introspected; try again");
pub(super) const NO_ANSWER: AuthError =
    AuthError::Unavailable("the authorization server does not respond to introspection");

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;
    use crate::guard::auth::{InvalidToken, TokenFault};

    const INACTIVE: InvalidToken = InvalidToken::new(TokenFault::Unknown, "inactive");

    fn tokens(questions_max: usize) -> (PendingTokens, Receiver<Box<str>>, Receiver<()>) {
        let (tokens, asked) = sync_channel(questions_max);
        let (wake, woken) = sync_channel(1);
        (PendingTokens::new(Questions { tokens, wake }), asked, woken)
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
        let (mut tokens, asked, woken) = tokens(2);
        assert_eq!(tokens.ask("a", [1; 32], at(1)), AuthError::Pending);
        assert_eq!(tokens.ask("a", [1; 32], at(1)), AuthError::Pending);
        assert!(tokens.wait(&[1; 32], key(0)) && tokens.wait(&[1; 32], key(0)));
        assert!(tokens.wait(&[1; 32], key(1)) && !tokens.wait(&[2; 32], key(1)));
        assert_eq!((&*asked.recv().unwrap(), asked.try_recv().is_err()), ("a", true));
        assert!(woken.try_recv().is_ok());
        assert_eq!(tokens.end(&[1; 32]), [key(0), key(1)]);
        let inactive = AuthError::InvalidToken(INACTIVE);
        tokens.refuse([1; 32], inactive.clone(), 1);
        assert_eq!(tokens.ask("a", [1; 32], at(10)), inactive);
        assert_eq!(tokens.ask("a", [1; 32], at(11)), AuthError::Pending);
    }

    #[test]
    fn questions_beyond_the_limit_are_refused() {
        let (mut tokens, _asked, _woken) = tokens(2);
        assert_eq!(tokens.ask("a", [1; 32], at(1)), AuthError::Pending);
        assert_eq!(tokens.ask("b", [2; 32], at(1)), AuthError::Pending);
        assert_eq!(tokens.ask("c", [3; 32], at(1)), TOO_MANY_QUESTIONS);
        assert_eq!(tokens.ask("b", [2; 32], at(1)), AuthError::Pending);
    }

    #[test]
    fn question_without_answer_ends() {
        let (mut tokens, _asked, _woken) = tokens(2);
        tokens.ask("a", [1; 32], at(1));
        assert!(tokens.wait(&[1; 32], key(0)));
        assert_eq!(tokens.next_deadline(), Some(at(6).turn));
        assert!(tokens.expire(at(5)).is_empty());
        assert_eq!(tokens.expire(at(6)), [key(0)]);
        assert_eq!(tokens.ask("a", [1; 32], at(6)), NO_ANSWER);
        assert_eq!(tokens.ask("a", [1; 32], at(7)), AuthError::Pending);
        assert_eq!((tokens.next_deadline(), tokens.end(&[1; 32]).len()), (Some(at(12).turn), 0));
    }

    #[test]
    fn refused_tokens_are_bounded() {
        let (mut tokens, _asked, _woken) = tokens(1);
        for number in 0..3 * REFUSED_MAX {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            tokens.refuse(digest, AuthError::InvalidToken(INACTIVE), 1);
            assert!(tokens.refused.len() <= REFUSED_MAX);
        }
    }
}
