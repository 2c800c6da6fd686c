//! Checkers of the server over HTTP.
//!
//! `response_reader` parses responses and events, `session_checker` checks one session,
//! `shared_model` what all clients share; `checker_tests` test the checkers.

pub(crate) mod response_reader;

pub(crate) mod session_checker;

pub(crate) mod shared_model;

mod checker_tests;
