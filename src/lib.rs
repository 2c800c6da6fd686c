//! Corelane is a thread-per-core engine that serves the Model Context Protocol (MCP).
//!
//! One pinned **shard** per core owns everything it touches: its listeners, its sockets through one
//! `io_uring`, its buffers, timers, connections and counters. Shards share nothing and exchange
//! bounded letters. Every revision from 2024-11-05 to 2026-07-28 is spoken, on the same port and
//! even on the same connection.
//!
//! # A server of your own
//!
//! ```no_run
//! use corelane::protocol::message::ServerInfo;
//! use corelane::{Catalog, Server, Tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Greet {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! let greet = Tool::new("greet").describe("Greets someone.").inline(|Greet { name }, answer| {
//!     answer.format(format_args!("Hello, {name}!"));
//!     Ok(())
//! });
//! let catalog = Catalog::builder(ServerInfo::new("greeter", "1.0.0")).tool(greet).build()?;
//! Server::new(catalog).serve()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A handler is one of three kinds: **inline** (a function, run to completion on the shard),
//! **local** (a future on the shard that got the call) or **blocking** (a closure on the thread
//! pool). The last two tell progress and hear of cancellation. `examples/` holds a server in thirty
//! lines and one inside a program that lives on glommio.
//!
//! # The road
//!
//! Bytes travel one way and every stop has one noun, made in one layer. No stop calls back, and
//! none waits: what needs time answers later by ticket.
//!
//! ```text
//! engine ─▶ link ─▶ transport ─▶ protocol ─▶ guard ─▶ service ─▶ protocol ─▶ transport ─▶ link ─▶ engine
//!         Arrival    Frame       Request    Verdict    Reply      Message      Frame    Departure
//! ```
//!
//! The module `pipeline` in `src/server/pipeline.rs` is that road read from top to bottom.
//!
//! # The rooms
//!
//! Read them in the order in which they may know each other; `tests/tidy` holds them to it.
//!
//! | room | what stands there | may use |
//! | --- | --- | --- |
//! | [`base`] | time, slab, buffer pool, seeded chance | – |
//! | [`observe`] | plain counters and events of a shard | base |
//! | [`protocol`] | sans-IO MCP: JSON, JSON-RPC, revisions, eras, requests in flight | base |
//! | [`transport`] | sans-IO bindings, bytes to frames and back | base, protocol |
//! | [`guard`] | pure decisions: limits; seals on what clients carry for us | base, protocol |
//! | [`service`] | what a server offers: catalog, tools, prompts, resources, their handlers, demo | base, protocol |
//! | [`engine`] | the only syscalls: ring, buffers, timers, mesh, placement, hosts | base, observe |
//! | [`link`] | one live connection: socket, framing, queues; listeners, drain | the rooms above but guard and service |
//! | [`server`] | the driver where the layers meet | all above |
//! | [`config`] | file, environment and flags become options | all |
//!
//! The pure rooms (base, protocol, transport, guard, service) know no clock, no socket and no
//! thread. `unsafe` has an address: `engine/ring`, `engine/buffer` and `engine/mesh`.

pub mod base;
pub mod config;
pub mod engine;
pub mod guard;
pub mod link;
pub mod observe;
pub mod protocol;
pub mod server;
pub mod service;
pub mod transport;

pub use crate::server::{Handle, Options, Running, Server};
pub use crate::service::{Catalog, CatalogBuilder, Tool};
