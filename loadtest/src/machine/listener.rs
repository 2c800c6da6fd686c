//! The listener of a server on this machine, with its backlog and the open files of its process.
//!
//! The backlog is that of `sock_diag(7)`: `/proc/net/tcp` does not have it, and takes long with
//! many connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;

/// A TCP listener; one for each thread at the same address is one listener.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listener {
    /// Its address.
    pub address: SocketAddr,
    /// Connections that may wait to be accepted.
    pub backlog_max: u64,
    /// Its process, if it was searched for and this user may see it.
    pub process: Option<ListenerProcess>,
}

/// The process of a listener.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListenerProcess {
    /// Process id.
    pub pid: u32,
    /// Name of the program, at most 15 bytes.
    pub name: String,
    /// Open files.
    pub open_files: u64,
    /// Files that the sockets of the listener may open: a ring of each thread has the whole limit
    /// of the process, and each of several processes its own.
    pub open_files_max: u64,
}

/// A listening socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Socket {
    address: SocketAddr,
    backlog_max: u32,
    inode: u32,
}

impl Listener {
    /// Finds the listener that accepts connections to `address`, if the system lists it.
    pub(super) fn read(address: SocketAddr, is_owner_wanted: bool) -> Option<Self> {
        let sockets: Vec<Socket> = diag::listening(address.port())
            .into_iter()
            .filter(|socket| accepts(socket.address, address))
            .collect();
        let first = sockets.first()?;
        let inodes: BTreeSet<u32> = sockets.iter().map(|socket| socket.inode).collect();
        Some(Self {
            address: first.address,
            backlog_max: sockets.iter().map(|socket| u64::from(socket.backlog_max)).sum(),
            process: is_owner_wanted.then(|| owner::find(&inodes)).flatten(),
        })
    }
}

/// Returns whether a listener at `listening` accepts connections to `address`. One at `[::]`
/// usually accepts those of IPv4, too.
fn accepts(listening: SocketAddr, address: SocketAddr) -> bool {
    let is_any = listening.ip().is_unspecified();
    listening.port() == address.port()
        && (listening.ip() == address.ip()
            || (is_any && (listening.is_ipv6() || address.is_ipv4())))
}

/// The kernel's list of listeners.
#[cfg(target_os = "linux")]
mod diag {
    use std::net::{IpAddr, SocketAddr};
    use std::time::Duration;

    use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
    };

    use super::Socket;

    /// `SOCK_DIAG_BY_FAMILY`, a request and its response.
    const BY_FAMILY: u16 = 20;
    /// `NLM_F_REQUEST | NLM_F_DUMP`.
    const REQUEST_DUMP: u16 = 0x301;
    /// The bit of the state `TCP_LISTEN`.
    const LISTENING: u32 = 1 << 10;
    /// Bytes of the head of a message (`nlmsghdr`).
    const HEAD_LEN: usize = 16;
    /// Bytes of a request (`inet_diag_req_v2`) behind its head.
    const REQUEST_LEN: usize = 56;
    /// How long the kernel may take for a part of the list.
    const ANSWER_TIMEOUT: Duration = Duration::from_millis(5);
    /// Most bytes of a datagram that the kernel sends.
    const DATAGRAM_MAX: usize = 32 << 10;

    /// Returns the sockets that listen at a port, none if the system does not list them.
    pub(super) fn listening(port: u16) -> Vec<Socket> {
        let families = [AddressFamily::INET, AddressFamily::INET6];
        families.into_iter().filter_map(|family| of_family(family, port)).flatten().collect()
    }

    fn of_family(family: AddressFamily, port: u16) -> Option<Vec<Socket>> {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(SOCK_DIAG)).ok()?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT)).ok()?;
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&socket, &request(family, port), SendFlags::empty(), &kernel).ok()?;
        let (mut found, mut buf) = (Vec::new(), vec![0; DATAGRAM_MAX]);
        loop {
            let (len, _) = recv(&socket, &mut buf, RecvFlags::empty()).ok()?;
            let mut rest = buf.get(..len)?;
            while !rest.is_empty() {
                let message_len = usize::try_from(number(rest, 0)?).ok()?;
                let message = rest.get(..message_len).filter(|it| it.len() >= HEAD_LEN)?;
                // The end of the list, or an error.
                if message[4..6] != BY_FAMILY.to_ne_bytes() {
                    return Some(found);
                }
                found.extend(parse(&message[HEAD_LEN..]));
                rest = rest.get(message_len.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }

    fn request(family: AddressFamily, port: u16) -> Vec<u8> {
        /// Protocol number of TCP.
        const TCP: u8 = 6;
        let mut bytes = Vec::with_capacity(HEAD_LEN + REQUEST_LEN);
        bytes.extend((72_u32).to_ne_bytes());
        bytes.extend(BY_FAMILY.to_ne_bytes());
        bytes.extend(REQUEST_DUMP.to_ne_bytes());
        bytes.resize(HEAD_LEN, 0);
        bytes.extend([family.as_raw().to_ne_bytes()[0], TCP, 0, 0]);
        bytes.extend(LISTENING.to_ne_bytes());
        bytes.extend(port.to_be_bytes());
        bytes.resize(HEAD_LEN + REQUEST_LEN, 0);
        bytes
    }

    /// Parses an `inet_diag_msg`: family, the ports from byte 4 and the addresses from byte 8; of a
    /// listener the backlog stands at byte 60.
    fn parse(message: &[u8]) -> Option<Socket> {
        let port = u16::from_be_bytes(message.get(4..6)?.try_into().ok()?);
        let ip: IpAddr = if i32::from(*message.first()?) == i32::from(AddressFamily::INET.as_raw())
        {
            <[u8; 4]>::try_from(message.get(8..12)?).ok()?.into()
        } else {
            <[u8; 16]>::try_from(message.get(8..24)?).ok()?.into()
        };
        Some(Socket {
            address: SocketAddr::new(ip, port),
            backlog_max: number(message, 60)?,
            inode: number(message, 68)?,
        })
    }

    fn number(bytes: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    }
}

#[cfg(not(target_os = "linux"))]
mod diag {
    /// Returns none.
    pub(super) const fn listening(_port: u16) -> Vec<super::Socket> {
        Vec::new()
    }
}

/// The process that owns a socket, from `/proc`.
mod owner {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use corelane_engine::clock::Clock;

    use super::ListenerProcess;

    /// How long processes are searched, the newest ones first.
    const SEARCH_TIME: Duration = Duration::from_millis(25);

    /// Finds the process of the first of these sockets that it owns.
    pub(super) fn find(inodes: &BTreeSet<u32>) -> Option<ListenerProcess> {
        let clock = Clock::start();
        let deadline = clock.now().after(SEARCH_TIME);
        let mut pids: Vec<u32> = entries(Path::new("/proc"))
            .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
            .collect();
        pids.sort_unstable_by(|one, other| other.cmp(one));
        let mut pids = pids.into_iter().take_while(|_| clock.now() < deadline);
        pids.find_map(|pid| process(pid, inodes))
    }

    fn entries(path: &Path) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
    }

    fn process(pid: u32, inodes: &BTreeSet<u32>) -> Option<ListenerProcess> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let (mut open_files, mut owned) = (0, BTreeSet::new());
        for file in entries(&folder.join("fd")) {
            open_files += 1;
            owned.extend(socket_inode(&file).filter(|inode| inodes.contains(inode)));
        }
        let sockets = (!owned.is_empty()).then_some(inodes.len() as u64)?;
        let limits = fs::read_to_string(folder.join("limits")).ok()?;
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
        Some(ListenerProcess {
            pid,
            name: fs::read_to_string(folder.join("comm")).ok()?.trim().into(),
            open_files,
            open_files_max: limit.saturating_mul(sockets),
        })
    }

    fn socket_inode(file: &Path) -> Option<u32> {
        let link = fs::read_link(file).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use rustix::net::listen;

    use super::*;

    #[test]
    fn listener_has_backlog_and_process() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let server = TcpListener::bind(address).unwrap();
            listen(&server, 7).unwrap();
            let address = server.local_addr().unwrap();
            let found = Listener::read(address, true).unwrap();
            assert_eq!((found.address, found.backlog_max), (address, 7));
            let process = found.process.unwrap();
            assert_eq!(process.pid, std::process::id());
            assert!(process.open_files > 3 && process.open_files_max > process.open_files);
            drop(server);
            assert_eq!(Listener::read(address, false), None);
        }
    }

    #[test]
    fn wildcard_listener_accepts_local_addresses() {
        let is = |listening: &str, address: &str| {
            accepts(listening.parse().unwrap(), address.parse().unwrap())
        };
        assert!(is("127.0.0.1:80", "127.0.0.1:80") && is("0.0.0.0:80", "127.0.0.1:80"));
        assert!(is("[::]:80", "127.0.0.1:80") && is("[::]:80", "[::1]:80"));
        assert!(!is("127.0.0.2:80", "127.0.0.1:80") && !is("0.0.0.0:80", "[::1]:80"));
        assert!(!is("0.0.0.0:81", "127.0.0.1:80"));
    }
}
