//! What is said: encoders that append exactly one JSON text, without a newline, to the caller's
//! buffer.
//!
//! What they keep true: a message says only what its revision knows, and nothing is allocated but
//! the growth of the buffer. Bodies that are the same for every request (`initialize`,
//! `server/discover`, pages of `tools/list`) are encoded once by the catalog and copied here.

mod response;

mod server;

mod body;

mod answer;

pub use answer::Answer;
pub use body::{
    CacheHint, ServerCapabilities, ToolsCapability, discover_result, initialize_result,
    tools_list_page,
};
pub use response::{empty_result, error, progress, result, result_close, result_open};
pub use server::{ServerInfo, result_suffix};
