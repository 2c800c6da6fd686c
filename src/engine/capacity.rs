//! How many descriptors the process may open: what bounds connections.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one and tells it. `io_uring` measures its table
/// of direct descriptors against this limit, each ring on its own; readiness shares it among all.
pub fn descriptors_max() -> u32 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // A refusal leaves the soft limit, which the reading below then sees.
        setrlimit(Resource::Nofile, limit).unwrap_or(());
    }
    let bound = getrlimit(Resource::Nofile).current.unwrap_or(NO_BOUND);
    u32::try_from(bound).unwrap_or(u32::MAX)
}

/// Stands for "unlimited" where a count is wanted.
const NO_BOUND: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_twice_tells_the_same() {
        assert!(descriptors_max() > 2);
        assert_eq!(descriptors_max(), descriptors_max());
    }
}
