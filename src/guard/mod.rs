//! Pure decisions: admit or refuse, with the reason.
//!
//! The guard stands at the doors of the road and knows numbers, not sockets. The cheapest refusal
//! comes first. [`seal`] closes what a client carries for us, so that what comes back can be
//! believed.

#![forbid(unsafe_code)]

pub mod door;
pub mod memory;
pub mod seal;

pub mod draws;

pub mod origin;
