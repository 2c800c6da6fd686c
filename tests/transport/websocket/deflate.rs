//! Compressed messages: what is deflated inflates to the same, and what should not is refused.

use corelane::base::random::Random;
use corelane::transport::websocket::deflate::{Deflater, InflateLimits, Inflater};
use corelane::transport::websocket::fuzz::{self, Said};
use corelane::transport::websocket::limits::Fault;
use corelane::transport::websocket::reader::PADDING;
use corelane::transport::websocket::writer;
use flate2::{Compress, Compression, FlushCompress};

use super::{COMPRESSED, FINAL, LIMITS, TEXT, frame};

const PLENTY: InflateLimits = InflateLimits { message_bytes_max: 1 << 20, ratio_max: 2_000 };

/// A text as JSON has it: words that come again.
fn prose(random: &mut Random, words: usize) -> Vec<u8> {
    let known = ["\"jsonrpc\":", "\"2.0\",", "\"text\":", "{", "}", "κόσμε", "42", "[", "]"];
    (0..words).flat_map(|_| known[random.below(known.len())].bytes()).collect()
}

/// The payload of the one frame that a message becomes, and whether it is compressed.
fn sent(text: &[u8], deflater: &mut Deflater) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let mark = writer::begin(&mut out);
    out.extend_from_slice(text);
    writer::end_compressed(&mut out, mark, deflater);
    let is_compressed = out[0] & COMPRESSED != 0;
    assert_eq!(out[0] & !COMPRESSED, FINAL | TEXT);
    let header = [2, 4, 10][usize::from(out[1]).saturating_sub(125)];
    (out.split_off(header), is_compressed)
}

fn inflated(deflated: &[u8], limits: &InflateLimits) -> Result<Vec<u8>, Fault> {
    let mut out = b"what stood there".to_vec();
    let length = Inflater::new().inflate(deflated, &mut out, limits)?;
    assert!(out[length..].iter().eq(&[0; PADDING]), "padding is missing");
    out.truncate(length);
    Ok(out)
}

/// As a client compresses: the end of the stream without its four bytes.
fn deflated(text: &[u8], flush: FlushCompress) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * text.len() + 100);
    let mut compress = Compress::new(Compression::best(), false);
    compress.compress_vec(text, &mut out, flush).unwrap();
    out
}

#[test]
fn the_examples_of_the_standard_inflate_to_hello() {
    // RFC 7692, section 7.2.3: one block, no compression, a block that is the last, two blocks.
    for example in [
        &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
        &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
        &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
        &[0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
    ] {
        assert_eq!(inflated(example, &PLENTY).as_deref(), Ok(&b"Hello"[..]), "{example:x?}");
    }
    assert_eq!(inflated(&[0], &PLENTY), Ok(Vec::new()));
}

#[test]
fn what_is_deflated_inflates_to_the_same_in_every_window() {
    let mut random = Random::seeded(5);
    let mut deflater = Deflater::new();
    for window_bits in 9..=15 {
        for words in [60, 100, 1_000, 20_000] {
            let text = prose(&mut random, words);
            let (payload, is_compressed) = sent(&text, deflater.within(window_bits));
            assert!(is_compressed && payload.len() < text.len(), "{window_bits} {words}");
            let mut out = Vec::new();
            let mut inflater = flate2::Decompress::new_with_window_bits(false, window_bits);
            out.reserve(text.len() + 1);
            let input = [&payload[..], &[0, 0, 0xff, 0xff]].concat();
            inflater.decompress_vec(&input, &mut out, flate2::FlushDecompress::Sync).unwrap();
            assert_eq!(out, text, "{window_bits} {words}");
            assert_eq!(inflated(&payload, &PLENTY), Ok(text));
        }
    }
}

#[test]
fn a_message_that_would_not_become_shorter_goes_out_as_it_is() {
    let mut random = Random::seeded(7);
    let mut deflater = Deflater::default();
    let noise: Vec<u8> = (0..3_000).map(|_| b"0123456789abcdef"[random.below(16)]).collect();
    let (payload, is_compressed) = sent(&noise, &mut deflater);
    assert!(is_compressed && payload.len() < noise.len());
    let bytes: Vec<u8> = (0..3_000).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
    for text in [&bytes[..], b"", b"{}", &[b'a'; 64]] {
        assert_eq!(sent(text, &mut deflater), (text.to_vec(), false));
    }
}

#[test]
fn one_message_does_not_help_to_read_another() {
    let mut random = Random::seeded(11);
    let mut deflater = Deflater::new();
    let text = prose(&mut random, 300);
    let (first, _) = sent(&text, &mut deflater);
    let (second, _) = sent(&text, &mut deflater);
    assert_eq!(first, second);
    let (mut inflater, mut out) = (Inflater::default(), Vec::new());
    // A message that was refused does not spoil the next.
    assert_eq!(inflater.inflate(&[0xff, 0xff], &mut out, &PLENTY), Err(Fault::NOT_DEFLATED));
    for _ in 0..2 {
        let length = inflater.inflate(&first, &mut out, &PLENTY).unwrap();
        assert_eq!(out[..length], text);
    }
}

#[test]
fn a_client_may_flush_as_it_likes() {
    let text = prose(&mut Random::seeded(13), 500);
    for flush in [FlushCompress::Sync, FlushCompress::Full] {
        let whole = deflated(&text, flush);
        let payload = whole.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
        assert_eq!(inflated(payload, &PLENTY).as_ref(), Ok(&text));
    }
    let mut ended = deflated(&text, FlushCompress::Finish);
    assert_eq!(inflated(&ended, &PLENTY).as_ref(), Ok(&text));
    ended.push(0);
    assert_eq!(inflated(&ended, &PLENTY).as_ref(), Ok(&text));
    ended.push(b'x');
    assert_eq!(inflated(&ended, &PLENTY), Err(Fault::NOT_DEFLATED));
}

#[test]
fn inflating_stops_at_the_size_of_a_message() {
    let limits = InflateLimits { message_bytes_max: 1_000, ratio_max: 2_000 };
    for length in [999, 1_000, 1_001, 1_000_000] {
        let payload = deflated(&vec![b'a'; length], FlushCompress::Sync);
        let payload = payload.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
        let expected = if length <= 1_000 { Ok(length) } else { Err(Fault::TOO_BIG) };
        assert_eq!(inflated(payload, &limits).map(|text| text.len()), expected, "{length}");
    }
}

#[test]
fn inflating_stops_at_the_ratio_and_takes_no_more_memory_than_it_allows() {
    let payload = deflated(&vec![b'a'; 900_000], FlushCompress::Sync);
    let payload = payload.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
    let limits = InflateLimits { message_bytes_max: 1 << 20, ratio_max: 100 };
    let (mut inflater, mut out) = (Inflater::new(), Vec::new());
    let (result, peak) =
        crate::counting::peak_bytes(|| inflater.inflate(payload, &mut out, &limits));
    assert_eq!(result, Err(Fault::INFLATES_FAR));
    // A buffer that grows is held twice for a moment.
    assert!(peak <= 3 * payload.len() * 100, "{peak}");
    // A short message may become long by any ratio.
    let short = deflated(&vec![b'a'; 60_000], FlushCompress::Sync);
    let short = short.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
    assert!(short.len() < 600 && inflated(short, &limits).is_ok());
}

#[test]
fn any_bytes_inflate_or_are_refused() {
    let text = prose(&mut Random::seeded(17), 60);
    let good = deflated(&text, FlushCompress::Sync);
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
                assert!(length <= limits.message_bytes_max && out.len() == length + PADDING);
            }
            Err(fault) => {
                let known = [Fault::NOT_DEFLATED, Fault::TOO_BIG, Fault::INFLATES_FAR];
                assert!(known.contains(&fault), "seed {seed}");
            }
        }
    }
}

#[test]
fn a_compressed_message_is_handed_on_as_it_came() {
    let text = prose(&mut Random::seeded(19), 40);
    let payload = deflated(&text, FlushCompress::Sync);
    let payload = payload.strip_suffix(&[0, 0, 0xff, 0xff]).unwrap();
    let (start, end) = payload.split_at(payload.len() / 2);
    let whole = frame(FINAL | COMPRESSED | TEXT, payload);
    let fragments = [frame(COMPRESSED | TEXT, start), frame(FINAL, end)].concat();
    for stream in [whole, fragments] {
        let said = fuzz::stream(&stream, &[1], &LIMITS, true);
        assert_eq!(said, [Said::Compressed(payload.to_vec())]);
        assert_eq!(inflated(payload, &PLENTY).as_ref(), Ok(&text));
    }
}
