//! The HTTP server over real sockets.
//!
//! A peer's input must never cause a panic. Malformed, missing or late input gets the status code
//! that the specification demands, with a JSON-RPC error where the response has a body; the
//! connection stays open where HTTP allows it; other clients are not affected; and no state is left
//! when the server has stopped.
//!
//! Each test starts a server on a free loopback port. Its clients use blocking sockets and check
//! every byte against RFC 9112, the WHATWG specification of event streams and the JSON schema of
//! the revision; afterwards the server drains and its counters are checked. Tests do not sleep:
//! read timeouts bound them, and they poll `/status` where they must wait for the server. Tests
//! that depend on I/O run over both rings, tests of sessions on one shard and on two.

mod abuse;
mod batches;
mod checks;
mod connection_list;
mod cross_shard_requests;
mod drains;
mod event_streams;
mod http_session;
mod keep_alive;
mod legacy_sse;
mod modern;
mod operators;
mod origin_checks;
mod paths;
mod pinned_profile;
mod request_context;
mod request_ids;
mod resumption;
mod second_stream;
mod server_messages;
mod session_lifetime;
mod session_query;
mod sessions;
mod shared_ids;
mod status;
mod strict_profile;
mod subscriptions;
mod undelivered_responses;
