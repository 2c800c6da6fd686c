//! The chunks of all sessions, counted by type.

use crate::protocol::parity::envelope::ChunkType;
use crate::telemetry::counters::ChunkCounters;

/// Counts a chunk.
pub(in crate::server::parity) const fn count_chunk(
    chunks: &mut ChunkCounters,
    chunk_type: ChunkType,
) {
    let counter = match chunk_type {
        ChunkType::Progress => &mut chunks.progress,
        ChunkType::Log => &mut chunks.log,
        ChunkType::Partial => &mut chunks.partial,
        ChunkType::Result => &mut chunks.result,
        ChunkType::Error => &mut chunks.error,
        ChunkType::Eos => &mut chunks.eos,
    };
    *counter += 1;
}
