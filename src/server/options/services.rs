//! The options of what a server offers: demo services, and files as resources and prompts.

use std::path::PathBuf;
use std::time::Duration;

use super::declare::{GIB, KIB, MINUTE, options};
use super::unit::{Diagnostic, Unit};
use super::value::Value;

options! {
    /// The content that `corelane` serves.
    pub struct ServiceOptions at |options| options.service;

    group SERVICES {
        /// Name of the server that clients see; default is corelane.
        ///
        /// Sent as `serverInfo.name`; at most 4 KiB, like the following texts.
        #[option("server.name", Text, restart)]
        #[cost = "none"]
        #[source = "MCP, schema: Implementation"]
        pub name: Option<String> = None;

        /// Title of the server, for people; default is Corelane, or none with another name.
        #[option("server.title", Text, restart)]
        #[cost = "none"]
        #[source = "MCP, schema: Implementation"]
        pub title: Option<String> = None;

        /// What the server does, for people; default is that of Corelane, or none with another
        /// name.
        #[option("server.description", Text, restart)]
        #[cost = "none"]
        #[source = "MCP, schema: Implementation"]
        pub description: Option<String> = None;

        /// Version of the server that clients see; default is that of Corelane.
        #[option("server.version", Text, restart)]
        #[cost = "none"]
        #[source = "MCP, schema: Implementation"]
        pub version: Option<String> = None;

        /// How to use the server, for the model; default is none.
        ///
        /// Sent as `instructions`.
        #[option("server.instructions", Text, restart)]
        #[cost = "models read it in every conversation"]
        #[source = "MCP, basic/lifecycle; server/discover"]
        pub instructions: Option<String> = None;

        /// Demo services: basic offers the tools echo, add, slow and hash; conformance also each
        /// MCP feature once, as the official conformance suite requires; tools=N,bytes=M offers N
        /// tools whose results have M bytes of text; auto is off with `--resources` or
        /// `--prompts`, otherwise basic.
        #[option("demo", Demo, restart)]
        #[cost = "clients see them beside the services in use"]
        pub demo: DemoServices = DemoServices::Auto;

        /// Entries per page of `tools/list`, `prompts/list`, `resources/list` and
        /// `resources/templates/list`.
        #[option("page_size", Count { min: 1, max: 100_000 }, restart)]
        #[cost = "longer responses; each page is encoded once per catalog version"]
        #[source = "MCP, server/utilities/pagination"]
        pub page_size: u32 = 100, tiny 2;

        /// Whether clients receive the text of internal errors and panics of handlers, not only the
        /// number under which the log has it.
        #[option("expose_errors", Switch, restart)]
        #[cost = "the text may contain internals"]
        #[source = "MCP, server/tools, \"Error Handling\""]
        pub expose_errors: bool = false;

        /// A handler that keeps its shard busy for longer is counted, and logged once a minute; 0
        /// is off.
        ///
        /// An inline handler keeps it until it returns, a local one in one poll of its future; each
        /// handler is logged by itself. Every other client of the shard waits meanwhile, which
        /// [`blocking`](crate::ToolBuilder::blocking) avoids.
        #[option("slow_handler_threshold", Milliseconds { min: 0, max: MINUTE }, restart)]
        #[cost = "none"]
        pub slow_handler_threshold: Duration = Duration::from_millis(10);
    }
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
    /// Tools without arguments, to measure how cost grows with their number and their results.
    #[non_exhaustive]
    Sized {
        /// Number of tools, from 1 to 100,000.
        tools: u32,
        /// Bytes of the text in each result, at most 16 MiB.
        bytes: u32,
    },
}

impl DemoServices {
    /// The services that have no numbers, with their names.
    const NAMED: [(&'static str, Self); 4] = [
        ("auto", Self::Auto),
        ("off", Self::Off),
        ("basic", Self::Basic),
        ("conformance", Self::Conformance),
    ];
    const TOOLS: Unit = Unit::Count { min: 1, max: 100_000 };
    const BYTES: Unit = Unit::Bytes { min: 0, max: 16 << 20 };

    /// Returns tools of this number with texts of this size.
    pub const fn sized(tools: u32, bytes: u32) -> Self {
        Self::Sized { tools, bytes }
    }
}

impl Value for DemoServices {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        if let Some((_, named)) = Self::NAMED.iter().find(|(name, _)| *name == text) {
            *self = *named;
            return Ok(());
        }
        let (mut tools, mut bytes) = (1_u32, 0_u32);
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("tools", number)) => tools.parse_from(number, &Self::TOOLS)?,
                Some(("bytes", number)) => bytes.parse_from(number, &Self::BYTES)?,
                _ => {
                    let message = format!("{text:?} is not {}", unit.type_name());
                    return Err(Diagnostic::new(message, unit.notation()));
                }
            }
        }
        *self = Self::Sized { tools, bytes };
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        if let Self::Sized { tools, bytes } = self {
            return format!("tools={tools},bytes={bytes}");
        }
        let named = Self::NAMED.iter().find(|(_, named)| named == self);
        named.map(|(name, _)| (*name).to_owned()).unwrap_or_default()
    }
}

options! {
    /// Files served as resources and prompts.
    pub struct FileOptions at |options| options.files;

    group FILES {
        /// Directory whose files are offered as resources. Fixed at start: SIGHUP does not change
        /// it.
        #[option("resources.directory" | "resources", Directory, restart)]
        #[cost = "one scan at start and after changes; a file is read per request"]
        #[source = "MCP, server/resources; RFC 8089"]
        pub resources: Option<PathBuf> = None;

        /// Beginning of the URIs of resources, such as `docs://`, instead of `file://` and the path
        /// of the directory. Fixed at start.
        #[option("resources.uri_prefix", UriPrefix, restart)]
        #[cost = "none"]
        #[source = "RFC 3986, section 3"]
        pub uri_prefix: Option<String> = None;

        /// Bytes of a file in one response; a longer file is read in ranges.
        ///
        /// The same applies to a range.
        #[option("resources.file_bytes_max", Bytes { min: KIB, max: GIB }, restart)]
        #[cost = "that many bytes per read, up to six times as many for its response"]
        pub file_bytes_max: usize = 8 * 1024 * 1024, tiny 1024;

        /// Files and folders listed in `resources/list`; further ones can be read only.
        #[option("resources.entries_max", Count { min: 1, max: 10_000_000 }, restart)]
        #[cost = "about 300 bytes each per protocol revision"]
        pub entries_max: usize = 10_000, tiny 16;

        /// Depth of listed folders; the directory itself is 1.
        #[option("resources.depth_max", Count { min: 1, max: 1024 }, restart)]
        #[cost = "one inotify watch per folder"]
        pub depth_max: usize = 16, tiny 3;

        /// Offer files and folders whose names begin with a dot.
        #[option("resources.hidden", Switch, restart)]
        #[cost = "such files often hold secrets and settings"]
        pub hidden: bool = false;

        /// Directory whose `*.md` files are offered as prompts. Fixed at start: SIGHUP does not
        /// change it.
        #[option("prompts.directory" | "prompts", Directory, restart)]
        #[cost = "the files are held in memory"]
        #[source = "MCP, server/prompts"]
        pub prompts: Option<PathBuf> = None;

        /// Directory in which every executable file is offered as a tool. Fixed at start: SIGHUP
        /// does not change it.
        #[option("tools.directory" | "tools", Directory, restart)]
        #[cost = "one process a call"]
        #[source = "MCP, server/tools"]
        pub tools: Option<PathBuf> = None;

        /// Directory in which every folder with a `SKILL.md` is offered as a skill, and its files
        /// as resources `skill://`. Fixed at start: SIGHUP does not change it.
        #[option("skills.directory" | "skills", Directory, restart)]
        #[cost = "all files are read at start and after changes; a file is read per request"]
        #[source = "SEP-2640; Agent Skills specification"]
        pub skills: Option<PathBuf> = None;

        /// Watch these directories for changes and notify clients.
        #[option("watch", Switch, restart)]
        #[cost = "one thread, and one inotify watch per folder"]
        #[source = "inotify(7)"]
        pub watch: bool = true;
    }
}

/// Checks the beginning of a URI (RFC 3986, section 3): a scheme, then characters of authority and
/// path, the last a slash.
pub(crate) fn check_uri_prefix(prefix: &str) -> Result<(), &'static str> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|char: char| char.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@!$&'()*+,;=%".contains(&byte);
    let Some((scheme, rest)) = prefix.split_once("://") else { return Err("has no scheme") };
    if !is_scheme(scheme) {
        Err("has an invalid scheme")
    } else if !prefix.ends_with('/') {
        Err("does not end with /")
    } else if !rest.bytes().all(is_allowed) {
        Err("has characters that are not allowed before the path of a file")
    } else {
        Ok(())
    }
}
