//! The flow against servers without I/O.

mod authorization;
mod discovery;
mod grants;
mod world;
