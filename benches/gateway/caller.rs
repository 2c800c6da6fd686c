//! One client of a product: its handshake, and requests of which one is in flight.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use corelane_base::time::Instant;
use corelane_bench_support::client_group::{BenchClient, Received};
use corelane_bench_support::requests::{
    self, Era, FIRST_ID, INITIALIZE, INITIALIZED, MESSAGE_BYTES, META, RequestTemplate,
};
use hdrhistogram::Histogram;
use memchr::{memchr, memmem};
use serde_json::Value;

use crate::http_reply::HttpReply;

const LATENCY_NANOSECONDS_MAX: u64 = 60_000_000_000;

/// How clients speak to a product.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    /// Messages on lines, over TCP.
    Lines,
    /// Streamable HTTP at this path.
    Http(&'static str),
    /// A POST request for each call, without MCP.
    Rest(&'static str),
}

/// What clients request again and again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Method {
    Call,
    List,
}

/// What all clients of a group do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) transport: Transport,
    pub(crate) era: Era,
    pub(crate) method: Method,
    /// Name of the echo tool there.
    pub(crate) tool: &'static str,
    pub(crate) host: SocketAddr,
}

/// What the clients of a group have in common while they run.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Whether each response is followed by the next request.
    pub(crate) is_looping: Cell<bool>,
    pub(crate) answered: Cell<u64>,
    /// Nanoseconds from a request to its response.
    pub(crate) latency: RefCell<Histogram<u64>>,
}

impl Shared {
    pub(crate) fn new() -> io::Result<Rc<Self>> {
        let latency = Histogram::new_with_bounds(1, LATENCY_NANOSECONDS_MAX, 3);
        Ok(Rc::new(Self {
            is_looping: Cell::new(false),
            answered: Cell::new(0),
            latency: RefCell::new(latency.map_err(io::Error::other)?),
        }))
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Initialize,
    Initialized,
    FirstRequest,
    Ready,
}

/// A client of one connection.
#[derive(Debug)]
pub(crate) struct Caller {
    plan: Plan,
    shared: Rc<Shared>,
    step: Step,
    session: String,
    revision: String,
    request: Option<RequestTemplate>,
    next_id: Cell<u64>,
    sent_at: Cell<Option<Instant>>,
    arrived: Vec<u8>,
}

impl Caller {
    pub(crate) fn new(plan: Plan, shared: &Rc<Shared>) -> Self {
        let has_handshake =
            plan.era == Era::Legacy && !matches!(plan.transport, Transport::Rest(_));
        Self {
            plan,
            shared: Rc::clone(shared),
            step: if has_handshake { Step::Initialize } else { Step::FirstRequest },
            session: String::new(),
            revision: String::new(),
            request: None,
            next_id: Cell::new(FIRST_ID),
            sent_at: Cell::new(None),
            arrived: Vec::new(),
        }
    }

    /// Returns the next request.
    pub(crate) fn request(&self) -> Vec<u8> {
        let made;
        let template = if let Some(template) = &self.request {
            template
        } else {
            made = self.template();
            &made
        };
        let mut buffer = template.repeat(1);
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        if !matches!(self.plan.transport, Transport::Rest(_)) {
            template.set_id(&mut buffer, 0, id);
        }
        buffer
    }

    fn template(&self) -> RequestTemplate {
        let Plan { transport, era, method, tool, host } = self.plan;
        let message = requests::message(MESSAGE_BYTES);
        let (name, tool, text) = match method {
            Method::Call => {
                let text = requests::echo_call(era, &message);
                let text = text.replace("\"echo\"", &format!("\"{tool}\""));
                ("tools/call", Some(tool), text)
            }
            Method::List => ("tools/list", None, list_request(era)),
        };
        RequestTemplate::new(match transport {
            Transport::Lines => format!("{text}\n"),
            Transport::Http(_) if era == Era::Legacy => self.post(&self.fields(), &text),
            Transport::Http(_) => self.post(&requests::modern_fields(name, tool), &text),
            Transport::Rest(path) => {
                let text = format!("{{\"message\":\"{message}\"}}");
                requests::post(host, "", &text).replacen("/mcp", path, 1)
            }
        })
    }

    /// The header fields of a request in the session.
    fn fields(&self) -> String {
        let fields = requests::legacy_fields(&self.session);
        let fields = fields.replace("2025-11-25", &self.revision);
        if self.session.is_empty() { fields.replace("Mcp-Session-Id: \r\n", "") } else { fields }
    }

    fn post(&self, fields: &str, text: &str) -> String {
        let Transport::Http(path) = self.plan.transport else { return text.to_owned() };
        requests::post(self.plan.host, fields, text).replacen("/mcp", path, 1)
    }

    /// Takes the next response, without the head of HTTP.
    fn take_reply(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.plan.transport == Transport::Lines {
            let Some(end) = memchr(b'\n', &self.arrived) else { return Ok(None) };
            return Ok(Some(self.arrived.drain(..=end).collect()));
        }
        let Some(reply) = HttpReply::read(&self.arrived)? else { return Ok(None) };
        self.arrived.drain(..reply.bytes);
        let wanted = if self.step == Step::Initialized { 202 } else { 200 };
        if reply.status != wanted {
            let body = String::from_utf8_lossy(&reply.body).into_owned();
            return Err(io::Error::other(format!("status {}: {body}", reply.status)));
        }
        let json = reply.json().to_vec();
        if let Some(session) = reply.session {
            self.session = session;
        }
        Ok(Some(json))
    }

    /// Checks the response to the last request; the first one is read in full.
    fn check(&self, reply: &[u8]) -> io::Result<()> {
        let message = requests::message(MESSAGE_BYTES);
        let expected = match self.plan.method {
            Method::Call => message.as_str(),
            Method::List => "\"tools\":[{",
        };
        let id = (self.next_id.get() - 1).to_string();
        let is_rest = matches!(self.plan.transport, Transport::Rest(_));
        let is_first = self.step != Step::Ready;
        let is_error = is_first && serde_json::from_slice::<Value>(reply)?.get("error").is_some();
        let has_id = is_rest || memmem::find(reply, id.as_bytes()).is_some();
        if has_id && !is_error && memmem::find(reply, expected.as_bytes()).is_some() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&reply[..reply.len().min(512)]);
        Err(io::Error::other(format!("wrong response to request {id}: {text}")))
    }

    fn negotiated(&mut self, reply: &[u8]) -> io::Result<Vec<u8>> {
        let reply: Value = serde_json::from_slice(reply)?;
        let revision = reply.pointer("/result/protocolVersion").and_then(Value::as_str);
        let no_revision = || io::Error::other(format!("no protocolVersion: {reply}"));
        revision.ok_or_else(no_revision)?.clone_into(&mut self.revision);
        if self.plan.transport == Transport::Lines {
            self.step = Step::FirstRequest;
            return Ok([INITIALIZED.as_bytes(), &self.request()].concat());
        }
        self.step = Step::Initialized;
        Ok(self.post(&self.fields(), INITIALIZED).into_bytes())
    }
}

impl BenchClient for Caller {
    fn first_message(&self) -> Vec<u8> {
        match (self.step, self.plan.transport) {
            (Step::Initialize, Transport::Lines) => INITIALIZE.into(),
            (Step::Initialize, _) => self.post("", INITIALIZE).into(),
            _ => self.request(),
        }
    }

    fn receive(&mut self, arrived: &[u8], now: Instant) -> io::Result<Received> {
        self.arrived.extend_from_slice(arrived);
        let Some(reply) = self.take_reply()? else { return Ok(Received::Incomplete) };
        match self.step {
            Step::Initialize => return Ok(Received::Send(self.negotiated(&reply)?)),
            Step::Initialized => {
                self.step = Step::FirstRequest;
                return Ok(Received::Send(self.request()));
            }
            Step::FirstRequest => {
                self.check(&reply)?;
                self.step = Step::Ready;
                return Ok(Received::Ready);
            }
            Step::Ready => self.check(&reply)?,
        }
        let shared = &self.shared;
        shared.answered.set(shared.answered.get() + 1);
        if let Some(sent_at) = self.sent_at.take() {
            let span = u64::try_from(now.since(sent_at).as_nanos()).unwrap_or(u64::MAX);
            shared.latency.borrow_mut().saturating_record(span);
        }
        if !shared.is_looping.get() {
            return Ok(Received::Responses(1));
        }
        if self.request.is_none() {
            self.request = Some(self.template());
        }
        self.sent_at.set(Some(now));
        Ok(Received::Send(self.request()))
    }
}

fn list_request(era: Era) -> String {
    let meta = match era {
        Era::Legacy => "",
        // Without its leading comma.
        Era::Modern => &META[1..],
    };
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{FIRST_ID},\"method\":\"tools/list\",\"params\":{{{meta}}}}}"
    )
}
