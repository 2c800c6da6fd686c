//! What warm calls allocate, in the server and in the client, and what peers make a server hold.
//!
//! Allocations are counted for each thread, so that tests in parallel do not count those of others.

mod account;
mod client;
mod large_messages;
mod server;
mod tls;

use corelane_test_support::alloc_counter::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
