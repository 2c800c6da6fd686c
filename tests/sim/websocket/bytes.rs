//! Encoding of WebSocket frames (RFC 6455, section 5.2), as a client writes and a server must.

use corelane_base::random::Random;

/// Bits of the first byte of a frame.
pub(crate) const FINAL: u8 = 0x80;
pub(crate) const CONTINUATION: u8 = 0x0;
pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xa;

/// Encodes a frame of a client, masked with a random key.
pub(crate) fn masked(first: u8, payload: &[u8], random: &mut Random) -> Vec<u8> {
    let key = if random.chance(1, 8) { [0; 4] } else { draw_key(random) };
    let mut bytes = header(first, payload.len());
    bytes.extend(key);
    bytes.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

/// Encodes the header of a client's frame, without its masking key.
pub(crate) fn header(first: u8, length: usize) -> Vec<u8> {
    let mut bytes = unmasked_header(first, length);
    bytes[1] |= MASKED;
    bytes
}

/// Encodes a frame of a server.
pub(crate) fn unmasked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = unmasked_header(first, payload.len());
    bytes.extend(payload);
    bytes
}

fn unmasked_header(first: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![first];
    if let Ok(short) = u8::try_from(length)
        && short < LENGTH_16
    {
        bytes.push(short);
    } else if let Ok(medium) = u16::try_from(length) {
        bytes.push(LENGTH_16);
        bytes.extend(medium.to_be_bytes());
    } else {
        bytes.push(LENGTH_64);
        bytes.extend((length as u64).to_be_bytes());
    }
    bytes
}

fn draw_key(random: &mut Random) -> [u8; 4] {
    let [a, b, c, d, ..] = random.next_u64().to_le_bytes();
    [a, b, c, d]
}

/// Removes the first complete frame of a server from `bytes`; returns its first byte and payload.
///
/// # Errors
///
/// The frame is masked, or its length is not encoded minimally.
pub(crate) fn take_frame(bytes: &mut Vec<u8>) -> Result<Option<(u8, Vec<u8>)>, String> {
    if let Some(second) = bytes.get(1)
        && second & MASKED != 0
    {
        return Err("a frame of the server is masked".to_owned());
    }
    let Some((start, length)) = payload_range(bytes) else { return Ok(None) };
    if unmasked_header(bytes[0], length).len() != start {
        return Err(format!("a length of {length} is not encoded minimally"));
    }
    if bytes.len() < start + length {
        return Ok(None);
    }
    let frame: Vec<u8> = bytes.drain(..start + length).collect();
    Ok(Some((frame[0], frame[start..].to_vec())))
}

/// Returns where the payload of the first frame begins and its length, once that has arrived.
fn payload_range(bytes: &[u8]) -> Option<(usize, usize)> {
    let short = bytes.get(1)? & !MASKED;
    let (start, length) = match short {
        LENGTH_16 => (4, u64::from(u16::from_be_bytes(*bytes.get(2..4)?.first_chunk()?))),
        LENGTH_64 => (10, u64::from_be_bytes(*bytes.get(2..10)?.first_chunk()?)),
        short => (2, u64::from(short)),
    };
    Some((start, usize::try_from(length).ok()?))
}

/// Second byte: the payload is masked.
const MASKED: u8 = 0x80;
/// Values of the length field that announce two and eight more bytes.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;
