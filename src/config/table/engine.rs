//! Rows of the engine: shards, threads, and the sizes of a ring and of the mesh.

use crate::config::options::{Executor, LogLevel, Profile, RingBackend};
use crate::config::table::{GIB, KIB, MIB, MINUTE, Row, Section};
use crate::config::unit::Unit;
use crate::config::value::Choice;

pub(super) static SERVER: Section = Section {
    heading: "Server",
    rows: &[
        Row {
            key: "profile",
            short: None,
            unit: Unit::Choice(Profile::WORDS),
            about: "The set of defaults to start from; tiny shrinks every limit, for tests.",
            cost: "none",
            source: "engine",
            field: |options| &mut options.profile,
        },
        Row {
            key: "shards",
            short: None,
            unit: Unit::CountOrAuto { least: 1, most: 1024 },
            about: "Threads that serve, each with its own ring; auto is one for each cpu.",
            cost: "one thread, one ring and its receive buffers each",
            source: "engine",
            field: |options| &mut options.engine.shards,
        },
        Row {
            key: "cpus",
            short: None,
            unit: Unit::Cpus { most: 4095 },
            about: "Cpus that shards are pinned to, in order; auto is every cpu the process may \
                    use.",
            cost: "none",
            source: "engine",
            field: |options| &mut options.engine.cpus,
        },
        Row {
            key: "executor",
            short: None,
            unit: Unit::Choice(Executor::WORDS),
            about: "What runs the shards; auto is the one that measures better.",
            cost: "glommio needs 512 KiB of locked memory for each shard",
            source: "engine",
            field: |options| &mut options.engine.executor,
        },
        Row {
            key: "ring.backend",
            short: Some("ring"),
            unit: Unit::Choice(RingBackend::WORDS),
            about: "What carries the bytes; auto is io_uring where the kernel grants it.",
            cost: "poll needs a file descriptor for each connection and more CPU with many",
            source: "engine",
            field: |options| &mut options.engine.ring,
        },
        Row {
            key: "drain_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 0, most: 60 * MINUTE },
            about: "How long requests in flight may go on after SIGTERM or SIGINT.",
            cost: "a longer time delays the end of the process",
            source: "transport contract, universal requirement 7",
            field: |options| &mut options.engine.drain_max,
        },
        Row {
            key: "log.level",
            short: Some("log"),
            unit: Unit::Choice(LogLevel::WORDS),
            about: "The least important event written to standard error.",
            cost: "debug writes a line for each connection, ten a second for each shard",
            source: "engine",
            field: |options| &mut options.log.level,
        },
    ],
};

pub(super) static THREADS: Section = Section {
    heading: "Blocking handlers",
    rows: &[
        Row {
            key: "blocking_threads",
            short: None,
            unit: Unit::Count { least: 1, most: 1024 },
            about: "Threads that run blocking handlers, for the whole process.",
            cost: "one thread each",
            source: "engine",
            field: |options| &mut options.engine.blocking_threads,
        },
        Row {
            key: "blocking_queue_max",
            short: None,
            unit: Unit::Count { least: 1, most: 1_000_000 },
            about: "Blocking calls that wait for a thread; one more is answered with an error.",
            cost: "the arguments of each waiting call",
            source: "engine",
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
            unit: Unit::Count { least: 1, most: 1_000_000 },
            about: "Sockets open at once in one ring.",
            cost: "16 bytes each; io_uring refuses more than the limit of open files",
            source: "io_uring_register_files_sparse(3)",
            field: |options| &mut options.engine.ring_sizes.sockets_max,
        },
        Row {
            key: "ring.submissions_max",
            short: None,
            unit: Unit::Count { least: 1, most: 32_768 },
            about: "Operations queued before one syscall hands them over.",
            cost: "64 bytes each",
            source: "io_uring_setup(2)",
            field: |options| &mut options.engine.ring_sizes.submissions_max,
        },
        Row {
            key: "ring.completions_max",
            short: None,
            unit: Unit::Count { least: 2, most: 65_536 },
            about: "Completions that wait to be reaped.",
            cost: "16 bytes each",
            source: "io_uring_setup(2), IORING_SETUP_CQSIZE",
            field: |options| &mut options.engine.ring_sizes.completions_max,
        },
        Row {
            key: "ring.receive_buffers",
            short: None,
            unit: Unit::Count { least: 1, most: 32_768 },
            about: "Receive buffers shared by the connections of a shard; a power of two.",
            cost: "the size of one receive buffer each",
            source: "io_uring_register_buf_ring(3)",
            field: |options| &mut options.engine.ring_sizes.receive_buffers,
        },
        Row {
            key: "ring.receive_buffer_bytes",
            short: None,
            unit: Unit::Bytes { least: 64, most: MIB },
            about: "Bytes of one receive buffer.",
            cost: "that many bytes for each receive buffer",
            source: "io_uring_register_buf_ring(3)",
            field: |options| &mut options.engine.ring_sizes.receive_buffer_bytes,
        },
        Row {
            key: "ring.burst_buffers_max",
            short: None,
            unit: Unit::Count { least: 1, most: 32_768 },
            about: "Receive buffers that one connection may fill before the others come first.",
            cost: "fairness: the higher, the longer the others may wait",
            source: "measured: one connection can fill hundreds in a pass",
            field: |options| &mut options.engine.ring_sizes.burst_buffers_max,
        },
        Row {
            key: "ring.zero_copy_bytes_min",
            short: None,
            unit: Unit::BytesOrOff { least: KIB, most: GIB },
            about: "Sends of at least this many bytes go without a copy.",
            cost: "two completions a send, the second after the peer's acknowledgement",
            source: "io_uring_enter(2), IORING_OP_SEND_ZC",
            field: |options| &mut options.engine.ring_sizes.zero_copy_bytes_min,
        },
    ],
};

pub(super) static MESH: Section = Section {
    heading: "Mesh between shards",
    rows: &[
        Row {
            key: "mesh.lane_letters_max",
            short: None,
            unit: Unit::Count { least: 1, most: 65_536 },
            about: "Letters that may wait from one shard to one other, rounded up to a power of \
                    two.",
            cost: "about 112 bytes each, for every ordered pair of shards",
            source: "engine",
            field: |options| &mut options.engine.mesh.lane_letters_max,
        },
        Row {
            key: "mesh.post_letters_max",
            short: None,
            unit: Unit::Count { least: 1, most: 1_000_000 },
            about: "Letters that may wait for one shard from threads that are none.",
            cost: "about 120 bytes each, for every shard",
            source: "engine",
            field: |options| &mut options.engine.mesh.post_letters_max,
        },
    ],
};
