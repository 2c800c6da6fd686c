//! Subscriptions and catalog changes at run time, over real sockets.
//!
//! Each test starts a server on a free loopback port; clients use blocking sockets. Tests do not
//! sleep: where a test must wait for the server, it sends another request on the same connection
//! and waits for the response. Every notification and every result of a subscription is checked
//! against the schema of its revision.

mod test_catalog;

mod catalog_changes;
mod legacy_sessions;
mod limits;
mod slow_subscribers;
mod streams;
