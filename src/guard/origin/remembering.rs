//! What was admitted last, known again without being read.
//!
//! The requests of one shard name the same host nearly always, and pages the same origin. What it
//! keeps true: a verdict is that of the guard, whatever came before. Only what the guard admitted
//! is remembered, byte for byte; an origin together with the host that it was admitted with,
//! because whether a page is ours depends on both.
//!
//! What it does not do: grow. Texts longer than [`BYTES_MAX`] are read each time.

use super::{Blocked, OriginGuard};

/// Bytes of a host or of an origin that is remembered, at most.
const BYTES_MAX: usize = 63;

/// An [`OriginGuard`] with a memory of one host and one origin. Takes 128 bytes more than the guard
/// and allocates nothing.
#[derive(Clone, Debug)]
pub struct RememberingGuard {
    guard: OriginGuard,
    host: Remembered,
    /// Admitted with that host.
    origin: Remembered,
}

impl RememberingGuard {
    /// A guard that remembers nothing yet.
    pub const fn new(guard: OriginGuard) -> Self {
        Self { guard, host: Remembered::NOTHING, origin: Remembered::NOTHING }
    }

    /// Whether a request with this `Host` and this `Origin` is served; see [`OriginGuard::admit`].
    /// Cost: a comparison of bytes where the last one that was admitted had the same.
    ///
    /// # Errors
    ///
    /// [`Blocked`], as the guard has it.
    #[inline]
    pub fn admit(&mut self, host: Option<&[u8]>, origin: Option<&[u8]>) -> Result<(), Blocked> {
        let is_known = host.is_some_and(|host| self.host.is(host))
            && origin.is_none_or(|origin| self.origin.is(origin));
        if is_known { Ok(()) } else { self.read(host, origin) }
    }

    #[inline(never)]
    fn read(&mut self, host: Option<&[u8]>, origin: Option<&[u8]>) -> Result<(), Blocked> {
        self.guard.admit(host, origin)?;
        let Some(host) = host else { return Ok(()) };
        if !self.host.is(host) {
            self.host = Remembered::of(host);
            self.origin = Remembered::NOTHING;
        }
        if let Some(origin) = origin {
            self.origin = Remembered::of(origin);
        }
        Ok(())
    }
}

/// A text, or nothing.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    bytes: [u8; BYTES_MAX],
    /// None where nothing is remembered: a text without bytes never is.
    length: u8,
}

impl Remembered {
    const NOTHING: Self = Self { bytes: [0; BYTES_MAX], length: 0 };

    /// `text`, where it is short enough.
    fn of(text: &[u8]) -> Self {
        let mut remembered = Self::NOTHING;
        if let (Some(bytes), Ok(length)) =
            (remembered.bytes.get_mut(..text.len()), u8::try_from(text.len()))
        {
            bytes.copy_from_slice(text);
            remembered.length = length;
        }
        remembered
    }

    /// Whether it is this text to the byte.
    #[inline]
    fn is(&self, text: &[u8]) -> bool {
        self.length != 0 && self.bytes.get(..usize::from(self.length)) == Some(text)
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
    fn a_refused_host_is_refused_again_and_does_not_displace_what_was_admitted() {
        let mut remembering = RememberingGuard::new(local());
        for _ in 0..3 {
            assert_eq!(remembering.admit(Some(b"evil.example"), None), Err(Blocked::Host));
            assert!(!remembering.host.is(b"evil.example"));
            assert_eq!(remembering.admit(Some(b"localhost:8080"), None), Ok(()));
            assert!(remembering.host.is(b"localhost:8080"));
        }
        let evil = Some(&b"http://evil.example"[..]);
        for _ in 0..2 {
            assert_eq!(remembering.admit(Some(b"localhost:8080"), evil), Err(Blocked::Origin));
            assert_eq!(remembering.origin.length, 0);
        }
        // Not even its host is remembered of a request that was refused.
        assert_eq!(remembering.admit(Some(b"127.0.0.1"), evil), Err(Blocked::Origin));
        assert!(remembering.host.is(b"localhost:8080"));
    }

    #[test]
    fn an_origin_is_known_only_beside_the_host_that_it_was_admitted_with() {
        let mut remembering = RememberingGuard::new(elsewhere());
        let page = Some(&b"http://192.0.2.1:8080"[..]);
        for _ in 0..2 {
            assert_eq!(remembering.admit(Some(b"192.0.2.1:8080"), page), Ok(()));
            assert_eq!(remembering.admit(Some(b"192.0.2.2:8080"), page), Err(Blocked::Origin));
            assert_eq!(remembering.admit(Some(b"192.0.2.2:8080"), None), Ok(()));
            assert_eq!(remembering.admit(Some(b"192.0.2.2:8080"), page), Err(Blocked::Origin));
            assert_eq!(remembering.admit(None, page), Err(Blocked::Origin));
        }
    }

    #[test]
    fn a_host_is_not_known_as_an_origin_nor_an_origin_as_a_host() {
        let mut remembering = RememberingGuard::new(local());
        let origin = &b"http://localhost"[..];
        assert_eq!(remembering.admit(Some(b"localhost"), Some(origin)), Ok(()));
        assert_eq!(remembering.admit(Some(origin), None), Err(Blocked::Host));
        assert_eq!(remembering.admit(Some(origin), Some(origin)), Err(Blocked::Host));
        let blocked = remembering.admit(Some(b"localhost"), Some(b"localhost"));
        assert_eq!(blocked, Err(Blocked::Origin));
    }

    #[test]
    fn what_is_too_long_or_has_no_bytes_is_judged_and_not_remembered() {
        let mut remembering = RememberingGuard::new(open());
        let long = [b'a'; BYTES_MAX + 1];
        for text in [&long[..], b""] {
            assert_eq!(remembering.admit(Some(&long[1..]), Some(&long[1..])), Ok(()));
            assert!(remembering.host.is(&long[1..]) && remembering.origin.is(&long[1..]));
            assert_eq!(remembering.admit(Some(text), Some(text)), Ok(()));
            assert_eq!((remembering.host.length, remembering.origin.length), (0, 0));
        }
    }

    #[test]
    fn whatever_came_before_the_verdict_is_that_of_the_guard() {
        let hosts = ["localhost", "LOCALHOST", "localhost:1", "localhos", "evil", "192.0.2.1", ""];
        let origins = ["http://localhost", "HTTP://localhost", "http://192.0.2.1", "null", ""];
        let hosts: Vec<_> = hosts.iter().map(|host| Some(host.as_bytes())).chain([None]).collect();
        let origins: Vec<_> =
            origins.iter().map(|origin| Some(origin.as_bytes())).chain([None]).collect();
        let pairs = || hosts.iter().flat_map(|host| origins.iter().map(|origin| (*host, *origin)));
        for guard in [local(), elsewhere(), open()] {
            let mut remembering = RememberingGuard::new(guard.clone());
            // Every pair behind every other one.
            for before in pairs() {
                for (host, origin) in pairs() {
                    let first = remembering.admit(before.0, before.1);
                    assert_eq!(first, guard.admit(before.0, before.1), "{before:?}");
                    let verdict = guard.admit(host, origin);
                    assert_eq!(remembering.admit(host, origin), verdict, "{host:?} {origin:?}");
                }
            }
        }
    }
}
