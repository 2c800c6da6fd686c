//! Message compression: round trips, limits and invalid input.

use crate::frames_fuzz::{FrameOutcome, check_stream};
use corelane_base::random::Random;
use corelane_protocol::json::PADDING_BYTES;
use corelane_transport::websocket::deflate::{Deflater, InflateLimits, Inflater};
use corelane_transport::websocket::limits::ProtocolError;
use corelane_transport::websocket::writer;
use flate2::{Compress, Compression, FlushCompress};

use super::{COMPRESSED, FINAL, LIMITS, TEXT, frame};

const GENEROUS_LIMITS: InflateLimits =
    InflateLimits { message_bytes_max: 1 << 20, ratio_max: 2_000 };

/// JSON-like text with repetitions.
fn json_like_text(random: &mut Random, words: usize) -> Vec<u8> {
    let known = ["\"jsonrpc\":", "\"2.0\",", "\"text\":", "{", "}", "κόσμε", "42", "[", "]"];
    (0..words).flat_map(|_| known[random.below(known.len())].bytes()).collect()
}

/// Writes a message. Returns its payload and whether it is compressed.
fn write_compressed(text: &[u8], deflater: &mut Deflater) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let mark = writer::begin_message(&mut out);
    out.extend_from_slice(text);
    writer::end_compressed_message(&mut out, mark, deflater);
    let is_compressed = out[0] & COMPRESSED != 0;
    assert_eq!(out[0] & !COMPRESSED, FINAL | TEXT);
    let header = [2, 4, 10][usize::from(out[1]).saturating_sub(125)];
    (out.split_off(header), is_compressed)
}

fn inflate_message(deflated: &[u8], limits: &InflateLimits) -> Result<Vec<u8>, ProtocolError> {
    let mut out = b"previous content".to_vec();
    let length = Inflater::new().inflate(deflated, &mut out, limits)?;
    assert!(out[length..].iter().eq(&[0; PADDING_BYTES]), "padding is missing");
    out.truncate(length);
    Ok(out)
}

/// Compresses like a client, with the trailing four bytes.
fn deflate_as_client(text: &[u8], flush: FlushCompress) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * text.len() + 100);
    let mut compress = Compress::new(Compression::best(), false);
    compress.compress_vec(text, &mut out, flush).unwrap();
    out
}

#[test]
fn rfc_7692_examples_inflate_to_hello() {
    // RFC 7692, section 7.2.3: one block, no compression, final block, two blocks.
    for example in [
        &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
        &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
        &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
        &[0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
    ] {
        assert_eq!(
            inflate_message(example, &GENEROUS_LIMITS).as_deref(),
            Ok(&b"Hello"[..]),
            "{example:x?}"
        );
    }
    assert_eq!(inflate_message(&[0], &GENEROUS_LIMITS), Ok(Vec::new()));
}

#[test]
fn deflated_text_inflates_with_every_window_size() {
    let mut random = Random::seeded(5);
    let mut deflater = Deflater::new();
    for window_bits in 9..=15 {
        for words in [60, 100, 1_000, 20_000] {
            let text = json_like_text(&mut random, words);
            let (payload, is_compressed) =
                write_compressed(&text, deflater.with_window_bits(window_bits));
            assert!(is_compressed && payload.len() < text.len(), "{window_bits} {words}");
            let mut out = Vec::new();
            let mut inflater = flate2::Decompress::new_with_window_bits(false, window_bits);
            out.reserve(text.len() + 1);
            let input = [&payload[..], &[0, 0, 0xff, 0xff]].concat();
            inflater.decompress_vec(&input, &mut out, flate2::FlushDecompress::Sync).unwrap();
            assert_eq!(out, text, "{window_bits} {words}");
            assert_eq!(inflate_message(&payload, &GENEROUS_LIMITS), Ok(text));
        }
    }
}

#[test]
fn incompressible_message_is_sent_uncompressed() {
    let mut random = Random::seeded(7);
    let mut deflater = Deflater::default();
    let noise: Vec<u8> = (0..3_000).map(|_| b"0123456789abcdef"[random.below(16)]).collect();
    let (payload, is_compressed) = write_compressed(&noise, &mut deflater);
    assert!(is_compressed && payload.len() < noise.len());
    let bytes: Vec<u8> = (0..3_000).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
    for text in [&bytes[..], b"", b"{}", &[b'a'; 64]] {
        assert_eq!(write_compressed(text, &mut deflater), (text.to_vec(), false));
    }
}

#[test]
fn deflate_keeps_no_context_between_messages() {
    let mut random = Random::seeded(11);
    let mut deflater = Deflater::new();
    let text = json_like_text(&mut random, 300);
    let (first, _) = write_compressed(&text, &mut deflater);
    let (second, _) = write_compressed(&text, &mut deflater);
    assert_eq!(first, second);
    let (mut inflater, mut out) = (Inflater::default(), Vec::new());
    // An invalid message does not affect the next.
    assert_eq!(
        inflater.inflate(&[0xff, 0xff], &mut out, &GENEROUS_LIMITS),
        Err(ProtocolError::INVALID_DEFLATE)
    );
    for _ in 0..2 {
        let length = inflater.inflate(&first, &mut out, &GENEROUS_LIMITS).unwrap();
        assert_eq!(out[..length], text);
    }
}

#[test]
fn client_may_use_any_flush_mode() {
    let text = json_like_text(&mut Random::seeded(13), 500);
    for flush in [FlushCompress::Sync, FlushCompress::Full] {
        let whole = deflate_as_client(&text, flush);
        let payload = whole.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
        assert_eq!(inflate_message(payload, &GENEROUS_LIMITS).as_ref(), Ok(&text));
    }
    let mut ended = deflate_as_client(&text, FlushCompress::Finish);
    assert_eq!(inflate_message(&ended, &GENEROUS_LIMITS).as_ref(), Ok(&text));
    ended.push(0);
    assert_eq!(inflate_message(&ended, &GENEROUS_LIMITS).as_ref(), Ok(&text));
    ended.push(b'x');
    assert_eq!(inflate_message(&ended, &GENEROUS_LIMITS), Err(ProtocolError::INVALID_DEFLATE));
}

#[test]
fn inflate_stops_at_the_message_limit() {
    let limits = InflateLimits { message_bytes_max: 1_000, ratio_max: 2_000 };
    for length in [999, 1_000, 1_001, 1_000_000] {
        let payload = deflate_as_client(&vec![b'a'; length], FlushCompress::Sync);
        let payload = payload.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
        let expected =
            if length <= 1_000 { Ok(length) } else { Err(ProtocolError::MESSAGE_TOO_BIG) };
        assert_eq!(inflate_message(payload, &limits).map(|text| text.len()), expected, "{length}");
    }
}

#[test]
fn inflate_stops_at_the_ratio_limit() {
    let payload = deflate_as_client(&vec![b'a'; 900_000], FlushCompress::Sync);
    let payload = payload.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
    let limits = InflateLimits { message_bytes_max: 1 << 20, ratio_max: 100 };
    let (mut inflater, mut out) = (Inflater::new(), Vec::new());
    let (result, peak) = corelane_test_support::alloc_counter::peak_bytes(|| {
        inflater.inflate(payload, &mut out, &limits)
    });
    assert_eq!(result, Err(ProtocolError::INFLATE_RATIO));
    // A growing buffer is allocated twice for a moment.
    assert!(peak <= 3 * payload.len() * 100, "{peak}");
    // The ratio is not checked for short messages.
    let short = deflate_as_client(&vec![b'a'; 60_000], FlushCompress::Sync);
    let short = short.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
    assert!(short.len() < 600 && inflate_message(short, &limits).is_ok());
}

#[test]
fn random_bytes_inflate_or_fail() {
    let text = json_like_text(&mut Random::seeded(17), 60);
    let good = deflate_as_client(&text, FlushCompress::Sync);
    let good = good.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
    let limits = InflateLimits { message_bytes_max: 10_000, ratio_max: 10 };
    let (mut inflater, mut out) = (Inflater::new(), Vec::new());
    for seed in 0..4_000 {
        let mut random = Random::seeded(seed);
        let mut payload = good.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(payload.len());
            payload[at] = u8::try_from(random.below(256)).unwrap();
        }
        payload.truncate(random.below(payload.len() + 1));
        match inflater.inflate(&payload, &mut out, &limits) {
            Ok(length) => {
                assert!(length <= limits.message_bytes_max && out.len() == length + PADDING_BYTES);
            }
            Err(fault) => {
                let known = [
                    ProtocolError::INVALID_DEFLATE,
                    ProtocolError::MESSAGE_TOO_BIG,
                    ProtocolError::INFLATE_RATIO,
                ];
                assert!(known.contains(&fault), "seed {seed}");
            }
        }
    }
}

#[test]
fn compressed_message_is_passed_on_unchanged() {
    let text = json_like_text(&mut Random::seeded(19), 40);
    let payload = deflate_as_client(&text, FlushCompress::Sync);
    let payload = payload.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
    let (start, end) = payload.split_at(payload.len() / 2);
    let whole = frame(FINAL | COMPRESSED | TEXT, payload);
    let fragments = [frame(COMPRESSED | TEXT, start), frame(FINAL, end)].concat();
    for stream in [whole, fragments] {
        let outcomes = check_stream(&stream, &[1], &LIMITS, true);
        assert_eq!(outcomes, [FrameOutcome::Compressed(payload.to_vec())]);
        assert_eq!(inflate_message(payload, &GENEROUS_LIMITS).as_ref(), Ok(&text));
    }
}
