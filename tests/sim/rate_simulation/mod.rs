//! Simulation of a rate limit that the shards of a server share.

pub(crate) mod plan;

pub(crate) mod simulation;
