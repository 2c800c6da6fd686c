//! Tests with a faulty server, hostile bytes, and clients in large numbers.
//!
//! `fault_proxy` simulates a fault of the server, `server_fault_tests` show that a run detects it;
//! `damaged_requests` sends invalid bytes, `crowd_tests` use thousands of clients.

pub(crate) mod fault_proxy;

mod server_fault_tests;

mod damaged_requests;

mod crowd_tests;
