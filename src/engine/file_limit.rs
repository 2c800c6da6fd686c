//! The limit of open files, which bounds the number of connections.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files (`RLIMIT_NOFILE`) to the hard limit and returns it.
/// `io_uring` applies it to the table of direct descriptors of each ring; the poll backend shares
/// it among all shards.
pub fn raise_open_files_limit() -> u32 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // On failure the soft limit stays, and is read back below.
        setrlimit(Resource::Nofile, limit).unwrap_or(());
    }
    let bound = getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED);
    u32::try_from(bound).unwrap_or(u32::MAX)
}

/// Returned for an unlimited `RLIMIT_NOFILE`.
const UNLIMITED: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_file_limit_is_stable() {
        assert!(raise_open_files_limit() > 2);
        assert_eq!(raise_open_files_limit(), raise_open_files_limit());
    }
}
