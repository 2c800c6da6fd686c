//! The rules that the messages of one connection keep together: ids, order, end of streams.

use std::collections::BTreeMap;

use serde_json::Value;

use super::rules::{Violation, check_message};

/// What was sent and received on a connection so far.
#[derive(Debug, Default)]
pub struct Trace {
    /// Chunks may precede the response that opens their stream: they use another connection.
    is_unordered: bool,
    expects_capabilities: bool,
    is_ready: bool,
    /// Ids of requests, with the number of their responses.
    requests: Vec<(Value, usize)>,
    streams: BTreeMap<String, StreamTrace>,
}

#[derive(Debug)]
struct StreamTrace {
    /// The next `seq`; `None` if the first one is not known, as after a resume from another
    /// connection.
    next: Option<u64>,
    has_ended: bool,
    /// No chunk has come since the stream was resumed.
    is_resumed: bool,
}

impl StreamTrace {
    const fn new(next: Option<u64>, is_resumed: bool) -> Self {
        Self { next, has_ended: false, is_resumed }
    }
}

impl Trace {
    /// Creates that of a new connection.
    pub fn new(is_unordered: bool) -> Self {
        Self { is_unordered, ..Self::default() }
    }

    /// Records a message that is sent.
    pub fn send(&mut self, message: &Value) {
        match message["type"].as_str() {
            Some("handshake") if !self.is_ready => {
                self.expects_capabilities = message["capabilitiesExchange"] == true;
                for (stream, seq) in message["lastAckSeq"].as_object().into_iter().flatten() {
                    let next = seq.as_u64().map(|seq| seq.saturating_add(1));
                    self.streams.insert(stream.clone(), StreamTrace::new(next, true));
                }
            }
            Some("request") => self.requests.push((message["id"].clone(), 0)),
            _ => {}
        }
    }

    /// Records that the connection is Ready without an acknowledgement.
    pub const fn set_ready(&mut self) {
        self.is_ready = true;
    }

    /// Records a message that is received, and returns the rules that it breaks.
    pub fn receive(&mut self, message: &Value) -> Vec<Violation> {
        let mut violations = check_message(message);
        match message["type"].as_str() {
            Some("handshakeAck") => {
                self.is_ready |= !self.expects_capabilities;
                self.receive_streams(message);
            }
            Some("capabilitiesAck") => self.is_ready = true,
            Some("response") => violations.extend(self.receive_response(message)),
            Some("stream.chunk") => violations.extend(self.receive_chunk(message)),
            _ => {}
        }
        violations
    }

    fn receive_streams(&mut self, ack: &Value) {
        if ack["resumed"] != true {
            self.streams.clear();
            return;
        }
        for stream in ack["streams"].as_array().into_iter().flatten() {
            let (Some(id), next) = (stream["streamId"].as_str(), stream["nextSeq"].as_u64()) else {
                continue;
            };
            let new = StreamTrace::new(next, true);
            self.streams.entry(id.to_owned()).or_insert(new);
        }
    }

    fn receive_response(&mut self, response: &Value) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut violate = |check, reason| violations.push(Violation { check, reason });
        let id = &response["id"];
        match (response.get("result"), response.get("error")) {
            (Some(_), Some(_)) => {
                let reason = format!("the response to {id} has both `result` and `error`");
                violate("requests.result_or_error", reason);
            }
            (None, None) => {
                let reason = format!("the response to {id} has neither `result` nor `error`");
                violate("requests.result_or_error", reason);
            }
            (Some(_), None) if !self.is_ready => {
                let reason = format!("a result for {id} before the connection was Ready");
                violate("states.request_before_ready", reason);
            }
            _ => {}
        }
        match self.requests.iter_mut().find(|(other, _)| other == id) {
            None => {
                violate("requests.id_matched", format!("a response to {id}, which was not sent"));
            }
            Some((_, responses)) => {
                *responses += 1;
                if *responses == 2 {
                    violate("requests.one_response", format!("a second response to {id}"));
                }
            }
        }
        if let Some(stream) = response["result"]["streamId"].as_str() {
            let new = StreamTrace::new(Some(1), false);
            self.streams.entry(stream.to_owned()).or_insert(new);
        }
        violations
    }

    fn receive_chunk(&mut self, chunk: &Value) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut violate = |check, reason| violations.push(Violation { check, reason });
        let (Some(id), Some(seq)) = (chunk["streamId"].as_str(), chunk["seq"].as_u64()) else {
            return violations;
        };
        if !self.is_unordered && !self.streams.contains_key(id) {
            let reason = format!("a chunk of the stream '{id}', which no response has opened");
            violate("streams.opened", reason);
        }
        let new = StreamTrace::new(Some(1), false);
        let stream = self.streams.entry(id.to_owned()).or_insert(new);
        if stream.has_ended {
            let reason = format!("chunk {seq} of the stream '{id}' after its `eos`");
            violate("streams.nothing_after_eos", reason);
        } else if let Some(next) = stream.next.filter(|next| *next != seq) {
            let check = match next {
                _ if stream.is_resumed => "resume.continues",
                1 => "streams.seq_from_one",
                _ => "streams.seq_increases",
            };
            violate(check, format!("the stream '{id}' has `seq` {seq} instead of {next}"));
        }
        stream.next = Some(seq.saturating_add(1));
        stream.is_resumed = false;
        stream.has_ended |= chunk["chunkType"] == "eos";
        violations
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ready() -> Trace {
        let mut trace = Trace::new(false);
        trace.set_ready();
        trace.send(&json!({"type": "request", "id": 1}));
        trace
    }

    fn checks(trace: &mut Trace, message: &Value) -> Vec<&'static str> {
        trace.receive(message).into_iter().map(|violation| violation.check).collect()
    }

    fn chunk(seq: u64, kind: &str) -> Value {
        json!({"type": "stream.chunk", "streamId": "s", "seq": seq, "chunkType": kind,
            "data": 1, "reason": "completed"})
    }

    #[test]
    fn second_response_and_foreign_id_are_found() {
        let mut trace = ready();
        let response = json!({"type": "response", "id": 1, "result": {}});
        assert!(checks(&mut trace, &response).is_empty());
        assert_eq!(checks(&mut trace, &response), ["requests.one_response"]);
        let other = json!({"type": "response", "id": "1", "result": {}});
        assert_eq!(checks(&mut trace, &other), ["requests.id_matched"]);
        let early = checks(&mut Trace::new(false), &response);
        assert_eq!(early, ["states.request_before_ready", "requests.id_matched"]);
    }

    #[test]
    fn order_of_chunks_is_checked() {
        let mut trace = ready();
        assert_eq!(checks(&mut trace, &chunk(1, "log")), ["streams.opened"]);
        assert!(checks(&mut trace, &chunk(2, "log")).is_empty());
        assert_eq!(checks(&mut trace, &chunk(4, "log")), ["streams.seq_increases"]);
        assert!(checks(&mut trace, &chunk(5, "eos")).is_empty());
        assert_eq!(checks(&mut trace, &chunk(6, "log")), ["streams.nothing_after_eos"]);
    }

    #[test]
    fn resumed_stream_continues_after_acknowledged_chunk() {
        let mut trace = Trace::new(false);
        trace.send(&json!({"type": "handshake", "lastAckSeq": {"s": 3}}));
        let ack = json!({"type": "handshakeAck", "resumed": true});
        trace.receive(&ack);
        let mut other = Trace::new(false);
        other.send(&json!({"type": "handshake", "lastAckSeq": {"s": 3}}));
        other.receive(&ack);
        assert_eq!(checks(&mut other, &chunk(3, "log")), ["resume.continues"]);
        assert!(checks(&mut trace, &chunk(4, "log")).is_empty());
        assert_eq!(checks(&mut trace, &chunk(4, "log")), ["streams.seq_increases"]);
    }
}
