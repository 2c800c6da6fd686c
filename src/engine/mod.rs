//! The only room that talks to the kernel: bytes, descriptors, deadlines and letters.
//!
//! It knows nothing of MCP. A [`shard`] is one thread's loop over one [`ring`]; what the bytes
//! mean is the business of the [`shard::Driver`] that it carries.

// In the order in which they may use each other.

pub mod buffer;
pub mod capacity;
pub mod clock;
pub mod origin;

pub mod ring;

pub mod shard;
pub mod timer;

pub mod mesh;

pub mod blocking;
pub mod placement;

pub mod host;
