//! Faults of a server, made on purpose in what a client receives: the checkers must find them.

use serde_json::{Value, json};

/// A fault in the messages of one client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ChunkFault {
    Lost,
    Doubled,
    /// With the next number, so that all later ones move.
    DoubledAndRenumbered,
    /// Lost before it got a number.
    LostAndRenumbered,
    Reordered,
    /// The last chunk.
    EndLost,
    /// A chunk after the last one.
    EndFollowed,
    ResponseLost,
    ResponseDoubled,
    /// A member that the schema does not allow.
    Malformed,
}

/// State of the fault of one client.
#[derive(Debug)]
pub(crate) struct FaultState {
    fault: ChunkFault,
    is_done: bool,
    held: Option<Vec<u8>>,
    /// Stream whose later chunks are renumbered, and by how many.
    moved: Option<(Value, i64)>,
}

impl FaultState {
    pub(crate) const fn new(fault: ChunkFault) -> Self {
        Self { fault, is_done: false, held: None, moved: None }
    }

    /// Passes on one message, with the fault.
    pub(crate) fn apply(&mut self, text: Vec<u8>) -> Vec<Vec<u8>> {
        let message: Value = serde_json::from_slice(&text).unwrap_or_default();
        let is_response = message["type"] == "response" && message["result"]["content"].is_array();
        let is_chunk = message["chunkType"] == "progress" && message["seq"] != 1;
        let is_end = message["chunkType"] == "eos";
        if let Some(held) = self.held.take() {
            return vec![text, held];
        }
        if let Some((stream, by)) = &self.moved {
            if message["streamId"] == *stream && message["seq"].is_u64() {
                return vec![renumbered(message, *by)];
            }
            return vec![text];
        }
        let is_it = match self.fault {
            ChunkFault::EndLost | ChunkFault::EndFollowed => is_end,
            ChunkFault::ResponseLost | ChunkFault::ResponseDoubled => is_response,
            _ => is_chunk,
        };
        if self.is_done || !is_it {
            return vec![text];
        }
        self.is_done = true;
        match self.fault {
            ChunkFault::Lost | ChunkFault::EndLost | ChunkFault::ResponseLost => Vec::new(),
            ChunkFault::Doubled | ChunkFault::ResponseDoubled => vec![text.clone(), text],
            ChunkFault::EndFollowed => vec![text, renumbered(message, 1)],
            ChunkFault::DoubledAndRenumbered => {
                self.moved = Some((message["streamId"].clone(), 1));
                vec![text, renumbered(message, 1)]
            }
            ChunkFault::LostAndRenumbered => {
                self.moved = Some((message["streamId"].clone(), -1));
                Vec::new()
            }
            ChunkFault::Reordered => {
                self.held = Some(text);
                Vec::new()
            }
            ChunkFault::Malformed => {
                let mut message = message;
                message["seq"] = json!(-1);
                vec![message.to_string().into_bytes()]
            }
        }
    }
}

fn renumbered(mut message: Value, by: i64) -> Vec<u8> {
    let seq = message["seq"].as_i64().unwrap_or_default() + by;
    message["seq"] = json!(seq);
    message.to_string().into_bytes()
}
