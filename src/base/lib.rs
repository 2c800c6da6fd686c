//! Building blocks without I/O: slab, linked lists, buffer pool, time values, addresses of clients,
//! shares of callers, sizes of values and a seeded random generator.
//!
//! Independent of MCP, sockets and clocks; every other crate of Corelane may use it. The interface
//! is unstable; programs use the crate `corelane`.

#![forbid(unsafe_code)]

pub mod client_address;
pub mod heap_bytes;
pub mod id_map;
pub mod pool;
pub mod principal;
pub mod random;
pub mod slab;
pub mod time;
pub mod transport;
pub mod trusted_proxies;
pub mod variables;

pub mod eviction;
pub mod linked_list;

pub mod holders;
