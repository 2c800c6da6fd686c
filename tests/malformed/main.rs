//! Bad input and bad days, over real sockets: one file a behaviour, named as sentences.
//!
//! Policy: **a panic is our bug, never bad input.** Whatever a peer sends, or does not send, it
//! gets an error in the protocol's own terms or a closed connection; everybody else is served as
//! if nothing had happened; and when it is over, nothing of it is left behind.
//!
//! How each test is made: a whole server on a free port of the loopback, clients over plain
//! blocking sockets, and at the end a drain whose counters are looked at. Nothing sleeps. Read
//! timeouts are the bound after which a test fails, not a way to wait; where a test must know that
//! the server has read something, it asks another question on the same shard and waits for the
//! answer. What depends on how bytes and connections move runs over both rings.

mod askers;
mod batches;
mod cancellation;
#[path = "../support/client.rs"]
mod client;
mod deadlines;
mod door;
mod drains;
mod duplicates;
mod envelope;
mod eras;
mod framing;
mod half_open;
mod handshake;
mod ids;
mod judged;
mod listening;
mod logs;
#[path = "../support/loopback.rs"]
mod loopback;
mod memory;
mod mutations;
mod not_json;
mod oversize;
mod progress;
mod questions;
mod resets;
mod rounds;
mod silence;
mod slow_readers;
mod stage;
mod storm;
mod tasks;
