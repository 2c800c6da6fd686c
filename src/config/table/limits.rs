//! Limits of messages, requests, tasks and subscriptions, for every transport.

use crate::config::table::{DAY, GIB, KIB, Row, Section};
use crate::config::unit::Unit;

pub(super) static LIMITS: Section = Section {
    heading: "Limits",
    rows: &[
        Row {
            key: "message_bytes_max",
            short: None,
            unit: Unit::Bytes { min: 256, max: GIB },
            description: "Size of one message; a longer one gets error -32012 before the rest of \
                          it is buffered.",
            cost: "that many bytes per connection with an incomplete message",
            source: "RFC 8259, section 9",
            is_reloadable: true,
            field: |options| &mut options.limits.message_bytes_max,
        },
        Row {
            key: "nesting_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1024 },
            description: "Depth of nested arrays and objects in one message.",
            cost: "stack and time on hostile input",
            source: "RFC 8259, section 9",
            is_reloadable: false,
            field: |options| &mut options.limits.nesting_max,
        },
        Row {
            key: "requests_in_flight_max",
            short: None,
            unit: Unit::Count { min: 1, max: 65_536 },
            description: "Requests in flight per connection; one more gets error -32603.",
            cost: "about 64 bytes each while in flight",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.limits.requests_in_flight_max,
        },
        Row {
            key: "request_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 30 * DAY },
            description: "Time from a request to its response; after it the request is cancelled \
                          and gets an error.",
            cost: "a longer time retains handlers whose client has given up",
            source: "MCP, basic/lifecycle: timeouts",
            is_reloadable: true,
            field: |options| &mut options.limits.request_timeout,
        },
        Row {
            key: "client_request_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 30 * DAY },
            description: "Time a client may take to respond to a request of the server (sampling, \
                    elicitation, roots); after it the request is cancelled and the handler gets \
                    an error.",
            cost: "a longer time retains handlers whose user has gone",
            source: "MCP 2025-11-25, basic/lifecycle: timeouts",
            is_reloadable: true,
            field: |options| &mut options.limits.client_request_timeout,
        },
        Row {
            key: "request_state_ttl",
            short: None,
            unit: Unit::Milliseconds { min: 1000, max: 30 * DAY },
            description: "Time for which an encrypted requestState is valid; a retry after it gets \
                          error -32602.",
            cost: "none: the server stores nothing meanwhile",
            source: "MCP 2026-07-28, basic/patterns/mrtr",
            is_reloadable: true,
            field: |options| &mut options.limits.request_state_ttl,
        },
        Row {
            key: "outgoing_bytes_max",
            short: None,
            unit: Unit::Bytes { min: KIB, max: GIB },
            description: "Bytes queued for a slow peer; beyond it the connection is not read.",
            cost: "that many bytes per connection with a slow peer",
            source: "tcp(7): backpressure",
            is_reloadable: true,
            field: |options| &mut options.limits.outgoing_bytes_max,
        },
        Row {
            key: "memory_bytes_max",
            short: None,
            unit: Unit::Bytes { min: 16 * KIB, max: 1024 * GIB },
            description: "Memory that clients may make the server hold: incomplete incoming and \
                    unsent outgoing messages, arguments of running calls and open requests to \
                    clients (a quarter at most), results of blocking handlers before they are \
                    outgoing messages, stored events, task results, subscriptions. At the limit \
                    connections of the client address that holds most are closed, the largest \
                    first, and calls with large arguments get error -32603.",
            cost: "that many bytes, if every peer is slow",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.limits.memory_bytes_max,
        },
        Row {
            key: "address_share_percent",
            short: None,
            unit: Unit::Count { min: 1, max: 100 },
            description: "Percent of the connections of a transport, and of the tasks and bytes of \
                    task results of a shard, that one client address (IPv6: /64 prefix) may take; \
                    100 switches the limit off. 127.0.0.1 and ::1 are exempt.",
            cost: "clients behind one proxy on another machine share it",
            source: "RFC 6177: a client controls a /64",
            is_reloadable: true,
            field: |options| &mut options.limits.address_share_percent,
        },
        Row {
            key: "tasks_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Tasks stored per shard, running or completed; one more evicts a \
                          completed one whose connection or session has gone, or gets an error.",
            cost: "about 512 bytes each, without their results",
            source: "MCP, tasks: resource management",
            is_reloadable: true,
            field: |options| &mut options.limits.tasks_max,
        },
        Row {
            key: "tasks_per_connection_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Tasks stored per connection, running or completed; a call that would \
                          create one more gets an error.",
            cost: "a larger value lets one peer use up tasks_max",
            source: "MCP, tasks: resource management",
            is_reloadable: true,
            field: |options| &mut options.limits.tasks_per_connection_max,
        },
        Row {
            key: "task_ttl",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 30 * DAY },
            description: "Time from its creation for which a task is stored, if its request names \
                          none; a task still running then is cancelled.",
            cost: "a longer time retains results that are not fetched",
            source: "MCP, tasks: ttl",
            is_reloadable: true,
            field: |options| &mut options.limits.task_ttl,
        },
        Row {
            key: "task_ttl_max",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 30 * DAY },
            description: "Longest ttl that a request may name for its task; a longer one is \
                          shortened.",
            cost: "results are stored as long as callers ask for, up to this",
            source: "MCP, tasks: ttl",
            is_reloadable: true,
            field: |options| &mut options.limits.task_ttl_max,
        },
        Row {
            key: "task_bytes_max",
            short: None,
            unit: Unit::Bytes { min: KIB, max: 1024 * GIB },
            description: "Bytes of task results stored per shard, at most an eighth of its part of \
                    memory_bytes_max; a result beyond that evicts those of completed tasks whose \
                    connection or session has gone, or its task fails.",
            cost: "that many bytes on each shard",
            source: "MCP, tasks: resource management",
            is_reloadable: true,
            field: |options| &mut options.limits.task_bytes_max,
        },
        Row {
            key: "subscriptions_per_connection_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "subscriptions/listen streams per connection; one more gets error -32603.",
            cost: "less than 512 bytes each",
            source: "MCP, basic/patterns/subscriptions",
            is_reloadable: true,
            field: |options| &mut options.limits.subscriptions_per_connection_max,
        },
        Row {
            key: "subscription_uris_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Resources and tasks that one stream or legacy session may subscribe to; \
                          more get error -32602.",
            cost: "64 bytes each, and each distinct URI once per shard",
            source: "MCP, basic/patterns/subscriptions",
            is_reloadable: true,
            field: |options| &mut options.limits.subscription_uris_max,
        },
        Row {
            key: "subscription_uri_bytes_max",
            short: None,
            unit: Unit::Bytes { min: 16, max: GIB },
            description: "Length of a subscribed URI; a longer one gets error -32602.",
            cost: "that many bytes per distinct URI",
            source: "MCP, basic/patterns/subscriptions",
            is_reloadable: true,
            field: |options| &mut options.limits.subscription_uri_bytes_max,
        },
        Row {
            key: "subscription_bytes_max",
            short: None,
            unit: Unit::Bytes { min: 4 * KIB, max: 1024 * GIB },
            description: "Memory of all subscription streams, at most an eighth of \
                    memory_bytes_max, divided evenly among shards; a stream that would exceed it \
                    gets error -32603.",
            cost: "that many bytes, if that many subscriptions are open",
            source: "MCP, basic/patterns/subscriptions",
            is_reloadable: true,
            field: |options| &mut options.limits.subscription_bytes_max,
        },
    ],
};
