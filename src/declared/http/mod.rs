//! Requests to HTTP servers that a declaration describes.
//!
//! A [`RequestTemplate`] with the arguments of a call becomes a request: the origin is fixed, and
//! each argument is encoded for the place where it stands. [`HttpClient`] has the connections; it
//! connects to private addresses only if the declaration lists them. [`HttpTool`] sends the
//! request, follows redirects within the origin, retries, collects pages and bounds what it reads.

mod declaration;

mod addresses;

mod encode;

mod values;

mod style;

mod parameters;

mod body;

mod request;

mod compile;

mod client;

mod retry;

mod response;

mod pages;

mod tool;

#[cfg(test)]
pub(crate) mod test_server;

#[cfg(test)]
mod tests;

pub use self::body::{
    BodyTemplate, FormFields, JsonMember, JsonTemplate, MultipartPart, PartContent,
};
pub use self::client::HttpClient;
pub(crate) use self::compile::{
    CompiledHeaders, compile_headers, is_own_header, parse_origin, push_path_text,
};
pub use self::declaration::{HttpDeclaration, ResultFormat, RetryDeclaration};
pub use self::parameters::{Parameter, ParameterStyle, PathPart};
pub(crate) use self::parameters::{QueryPart, is_relative};
pub use self::request::RequestTemplate;
pub(crate) use self::request::{HeaderContent, HeaderParameter};
pub(crate) use self::response::{is_json, is_text};
pub(crate) use self::tool::{ConnectionDeclaration, fetch};
pub use self::tool::{HttpTool, ToolSettings};
pub use self::values::Source;
