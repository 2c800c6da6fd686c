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
mod skills;
mod upstream;

mod schema;

mod load;
mod offered;

mod io_thread;
mod watch;

mod server;

mod example;

#[cfg(feature = "gateway")]
pub(crate) use self::entry::{Entry, Fingerprint, Item, Key};
#[cfg(feature = "gateway")]
pub(crate) use self::limits::Quantity;
#[cfg(feature = "gateway")]
pub(crate) use self::offered::Offered;
#[cfg(feature = "gateway")]
pub(crate) use self::problem::Problem;
pub use self::upstream::{OAuthDeclaration, OnChange, Share, UpstreamDeclaration};

pub use self::document::KINDS;
pub use self::example::write_example;
pub use self::fault::{Fault, Position};
pub use self::load::{DeclaredUpstream, Loaded, Sources};
pub use self::offered::ChangeCounts;
pub use self::schema::file_schema;
pub use self::server::{DeclarationErrors, Declared};
