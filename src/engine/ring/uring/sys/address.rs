//! Conversion between [`SocketAddr`] and the kernel's socket addresses.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A buffer for a socket address of either family.
#[derive(Clone, Copy)]
pub(crate) struct SocketAddressBuffer {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

#[expect(clippy::cast_possible_truncation, reason = "the sizes of C structs fit a socklen_t")]
const STORAGE_BYTES: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

impl SocketAddressBuffer {
    /// Creates an empty buffer, to be filled by the kernel.
    pub(crate) const fn empty() -> Self {
        // SAFETY: all-zero bytes are a valid sockaddr_storage (family AF_UNSPEC).
        let storage = unsafe { MaybeUninit::zeroed().assume_init() };
        Self { storage, len: STORAGE_BYTES }
    }

    /// Creates a buffer that holds `address`.
    pub(crate) fn from_address(address: SocketAddr) -> Self {
        let raw = socket2::SockAddr::from(address);
        let mut room = Self::empty();
        // SAFETY: both point to valid memory of at least `raw.len()` bytes, which is at most the
        // size of a sockaddr_storage.
        unsafe {
            std::ptr::copy_nonoverlapping(
                raw.as_ptr().cast::<u8>(),
                (&raw mut room.storage).cast::<u8>(),
                raw.len() as usize,
            );
        }
        room.len = raw.len();
        room
    }

    /// Returns pointers to address and length, for accept.
    pub(crate) fn as_mut_pointers(&mut self) -> (*mut libc::sockaddr, *mut libc::socklen_t) {
        self.len = STORAGE_BYTES;
        ((&raw mut self.storage).cast(), &raw mut self.len)
    }

    /// Returns a pointer to the address and its length, for bind and connect.
    pub(crate) const fn as_pointer(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.len)
    }

    /// Returns the address family.
    pub(crate) fn family(&self) -> i32 {
        i32::from(self.storage.ss_family)
    }

    /// Parses the address that the kernel wrote; returns `None` for other families.
    pub(crate) fn parse(&self) -> Option<SocketAddr> {
        match self.family() {
            libc::AF_INET => {
                // SAFETY: the family shows that this is a sockaddr_in.
                let raw = unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family shows that this is a sockaddr_in6.
                let raw = unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                let port = u16::from_be(raw.sin6_port);
                Some(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_addresses_survive_the_kernel_format() {
        for text in ["127.0.0.3:65535", "[::1]:1", "[fe80::7%3]:80"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(SocketAddressBuffer::from_address(address).parse(), Some(address));
        }
        assert_eq!(SocketAddressBuffer::empty().parse(), None);
    }
}
