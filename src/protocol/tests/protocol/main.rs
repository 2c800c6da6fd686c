//! Tests of the crate through its public interface, one file per subject.

mod capabilities;
mod content;
mod dialects;
mod eras;
mod forms;
#[path = "../../../../fuzz/bodies/messages.rs"]
mod fuzz;
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

use corelane_test_support::alloc_counter::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
