//! Tests of the protocol module through its public interface, one file per subject.

#[path = "../alloc/alloc_counter.rs"]
mod alloc_counter;
#[path = "../support/mcp_schema.rs"]
mod mcp_schema;

mod capabilities;
mod content;
mod dialects;
mod eras;
mod forms;
mod grammar;
mod ids;
mod jsonrpc_messages;
mod memory;
mod messages;
mod mutations;
mod nesting_and_size;
mod notifications;
mod numbers;
mod params;
mod parsing;
mod schema_checks;
mod server_requests;
mod strings;
mod tasks;
