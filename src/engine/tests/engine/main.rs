//! Tests of the engine through its public interface.

mod executors;
mod mesh_loom;
#[cfg(test)]
mod ring_contract;
#[cfg(test)]
mod simulation;
