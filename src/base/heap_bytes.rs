//! Sizes of values on the heap, allocator overhead included.

use std::borrow::Cow;

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
