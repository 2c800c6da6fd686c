//! The clock source of the kernel (`Documentation/timers/timekeeping.rst` of Linux).

use std::fs;

/// Directory of the clock source in sysfs.
const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
/// Clock sources that programs read without a system call, in some nanoseconds.
const FAST: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];

/// The clock source of the kernel.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClockSource {
    /// The one in use.
    pub current: String,
    /// All that can be used.
    pub available: Vec<String>,
}

impl ClockSource {
    /// Reads it; `None` if the system does not report it.
    pub(super) fn read() -> Option<Self> {
        let read = |name: &str| fs::read_to_string(format!("{FOLDER}/{name}")).ok();
        let available = read("available_clocksource")?;
        Some(Self {
            current: read("current_clocksource")?.trim().into(),
            available: available.split_whitespace().map(String::from).collect(),
        })
    }

    /// Returns whether each reading is a system call.
    pub(super) fn is_slow(&self) -> bool {
        !FAST.contains(&self.current.as_str())
    }

    /// Returns the command that selects a faster one, if there is one.
    pub(super) fn command(&self) -> Option<String> {
        let faster = self.available.iter().find(|name| FAST.contains(&name.as_str()))?;
        Some(format!("echo {faster} > {FOLDER}/current_clocksource"))
    }
}
