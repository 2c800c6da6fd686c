//! The errors of connections that are refused or lose their place.

use corelane_protocol::error::{Error, ErrorKind};

use crate::telemetry::label::RefusalReason;

/// Returns the error that a connection gets that is refused for `reason`.
pub fn refusal_error(reason: RefusalReason) -> Error {
    match reason {
        RefusalReason::AddressShare => Error::address_connection_limit(),
        RefusalReason::Rate => rate_error(),
        RefusalReason::ConnectionLimit => Error::connection_limit(),
        RefusalReason::Descriptors => Error::no_descriptors(),
        RefusalReason::Draining => Error::draining(),
        RefusalReason::Memory => Error::new(
            ErrorKind::ConnectionLimit,
            "the server is short of memory and serves no new connections; retry later",
        ),
    }
}

/// Returns the error that an idle connection gets whose place another one has got.
pub fn eviction_error() -> Error {
    Error::new(
        ErrorKind::ConnectionLimit,
        "the connection was idle when the limit of connections was reached, and gave its place to \
         another one; connect again",
    )
}

/// Returns the error for an address that has opened too many connections lately.
fn rate_error() -> Error {
    let message = "too many new connections from this address (limit rate.connections); keep \
                   connections open or retry later";
    Error::new(ErrorKind::RateLimited, message)
        .with_data(r#"{"retryable":true,"retryAfterMs":1000}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_own_error() {
        let texts = [
            (RefusalReason::ConnectionLimit, 1001, "connection limit of the server reached"),
            (RefusalReason::AddressShare, 1001, "too many connections from this address"),
            (RefusalReason::Descriptors, 1001, "the server has no descriptor left"),
            (RefusalReason::Rate, 1002, "too many new connections from this address"),
            (RefusalReason::Draining, 1001, "the server is shutting down"),
            (RefusalReason::Memory, 1001, "the server is short of memory"),
        ];
        for (reason, code, text) in texts {
            let error = refusal_error(reason);
            assert!(error.message.starts_with(text), "{error:?}");
            assert_eq!(error.code, code);
        }
    }
}
