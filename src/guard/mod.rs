//! Pure decisions: admit or refuse, with the reason.
//!
//! The guard stands at the doors of the road and knows numbers, not sockets. The cheapest refusal
//! comes first.

#![forbid(unsafe_code)]

pub mod door;
pub mod memory;
pub mod seal;

pub mod draws;
