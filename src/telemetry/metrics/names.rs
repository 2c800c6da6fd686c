//! Names and labels of the metrics of counters.

/// A metric of several counters that differ in one label.
pub(super) struct Family {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) description: &'static str,
    /// Each counter with the value of its label, in the order of the counters.
    pub(super) counters: &'static [(&'static str, &'static str)],
}

/// Counters that are the sum of others.
pub(super) const SUMS: [(&str, &str); 4] = [
    ("connections", "closed"),
    ("connections", "open"),
    ("errors", "sent"),
    ("sessions", "evicted"),
];

/// Counters whose name in a metric is not that of their group and field.
pub(super) const NAMES: [(&str, &str, &str); 22] = [
    ("connections", "accept_failed", "accepts_failed"),
    ("connections", "refused_half_closed", "half_closed_refused"),
    ("traffic", "messages_in", "received_messages"),
    ("traffic", "messages_out", "sent_messages"),
    ("traffic", "bytes_in", "received_bytes"),
    ("traffic", "bytes_out", "sent_bytes"),
    ("traffic", "sends", "sends"),
    ("traffic", "read_pauses", "read_pauses"),
    ("requests", "notifications", "received_notifications"),
    ("requests", "responses", "received_responses"),
    ("requests", "batches", "received_batches"),
    ("requests", "progress_notifications", "sent_progress_notifications"),
    ("requests", "log_notifications", "sent_log_notifications"),
    ("overload", "breakers_opened", "breakers_opened"),
    ("overload", "breakers_half_opened", "breakers_half_opened"),
    ("overload", "breakers_closed", "breakers_closed"),
    ("overload", "streams_shed", "streams_shed"),
    ("overload", "pressure_steps", "memory_pressure_steps"),
    ("websockets", "messages_in", "websocket_received_messages"),
    ("websockets", "messages_out", "websocket_sent_messages"),
    ("websockets", "bytes_in", "websocket_received_bytes"),
    ("websockets", "bytes_out", "websocket_sent_bytes"),
];

/// Counters with a label.
pub(super) const FAMILIES: [Family; 12] = [
    Family {
        group: "connections",
        name: "connections_refused",
        label: "reason",
        description: "Connections refused with error 1001 or 1002.",
        counters: &[
            ("refused_limit", "connection_limit"),
            ("refused_address_share", "address_share"),
            ("refused_descriptors", "descriptors"),
            ("refused_rate", "rate"),
            ("refused_draining", "draining"),
        ],
    },
    Family {
        group: "connections",
        name: "connections_closed",
        label: "reason",
        description: "Connections closed.",
        counters: &[
            ("closed_by_peer", "peer"),
            ("closed_socket_error", "socket_error"),
            ("closed_idle_timeout", "idle_timeout"),
            ("closed_message_timeout", "message_timeout"),
            ("closed_protocol_violation", "protocol_violation"),
            ("closed_memory_limit", "memory_limit"),
            ("closed_invalid_credential", "invalid_credential"),
            ("closed_lifetime", "lifetime"),
            ("closed_evicted", "evicted"),
            ("closed_draining", "draining"),
        ],
    },
    Family {
        group: "requests",
        name: "requests",
        label: "method",
        description: "Requests received.",
        counters: &[
            ("initialize", "initialize"),
            ("discover", "server/discover"),
            ("ping", "ping"),
            ("tools_list", "tools/list"),
            ("tools_call", "tools/call"),
            ("other", "other"),
        ],
    },
    Family {
        group: "requests",
        name: "requests_refused",
        label: "reason",
        description: "Requests refused at a limit.",
        counters: &[
            ("refused_in_flight", "requests_in_flight_max"),
            ("refused_memory", "memory_bytes_max"),
        ],
    },
    Family {
        group: "auth",
        name: "auth_refused",
        label: "reason",
        description: "Requests refused by authentication or authorization.",
        counters: &[
            ("missing_token", "missing_token"),
            ("invalid_token", "invalid_token"),
            ("invalid_proof", "invalid_proof"),
            ("missing_nonce", "missing_nonce"),
            ("invalid_request", "invalid_request"),
            ("unavailable", "unavailable"),
            ("too_many_failures", "too_many_failures"),
            ("denied", "denied"),
        ],
    },
    Family {
        group: "auth",
        name: "auth_checks",
        label: "result",
        description: "Checks of tokens and client certificates, by result. A connection that \
                      repeats its token is not checked again.",
        counters: &[
            ("checks_hit", "hit"),
            ("checks_verified", "verified"),
            ("checks_malformed", "malformed"),
            ("checks_unsupported", "unsupported"),
            ("checks_issuer", "issuer"),
            ("checks_bad_signature", "bad_signature"),
            ("checks_expired", "expired"),
            ("checks_not_yet_valid", "not_yet_valid"),
            ("checks_audience", "audience"),
            ("checks_binding", "binding"),
            ("checks_proof", "proof"),
            ("checks_unknown", "unknown"),
            ("checks_unavailable", "unavailable"),
        ],
    },
    Family {
        group: "overload",
        name: "refused",
        label: "reason",
        description: "Requests, calls and connections refused to protect the server.",
        counters: &[
            ("refused_rate", "rate"),
            ("refused_breaker", "breaker"),
            ("refused_concurrency", "concurrency"),
            ("refused_queue", "queue"),
            ("refused_memory", "memory"),
        ],
    },
    Family {
        group: "requests",
        name: "tasks_refused",
        label: "reason",
        description: "Tasks refused at a limit.",
        counters: &[
            ("tasks_refused_limit", "tasks_max"),
            ("tasks_refused_per_connection", "tasks_per_connection_max"),
            ("tasks_refused_address_share", "address_share_percent"),
        ],
    },
    Family {
        group: "sessions",
        name: "sessions_evicted",
        label: "reason",
        description: "Legacy HTTP sessions evicted for new ones.",
        counters: &[
            ("evicted_address_share", "address_share"),
            ("evicted_unused", "unused"),
            ("evicted_idle", "idle"),
        ],
    },
    Family {
        group: "websockets",
        name: "websocket_closed",
        label: "reason",
        description: "WebSocket connections closed, by the meaning of the close code.",
        counters: &[
            ("closed_by_peer", "peer"),
            ("closed_normal", "normal"),
            ("closed_going_away", "going_away"),
            ("closed_protocol_error", "protocol_error"),
            ("closed_unsupported", "unsupported"),
            ("closed_invalid_data", "invalid_data"),
            ("closed_policy", "policy"),
            ("closed_too_big", "too_big"),
            ("closed_internal", "internal"),
            ("closed_abnormally", "abnormal"),
        ],
    },
    Family {
        group: "forwarded",
        name: "forwarded_fields",
        label: "result",
        description: "HTTP requests of trusted proxies, by what their field says of the client, \
                      and requests of others with such a field.",
        counters: &[
            ("client", "client"),
            ("missing", "missing"),
            ("invalid", "invalid"),
            ("ignored", "ignored"),
        ],
    },
    Family {
        group: "input_errors",
        name: "input_errors",
        label: "reason",
        description: "Input rejected before it became a message.",
        counters: &[
            ("framing", "framing"),
            ("http", "http"),
            ("utf8", "utf8"),
            ("oversize", "message_bytes_max"),
            ("memory", "memory_bytes_max"),
        ],
    },
];
