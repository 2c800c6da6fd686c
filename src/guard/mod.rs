//! Admission decisions as pure functions: allowed or rejected, with the reason.
//!
//! `auth` decides who has sent a request and whether it may, `breaker` whether a tool that fails is
//! called, `rate` how many requests a caller may send, `queue_delay` whether a call may wait,
//! `pressure` what is refused while memory is short, `origin` which hosts and pages may reach the
//! server. Also holds [`state_keys`] and [`state_cipher`], which encrypt what clients carry
//! (`requestState`, tokens), and [`secure_rng`], which makes unpredictable ids.

#![forbid(unsafe_code)]

pub mod state_cipher;

pub mod state_keys;

pub mod secure_rng;

pub mod origin;

pub mod pattern;

pub mod auth;

pub mod breaker;

pub mod pressure;

pub mod queue_delay;

pub mod rate;
