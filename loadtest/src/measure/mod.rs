//! What a run has seen: latencies, outcomes, seconds, the server's process.

pub mod fanout;
pub mod host;
pub mod latency;
pub mod limits;
pub mod openings;
pub mod outcome;
pub mod process;
pub mod second;

pub mod census;
pub mod group;
