//! Options of rate limits.

use crate::config::table::{Row, Section};
use crate::config::unit::Unit;

pub(super) static RATE: Section = Section {
    heading: "Rate limits",
    rows: &[
        Row {
            key: "rate.rules",
            short: None,
            unit: Unit::Words,
            description: "What is limited: method [name] rate=LIMIT/PERIOD [burst=N] [per=KEYS], \
                          such as tools/call deploy_* rate=5/min per=principal; * stands for \
                          any text. Periods are s, min, h and d, keys principal, address, \
                          session, method and tool, joined by +. A request beyond a limit gets \
                          error 1002 or status 429. All rules that apply must admit it; \
                          127.0.0.1 and ::1 have no limit by address.",
            cost: "a hash for each rule and request",
            source: "RFC 6585, section 4; draft-ietf-httpapi-ratelimit-headers-10",
            is_reloadable: true,
            field: |options| &mut options.rate.rules,
        },
        Row {
            key: "rate.connections",
            short: None,
            unit: Unit::Text,
            description: "New connections of one client address (IPv6: /64 prefix), such as \
                          rate=20/s burst=50; default is no limit. 127.0.0.1 and ::1 are \
                          exempt.",
            cost: "a lock for each new connection",
            source: "RFC 6177: a client controls a /64",
            is_reloadable: true,
            field: |options| &mut options.rate.connections,
        },
        Row {
            key: "rate.connections_per_address_max",
            short: None,
            unit: Unit::Count { min: 0, max: 1_000_000 },
            description: "Open connections of one client address, of each transport; 0 leaves \
                          it to address_share_percent. 127.0.0.1 and ::1 are exempt.",
            cost: "clients behind one proxy on another machine share it",
            source: "RFC 6177: a client controls a /64",
            is_reloadable: true,
            field: |options| &mut options.rate.connections_per_address_max,
        },
        Row {
            key: "rate.keys_max",
            short: None,
            unit: Unit::Count { min: 16, max: 10_000_000 },
            description: "Callers, addresses and other keys whose state each shard stores at \
                          once; further ones share the limit of one.",
            cost: "48 bytes each, once there is a rule",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.rate.keys_max,
        },
    ],
};
