//! The client of the parity dialect, as a program holds it.

mod request;

mod builder;

mod client;

pub use self::builder::ParityClientBuilder;
pub use self::client::ParityClient;
pub use self::request::{ParityCancel, ParityRequest, ParityResponse};
