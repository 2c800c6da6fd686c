//! What must hold over HTTP, whoever asks.
//!
//! `reading` is how answers and events are read, `book` what one session may hear, `chronicle` what
//! all know together; `canaries` shows each what it must not let pass.

pub(crate) mod reading;

pub(crate) mod book;

pub(crate) mod chronicle;

mod canaries;
