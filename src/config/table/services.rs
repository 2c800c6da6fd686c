//! Options of what the server offers: demo services, files as resources and prompts.

use crate::config::options::DemoServices;
use crate::config::table::{GIB, KIB, MINUTE, Row, Section};
use crate::config::unit::Unit;
use crate::config::value::Choice;

pub(super) static SERVICES: Section = Section {
    heading: "Services",
    rows: &[
        Row {
            key: "server.name",
            short: None,
            unit: Unit::Text,
            description: "Name of the server that clients see; default is corelane.",
            cost: "none",
            source: "MCP, schema: Implementation",
            is_reloadable: false,
            field: |options| &mut options.service.name,
        },
        Row {
            key: "server.title",
            short: None,
            unit: Unit::Text,
            description: "Title of the server, for people; default is Corelane, or none with \
                          another name.",
            cost: "none",
            source: "MCP, schema: Implementation",
            is_reloadable: false,
            field: |options| &mut options.service.title,
        },
        Row {
            key: "server.version",
            short: None,
            unit: Unit::Text,
            description: "Version of the server that clients see; default is that of Corelane.",
            cost: "none",
            source: "MCP, schema: Implementation",
            is_reloadable: false,
            field: |options| &mut options.service.version,
        },
        Row {
            key: "server.instructions",
            short: None,
            unit: Unit::Text,
            description: "How to use the server, for the model; default is none.",
            cost: "models read it in every conversation",
            source: "MCP, basic/lifecycle; server/discover",
            is_reloadable: false,
            field: |options| &mut options.service.instructions,
        },
        Row {
            key: "demo",
            short: None,
            unit: Unit::Choice(DemoServices::NAMES),
            description: "Demo services: basic offers the tools echo, add, slow and hash; \
                          conformance also each MCP feature once, as the official conformance \
                          suite requires; auto is off with --resources or --prompts, otherwise \
                          basic.",
            cost: "clients see them beside the services in use",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.service.demo,
        },
        Row {
            key: "page_size",
            short: None,
            unit: Unit::Count { min: 1, max: 100_000 },
            description: "Entries per page of tools/list, prompts/list, resources/list and \
                    resources/templates/list.",
            cost: "longer responses; each page is encoded once per catalog version",
            source: "MCP, server/utilities/pagination",
            is_reloadable: false,
            field: |options| &mut options.service.page_size,
        },
        Row {
            key: "expose_errors",
            short: None,
            unit: Unit::Switch,
            description: "Whether clients receive the text of internal errors and panics of \
                          handlers, not only the number under which the log has it.",
            cost: "the text may contain internals",
            source: "MCP, server/tools, \"Error Handling\"",
            is_reloadable: false,
            field: |options| &mut options.service.expose_errors,
        },
        Row {
            key: "slow_handler_threshold",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: MINUTE },
            description: "A handler that keeps its shard busy for longer is counted, and logged \
                          once a minute; 0 is off.",
            cost: "none",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.service.slow_handler_threshold,
        },
    ],
};

pub(super) static FILES: Section = Section {
    heading: "Files as resources and prompts",
    rows: &[
        Row {
            key: "resources.directory",
            short: Some("resources"),
            unit: Unit::Directory,
            description: "Directory whose files are offered as resources. Fixed at start: SIGHUP \
                          does not change it.",
            cost: "one scan at start and after changes; a file is read per request",
            source: "MCP, server/resources; RFC 8089",
            is_reloadable: false,
            field: |options| &mut options.files.resources,
        },
        Row {
            key: "resources.uri_prefix",
            short: None,
            unit: Unit::UriPrefix,
            description: "Beginning of the URIs of resources, such as docs://, instead of file:// \
                          and the path of the directory. Fixed at start.",
            cost: "none",
            source: "RFC 3986, section 3",
            is_reloadable: false,
            field: |options| &mut options.files.uri_prefix,
        },
        Row {
            key: "resources.file_bytes_max",
            short: None,
            unit: Unit::Bytes { min: KIB, max: GIB },
            description: "Bytes of a file in one response; a longer file is read in ranges.",
            cost: "that many bytes per read, up to six times as many for its response",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.files.file_bytes_max,
        },
        Row {
            key: "resources.entries_max",
            short: None,
            unit: Unit::Count { min: 1, max: 10_000_000 },
            description: "Files and folders listed in resources/list; further ones can be read \
                          only.",
            cost: "about 300 bytes each per protocol revision",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.files.entries_max,
        },
        Row {
            key: "resources.depth_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1024 },
            description: "Depth of listed folders; the directory itself is 1.",
            cost: "one inotify watch per folder",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.files.depth_max,
        },
        Row {
            key: "resources.hidden",
            short: None,
            unit: Unit::Switch,
            description: "Offer files and folders whose names begin with a dot.",
            cost: "such files often hold secrets and settings",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.files.hidden,
        },
        Row {
            key: "prompts.directory",
            short: Some("prompts"),
            unit: Unit::Directory,
            description: "Directory whose *.md files are offered as prompts. Fixed at start: \
                          SIGHUP does not change it.",
            cost: "the files are held in memory",
            source: "MCP, server/prompts",
            is_reloadable: false,
            field: |options| &mut options.files.prompts,
        },
        Row {
            key: "watch",
            short: None,
            unit: Unit::Switch,
            description: "Watch these directories for changes and notify clients.",
            cost: "one thread, and one inotify watch per folder",
            source: "inotify(7)",
            is_reloadable: false,
            field: |options| &mut options.files.watch,
        },
    ],
};
