//! HTTP requests: from the input of a connection to what responds.
//!
//! A request is checked by its head, then by its message. Its kind decides who responds: the
//! dispatcher at once (`post`), a legacy session, possibly on another shard (`session`,
//! `legacy_sse`), the page and other resources (`plain`), or the WebSocket transport
//! (`websocket_upgrade`).

mod incoming;

mod responses;

mod authentication;
mod plain;
mod websocket_upgrade;

mod session;

mod legacy_sse;
mod parity;
mod post;

mod requests;
