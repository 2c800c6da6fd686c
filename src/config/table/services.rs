//! Rows of what is offered: the demo services, and files as resources and prompts.

use crate::config::table::{GIB, KIB, Row, Section};
use crate::config::unit::Unit;

pub(super) static SERVICES: Section = Section {
    heading: "Services",
    rows: &[
        Row {
            key: "demo",
            short: None,
            unit: Unit::Switch,
            about: "Offer the demo services: four tools, and every feature of MCP once.",
            cost: "models see them beside what is offered in earnest",
            source: "engine",
            field: |options| &mut options.service.demo,
        },
        Row {
            key: "page_length_max",
            short: None,
            unit: Unit::Count { least: 1, most: 100_000 },
            about: "Entries on one page of a list: tools, prompts, resources and templates.",
            cost: "longer answers; pages are encoded once",
            source: "MCP, server/utilities/pagination",
            field: |options| &mut options.service.page_length_max,
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
            about: "The directory whose files are offered as resources. Fixed at start: SIGHUP \
                    does not change it.",
            cost: "one scan at start and after changes; files are read when they are asked for",
            source: "MCP, server/resources; RFC 8089",
            field: |options| &mut options.files.resources,
        },
        Row {
            key: "resources.file_bytes_max",
            short: None,
            unit: Unit::Bytes { least: KIB, most: GIB },
            about: "Bytes of a file, or of a part of one, in one answer; of a longer file a client \
                    reads parts.",
            cost: "that many bytes for each read, up to six times as many for its answer",
            source: "engine",
            field: |options| &mut options.files.file_bytes_max,
        },
        Row {
            key: "resources.entries_max",
            short: None,
            unit: Unit::Count { least: 1, most: 10_000_000 },
            about: "Files and folders that are listed; more can be read and are not listed.",
            cost: "some 300 bytes each for every revision",
            source: "engine",
            field: |options| &mut options.files.entries_max,
        },
        Row {
            key: "resources.depth_max",
            short: None,
            unit: Unit::Count { least: 1, most: 1024 },
            about: "Folders inside each other that are listed, the directory itself included.",
            cost: "one watch of the kernel for each folder",
            source: "engine",
            field: |options| &mut options.files.depth_max,
        },
        Row {
            key: "resources.hidden",
            short: None,
            unit: Unit::Switch,
            about: "Offer files and folders whose names begin with a dot.",
            cost: "such files often hold what nobody meant to publish",
            source: "engine",
            field: |options| &mut options.files.hidden,
        },
        Row {
            key: "prompts.directory",
            short: Some("prompts"),
            unit: Unit::Directory,
            about: "The directory whose *.md files are offered as prompts. Fixed at start: \
                    SIGHUP does not change it.",
            cost: "the files stay in memory",
            source: "MCP, server/prompts",
            field: |options| &mut options.files.prompts,
        },
        Row {
            key: "watch",
            short: None,
            unit: Unit::Switch,
            about: "Follow what changes in these directories, and tell clients.",
            cost: "one thread, and one watch of the kernel for each folder",
            source: "inotify(7)",
            field: |options| &mut options.files.watch,
        },
    ],
};
