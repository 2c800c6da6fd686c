//! The load itself: workers that send what is due and hear what comes back.
//!
//! A worker is a thread with a ring of its own, or with several where one cannot hold all that it
//! has, and a share of the connections and of the schedule.
//! Nothing is shared between workers while they run; each hands a [`Period`] to the collector about
//! once a second.
//!
//! ```text
//!  schedule ─▶ due ─▶ lanes with room ─▶ ring ─▶ server
//!                                                  │
//!  collector ◀─ period ◀─ tally ◀─ books ◀─ ring ◀─┘
//! ```
//!
//! What it keeps true: a request waits for a lane with its intended moment, however long; what the
//! generator itself was late with is measured apart ([`Period::lag`]); every request that was due
//! is sent, or counted as unsent; a connection that was due to be replaced counts from that moment;
//! the memory of a run does not grow with its length but for a hundred bytes a second.

pub mod job;
mod reading;

mod lane;
pub mod period;

mod pacing;

mod worker;

mod churning;
mod connecting;
mod listening;
mod sealing;
mod sending;
mod slowing;
mod spawning;

mod rings;
mod sight;

pub mod seconds;

mod staffing;

pub mod crew;

pub use self::crew::{Finding, Fruitless, run};
pub use self::job::{Connecting, Drive, Job, Limits, Listen};
pub use self::period::Period;
pub use self::seconds::Second;
