//! Compressed messages (RFC 7692): agreed on where the server is told to, and bounded.

use std::net::TcpStream;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use serde_json::Value;

use crate::messages::{echo, expect_error, modern, text};
use crate::peer::{CONTINUATION, FINAL, Peer, TEXT, frame, handshake};
use crate::stage::{Stage, over_each_ring};
use corelane::server::Options;

/// The bit of a frame that says that its message is compressed.
const COMPRESSED: u8 = 0x40;

fn deflated(text: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut out = Vec::with_capacity(text.len() + 64);
    compress.compress_vec(text, &mut out, FlushCompress::Sync).expect("a text");
    out.truncate(out.len() - 4);
    out
}

fn inflated(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(1 << 20);
    let bytes = [bytes, &[0, 0, 0xff, 0xff]].concat();
    let mut decompress = Decompress::new(false);
    decompress.decompress_vec(&bytes, &mut out, FlushDecompress::Sync).expect("deflated");
    String::from_utf8(out).expect("UTF-8")
}

fn open(stage: &Stage) -> Peer {
    let request = handshake().field("Sec-WebSocket-Extensions", "permessage-deflate");
    let stream = TcpStream::connect(stage.address()).expect("a connection");
    let (head, peer) = Peer::upgrade(stream, &request.bytes());
    let agreed = head.field("Sec-WebSocket-Extensions").expect("an extension");
    assert!(agreed.starts_with("permessage-deflate"), "{agreed}");
    peer
}

/// The next message, which is compressed where it is long.
fn heard(peer: &mut Peer) -> Value {
    let frame = peer.frame().expect("a message");
    let text = if frame.header().rsv1 {
        inflated(frame.payload())
    } else {
        frame.to_text().expect("UTF-8").to_owned()
    };
    serde_json::from_str(&text).expect("JSON")
}

fn deflating(options: &mut Options) {
    options.websocket.deflate = true;
    options.limits.message_bytes_max = 1 << 20;
}

#[test]
fn messages_are_compressed_both_ways_where_both_sides_want_it() {
    over_each_ring(|mut options| {
        deflating(&mut options);
        let stage = Stage::open(options);
        let mut peer = open(&stage);
        let message = "again and again, ".repeat(500);
        for id in 0..3 {
            let call = modern(echo(id, &message)).to_string();
            let bytes = deflated(call.as_bytes());
            peer.send(FINAL | COMPRESSED | TEXT, &bytes);
            let frame = peer.frame().expect("a message");
            assert!(frame.header().rsv1 && frame.payload().len() < 500, "{frame}");
            let answer: Value = serde_json::from_str(&inflated(frame.payload())).expect("JSON");
            assert_eq!(text(&answer), message);
        }
        // In fragments, of which only the first says so; and one that is not compressed.
        let call = modern(echo(3, &message)).to_string();
        let bytes = deflated(call.as_bytes());
        let (first, second) = bytes.split_at(bytes.len() / 2);
        peer.send_bytes(&frame(COMPRESSED | TEXT, first));
        peer.send_bytes(&frame(FINAL | CONTINUATION, second));
        assert_eq!(text(&heard(&mut peer)), message);
        peer.send(FINAL | TEXT, modern(echo(4, "plain")).to_string().as_bytes());
        assert_eq!(text(&heard(&mut peer)), "plain");
        // Several texts in one, of which one is no JSON.
        let lines = format!("{}\n{{\n{}", modern(echo(5, "a")), modern(echo(6, "b")));
        peer.send(FINAL | COMPRESSED | TEXT, &deflated(lines.as_bytes()));
        assert_eq!(text(&heard(&mut peer)), "a");
        expect_error(&heard(&mut peer), -32700, None);
        assert_eq!(text(&heard(&mut peer)), "b");
        peer.close(1000);
        // Who does not ask for it is not given any.
        let mut plain = Peer::open(stage.address());
        assert_eq!(text(&plain.ask(&modern(echo(1, &message)))), message);
        plain.close(1000);
        stage.close();
    });
}

#[test]
fn what_inflates_too_far_or_not_at_all_ends_its_connection() {
    over_each_ring(|mut options| {
        deflating(&mut options);
        let far = options.clone();
        options.websocket.deflate_ratio_max = 2_000;
        let stage = Stage::open(options);
        let spaces = |bytes: usize| deflated(&vec![b' '; bytes]);
        let not_utf8 = deflated(b"\"\xff\"");
        for (payload, code) in
            [(spaces(2 << 20), 1009), (b"\xff\xff\xff\xff".to_vec(), 1007), (not_utf8, 1007)]
        {
            let mut peer = open(&stage);
            peer.send(FINAL | COMPRESSED | TEXT, &payload);
            peer.expect_close(code);
        }
        let counters = stage.close();
        let closed = counters.websockets;
        assert_eq!((closed.closed_too_big, closed.closed_invalid), (1, 2), "{counters}");
        let stage = Stage::open(far);
        let mut peer = open(&stage);
        peer.send(FINAL | COMPRESSED | TEXT, &spaces(900 << 10));
        peer.expect_close(1008);
        let counters = stage.close();
        assert_eq!(counters.websockets.closed_policy, 1, "{counters}");
    });
}
