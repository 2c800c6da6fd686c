//! Where hostile peers come from, and the network namespace that has their addresses.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// First argument of the bench in its namespace.
pub(crate) const NAMESPACE: &str = "--in-namespace";

/// Prefixes of 64 bits of the origin `prefixes`.
const PREFIXES: u16 = 300;

/// The addresses of the hostile peers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// 127.0.0.1, which is exempt from limits by address.
    Loopback,
    /// One address.
    One,
    /// Two addresses, each of another /24.
    Two,
    /// 40 addresses, each of another /24.
    Forty,
    /// An address of each of 300 IPv6 prefixes of 64 bits.
    Prefixes,
}

impl Origin {
    pub(crate) const ALL: [Self; 5] =
        [Self::Loopback, Self::One, Self::Two, Self::Forty, Self::Prefixes];

    /// Returns its name on the command line and in the tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::One => "one",
            Self::Two => "two",
            Self::Forty => "forty",
            Self::Prefixes => "prefixes",
        }
    }

    /// Returns the origin of a name.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let origin = Self::ALL.into_iter().find(|origin| origin.name() == name);
        origin.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            io::Error::other(format!("no origin {name}; the origins are {names}"))
        })
    }

    /// Returns whether the machine has its addresses only in a namespace of the bench.
    pub(crate) const fn needs_namespace(self) -> bool {
        matches!(self, Self::Prefixes)
    }

    /// Returns the addresses of the hostile peers.
    pub(crate) fn attackers(self) -> Vec<IpAddr> {
        let numbered = |third| IpAddr::V4(Ipv4Addr::new(127, 0, third, 1));
        match self {
            Self::Loopback => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            Self::One => vec![numbered(2)],
            Self::Two => (2..4).map(numbered).collect(),
            Self::Forty => (2..42).map(numbered).collect(),
            Self::Prefixes => (1..=PREFIXES).map(|prefix| IpAddr::V6(address(prefix))).collect(),
        }
    }

    /// Returns the address of the honest clients: no hostile peer has one of its /24 or /48.
    pub(crate) const fn honest(self) -> IpAddr {
        match self {
            Self::Prefixes => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1)),
            _ => IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1)),
        }
    }

    /// Returns the address at which the server listens.
    pub(crate) const fn server(self) -> IpAddr {
        match self {
            Self::Prefixes => IpAddr::V6(Ipv6Addr::LOCALHOST),
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

/// Returns an address of a prefix; prefixes of different numbers differ in 48 bits.
const fn address(prefix: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, prefix, 0, 0, 0, 0, 1)
}

/// Continues this program with `arguments` in a network namespace of its own; returns if the
/// machine does not permit that.
pub(crate) fn enter_namespace(arguments: &[String]) -> io::Result<Infallible> {
    let program = std::env::current_exe()?;
    // The second one is for other users than root.
    let mut error = io::Error::other("unshare(1) was not tried");
    for flags in [&["--net"] as &[&str], &["--user", "--map-root-user", "--net"]] {
        match probe(flags) {
            Ok(()) => {
                let mut command = Command::new("unshare");
                return Err(command.args(flags).arg(program).arg(NAMESPACE).args(arguments).exec());
            }
            Err(reason) => error = reason,
        }
    }
    Err(error)
}

/// Returns why a namespace with these flags of unshare(1) cannot be made.
fn probe(flags: &[&str]) -> io::Result<()> {
    let mut command = Command::new("unshare");
    command.args(flags).args(["ip", "link", "set", "lo", "up"]);
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(text.trim().to_owned()))
}

/// Gives the namespace of this process its addresses.
pub(crate) fn configure_namespace() -> io::Result<()> {
    let mut batch = "link set lo up\n".to_owned();
    let hosts = Origin::Prefixes.attackers().into_iter().chain([Origin::Prefixes.honest()]);
    for host in hosts {
        writeln!(batch, "address add {host}/128 dev lo nodad").map_err(io::Error::other)?;
    }
    let mut child = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(batch.as_bytes())?;
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("ip -batch: {status}")))
}
