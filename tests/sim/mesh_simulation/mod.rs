//! Simulation of the mesh: messages between shards.

pub(crate) mod delivery_checker;

pub(crate) mod simulation;
