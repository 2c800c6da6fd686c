//! Signed assertions of the client, and proofs of possession. Without the feature `oauth-jwt` there
//! are no keys, and what needs them fails.

#[cfg(feature = "oauth-jwt")]
mod keys;

#[cfg(not(feature = "oauth-jwt"))]
mod disabled;

#[cfg(not(feature = "oauth-jwt"))]
pub use self::disabled::{ClientKey, DpopKey};
#[cfg(feature = "oauth-jwt")]
pub use self::keys::SigningAlgorithm;
#[cfg(feature = "oauth-jwt")]
pub use self::keys::{ClientKey, DpopKey};

/// The variable parts of a signed assertion.
#[cfg_attr(not(feature = "oauth-jwt"), expect(dead_code, reason = "nothing is signed"))]
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    /// Seconds since 1970-01-01 UTC.
    pub unix_seconds: u64,
    /// `jti`: unique to the assertion.
    pub id: &'a str,
}

/// What a proof of possession is for (RFC 9449, section 4.2).
#[cfg_attr(not(feature = "oauth-jwt"), expect(dead_code, reason = "nothing is signed"))]
#[derive(Clone, Copy, Debug)]
pub struct ProofTarget<'a> {
    /// `htm`.
    pub method: &'a str,
    /// `htu`: without query and fragment.
    pub url: &'a str,
    /// The access token that is sent with the proof.
    pub access_token: Option<&'a str>,
    pub nonce: Option<&'a str>,
}
