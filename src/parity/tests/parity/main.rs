//! Tests of the crate through its public interface.

mod agreement;
mod damage;
#[path = "../../../../fuzz/bodies/parity.rs"]
mod fuzz;
mod schemas;
mod sessions;
