//! The server: connections, request dispatch and responses.
//!
//! A host program holds a [`Server`]: it takes a [`crate::service::Catalog`] and options, starts
//! one shard per core and returns a [`Running`] server.
//!
//! `dispatch` is the request path and the place to begin reading. `shard` feeds it with ring
//! completions, `subscriptions` holds the subscriptions, `catalog_updates` the single writer of
//! the catalog, `calls` and `handlers` the calls that answer later, `client_requests` the requests
//! from server to client, [`files`] the resources and prompts from directories, `start` the
//! start-up and shutdown.

#![forbid(unsafe_code)]

pub mod options;

mod reply_to;

mod outbox;

mod shard_set;

mod client_requests;
mod subscriptions;

mod tasks;

mod http;
mod websocket;

mod handlers;

mod shard_message;

mod catalog_updates;

mod calls;
mod connection_state;

mod deferred;

mod dispatch;

mod acceptor;
mod broadcaster;

mod request_path;

mod shard;

mod shard_builder;

pub mod files;

mod start;

#[cfg(feature = "internals")]
pub use self::catalog_updates::UpdateJob;
#[cfg(feature = "internals")]
pub use self::http::fuzz;
pub use self::options::Options;
#[cfg(feature = "internals")]
pub use self::shard::Shard;
#[cfg(feature = "internals")]
pub use self::shard_builder::{ShardBuilder, ShardInput};
pub use self::shard_message::Busy;
pub use self::start::{Handle, Running, Server, StartError};
#[cfg(feature = "internals")]
pub use self::subscriptions::STREAM_BYTES;
#[cfg(feature = "internals")]
pub use crate::engine::entropy::Entropy;
