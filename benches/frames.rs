//! Time to read and write a WebSocket message of 200 bytes, with this codec and with tungstenite.
//!
//! ```text
//! cargo bench --bench frames
//! ```
//!
//! One thread, bytes in memory, no request processing: a masked text message of a client is copied
//! into the receive buffer, as by the kernel, and echoed as a server frame. Both work as in a
//! server: this codec unmasks in place and leaves the UTF-8 check to the JSON parser (`codec and
//! UTF-8` includes it); tungstenite reads from a stream in memory and returns a checked message,
//! which is sent back without a copy. Its read buffer has the default size (128 KiB, cleared for
//! each read) or 4 KiB. One or sixteen messages arrive at once. The codecs alternate in three
//! rounds, which shows a drift of the machine.

use std::hint::black_box;
use std::io::{self, Read, Write};

use corelane_transport::websocket::limits::FrameLimits;
use corelane_transport::websocket::reader::{FrameEvent, FrameReader};
use corelane_transport::websocket::{utf8, writer};
use criterion::{BenchmarkId, Criterion, Throughput};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};

const MESSAGE_BYTES: usize = 200;
const ROUNDS: usize = 3;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for depth in [1, 16] {
        let arrivals = frame().repeat(depth);
        let mut group = criterion.benchmark_group(format!("frames, {depth} at once"));
        group.throughput(Throughput::Elements(depth as u64));
        for round in 1..=ROUNDS {
            let mut corelane = Corelane::new();
            group.bench_function(BenchmarkId::new("codec", round), |bencher| {
                bencher.iter(|| corelane.echo(&arrivals, false));
            });
            group.bench_function(BenchmarkId::new("codec and UTF-8", round), |bencher| {
                bencher.iter(|| corelane.echo(&arrivals, true));
            });
            let default = WebSocketConfig::default();
            for (name, config) in [
                ("tungstenite", default),
                ("tungstenite, 4 KiB", default.read_buffer_size(4 << 10)),
            ] {
                let mut tungstenite = Tungstenite::new(config);
                group.bench_function(BenchmarkId::new(name, round), |bencher| {
                    bencher.iter(|| tungstenite.echo(&arrivals, depth));
                });
            }
        }
        group.finish();
    }
    criterion.final_summary();
}

/// Returns a masked text frame.
fn frame() -> Vec<u8> {
    let key = [0x37, 0xfa, 0x21, 0x3d];
    let text = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#;
    let text = text.iter().chain(std::iter::repeat(&b' ')).take(MESSAGE_BYTES);
    let mut frame = vec![0x81, 0xfe, 0, 200];
    frame.extend_from_slice(&key);
    frame.extend(text.zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

/// The codec of Corelane.
struct Corelane {
    reader: FrameReader,
    arrival: Vec<u8>,
    out: Vec<u8>,
}

impl Corelane {
    fn new() -> Self {
        Self { reader: FrameReader::new(), arrival: Vec::new(), out: Vec::new() }
    }

    fn echo(&mut self, arrivals: &[u8], checks_utf8: bool) {
        self.arrival.clear();
        self.arrival.extend_from_slice(black_box(arrivals));
        self.out.clear();
        let limits = FrameLimits::default();
        let mut from = 0;
        while let FrameEvent::InPlace { start, end, .. } =
            self.reader.next(&mut self.arrival, &mut from, &limits, Vec::new)
        {
            let text = &self.arrival[start..end];
            assert!(!checks_utf8 || utf8::is_utf8(text));
            let mark = writer::begin_message(&mut self.out);
            self.out.extend_from_slice(text);
            writer::end_message(&mut self.out, mark);
        }
        black_box(&self.out);
    }
}

/// The codec of tungstenite.
struct Tungstenite {
    socket: WebSocket<Memory>,
}

impl Tungstenite {
    fn new(config: WebSocketConfig) -> Self {
        let memory = Memory { arrival: Vec::new(), read: 0, out: Vec::new() };
        Self { socket: WebSocket::from_raw_socket(memory, Role::Server, Some(config)) }
    }

    fn echo(&mut self, arrivals: &[u8], depth: usize) {
        let memory = self.socket.get_mut();
        memory.arrival.clear();
        memory.arrival.extend_from_slice(black_box(arrivals));
        memory.read = 0;
        memory.out.clear();
        for _ in 0..depth {
            match self.socket.read() {
                Ok(message @ Message::Text(_)) => assert!(self.socket.write(message).is_ok()),
                other => panic!("{other:?}"),
            }
        }
        assert!(self.socket.flush().is_ok());
        black_box(&self.socket.get_ref().out);
    }
}

/// A stream in memory.
struct Memory {
    arrival: Vec<u8>,
    read: usize,
    out: Vec<u8>,
}

impl Read for Memory {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (&self.arrival[self.read..]).read(buffer)?;
        self.read += length;
        Ok(length)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
