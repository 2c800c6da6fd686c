//! Why a request is not authenticated.

use std::borrow::Cow;
use std::time::Duration;

/// Why a request is not authenticated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AuthError {
    /// It has no credential.
    Missing,
    /// Its token is not valid.
    InvalidToken(InvalidToken),
    /// Its token is bound to a key, or must be, and comes without the proof of that, for this
    /// reason.
    UnprovedToken(&'static str),
    /// The proof of the key of its token is not valid, for this reason.
    InvalidProof(&'static str),
    /// The proof of the key of its token needs a nonce of this server, for this reason.
    NonceNeeded(&'static str),
    /// It sends its token in more than one way, or in one that is not allowed.
    InvalidRequest(&'static str),
    /// Its token cannot be verified at the moment, for this reason.
    Unavailable(&'static str),
    /// Its token is being verified: the request may wait.
    Pending,
    /// Its address has sent too many invalid tokens; the time after which it may send another one.
    TooManyFailures(Duration),
}

impl AuthError {
    /// Returns why the token cannot be verified at the moment.
    pub const fn unavailable_reason(&self) -> &'static str {
        match self {
            Self::Unavailable(reason) => reason,
            _ => PENDING,
        }
    }

    /// Returns whether it counts against the limit of failures of its address.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::InvalidToken(_) | Self::UnprovedToken(_) | Self::InvalidProof(_))
    }

    /// Returns the time after which the client may try again, if too many failures are why.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooManyFailures(retry_after) => Some(*retry_after),
            _ => None,
        }
    }

    /// Returns whether its token has expired.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::InvalidToken(token) if token.fault == TokenFault::Expired)
    }

    /// Returns a short name, for metrics and logs.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Missing => "missing_token",
            Self::InvalidToken(_) | Self::UnprovedToken(_) => "invalid_token",
            Self::InvalidProof(_) => "invalid_proof",
            Self::NonceNeeded(_) => "missing_nonce",
            Self::InvalidRequest(_) => "invalid_request",
            Self::Unavailable(_) | Self::Pending => "unavailable",
            Self::TooManyFailures(_) => "too_many_failures",
        }
    }

    /// Returns the check of the token that has failed, for logs; empty if none was made.
    pub const fn check(&self) -> &'static str {
        match self {
            Self::InvalidToken(token) => token.fault.label(),
            Self::UnprovedToken(_) => TokenFault::Binding.label(),
            _ => "",
        }
    }

    /// Returns what is wrong, in a sentence without any part of the token.
    pub fn detail(&self) -> Cow<'static, str> {
        match self {
            Self::Missing => "the request has no token".into(),
            Self::InvalidToken(token) => token.reason.clone(),
            Self::UnprovedToken(reason)
            | Self::InvalidProof(reason)
            | Self::NonceNeeded(reason)
            | Self::InvalidRequest(reason) => (*reason).into(),
            Self::Unavailable(_) | Self::Pending => self.unavailable_reason().into(),
            Self::TooManyFailures(_) => TOO_MANY_FAILURES.into(),
        }
    }
}

/// Why a token is not verified after too many failures of its address.
pub const TOO_MANY_FAILURES: &str = "too many failures from this address";
const PENDING: &str = "the token is being verified; try again";

/// Why a token is not valid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidToken {
    /// The check that has failed.
    pub fault: TokenFault,
    /// A sentence for the client.
    pub reason: Cow<'static, str>,
}

impl InvalidToken {
    /// A token that has expired.
    pub const EXPIRED: Self = Self::new(TokenFault::Expired, "the token has expired");

    /// A token that was accepted before: it has expired, or its key was withdrawn.
    pub const WITHDRAWN: Self = Self::new(TokenFault::Expired, Self::NO_LONGER_VALID);

    /// The reason of [`InvalidToken::WITHDRAWN`].
    pub const NO_LONGER_VALID: &'static str = "the token is no longer valid";

    /// A token that fails a check for a fixed reason.
    pub const fn new(fault: TokenFault, reason: &'static str) -> Self {
        Self { fault, reason: Cow::Borrowed(reason) }
    }
}

/// The check of a token that has failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TokenFault {
    /// It has not the form of a token, or lacks a claim.
    Malformed,
    /// Its algorithm, type or critical header is not accepted.
    Unsupported,
    /// Its issuer is not accepted.
    Issuer,
    /// Its signature is not that of a key of the issuer.
    Signature,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It is for another server.
    Audience,
    /// It is bound to a key that is not proved.
    Binding,
    /// No API key, authorization server or verifier knows it.
    Unknown,
    /// The issuer has no key with its id.
    Key,
}

impl TokenFault {
    /// Returns a short name, for metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "form",
            Self::Unsupported => "algorithm",
            Self::Issuer => "issuer",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not yet valid",
            Self::Audience => "audience",
            Self::Binding => "binding",
            Self::Unknown => "unknown",
            Self::Key => "kid",
        }
    }
}

/// Why a [`TokenVerifier`](super::TokenVerifier) does not accept a token.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TokenError {
    /// It does not know this kind of token: API keys and JWT are tried.
    Unknown,
    /// The token is not valid. The client gets status 401 with this reason.
    Invalid(Cow<'static, str>),
    /// The token was valid, and has expired. The client gets status 401; one of the parity dialect
    /// is advised to refresh its token.
    Expired,
    /// The token cannot be verified at the moment. The client gets status 503.
    Unavailable,
}
