//! The kernel's own forms: addresses, options and the call that enters it.
//!
//! What it keeps true: layouts and numbers of `linux/io_uring.h` and `bits/socket.h` are written
//! here and nowhere else in this backend. It knows no socket of the ring and no completion.

mod address;
mod enter;
mod option;

pub(super) use self::address::AddressRoom;
pub(super) use self::enter::Entrance;
pub(super) use self::option::set_option;
