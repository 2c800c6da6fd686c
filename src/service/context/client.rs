//! The client of a request as a handler sees it: its revision and capabilities, and the program as
//! it describes itself (`clientInfo`).

use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::json;
use corelane_protocol::revision::Revision;

/// Name and version of the client program (`Implementation`), read in place.
///
/// Up to 2025-11-25 it is the `clientInfo` of `initialize`, which the server keeps for the
/// connection or the session; since 2026-07-28 it is in `_meta` of each request, if the client
/// sends it. It is for logs and statistics: a client can send anything, so neither security nor
/// the behaviour of a handler may depend on it.
///
/// Source: MCP schema, type `Implementation`; MCP 2026-07-28, basic/index, "_meta".
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ClientImplementation<'a> {
    /// Programmatic name.
    pub name: &'a str,
    /// The version of the client.
    pub version: &'a str,
    /// Display name (2025-06-18 and later).
    pub title: Option<&'a str>,
}

impl<'a> ClientImplementation<'a> {
    /// Reads an `Implementation`; `None` if its name or its version is not a string.
    pub(crate) fn read(implementation: json::Value<'a>) -> Option<Self> {
        let member = |key| implementation.as_object()?.find(key)?.as_str();
        Some(Self { name: member("name")?, version: member("version")?, title: member("title") })
    }

    /// One of a name, a version and a title.
    #[cfg(test)]
    pub(crate) const fn new(name: &'a str, version: &'a str, title: Option<&'a str>) -> Self {
        Self { name, version, title }
    }

    /// Reads the copy of an `Implementation`, as [`ClientImplementation::read`].
    pub(super) fn from_json(implementation: &'a serde_json::Value) -> Option<Self> {
        let member = |key| implementation.get(key)?.as_str();
        Some(Self { name: member("name")?, version: member("version")?, title: member("title") })
    }
}

/// The `clientInfo` of a handshake as it is stored: three lengths, then name, version and title,
/// each cut to 200 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StoredClientInfo<'a>(&'a [u8]);

impl<'a> StoredClientInfo<'a> {
    /// None: the client has sent none, or the connection has no handshake.
    pub(crate) const NONE: Self = Self(&[Self::ABSENT]);

    /// Length at which each of the texts is cut, at the start of a character.
    pub(crate) const TEXT_BYTES_MAX: usize = 200;

    /// In the place of the length of the name.
    const ABSENT: u8 = u8::MAX;

    /// Returns the bytes that [`StoredClientInfo::write`] appends.
    pub(crate) fn bytes_of(implementation: ClientImplementation<'_>) -> usize {
        3 + Self::texts(implementation).iter().map(|text| text.len()).sum::<usize>()
    }

    fn texts(implementation: ClientImplementation<'_>) -> [&str; 3] {
        let ClientImplementation { name, version, title } = implementation;
        let texts = [name, version, title.unwrap_or_default()];
        texts.map(|text| &text[..text.floor_char_boundary(Self::TEXT_BYTES_MAX)])
    }

    /// Appends what is stored of `implementation`.
    pub(crate) fn write(implementation: ClientImplementation<'_>, out: &mut Vec<u8>) {
        let texts = Self::texts(implementation);
        out.extend(texts.iter().map(|text| u8::try_from(text.len()).unwrap_or_default()));
        for text in texts {
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Splits what is stored from the bytes behind it.
    pub(crate) fn split_from(bytes: &'a [u8]) -> (Self, &'a [u8]) {
        let length = match bytes {
            [name, version, title, ..] if *name != Self::ABSENT => {
                3 + usize::from(*name) + usize::from(*version) + usize::from(*title)
            }
            [] => return (Self::NONE, &[]),
            _ => 1,
        };
        let (stored, rest) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
        (Self(stored), rest)
    }

    /// Returns the stored bytes.
    pub(crate) const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns what is stored.
    pub(crate) fn implementation(self) -> Option<ClientImplementation<'a>> {
        let (lengths, texts) = self.0.split_first_chunk::<3>()?;
        let [name, version, _] = lengths.map(usize::from);
        let (name, rest) = texts.split_at_checked(name)?;
        let (version, title) = rest.split_at_checked(version)?;
        let [name, version, title] =
            [name, version, title].map(|text| str::from_utf8(text).unwrap_or_default());
        Some(ClientImplementation { name, version, title: Some(title).filter(|it| !it.is_empty()) })
    }
}

/// Protocol facts of the client of a request, which handlers may depend on. Its name and version
/// are in [`ClientImplementation`](crate::service::ClientImplementation).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientInfo {
    /// Negotiated protocol revision; of a modern request, the revision it names.
    pub revision: Revision,
    /// Declared capabilities: of `initialize` in legacy sessions, of each request since 2026-07-28.
    pub capabilities: ClientCapabilities,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_client_info_is_read_again() {
        let client = ClientImplementation { name: "Ada", version: "1.0", title: None };
        for title in [None, Some("Ada's client")] {
            let client = ClientImplementation { title, ..client };
            let mut bytes = Vec::new();
            StoredClientInfo::write(client, &mut bytes);
            bytes.extend_from_slice(b"rest");
            let (stored, rest) = StoredClientInfo::split_from(&bytes);
            assert_eq!((stored.implementation(), rest), (Some(client), &b"rest"[..]));
        }
        let absent = [StoredClientInfo::NONE.as_bytes(), b"rest"].concat();
        let (stored, rest) = StoredClientInfo::split_from(&absent);
        assert_eq!((stored.implementation(), rest), (None, &b"rest"[..]));
        assert_eq!(StoredClientInfo::split_from(b"").0.implementation(), None);
    }

    #[test]
    fn long_client_info_is_cut_between_characters() {
        let long = format!("{}ü{}", "x".repeat(199), "y".repeat(100));
        let client = ClientImplementation { name: &long, version: "1", title: Some(&long) };
        let mut bytes = Vec::new();
        StoredClientInfo::write(client, &mut bytes);
        assert_eq!(bytes.len(), 3 + 199 + 1 + 199);
        let stored = StoredClientInfo::split_from(&bytes).0.implementation().unwrap();
        assert_eq!((stored.name, stored.version), (&long[..199], "1"));
    }
}
