//! The table of options, from which flags, help, environment variables, file and `check` derive.
//!
//! Invariants: an option has exactly one row, which its declaration in
//! [`options`](crate::config::options) gives. Flag and environment variable follow from its key.
//! Defaults are read from [`Options`].

use crate::config::issue::Diagnostic;
pub use crate::config::options::declare::Row;
use crate::config::options::{
    ACCEPTS, AdminOptions, AuthOptions, BreakerOptions, CardOptions, EngineOptions, FileOptions,
    GatewayOptions, HttpOptions, LimitOptions, ListenerTlsOptions, LogOptions, MESH,
    MemoryGuardOptions, Options, OverloadOptions, PROFILE, ParityOptions, ParityTimeouts,
    ProxyOptions, RING, RateOptions, ServiceOptions, StdioOptions, TcpOptions, TraceOptions,
    WebSocketOptions,
};
#[cfg(feature = "cli")]
use crate::config::unit::Unit;
#[cfg(feature = "cli")]
use crate::config::value;

/// Options under one heading of `--help`.
#[derive(Debug)]
pub struct Section {
    /// Heading in `--help`.
    pub heading: &'static str,
    /// Options, in the order of `--help`.
    groups: &'static [&'static [Row]],
}

/// All sections, in the order of `--help`.
pub static SECTIONS: [Section; 24] = [
    Section { heading: "Server", groups: &[PROFILE, EngineOptions::SERVER, LogOptions::SERVER] },
    Section { heading: "TCP", groups: &[TcpOptions::LISTENER, ACCEPTS, TcpOptions::CONNECTIONS] },
    Section { heading: "HTTP", groups: &[HttpOptions::HTTP] },
    Section {
        heading: "Endpoints of operators: /healthz, /readyz, /metrics, /connections, /upstreams",
        groups: &[AdminOptions::ADMIN],
    },
    Section {
        heading: "Sessions over HTTP, revisions up to 2025-11-25",
        groups: &[HttpOptions::SESSIONS],
    },
    Section { heading: "WebSocket", groups: &[WebSocketOptions::WEBSOCKET] },
    Section { heading: "Proxies in front of the server", groups: &[ProxyOptions::PROXIES] },
    Section { heading: "TLS", groups: &[ListenerTlsOptions::TLS] },
    Section { heading: "Authentication", groups: &[AuthOptions::AUTH] },
    Section { heading: "Rate limits", groups: &[RateOptions::RATE] },
    Section {
        heading: "Parity dialect",
        groups: &[ParityOptions::DIALECT, ParityTimeouts::TIMES, ParityOptions::LIMITS],
    },
    Section { heading: "Standard input and output", groups: &[StdioOptions::STDIO] },
    Section { heading: "Limits", groups: &[LimitOptions::LIMITS] },
    Section { heading: "Overload", groups: &[OverloadOptions::OVERLOAD] },
    Section { heading: "Circuit breakers of tools", groups: &[BreakerOptions::BREAKER] },
    Section { heading: "Memory guard", groups: &[MemoryGuardOptions::MEMORY_GUARD] },
    Section { heading: "Traces for OpenTelemetry", groups: &[TraceOptions::TRACES] },
    Section { heading: "Services", groups: &[ServiceOptions::SERVICES] },
    Section { heading: "Files as resources and prompts", groups: &[FileOptions::FILES] },
    Section { heading: "Server card and entry of a registry", groups: &[CardOptions::CARD] },
    Section { heading: "Servers behind this one", groups: &[GatewayOptions::GATEWAY] },
    Section { heading: "Blocking handlers", groups: &[EngineOptions::BLOCKING_HANDLERS] },
    Section { heading: "Ring of each shard", groups: &[RING] },
    Section { heading: "Mesh between shards", groups: &[MESH] },
];

impl Section {
    /// Returns its options, in the order of `--help`.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> + use<> {
        self.groups.iter().copied().flatten()
    }
}

/// Returns all options, in the order of `--help`.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    SECTIONS.iter().flat_map(Section::rows)
}

/// Returns the option with this key.
pub fn find(key: &str) -> Option<&'static Row> {
    rows().find(|row| row.key == key)
}

impl Row {
    /// Returns the name of the flag without dashes: `tcp-connections-max`.
    pub fn flag(&self) -> String {
        self.short.unwrap_or(self.key).replace(['.', '_'], "-")
    }

    /// Returns the environment variable: `CORELANE_TCP_CONNECTIONS_MAX`.
    pub fn variable(&self) -> String {
        let name = self.short.unwrap_or(self.key).replace('.', "_");
        format!("CORELANE_{}", name.to_uppercase())
    }

    /// Returns the flag with the whole key, `tcp-address`, if there is a shorter one.
    #[cfg(feature = "cli")]
    pub fn flag_of_key(&self) -> Option<String> {
        self.short.map(|_| self.key.replace(['.', '_'], "-")).filter(|flag| *flag != self.flag())
    }

    /// Returns the variable with the whole key, `CORELANE_TCP_ADDRESS`, if there is a shorter one.
    #[cfg(feature = "cli")]
    pub fn variable_of_key(&self) -> Option<String> {
        let name = self.key.replace('.', "_").to_uppercase();
        let variable = self.short.map(|_| format!("CORELANE_{name}"));
        variable.filter(|variable| *variable != self.variable())
    }

    /// Returns whether the environment variable `name` sets the option.
    #[cfg(feature = "cli")]
    pub fn has_variable(&self, name: &str) -> bool {
        self.variable() == name || self.variable_of_key().is_some_and(|it| it == name)
    }

    /// Returns what the option does, in one or two sentences, without the marks of code.
    #[cfg(feature = "cli")]
    pub fn description(&self) -> String {
        let lines = self.docs.iter().map(|line| line.trim()).take_while(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ").replace('`', "")
    }

    /// Sets the field from `text`.
    ///
    /// # Errors
    ///
    /// The text is not a value of the option's unit; `options` is unchanged then.
    pub fn set_value(&self, options: &mut Options, text: &str) -> Result<(), Diagnostic> {
        (self.field)(options).parse_from(text, &self.unit)
    }

    /// Returns the value of the field as text that [`Row::set_value`] accepts.
    pub fn format_value(&self, options: &Options) -> String {
        (self.field)(&mut options.clone()).format(&self.unit)
    }

    /// Returns the value of the field as TOML: numbers and booleans bare, lists of names as arrays,
    /// the rest quoted.
    #[cfg(feature = "cli")]
    pub fn format_toml(&self, options: &Options) -> String {
        let text = self.format_value(options);
        if self.unit.is_name_list() && text != value::DEFAULT && text != "off" {
            let names = text.split(',').map(|name| toml::Value::String(name.to_owned()));
            return toml::Value::Array(names.collect()).to_string();
        }
        let is_bare = text.parse::<u64>().is_ok() || text.parse::<bool>().is_ok();
        if is_bare && !self.unit.is_path() && self.unit != Unit::Text {
            return text;
        }
        toml::Value::String(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    #[cfg(feature = "cli")]
    use crate::server::describe_limits;

    #[test]
    fn flags_and_variables_follow_from_unique_keys() {
        let keys: BTreeSet<_> = rows().map(|row| row.key).collect();
        let flags: BTreeSet<_> = rows().map(Row::flag).collect();
        let variables: BTreeSet<_> = rows().map(Row::variable).collect();
        let count = rows().count();
        assert_eq!((keys.len(), flags.len(), variables.len()), (count, count, count));
        for row in rows() {
            assert!(row.flag_of_key().is_none_or(|flag| !flags.contains(&flag)), "{}", row.key);
            let variable = row.variable_of_key();
            assert!(variable.is_none_or(|it| !variables.contains(&it)), "{}", row.key);
        }
        let address = find("http.address").unwrap();
        assert_eq!(address.flag_of_key().as_deref(), Some("http-address"));
        assert!(["CORELANE_HTTP", "CORELANE_HTTP_ADDRESS"].map(|it| address.has_variable(it))[1]);
        let row = find("tcp.connections_max").unwrap();
        assert_eq!(row.flag(), "tcp-connections-max");
        assert_eq!(row.variable(), "CORELANE_TCP_CONNECTIONS_MAX");
        let row = find("tcp.address").unwrap();
        assert_eq!((row.flag().as_str(), row.variable().as_str()), ("tcp", "CORELANE_TCP"));
    }

    #[test]
    fn keys_are_not_sections_of_others() {
        for row in rows() {
            let section = format!("{}.", row.key);
            assert!(rows().all(|other| !other.key.starts_with(&section)), "{}", row.key);
        }
    }

    #[cfg(feature = "cli")]
    #[test]
    fn reloadable_options_are_those_that_change_limits() {
        let defaults = Options::default();
        let mut wrong = Vec::new();
        let is_limit = |row: &&Row| {
            let others =
                ["log.format", "log.level", "overload.tool_calls", "profile", "request_state_keys"];
            !others.contains(&row.key)
                && !["rate.rules", "rate.connections", "rate.failures"].contains(&row.key)
                && !["tls.", "auth."].iter().any(|section| row.key.starts_with(section))
        };
        for row in rows().filter(is_limit) {
            let (least, most) = row.unit.range();
            let bounds = [row.unit.format(least), row.unit.format(most)];
            let names = match row.unit {
                Unit::Choice(names) => names,
                _ => &["true", "false"],
            };
            let names = names.iter().map(|name| (*name).to_owned());
            let texts = bounds.into_iter().chain([row.format_value(&Options::tiny())]).chain(names);
            let mut others = texts.map(|text| {
                let mut options = defaults.clone();
                row.set_value(&mut options, &text).ok();
                options
            });
            let changes = others.any(|it| describe_limits(&it) != describe_limits(&defaults));
            if changes != row.is_reloadable {
                wrong.push((row.key, changes));
            }
        }
        assert_eq!(wrong, []);
    }

    #[cfg(feature = "cli")]
    #[test]
    fn rows_state_description_cost_and_source() {
        for row in rows() {
            assert!(row.description().ends_with('.'), "{}", row.key);
            assert!(!row.cost.is_empty() && !row.source.is_empty(), "{}", row.key);
            assert!(!row.cost.ends_with('.') && !row.source.ends_with('.'), "{}", row.key);
        }
    }

    #[test]
    fn defaults_and_range_limits_are_accepted() {
        for row in rows() {
            for defaults in [Options::default(), Options::tiny()] {
                let shown = row.format_value(&defaults);
                let mut options = Options::default();
                assert_eq!(row.set_value(&mut options, &shown), Ok(()), "{} = {shown}", row.key);
                assert_eq!(row.format_value(&options), shown, "{}", row.key);
            }
            let (least, most) = row.unit.range();
            if most == u64::MAX {
                continue;
            }
            for bound in [least, most] {
                let text = row.unit.format(bound);
                let mut options = Options::default();
                assert_eq!(row.set_value(&mut options, &text), Ok(()), "{} = {text}", row.key);
                assert_eq!(row.format_value(&options), text, "{}", row.key);
            }
            assert!(row.set_value(&mut Options::default(), &(most + 1).to_string()).is_err());
        }
    }
}
