//! What of a machine bounds or spoils a load: its settings against a profile, its limits against a
//! number of connections.
//!
//! ```text
//!  /proc, /sys ─▶ looking ─▶ Machine ─┐
//!                                     ├─▶ review ─▶ findings: needed, advised, told
//!  tuning/90-corelane.conf ─▶ profile ┘
//! ```
//!
//! What it keeps true: the profile is the file that is installed, embedded, so the two cannot
//! differ; everything but [`look`] is pure and judges a machine that it is shown; what a machine
//! does not tell is not judged.
//!
//! What it does not do: change anything. Each finding says what to do, and `tuning/README.md` how
//! to see whether it helps and how to undo it.

mod knobs;
mod looking;
mod machine;
mod profile;

mod limits;
mod review;

pub use self::looking::look;
pub use self::machine::Machine;
pub use self::profile::{PROFILE, Setting, settings};
pub use self::review::{Finding, Review, Weight, Wish, review};
