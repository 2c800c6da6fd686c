//! The options of the engine: shards, threads, sizes of rings and of the mesh between shards.

use std::time::Duration;

use corelane_engine::mesh::MeshOptions;
use corelane_engine::ring::RingOptions;

use super::declare::{GIB, KIB, MIB, MINUTE, options};
use super::value::{Choice, choice};

options! {
    /// Shards, rings and threads.
    pub struct EngineOptions at |options| options.engine;

    group SERVER {
        /// Number of shards (threads, each with its own ring); auto is one per cpu.
        #[option("shards", CountOrAuto { min: 1, max: 1024 }, restart)]
        #[cost = "one thread, one ring and its receive buffers each"]
        pub shards: Option<u16> = None, tiny Some(1);

        /// Cpus that shards are pinned to, in order; auto is every cpu the process may use.
        ///
        /// Each cpu at most once.
        #[option("cpus", Cpus { max: 4095 }, restart)]
        #[cost = "none"]
        pub cpus: Option<Vec<u16>> = None;

        /// Executor that runs the shard loop; auto selects the faster one available.
        #[option("executor", Choice(ExecutorKind::NAMES), restart)]
        #[cost = "glommio needs 512 KiB of locked memory for each shard"]
        pub executor: ExecutorKind = ExecutorKind::Auto;

        /// I/O backend: auto is `io_uring` where the kernel allows it, else poll (epoll).
        #[option("ring.backend" | "ring", Choice(RingBackend::NAMES), restart)]
        #[cost = "poll needs a file descriptor per connection and more CPU with many connections"]
        pub ring: RingBackend = RingBackend::Auto;

        /// Time that requests in flight get to complete after SIGTERM or SIGINT, or after the end
        /// of input of stdio; then they get an error.
        ///
        /// Their clients have one second for that error.
        #[option("drain_timeout", Milliseconds { min: 0, max: 60 * MINUTE }, reload)]
        #[cost = "a longer time delays the exit of the process"]
        #[source = "MCP, basic/lifecycle: shutdown"]
        pub drain_timeout: Duration = Duration::from_secs(10), tiny Duration::from_millis(500);

        /// Time between SIGTERM or SIGINT and the drain, in which `/readyz` answers 503 and
        /// everything else is served. A reload can shorten it.
        ///
        /// [`Handle::drain`](crate::Handle::drain) begins it, too. A load balancer stops sending
        /// new connections meanwhile. Not used on stdio.
        #[option("drain_delay", Milliseconds { min: 0, max: 60 * MINUTE }, reload)]
        #[cost = "delays the exit of the process by as much"]
        pub drain_delay: Duration = Duration::ZERO;
    }

    group BLOCKING_HANDLERS {
        /// Threads of the process that run blocking handlers.
        #[option("blocking_threads", Count { min: 1, max: 1024 }, restart)]
        #[cost = "one thread each"]
        pub blocking_threads: u16 = 4, tiny 1;

        /// Blocking calls that wait for a thread. Client addresses (IPv6: /64 prefix) have equal
        /// shares of the places and are served in turns; connections and sessions from 127.0.0.1
        /// and `::1` count individually without `trusted_proxies`. A call beyond the share of its
        /// client gets an error.
        ///
        /// When all places are taken, a call of a client with fewer waiting calls displaces the
        /// newest one of the client with the most, which gets error -32603; other calls get that
        /// error themselves.
        #[option("blocking_queue_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "the arguments of each waiting call, and about 512 bytes"]
        pub blocking_queue_max: u32 = 1024, tiny 2;
    }

    nested {
        /// The sizes of each shard's ring.
        pub ring_sizes: RingOptions = RingOptions::default(), tiny tiny_ring();

        /// The sizes of the queues between shards, and from other threads to a shard. Cost: each
        /// pair of shards has two channels, each shard an inbox.
        pub mesh: MeshOptions = MeshOptions::default(), tiny tiny_mesh();
    }
}

options! {
    rows at |options| options.engine.ring_sizes;

    group RING {
        /// Sockets open at once in one ring.
        #[option("ring.sockets_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "16 bytes each; io_uring rejects more than the limit of open files"]
        #[source = "io_uring_register_files_sparse(3)"]
        sockets_max;

        /// Entries of the submission queue: operations queued before one `io_uring_enter`.
        #[option("ring.submissions_max", Count { min: 1, max: 32_768 }, restart)]
        #[cost = "64 bytes each"]
        #[source = "io_uring_setup(2)"]
        submissions_max;

        /// Entries of the completion queue: completions not yet processed.
        #[option("ring.completions_max", Count { min: 2, max: 65_536 }, restart)]
        #[cost = "16 bytes each"]
        #[source = "io_uring_setup(2), IORING_SETUP_CQSIZE"]
        completions_max;

        /// Receive buffers shared by the connections of a shard; a power of two.
        #[option("ring.receive_buffers", Count { min: 1, max: 32_768 }, restart)]
        #[cost = "the size of one receive buffer each"]
        #[source = "io_uring_register_buf_ring(3)"]
        receive_buffers;

        /// Size of one receive buffer.
        #[option("ring.receive_buffer_bytes", Bytes { min: 64, max: MIB }, restart)]
        #[cost = "that many bytes per receive buffer"]
        #[source = "io_uring_register_buf_ring(3)"]
        receive_buffer_bytes;

        /// Receive buffers that one connection may fill in one turn of the shard loop.
        #[option("ring.burst_buffers_max", Count { min: 1, max: 32_768 }, restart)]
        #[cost = "fairness: a higher value lets other connections wait longer"]
        #[source = "measured: one connection can fill hundreds in a turn"]
        burst_buffers_max;

        /// Sends of at least this many bytes use zero copy.
        #[option("ring.zero_copy_bytes_min", BytesOrOff { min: KIB, max: GIB }, restart)]
        #[cost = "two completions per send, the second after the peer's acknowledgement"]
        #[source = "io_uring_enter(2), IORING_OP_SEND_ZC"]
        zero_copy_bytes_min;
    }

    group ACCEPTS {
        /// Accept operations in flight per shard on its listener.
        #[option("tcp.acceptors", Count { min: 1, max: 1024 }, restart)]
        #[cost = "about 100 bytes each"]
        #[source = "io_uring_prep_accept(3)"]
        accepts_in_flight;
    }
}

options! {
    rows at |options| options.engine.mesh;

    group MESH {
        /// Messages queued from one shard to another, rounded up to a power of two.
        #[option("mesh.channel_messages_max", Count { min: 1, max: 65_536 }, restart)]
        #[cost = "about 112 bytes each, per ordered pair of shards"]
        channel_messages_max;

        /// Capacity of a shard's inbox for messages from other threads.
        #[option("mesh.inbox_messages_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "about 120 bytes each, per shard"]
        inbox_messages_max;
    }
}

/// Returns a ring with few slots and buffers.
fn tiny_ring() -> RingOptions {
    RingOptions {
        sockets_max: 16,
        submissions_max: 8,
        completions_max: 16,
        receive_buffers: 4,
        receive_buffer_bytes: 256,
        burst_buffers_max: 2,
        accepts_in_flight: 2,
        ..RingOptions::default()
    }
}

/// Returns a mesh with short queues.
fn tiny_mesh() -> MeshOptions {
    MeshOptions { channel_messages_max: 2, inbox_messages_max: 4, ..MeshOptions::default() }
}

choice! {
    /// The executor of the shard loop.
    #[non_exhaustive]
    pub enum ExecutorKind {
        /// The faster one in `benches/floor`.
        #[default]
        Auto = "auto",
        /// A pinned thread with a small local executor.
        Native = "native",
        /// The root task of a glommio executor (Linux, feature `glommio`), so that local handlers
        /// can use its files, timers and channels. Needs `io_uring`. Cost: 512 KiB of locked memory
        /// for each shard.
        ///
        /// A program that has a glommio executor can run a shard as one of its tasks instead, by
        /// items of `corelane::internal`, which may change: see `examples/glommio.rs`. Beside other
        /// tasks of its thread a shard takes 10 to 20 % more CPU.
        Glommio = "glommio",
    }
}

choice! {
    /// The I/O interface of a shard.
    #[non_exhaustive]
    pub enum RingBackend {
        /// `io_uring` if the kernel supports it, otherwise `Poll`.
        #[default]
        Auto = "auto",
        /// `io_uring`; start-up fails without it.
        Uring = "uring",
        /// Readiness notification: epoll, kqueue.
        Poll = "poll",
    }
}
