//! Views of parsed values.
//!
//! What they keep true: a [`Value`] is never empty and covers exactly its own nodes, so that
//! walking an object costs one step per member, whatever the members hold. Views are copied, never
//! owned; nothing here allocates but [`Value::to_json`].

use super::write;
use simd_json::{Node, StaticNode};

/// What a value is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// Any number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// One value of a document, borrowed from it. Two words, copied freely.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    nodes: &'a [Node<'a>],
}

impl<'a> Value<'a> {
    /// The value that starts at the first of `nodes`; none when there is no such node or its
    /// children are missing.
    #[inline]
    pub(super) fn at(nodes: &'a [Node<'a>]) -> Option<Self> {
        let extent = extent(nodes.first()?);
        Some(Self { nodes: nodes.get(..extent)? })
    }

    #[inline]
    const fn head(self) -> Node<'a> {
        self.nodes[0]
    }

    /// What the value is.
    #[inline]
    pub const fn kind(self) -> Kind {
        match self.head() {
            Node::Static(StaticNode::Null) => Kind::Null,
            Node::Static(StaticNode::Bool(_)) => Kind::Boolean,
            Node::Static(_) => Kind::Number,
            Node::String(_) => Kind::String,
            Node::Array { .. } => Kind::Array,
            Node::Object { .. } => Kind::Object,
        }
    }

    /// Where the value lies: the same number for two views of one value, another one for any other
    /// value of the same document.
    #[inline]
    pub fn address(self) -> usize {
        self.nodes.as_ptr().addr()
    }

    /// Whether the value is `null`.
    #[inline]
    pub const fn is_null(self) -> bool {
        matches!(self.head(), Node::Static(StaticNode::Null))
    }

    /// The truth, where the value is one.
    #[inline]
    pub const fn as_bool(self) -> Option<bool> {
        match self.head() {
            Node::Static(StaticNode::Bool(truth)) => Some(truth),
            _ => None,
        }
    }

    /// The text without escapes, where the value is a string.
    #[inline]
    pub const fn as_str(self) -> Option<&'a str> {
        match self.head() {
            Node::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number, where it is whole, written without fraction and exponent, and fits.
    #[inline]
    pub fn as_i64(self) -> Option<i64> {
        match self.head() {
            Node::Static(StaticNode::I64(number)) => Some(number),
            Node::Static(StaticNode::U64(number)) => i64::try_from(number).ok(),
            _ => None,
        }
    }

    /// The number, where it is whole, written without fraction and exponent, and fits.
    #[inline]
    pub fn as_u64(self) -> Option<u64> {
        match self.head() {
            Node::Static(StaticNode::U64(number)) => Some(number),
            Node::Static(StaticNode::I64(number)) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    /// The number, where the value is one; whole numbers beyond 2^53 lose their last digits.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "the loss is stated above")]
    pub const fn as_f64(self) -> Option<f64> {
        match self.head() {
            Node::Static(StaticNode::F64(number)) => Some(number),
            Node::Static(StaticNode::I64(number)) => Some(number as f64),
            Node::Static(StaticNode::U64(number)) => Some(number as f64),
            _ => None,
        }
    }

    /// The members, where the value is an object.
    #[inline]
    pub fn as_object(self) -> Option<Object<'a>> {
        match self.head() {
            Node::Object { len, .. } => Some(Object { nodes: &self.nodes[1..], length: len }),
            _ => None,
        }
    }

    /// The items, where the value is an array.
    #[inline]
    pub fn as_array(self) -> Option<Array<'a>> {
        match self.head() {
            Node::Array { len, .. } => Some(Array { nodes: &self.nodes[1..], length: len }),
            _ => None,
        }
    }

    /// Appends the value as JSON without spaces, members in their order, duplicates included.
    /// Recursion goes as deep as the document, which its [`super::Limits`] bound.
    pub fn write(self, out: &mut Vec<u8>) {
        match self.head() {
            Node::Static(StaticNode::Null) => out.extend_from_slice(b"null"),
            Node::Static(StaticNode::Bool(truth)) => write::boolean(out, truth),
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

    /// An owned copy, for code that outlives the document. The last of duplicate keys wins.
    pub fn to_json(self) -> serde_json::Value {
        match self.head() {
            Node::Static(StaticNode::Null) => serde_json::Value::Null,
            Node::Static(StaticNode::Bool(truth)) => truth.into(),
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
    /// How many members there are, duplicates counted.
    #[inline]
    pub const fn len(self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Every member in order, duplicates included.
    #[inline]
    pub const fn iter(self) -> Members<'a> {
        Members { nodes: self.nodes }
    }

    /// The last member called `key`. Cost: one comparison per member.
    #[inline]
    pub fn find(self, key: &str) -> Option<Value<'a>> {
        self.iter().filter(|(name, _)| *name == key).last().map(|(_, value)| value)
    }

    /// The members called as `keys`, found in one pass; other members are passed over. The
    /// protocol reads its own keys with this.
    ///
    /// # Errors
    ///
    /// [`Duplicate`] when one of `keys` occurs twice.
    #[inline]
    pub fn once<const COUNT: usize>(
        self,
        keys: [&'static str; COUNT],
    ) -> Result<[Option<Value<'a>>; COUNT], Duplicate> {
        let mut found = [None; COUNT];
        for (name, value) in self {
            for (slot, key) in found.iter_mut().zip(keys) {
                if name == key {
                    if slot.replace(value).is_some() {
                        return Err(Duplicate { key });
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

/// A key of the protocol that occurs twice in one object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Duplicate {
    /// The key.
    pub key: &'static str,
}

/// Walks over the members of an object.
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
        let value = Value::at(rest)?;
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
    /// How many items there are.
    #[inline]
    pub const fn len(self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Every item in order.
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

/// Walks over the items of an array.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    nodes: &'a [Node<'a>],
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;
    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        let value = Value::at(self.nodes)?;
        self.nodes = &self.nodes[value.nodes.len()..];
        Some(value)
    }
}

/// How many nodes the value that starts with `head` covers, itself included.
#[inline]
const fn extent(head: &Node<'_>) -> usize {
    match *head {
        Node::Array { count, .. } | Node::Object { count, .. } => count + 1,
        Node::Static(_) | Node::String(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a":[1,{"b":null}],"c":"x","a":true}` as the parser lays it down.
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
        Value::at(NODES).and_then(Value::as_object).unwrap()
    }

    #[test]
    fn members_come_in_order_and_each_covers_its_own_nodes() {
        let members: Vec<_> = object().iter().map(|(key, value)| (key, value.kind())).collect();
        assert_eq!(members, [("a", Kind::Array), ("c", Kind::String), ("a", Kind::Boolean)]);
        let items: Vec<_> = object().iter().next().unwrap().1.as_array().unwrap().iter().collect();
        assert_eq!(items.len(), 2);
        assert_eq!(items[0].as_u64(), Some(1));
        assert!(items[1].as_object().unwrap().find("b").unwrap().is_null());
    }

    #[test]
    fn the_last_of_a_key_is_found_and_the_protocol_refuses_a_second_one() {
        assert_eq!(object().find("a").unwrap().as_bool(), Some(true));
        assert!(object().find("b").is_none());
        assert_eq!(object().once(["c", "a"]).unwrap_err(), Duplicate { key: "a" });
        let [text, absent] = object().once(["c", "d"]).unwrap();
        assert_eq!(text.and_then(Value::as_str), Some("x"));
        assert!(absent.is_none());
    }

    #[test]
    fn nodes_that_do_not_hold_their_children_are_no_value() {
        assert!(Value::at(&[]).is_none());
        assert!(Value::at(&[Node::Array { len: 1, count: 1 }]).is_none());
    }

    #[test]
    fn a_view_is_two_words() {
        assert_eq!(size_of::<Value<'_>>(), 2 * size_of::<usize>());
    }
}
