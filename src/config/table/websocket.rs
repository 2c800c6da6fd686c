//! Options of WebSocket: path, keep-alive, limits and compression.
//!
//! Limits of messages of every transport are in [`super::limits`].

use crate::config::options::Utf8CloseCode;
use crate::config::table::{DAY, GIB, KIB, Row, Section};
use crate::config::unit::Unit;
use crate::config::value::Choice;

pub(super) static WEBSOCKET: Section = Section {
    heading: "WebSocket",
    rows: &[
        Row {
            key: "websocket.path",
            short: None,
            unit: Unit::UrlPath,
            description: "Path on http.address where connections upgrade to WebSocket. Fixed at \
                          start.",
            cost: "none: they count towards websocket.connections_max",
            source: "RFC 6455, section 4",
            is_reloadable: false,
            field: |options| &mut options.websocket.path,
        },
        Row {
            key: "websocket.connections_max",
            short: None,
            unit: Unit::Count { min: 1, max: 10_000_000 },
            description: "WebSocket connections open at once, over all shards, beside those of \
                          http.connections_max; one more upgrade gets status 503.",
            cost: "less than 1 KiB of memory and one socket each",
            source: "RFC 9110, section 15.6.4",
            is_reloadable: true,
            field: |options| &mut options.websocket.connections_max,
        },
        Row {
            key: "websocket.ping_interval",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: DAY },
            description: "Idle time after which a peer is pinged.",
            cost: "two frames of a few bytes per connection and interval",
            source: "RFC 6455, section 5.5.2",
            is_reloadable: true,
            field: |options| &mut options.websocket.ping_interval,
        },
        Row {
            key: "websocket.idle_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 30 * DAY },
            description: "Time without a received frame (pongs count) after which a connection is \
                          closed with code 1000.",
            cost: "a longer time retains the sockets of peers that have vanished",
            source: "RFC 6455, section 7.4.1",
            is_reloadable: true,
            field: |options| &mut options.websocket.idle_timeout,
        },
        Row {
            key: "websocket.first_message_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: DAY },
            description: "Time from the upgrade to the first valid JSON-RPC message; a slower \
                          connection is closed with code 1002.",
            cost: "a longer time lets unidentified peers hold connections",
            source: "RFC 6455, section 7.4.1",
            is_reloadable: true,
            field: |options| &mut options.websocket.first_message_timeout,
        },
        Row {
            key: "websocket.fragment_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: DAY },
            description: "Time from the first frame of a message to its last; a slower message \
                          closes its connection with code 1002.",
            cost: "a longer time lets peers hold incomplete messages",
            source: "RFC 6455, section 5.4",
            is_reloadable: true,
            field: |options| &mut options.websocket.fragment_timeout,
        },
        Row {
            key: "websocket.outgoing_bytes_max",
            short: None,
            unit: Unit::Bytes { min: KIB, max: GIB },
            description: "Bytes queued for a slow peer; beyond it the connection is not read until \
                          half of them are sent.",
            cost: "that many bytes per connection with a slow peer",
            source: "RFC 6455, section 10.4",
            is_reloadable: true,
            field: |options| &mut options.websocket.outgoing_bytes_max,
        },
        Row {
            key: "websocket.send_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: DAY },
            description: "Time a connection may stay paused by websocket.outgoing_bytes_max; after \
                          it the connection is closed with code 1011.",
            cost: "a longer time retains the output of slow peers",
            source: "RFC 6455, section 7.4.1",
            is_reloadable: true,
            field: |options| &mut options.websocket.send_timeout,
        },
        Row {
            key: "websocket.strict_delimiter",
            short: None,
            unit: Unit::Switch,
            description: "Require a newline at the end of each text message; one without it closes \
                          its connection with code 1002.",
            cost: "excludes clients that send one message per frame, as the official SDKs do",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.websocket.strict_delimiter,
        },
        Row {
            key: "websocket.utf8_close_code",
            short: None,
            unit: Unit::Choice(Utf8CloseCode::NAMES),
            description: "Close code for a text message that is not UTF-8.",
            cost: "none",
            source: "RFC 6455, section 8.1 (1007)",
            is_reloadable: true,
            field: |options| &mut options.websocket.utf8_close_code,
        },
        Row {
            key: "websocket.deflate",
            short: None,
            unit: Unit::Switch,
            description: "Compress messages (permessage-deflate) if the client offers it. Fixed at \
                    start.",
            cost: "CPU time per message, and about 300 KiB per shard",
            source: "RFC 7692",
            is_reloadable: false,
            field: |options| &mut options.websocket.deflate,
        },
        Row {
            key: "websocket.deflate_ratio_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Largest ratio of a message, beyond 64 KiB, to its compressed size; a \
                          larger one closes the connection with code 1008.",
            cost: "a higher ratio lets a few bytes use much memory",
            source: "RFC 7692, section 8",
            is_reloadable: true,
            field: |options| &mut options.websocket.deflate_ratio_max,
        },
    ],
};
