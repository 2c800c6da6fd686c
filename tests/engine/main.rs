//! What the engine promises, seen from outside of it.

#[cfg(test)]
mod ring_contract;
#[cfg(test)]
mod simulation;
