//! The bound of what all connections of a shard hold together.

/// Whether connections that hold `held_bytes` in messages half received and answers not yet sent
/// may go on as they are.
pub const fn admit(held_bytes: usize, held_bytes_max: usize) -> bool {
    held_bytes <= held_bytes_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_itself_may_be_reached() {
        assert!(admit(10, 10));
        assert!(!admit(11, 10));
    }
}
