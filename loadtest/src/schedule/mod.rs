//! When requests are to be sent, and connections replaced: the plan of an open loop.
//!
//! A [`Profile`] says how many requests a second are wanted at each moment of a run; [`Arrivals`]
//! turns it into moments, one a request. Neither looks at what the server does: a server that
//! stalls is asked all the same, and every request that had to wait for it counts from the moment
//! at which it was meant to leave. [`Turnover`] does the same for connections that come and go.
//!
//! What it keeps true: the number of requests of a constant profile is its rate times its span, to
//! the request; the same seed gives the same moments; the moments never go back.
//!
//! What it does not do: send, or read a clock.

pub mod arrivals;
pub mod profile;
pub mod turnover;

pub use self::arrivals::{Arrivals, Pace, Share};
pub use self::profile::{Profile, Segment};
pub use self::turnover::{Occasion, Storm, Turnover};
