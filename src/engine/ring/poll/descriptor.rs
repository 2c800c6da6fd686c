//! Descriptors, and how to read and write each kind without blocking the shard.
//!
//! Sockets that the ring owns, and pipes, are set to `O_NONBLOCK`. The flag belongs to the open
//! file description, which other processes may share: a terminal is shared with the shell and with
//! standard error, and would break both. Shared descriptors are therefore handled differently:
//!
//! - A **socket** passed as standard input or output (some hosts spawn servers with socket pairs)
//!   is read and written with `MSG_DONTWAIT`.
//! - A **pipe** gets the flag, which is restored on close: its end is normally held by one process,
//!   the flag of one end does not affect the other, and without it a pipe buffer of 64 KiB would
//!   take one wait for each of its pages.
//! - A **terminal** is read once each time it is ready, which cannot block, and written in pieces
//!   smaller than the space it has when it is writable.
//! - A **file** has no readiness (`epoll` refuses it): it is treated as always ready, and reading
//!   it may wait for the disk. So is `/dev/null`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

/// The kind of file behind a descriptor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DescriptorKind {
    /// A regular file, or a device without readiness.
    File,
    /// A pipe with `O_NONBLOCK`; `is_restored` if the flag must be cleared on close.
    Pipe { is_restored: bool },
    /// A socket owned by the ring, with `O_NONBLOCK`.
    Socket,
    /// A possibly shared socket, without `O_NONBLOCK`.
    SharedSocket,
    /// A terminal or other device, unmodified.
    Terminal,
}

/// An open descriptor with its [`DescriptorKind`]; closes it when dropped.
#[derive(Debug)]
pub(super) struct Descriptor {
    fd: OwnedFd,
    kind: DescriptorKind,
}

/// How far a read or a write went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum IoProgress {
    /// End of file.
    End,
    /// This many bytes; more may be possible at once.
    More(usize),
    /// This many bytes; wait for readiness before the next attempt.
    Wait(usize),
}

impl Descriptor {
    /// Wraps a stream socket owned by the ring.
    pub(super) fn socket(fd: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&fd, true)?;
        disable_sigpipe(&fd)?;
        Ok(Self { fd, kind: DescriptorKind::Socket })
    }

    /// Wraps a descriptor passed as a pipe, such as standard input or output.
    pub(super) fn pipe(fd: OwnedFd) -> io::Result<Self> {
        let mode = fstat(&fd)?.st_mode;
        let kind = match FileType::from_raw_mode(mode) {
            FileType::Fifo => {
                let flags = fcntl_getfl(&fd)?;
                let is_restored = !flags.contains(OFlags::NONBLOCK);
                if is_restored {
                    fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
                }
                DescriptorKind::Pipe { is_restored }
            }
            FileType::Socket => {
                disable_sigpipe(&fd)?;
                DescriptorKind::SharedSocket
            }
            FileType::CharacterDevice => DescriptorKind::Terminal,
            _ => DescriptorKind::File,
        };
        Ok(Self { fd, kind })
    }

    #[inline]
    pub(super) const fn kind(&self) -> DescriptorKind {
        self.kind
    }

    /// Treats the descriptor as always ready, because the poller refused it.
    pub(super) fn treat_as_file(&mut self) {
        self.kind = DescriptorKind::File;
    }

    /// Returns whether a write may be attempted before the poller reports it writable.
    #[inline]
    pub(super) fn can_write_immediately(&self) -> bool {
        self.kind != DescriptorKind::Terminal
    }

    /// Reads into `bytes`, which is not empty. A read that did not fill it has emptied the source
    /// and returns [`IoProgress::Wait`].
    #[inline]
    pub(super) fn read(&self, bytes: &mut [u8]) -> io::Result<IoProgress> {
        let capacity = bytes.len();
        let result = match self.kind {
            DescriptorKind::Socket => rustix::net::recv(&self.fd, bytes, RecvFlags::empty()),
            DescriptorKind::SharedSocket => rustix::net::recv(&self.fd, bytes, RecvFlags::DONTWAIT),
            DescriptorKind::Pipe { .. } | DescriptorKind::Terminal | DescriptorKind::File => {
                rustix::io::read(&self.fd, bytes).map(|length| (length, length))
            }
        };
        match result {
            Ok((0, _)) => Ok(IoProgress::End),
            Ok((length, _)) if self.kind == DescriptorKind::File => Ok(IoProgress::More(length)),
            Ok((length, _)) if length < capacity || self.kind == DescriptorKind::Terminal => {
                Ok(IoProgress::Wait(length))
            }
            Ok((length, _)) => Ok(IoProgress::More(length)),
            // Readiness is level-triggered, so an interrupted read is retried.
            Err(Errno::AGAIN | Errno::INTR) => Ok(IoProgress::Wait(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes as much of `bytes`, which is not empty, as possible without blocking. Returns
    /// [`IoProgress::More`] only if all of it was written, or for a file.
    #[inline]
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<IoProgress> {
        let result = retry_on_intr(|| match self.kind {
            DescriptorKind::Socket => rustix::net::send(&self.fd, bytes, SEND_FLAGS),
            DescriptorKind::SharedSocket => {
                rustix::net::send(&self.fd, bytes, SEND_FLAGS | SendFlags::DONTWAIT)
            }
            DescriptorKind::Pipe { .. } | DescriptorKind::File => {
                rustix::io::write(&self.fd, bytes)
            }
            DescriptorKind::Terminal => {
                rustix::io::write(&self.fd, &bytes[..bytes.len().min(TERMINAL_WRITE_BYTES)])
            }
        });
        match result {
            Ok(0) if self.kind == DescriptorKind::File => Err(io::ErrorKind::WriteZero.into()),
            Ok(length) if length == bytes.len() || self.kind == DescriptorKind::File => {
                Ok(IoProgress::More(length))
            }
            Ok(length) => Ok(IoProgress::Wait(length)),
            Err(Errno::AGAIN) => Ok(IoProgress::Wait(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// Shuts down the write side of a socket; no effect on other kinds.
    pub(super) fn shutdown_write(&self) {
        if matches!(self.kind, DescriptorKind::Socket | DescriptorKind::SharedSocket) {
            // Fails only if the connection is gone, which a read reports.
            rustix::net::shutdown(&self.fd, Shutdown::Write).ok();
        }
    }

    /// Has the close reset the connection; no effect on what other processes may share.
    pub(super) fn reset_on_close(&self) {
        if self.kind == DescriptorKind::Socket {
            // Fails only if the descriptor is no socket.
            set_socket_linger(&self.fd, Some(Duration::ZERO)).ok();
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.kind == (DescriptorKind::Pipe { is_restored: true })
            && let Ok(flags) = fcntl_getfl(&self.fd)
        {
            // Restores the pipe's original flags; errors are ignored.
            fcntl_setfl(&self.fd, flags.difference(OFlags::NONBLOCK)).ok();
        }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Makes writes after the peer's end return an error instead of raising SIGPIPE, if that is a
/// socket option. Pipes have no such option: Rust's runtime ignores SIGPIPE, unless the program
/// restores it.
#[cfg(target_vendor = "apple")]
fn disable_sigpipe(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_nosigpipe(fd, true)?)
}

/// No effect: SIGPIPE is disabled for each send, see [`SEND_FLAGS`].
#[cfg(not(target_vendor = "apple"))]
#[expect(clippy::unnecessary_wraps, reason = "the variant for other systems can fail")]
const fn disable_sigpipe(_fd: &OwnedFd) -> io::Result<()> {
    Ok(())
}

/// Flags of every send.
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: SendFlags = SendFlags::empty();
/// Flags of every send.
#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;

/// The most bytes written to a terminal at once. A writable terminal has space for at least 256
/// bytes on Linux (`WAKEUP_CHARS`), so such a write does not block.
const TERMINAL_WRITE_BYTES: usize = 256;
