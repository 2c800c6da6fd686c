//! Properties of a machine that affect a load test.

use std::collections::BTreeMap;

use super::listeners::Listeners;

/// Properties of a machine. What the system does not report is empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Machine {
    /// Kernel release, such as `6.1.0-18-amd64`.
    pub kernel: String,
    /// Kernel settings by name with dots; whitespace within a value is a single space.
    pub settings: BTreeMap<String, String>,
    /// Hard limit of open files of this user's processes.
    pub open_files_max: Option<u64>,
    /// Hard limit of locked memory of such a process, in bytes.
    pub locked_bytes_max: Option<u64>,
    /// Memory available without swapping, in bytes (`MemAvailable`).
    pub available_bytes: Option<u64>,
    /// Swap space, in bytes.
    pub swap_bytes: u64,
    /// CPU frequency governors in use, each once; empty without cpufreq.
    pub governors: Vec<String>,
    /// Longest exit latency of an enabled CPU idle state, in microseconds.
    pub exit_latency_us_max: Option<u64>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// NUMA nodes.
    pub nodes: usize,
    /// Active mitigations of CPU vulnerabilities, by name.
    pub mitigations: Vec<String>,
    /// TCP listeners.
    pub listeners: Listeners,
}

impl Machine {
    /// Returns a kernel setting as a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.settings.get(name)?.parse().ok()
    }

    /// Returns a kernel setting of several numbers separated by whitespace.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        self.settings.get(name)?.split_whitespace().map(|text| text.parse().ok()).collect()
    }

    /// Returns the ephemeral ports of one address: the local port range without reserved ports.
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

    /// Returns the first two numbers of the kernel release.
    pub(super) fn release(&self) -> Option<(u32, u32)> {
        let mut parts = self.kernel.split(['.', '-']);
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

/// Parses numbers and ranges separated by commas: `8080,9000-9010`. Invalid parts are skipped.
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
    fn reserved_ports_are_subtracted_from_range() {
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
    fn kernel_release_parses_major_and_minor() {
        let release = |kernel: &str| Machine { kernel: kernel.into(), ..Machine::default() };
        assert_eq!(release("6.1.0-18-amd64").release(), Some((6, 1)));
        assert_eq!(release("5.15-custom").release(), Some((5, 15)));
        assert_eq!(release("").release(), None);
    }
}
