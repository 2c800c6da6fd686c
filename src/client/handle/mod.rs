//! The client as a program holds it.

mod builder;

mod client;

pub use self::builder::ClientBuilder;
pub use self::client::Client;
