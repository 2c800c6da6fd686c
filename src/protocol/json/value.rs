//! Borrowed views of parsed JSON values.
//!
//! Invariants: a [`Value`] is never empty and covers exactly its own nodes, so iterating over an
//! object costs one step per member, however large the members are. Only [`Value::to_json`]
//! allocates, and [`Value::duplicate_key`] for objects of more than 8 members.

use simd_json::{Node, StaticNode};

use super::write;
use corelane_base::heap_bytes::{ALLOCATION_BYTES, OBJECT_BYTES};

/// Type of a JSON value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ValueKind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// A value borrowed from a document: two words, `Copy`.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    nodes: &'a [Node<'a>],
}

impl<'a> Value<'a> {
    /// Returns the value that starts at the first of `nodes`, or `None` if `nodes` is empty or its
    /// children are missing.
    #[inline]
    pub(super) fn from_nodes(nodes: &'a [Node<'a>]) -> Option<Self> {
        let extent = node_count(nodes.first()?);
        Some(Self { nodes: nodes.get(..extent)? })
    }

    #[inline]
    const fn first_node(self) -> Node<'a> {
        self.nodes[0]
    }

    /// Returns the type of the value.
    #[inline]
    pub const fn kind(self) -> ValueKind {
        match self.first_node() {
            Node::Static(StaticNode::Null) => ValueKind::Null,
            Node::Static(StaticNode::Bool(_)) => ValueKind::Boolean,
            Node::Static(_) => ValueKind::Number,
            Node::String(_) => ValueKind::String,
            Node::Array { .. } => ValueKind::Array,
            Node::Object { .. } => ValueKind::Object,
        }
    }

    /// Returns an address that identifies the value: equal for two views of one value, different
    /// for any two values of one document.
    #[inline]
    pub fn address(self) -> usize {
        self.nodes.as_ptr().addr()
    }

    /// Returns whether the value is `null`.
    #[inline]
    pub const fn is_null(self) -> bool {
        matches!(self.first_node(), Node::Static(StaticNode::Null))
    }

    /// Returns the boolean, or `None` for another type.
    #[inline]
    pub const fn as_bool(self) -> Option<bool> {
        match self.first_node() {
            Node::Static(StaticNode::Bool(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns the string with its escapes decoded, or `None` for another type.
    #[inline]
    pub const fn as_str(self) -> Option<&'a str> {
        match self.first_node() {
            Node::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number if it is an integer that fits. One with fraction or exponent, such as
    /// `2.0`, is an integer below 2^53; a larger one may have lost digits.
    #[inline]
    pub fn as_i64(self) -> Option<i64> {
        self.written_i64().or_else(|| self.as_whole())
    }

    /// Returns the number if it is an integer that fits, as [`Value::as_i64`] does.
    #[inline]
    pub fn as_u64(self) -> Option<u64> {
        self.written_u64().or_else(|| u64::try_from(self.as_whole()?).ok())
    }

    /// Returns the number if it is an integer, written without fraction and exponent, that fits.
    #[inline]
    pub fn written_i64(self) -> Option<i64> {
        match self.first_node() {
            Node::Static(StaticNode::I64(number)) => Some(number),
            Node::Static(StaticNode::U64(number)) => i64::try_from(number).ok(),
            _ => None,
        }
    }

    /// Returns the number if it is an integer, written without fraction and exponent, that fits.
    #[inline]
    pub fn written_u64(self) -> Option<u64> {
        match self.first_node() {
            Node::Static(StaticNode::U64(number)) => Some(number),
            Node::Static(StaticNode::I64(number)) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    /// Returns the number if it is an integer below 2^53 that is written with fraction or exponent,
    /// such as `2.0` and `2e0` (JSON Schema 2020-12, core, section 4.2.3).
    #[inline]
    pub fn as_whole(self) -> Option<i64> {
        match self.first_node() {
            Node::Static(StaticNode::F64(number)) => whole_number(number),
            _ => None,
        }
    }

    /// Returns the number, or `None` for another type; integers beyond 2^53 are rounded.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "documented above")]
    pub const fn as_f64(self) -> Option<f64> {
        match self.first_node() {
            Node::Static(StaticNode::F64(number)) => Some(number),
            Node::Static(StaticNode::I64(number)) => Some(number as f64),
            Node::Static(StaticNode::U64(number)) => Some(number as f64),
            _ => None,
        }
    }

    /// Returns the members, or `None` if the value is not an object.
    #[inline]
    pub fn as_object(self) -> Option<Object<'a>> {
        match self.first_node() {
            Node::Object { len, .. } => Some(Object { nodes: &self.nodes[1..], length: len }),
            _ => None,
        }
    }

    /// Returns the items, or `None` if the value is not an array.
    #[inline]
    pub fn as_array(self) -> Option<Array<'a>> {
        match self.first_node() {
            Node::Array { len, .. } => Some(Array { nodes: &self.nodes[1..], length: len }),
            _ => None,
        }
    }

    /// Returns a key that occurs more than once in one object of the value, at any depth. Cost: one
    /// pass over the nodes; the keys of each object are compared pairwise up to 8, sorted above.
    #[inline]
    pub fn duplicate_key(self) -> Option<&'a str> {
        match self.first_node() {
            // Without nested values: only its own keys.
            Node::Object { len, count } if count == 2 * len => self.as_object()?.duplicate_key(),
            Node::Array { .. } | Node::Object { .. } => self.nested_duplicate_key(),
            Node::String(_) | Node::Static(_) => None,
        }
    }

    fn nested_duplicate_key(self) -> Option<&'a str> {
        (0..self.nodes.len()).find_map(|start| match self.nodes[start] {
            Node::Object { len, .. } if len > 1 => {
                Self::from_nodes(&self.nodes[start..])?.as_object()?.duplicate_key()
            }
            _ => None,
        })
    }

    /// Appends the value as compact JSON: members in their order, duplicates included. Recurses as
    /// deep as the document is nested, which [`super::ParseLimits`] bounds.
    pub fn write(self, out: &mut Vec<u8>) {
        match self.first_node() {
            Node::Static(StaticNode::Null) => out.extend_from_slice(b"null"),
            Node::Static(StaticNode::Bool(value)) => write::boolean(out, value),
            Node::Static(StaticNode::I64(number)) => write::signed(out, number),
            Node::Static(StaticNode::U64(number)) => write::unsigned(out, number),
            Node::Static(StaticNode::F64(number)) => write::float(out, number),
            Node::String(text) => write::string(out, text),
            Node::Array { .. } => {
                out.push(b'[');
                for (index, item) in self.as_array().into_iter().flatten().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    item.write(out);
                }
                out.push(b']');
            }
            Node::Object { .. } => {
                out.push(b'{');
                for (index, (key, member)) in self.as_object().into_iter().flatten().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write::string(out, key);
                    out.push(b':');
                    member.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// Returns the bytes that an owned copy takes, allocator overhead included. Cost: one pass over
    /// the nodes.
    pub fn owned_bytes(self) -> usize {
        let heap_bytes = |node: &Node<'_>| match node {
            Node::Static(_) => 0,
            Node::String(text) => ALLOCATION_BYTES + text.len(),
            Node::Array { .. } => ALLOCATION_BYTES,
            Node::Object { .. } => OBJECT_BYTES,
        };
        let nodes = self.nodes.iter();
        nodes.map(|node| size_of::<serde_json::Value>() + heap_bytes(node)).sum()
    }

    /// Returns an owned copy; the last of duplicate keys wins.
    pub fn to_json(self) -> serde_json::Value {
        match self.first_node() {
            Node::Static(StaticNode::Null) => serde_json::Value::Null,
            Node::Static(StaticNode::Bool(value)) => value.into(),
            Node::Static(StaticNode::I64(number)) => number.into(),
            Node::Static(StaticNode::U64(number)) => number.into(),
            Node::Static(StaticNode::F64(number)) => number.into(),
            Node::String(text) => text.into(),
            Node::Array { .. } => {
                self.as_array().into_iter().flatten().map(Value::to_json).collect()
            }
            Node::Object { .. } => {
                let members = self.as_object().into_iter().flatten();
                members.map(|(key, member)| (key, member.to_json())).collect()
            }
        }
    }
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        formatter.write_str(&String::from_utf8_lossy(&text))
    }
}

/// The members of an object, in the order of the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Object<'a> {
    nodes: &'a [Node<'a>],
    length: usize,
}

impl<'a> Object<'a> {
    /// Returns the number of members, duplicates counted.
    #[inline]
    pub const fn len(self) -> usize {
        self.length
    }

    /// Returns whether the object has no members.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Iterates over the members in order, duplicates included.
    #[inline]
    pub const fn iter(self) -> Members<'a> {
        Members { nodes: self.nodes }
    }

    /// Returns the last member with this key. Cost: one comparison per member.
    #[inline]
    pub fn find(self, key: &str) -> Option<Value<'a>> {
        self.iter().filter(|(name, _)| *name == key).last().map(|(_, value)| value)
    }

    /// Returns a key that occurs more than once among the members. Up to
    /// [`KEYS_COMPARED_MAX`] keys are compared with each other; more are sorted, which allocates.
    #[inline]
    fn duplicate_key(self) -> Option<&'a str> {
        match self.length {
            0 | 1 => None,
            2..=KEYS_COMPARED_MAX => {
                let mut rest = self.iter();
                while let Some((key, _)) = rest.next() {
                    if rest.clone().any(|(other, _)| other == key) {
                        return Some(key);
                    }
                }
                None
            }
            _ => self.duplicate_of_many_keys(),
        }
    }

    fn duplicate_of_many_keys(self) -> Option<&'a str> {
        let mut keys: Vec<&str> = self.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    /// Returns the members with these keys, found in one pass; other members are ignored.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`] if one of `keys` occurs twice.
    #[inline]
    pub fn find_unique<const COUNT: usize>(
        self,
        keys: [&'static str; COUNT],
    ) -> Result<[Option<Value<'a>>; COUNT], DuplicateKey> {
        let mut found = [None; COUNT];
        for (name, value) in self {
            for (slot, key) in found.iter_mut().zip(keys) {
                if name == key {
                    if slot.replace(value).is_some() {
                        return Err(DuplicateKey { key });
                    }
                    break;
                }
            }
        }
        Ok(found)
    }
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (&'a str, Value<'a>);
    type IntoIter = Members<'a>;
    #[inline]
    fn into_iter(self) -> Members<'a> {
        self.iter()
    }
}

/// A key that the protocol reads and that occurs twice in one object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DuplicateKey {
    /// The duplicate key.
    pub key: &'static str,
}

/// Iterator over the members of an object.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    nodes: &'a [Node<'a>],
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Value<'a>);
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (Node::String(key), rest) = self.nodes.split_first()? else {
            return None;
        };
        let value = Value::from_nodes(rest)?;
        self.nodes = &rest[value.nodes.len()..];
        Some((key, value))
    }
}

/// The items of an array, in order.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    nodes: &'a [Node<'a>],
    length: usize,
}

impl<'a> Array<'a> {
    /// Returns the number of items.
    #[inline]
    pub const fn len(self) -> usize {
        self.length
    }

    /// Returns whether the array is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Iterates over the items in order.
    #[inline]
    pub const fn iter(self) -> Items<'a> {
        Items { nodes: self.nodes }
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Items<'a>;
    #[inline]
    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// Iterator over the items of an array.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    nodes: &'a [Node<'a>],
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;
    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        let value = Value::from_nodes(self.nodes)?;
        self.nodes = &self.nodes[value.nodes.len()..];
        Some(value)
    }
}

/// Returns `number` as an integer if it has no fractional part and is below 2^53: each larger
/// double stands for several integers.
#[cold]
#[expect(clippy::cast_possible_truncation, reason = "the number is an integer below 2^53")]
pub fn whole_number(number: f64) -> Option<i64> {
    const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
    (number.abs() < TWO_TO_53 && number.fract() == 0.0).then_some(number as i64)
}

/// Number of keys up to which each is compared with all others to find a duplicate.
const KEYS_COMPARED_MAX: usize = 8;

/// Returns the number of nodes that the value starting with `head` covers, itself included.
#[inline]
const fn node_count(head: &Node<'_>) -> usize {
    match *head {
        Node::Array { count, .. } | Node::Object { count, .. } => count + 1,
        Node::Static(_) | Node::String(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};

    /// `{"a":[1,{"b":null}],"c":"x","a":true}` as the parser produces it.
    const NODES: &[Node<'static>] = &[
        Node::Object { len: 3, count: 10 },
        Node::String("a"),
        Node::Array { len: 2, count: 4 },
        Node::Static(StaticNode::U64(1)),
        Node::Object { len: 1, count: 2 },
        Node::String("b"),
        Node::Static(StaticNode::Null),
        Node::String("c"),
        Node::String("x"),
        Node::String("a"),
        Node::Static(StaticNode::Bool(true)),
    ];

    fn object() -> Object<'static> {
        Value::from_nodes(NODES).and_then(Value::as_object).unwrap()
    }

    #[test]
    fn members_iterate_in_order_over_own_nodes() {
        let members: Vec<_> = object().iter().map(|(key, value)| (key, value.kind())).collect();
        assert_eq!(
            members,
            [("a", ValueKind::Array), ("c", ValueKind::String), ("a", ValueKind::Boolean)]
        );
        let items: Vec<_> = object().iter().next().unwrap().1.as_array().unwrap().iter().collect();
        assert_eq!(items.len(), 2);
        assert_eq!(items[0].as_u64(), Some(1));
        assert!(items[1].as_object().unwrap().find("b").unwrap().is_null());
    }

    #[test]
    fn duplicate_key_find_returns_last_unique_fails() {
        assert_eq!(object().find("a").unwrap().as_bool(), Some(true));
        assert!(object().find("b").is_none());
        assert_eq!(object().find_unique(["c", "a"]).unwrap_err(), DuplicateKey { key: "a" });
        let [text, absent] = object().find_unique(["c", "d"]).unwrap();
        assert_eq!(text.and_then(Value::as_str), Some("x"));
        assert!(absent.is_none());
    }

    /// Parses `text` and returns its duplicate key.
    fn duplicate_key_of(text: &str) -> Option<String> {
        let mut parser = Parser::new(ParseLimits::default());
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
        document.root().duplicate_key().map(str::to_owned)
    }

    #[test]
    fn duplicate_key_is_found_at_any_depth() {
        for (text, key) in [
            (r#"{"a":1,"b":2}"#, None),
            (r#"{"a":1,"b":2,"a":3}"#, Some("a")),
            (r#"{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}"#, None),
            (r#"{"a":1,"b":[[{"c":{"d":1,"d":2}}]]}"#, Some("d")),
            (r#"{"a":{"b":1,"c":2},"d":[],"a":"e"}"#, Some("a")),
            (r#"{"a":"a","b":"a"}"#, None),
            (r#"[{"":1,"":2}]"#, Some("")),
            (r#"["a","a"]"#, None),
            (r#""a""#, None),
            ("{}", None),
        ] {
            assert_eq!(duplicate_key_of(text).as_deref(), key, "{text}");
        }
    }

    #[test]
    fn duplicate_key_is_found_among_any_number() {
        for count in 2..40 {
            let keys: Vec<String> = (0..count).map(|key| format!("\"{key}\":0")).collect();
            assert_eq!(duplicate_key_of(&format!("{{{}}}", keys.join(","))), None);
            for twice in 0..count {
                let text = format!("{{{},\"{twice}\":1}}", keys.join(","));
                assert_eq!(duplicate_key_of(&text), Some(twice.to_string()), "{text}");
            }
        }
    }

    #[test]
    fn truncated_nodes_are_not_a_value() {
        assert!(Value::from_nodes(&[]).is_none());
        assert!(Value::from_nodes(&[Node::Array { len: 1, count: 1 }]).is_none());
    }

    #[test]
    fn value_view_is_two_words() {
        assert_eq!(size_of::<Value<'_>>(), 2 * size_of::<usize>());
    }
}
