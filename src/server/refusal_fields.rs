//! Header fields of the response to a request that is refused.

use std::time::Duration;

use corelane_transport::http::fields::{Challenge, RateLimit, ResponseFields};

use crate::guard::rate::limiter::Exceeded;

/// What a refused client is sent beside status and error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum RefusalFields {
    /// `WWW-Authenticate`: the request lacks a scope.
    Challenge(Box<str>),
    /// `Retry-After`, `RateLimit` and `RateLimit-Policy`: a rate limit is exceeded.
    RateLimit(Box<Exceeded>),
    /// `Retry-After`, in seconds.
    RetryAfter(u32),
}

impl RefusalFields {
    /// Adds the fields to those of a response.
    #[cold]
    pub(super) fn add_to<'f>(&'f self, fields: ResponseFields<'f>) -> ResponseFields<'f> {
        match self {
            Self::RetryAfter(seconds) => {
                ResponseFields { retry_after_seconds: Some(*seconds), ..fields }
            }
            Self::Challenge(challenge) => {
                ResponseFields { www_authenticate: Some(Challenge::new(challenge)), ..fields }
            }
            Self::RateLimit(exceeded) => {
                let Exceeded { policy, limit, seconds, retry_after, .. } = &**exceeded;
                let reset_seconds = whole_seconds(*retry_after);
                let (limit, seconds) = (*limit, *seconds);
                let rate_limit = RateLimit { policy, limit, seconds, reset_seconds };
                ResponseFields {
                    retry_after_seconds: Some(reset_seconds),
                    rate_limit: Some(rate_limit),
                    ..fields
                }
            }
        }
    }
}

/// Returns seconds for `Retry-After`, rounded up so that the client does not come too early (RFC
/// 9110, section 10.2.3).
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up() {
        let seconds =
            [0, 1, 1_000, 1_001, 59_999].map(|ms| whole_seconds(Duration::from_millis(ms)));
        assert_eq!(seconds, [1, 1, 1, 2, 60]);
    }
}
