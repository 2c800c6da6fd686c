//! A collector of traces that keeps what it receives (OTLP over HTTP).

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
pub use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::TIMEOUT;

/// A request as it was received.
#[derive(Debug)]
pub struct Export {
    /// Request line and fields.
    pub head: String,
    /// The body as it was sent.
    pub body: Vec<u8>,
    pub request: ExportTraceServiceRequest,
}

impl Export {
    /// Returns its spans.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        let resources = self.request.resource_spans.iter();
        resources.flat_map(|it| &it.scope_spans).flat_map(|scope| &scope.spans)
    }

    /// Returns an attribute of the service.
    pub fn resource_attribute(&self, key: &str) -> Option<String> {
        let resource = self.request.resource_spans.first()?.resource.as_ref()?;
        find(&resource.attributes, key)
    }
}

/// Returns an attribute of a span as text.
pub fn attribute(span: &Span, key: &str) -> Option<String> {
    find(&span.attributes, key)
}

fn find(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => panic!("{other:?}"),
    })
}

/// A collector on a free port. It ends with the process.
pub struct Collector {
    address: SocketAddr,
    exports: Receiver<Export>,
}

impl Collector {
    /// Starts a collector that accepts everything.
    pub fn start() -> Self {
        Self::responding([])
    }

    /// Starts a collector whose first responses have these statuses and further fields; later ones
    /// have status 200.
    pub fn responding<const N: usize>(first: [(u16, &str); N]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let first: VecDeque<(u16, String)> =
            first.into_iter().map(|(status, fields)| (status, fields.to_owned())).collect();
        let (exported, exports) = channel();
        thread::spawn(move || serve(&listener, first, &exported));
        Self { address, exports }
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of its endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/v1/traces", self.address)
    }

    /// Waits for the next request.
    #[track_caller]
    pub fn next_export(&self) -> Export {
        self.exports.recv_timeout(TIMEOUT).expect("spans are exported")
    }

    /// Waits for this many spans, and returns them in the order of their end.
    #[track_caller]
    pub fn receive(&self, count: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        while spans.len() < count {
            spans.extend(self.next_export().spans().cloned());
        }
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }

    /// Returns the requests that were received and not read yet.
    pub fn received(&self) -> Vec<Export> {
        self.exports.try_iter().collect()
    }
}

fn serve(listener: &TcpListener, mut first: VecDeque<(u16, String)>, exported: &Sender<Export>) {
    while let Ok((stream, _)) = listener.accept() {
        let (status, fields) = first.pop_front().unwrap_or_else(|| (200, String::new()));
        let Some(export) = read(&stream) else { continue };
        let response = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/x-protobuf\r\n{fields}\
             Content-Length: 0\r\n\r\n"
        );
        if (&stream).write_all(response.as_bytes()).is_err() || exported.send(export).is_err() {
            return;
        }
    }
}

fn read(stream: &TcpStream) -> Option<Export> {
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let request = ExportTraceServiceRequest::decode(&*body).expect("a request of OTLP");
    Some(Export { head, body, request })
}
