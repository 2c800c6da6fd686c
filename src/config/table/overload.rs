//! Options of overload protection.

use crate::config::table::{KIB, MIB, MINUTE, Row, Section};
use crate::config::unit::Unit;

const PERCENT: Unit = Unit::Count { min: 0, max: 100 };

pub(super) static OVERLOAD: Section = Section {
    heading: "Overload",
    rows: &[
        Row {
            key: "overload.calls_max",
            short: None,
            unit: Unit::Count { min: 0, max: 10_000_000 },
            description: "Calls of handlers that run at once, over all shards; a further one is \
                          refused. Inline handlers do not count. 0 switches it off.",
            cost: "none",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.calls_max,
        },
        Row {
            key: "overload.tool_calls_max",
            short: None,
            unit: Unit::Count { min: 0, max: 10_000_000 },
            description: "Running calls of each tool, over all shards; a further one is refused. 0 \
                          switches it off.",
            cost: "a lock at each call that is not inline",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.tool_calls_max,
        },
        Row {
            key: "overload.tool_calls",
            short: None,
            unit: Unit::Words,
            description: "Running calls of some tools, in place of overload.tool_calls_max: name \
                          and number, such as deploy_app 4.",
            cost: "a comparison for each at each call that is not inline",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.tool_calls,
        },
        Row {
            key: "overload.queue_target",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: 60 * MINUTE },
            description: "Longest time that calls may wait for a blocking thread; if all of an \
                          interval have waited for longer, new ones are refused. 0 switches it \
                          off.",
            cost: "a clock reading for each blocking call",
            source: "RFC 8289",
            is_reloadable: true,
            field: |options| &mut options.overload.queue_target,
        },
        Row {
            key: "overload.queue_interval",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: 60 * MINUTE },
            description: "Time for which calls may wait for longer than overload.queue_target; 0 \
                          is 20 times the target.",
            cost: "none",
            source: "RFC 8289",
            is_reloadable: true,
            field: |options| &mut options.overload.queue_interval,
        },
    ],
};

pub(super) static BREAKER: Section = Section {
    heading: "Circuit breakers of tools",
    rows: &[
        Row {
            key: "breaker.failed_percent",
            short: None,
            unit: PERCENT,
            description: "Percentage of failed calls at which the breaker of a tool opens: panics, \
                          internal errors, timeouts. Each shard has its own breakers. 0 switches \
                          it off.",
            cost: "a lookup by name at each call of a tool",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.breaker.failed_percent,
        },
        Row {
            key: "breaker.slow_percent",
            short: None,
            unit: PERCENT,
            description: "Percentage of slow calls at which a breaker opens. 0 switches it off.",
            cost: "as breaker.failed_percent",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.breaker.slow_percent,
        },
        Row {
            key: "breaker.slow_after",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 60 * MINUTE },
            description: "A call that takes at least this long is slow.",
            cost: "none",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.breaker.slow_after,
        },
        Row {
            key: "breaker.tool_errors",
            short: None,
            unit: Unit::Switch,
            description: "Count results with isError as failures.",
            cost: "none",
            source: "MCP, server/tools, Error Handling",
            is_reloadable: true,
            field: |options| &mut options.overload.breaker.tool_errors,
        },
        Row {
            key: "breaker.window",
            short: None,
            unit: Unit::Milliseconds { min: 100, max: 60 * MINUTE },
            description: "Calls that ended in this time count.",
            cost: "none",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.breaker.window,
        },
        Row {
            key: "breaker.calls_min",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Calls in the window below which a breaker stays closed.",
            cost: "a broken tool is called that often",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.breaker.calls_min,
        },
        Row {
            key: "breaker.wait",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 60 * MINUTE },
            description: "How long an open breaker refuses calls; then some are let through.",
            cost: "a tool that works again is not called for that long",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.breaker.wait,
        },
        Row {
            key: "breaker.wait_max",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 24 * 60 * MINUTE },
            description: "The wait doubles up to this while the tool fails again.",
            cost: "as breaker.wait",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.breaker.wait_max,
        },
        Row {
            key: "breaker.probes_max",
            short: None,
            unit: Unit::Count { min: 1, max: 10_000 },
            description: "Calls that are let through after the wait; the breaker closes when all \
                          have succeeded.",
            cost: "none",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.breaker.probes_max,
        },
    ],
};

pub(super) static MEMORY_GUARD: Section = Section {
    heading: "Memory guard",
    rows: &[
        Row {
            key: "memory_guard.refuse_connections_percent",
            short: None,
            unit: PERCENT,
            description: "Percentage of the memory of the control group, or of the machine, from \
                          which new connections are refused. 0 switches the step off.",
            cost: "a thread that reads small files",
            source: "Linux, cgroup-v2.rst",
            is_reloadable: true,
            field: |options| &mut options.overload.memory.refuse_connections_percent,
        },
        Row {
            key: "memory_guard.refuse_messages_percent",
            short: None,
            unit: PERCENT,
            description: "Percentage from which messages longer than \
                          memory_guard.message_bytes_max are refused, too. 0 switches the step \
                          off.",
            cost: "none",
            source: "Linux, cgroup-v2.rst",
            is_reloadable: true,
            field: |options| &mut options.overload.memory.refuse_messages_percent,
        },
        Row {
            key: "memory_guard.end_streams_percent",
            short: None,
            unit: PERCENT,
            description: "Percentage from which notification streams are ended and refused, too. 0 \
                          switches the step off.",
            cost: "none",
            source: "Linux, cgroup-v2.rst",
            is_reloadable: true,
            field: |options| &mut options.overload.memory.end_streams_percent,
        },
        Row {
            key: "memory_guard.close_slowest_percent",
            short: None,
            unit: PERCENT,
            description: "Percentage from which the connections are closed for which most is held, \
                          too. 0 switches the step off.",
            cost: "none",
            source: "Linux, cgroup-v2.rst",
            is_reloadable: true,
            field: |options| &mut options.overload.memory.close_slowest_percent,
        },
        Row {
            key: "memory_guard.stalled_percent",
            short: None,
            unit: PERCENT,
            description: "Percentage of 10 seconds in which tasks of the control group waited for \
                          memory (PSI), from which the next step applies. 0 switches it off.",
            cost: "none",
            source: "Linux, psi.rst",
            is_reloadable: true,
            field: |options| &mut options.overload.memory.stalled_percent,
        },
        Row {
            key: "memory_guard.message_bytes_max",
            short: None,
            unit: Unit::Bytes { min: KIB, max: 64 * MIB },
            description: "Longest message while memory is short.",
            cost: "none",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.memory.message_bytes_max,
        },
        Row {
            key: "memory_guard.interval",
            short: None,
            unit: Unit::Milliseconds { min: 10, max: 60 * MINUTE },
            description: "Time between two readings of the memory.",
            cost: "a few system calls each",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.overload.memory.interval,
        },
    ],
};
