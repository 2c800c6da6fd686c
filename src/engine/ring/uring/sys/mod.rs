//! The kernel interface of this backend: socket addresses, socket options and `io_uring_enter(2)`.
//!
//! The layouts and numbers of `linux/io_uring.h` and `bits/socket.h` are defined only here.

mod address;
mod enter;
mod option;

pub(super) use self::address::SocketAddressBuffer;
pub(super) use self::enter::RingFd;
pub(super) use self::option::set_option;
