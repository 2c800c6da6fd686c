//! Hostile peers: what they hold and do costs other peers nothing.
//!
//! Each test starts a server with small limits, lets scripted clients misuse it, and checks that
//! every request of honest clients is answered meanwhile, on every transport and on new
//! connections.

mod blocking_pool;
// They connect from several addresses of 127.0.0.0/8.
#[cfg(target_os = "linux")]
mod connections;
mod discarded_input;
mod half_close;
#[cfg(target_os = "linux")]
mod half_messages;
mod honest_clients;
mod memory;
mod open_requests;
#[cfg(target_os = "linux")]
mod parity_sessions;
#[cfg(target_os = "linux")]
mod places;
mod results_in_flight;
#[cfg(target_os = "linux")]
mod sessions;
#[cfg(target_os = "linux")]
mod tasks;
mod withdrawn_keys;
