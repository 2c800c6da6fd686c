//! The checks, in families.

mod auth;
mod cancel;
mod capabilities;
mod event_ids;
mod failures;
mod handshake;
mod http;
mod limits;
mod requests;
mod resume;
mod session_header;
mod sse;
mod states;
mod streams;

mod keepalive;

mod idle;

use std::io::{self, Write};

use super::suite::Check;

pub use self::session_header::{SESSION_HEADER_CHECK, find_dropped_header};

/// Returns every check, in the order of the report.
pub fn all() -> impl Iterator<Item = &'static Check> {
    let families = [
        session_header::CHECKS,
        handshake::CHECKS,
        capabilities::CHECKS,
        states::CHECKS,
        requests::CHECKS,
        streams::CHECKS,
        cancel::CHECKS,
        resume::CHECKS,
        limits::CHECKS,
        keepalive::CHECKS,
        idle::CHECKS,
        failures::CHECKS,
        http::CHECKS,
        sse::CHECKS,
        event_ids::CHECKS,
        auth::CHECKS,
    ];
    families.into_iter().flatten()
}

/// Writes a line for each check: name, level and rule.
pub fn write_list(out: &mut impl Write) -> io::Result<()> {
    for check in all() {
        writeln!(out, "{:<32}  {:<10}  {}", check.name, check.level.as_str(), check.rule)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rules::check_message;

    #[test]
    fn names_are_unique_and_have_families() {
        let names: BTreeSet<&str> = all().map(|check| check.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(names.len() >= 60, "{}", names.len());
        assert!(names.iter().all(|name| name.split('.').count() == 2));
        assert!(all().all(|check| !check.rule.is_empty()));
    }

    #[test]
    fn broken_rules_name_checks_that_exist() {
        let message = serde_json::json!({
            "type": "handshakeAck", "capabilities": {"tools": 1},
            "error": {"code": "error.rate_limited", "retryable": false},
        });
        for violation in check_message(&message) {
            assert!(all().any(|check| check.name == violation.check), "{violation:?}");
        }
    }
}
