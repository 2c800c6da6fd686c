//! Sizes of values on the heap, allocator overhead included.
//!
//! What peers make a server hold is counted by [`HeapBytes`]. The macro
//! [`heap_bytes!`](macro@crate::heap_bytes) implements it for a struct by all of its fields: a
//! struct with a new field compiles once that is named.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

/// Overhead of an allocation.
pub const ALLOCATION_BYTES: usize = 16;

/// The index of a JSON object besides its members.
pub const OBJECT_BYTES: usize = 64;

/// A value that knows its size on the heap.
pub trait HeapBytes {
    /// Returns the bytes that the value owns besides itself. Cost: one pass over the value.
    fn heap_bytes(&self) -> usize;
}

/// Implements [`HeapBytes`] for a struct by all of its fields.
///
/// ```
/// use corelane_base::heap_bytes;
/// use corelane_base::heap_bytes::HeapBytes;
///
/// struct Caller {
///     name: String,
///     chunks: Vec<Box<[u8]>>,
///     chunk_bytes: usize,
///     port: u16,
/// }
///
/// impl Caller {
///     const fn held_chunks(&self) -> usize {
///         self.chunk_bytes
///     }
/// }
///
/// heap_bytes!(
///     Caller { name }
///     counted { chunks: Caller::held_chunks }
///     inline { chunk_bytes, port }
/// );
///
/// let caller = Caller { name: "ada".to_owned(), chunks: Vec::new(), chunk_bytes: 7, port: 80 };
/// assert_eq!(caller.heap_bytes(), "ada".to_owned().heap_bytes() + 7);
/// ```
///
/// The fields that come first implement [`HeapBytes`]. A `counted` one is counted by a method of
/// the struct, where a pass over it costs too much. An `inline` one owns nothing on the heap. An
/// `elsewhere` one is in another account. A generic struct has its parameters in front:
/// `heap_bytes!(impl<T: HeapBytes> Slot<T> { … })`.
#[macro_export]
macro_rules! heap_bytes {
    (impl<$($parameter:ident $(: $bound:path)?),+> $($declared:tt)+) => {
        $crate::heap_bytes!(@[$($parameter $(: $bound)?),+] $($declared)+);
    };
    (
        @[$($parameter:ident $(: $bound:path)?),*] $type:ty { $($owned:ident),* $(,)? }
        $(counted { $($counted:ident: $count:path),* $(,)? })?
        $(inline { $($inline:ident),* $(,)? })?
        $(elsewhere { $($elsewhere:ident),* $(,)? })?
    ) => {
        impl<$($parameter $(: $bound)?),*> $crate::heap_bytes::HeapBytes for $type {
            #[inline]
            fn heap_bytes(&self) -> usize {
                let Self {
                    $($owned,)*
                    $($($counted: _,)*)?
                    $($($inline: _,)*)?
                    $($($elsewhere: _,)*)?
                } = self;
                0 $(+ $crate::heap_bytes::HeapBytes::heap_bytes($owned))*
                    $($(+ $count(self))*)?
            }
        }
    };
    ($($declared:tt)+) => {
        $crate::heap_bytes!(@[] $($declared)+);
    };
}

impl HeapBytes for str {
    fn heap_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { ALLOCATION_BYTES + self.len() }
    }
}

impl HeapBytes for String {
    fn heap_bytes(&self) -> usize {
        if self.capacity() == 0 { 0 } else { ALLOCATION_BYTES + self.capacity() }
    }
}

impl HeapBytes for Cow<'static, str> {
    fn heap_bytes(&self) -> usize {
        match self {
            Cow::Borrowed(_) => 0,
            Cow::Owned(text) => text.heap_bytes(),
        }
    }
}

impl HeapBytes for Bytes {
    /// Counts in full what may be shared.
    fn heap_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { ALLOCATION_BYTES + self.len() }
    }
}

impl<T: HeapBytes> HeapBytes for Box<T> {
    fn heap_bytes(&self) -> usize {
        ALLOCATION_BYTES + size_of::<T>() + T::heap_bytes(self)
    }
}

impl HeapBytes for Box<str> {
    fn heap_bytes(&self) -> usize {
        str::heap_bytes(self)
    }
}

impl HeapBytes for Box<[u8]> {
    fn heap_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { ALLOCATION_BYTES + self.len() }
    }
}

impl HeapBytes for Box<[[u8; 32]]> {
    fn heap_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { ALLOCATION_BYTES + size_of_val(&**self) }
    }
}

impl<T: HeapBytes> HeapBytes for Arc<T> {
    /// Counts in full what may be shared.
    fn heap_bytes(&self) -> usize {
        ALLOCATION_BYTES + 2 * size_of::<usize>() + size_of::<T>() + T::heap_bytes(self)
    }
}

macro_rules! inline_bytes {
    ($($type:ty),*) => {
        $(impl HeapBytes for $type {
            fn heap_bytes(&self) -> usize {
                0
            }
        })*
    };
}

inline_bytes!([u8; 16], [u8; 32], u64);

impl<T: HeapBytes> HeapBytes for VecDeque<T> {
    fn heap_bytes(&self) -> usize {
        if self.capacity() == 0 {
            return 0;
        }
        let items: usize = self.iter().map(T::heap_bytes).sum();
        ALLOCATION_BYTES + self.capacity() * size_of::<T>() + items
    }
}

impl<K: HeapBytes, V: HeapBytes, S> HeapBytes for HashMap<K, V, S> {
    fn heap_bytes(&self) -> usize {
        let items = self.iter().map(|(key, value)| key.heap_bytes() + value.heap_bytes());
        map_bytes(self) + items.sum::<usize>()
    }
}

/// Returns the bytes of the capacity of a buffer.
pub const fn buffer_bytes(buffer: &Vec<u8>) -> usize {
    match buffer.capacity() {
        0 => 0,
        capacity => ALLOCATION_BYTES + capacity,
    }
}

/// Returns the bytes of the table of a map, without what its keys and values own.
pub fn map_bytes<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    match map.capacity() {
        0 => 0,
        // A byte and a seventh of a place for each entry.
        capacity => ALLOCATION_BYTES + capacity * 8 / 7 * (size_of::<(K, V)>() + 1),
    }
}

impl<T: HeapBytes> HeapBytes for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::heap_bytes)
    }
}

impl<T: HeapBytes> HeapBytes for Vec<T> {
    fn heap_bytes(&self) -> usize {
        if self.capacity() == 0 {
            return 0;
        }
        let items: usize = self.iter().map(T::heap_bytes).sum();
        ALLOCATION_BYTES + self.capacity() * size_of::<T>() + items
    }
}

impl HeapBytes for Value {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => 0,
            Self::String(text) => text.heap_bytes(),
            Self::Array(items) => items.heap_bytes(),
            Self::Object(members) => members.heap_bytes(),
        }
    }
}

impl HeapBytes for Map<String, Value> {
    fn heap_bytes(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let members = self.iter().map(|(key, value)| {
            size_of::<(String, Value)>() + key.heap_bytes() + value.heap_bytes()
        });
        OBJECT_BYTES + members.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn heap_bytes_count_nested_values() {
        assert_eq!((String::new().heap_bytes(), "".heap_bytes()), (0, 0));
        assert_eq!(("text".heap_bytes(), "text".to_owned().heap_bytes()), (20, 20));
        assert_eq!(Bytes::from_static(b"four").heap_bytes(), 20);
        assert_eq!(
            (Cow::Borrowed("text").heap_bytes(), Some("x".to_owned()).heap_bytes()),
            (0, 17)
        );
        assert_eq!(vec!["text".to_owned()].heap_bytes(), 16 + 24 + 20);
        assert_eq!((json!(7).heap_bytes(), json!({}).heap_bytes()), (0, 0));
        let members = size_of::<(String, Value)>() + 17 + 16 + 2 * size_of::<Value>();
        assert_eq!(json!({"a": [null, true]}).heap_bytes(), 64 + members);
    }
}
