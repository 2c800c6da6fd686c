//! Virtual users: what each does, without sockets.
//!
//! ```text
//!  plan ─▶ Scenario: instructions ─▶ User: think ─▶ due ─▶ in flight ─▶ next instruction
//!                                      ▲                                     │
//!                                      └─────────── next iteration ──────────┘
//! ```
//!
//! A user has one connection and at most one request in flight. It executes the instructions of its
//! scenario in order and pauses before each step; values taken from results fill placeholders of
//! later steps.
//!
//! Invariants: a step is due when its pause is over, whether or not the connection is open. A step
//! that fails ends the iteration, because later steps depend on its result. The random choices of a
//! user depend only on the seed and its number.
//!
//! A scenario has places for users. Either its levels say which places are taken when, or users
//! arrive at a rate, and each takes a free place.

mod levels;
mod metrics;
mod pointer;
mod scenario;
mod think_time;
mod user;

pub use self::levels::{Stage, UserLevels};
pub use self::metrics::{EventStreamCounts, TakeCounts, UserMetrics};
pub use self::pointer::ResultPointer;
pub use self::scenario::{
    Cancel, Condition, Instruction, Pause, Scenario, Step, Take, UsersConfig,
};
pub use self::think_time::ThinkTime;
pub use self::user::{NextAction, StepOutcome, User};
