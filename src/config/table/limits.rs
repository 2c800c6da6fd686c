//! Rows that bound messages, requests and connections, whatever the transport.

use crate::config::table::{DAY, GIB, KIB, Row, Section};
use crate::config::unit::Unit;

pub(super) static LIMITS: Section = Section {
    heading: "Limits",
    rows: &[
        Row {
            key: "message_bytes_max",
            short: None,
            unit: Unit::Bytes { least: 256, most: GIB },
            about: "Bytes of one message; a longer one gets error -32012 before the rest of it \
                    is buffered.",
            cost: "that many bytes for each connection in the middle of such a message",
            source: "transport contract, universal requirement 4",
            field: |options| &mut options.limits.message_bytes_max,
        },
        Row {
            key: "nesting_max",
            short: None,
            unit: Unit::Count { least: 1, most: 1024 },
            about: "Arrays and objects inside each other in one message.",
            cost: "stack and time for hostile input",
            source: "RFC 8259, section 9",
            field: |options| &mut options.limits.nesting_max,
        },
        Row {
            key: "requests_in_flight_max",
            short: None,
            unit: Unit::Count { least: 1, most: 65_536 },
            about: "Calls of one connection that wait for a handler; one more is refused with \
                    error -32603.",
            cost: "about 64 bytes each while they wait",
            source: "transport contract, universal requirement 6",
            field: |options| &mut options.limits.requests_in_flight_max,
        },
        Row {
            key: "request_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: 30 * DAY },
            about: "Time from a request to its answer; then it is cancelled and answered with an \
                    error.",
            cost: "a longer time keeps handlers alive that nobody waits for",
            source: "MCP, basic/lifecycle: timeouts",
            field: |options| &mut options.limits.request_max,
        },
        Row {
            key: "question_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: 30 * DAY },
            about: "Time that a question to a client may take; then it is cancelled and the \
                    handler hears of it.",
            cost: "a longer time keeps handlers alive whose user has gone",
            source: "MCP 2025-11-25, basic/lifecycle: timeouts",
            field: |options| &mut options.limits.question_max,
        },
        Row {
            key: "round_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1000, most: 30 * DAY },
            about: "Time that a client has to answer one round of questions; later its sealed \
                    state is refused with error -32602.",
            cost: "nothing is held meanwhile",
            source: "MCP 2026-07-28, basic/patterns/mrtr",
            field: |options| &mut options.limits.round_max,
        },
        Row {
            key: "outgoing_bytes_max",
            short: None,
            unit: Unit::Bytes { least: KIB, most: GIB },
            about: "Bytes that wait for one peer to read them; past it the connection is not \
                    read.",
            cost: "that many bytes for each connection whose peer is slow",
            source: "transport contract, universal requirement 6",
            field: |options| &mut options.limits.outgoing_bytes_max,
        },
        Row {
            key: "memory_bytes_max",
            short: None,
            unit: Unit::Bytes { least: 16 * KIB, most: 1024 * GIB },
            about: "Bytes that all connections may hold in messages half received or not yet \
                    sent; the one that would pass it gets error -32603 and is closed.",
            cost: "that many bytes, once every peer is slow",
            source: "transport contract, section 2: memory guard",
            field: |options| &mut options.limits.memory_bytes_max,
        },
        Row {
            key: "tasks_max",
            short: None,
            unit: Unit::Count { least: 1, most: 1_000_000 },
            about: "Tasks that each shard keeps, running or ended; a call that would begin one \
                    more gets an error.",
            cost: "about 512 bytes each, their results aside",
            source: "MCP, tasks: resource management",
            field: |options| &mut options.limits.tasks_max,
        },
        Row {
            key: "tasks_per_connection_max",
            short: None,
            unit: Unit::Count { least: 1, most: 1_000_000 },
            about: "Tasks of one connection among them, running or ended; a call that would \
                    begin one more gets an error.",
            cost: "a larger one lets a single peer take the room of all others",
            source: "MCP, tasks: resource management",
            field: |options| &mut options.limits.tasks_per_connection_max,
        },
        Row {
            key: "task_ttl_ms",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: 30 * DAY },
            about: "Time that a task is kept from its beginning on, where its caller names none; \
                    one that still runs then is cancelled.",
            cost: "a longer time keeps results that nobody may ask for",
            source: "MCP, tasks: ttl",
            field: |options| &mut options.limits.task_ttl,
        },
        Row {
            key: "task_ttl_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: 30 * DAY },
            about: "The longest time a caller may name for its task; a longer one is shortened.",
            cost: "callers decide how long their results are kept, up to it",
            source: "MCP, tasks: ttl",
            field: |options| &mut options.limits.task_ttl_max,
        },
        Row {
            key: "task_bytes_max",
            short: None,
            unit: Unit::Bytes { least: KIB, most: 1024 * GIB },
            about: "Bytes of results that each shard keeps for its tasks; a task whose result \
                    finds no room ends with an error.",
            cost: "that many bytes on each shard",
            source: "MCP, tasks: resource management",
            field: |options| &mut options.limits.task_bytes_max,
        },
        Row {
            key: "subscriptions_per_connection_max",
            short: None,
            unit: Unit::Count { least: 1, most: 1_000_000 },
            about: "Streams of notifications of one connection; one more gets error -32603.",
            cost: "below 512 bytes each",
            source: "MCP, basic/patterns/subscriptions",
            field: |options| &mut options.limits.subscriptions_per_connection_max,
        },
        Row {
            key: "subscription_uris_max",
            short: None,
            unit: Unit::Count { least: 1, most: 1_000_000 },
            about: "Resources and tasks that one stream or one legacy session hears of; more get \
                    error -32602.",
            cost: "64 bytes each, and their names once a shard",
            source: "MCP, basic/patterns/subscriptions",
            field: |options| &mut options.limits.subscription_uris_max,
        },
        Row {
            key: "subscription_uri_bytes_max",
            short: None,
            unit: Unit::Bytes { least: 16, most: GIB },
            about: "Bytes of one name that a stream hears of; a longer one gets error -32602.",
            cost: "that many bytes for each different name",
            source: "MCP, basic/patterns/subscriptions",
            field: |options| &mut options.limits.subscription_uri_bytes_max,
        },
        Row {
            key: "subscription_bytes_max",
            short: None,
            unit: Unit::Bytes { least: 4 * KIB, most: 1024 * GIB },
            about: "Bytes that all streams of notifications may hold; the one that would pass it \
                    gets error -32603.",
            cost: "that many bytes, once as many listen",
            source: "MCP, basic/patterns/subscriptions",
            field: |options| &mut options.limits.subscription_bytes_max,
        },
    ],
};
