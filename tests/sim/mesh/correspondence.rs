//! What the shards of a mesh write to each other: the checker of letters.
//!
//! A lane leads from one sender to one shard; everybody who is no shard is one sender more. What it
//! checks: each letter arrives at the shard that it was for, once, after all earlier ones of its
//! lane; and in the end none is missing but those to a shard that had ended.

use crate::tally::Tally;

/// One letter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Parcel {
    from: usize,
    to: usize,
    /// Its place in its lane.
    number: u64,
    /// Its place among all letters.
    stamp: u64,
}

/// The books of one run.
#[derive(Debug)]
pub(crate) struct Correspondence {
    /// By sender and target: letters sent, letters that arrived.
    lanes: Vec<Vec<(u64, u64)>>,
    /// The latest letter of all that arrived, by target.
    latest: Vec<u64>,
    has_ended: Vec<bool>,
    sent: u64,
    pub(crate) tally: Tally,
}

impl Correspondence {
    /// Between so many shards and the world outside, which is the sender behind the last.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            lanes: vec![vec![(0, 0); shards]; shards + 1],
            latest: vec![0; shards],
            has_ended: vec![false; shards],
            sent: 0,
            tally: Tally::default(),
        }
    }

    /// Writes the next letter of a lane. It counts as sent when it has been [`Self::sent`].
    pub(crate) fn write(&self, from: usize, to: usize) -> Parcel {
        Parcel { from, to, number: self.lanes[from][to].0, stamp: self.sent + 1 }
    }

    /// A letter was taken by the mesh.
    pub(crate) fn sent(&mut self, parcel: Parcel) {
        self.lanes[parcel.from][parcel.to].0 = parcel.number + 1;
        self.sent = parcel.stamp;
        self.tally.letters += 1;
    }

    /// A letter came to this shard.
    ///
    /// # Errors
    ///
    /// Why it must not have.
    pub(crate) fn arrive(&mut self, at: usize, parcel: Parcel) -> Result<(), String> {
        let (sent, arrived) = &mut self.lanes[parcel.from][parcel.to];
        if parcel.to != at {
            return Err(format!("{parcel:?} came to shard {at}"));
        }
        if parcel.number != *arrived || parcel.number >= *sent {
            return Err(format!("{parcel:?} came after {arrived} of {sent}"));
        }
        *arrived += 1;
        let latest = &mut self.latest[at];
        self.tally.letters_overtaken += u64::from(parcel.stamp < *latest);
        *latest = parcel.stamp.max(*latest);
        Ok(())
    }

    /// A shard reads no more.
    pub(crate) fn end(&mut self, shard: usize) {
        self.has_ended[shard] = true;
    }

    /// Whether every letter has arrived that somebody can read.
    pub(crate) fn is_settled(&self) -> bool {
        self.missing().is_none()
    }

    /// A lane whose letters have not arrived, for whoever reads a failure.
    pub(crate) fn missing(&self) -> Option<String> {
        let lanes = self.lanes.iter().enumerate().flat_map(|(from, lanes)| {
            let lanes = lanes.iter().enumerate().filter(|&(to, _)| !self.has_ended[to]);
            lanes.map(move |(to, &(sent, arrived))| (from, to, sent, arrived))
        });
        let missing = lanes.into_iter().find(|&(_, _, sent, arrived)| sent != arrived);
        missing.map(|lane| {
            format!("from {} to {}: {} sent, {} arrived", lane.0, lane.1, lane.2, lane.3)
        })
    }
}
