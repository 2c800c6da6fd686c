//! Counters of what is refused: input that is no message, requests without a valid token, calls and
//! connections beyond what the server can take; and of JSON-RPC errors by code, in a table of fixed
//! size.

use super::CounterValue;

group! {
    /// Counters of overload protection: refused calls, circuit breakers, memory pressure.
    OverloadCounters {
        /// Requests refused by a rate limit (error 1002).
        refused_rate,
        /// Calls refused because the circuit breaker of their tool is open.
        refused_breaker,
        /// Calls refused at a limit of running calls.
        refused_concurrency,
        /// Calls refused because calls wait for too long before they run.
        refused_queue,
        /// Connections refused because memory is short.
        refused_memory,
        /// Circuit breakers that opened.
        breakers_opened,
        /// Circuit breakers that admitted probes after their wait.
        breakers_half_opened,
        /// Circuit breakers that closed again.
        breakers_closed,
        /// Notification streams ended because memory is short.
        streams_shed,
        /// Changes of the step of memory pressure.
        pressure_steps,
    }
}

group! {
    /// Counters of input rejected before it became a message.
    InputErrorCounters {
        /// Invalid framing.
        framing,
        /// HTTP requests rejected before their message was read.
        http,
        /// Text that is not UTF-8.
        utf8,
        /// Messages over the size limit.
        oversize,
        /// Messages refused at the memory limit of all connections.
        memory,
    }
}

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
        /// Requests whose token was not verified, after too many failures of their address.
        too_many_failures,
        /// Requests of callers who lack a scope or tier.
        denied,
        /// Checks of a token that the shard has verified before.
        checks_hit,
        /// Checks that have verified a token or a client certificate.
        checks_verified,
        /// Checks of a malformed token, or of one without a required claim.
        checks_malformed,
        /// Checks of a token whose algorithm, type or critical header is not accepted.
        checks_unsupported,
        /// Checks of a token of an issuer that is not accepted.
        checks_issuer,
        /// Checks of a token whose signature is not that of a key of its issuer.
        checks_bad_signature,
        /// Checks of an expired token or client certificate.
        checks_expired,
        /// Checks of a token that is not valid yet.
        checks_not_yet_valid,
        /// Checks of a token for another server.
        checks_audience,
        /// Checks of a token whose key the request does not prove.
        checks_binding,
        /// Checks of a token whose proof (DPoP) is not accepted, or needs a nonce.
        checks_proof,
        /// Checks of a token that is no API key and that no authorization server knows.
        checks_unknown,
        /// Checks that could not be made at the time.
        checks_unavailable,
    }
}

/// Counts of errors sent, by code: [`ErrorTable::CODES_MAX`] codes and one count for all others, so
/// that handlers with arbitrary codes cannot grow it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ErrorTable {
    rows: [(i32, u64); Self::CODES_MAX],
    other_codes: u64,
}

impl ErrorTable {
    /// Distinct codes counted. The protocol and the engine use 15; the rest is for handlers.
    pub const CODES_MAX: usize = 24;

    /// Counts one error with `code`.
    pub fn count(&mut self, code: i32) {
        self.count_many(code, 1);
    }

    /// Returns the errors counted with `code`; zero if the code has no row.
    pub fn count_of(&self, code: i32) -> u64 {
        self.iter().find(|(known, _)| *known == code).map_or(0, |(_, count)| count)
    }

    /// Returns the errors whose code found no free row.
    pub const fn other_codes(&self) -> u64 {
        self.other_codes
    }

    /// Returns all errors counted.
    pub fn total(&self) -> u64 {
        self.other_codes + self.iter().map(|(_, count)| count).sum::<u64>()
    }

    /// Iterates over codes and counts, in order of first occurrence.
    pub fn iter(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.rows.iter().copied().take_while(|(_, count)| *count > 0)
    }

    /// Adds the counts of another table.
    pub fn add(&mut self, other: &Self) {
        for (code, count) in other.iter() {
            self.count_many(code, count);
        }
        self.other_codes += other.other_codes;
    }

    fn count_many(&mut self, code: i32, many: u64) {
        match self.rows.iter_mut().find(|(known, count)| *count == 0 || *known == code) {
            Some(row) => *row = (code, row.1 + many),
            None => self.other_codes += many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_error_codes_are_counted_together() {
        let mut errors = ErrorTable::default();
        for code in 0..1000 {
            errors.count(code);
            errors.count(0);
        }
        assert_eq!(errors.count_of(0), 1001);
        assert_eq!(errors.iter().count(), ErrorTable::CODES_MAX);
        assert_eq!(errors.total(), 2000);
        assert_eq!(errors.other_codes(), 1000 - ErrorTable::CODES_MAX as u64);
        let mut sum = errors;
        sum.add(&errors);
        assert_eq!(sum.total(), 4000);
    }
}
