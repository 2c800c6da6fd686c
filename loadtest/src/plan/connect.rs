//! How connections are opened: from where, how fast, how many at a time.
//!
//! ```toml
//! [connect]
//! sources = ["10.0.0.7", "10.0.0.16-10.0.0.19"]
//! rate = 2000
//! at_once = 64
//! ```
//!
//! One local address has as many connections towards one destination as there are ports to choose
//! from (`net.ipv4.ip_local_port_range`, about 28,000). Towards a loopback address a run that needs
//! more than half of them takes further addresses of 127.0.0.0/8 by itself, which every Linux
//! machine has; elsewhere they have to be named.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sources::{Sources, one_or_many};
use super::{RATE_MAX, Wrong};
use crate::generator::{Connecting, Limits};
use crate::measure::limits;

/// How connections are opened.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectPlan {
    /// Local addresses that connections come from in turn: one text or a list, each an address or
    /// a range. Default none: the kernel chooses, or towards a loopback address as many as it
    /// takes.
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Sources>,
    /// Connections opened a second, of all workers together. Default: as fast as the server
    /// accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Connections of one worker that are being opened at one time. Default 128.
    #[serde(default = "at_once")]
    pub at_once: usize,
}

fn at_once() -> usize {
    Limits::default().connecting_max
}

impl Default for ConnectPlan {
    fn default() -> Self {
        Self { sources: Vec::new(), rate: None, at_once: at_once() }
    }
}

impl ConnectPlan {
    /// How so many connections to these addresses are opened on this machine.
    ///
    /// # Errors
    ///
    /// Where that is not possible, or not in `span_max`.
    pub fn connecting(
        &self,
        connections: usize,
        addresses: &[SocketAddr],
        span_max: Duration,
    ) -> Result<Connecting, Wrong> {
        self.check(connections, span_max)?;
        let named: Vec<IpAddr> = self.sources.iter().flat_map(|all| all.addresses()).collect();
        for &source in &named {
            limits::try_source(source).map_err(|error| {
                Wrong(format!(
                    "no connection can come from {source}: {error}; name addresses of this machine"
                ))
            })?;
        }
        let sources = spread(connections, addresses, named, limits::ports())?;
        Ok(Connecting { sources, rate: self.rate })
    }

    fn check(&self, connections: usize, span_max: Duration) -> Result<(), Wrong> {
        if self.at_once == 0 {
            return Err(Wrong::new("at_once = 0: nothing could be opened; write 1 or more"));
        }
        let Some(rate) = self.rate else { return Ok(()) };
        if !(rate > 0.0 && rate <= RATE_MAX) {
            return Err(Wrong(format!(
                "rate = {rate} of [connect]: connections open at a rate above 0 and up to \
                 {RATE_MAX} a second"
            )));
        }
        #[expect(clippy::cast_precision_loss, reason = "a span for people")]
        let span_s = connections as f64 / rate;
        if span_s > span_max.as_secs_f64() {
            return Err(Wrong(format!(
                "{connections} connections at {rate} a second take {span_s:.0} s, longer than \
                 connect_max allows ({:.0} s): raise one of the two",
                span_max.as_secs_f64()
            )));
        }
        Ok(())
    }
}

/// A run takes one part in so many of the ports of a loopback address before it takes another: the
/// kernel looks at every second port first, and where those are taken each connection searches for
/// long. 20,000 connections opened in four seconds from one address, in half of one from two.
const FILLED: usize = 2;

/// The local addresses from which so many connections to `addresses` are possible, where each has
/// `ports`; none where the kernel may choose.
fn spread(
    connections: usize,
    addresses: &[SocketAddr],
    named: Vec<IpAddr>,
    ports: usize,
) -> Result<Vec<IpAddr>, Wrong> {
    let Some(target) = addresses.first() else { return Ok(named) };
    let range = "net.ipv4.ip_local_port_range";
    if named.is_empty() {
        let possible = addresses.len() * ports;
        let is_loopback = addresses.iter().all(|address| address.ip().is_loopback());
        let has_others = is_loopback && addresses.iter().any(SocketAddr::is_ipv4);
        if connections <= possible / if has_others { FILLED } else { 1 } {
            return Ok(named);
        }
        if is_loopback {
            return spread_over_loopback(connections, addresses, ports);
        }
        let wanted = connections.div_ceil(possible);
        return Err(Wrong(format!(
            "{connections} connections to {target} do not fit: one local address has {ports} ports \
             ({range}), which makes {possible}; name {wanted} addresses of this machine with \
             --source, or widen the range"
        )));
    }
    let destinations = |source: &IpAddr| {
        addresses.iter().filter(|address| address.is_ipv4() == source.is_ipv4()).count()
    };
    let routes: usize = named.iter().map(destinations).sum();
    if routes == 0 {
        return Err(Wrong(format!(
            "no source is of the family of {target}: name an {} address of this machine",
            if target.is_ipv4() { "IPv4" } else { "IPv6" }
        )));
    }
    if connections > routes * ports {
        let wanted = (connections * named.len()).div_ceil(routes * ports);
        return Err(Wrong(format!(
            "{connections} connections to {target} do not fit: {} local addresses with {ports} \
             ports each ({range}) make {}; name {wanted} with --source, or widen the range",
            named.len(),
            routes * ports
        )));
    }
    Ok(named)
}

/// Addresses of 127.0.0.0/8 behind the usual one.
fn spread_over_loopback(
    connections: usize,
    addresses: &[SocketAddr],
    ports: usize,
) -> Result<Vec<IpAddr>, Wrong> {
    let destinations = addresses.iter().filter(|address| address.is_ipv4()).count();
    if destinations == 0 {
        return Err(Wrong(format!(
            "{connections} connections to {} do not fit: there is one loopback address of IPv6, \
             with {ports} ports; write 127.0.0.1 instead",
            addresses[0]
        )));
    }
    let wanted = connections.div_ceil((destinations * ports / FILLED).max(1));
    let first = u32::from(Ipv4Addr::LOCALHOST) + 1;
    let last = u32::try_from(wanted).ok().and_then(|wanted| (first - 1).checked_add(wanted));
    match last {
        Some(last) if Ipv4Addr::from(last).is_loopback() => {
            Ok((first..=last).map(|address| Ipv4Addr::from(address).into()).collect())
        }
        _ => {
            Err(Wrong(format!("{connections} connections are more than one machine has ports for")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: usize = 28_000;
    const LONG: Duration = Duration::from_secs(30);

    fn spread_to(connections: usize, to: &[&str], from: &[&str]) -> Result<Vec<String>, String> {
        let to: Vec<SocketAddr> = to.iter().map(|text| text.parse().unwrap()).collect();
        let from = from.iter().map(|text| text.parse().unwrap()).collect();
        let sources = spread(connections, &to, from, PORTS).map_err(|wrong| wrong.to_string())?;
        Ok(sources.iter().map(IpAddr::to_string).collect())
    }

    #[test]
    fn the_kernel_chooses_while_its_ports_suffice() {
        for to in ["127.0.0.1:80", "[::1]:80", "10.0.0.1:80"] {
            assert!(spread_to(14_000, &[to], &[]).unwrap().is_empty());
        }
        for to in ["10.0.0.1:80", "[::1]:80"] {
            assert!(spread_to(28_000, &[to], &[]).unwrap().is_empty());
        }
        assert!(spread_to(56_000, &["10.0.0.1:80", "10.0.0.2:80"], &[]).unwrap().is_empty());
    }

    #[test]
    fn many_connections_to_a_loopback_address_come_from_several_of_them() {
        let from = spread_to(60_000, &["127.0.0.1:80"], &[]).unwrap();
        assert_eq!(from, ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"]);
        let from = spread_to(60_000, &["[::1]:80", "127.0.0.1:80"], &[]).unwrap();
        assert_eq!(from.len(), 5);
        assert_eq!(spread_to(14_001, &["127.0.0.1:80"], &[]).unwrap().len(), 2);
        assert_eq!(spread_to(28_000, &["127.0.0.1:80"], &[]).unwrap().len(), 2);
        assert!(spread_to(usize::MAX / 2, &["127.0.0.1:80"], &[]).is_err());
    }

    #[test]
    fn connections_that_do_not_fit_are_told_with_what_would_make_them_fit() {
        let wrong = spread_to(60_000, &["10.0.0.1:80"], &[]).unwrap_err();
        for part in ["10.0.0.1:80", "28000", "name 3 addresses", "--source", "port_range"] {
            assert!(wrong.contains(part), "{part} is not in: {wrong}");
        }
        let wrong = spread_to(60_000, &["10.0.0.1:80"], &["10.0.0.2", "10.0.0.3"]).unwrap_err();
        assert!(wrong.contains("make 56000; name 3 with --source"), "{wrong}");
        let wrong = spread_to(60_000, &["[::1]:80"], &[]).unwrap_err();
        assert!(wrong.contains("write 127.0.0.1"), "{wrong}");
    }

    #[test]
    fn a_source_of_another_family_serves_nobody() {
        let wrong = spread_to(1, &["10.0.0.1:80"], &["::1"]).unwrap_err();
        assert!(wrong.contains("IPv4"), "{wrong}");
        // One family of two is enough, and only its ports count.
        assert!(spread_to(28_000, &["[fd00::1]:80", "10.0.0.1:80"], &["10.0.0.2"]).is_ok());
        assert!(spread_to(28_001, &["[fd00::1]:80", "10.0.0.1:80"], &["10.0.0.2"]).is_err());
    }

    fn connecting(text: &str) -> Result<Connecting, String> {
        let plan: ConnectPlan = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        plan.connecting(100, &[address], LONG).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn sources_are_a_text_or_a_list() {
        let loopback = |last| IpAddr::from([127, 0, 0, last]);
        let one = connecting("sources = \"127.0.0.2-127.0.0.4\"").unwrap();
        assert_eq!(one.sources, [loopback(2), loopback(3), loopback(4)]);
        let several = connecting("sources = [\"127.0.0.9\", \"127.0.0.2\"]\nrate = 50").unwrap();
        assert_eq!(several.sources, [loopback(9), loopback(2)]);
        assert_eq!(several.rate, Some(50.0));
        assert_eq!(connecting("").unwrap(), Connecting::default());
    }

    #[test]
    fn what_makes_no_sense_is_told_in_a_line() {
        let wrong = |text: &str| connecting(text).unwrap_err();
        assert!(wrong("at_once = 0").contains("at_once"));
        for rate in ["0", "-1", "nan", "inf"] {
            assert!(wrong(&format!("rate = {rate}")).contains("above 0"), "{rate}");
        }
        assert!(wrong("rate = 2").contains("take 50 s"));
        assert!(wrong("sources = \"192.0.2.1\"").contains("addresses of this machine"));
        assert!(wrong("sources = [\"127.0.0.2-1\"]").contains("is no address"));
        assert!(wrong("source = \"127.0.0.2\"").contains("sources"));
    }
}
