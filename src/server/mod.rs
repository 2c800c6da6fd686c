//! The server: connections, request dispatch and responses.
//!
//! A host program holds a [`Server`]: it takes a [`crate::service::Catalog`] and options, starts
//! one shard per core and returns a [`Running`] server.
//!
//! `dispatch` is the request path and the place to begin reading. `input` feeds it with what
//! connections receive, `peers` and `http` deliver its output, `calls`, `tasks` and `handlers`
//! hold what answers later, `client_requests` the requests from server to client, `subscriptions`
//! the subscribed streams, `rate` how many requests a caller may send, `catalog_updates` the single
//! writer of the catalog. `shard` composes these components, and `turn` runs their turn; effects
//! pass between them through `outbox`, and `effects` applies them. `start` starts shards and ends
//! them.
//!
//! What a host program runs beside the server is registered with [`Server::on_start`].

#![forbid(unsafe_code)]

pub mod options;

pub mod card;
mod fetch;
mod secret_file;

mod traces;
mod upstreams;

#[cfg(all(feature = "cli", feature = "gateway"))]
mod operator_client;

mod audit;

mod failure_limit;

mod digest_holders;
mod used_digests;

mod auth;
mod extension_slot;
mod owner_id;
mod reply_to;

mod diagnostics;

mod memory;

mod overload;

mod subscriptions;
mod websocket;

mod shared_states;

mod shard_message;

mod waiting_requests;

mod outbox;

mod blocking_jobs;

mod client_requests;
mod connection_state;

mod parse_threads;

mod rate;

mod acceptance;
mod handlers;

mod calls;
mod catalog_updates;

mod tasks;

mod dispatch;

mod parity;
mod session_store;

mod http;

mod shard;

mod sessions;

mod peers;

mod input;

mod effects;

mod turn;

mod start;

#[cfg(feature = "cli")]
pub use self::audit::check_audit_file;
#[cfg(feature = "cli")]
pub use self::auth::check_auth;
pub use self::catalog_updates::UpdateJob;
#[cfg(feature = "tower")]
pub use self::extension_slot::ExtensionSlot;
#[cfg(feature = "tower")]
pub use self::http::request_id;
#[cfg(all(feature = "cli", feature = "gateway"))]
pub use self::operator_client::OperatorClient;
pub use self::options::Options;
#[cfg(feature = "cli")]
pub use self::secret_file::find_readable_secrets;
#[cfg(feature = "declared")]
pub use self::secret_file::read as read_secret;
pub use self::shard::Shard;
pub use self::shard_message::Busy;
#[cfg(all(test, feature = "cli"))]
pub use self::start::describe_limits;
pub use self::start::{Handle, InProcessConnection, Running, Server, StartError};
pub use self::start::{ShardBuilder, ShardInput};
#[cfg(feature = "cli")]
pub use self::start::{StartFault, check_tls, find_start_faults, find_unprotected, probe_ring};
#[cfg(feature = "gateway")]
pub use self::subscriptions::ResourceWatch;
pub use self::subscriptions::STREAM_BYTES;
#[cfg(feature = "cli")]
pub use self::traces::check_traces;
#[cfg(feature = "gateway")]
pub use self::upstreams::{UpstreamChange, UpstreamDirectory};
