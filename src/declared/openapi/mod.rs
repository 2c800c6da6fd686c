//! Tools from OpenAPI documents: one for each operation.
//!
//! A document is read as JSON, whatever its version: typed models of OpenAPI reject a whole
//! document for one operation, and drop keywords of JSON Schema that they do not know. Schemas of
//! OpenAPI 3.0 become JSON Schema 2020-12, the dialect of OpenAPI 3.1. An operation that cannot
//! become a tool is skipped, with the reason.

mod declaration;

mod filter;

mod names;

mod document;

mod schema;

mod bundle;

mod arguments;

mod security;

mod parameters;

mod bodies;

mod responses;

mod servers;

mod operation;

mod generate;

#[cfg(test)]
mod tests;

pub use self::declaration::OpenApiDeclaration;
pub use self::document::read_document;
pub use self::generate::{SkippedOperation, generate_tools};
