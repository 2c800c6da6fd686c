//! The settings of the profile: how each is compared, and the cost of a worse value.
//!
//! Sources: `Documentation/networking/ip-sysctl.rst` and `Documentation/admin-guide/sysctl/net.rst`
//! of Linux; measurements are in `tuning/README.md`.

use super::machine::ranges;

/// How the value of the machine is compared with that of the profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rule {
    /// A number that has to be at least as large.
    AtLeast,
    /// A range that has to contain that of the profile.
    ContainsRange,
    /// A list of numbers and ranges that has to contain that of the profile.
    ContainsAll,
    /// An equal value.
    Equal,
}

/// A kernel setting of the profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knob {
    /// Name, with dots.
    pub(super) name: &'static str,
    /// How it is compared.
    pub(super) rule: Rule,
    /// Cost of a worse value.
    pub(super) cost: &'static str,
    /// Plan in `loadtest/plans` that shows the effect.
    pub(super) plan: &'static str,
    /// Whether it has an effect only on many connections or bursts of them.
    pub(super) is_for_many_connections: bool,
}

/// All settings of the profile.
pub(super) const KNOBS: [Knob; 6] = [
    Knob {
        name: "net.core.somaxconn",
        rule: Rule::AtLeast,
        cost: "the listener drops the connections of a burst beyond it, which are retried after a \
               second or more",
        plan: "knob-backlog.toml",
        is_for_many_connections: true,
    },
    Knob {
        name: "net.ipv4.tcp_max_syn_backlog",
        rule: Rule::AtLeast,
        cost: "without syncookies the connections of a burst beyond three quarters of it are \
               dropped and retried after a second or more",
        plan: "knob-backlog.toml",
        is_for_many_connections: true,
    },
    Knob {
        name: "net.ipv4.ip_local_port_range",
        rule: Rule::ContainsRange,
        cost: "fewer connections from one address to one server, and slower search for a free port \
               when few are left",
        plan: "knob-ports.toml",
        is_for_many_connections: true,
    },
    Knob {
        name: "net.ipv4.ip_local_reserved_ports",
        rule: Rule::ContainsAll,
        cost: "an outgoing connection may take the port of a server, which then cannot start",
        plan: "knob-ports.toml",
        is_for_many_connections: false,
    },
    Knob {
        name: "net.ipv4.tcp_tw_reuse",
        rule: Rule::Equal,
        cost: "a port closed by the connecting side is unavailable for a minute: churn is limited \
               by the ports",
        plan: "knob-ports.toml",
        is_for_many_connections: true,
    },
    Knob {
        name: "net.ipv4.tcp_slow_start_after_idle",
        rule: Rule::Equal,
        cost: "over a network, a response above ten segments after a pause takes further round \
               trips; no effect over loopback",
        plan: "knob-idle.toml",
        is_for_many_connections: false,
    },
];

impl Rule {
    /// Returns whether `here` is as good as `wanted`; values that do not parse are not.
    pub(super) fn is_satisfied(self, here: &str, wanted: &str) -> bool {
        let number = |text: &str| text.parse::<u64>().ok();
        let pair = |text: &str| {
            let (first, last) = text.split_once(' ')?;
            Some((number(first)?, number(last)?))
        };
        match self {
            Self::AtLeast => {
                number(here).zip(number(wanted)).is_some_and(|(here, wanted)| here >= wanted)
            }
            Self::ContainsRange => pair(here)
                .zip(pair(wanted))
                .is_some_and(|(here, wanted)| here.0 <= wanted.0 && here.1 >= wanted.1),
            Self::ContainsAll => ranges(wanted)
                .all(|(from, to)| ranges(here).any(|(first, last)| first <= from && last >= to)),
            Self::Equal => here == wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::profile::{PROFILE, settings};

    #[test]
    fn profile_and_known_settings_are_the_same() {
        let names: Vec<&str> = settings(PROFILE).map(|setting| setting.name).collect();
        assert_eq!(names, KNOBS.map(|knob| knob.name));
    }

    #[test]
    fn profile_satisfies_itself() {
        for (setting, knob) in settings(PROFILE).zip(KNOBS) {
            assert!(knob.rule.is_satisfied(setting.value, setting.value), "{}", knob.name);
            assert!(!knob.rule.is_satisfied("", setting.value), "{}", knob.name);
        }
    }

    #[test]
    fn rules_accept_better_values_only() {
        for (rule, wanted, good, bad) in [
            (Rule::AtLeast, "4096", "65535", "128"),
            (Rule::ContainsRange, "1024 65535", "1000 65535", "32768 60999"),
            (Rule::ContainsRange, "1024 65535", "1024 65535", "1024"),
            (Rule::ContainsAll, "8080,8888", "8000-8100,8888", "8080"),
            (Rule::Equal, "1", "1", "2"),
        ] {
            assert!(rule.is_satisfied(good, wanted), "{rule:?} {good}");
            assert!(!rule.is_satisfied(bad, wanted), "{rule:?} {bad}");
        }
    }
}
