//! Counters of the server match its traffic, handlers and connections.

#[cfg(test)]
mod close_reasons;
#[cfg(test)]
mod handlers;
#[expect(dead_code, reason = "these tests run over one ring")]
#[path = "../support/loopback.rs"]
mod loopback;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod traffic;
