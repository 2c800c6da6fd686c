//! Checker of the messages that the shards of a mesh send to each other.
//!
//! A channel leads from one sender to one shard; all threads that are not shards form one more
//! sender. Checks that each message arrives at its target shard, once, after all earlier ones of
//! its channel, and that in the end only messages to an ended shard are missing.

use crate::totals::Totals;

/// One message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MeshMessage {
    from: usize,
    to: usize,
    /// Index in its channel.
    number: u64,
    /// Index among all messages.
    stamp: u64,
}

/// State of one run.
#[derive(Debug)]
pub(crate) struct DeliveryChecker {
    /// By sender and target: messages sent, messages that arrived.
    channels: Vec<Vec<(u64, u64)>>,
    /// Highest stamp that has arrived, by target.
    latest_stamps: Vec<u64>,
    has_ended: Vec<bool>,
    sent: u64,
    pub(crate) totals: Totals,
}

impl DeliveryChecker {
    /// Sender index `shards` stands for the threads that are not shards.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            channels: vec![vec![(0, 0); shards]; shards + 1],
            latest_stamps: vec![0; shards],
            has_ended: vec![false; shards],
            sent: 0,
            totals: Totals::default(),
        }
    }

    /// Returns the next message of a channel. It counts as sent after [`Self::record_sent`].
    pub(crate) fn next_message(&self, from: usize, to: usize) -> MeshMessage {
        MeshMessage { from, to, number: self.channels[from][to].0, stamp: self.sent + 1 }
    }

    /// Records that the mesh accepted a message.
    pub(crate) fn record_sent(&mut self, message: MeshMessage) {
        self.channels[message.from][message.to].0 = message.number + 1;
        self.sent = message.stamp;
        self.totals.shard_messages += 1;
    }

    /// Records that a message reached shard `at`.
    ///
    /// # Errors
    ///
    /// It went to the wrong shard, or out of order, or twice.
    pub(crate) fn record_arrival(&mut self, at: usize, message: MeshMessage) -> Result<(), String> {
        let (sent, arrived) = &mut self.channels[message.from][message.to];
        if message.to != at {
            return Err(format!("{message:?} reached shard {at}"));
        }
        if message.number != *arrived || message.number >= *sent {
            return Err(format!("{message:?} arrived after {arrived} of {sent} sent"));
        }
        *arrived += 1;
        let latest = &mut self.latest_stamps[at];
        self.totals.shard_messages_reordered += u64::from(message.stamp < *latest);
        *latest = message.stamp.max(*latest);
        Ok(())
    }

    /// Records that a shard reads no more.
    pub(crate) fn record_end(&mut self, shard: usize) {
        self.has_ended[shard] = true;
    }

    /// Returns whether every message to a running shard has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.undelivered().is_none()
    }

    /// Describes a channel with messages that have not arrived.
    pub(crate) fn undelivered(&self) -> Option<String> {
        let channels = self.channels.iter().enumerate().flat_map(|(from, channels)| {
            let channels = channels.iter().enumerate().filter(|&(to, _)| !self.has_ended[to]);
            channels.map(move |(to, &(sent, arrived))| (from, to, sent, arrived))
        });
        let missing = channels.into_iter().find(|&(_, _, sent, arrived)| sent != arrived);
        missing.map(|channel| {
            format!(
                "from {} to {}: {} sent, {} arrived",
                channel.0, channel.1, channel.2, channel.3
            )
        })
    }
}
