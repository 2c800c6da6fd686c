//! Frames and descriptors over a Unix socket. A frame is its length in four bytes, then its bytes.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Bytes of a frame, at most: more than the kernel allows for arguments and environment.
pub(crate) const FRAME_BYTES_MAX: usize = 8 << 20;
/// Bytes of the length of a frame.
pub(crate) const LEN_BYTES: usize = 4;
/// Descriptors of a frame, at most.
pub(crate) const DESCRIPTORS_MAX: usize = 3;
/// Bytes that are received at once.
const RECV_BYTES: usize = 4 << 10;

/// Sends `bytes` with `descriptors`, of which there are [`DESCRIPTORS_MAX`] at most, and returns
/// how many bytes were sent; the descriptors go with the first.
pub(crate) fn send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let slices = [IoSlice::new(bytes)];
    loop {
        let sent =
            rustix::net::sendmsg(&socket, &slices, &mut control, flags | SendFlags::NOSIGNAL);
        if sent != Err(Errno::INTR) {
            return sent;
        }
    }
}

/// What was received and not yet read.
#[derive(Debug, Default)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Received {
    /// Receives once, and returns the number of bytes: 0 at the end of the stream. The descriptors
    /// of one frame at most are received with it; those that this process has no room for are
    /// missing.
    pub(crate) fn receive(&mut self, socket: impl AsFd, flags: RecvFlags) -> Result<usize, Errno> {
        let mut buf = [0; RECV_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received =
            rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut buf)], &mut control, flags)?;
        self.bytes.extend_from_slice(&buf[..received.bytes]);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        Ok(received.bytes)
    }

    /// Returns whether a whole frame is there.
    pub(crate) fn has_frame(&self) -> bool {
        self.frame_len().is_some_and(|len| self.bytes.len() >= LEN_BYTES + len)
    }

    /// Returns whether the next frame is longer than any that is sent.
    pub(crate) fn is_invalid(&self) -> bool {
        self.frame_len().is_some_and(|len| len > FRAME_BYTES_MAX)
    }

    /// Takes the next frame, without its length.
    pub(crate) fn take_frame(&mut self) -> Option<Vec<u8>> {
        if !self.has_frame() {
            return None;
        }
        let end = LEN_BYTES + self.frame_len()?;
        let rest = self.bytes.split_off(end);
        let mut frame = std::mem::replace(&mut self.bytes, rest);
        frame.drain(..LEN_BYTES);
        Some(frame)
    }

    /// Takes the next descriptor.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    fn frame_len(&self) -> Option<usize> {
        let len = *self.bytes.first_chunk::<LEN_BYTES>()?;
        usize::try_from(u32::from_le_bytes(len)).ok()
    }
}
