//! Servers, requests and responses that the benches of Corelane and its load generator share.
//!
//! What a measured loop calls is inlined into the bench: it is generic or has `#[inline]`.

pub mod arguments;
pub mod requests;
pub mod rounds;
pub mod text_template;

pub mod responses;

pub mod frames;
pub mod ring_server;

#[cfg(target_os = "linux")]
pub mod process;

#[cfg(target_os = "linux")]
pub mod catalog_server;

#[cfg(target_os = "linux")]
pub mod client_group;
