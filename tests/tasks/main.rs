//! Tasks of both protocol generations over real sockets.
//!
//! Each test starts a server on a free loopback port. Its clients check every message against the
//! schema of its revision, and its tools wait for the test, never for a time. Read timeouts bound
//! the tests.

#[expect(dead_code, reason = "only the tests of malformed input use all of it")]
#[path = "../support/client.rs"]
mod client;
#[path = "../support/loopback.rs"]
mod loopback;
#[path = "../support/mcp_schema.rs"]
mod mcp_schema;

mod core_tasks;
mod cross_shard;
mod extension_tasks;
mod input_before_task;
mod task_client;
mod task_elicitation;
mod task_generations;
mod task_lifetime;
mod test_server;
