//! Tests of the engine through its public interface.

mod executors;
mod mesh_loom;
mod ring_contract;
mod simulation;
