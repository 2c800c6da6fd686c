//! Corelane is a thread-per-core engine that serves the Model Context Protocol (MCP).
//!
//! One pinned **shard** per core owns its sockets through `io_uring`, its buffers, timers,
//! connections and counters; shards share nothing and exchange bounded letters. This page is the
//! map of the house: read the rooms in the order in which they may know each other.
//!
//! | room | what stands there | may use |
//! | --- | --- | --- |
//! | [`base`] | time, slab, buffer pool, seeded chance | – |
//! | [`observe`] | plain counters and events of a shard | base |
//! | [`protocol`] | sans-IO MCP: JSON, JSON-RPC, revisions, eras, requests in flight | base |
//! | [`transport`] | sans-IO bindings, bytes to frames and back | base, protocol |
//! | [`guard`] | pure decisions: limits | base, protocol |
//! | [`service`] | what a server offers: catalog, tools, handlers, demo | base, protocol |
//! | [`engine`] | the only syscalls: ring, buffers, timers, mesh, placement, hosts | base, observe |
//! | [`link`] | one live connection: socket, framing, queues; listeners, drain | the rooms above but guard and service |
//! | [`server`] | the driver where the layers meet | all above |
//! | [`config`] | file, environment and flags become options | all |
//!
//! # The road
//!
//! Bytes travel one way and every stop has one noun:
//!
//! ```text
//! engine ─▶ link ─▶ transport ─▶ protocol ─▶ guard ─▶ service ─▶ protocol ─▶ transport ─▶ link ─▶ engine
//!         Arrival    Frame       Request    Verdict    Reply      Message      Frame    Departure
//! ```
//!
//! `server::pipeline` is that road read from top to bottom.

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
