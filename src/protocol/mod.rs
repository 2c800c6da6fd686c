//! The protocol, sans-IO: text becomes requests, answers become text.
//!
//! One JSON text goes in ([`json`]), one envelope comes out ([`rpc`]), an era says what it may ask
//! for ([`era`]), and the encoders of [`message`] append the answer to a buffer that the caller
//! owns. Nothing here waits, reads a clock, opens a socket or logs; state is a value that the
//! caller keeps beside its connection.
//!
//! | child | what stands there |
//! | --- | --- |
//! | [`json`] | the tape of one text, views of its values, writers |
//! | [`revision`] | the five revisions of the specification and what differs between them |
//! | [`error`] | what can go wrong: blame, scope and every derived code in one table |
//! | [`rpc`] | JSON-RPC 2.0: ids and envelopes |
//! | [`era`] | the legacy handshake, the modern `_meta`, methods and capabilities |
//! | [`params`] | the params that the protocol itself reads |
//! | [`message`] | encoders of everything that is said |
//! | [`inflight`] | the requests of one connection that have no answer yet |
//! | [`fuzz`] | the body of a fuzz target over all of it |

#![forbid(unsafe_code)]

pub mod json;

pub mod revision;

pub mod error;

pub mod rpc;

pub mod era;

pub mod params;

pub mod message;

pub mod inflight;

pub mod fuzz;
