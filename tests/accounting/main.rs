//! What a server says it has counted is what happened to it.

#[cfg(test)]
mod endings;
#[cfg(test)]
mod handlers;
#[expect(dead_code, reason = "these tests run over one ring")]
#[path = "../support/loopback.rs"]
mod loopback;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod traffic;
