//! Numbers of sessions and streams over all shards, for the status page.
//!
//! A shard reports its numbers at the end of a turn in which they changed, and before it reads the
//! totals. So these are exact with one shard, and lag by one turn of the other shards with several.

use std::sync::Arc;

use crate::engine::mesh::SharedCounter;

/// Numbers that one shard has reported, and the totals over all shards.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Gauges {
    sessions: Arc<SharedCounter>,
    streams: Arc<SharedCounter>,
    reported: GaugeValues,
}

/// Numbers of one shard, or of all.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::server) struct GaugeValues {
    /// Legacy sessions.
    pub(in crate::server) sessions: usize,
    /// Subscription streams, and attached streams of legacy sessions.
    pub(in crate::server) streams: usize,
}

impl Gauges {
    /// Reports the numbers of this shard; does nothing if they are unchanged.
    #[inline]
    pub(in crate::server) fn report(&mut self, values: GaugeValues) {
        if values != self.reported {
            self.sessions.adjust(self.reported.sessions, values.sessions);
            self.streams.adjust(self.reported.streams, values.streams);
            self.reported = values;
        }
    }

    /// Returns the totals over all shards.
    pub(in crate::server) fn totals(&self) -> GaugeValues {
        GaugeValues { sessions: self.sessions.count(), streams: self.streams.count() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_sum_reports_of_all_shards() {
        let gauges = Gauges::default();
        let mut shards = [(); 3].map(|()| gauges.clone());
        for (index, shard) in shards.iter_mut().enumerate() {
            shard.report(GaugeValues { sessions: 1 + index, streams: 10 });
        }
        assert!(shards.iter().all(|it| it.totals() == GaugeValues { sessions: 6, streams: 30 }));
        shards[2].report(GaugeValues { sessions: 0, streams: 11 });
        shards[2].report(GaugeValues { sessions: 0, streams: 11 });
        assert_eq!(shards[0].totals(), GaugeValues { sessions: 3, streams: 31 });
        for shard in &mut shards {
            shard.report(GaugeValues::default());
        }
        assert_eq!(gauges.totals(), GaugeValues::default());
    }
}
