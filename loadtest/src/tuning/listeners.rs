//! TCP listeners of a machine with the connections that they have now, from `/proc/net`.
//!
//! Format (proc(5), `/proc/net/tcp`): addresses are hexadecimal, each 32-bit word in the byte order
//! of the machine; of a listener the receive queue is the number of connections that wait.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// State of an established connection in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";
/// State of a listener.
const LISTENING: &str = "0A";

/// The TCP listeners of a machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listeners {
    /// The listeners, those with the most connections first.
    pub all: Vec<Listener>,
    /// Connections that they dropped since the machine was started, because they were not accepted
    /// in time.
    pub overflows: Option<u64>,
}

impl Listeners {
    /// Reads the listeners below `root`.
    pub(super) fn read(root: &Path) -> Self {
        Self { all: read_listeners(root), overflows: read_overflows(root) }
    }
}

/// A TCP listener.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Listener {
    /// Its address.
    pub address: SocketAddr,
    /// Established connections to its port.
    pub connections: u64,
    /// Connections that are not accepted yet.
    pub waiting: u64,
    /// Its process, or `None` if this user may not see it.
    pub process: Option<ListenerProcess>,
}

/// The process of a listener.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ListenerProcess {
    /// Process id.
    pub pid: u32,
    /// Name of the program, at most 15 bytes.
    pub name: String,
    /// Open files.
    pub open_files: u64,
    /// Soft limit of open files.
    pub open_files_max: Option<u64>,
}

/// A line of `/proc/net/tcp`.
struct Socket<'a> {
    local: SocketAddr,
    state: &'a str,
    waiting: u64,
    inode: u64,
}

/// Returns the listeners below `root`, with the most connections first. Several sockets at one
/// address, one for each thread, are one listener.
fn read_listeners(root: &Path) -> Vec<Listener> {
    let texts = ["proc/net/tcp", "proc/net/tcp6"]
        .map(|path| fs::read_to_string(root.join(path)).unwrap_or_default());
    let sockets = || texts.iter().flat_map(|text| text.lines().filter_map(parse_socket));
    let mut connections: BTreeMap<u16, u64> = BTreeMap::new();
    for socket in sockets().filter(|socket| socket.state == ESTABLISHED) {
        *connections.entry(socket.local.port()).or_default() += 1;
    }
    let mut found: BTreeMap<SocketAddr, (u64, u64)> = BTreeMap::new();
    for socket in sockets().filter(|socket| socket.state == LISTENING) {
        let (waiting, inode) = found.entry(socket.local).or_default();
        *waiting += socket.waiting;
        *inode = socket.inode;
    }
    let owners = if found.is_empty() { BTreeMap::new() } else { socket_owners(root) };
    let mut listeners: Vec<Listener> = found
        .into_iter()
        .map(|(address, (waiting, inode))| Listener {
            address,
            connections: connections.get(&address.port()).copied().unwrap_or_default(),
            waiting,
            process: owners.get(&inode).and_then(|process| read_process(process)),
        })
        .collect();
    listeners.sort_by_key(|listener| u64::MAX - listener.connections);
    listeners
}

fn read_overflows(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/net/netstat")).ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|name| name == "ListenOverflows")?;
    values.split_whitespace().nth(place)?.parse().ok()
}

fn parse_socket(line: &str) -> Option<Socket<'_>> {
    let mut fields = line.split_whitespace();
    let local = parse_address(fields.nth(1)?)?;
    let state = fields.nth(1)?;
    let (_, waiting) = fields.next()?.split_once(':')?;
    let waiting = u64::from_str_radix(waiting, 16).ok()?;
    Some(Socket { local, state, waiting, inode: fields.nth(4)?.parse().ok()? })
}

/// Parses `0100007F:1F90`, or the same with four words.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len() / 8)
        .map(|word| {
            let word = u32::from_str_radix(address.get(word * 8..word * 8 + 8)?, 16).ok()?;
            Some(word.to_ne_bytes())
        })
        .collect();
    let address = match words?[..] {
        [word] => IpAddr::V4(Ipv4Addr::from(word)),
        [one, two, three, four] => {
            let bytes: [u8; 16] = [one, two, three, four].concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

/// Returns the directory of the process of each socket that this user may see, by inode.
fn socket_owners(root: &Path) -> BTreeMap<u64, PathBuf> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let processes = entries(&root.join("proc")).map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.bytes().all(|byte| byte.is_ascii_digit())
    });
    let inode = |path: &Path| -> Option<u64> {
        let link = fs::read_link(path).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    let owned = processes.flat_map(|process| {
        let files = entries(&process.join("fd")).map(|entry| entry.path());
        let sockets: Vec<u64> = files.filter_map(|file| inode(&file)).collect();
        sockets.into_iter().map(move |inode| (inode, process.clone()))
    });
    owned.collect()
}

fn read_process(process: &Path) -> Option<ListenerProcess> {
    let limits = fs::read_to_string(process.join("limits")).unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    Some(ListenerProcess {
        pid: process.file_name()?.to_str()?.parse().ok()?,
        name: fs::read_to_string(process.join("comm")).unwrap_or_default().trim().into(),
        open_files: fs::read_dir(process.join("fd")).ok()?.count() as u64,
        open_files_max: files
            .and_then(|line| line.split_whitespace().next())
            .and_then(|limit| limit.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when";

    #[test]
    fn listeners_have_connections_and_process() {
        let root = std::env::temp_dir().join(format!("corelane-listeners-{}", std::process::id()));
        let sockets = format!(
            "{HEAD}\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000 0 \
             0 77 1\n   1: 0100007F:1F90 0100007F:C000 01 00000000:00000000 00:00000000 00000000 0 \
             0 78 1\n   2: 0100007F:C000 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 0 \
             0 79 1\n   3: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 \
             0 80 1\n"
        );
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 42 43\n";
        for (path, text) in [
            ("proc/net/tcp", sockets.as_str()),
            ("proc/net/netstat", netstat),
            ("proc/12/comm", "corelane\n"),
            ("proc/12/limits", "Max open files            1024     4096     files\n"),
            ("proc/12/fd/keep", ""),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        symlink("socket:[77]", root.join("proc/12/fd/3")).unwrap();
        let Listeners { all: listeners, overflows } = Listeners::read(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(overflows, Some(42));
        let [server, other] = &listeners[..] else { panic!("{listeners:?}") };
        assert_eq!(server.address.to_string(), "127.0.0.1:8080");
        assert_eq!((server.connections, server.waiting), (1, 3));
        let process = server.process.as_ref().unwrap();
        assert_eq!((process.pid, process.name.as_str()), (12, "corelane"));
        assert_eq!((process.open_files, process.open_files_max), (2, Some(1_024)));
        assert_eq!((other.address.port(), &other.process), (22, &None));
    }

    #[test]
    fn addresses_of_both_families_are_parsed() {
        let parsed = |text: &str| parse_address(text).map(|address| address.to_string());
        assert_eq!(parsed("0100007F:0050").as_deref(), Some("127.0.0.1:80"));
        let loopback = "00000000000000000000000001000000:1F90";
        assert_eq!(parsed(loopback).as_deref(), Some("[::1]:8080"));
        assert_eq!(parsed("local_address"), None);
        assert_eq!(parsed("01:0050"), None);
    }
}
