//! Socket addresses in the kernel's form and in ours.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for one address of either family, at a place that the kernel may write to.
#[derive(Clone, Copy)]
pub(in crate::engine::ring::uring) struct AddressRoom {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

#[expect(clippy::cast_possible_truncation, reason = "the sizes of C structs fit a socklen_t")]
const ROOM_BYTES: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

impl AddressRoom {
    /// Room with nothing in it.
    pub(in crate::engine::ring::uring) const fn empty() -> Self {
        // SAFETY: all-zero bytes are a valid sockaddr_storage (family AF_UNSPEC).
        let storage = unsafe { MaybeUninit::zeroed().assume_init() };
        Self { storage, length: ROOM_BYTES }
    }

    /// Room that holds `address`.
    pub(in crate::engine::ring::uring) fn holding(address: SocketAddr) -> Self {
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
        room.length = raw.len();
        room
    }

    /// Where the address stands and where its length does, for an accept.
    pub(in crate::engine::ring::uring) fn pointers(
        &mut self,
    ) -> (*mut libc::sockaddr, *mut libc::socklen_t) {
        self.length = ROOM_BYTES;
        ((&raw mut self.storage).cast(), &raw mut self.length)
    }

    /// Where the address stands and its length, for a connect.
    pub(in crate::engine::ring::uring) const fn parts(
        &self,
    ) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.length)
    }

    /// The family of the address.
    pub(in crate::engine::ring::uring) fn family(&self) -> i32 {
        i32::from(self.storage.ss_family)
    }

    /// The address that the kernel wrote, where it is one of ours.
    pub(in crate::engine::ring::uring) fn read(&self) -> Option<SocketAddr> {
        match self.family() {
            libc::AF_INET => {
                // SAFETY: the family says that a sockaddr_in stands here.
                let raw = unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that a sockaddr_in6 stands here.
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
    fn addresses_of_both_families_survive_the_kernels_form() {
        for text in ["127.0.0.3:65535", "[::1]:1", "[fe80::7%3]:80"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(AddressRoom::holding(address).read(), Some(address));
        }
        assert_eq!(AddressRoom::empty().read(), None);
    }
}
