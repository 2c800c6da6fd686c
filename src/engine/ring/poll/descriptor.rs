//! One descriptor and how it may be read and written without blocking its shard.
//!
//! Sockets that the ring owns, and pipes, are set to `O_NONBLOCK`. That flag belongs to the open
//! file, not to the descriptor, so it shows in every process that shares it: a terminal is shared
//! with the shell and with standard error, and would break both. What is not ours alone is
//! therefore left as it is:
//!
//! - A **socket** that came as standard input or output (some hosts spawn their servers with
//!   socket pairs) is asked per call with `MSG_DONTWAIT`.
//! - A **pipe** does get the flag, and gets it back when it is closed: its end is held by one
//!   process in practice, the flag of one end does not touch the other, and without it every pipe
//!   buffer of 64 KiB would take one wait for each of its pages.
//! - A **terminal** is read once for each time that it is ready, which cannot block, and written
//!   in pieces smaller than what it takes when it says that it is writable.
//! - A **file** has no readiness at all (`epoll` refuses it): it counts as always ready, and
//!   reading it may wait for the disk. So does `/dev/null`.
//!
//! It knows no ring: who waits for what is decided elsewhere.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, Shutdown};

/// What stands behind a descriptor, as far as reading and writing differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// A regular file, or a device without readiness.
    File,
    /// A pipe that has `O_NONBLOCK`; `is_restored` where it must lose it again at the end.
    Pipe { is_restored: bool },
    /// A socket of the ring's own, with `O_NONBLOCK`.
    Socket,
    /// A socket that others may share, without it.
    SharedSocket,
    /// A terminal or another device that is left as it came.
    Terminal,
}

/// An open descriptor with its [`Kind`]; closes it when dropped.
#[derive(Debug)]
pub(super) struct Descriptor {
    fd: OwnedFd,
    kind: Kind,
}

/// How far a read or a write went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
    /// Nothing more will ever be read.
    End,
    /// This many bytes, and nothing speaks against more.
    More(usize),
    /// This many bytes; wait for readiness before the next try.
    Wait(usize),
}

impl Descriptor {
    /// A stream socket that only this ring has.
    pub(super) fn socket(fd: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&fd, true)?;
        silence(&fd)?;
        Ok(Self { fd, kind: Kind::Socket })
    }

    /// Whatever came as a pipe: standard input and output most of the time.
    pub(super) fn pipe(fd: OwnedFd) -> io::Result<Self> {
        let mode = fstat(&fd)?.st_mode;
        let kind = match FileType::from_raw_mode(mode) {
            FileType::Fifo => {
                let flags = fcntl_getfl(&fd)?;
                let is_restored = !flags.contains(OFlags::NONBLOCK);
                if is_restored {
                    fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
                }
                Kind::Pipe { is_restored }
            }
            FileType::Socket => {
                silence(&fd)?;
                Kind::SharedSocket
            }
            FileType::CharacterDevice => Kind::Terminal,
            _ => Kind::File,
        };
        Ok(Self { fd, kind })
    }

    /// What it is.
    #[inline]
    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// The poller refused to watch it: from here on it counts as always ready.
    pub(super) fn become_file(&mut self) {
        self.kind = Kind::File;
    }

    /// Whether it may be written without being told first that it is writable.
    #[inline]
    pub(super) fn is_written_at_once(&self) -> bool {
        self.kind != Kind::Terminal
    }

    /// Reads what is there into `bytes`, which has room. A read that filled less than all of it has
    /// emptied the source and says [`Progress::Wait`].
    #[inline]
    pub(super) fn read(&self, bytes: &mut [u8]) -> io::Result<Progress> {
        let room = bytes.len();
        let taken = match self.kind {
            Kind::Socket => rustix::net::recv(&self.fd, bytes, RecvFlags::empty()),
            Kind::SharedSocket => rustix::net::recv(&self.fd, bytes, RecvFlags::DONTWAIT),
            Kind::Pipe { .. } | Kind::Terminal | Kind::File => {
                rustix::io::read(&self.fd, bytes).map(|length| (length, length))
            }
        };
        match taken {
            Ok((0, _)) => Ok(Progress::End),
            Ok((length, _)) if self.kind == Kind::File => Ok(Progress::More(length)),
            Ok((length, _)) if length < room || self.kind == Kind::Terminal => {
                Ok(Progress::Wait(length))
            }
            Ok((length, _)) => Ok(Progress::More(length)),
            // Readiness stays until it is used up, so an interrupted read comes again by itself.
            Err(Errno::AGAIN | Errno::INTR) => Ok(Progress::Wait(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes as much of `bytes`, which are some, as goes without blocking. [`Progress::More`] only
    /// where all of it went, or where it is a file that is written.
    #[inline]
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<Progress> {
        let taken = retry_on_intr(|| match self.kind {
            Kind::Socket => rustix::net::send(&self.fd, bytes, SEND),
            Kind::SharedSocket => rustix::net::send(&self.fd, bytes, SEND | SendFlags::DONTWAIT),
            Kind::Pipe { .. } | Kind::File => rustix::io::write(&self.fd, bytes),
            Kind::Terminal => {
                rustix::io::write(&self.fd, &bytes[..bytes.len().min(TERMINAL_PIECE_BYTES)])
            }
        });
        match taken {
            Ok(0) if self.kind == Kind::File => Err(io::ErrorKind::WriteZero.into()),
            Ok(length) if length == bytes.len() || self.kind == Kind::File => {
                Ok(Progress::More(length))
            }
            Ok(length) => Ok(Progress::Wait(length)),
            Err(Errno::AGAIN) => Ok(Progress::Wait(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the sending half of a socket; anything else has no halves and is left alone.
    pub(super) fn finish(&self) {
        if matches!(self.kind, Kind::Socket | Kind::SharedSocket) {
            // A refusal means that the connection is gone already, which reading will tell.
            rustix::net::shutdown(&self.fd, Shutdown::Write).ok();
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.kind == (Kind::Pipe { is_restored: true })
            && let Ok(flags) = fcntl_getfl(&self.fd)
        {
            // The pipe goes back as it came; where that fails there is nobody left to tell.
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

/// Has a socket answer a write after the peer's end with an error instead of a signal, where that
/// is a property of the socket. Pipes have no such thing: there it is the runtime of Rust that
/// ignores `SIGPIPE`, and a program that restores it must expect the signal.
#[cfg(target_vendor = "apple")]
fn silence(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_nosigpipe(fd, true)?)
}

/// The same where it is a property of each send: see [`SEND`].
#[cfg(not(target_vendor = "apple"))]
#[expect(clippy::unnecessary_wraps, reason = "its twin for the other systems can fail")]
const fn silence(_fd: &OwnedFd) -> io::Result<()> {
    Ok(())
}

/// The flags of every send.
#[cfg(target_vendor = "apple")]
const SEND: SendFlags = SendFlags::empty();
/// The flags of every send.
#[cfg(not(target_vendor = "apple"))]
const SEND: SendFlags = SendFlags::NOSIGNAL;

/// The most that is written to a terminal at once. A writable terminal has room for at least 256
/// bytes in the drivers of Linux (`WAKEUP_CHARS`), so that a write of this size does not block.
const TERMINAL_PIECE_BYTES: usize = 256;
