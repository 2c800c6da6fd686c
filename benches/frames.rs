//! What a message costs in frames, by this codec and by tungstenite's: nanoseconds to read and
//! write one of 200 bytes.
//!
//! ```text
//! cargo bench --bench frames
//! ```
//!
//! One thread, bytes in memory, no road between: a masked text message of a client arrives (it is
//! copied into the place of arrivals, as a kernel would), and goes out again as a frame of the
//! server. Both work as they do in a server: this codec unmasks the message where it lies and
//! leaves its UTF-8 to the parser of JSON, with `codec and UTF-8` it looks itself; tungstenite
//! reads from a stream in memory, hands out a checked message and is given the same one to send,
//! which costs it no copy of its own. Its buffer for reading is as large as it is by default
//! (128 KiB, which it clears for a read) and, in a row of its own, 4 KiB. Messages arrive one by
//! one or sixteen at once; they take turns, three rounds each, so that a machine that changes its
//! pace shows it.

use std::hint::black_box;
use std::io::{self, Read, Write};

use corelane::transport::websocket::limits::FrameLimits;
use corelane::transport::websocket::reader::{FrameReader, Next};
use corelane::transport::websocket::{utf8, writer};
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
            let mut own = Own::new();
            group.bench_function(BenchmarkId::new("codec", round), |bencher| {
                bencher.iter(|| own.echo(&arrivals, false));
            });
            group.bench_function(BenchmarkId::new("codec and UTF-8", round), |bencher| {
                bencher.iter(|| own.echo(&arrivals, true));
            });
            let default = WebSocketConfig::default();
            for (name, config) in [
                ("tungstenite", default),
                ("tungstenite, 4 KiB", default.read_buffer_size(4 << 10)),
            ] {
                let mut other = Other::new(config);
                group.bench_function(BenchmarkId::new(name, round), |bencher| {
                    bencher.iter(|| other.echo(&arrivals, depth));
                });
            }
        }
        group.finish();
    }
    criterion.final_summary();
}

/// A text message of a client.
fn frame() -> Vec<u8> {
    let key = [0x37, 0xfa, 0x21, 0x3d];
    let text = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#;
    let text = text.iter().chain(std::iter::repeat(&b' ')).take(MESSAGE_BYTES);
    let mut frame = vec![0x81, 0xfe, 0, 200];
    frame.extend_from_slice(&key);
    frame.extend(text.zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

/// This codec.
struct Own {
    reader: FrameReader,
    arrival: Vec<u8>,
    out: Vec<u8>,
}

impl Own {
    fn new() -> Self {
        Self { reader: FrameReader::new(), arrival: Vec::new(), out: Vec::new() }
    }

    fn echo(&mut self, arrivals: &[u8], looks: bool) {
        self.arrival.clear();
        self.arrival.extend_from_slice(black_box(arrivals));
        self.out.clear();
        let limits = FrameLimits::default();
        let mut from = 0;
        while let Next::Inside { start, end, .. } =
            self.reader.next(&mut self.arrival, &mut from, &limits, Vec::new)
        {
            let text = &self.arrival[start..end];
            assert!(!looks || utf8::is_text(text));
            let mark = writer::begin(&mut self.out);
            self.out.extend_from_slice(text);
            writer::end(&mut self.out, mark);
        }
        black_box(&self.out);
    }
}

/// The other one.
struct Other {
    socket: WebSocket<Memory>,
}

impl Other {
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
