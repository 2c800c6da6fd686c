//! Options of the engine: shards, threads, ring sizes and the mesh between shards.

use crate::config::options::{ExecutorKind, LogFormat, LogLevel, Profile, RingBackend};
use crate::config::table::{GIB, KIB, MIB, MINUTE, Row, Section};
use crate::config::unit::Unit;
use crate::config::value::Choice;

pub(super) static SERVER: Section = Section {
    heading: "Server",
    rows: &[
        Row {
            key: "profile",
            short: None,
            unit: Unit::Choice(Profile::NAMES),
            description: "Set of defaults to start from; tiny shrinks every limit, for tests.",
            cost: "none",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.profile,
        },
        Row {
            key: "shards",
            short: None,
            unit: Unit::CountOrAuto { min: 1, max: 1024 },
            description: "Number of shards (threads, each with its own ring); auto is one per cpu.",
            cost: "one thread, one ring and its receive buffers each",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.engine.shards,
        },
        Row {
            key: "cpus",
            short: None,
            unit: Unit::Cpus { max: 4095 },
            description: "Cpus that shards are pinned to, in order; auto is every cpu the process \
                          may use.",
            cost: "none",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.engine.cpus,
        },
        Row {
            key: "executor",
            short: None,
            unit: Unit::Choice(ExecutorKind::NAMES),
            description: "Executor that runs the shard loop; auto selects the faster one \
                          available.",
            cost: "glommio needs 512 KiB of locked memory for each shard",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.engine.executor,
        },
        Row {
            key: "ring.backend",
            short: Some("ring"),
            unit: Unit::Choice(RingBackend::NAMES),
            description: "I/O backend: auto is io_uring where the kernel allows it, else poll \
                          (epoll).",
            cost: "poll needs a file descriptor per connection and more CPU with many connections",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.engine.ring,
        },
        Row {
            key: "drain_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: 60 * MINUTE },
            description: "Time that requests in flight get to complete after SIGTERM or SIGINT, or \
                          after the end of input of stdio; then they get an error.",
            cost: "a longer time delays the exit of the process",
            source: "MCP, basic/lifecycle: shutdown",
            is_reloadable: true,
            field: |options| &mut options.engine.drain_timeout,
        },
        Row {
            key: "drain_delay",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: 60 * MINUTE },
            description: "Time between SIGTERM or SIGINT and the drain, in which /readyz answers \
                          503 and everything else is served. A reload can shorten it.",
            cost: "delays the exit of the process by as much",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.engine.drain_delay,
        },
        Row {
            key: "log.level",
            short: Some("log"),
            unit: Unit::Choice(LogLevel::NAMES),
            description: "Least severe level of log events written to standard error.",
            cost: "debug writes a line per connection, at most ten a second per shard",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.log.level,
        },
        Row {
            key: "log.format",
            short: None,
            unit: Unit::Choice(LogFormat::NAMES),
            description: "Format of log lines: text, or json with one object a line.",
            cost: "json lines are longer",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.log.format,
        },
    ],
};

pub(super) static BLOCKING_HANDLERS: Section = Section {
    heading: "Blocking handlers",
    rows: &[
        Row {
            key: "blocking_threads",
            short: None,
            unit: Unit::Count { min: 1, max: 1024 },
            description: "Threads of the process that run blocking handlers.",
            cost: "one thread each",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.engine.blocking_threads,
        },
        Row {
            key: "blocking_queue_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Blocking calls that wait for a thread. Client addresses (IPv6: /64 \
                          prefix) have equal shares of the places and are served in turns; \
                          connections and sessions from 127.0.0.1 and ::1 count individually. A \
                          call beyond the share of its client gets an error.",
            cost: "the arguments of each waiting call, and about 512 bytes",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.engine.blocking_queue_max,
        },
    ],
};

pub(super) static RING: Section = Section {
    heading: "Ring of each shard",
    rows: &[
        Row {
            key: "ring.sockets_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Sockets open at once in one ring.",
            cost: "16 bytes each; io_uring rejects more than the limit of open files",
            source: "io_uring_register_files_sparse(3)",
            is_reloadable: false,
            field: |options| &mut options.engine.ring_sizes.sockets_max,
        },
        Row {
            key: "ring.submissions_max",
            short: None,
            unit: Unit::Count { min: 1, max: 32_768 },
            description: "Entries of the submission queue: operations queued before one \
                          io_uring_enter.",
            cost: "64 bytes each",
            source: "io_uring_setup(2)",
            is_reloadable: false,
            field: |options| &mut options.engine.ring_sizes.submissions_max,
        },
        Row {
            key: "ring.completions_max",
            short: None,
            unit: Unit::Count { min: 2, max: 65_536 },
            description: "Entries of the completion queue: completions not yet processed.",
            cost: "16 bytes each",
            source: "io_uring_setup(2), IORING_SETUP_CQSIZE",
            is_reloadable: false,
            field: |options| &mut options.engine.ring_sizes.completions_max,
        },
        Row {
            key: "ring.receive_buffers",
            short: None,
            unit: Unit::Count { min: 1, max: 32_768 },
            description: "Receive buffers shared by the connections of a shard; a power of two.",
            cost: "the size of one receive buffer each",
            source: "io_uring_register_buf_ring(3)",
            is_reloadable: false,
            field: |options| &mut options.engine.ring_sizes.receive_buffers,
        },
        Row {
            key: "ring.receive_buffer_bytes",
            short: None,
            unit: Unit::Bytes { min: 64, max: MIB },
            description: "Size of one receive buffer.",
            cost: "that many bytes per receive buffer",
            source: "io_uring_register_buf_ring(3)",
            is_reloadable: false,
            field: |options| &mut options.engine.ring_sizes.receive_buffer_bytes,
        },
        Row {
            key: "ring.burst_buffers_max",
            short: None,
            unit: Unit::Count { min: 1, max: 32_768 },
            description: "Receive buffers that one connection may fill in one turn of the shard \
                          loop.",
            cost: "fairness: a higher value lets other connections wait longer",
            source: "measured: one connection can fill hundreds in a turn",
            is_reloadable: false,
            field: |options| &mut options.engine.ring_sizes.burst_buffers_max,
        },
        Row {
            key: "ring.zero_copy_bytes_min",
            short: None,
            unit: Unit::BytesOrOff { min: KIB, max: GIB },
            description: "Sends of at least this many bytes use zero copy.",
            cost: "two completions per send, the second after the peer's acknowledgement",
            source: "io_uring_enter(2), IORING_OP_SEND_ZC",
            is_reloadable: false,
            field: |options| &mut options.engine.ring_sizes.zero_copy_bytes_min,
        },
    ],
};

pub(super) static MESH: Section = Section {
    heading: "Mesh between shards",
    rows: &[
        Row {
            key: "mesh.channel_messages_max",
            short: None,
            unit: Unit::Count { min: 1, max: 65_536 },
            description: "Messages queued from one shard to another, rounded up to a power of two.",
            cost: "about 112 bytes each, per ordered pair of shards",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.engine.mesh.channel_messages_max,
        },
        Row {
            key: "mesh.inbox_messages_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Capacity of a shard's inbox for messages from other threads.",
            cost: "about 120 bytes each, per shard",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.engine.mesh.inbox_messages_max,
        },
    ],
};
