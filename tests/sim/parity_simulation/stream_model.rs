//! One stream as its client sees it: chunks are dropped by number, and then none is missing.
//!
//! The contents of the chunks are numbered too, so that a chunk that came twice with two numbers,
//! or was lost before it got one, is found.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use serde_json::Value;

use crate::parity_simulation::work::Work;

/// One stream.
#[derive(Debug, Default)]
pub(crate) struct StreamModel {
    /// The request that has opened it; `None` if the response was lost.
    pub(crate) request: Option<(Value, Work)>,
    last_seq: u64,
    /// The contents of the chunks, by number.
    hashes: Vec<u64>,
    last_progress: u64,
    last_log: u64,
    /// Chunks that the server says it has dropped, without those whose place is known.
    dropped: u64,
    /// The result or error has come.
    has_outcome: bool,
    has_ended: bool,
    pub(crate) is_cancelled: bool,
}

/// A chunk that is not dropped.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum NewChunk {
    /// Progress, or a log message.
    Data,
    /// The result is right.
    Result,
    /// The error object, to be checked.
    Error(Value),
    /// The end.
    End,
}

impl StreamModel {
    /// A stream that the response to a request has opened.
    pub(crate) fn of_request(id: Value, work: Work) -> Self {
        Self { request: Some((id, work)), ..Self::default() }
    }

    /// A stream whose opening response was lost; its request may have been cancelled.
    pub(crate) fn of_lost_response() -> Self {
        Self { is_cancelled: true, ..Self::default() }
    }

    pub(crate) const fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Records a chunk; `None` for one that came before. The server says how many progress and log
    /// chunks it has dropped before they got a number; no others may be missing.
    ///
    /// # Errors
    ///
    /// A chunk was lost, doubled or reordered, or follows the end.
    pub(crate) fn receive(&mut self, chunk: &Value) -> Result<Option<NewChunk>, String> {
        let seq = chunk["seq"].as_u64().unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        chunk.to_string().hash(&mut hasher);
        let hash = hasher.finish();
        if seq <= self.last_seq {
            let index = usize::try_from(seq).ok().and_then(|seq| seq.checked_sub(1));
            let known = index.and_then(|index| self.hashes.get(index));
            let is_same = known == Some(&hash);
            let problem = || format!("another chunk has the number of an earlier one: {chunk}");
            return if is_same { Ok(None) } else { Err(problem()) };
        }
        if self.has_ended {
            return Err(format!("a chunk follows eos: {chunk}"));
        }
        if seq != self.last_seq + 1 {
            return Err(format!("chunks after {} are missing: {chunk}", self.last_seq));
        }
        let received = self.check_contents(chunk);
        let received = received.map_err(|problem| format!("{problem}: {chunk}, {self:?}"))?;
        self.last_seq = seq;
        self.hashes.push(hash);
        Ok(Some(received))
    }

    fn check_contents(&mut self, chunk: &Value) -> Result<NewChunk, String> {
        let (kind, data) = (chunk["chunkType"].as_str().unwrap_or_default(), &chunk["data"]);
        if self.has_outcome && kind != "eos" {
            return Err("only eos follows the outcome".to_owned());
        }
        match kind {
            "progress" => {
                let number = data["progress"].as_f64().unwrap_or_default() as u64;
                self.last_progress = self.check_next(self.last_progress, number, 1)?;
                Ok(NewChunk::Data)
            }
            "log" if data["logger"] == "corelane" => {
                self.dropped += data["data"]["dropped"].as_u64().ok_or("no number")?;
                Ok(NewChunk::Data)
            }
            "log" => {
                let number = data["data"]["step"].as_u64().unwrap_or_default();
                let step = match self.request {
                    Some((_, Work::Emit { log_every, .. })) => log_every.into(),
                    _ => 0,
                };
                self.last_log = self.check_next(self.last_log, number, step)?;
                // The progress before it may be among the dropped chunks.
                if number < self.last_progress || number > self.last_progress + self.dropped {
                    return Err(format!("it belongs behind progress {number}"));
                }
                Ok(NewChunk::Data)
            }
            "result" => {
                self.has_outcome = true;
                self.check_result(data)?;
                Ok(NewChunk::Result)
            }
            "error" => {
                self.has_outcome = true;
                Ok(NewChunk::Error(data.clone()))
            }
            "eos" => self.check_end(chunk["reason"].as_str().unwrap_or_default()),
            _ => Err("no server sends it here".to_owned()),
        }
    }

    /// Returns `number` if it follows `last` by `step`, or what is missing was dropped; a `step` of
    /// 0 allows for more.
    fn check_next(&mut self, last: u64, number: u64, step: u64) -> Result<u64, String> {
        let problem = || format!("{number} does not follow {last}");
        if number <= last || (number - last).checked_rem(step).is_some_and(|rest| rest > 0) {
            return Err(problem());
        }
        let missing = (number - last).checked_div(step).map_or(0, |steps| steps - 1);
        self.dropped = self.dropped.checked_sub(missing).ok_or_else(problem)?;
        Ok(number)
    }

    fn check_result(&self, data: &Value) -> Result<(), String> {
        let Some((id, work)) = &self.request else { return Ok(()) };
        if !work.is_result(id, data) {
            return Err(format!("not the result of {work:?}"));
        }
        match *work {
            Work::Emit { count, .. } if u64::from(count) > self.last_progress + self.dropped => {
                Err(format!("the result comes after progress {}", self.last_progress))
            }
            _ => Ok(()),
        }
    }

    fn check_end(&mut self, reason: &str) -> Result<NewChunk, String> {
        self.has_ended = true;
        let is_right = match reason {
            "completed" | "error" => self.has_outcome,
            "cancelled" => self.is_cancelled && !self.has_outcome,
            _ => false,
        };
        if is_right { Ok(NewChunk::End) } else { Err(format!("wrong reason {reason}")) }
    }
}
