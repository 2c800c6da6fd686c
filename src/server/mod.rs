//! The driver where the layers meet: connections in, requests down the road, answers out.
//!
//! [`Server`] is what a host program holds: it takes a [`crate::service::Catalog`] and options,
//! starts one shard per core and hands back a [`Running`] server. The command line does nothing
//! else.
//!
//! Inside, read `pipeline` first: it is the road. `driver` feeds it with what the ring completes,
//! `subscriptions` knows who listens, `editor` is the one writer of the catalog, `calls` and `desk`
//! hold what answers later, `questions` what is asked of clients meanwhile, [`files`] brings what
//! stands on disk, and `launch` starts and ends it all.

#![forbid(unsafe_code)]

pub mod options;

mod party;

mod questions;
mod subscriptions;

mod tasks;

mod http;
mod websocket;

mod desk;

mod letter;

mod editor;

mod calls;
mod session;

mod pipeline;

mod driver;

mod shard;

pub mod files;

mod launch;

pub use self::driver::ShardDriver;
pub use self::editor::PendingEdit;
pub use self::http::fuzz;
pub use self::launch::{Handle, Running, Server, StartError};
pub use self::letter::Busy;
pub use self::options::Options;
pub use self::shard::{Inlet, ShardSeed};
pub use self::subscriptions::STREAM_BYTES;
pub use crate::engine::origin::Origin;
