//! Open-loop schedule: when requests are sent and when connections are replaced.
//!
//! A [`RateProfile`] gives the request rate at each time of a run; [`Arrivals`] turns it into one
//! intended send time for each request. Neither depends on the server: requests stay due while the
//! server stalls, and their latency counts from the intended send time. [`ReconnectSchedule`] does
//! the same for connections that are replaced.
//!
//! Invariants: the number of requests of a constant profile is exactly its rate times its duration;
//! the same seed gives the same times; times never decrease. The module neither sends nor reads a
//! clock.

pub mod arrivals;
pub mod profile;
pub mod reconnects;

pub use self::arrivals::{ArrivalPattern, Arrivals, Share};
pub use self::profile::{RateProfile, Segment};
pub use self::reconnects::{ReconnectReason, ReconnectSchedule, ReconnectStorm};
