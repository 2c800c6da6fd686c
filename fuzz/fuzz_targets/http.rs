//! Any bytes over HTTP through a whole shard: every request is answered or refused, and nothing is
//! left behind.
//!
//! The first byte says into which pieces the rest is cut.

#![no_main]

use corelane::protocol::message::ServerInfo;
use corelane::server::fuzz;
use corelane::service::demo;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&length, stream)) = bytes.split_first() else { return };
    let catalog = demo::catalog(ServerInfo::new("fuzz", "1")).expect("a catalog");
    fuzz::http(catalog, stream, &[usize::from(length).max(1)]);
});
