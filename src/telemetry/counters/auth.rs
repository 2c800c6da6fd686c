//! Counters of authentication and authorization.

use super::CounterValue;

group! {
    /// Counters of authentication and authorization.
    AuthCounters {
        /// Requests without a token.
        missing_token,
        /// Requests with an invalid token.
        invalid_token,
        /// Requests with an invalid proof of the key of their token (DPoP).
        invalid_proof,
        /// Requests whose proof of a key needs a nonce of this server (DPoP).
        missing_nonce,
        /// Requests that send a token in a way that is not allowed.
        invalid_request,
        /// Requests whose token could not be verified at the time.
        unavailable,
        /// Requests of callers who lack a scope or tier.
        denied,
    }
}
