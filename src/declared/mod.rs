//! Tools, resources and prompts that a file declares: a server without Rust.

#![forbid(unsafe_code)]

mod call;
mod problem;
mod template;

mod fault;
mod fill;
mod secrets;

mod document;
mod limits;
mod metadata;

mod arguments;
mod room;
mod services;

mod command;
mod http;
mod openapi;
mod sql;

mod action;
mod file;

mod backend;

mod context;

mod completion;
mod entry;
mod make;

mod prompt;
mod resource;
mod tool;

mod program;
mod schema;
mod skills;

mod load;
mod offered;

mod io_thread;
mod watch;

mod server;

mod example;

pub use self::document::KINDS;
pub use self::example::write_example;
pub use self::fault::{Fault, Position};
pub use self::load::{Loaded, Sources};
pub use self::offered::ChangeCounts;
pub use self::schema::file_schema;
pub use self::server::{DeclarationErrors, Declared};
