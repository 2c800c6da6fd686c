//! Demo services of `corelane serve`: [`tools`], one tool of each kind for tests, examples and
//! benchmarks, and [`fixture`], the services that the official conformance suite requires.

mod basics;

pub mod fixture;

use corelane_protocol::model::Implementation;

pub use self::basics::tools;
use crate::service::catalog::Catalog;
use crate::service::catalog::CatalogBuilder;
use crate::service::catalog_error::CatalogError;

/// A catalog with the four demo tools, for a server with the given name and version.
///
/// ```
/// use corelane::model::Implementation;
/// use corelane::internal::demo;
///
/// let catalog = demo::catalog(Implementation::new("demo", "1.0.0"))?;
/// assert!(catalog.tool("echo").is_some());
/// # Ok::<(), corelane::CatalogError>(())
/// ```
pub fn catalog(info: Implementation) -> Result<Catalog, CatalogError> {
    Catalog::builder(info).tools(tools()).build()
}

/// Adds all demo services to a catalog: the four tools and the fixture.
pub fn add_services(catalog: CatalogBuilder) -> CatalogBuilder {
    fixture::add_services(catalog.tools(tools()))
}
