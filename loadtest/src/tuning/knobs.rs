//! What is known of each setting of the profile: how it is compared, and what a worse one costs.
//!
//! Sources: `Documentation/networking/ip-sysctl.rst` and `Documentation/admin-guide/sysctl/net.rst`
//! of Linux; `tuning/README.md` has the passages and what was measured.

use super::machine::ranges;

/// How a value of the machine is compared with the one of the profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rule {
    /// A number that may be larger.
    AtLeast,
    /// A first and a last number, which may reach further.
    Reaches,
    /// Numbers and ranges of them, which may be more.
    Lists,
    /// The same.
    Same,
}

/// A setting of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knob {
    /// Its name, with dots.
    pub(super) name: &'static str,
    /// How it is compared.
    pub(super) rule: Rule,
    /// What a worse value costs.
    pub(super) cost: &'static str,
    /// The plan that shows it, of those in `loadtest/plans`.
    pub(super) plan: &'static str,
}

/// Every setting of the profile.
pub(super) const KNOBS: [Knob; 6] = [
    Knob {
        name: "net.core.somaxconn",
        rule: Rule::AtLeast,
        cost: "a burst of connections beyond it is dropped by the listener, and each one that was \
               tries again after a second or more",
        plan: "knob-backlog.toml",
    },
    Knob {
        name: "net.ipv4.tcp_max_syn_backlog",
        rule: Rule::AtLeast,
        cost: "without syncookies a burst beyond three quarters of it is dropped, and tries again \
               after a second or more",
        plan: "knob-backlog.toml",
    },
    Knob {
        name: "net.ipv4.ip_local_port_range",
        rule: Rule::Reaches,
        cost: "fewer connections from one address to one server, and the search for a free port \
               takes longer the fewer are left",
        plan: "knob-ports.toml",
    },
    Knob {
        name: "net.ipv4.ip_local_reserved_ports",
        rule: Rule::Lists,
        cost: "a connection that goes out may take the port of a server, which then cannot start",
        plan: "knob-ports.toml",
    },
    Knob {
        name: "net.ipv4.tcp_tw_reuse",
        rule: Rule::Same,
        cost: "a port that was closed by the side that connected is out of use for a minute: \
               churn is bounded by ports a minute",
        plan: "knob-ports.toml",
    },
    Knob {
        name: "net.ipv4.tcp_slow_start_after_idle",
        rule: Rule::Same,
        cost: "over a network, an answer above ten segments after a pause takes further round \
               trips; over loopback nothing",
        plan: "knob-idle.toml",
    },
];

impl Rule {
    /// Whether what is here is as good as what is wanted. What does not read as it should is not.
    pub(super) fn holds(self, here: &str, wanted: &str) -> bool {
        let number = |text: &str| text.parse::<u64>().ok();
        let pair = |text: &str| {
            let (first, last) = text.split_once(' ')?;
            Some((number(first)?, number(last)?))
        };
        match self {
            Self::AtLeast => {
                number(here).zip(number(wanted)).is_some_and(|(here, wanted)| here >= wanted)
            }
            Self::Reaches => pair(here)
                .zip(pair(wanted))
                .is_some_and(|(here, wanted)| here.0 <= wanted.0 && here.1 >= wanted.1),
            Self::Lists => ranges(wanted)
                .all(|(from, to)| ranges(here).any(|(first, last)| first <= from && last >= to)),
            Self::Same => here == wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::profile::{PROFILE, settings};

    #[test]
    fn every_setting_of_the_profile_is_known_and_no_other() {
        let names: Vec<&str> = settings(PROFILE).map(|setting| setting.name).collect();
        assert_eq!(names, KNOBS.map(|knob| knob.name));
    }

    #[test]
    fn the_profile_holds_against_itself() {
        for (setting, knob) in settings(PROFILE).zip(KNOBS) {
            assert!(knob.rule.holds(setting.value, setting.value), "{}", knob.name);
            assert!(!knob.rule.holds("", setting.value), "{}", knob.name);
        }
    }

    #[test]
    fn more_than_is_wanted_is_as_good_and_less_is_not() {
        for (rule, wanted, good, bad) in [
            (Rule::AtLeast, "4096", "65535", "128"),
            (Rule::Reaches, "1024 65535", "1000 65535", "32768 60999"),
            (Rule::Reaches, "1024 65535", "1024 65535", "1024"),
            (Rule::Lists, "8080,8888", "8000-8100,8888", "8080"),
            (Rule::Same, "1", "1", "2"),
        ] {
            assert!(rule.holds(good, wanted), "{rule:?} {good}");
            assert!(!rule.holds(bad, wanted), "{rule:?} {bad}");
        }
    }
}
