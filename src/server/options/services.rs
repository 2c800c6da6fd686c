//! The options of what a server offers: demo services, and files as resources and prompts.

use std::path::PathBuf;
use std::time::Duration;

/// The content that `corelane` serves.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// Name of the server (`serverInfo.name`), at most 4 KiB, like the following texts. Default
    /// `None`: `corelane`.
    pub name: Option<String>,
    /// Title of the server, for people. Default `None`: `Corelane`, or none with another name.
    pub title: Option<String>,
    /// Version of the server. Default `None`: the version of Corelane.
    pub version: Option<String>,
    /// How to use the server, for the model (`instructions`). Cost: every client reads it. Default
    /// `None`: none.
    pub instructions: Option<String>,
    /// The demo services. Default [`DemoServices::Auto`].
    pub demo: DemoServices,
    /// Entries per page of a list. Pages are encoded once. Default 100.
    pub page_size: u32,
    /// Clients receive the text of internal errors and panics of handlers, not only the number
    /// under which the log has it. Cost: the text may contain internals. Default `false`.
    pub expose_errors: bool,
    /// A handler that keeps its shard busy for longer, an inline one until it returns and a local
    /// one in one poll of its future, is counted, and logged once a minute for each handler: every
    /// other client of the shard waits meanwhile, which
    /// [`blocking`](crate::ToolBuilder::blocking) avoids. Zero: none. Default 10 ms.
    pub slow_handler_threshold: Duration,
}

/// The demo services that `corelane` offers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum DemoServices {
    /// `Off` if directories of resources or prompts are served, otherwise `Basic`.
    #[default]
    Auto,
    /// None.
    Off,
    /// The tools `echo`, `add`, `slow` and `hash`.
    Basic,
    /// The basic tools, and each feature of MCP once, as the official conformance suite requires.
    Conformance,
}

/// Files served as resources and prompts.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FileOptions {
    /// Directory whose files are resources; `None` serves none. Default `None`.
    pub resources: Option<PathBuf>,
    /// Beginning of the URIs of resources, such as `docs://`, before their paths in the directory.
    /// Default `None`: `file://` and the absolute path of the directory.
    pub uri_prefix: Option<String>,
    /// Bytes of a file, or of a range of one, in one response; longer files are read in ranges.
    /// Cost: that many bytes per read, and up to six times as many for the response.
    /// Default 8 MiB.
    pub file_bytes_max: usize,
    /// Maximum number of listed files and folders. Cost: some 300 bytes each per revision.
    /// Default 10,000.
    pub entries_max: usize,
    /// Depth of listed folders, the directory itself included. Default 16.
    pub depth_max: usize,
    /// Serves files and folders whose names begin with a dot. Default false.
    pub hidden: bool,
    /// Directory whose `*.md` files are prompts; `None` serves none. Default `None`.
    pub prompts: Option<PathBuf>,
    /// Follows changes on disk. Cost: one thread, and one inotify watch per folder. Default true.
    pub watch: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            name: None,
            title: None,
            version: None,
            instructions: None,
            demo: DemoServices::Auto,
            page_size: 100,
            expose_errors: false,
            slow_handler_threshold: Duration::from_millis(10),
        }
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            resources: None,
            uri_prefix: None,
            file_bytes_max: 8 << 20,
            entries_max: 10_000,
            depth_max: 16,
            hidden: false,
            prompts: None,
            watch: true,
        }
    }
}
