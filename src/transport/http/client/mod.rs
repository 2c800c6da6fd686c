//! The client side: requests are written, responses and event streams are read.
//!
//! [`request_writer::RequestWriter`] writes requests, [`response_reader::ResponseReader`] splits
//! the input of a connection into responses, and [`event_reader::EventReader`] splits the body of
//! an event stream into events. Nothing here uses clocks, sockets or sessions.

pub mod response_head;

pub mod response_reader;

pub mod event_reader;

pub mod request_writer;
