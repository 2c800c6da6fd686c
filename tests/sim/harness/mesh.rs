//! Mesh options that follow the faults of a simulation.

use corelane_base::random::Random;
use corelane_engine::mesh::{MeshOptions, ReadOrder};
use corelane_engine::ring::sim::{Fault, Faults};

/// Returns small capacities with [`Fault::FullMesh`] and a random read order with
/// [`Fault::ReorderedMessages`].
pub(crate) fn simulated_mesh(faults: Faults, random: &mut Random) -> MeshOptions {
    let mut options = MeshOptions::default();
    if faults.has(Fault::FullMesh) {
        options.channel_messages_max = [1, 2, 4][random.below(3)];
        options.inbox_messages_max = [1, 2, 3, 4][random.below(4)];
    }
    if faults.has(Fault::ReorderedMessages) {
        options.read_order = ReadOrder::Random(random.next_u64());
    }
    options
}
