//! Tests of the engine through its public interface.

#[cfg(test)]
mod ring_contract;
#[cfg(test)]
mod simulation;
