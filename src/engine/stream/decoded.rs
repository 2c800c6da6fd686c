//! Decoded bytes that do not fit the receive buffer of the encoded ones.

use crate::ring::{PADDING, ReceiveBuffer};

/// First index of these buffers; no ring has as many receive buffers.
const FIRST: u16 = 1 << 15;
/// Buffers that keep their memory for later bytes.
const SPARE_BUFFERS_MAX: u16 = 16;

/// Buffers that the owner holds like those of the ring.
#[derive(Debug, Default)]
pub(super) struct DecodedBuffers {
    buffers: Vec<Vec<u8>>,
    free: Vec<u16>,
}

impl DecodedBuffers {
    /// Takes decoded bytes, unless there are none; leaves an empty buffer.
    pub(super) fn insert(&mut self, decoded: &mut Vec<u8>) -> Option<ReceiveBuffer> {
        let len = u32::try_from(decoded.len()).ok().filter(|len| *len > 0)?;
        let place = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(Vec::new());
            u16::try_from(self.buffers.len() - 1).unwrap_or(u16::MAX)
        });
        decoded.resize(decoded.len() + PADDING, 0);
        std::mem::swap(&mut self.buffers[usize::from(place)], decoded);
        decoded.clear();
        Some(ReceiveBuffer { index: FIRST + place, len })
    }

    /// Returns the bytes and padding of a buffer, unless it is the ring's.
    pub(super) fn bytes(&mut self, buffer: &ReceiveBuffer) -> Option<&mut [u8]> {
        let place = buffer.index.checked_sub(FIRST)?;
        self.buffers.get_mut(usize::from(place)).map(Vec::as_mut_slice)
    }

    /// Takes a buffer back, unless it is the ring's.
    pub(super) fn release(&mut self, buffer: ReceiveBuffer) -> Result<(), ReceiveBuffer> {
        let Some(place) = buffer.index.checked_sub(FIRST) else { return Err(buffer) };
        if let Some(decoded) = self.buffers.get_mut(usize::from(place)) {
            decoded.clear();
            if place >= SPARE_BUFFERS_MAX {
                *decoded = Vec::new();
            }
            self.free.push(place);
        }
        Ok(())
    }
}
