//! The `[connect]` section of a plan: source addresses, rate and concurrency of opening
//! connections.
//!
//! ```toml
//! [connect]
//! sources = ["10.0.0.7", "10.0.0.16-10.0.0.19"]
//! rate = 2000
//! concurrency = 64
//! ```
//!
//! One local address can open as many connections to one destination as there are ephemeral ports
//! (`net.ipv4.ip_local_port_range`, about 28,000). For a loopback target, a run that needs more
//! than half of them uses further addresses of 127.0.0.0/8 automatically; for other targets the
//! local addresses have to be listed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::source_ranges::{SourceRange, one_or_many};
use super::{PlanError, RATE_MAX};
use crate::generator::{ConnectConfig, RunLimits};
use crate::metrics::port_limits;

/// The `[connect]` section.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectPlan {
    /// Local addresses to connect from in turn: a string or a list, each an address or a range.
    /// Default none: the kernel chooses, or, for a loopback target, as many as are needed.
    #[schemars(with = "Vec<String>")]
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceRange>,
    /// Connections opened a second by all load threads together. Default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Connections that one load thread opens concurrently. Default 128.
    #[serde(default = "concurrency")]
    pub concurrency: usize,
}

fn concurrency() -> usize {
    RunLimits::default().connecting_max
}

impl Default for ConnectPlan {
    fn default() -> Self {
        Self { sources: Vec::new(), rate: None, concurrency: concurrency() }
    }
}

impl ConnectPlan {
    /// Resolves how this many connections to `addresses` are opened on this machine.
    ///
    /// # Errors
    ///
    /// If a source address cannot be used, there are too few ports, or opening all connections
    /// would take longer than `span_max`.
    pub fn build(
        &self,
        connections: usize,
        addresses: &[SocketAddr],
        span_max: Duration,
    ) -> Result<ConnectConfig, PlanError> {
        self.check(connections, span_max)?;
        let named: Vec<IpAddr> = self.sources.iter().flat_map(|all| all.addresses()).collect();
        for &source in &named {
            port_limits::check_source(source).map_err(|error| {
                PlanError(format!(
                    "cannot connect from {source}: {error}; use an address of this machine"
                ))
            })?;
        }
        let sources =
            choose_sources(connections, addresses, named, port_limits::ephemeral_ports())?;
        Ok(ConnectConfig { sources, rate: self.rate })
    }

    fn check(&self, connections: usize, span_max: Duration) -> Result<(), PlanError> {
        if self.concurrency == 0 {
            return Err(PlanError::new("[connect] concurrency = 0: write 1 or more"));
        }
        let Some(rate) = self.rate else { return Ok(()) };
        if !(rate > 0.0 && rate <= RATE_MAX) {
            return Err(PlanError(format!(
                "[connect] rate = {rate}: the rate has to be above 0 and at most {RATE_MAX} \
                 connections a second"
            )));
        }
        #[expect(clippy::cast_precision_loss, reason = "a span for people")]
        let span_s = connections as f64 / rate;
        if span_s > span_max.as_secs_f64() {
            return Err(PlanError(format!(
                "{connections} connections at {rate} a second take {span_s:.0} s, longer than \
                 connect_timeout allows ({:.0} s): raise one of the two",
                span_max.as_secs_f64()
            )));
        }
        Ok(())
    }
}

/// A run uses 1/`FILLED` of the ports of a loopback address before it uses another address: the
/// kernel tries every second port first, and once those are taken each connect searches for long.
/// Opening 20,000 connections took 4 s from one address, 2 s from two.
const PORT_SHARE_DIVISOR: usize = 2;

/// Returns local addresses from which this many connections to `addresses` are possible with
/// `ports` ephemeral ports each, or an empty list if the kernel may choose.
fn choose_sources(
    connections: usize,
    addresses: &[SocketAddr],
    named: Vec<IpAddr>,
    ports: usize,
) -> Result<Vec<IpAddr>, PlanError> {
    let Some(target) = addresses.first() else { return Ok(named) };
    let range = "net.ipv4.ip_local_port_range";
    if named.is_empty() {
        let possible = addresses.len() * ports;
        let is_loopback = addresses.iter().all(|address| address.ip().is_loopback());
        let has_others = is_loopback && addresses.iter().any(SocketAddr::is_ipv4);
        if connections <= possible / if has_others { PORT_SHARE_DIVISOR } else { 1 } {
            return Ok(named);
        }
        if is_loopback {
            return choose_loopback_sources(connections, addresses, ports);
        }
        let wanted = connections.div_ceil(possible);
        return Err(PlanError(format!(
            "{connections} connections to {target} do not fit: one local address has {ports} ports \
             ({range}), enough for {possible}; name {wanted} addresses of this machine with \
             --source, or widen the range"
        )));
    }
    let destinations = |source: &IpAddr| {
        addresses.iter().filter(|address| address.is_ipv4() == source.is_ipv4()).count()
    };
    let routes: usize = named.iter().map(destinations).sum();
    if routes == 0 {
        return Err(PlanError(format!(
            "no source address has the address family of {target}: name an {} address of this \
             machine",
            if target.is_ipv4() { "IPv4" } else { "IPv6" }
        )));
    }
    if connections > routes * ports {
        let wanted = (connections * named.len()).div_ceil(routes * ports);
        return Err(PlanError(format!(
            "{connections} connections to {target} do not fit: {} local addresses with {ports} \
             ports each ({range}) make {}; name {wanted} with --source, or widen the range",
            named.len(),
            routes * ports
        )));
    }
    Ok(named)
}

/// Returns as many addresses of 127.0.0.0/8 after 127.0.0.1 as are needed.
fn choose_loopback_sources(
    connections: usize,
    addresses: &[SocketAddr],
    ports: usize,
) -> Result<Vec<IpAddr>, PlanError> {
    let destinations = addresses.iter().filter(|address| address.is_ipv4()).count();
    if destinations == 0 {
        return Err(PlanError(format!(
            "{connections} connections to {} do not fit: IPv6 has a single loopback address with \
             {ports} ports; write 127.0.0.1 instead",
            addresses[0]
        )));
    }
    let wanted = connections.div_ceil((destinations * ports / PORT_SHARE_DIVISOR).max(1));
    let first = u32::from(Ipv4Addr::LOCALHOST) + 1;
    let last = u32::try_from(wanted).ok().and_then(|wanted| (first - 1).checked_add(wanted));
    match last {
        Some(last) if Ipv4Addr::from(last).is_loopback() => {
            Ok((first..=last).map(|address| Ipv4Addr::from(address).into()).collect())
        }
        _ => Err(PlanError(format!(
            "{connections} connections need more ports than one machine has"
        ))),
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
        let sources =
            choose_sources(connections, &to, from, PORTS).map_err(|wrong| wrong.to_string())?;
        Ok(sources.iter().map(IpAddr::to_string).collect())
    }

    #[test]
    fn kernel_chooses_source_while_ports_suffice() {
        for to in ["127.0.0.1:80", "[::1]:80", "10.0.0.1:80"] {
            assert!(spread_to(14_000, &[to], &[]).unwrap().is_empty());
        }
        for to in ["10.0.0.1:80", "[::1]:80"] {
            assert!(spread_to(28_000, &[to], &[]).unwrap().is_empty());
        }
        assert!(spread_to(56_000, &["10.0.0.1:80", "10.0.0.2:80"], &[]).unwrap().is_empty());
    }

    #[test]
    fn loopback_target_uses_several_source_addresses() {
        let from = spread_to(60_000, &["127.0.0.1:80"], &[]).unwrap();
        assert_eq!(from, ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"]);
        let from = spread_to(60_000, &["[::1]:80", "127.0.0.1:80"], &[]).unwrap();
        assert_eq!(from.len(), 5);
        assert_eq!(spread_to(14_001, &["127.0.0.1:80"], &[]).unwrap().len(), 2);
        assert_eq!(spread_to(28_000, &["127.0.0.1:80"], &[]).unwrap().len(), 2);
        assert!(spread_to(usize::MAX / 2, &["127.0.0.1:80"], &[]).is_err());
    }

    #[test]
    fn too_many_connections_error_names_needed_sources() {
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
    fn source_of_other_family_is_rejected() {
        let wrong = spread_to(1, &["10.0.0.1:80"], &["::1"]).unwrap_err();
        assert!(wrong.contains("IPv4"), "{wrong}");
        // One family of two is enough, and only its ports count.
        assert!(spread_to(28_000, &["[fd00::1]:80", "10.0.0.1:80"], &["10.0.0.2"]).is_ok());
        assert!(spread_to(28_001, &["[fd00::1]:80", "10.0.0.1:80"], &["10.0.0.2"]).is_err());
    }

    fn connecting(text: &str) -> Result<ConnectConfig, String> {
        let plan: ConnectPlan = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        plan.build(100, &[address], LONG).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn sources_accept_string_or_list() {
        let loopback = |last| IpAddr::from([127, 0, 0, last]);
        let one = connecting("sources = \"127.0.0.2-127.0.0.4\"").unwrap();
        assert_eq!(one.sources, [loopback(2), loopback(3), loopback(4)]);
        let several = connecting("sources = [\"127.0.0.9\", \"127.0.0.2\"]\nrate = 50").unwrap();
        assert_eq!(several.sources, [loopback(9), loopback(2)]);
        assert_eq!(several.rate, Some(50.0));
        assert_eq!(connecting("").unwrap(), ConnectConfig::default());
    }

    #[test]
    fn invalid_connect_plan_error_names_valid_value() {
        let wrong = |text: &str| connecting(text).unwrap_err();
        assert!(wrong("concurrency = 0").contains("concurrency"));
        for rate in ["0", "-1", "nan", "inf"] {
            assert!(wrong(&format!("rate = {rate}")).contains("above 0"), "{rate}");
        }
        assert!(wrong("rate = 2").contains("take 50 s"));
        assert!(wrong("sources = \"192.0.2.1\"").contains("address of this machine"));
        assert!(wrong("sources = [\"127.0.0.2-1\"]").contains("is not an IP address"));
        assert!(wrong("source = \"127.0.0.2\"").contains("sources"));
    }
}
