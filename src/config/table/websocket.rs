//! Rows of WebSocket: where connections are upgraded, and how long, how much and in which form.
//!
//! What holds for connections of every kind (who may come, how many, how long a message may be)
//! stands among the rows of TCP, HTTP and the limits.

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
            about: "Where on http.address connections are upgraded to WebSocket. Fixed at start.",
            cost: "none: they count among http.connections_max",
            source: "transport contract, section 4; RFC 6455, section 4",
            field: |options| &mut options.websocket.path,
        },
        Row {
            key: "websocket.ping_ms",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: DAY },
            about: "A peer that was silent for this long gets a ping.",
            cost: "two frames of a few bytes for each connection each time",
            source: "transport contract, section 4",
            field: |options| &mut options.websocket.ping,
        },
        Row {
            key: "websocket.idle_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: 30 * DAY },
            about: "A connection from which no frame has come for this long, pongs included, is \
                    closed with code 1000.",
            cost: "a longer time keeps the sockets of peers that have vanished",
            source: "transport contract, section 4",
            field: |options| &mut options.websocket.idle_max,
        },
        Row {
            key: "websocket.fragment_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: DAY },
            about: "Time from the first frame of a message to its last; a slower one ends its \
                    connection with code 1002.",
            cost: "a longer time lets strangers hold half messages",
            source: "transport contract, section 4",
            field: |options| &mut options.websocket.fragment_max,
        },
        Row {
            key: "websocket.frame_buffer_bytes_max",
            short: None,
            unit: Unit::Bytes { least: KIB, most: GIB },
            about: "Bytes that wait for one peer to read them; past it the connection is not read \
                    until half of them are gone.",
            cost: "that many bytes for each connection whose peer is slow",
            source: "transport contract, section 4",
            field: |options| &mut options.websocket.frame_buffer_bytes_max,
        },
        Row {
            key: "websocket.drain_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: DAY },
            about: "Time that a connection may stay unread for that; then it is closed with code \
                    1011.",
            cost: "a longer time keeps what peers do not read",
            source: "transport contract, section 4",
            field: |options| &mut options.websocket.drain_max,
        },
        Row {
            key: "websocket.strict_delimiter",
            short: None,
            unit: Unit::Switch,
            about: "The text of a frame has to end in a newline; one that does not ends its \
                    connection with code 1002.",
            cost: "clients that send one message a frame, as the official SDKs do, are shut out",
            source: "transport contract, section 4",
            field: |options| &mut options.websocket.strict_delimiter,
        },
        Row {
            key: "websocket.utf8_close_code",
            short: None,
            unit: Unit::Choice(Utf8CloseCode::WORDS),
            about: "The close code that a text which is not UTF-8 gets.",
            cost: "none",
            source: "RFC 6455, section 8.1, has 1007; transport contract, section 4, has 1002",
            field: |options| &mut options.websocket.utf8_close_code,
        },
        Row {
            key: "websocket.deflate",
            short: None,
            unit: Unit::Switch,
            about: "Compress messages (permessage-deflate) where a client offers it. Fixed at \
                    start.",
            cost: "time for each message, and some 300 KiB on each shard",
            source: "RFC 7692",
            field: |options| &mut options.websocket.deflate,
        },
        Row {
            key: "websocket.deflate_ratio_max",
            short: None,
            unit: Unit::Count { least: 1, most: 1_000_000 },
            about: "How many times as long as what was sent a compressed message may become, \
                    beyond 64 KiB; one that becomes longer ends its connection with code 1008.",
            cost: "a larger one lets a few bytes ask for much memory",
            source: "RFC 7692, section 8",
            field: |options| &mut options.websocket.deflate_ratio_max,
        },
    ],
};
