//! A one-entry cache in front of [`OriginGuard`].
//!
//! Nearly all requests of a shard name the same host, and pages the same origin.
//!
//! Invariants: the result is always that of the guard. Only accepted values are cached, byte for
//! byte, and an origin only together with the host it was accepted with, because whether a page is
//! same-origin depends on both. Values longer than [`BYTES_MAX`] are checked every time.

use super::{OriginGuard, RejectedHeader};

/// The longest host or origin that is cached, in bytes.
const BYTES_MAX: usize = 63;

/// An [`OriginGuard`] that caches the last accepted host and origin. Takes 128 bytes more than the
/// guard and allocates nothing.
#[derive(Clone, Debug)]
pub struct CachedOriginGuard {
    guard: OriginGuard,
    host: CachedValue,
    /// Accepted together with `host`.
    origin: CachedValue,
}

impl CachedOriginGuard {
    /// Creates a guard with an empty cache.
    pub const fn new(guard: OriginGuard) -> Self {
        Self { guard, host: CachedValue::EMPTY, origin: CachedValue::EMPTY }
    }

    /// Checks the `Host` and `Origin` of a request; see [`OriginGuard::check`]. Cost: a byte
    /// comparison if both equal the cached values.
    ///
    /// # Errors
    ///
    /// [`RejectedHeader`], as returned by the guard.
    #[inline]
    pub fn check(
        &mut self,
        host: Option<&[u8]>,
        origin: Option<&[u8]>,
    ) -> Result<(), RejectedHeader> {
        let is_cached = host.is_some_and(|host| self.host.matches(host))
            && origin.is_none_or(|origin| self.origin.matches(origin));
        if is_cached { Ok(()) } else { self.check_uncached(host, origin) }
    }

    #[inline(never)]
    fn check_uncached(
        &mut self,
        host: Option<&[u8]>,
        origin: Option<&[u8]>,
    ) -> Result<(), RejectedHeader> {
        self.guard.check(host, origin)?;
        let Some(host) = host else { return Ok(()) };
        if !self.host.matches(host) {
            self.host = CachedValue::new(host);
            self.origin = CachedValue::EMPTY;
        }
        if let Some(origin) = origin {
            self.origin = CachedValue::new(origin);
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct CachedValue {
    bytes: [u8; BYTES_MAX],
    /// Zero if nothing is cached; empty texts are never cached.
    len: u8,
}

impl CachedValue {
    const EMPTY: Self = Self { bytes: [0; BYTES_MAX], len: 0 };

    /// Copies `text`, or caches nothing if it is too long.
    fn new(text: &[u8]) -> Self {
        let mut cached = Self::EMPTY;
        if let (Some(bytes), Ok(length)) =
            (cached.bytes.get_mut(..text.len()), u8::try_from(text.len()))
        {
            bytes.copy_from_slice(text);
            cached.len = length;
        }
        cached
    }

    #[inline]
    fn matches(&self, text: &[u8]) -> bool {
        self.len != 0 && self.bytes.get(..usize::from(self.len)) == Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::origin::OriginOptions;

    fn guard(options: &OriginOptions) -> OriginGuard {
        OriginGuard::new(options).unwrap()
    }

    fn local() -> OriginGuard {
        guard(&OriginOptions { is_loopback: true, ..OriginOptions::default() })
    }

    fn elsewhere() -> OriginGuard {
        guard(&OriginOptions::default())
    }

    fn open() -> OriginGuard {
        let origins = vec!["*".to_owned()];
        guard(&OriginOptions { origins, ..OriginOptions::default() })
    }

    #[test]
    fn rejected_host_is_not_cached() {
        let mut cached = CachedOriginGuard::new(local());
        for _ in 0..3 {
            assert_eq!(cached.check(Some(b"evil.example"), None), Err(RejectedHeader::Host));
            assert!(!cached.host.matches(b"evil.example"));
            assert_eq!(cached.check(Some(b"localhost:8080"), None), Ok(()));
            assert!(cached.host.matches(b"localhost:8080"));
        }
        let evil = Some(&b"http://evil.example"[..]);
        for _ in 0..2 {
            assert_eq!(cached.check(Some(b"localhost:8080"), evil), Err(RejectedHeader::Origin));
            assert_eq!(cached.origin.len, 0);
        }
        // The host of a rejected request is not cached either.
        assert_eq!(cached.check(Some(b"127.0.0.1"), evil), Err(RejectedHeader::Origin));
        assert!(cached.host.matches(b"localhost:8080"));
    }

    #[test]
    fn origin_is_cached_only_with_its_host() {
        let mut cached = CachedOriginGuard::new(elsewhere());
        let page = Some(&b"http://192.0.2.1:8080"[..]);
        for _ in 0..2 {
            assert_eq!(cached.check(Some(b"192.0.2.1:8080"), page), Ok(()));
            assert_eq!(cached.check(Some(b"192.0.2.2:8080"), page), Err(RejectedHeader::Origin));
            assert_eq!(cached.check(Some(b"192.0.2.2:8080"), None), Ok(()));
            assert_eq!(cached.check(Some(b"192.0.2.2:8080"), page), Err(RejectedHeader::Origin));
            assert_eq!(cached.check(None, page), Err(RejectedHeader::Origin));
        }
    }

    #[test]
    fn cached_host_and_origin_are_not_interchangeable() {
        let mut cached = CachedOriginGuard::new(local());
        let origin = &b"http://localhost"[..];
        assert_eq!(cached.check(Some(b"localhost"), Some(origin)), Ok(()));
        assert_eq!(cached.check(Some(origin), None), Err(RejectedHeader::Host));
        assert_eq!(cached.check(Some(origin), Some(origin)), Err(RejectedHeader::Host));
        let blocked = cached.check(Some(b"localhost"), Some(b"localhost"));
        assert_eq!(blocked, Err(RejectedHeader::Origin));
    }

    #[test]
    fn empty_or_long_values_are_not_cached() {
        let mut cached = CachedOriginGuard::new(open());
        let long = [b'a'; BYTES_MAX + 1];
        for text in [&long[..], b""] {
            assert_eq!(cached.check(Some(&long[1..]), Some(&long[1..])), Ok(()));
            assert!(cached.host.matches(&long[1..]) && cached.origin.matches(&long[1..]));
            assert_eq!(cached.check(Some(text), Some(text)), Ok(()));
            assert_eq!((cached.host.len, cached.origin.len), (0, 0));
        }
    }

    #[test]
    fn cached_guard_agrees_with_uncached_guard() {
        let hosts = ["localhost", "LOCALHOST", "localhost:1", "localhos", "evil", "192.0.2.1", ""];
        let origins = ["http://localhost", "HTTP://localhost", "http://192.0.2.1", "null", ""];
        let hosts: Vec<_> = hosts.iter().map(|host| Some(host.as_bytes())).chain([None]).collect();
        let origins: Vec<_> =
            origins.iter().map(|origin| Some(origin.as_bytes())).chain([None]).collect();
        let pairs = || hosts.iter().flat_map(|host| origins.iter().map(|origin| (*host, *origin)));
        for guard in [local(), elsewhere(), open()] {
            let mut cached = CachedOriginGuard::new(guard.clone());
            // Every pair after every other one.
            for before in pairs() {
                for (host, origin) in pairs() {
                    let first = cached.check(before.0, before.1);
                    assert_eq!(first, guard.check(before.0, before.1), "{before:?}");
                    let verdict = guard.check(host, origin);
                    assert_eq!(cached.check(host, origin), verdict, "{host:?} {origin:?}");
                }
            }
        }
    }
}
