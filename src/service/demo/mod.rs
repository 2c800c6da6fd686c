//! The demo services, offered by `corelane serve`.
//!
//! [`tools`] are one tool of each kind, for tests, examples and measurements. The [`fixture`] is
//! what the official conformance suite looks for in a server: every feature of the protocol once,
//! in the smallest form that shows it.

mod basics;

pub mod fixture;

pub use self::basics::tools;

use crate::protocol::message::ServerInfo;
use crate::service::catalog::{Catalog, CatalogBuilder};
use crate::service::problem::CatalogError;

/// A catalog of the four demo tools, in the name of the server `info`.
///
/// ```
/// use corelane::protocol::message::ServerInfo;
/// use corelane::service::demo;
///
/// let catalog = demo::catalog(ServerInfo::new("demo", "1.0.0"))?;
/// assert!(catalog.tool("echo").is_some());
/// # Ok::<(), corelane::service::CatalogError>(())
/// ```
pub fn catalog(info: ServerInfo) -> Result<Catalog, CatalogError> {
    Catalog::builder(info).tools(tools()).build()
}

/// Adds all demo services to a catalog: the four tools and the fixture.
pub fn offer(catalog: CatalogBuilder) -> CatalogBuilder {
    fixture::offer(catalog.tools(tools()))
}
