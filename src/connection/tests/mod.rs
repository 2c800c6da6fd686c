//! The connection layer over a scripted ring: the operations that it submits, their order, and the
//! memory that it holds.

mod closing;
mod harness;
mod proxy_protocol;
mod schedules;
mod sends;
mod timeouts;
mod websocket_backpressure;
mod websocket_closing;
mod websocket_messages;
mod websocket_peer;
mod websocket_schedules;
mod websocket_timeouts;
