//! Tasks of both protocol generations over real sockets.
//!
//! Each test starts a server on a free loopback port. Its clients check every message against the
//! schema of its revision, and its tools wait for the test, never for a time. Read timeouts bound
//! the tests.

mod core_tasks;
mod cross_shard;
mod extension_tasks;
mod input_before_task;
mod task_client;
mod task_elicitation;
mod task_generations;
mod task_lifetime;
mod task_tools;
