//! A machine as it is judged: plain values, wherever they came from.

use std::collections::BTreeMap;

/// What of a machine bounds or spoils a load. What it does not tell is empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Machine {
    /// The release of the kernel, such as `6.1.0-18-amd64`.
    pub kernel: String,
    /// Settings of the kernel by their names with dots; blanks within a value are single.
    pub settings: BTreeMap<String, String>,
    /// Open files that a process of this user may raise its limit to.
    pub files_max: Option<u64>,
    /// Bytes that such a process may lock into memory.
    pub locked_bytes_max: Option<u64>,
    /// Memory that can be had without swapping, in bytes (`MemAvailable`).
    pub available_bytes: Option<u64>,
    /// Swap space, in bytes.
    pub swap_bytes: u64,
    /// What chooses the clock of the cores, each kind once; empty where nobody does.
    pub governors: Vec<String>,
    /// How long a core may take to wake from the deepest sleep that is allowed, in microseconds.
    pub wake_us_max: Option<u64>,
    /// When memory comes in huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Memory nodes.
    pub nodes: usize,
    /// What the kernel does against faults of the processor, by their names.
    pub mitigations: Vec<String>,
}

impl Machine {
    /// A setting of the kernel as a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.settings.get(name)?.parse().ok()
    }

    /// The numbers of a setting that has several, parted by blanks.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        self.settings.get(name)?.split_whitespace().map(|text| text.parse().ok()).collect()
    }

    /// Ports that one address can connect from to one server: the range without what is reserved
    /// in it.
    pub(super) fn ports(&self) -> Option<u64> {
        let [first, last] = self.numbers("net.ipv4.ip_local_port_range")?[..] else { return None };
        let reserved = self.settings.get("net.ipv4.ip_local_reserved_ports");
        let reserved = reserved.map_or("", String::as_str);
        let kept = ranges(reserved).map(|(from, to)| {
            let (from, to) = (from.max(first), to.min(last));
            (to + 1).saturating_sub(from)
        });
        Some((last + 1).saturating_sub(first).saturating_sub(kept.sum()))
    }

    /// The first two numbers of the kernel's release.
    pub(super) fn release(&self) -> Option<(u32, u32)> {
        let mut parts = self.kernel.split(['.', '-']);
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

/// Numbers and ranges of them parted by commas: `8080,9000-9010`. What is none is passed over.
pub(super) fn ranges(text: &str) -> impl Iterator<Item = (u64, u64)> {
    text.split(',').filter_map(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(settings: &[(&str, &str)]) -> Machine {
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Machine { settings: settings.collect(), ..Machine::default() }
    }

    #[test]
    fn ports_are_those_of_the_range_that_nobody_reserved() {
        let range = ("net.ipv4.ip_local_port_range", "1024 65535");
        let reserved = |text| ("net.ipv4.ip_local_reserved_ports", text);
        assert_eq!(machine(&[range]).ports(), Some(64_512));
        assert_eq!(machine(&[range, reserved("")]).ports(), Some(64_512));
        assert_eq!(machine(&[range, reserved("80,8080,9000-9009")]).ports(), Some(64_501));
        assert_eq!(machine(&[range, reserved("1000-1030,x")]).ports(), Some(64_505));
        assert_eq!(machine(&[]).ports(), None);
        assert_eq!(machine(&[(range.0, "9 8")]).ports(), Some(0));
    }

    #[test]
    fn a_release_is_read_as_far_as_it_counts() {
        let release = |kernel: &str| Machine { kernel: kernel.into(), ..Machine::default() };
        assert_eq!(release("6.1.0-18-amd64").release(), Some((6, 1)));
        assert_eq!(release("5.15-custom").release(), Some((5, 15)));
        assert_eq!(release("").release(), None);
    }
}
