//! One session of the scripted server: requests, streams, cancellation.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use corelane_base::time::Instant;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::messages::{
    error, error_message, error_response, feature_of, has_feature, intersect, invalid,
    own_capabilities, response, result_of,
};
use super::mutation::Mutation;

/// What a connection writes.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    Message(Value),
    /// No message follows.
    Close(u16),
}

/// Progress chunks of the tool `slow`.
const STEPS: u32 = 250;

/// A session and the connection that it is attached to.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) is_ready: bool,
    pub(crate) capabilities: Value,
    /// Where chunks go.
    pub(crate) output: Option<Sender<Output>>,
    pub(crate) ack: Value,
    /// The last message of the client, or the last time at which the session was busy.
    pub(crate) last_active: Instant,
    /// It began over HTTP, so that no connection carries it.
    pub(crate) is_http: bool,
    /// The connection of its event stream.
    pub(crate) event_stream: Option<u64>,
    mutation: Mutation,
    keys: BTreeMap<String, Option<String>>,
    streams: BTreeMap<String, Stream>,
    running: Vec<Running>,
    /// Steps after which the first intersection stays.
    exchange_steps: u32,
    /// Steps without an announced exchange of capabilities.
    waiting_steps: u32,
    /// A stream was cancelled.
    has_cancelled: bool,
    /// Chunks of the event stream, in order: stream and index.
    sent_events: Vec<(String, usize)>,
    /// Those that the next event stream begins with.
    missed_events: Vec<(String, usize)>,
}

#[derive(Default)]
struct Stream {
    chunks: Vec<Value>,
    sent: usize,
    /// Where chunks go instead.
    output: Option<Sender<Output>>,
}

/// A call of the tool `slow`.
struct Running {
    id: Value,
    stream: Option<String>,
    output: Sender<Output>,
    steps: u32,
}

impl Session {
    pub(crate) fn new(
        id: String,
        mutation: Mutation,
        capabilities: Value,
        exchange_steps: u32,
        now: Instant,
    ) -> Self {
        Self {
            id,
            is_ready: false,
            capabilities,
            output: None,
            ack: Value::Null,
            last_active: now,
            is_http: false,
            event_stream: None,
            mutation,
            keys: BTreeMap::new(),
            streams: BTreeMap::new(),
            running: Vec::new(),
            exchange_steps,
            waiting_steps: 0,
            has_cancelled: false,
            sent_events: Vec::new(),
            missed_events: Vec::new(),
        }
    }

    /// Returns whether it must not end though its client is silent.
    pub(crate) fn is_busy(&self) -> bool {
        let counts = |running: &Running| match self.mutation {
            Mutation::BusyRequestEnded => running.stream.is_some(),
            Mutation::BusyStreamEnded => running.stream.is_none(),
            _ => true,
        };
        let has_events =
            self.event_stream.is_some() && self.mutation != Mutation::BusyEventStreamEnded;
        self.running.iter().any(counts) || has_events
    }

    /// Handles a message; `reply` is where its answer goes. `takes_chunks` sends the chunks of a
    /// stream there too.
    pub(crate) fn handle(&mut self, message: &Value, reply: &Sender<Output>, takes_chunks: bool) {
        let send = |message: Value| {
            reply.send(Output::Message(message)).ok();
        };
        match message["type"].as_str() {
            Some("handshake") if self.mutation == Mutation::SecondHandshakeAccepted => {
                send(self.ack.clone());
            }
            Some("handshake") => send(error_message(&self.state_error("sendHandshake"))),
            Some("capabilities") if !self.is_ready => self.refine(message, reply),
            Some("capabilities") => send(error_message(&self.state_error("sendCaps"))),
            Some("request") => self.request(message, reply, takes_chunks),
            Some("cancel") => self.cancel(message, reply),
            Some("keepalive") => self.keepalive(message, reply),
            Some("no.such.type") => send(error_message(&self.unknown_type())),
            _ => send(error_message(&invalid(-32600, "invalid type"))),
        }
    }

    fn keepalive(&self, message: &Value, reply: &Sender<Output>) {
        let answer = match self.mutation {
            Mutation::KeepaliveAnswered => message.clone(),
            Mutation::KeepaliveBeforeExchangeRejected if !self.is_ready => {
                error_message(&self.state_error("recvKeepalive"))
            }
            Mutation::KeepaliveWhileCancelingRejected if self.has_cancelled => {
                error_message(&self.state_error("recvKeepalive"))
            }
            _ => return,
        };
        reply.send(Output::Message(answer)).ok();
    }

    fn unknown_type(&self) -> Value {
        let mut error = invalid(-32600, "unknown type");
        match self.mutation {
            Mutation::UnknownErrorCode => error["code"] = json!("error.unknown_type"),
            Mutation::RetryableMissing => {
                error.as_object_mut().unwrap().remove("retryable");
            }
            _ => {}
        }
        error
    }

    fn state_error(&self, event: &str) -> Value {
        let mut error = error("feature_not_available", "not in this state");
        if self.mutation != Mutation::DetailsMissing {
            let state = if self.is_ready { "Ready" } else { "HandshakeAcked" };
            error["details"] = json!({"state": state, "event": event});
        }
        error
    }

    fn refine(&mut self, message: &Value, reply: &Sender<Output>) {
        let own = match self.mutation {
            Mutation::WidenedRefinement => own_capabilities(),
            _ => self.capabilities.clone(),
        };
        let refined = intersect(&own, &message["capabilities"]);
        if !has_feature(&refined) {
            let error = error("feature_not_available", "no common feature");
            reply.send(Output::Message(error_message(&error))).ok();
            reply.send(Output::Close(1008)).ok();
            return;
        }
        self.is_ready = true;
        self.capabilities = refined.clone();
        let ack = json!({"type": "capabilitiesAck", "capabilities": refined});
        reply.send(Output::Message(ack)).ok();
    }

    fn request(&mut self, request: &Value, reply: &Sender<Output>, takes_chunks: bool) {
        let id = &request["id"];
        let answer = match self.check_request(request) {
            Err(error) if error["code"] == "error.payload_too_large" => {
                return self.reject_too_large(id, &error, reply);
            }
            Err(error) if id.is_string() || id.is_i64() => error_response(id, &error),
            Err(error) => error_message(&error),
            Ok(()) => match self.start(request, reply, takes_chunks) {
                None => return,
                Some(answer) => answer,
            },
        };
        reply.send(Output::Message(answer)).ok();
    }

    fn reject_too_large(&self, id: &Value, error: &Value, reply: &Sender<Output>) {
        let is_own_limit =
            self.capabilities["maxPayloadBytes"] == own_capabilities()["maxPayloadBytes"];
        let answer = match self.mutation {
            Mutation::TooLargeWithoutId => error_message(error),
            _ => error_response(id, error),
        };
        reply.send(Output::Message(answer)).ok();
        let code = match self.mutation {
            Mutation::TooLargeOpen if !is_own_limit => return,
            Mutation::TooLargeForServerOpen if is_own_limit => return,
            Mutation::TooLargeCloseCode if !is_own_limit => 1000,
            _ => 1009,
        };
        reply.send(Output::Close(code)).ok();
    }

    fn check_request(&mut self, request: &Value) -> Result<(), Value> {
        let (id, method) = (&request["id"], request["method"].as_str());
        let is_early = !self.is_ready && self.mutation != Mutation::AnswerBeforeReady;
        let limit = |name: &str| self.capabilities[name].as_u64().unwrap_or(u64::MAX);
        if is_early {
            return Err(self.state_error("sendRequest"));
        }
        if !(id.is_string() || id.is_i64()) {
            return Err(invalid(-32600, "invalid id"));
        }
        let Some(method) = method else { return Err(invalid(-32600, "no method")) };
        let bytes = request.to_string().len() as u64;
        if bytes > limit("maxPayloadBytes") && self.mutation != Mutation::PayloadLimitIgnored {
            return Err(error("payload_too_large", "too many bytes"));
        }
        let is_allowed = |flag: &str| {
            self.capabilities[flag] == true || self.mutation == Mutation::FeatureNotEnforced
        };
        let needed = feature_of(method);
        let is_stream = request["stream"] == true;
        if needed.is_some_and(|flag| !is_allowed(flag)) || is_stream && !is_allowed("streaming") {
            return Err(error("feature_not_available", "not in the intersection"));
        }
        let is_free = (self.running.len() as u64) < limit("maxConcurrent");
        if !is_free && self.mutation != Mutation::ConcurrencyIgnored {
            let mut error = error("rate_limited", "too many requests");
            if self.mutation != Mutation::RetryAfterMissing {
                error["retryAfter"] = json!(1);
            }
            return Err(error);
        }
        match request["idempotencyKey"].as_str() {
            Some(key) => self.check_key(key),
            None => Ok(()),
        }
    }

    fn check_key(&mut self, key: &str) -> Result<(), Value> {
        if key.is_empty() || key.len() > 128 {
            return Err(invalid(-32600, "invalid key"));
        }
        let Some(hash) = self.keys.get(key) else {
            self.keys.insert(key.to_owned(), None);
            return Ok(());
        };
        if self.mutation == Mutation::KeyRunTwice {
            return Ok(());
        }
        let mut error = error("already_processed", "the key was used");
        if let Some(hash) = hash {
            error["details"] = json!({"resultHash": hash});
        }
        Err(error)
    }

    /// Runs a request and returns its response, unless it follows later.
    fn start(
        &mut self,
        request: &Value,
        reply: &Sender<Output>,
        takes_chunks: bool,
    ) -> Option<Value> {
        let (id, method) = (&request["id"], request["method"].as_str().unwrap_or_default());
        let is_slow = method == "tools/call" && request["params"]["name"] == "slow";
        let mut result = result_of(method, &request["params"]);
        if method == "tools/list" && self.mutation == Mutation::ListsDiffer {
            result = Ok(json!({"tools": [{"name": self.id, "inputSchema": {}}]}));
        }
        if request["stream"] == true && (is_slow || result.is_ok()) {
            let stream = format!("{}-s{}", self.id, self.streams.len() + 1);
            let output = takes_chunks.then(|| reply.clone());
            self.streams.insert(stream.clone(), Stream { output, ..Stream::default() });
            let opened = response(id, &json!({"streamId": stream}));
            reply.send(Output::Message(opened)).ok();
            match result {
                _ if is_slow => self.run(id, Some(stream), reply),
                result => self.finish_stream(&stream, &result.unwrap_or_default()),
            }
            return None;
        }
        if is_slow {
            self.run(id, None, reply);
            return None;
        }
        match result {
            Ok(result) => {
                self.store_hash(request, &result);
                Some(self.response(request, &result, reply))
            }
            Err(mut error) => {
                let is_unknown = error["code"] == "error.feature_not_available";
                if is_unknown && self.mutation == Mutation::RetryableWrong {
                    error["retryable"] = json!(true);
                }
                Some(error_response(id, &error))
            }
        }
    }

    fn response(&mut self, request: &Value, result: &Value, reply: &Sender<Output>) -> Value {
        let mut answer = response(&request["id"], result);
        match self.mutation {
            Mutation::WrongIdType if answer["id"].is_string() => answer["id"] = json!(7777),
            Mutation::TwoResponses => {
                reply.send(Output::Message(answer.clone())).ok();
            }
            Mutation::ResultAndError => answer["error"] = error("internal", "both"),
            _ => {}
        }
        answer
    }

    fn store_hash(&mut self, request: &Value, result: &Value) {
        let Some(key) = request["idempotencyKey"].as_str() else { return };
        let text = match self.mutation {
            Mutation::ResultHashWrong => "other".to_owned(),
            _ => result.to_string(),
        };
        let digest = Sha256::digest(text.as_bytes());
        let hash = digest
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .filter_map(|digit| char::from_digit(digit.into(), 16))
            .collect();
        self.keys.insert(key.to_owned(), Some(hash));
    }

    fn run(&mut self, id: &Value, stream: Option<String>, reply: &Sender<Output>) {
        let output = reply.clone();
        self.running.push(Running { id: id.clone(), stream, output, steps: 0 });
    }

    fn finish_stream(&mut self, stream: &str, result: &Value) {
        let mut result = result.clone();
        if self.mutation == Mutation::ResultOfStreamDiffers && result["tools"].is_array() {
            result = json!({"tools": []});
        }
        if self.mutation != Mutation::ResultChunkMissing {
            self.push(stream, &json!({"chunkType": "result", "data": result}));
        }
        if self.mutation != Mutation::EosMissing {
            self.push(stream, &json!({"chunkType": "eos", "reason": "completed"}));
        }
        if self.mutation == Mutation::ChunkAfterEos {
            self.push(stream, &json!({"chunkType": "log", "data": "late"}));
        }
    }

    /// Appends a chunk to a stream and delivers it.
    fn push(&mut self, name: &str, rest: &Value) {
        let Some(stream) = self.streams.get_mut(name) else { return };
        let mut seq = stream.chunks.len() + 1;
        let is_last = rest["chunkType"] == "eos";
        match self.mutation {
            Mutation::SeqFromZero if is_last || rest["chunkType"] == "result" => seq -= 1,
            Mutation::SeqWithGap if is_last => seq += 1,
            _ => {}
        }
        let mut chunk = json!({"type": "stream.chunk", "streamId": name, "seq": seq});
        for (member, value) in rest.as_object().into_iter().flatten() {
            chunk[member] = value.clone();
        }
        stream.chunks.push(chunk);
        self.deliver(name);
    }

    fn deliver(&mut self, name: &str) {
        let Some(stream) = self.streams.get_mut(name) else { return };
        let Some(output) = stream.output.as_ref().or(self.output.as_ref()) else { return };
        while let Some(chunk) = stream.chunks.get(stream.sent) {
            if output.send(Output::Message(chunk.clone())).is_err() {
                return;
            }
            if stream.output.is_none() {
                self.sent_events.push((name.to_owned(), stream.sent));
            }
            stream.sent += 1;
        }
    }

    /// Has the next event stream continue behind this event. Returns the streams with their next
    /// `seq`, or why that is not possible; `None` if the event is ignored.
    pub(crate) fn continue_after(&mut self, event: &str) -> Option<Result<Value, &'static str>> {
        let (name, seq) = event.rsplit_once(':').unwrap_or_default();
        let seq: usize = seq.parse().unwrap_or_default();
        let Some(stream) = self.streams.get_mut(name) else {
            let is_ignored = self.mutation == Mutation::UnknownEventIdIgnored;
            return (!is_ignored).then_some(Err("unknown_stream"));
        };
        let is_post = stream.output.take().is_some();
        let mut missed = if is_post {
            let missed = (seq..stream.chunks.len()).map(|index| (name.to_owned(), index));
            stream.sent = stream.chunks.len();
            missed.collect()
        } else {
            let sent = self.sent_events.iter().position(|it| it.0 == name && it.1 + 1 == seq);
            self.sent_events.split_off(sent? + 1)
        };
        match (self.mutation, is_post) {
            (Mutation::EventIdIgnored, false) | (Mutation::PostEventIdIgnored, true) => {
                return None;
            }
            (Mutation::EventIdLosesChunk, false) | (Mutation::PostEventIdLosesChunk, true) => {
                missed = missed.split_off(missed.len().min(1));
            }
            (Mutation::EventIdRepeatsChunk, false) | (Mutation::PostEventIdRepeatsChunk, true) => {
                missed.insert(0, (name.to_owned(), seq.saturating_sub(1)));
            }
            (Mutation::EventIdUnordered, false) | (Mutation::PostEventIdUnordered, true) => {
                missed.reverse();
            }
            _ => {}
        }
        self.missed_events = missed;
        Some(Ok(json!([{"streamId": name, "nextSeq": seq + 1}])))
    }

    /// Attaches another connection, and sends it the chunks that it has not received.
    pub(crate) fn attach(&mut self, output: Sender<Output>) {
        for (name, index) in std::mem::take(&mut self.missed_events) {
            let chunk = self.streams[&name].chunks[index].clone();
            output.send(Output::Message(chunk)).ok();
            self.sent_events.push((name, index));
        }
        self.output = Some(output);
        let names: Vec<String> = self.streams.keys().cloned().collect();
        for name in &names {
            self.deliver(name);
        }
    }

    /// Continues the streams of `last_ack_seq`. Returns why that is not possible, if so.
    pub(crate) fn resume(&mut self, last_ack_seq: &Value) -> Result<Value, &'static str> {
        let named = last_ack_seq.as_object();
        for (name, seq) in named.into_iter().flatten() {
            let stream = self.streams.get(name).ok_or("unknown_stream")?;
            if seq.as_u64().is_none_or(|seq| seq > stream.chunks.len() as u64) {
                return Err("stale_window");
            }
        }
        let mut streams = Vec::new();
        for (name, stream) in &mut self.streams {
            let last = last_ack_seq[name].as_u64().unwrap_or_default();
            stream.sent = usize::try_from(last).unwrap_or_default();
            stream.output = None;
            streams.push(json!({"streamId": name, "nextSeq": last + 1}));
            if self.mutation == Mutation::ResumeFromWrongSeq {
                stream.sent = stream.sent.saturating_sub(1);
            }
        }
        self.output = None;
        Ok(Value::Array(streams))
    }

    fn cancel(&mut self, cancel: &Value, reply: &Sender<Output>) {
        let answer = |error: Value| {
            reply.send(Output::Message(error_message(&error))).ok();
        };
        if self.capabilities["cancellation"] != true {
            return answer(error("feature_not_available", "not in the intersection"));
        }
        let (id, stream) = (cancel.get("id"), cancel["streamId"].as_str());
        if id.is_some() == stream.is_some() {
            return answer(invalid(-32600, "one target"));
        }
        if self.mutation == Mutation::CancelIgnored {
            return;
        }
        let is_target = |running: &Running| {
            Some(&running.id) == id || stream.is_some() && running.stream.as_deref() == stream
        };
        let Some(index) = self.running.iter().position(is_target) else {
            if self.mutation == Mutation::UnknownCancelAnswered {
                answer(invalid(-32600, "not in flight"));
            }
            return;
        };
        self.has_cancelled = true;
        let Running { id, stream, output, .. } = self.running.swap_remove(index);
        match stream {
            Some(_) if self.mutation == Mutation::TerminalFrameMissing => {}
            Some(stream) => self.push(&stream, &json!({"chunkType": "eos", "reason": "cancelled"})),
            None => {
                let mut error = error("internal", "cancelled");
                error["details"] = json!({"reason": "cancelled"});
                output.send(Output::Message(error_response(&id, &error))).ok();
            }
        }
    }

    /// Makes a step of each running call.
    pub(crate) fn step(&mut self) {
        self.waiting_steps += 1;
        self.is_ready |= self.waiting_steps > self.exchange_steps;
        let kind = match self.mutation {
            Mutation::UnknownChunkType => "progressing",
            _ => "progress",
        };
        for mut running in std::mem::take(&mut self.running) {
            running.steps += 1;
            let is_done = running.steps > STEPS;
            let result = json!({"content": [{"type": "text", "text": "done"}]});
            match &running.stream {
                Some(stream) if is_done => self.finish_stream(stream, &result),
                Some(stream) => {
                    let data = json!({"progress": running.steps});
                    self.push(stream, &json!({"chunkType": kind, "data": data}));
                }
                None if is_done => {
                    let response = response(&running.id, &result);
                    running.output.send(Output::Message(response)).ok();
                }
                None => {}
            }
            if !is_done {
                self.running.push(running);
            }
        }
    }
}
