//! The connection layer over a scripted ring: the operations that it submits, their order, and the
//! memory that it holds.

#[cfg(test)]
mod backpressure;
#[cfg(test)]
mod closing;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod scripted_ring;
#[cfg(test)]
mod sends;
#[cfg(test)]
mod timeouts;
#[cfg(test)]
mod upgrades;
#[cfg(test)]
mod websocket_backpressure;
#[cfg(test)]
mod websocket_closing;
#[cfg(test)]
mod websocket_messages;
#[cfg(test)]
mod websocket_peer;
#[cfg(test)]
mod websocket_schedules;
#[cfg(test)]
mod websocket_timeouts;
