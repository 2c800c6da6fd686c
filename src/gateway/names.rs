//! Names under which the entries of several upstreams are offered.
//!
//! Invariants:
//! - A name depends on the entry, the rules and the renames. With [`NamePrefix::Collision`] it
//!   depends on the names of the other entries, too, and in no mode on the order of the upstreams.
//! - Every name has 1 to [`NAME_MAX`] characters of `[A-Za-z0-9_-]`, and of `.` if that is the
//!   separator.
//! - Each name leads back to one entry.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::server::options::{NamePrefix, NameSeparator};

/// Characters of a name at most.
pub const NAME_MAX: usize = 64;
/// Characters of the digest of a name that is cut or has other characters.
const DIGEST_CHARACTERS: usize = 6;
/// The alphabet of base32 (RFC 4648), in lower case.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// How names are made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NameRules {
    /// Which names have a prefix.
    pub prefix: NamePrefix,
    /// What follows the prefix.
    pub separator: NameSeparator,
}

/// The entries of one kind, tools or prompts, that an upstream has.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamEntries<'a> {
    /// The name of the upstream, `[a-z0-9-]`: without separators, so that two prefixed names of
    /// different entries differ.
    pub upstream: &'a str,
    /// The names of its entries, as the upstream lists them.
    pub names: &'a [&'a str],
    /// Declared names: the name at the upstream → the offered name, which gets no prefix.
    pub renames: &'a BTreeMap<String, String>,
}

/// An entry of an upstream: positions in the lists that [`NameRules::assign`] has received.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EntryId {
    /// Position of the upstream, in declared order.
    pub upstream: usize,
    /// Position of the entry in the list of its upstream.
    pub entry: usize,
}

/// The names that are offered, in both directions.
#[derive(Clone, Debug, Default)]
pub struct NameMap {
    offered: Vec<Vec<Option<Arc<str>>>>,
    origins: HashMap<Arc<str>, EntryId>,
    /// Entries without a name, in declared order.
    pub left_out: Vec<LeftOut>,
    /// Renames of entries that the upstream does not have, in declared order.
    pub unused_renames: Vec<UnusedRename>,
}

/// An entry that is not offered because an entry declared before it has the same name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeftOut {
    /// The entry.
    pub id: EntryId,
    /// The entry that is offered instead.
    pub kept: EntryId,
    /// The name of both.
    pub offered: Arc<str>,
    /// Upstream and own name of the entry.
    pub entry: QualifiedName,
    /// Upstream and own name of the entry that is offered.
    pub kept_entry: QualifiedName,
}

/// A rename without an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnusedRename(pub QualifiedName);

/// The name of an entry at its upstream.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct QualifiedName {
    /// The name of the upstream.
    pub upstream: String,
    /// The name of the entry at the upstream.
    pub own: String,
}

/// A name before it is known whether it is the only one.
struct Candidate<'a> {
    id: EntryId,
    name: Cow<'a, str>,
    /// Whether a prefix may be added.
    is_plain: bool,
    /// Position of the candidate before it with the same upstream and own name.
    first: Option<usize>,
}

impl NameRules {
    /// Gives each entry of `upstreams` its name. Cost: O(n) for n entries, O(n log n) for renames.
    pub fn assign(self, upstreams: &[UpstreamEntries<'_>]) -> NameMap {
        let mut candidates = self.candidates(upstreams);
        if self.prefix == NamePrefix::Collision {
            self.add_prefixes(upstreams, &mut candidates);
        }
        let mut map = NameMap {
            offered: upstreams.iter().map(|it| Vec::with_capacity(it.names.len())).collect(),
            origins: HashMap::with_capacity(candidates.len()),
            left_out: Vec::new(),
            unused_renames: unused_renames(upstreams),
        };
        for Candidate { id, name, first, .. } in &candidates {
            let (id, name) = (*id, first.map_or(name, |first| &candidates[first].name));
            let name: Arc<str> = Arc::from(&**name);
            let kept = *map.origins.entry(Arc::clone(&name)).or_insert(id);
            let offered = (kept == id).then(|| Arc::clone(&name));
            map.offered[id.upstream].push(offered);
            if kept != id {
                let [entry, kept_entry] = [id, kept].map(|id| qualified_name(upstreams, id));
                map.left_out.push(LeftOut { id, kept, offered: name, entry, kept_entry });
            }
        }
        map
    }

    /// The first choice of each entry, in declared order.
    fn candidates<'a>(self, upstreams: &[UpstreamEntries<'a>]) -> Vec<Candidate<'a>> {
        let mut candidates = Vec::with_capacity(upstreams.iter().map(|it| it.names.len()).sum());
        for (upstream, entries) in upstreams.iter().enumerate() {
            let mut seen = HashMap::with_capacity(entries.names.len());
            for (entry, own) in entries.names.iter().enumerate() {
                let index = candidates.len();
                let first = Some(*seen.entry(*own).or_insert(index)).filter(|it| *it < index);
                let renamed = entries.renames.get(*own).map(String::as_str);
                let is_plain = renamed.is_none() && self.prefix != NamePrefix::Always;
                let name = match renamed {
                    Some(name) => self.fit(Cow::Borrowed(name)),
                    None if is_plain => self.fit(Cow::Borrowed(*own)),
                    None => self.prefixed(entries.upstream, own),
                };
                let id = EntryId { upstream, entry };
                candidates.push(Candidate { id, name, is_plain, first });
            }
        }
        candidates
    }

    /// Adds the prefix to each plain name that another entry has, until there is no such name. The
    /// result is the same in any order, since an entry that has its prefix keeps it.
    fn add_prefixes<'a>(self, upstreams: &[UpstreamEntries<'a>], candidates: &mut [Candidate<'a>]) {
        // The candidates that have or had a name. An entry that gets its prefix stays in the list
        // of its plain name: the other entries of that name get theirs, too.
        let mut holders: HashMap<Cow<'a, str>, Vec<usize>> =
            HashMap::with_capacity(candidates.len());
        for (index, candidate) in candidates.iter().enumerate() {
            if candidate.first.is_none() {
                holders.entry(candidate.name.clone()).or_default().push(index);
            }
        }
        let mut changed: Vec<usize> = Vec::new();
        for (index, candidate) in candidates.iter_mut().enumerate() {
            let is_only = candidate.first.is_some() || holders[&candidate.name].len() == 1;
            if candidate.is_plain && !is_only {
                candidate.is_plain = false;
                changed.push(index);
            }
        }
        while let Some(index) = changed.pop() {
            let EntryId { upstream, entry } = candidates[index].id;
            let entries = &upstreams[upstream];
            let name = self.prefixed(entries.upstream, entries.names[entry]);
            candidates[index].name.clone_from(&name);
            let others = holders.entry(name).or_default();
            for other in others.iter().copied() {
                if candidates[other].is_plain {
                    candidates[other].is_plain = false;
                    changed.push(other);
                }
            }
            others.push(index);
        }
    }

    fn prefixed<'a>(self, upstream: &str, own: &str) -> Cow<'a, str> {
        let whole = format!("{upstream}{}{own}", self.separator.as_str());
        Cow::Owned(self.fit(Cow::Owned(whole)).into_owned())
    }

    /// Returns `whole` if it can be a name, else its beginning with `_` for each run of other
    /// characters, `_` and the digest of `whole`.
    fn fit(self, whole: Cow<'_, str>) -> Cow<'_, str> {
        let is_allowed = |character: char| {
            let is_separator = self.separator == NameSeparator::Dot && character == '.';
            character.is_ascii_alphanumeric() || "_-".contains(character) || is_separator
        };
        if (1..=NAME_MAX).contains(&whole.len()) && whole.chars().all(is_allowed) {
            return whole;
        }
        let room = NAME_MAX - DIGEST_CHARACTERS - 1;
        let mut name = String::with_capacity(NAME_MAX);
        let mut is_run = false;
        for character in whole.chars() {
            if name.len() == room {
                break;
            }
            let is_other = !is_allowed(character);
            match (is_other, is_run) {
                (false, _) => name.push(character),
                (true, false) => name.push('_'),
                (true, true) => {}
            }
            is_run = is_other;
        }
        name.push('_');
        push_digest(&mut name, &whole);
        Cow::Owned(name)
    }
}

/// Adds the first bits of the SHA-256 of `text`, in base32.
fn push_digest(name: &mut String, text: &str) {
    let digest = Sha256::digest(text.as_bytes());
    let bits = digest.iter().take(4).fold(0_u32, |bits, &byte| (bits << 8) | u32::from(byte));
    for index in 0..DIGEST_CHARACTERS {
        let five = (bits >> (27 - 5 * index)) & 31;
        name.push(char::from(BASE32[five as usize]));
    }
}

fn qualified_name(upstreams: &[UpstreamEntries<'_>], id: EntryId) -> QualifiedName {
    let entries = &upstreams[id.upstream];
    let own = entries.names[id.entry].to_owned();
    QualifiedName { upstream: entries.upstream.to_owned(), own }
}

fn unused_renames(upstreams: &[UpstreamEntries<'_>]) -> Vec<UnusedRename> {
    let mut unused = Vec::new();
    for entries in upstreams.iter().filter(|it| !it.renames.is_empty()) {
        let mut names = entries.names.to_vec();
        names.sort_unstable();
        for own in entries.renames.keys() {
            if names.binary_search(&own.as_str()).is_err() {
                let (upstream, own) = (entries.upstream.to_owned(), own.clone());
                unused.push(UnusedRename(QualifiedName { upstream, own }));
            }
        }
    }
    unused
}

impl NameMap {
    #[cfg(test)]
    fn origin(&self, name: &str) -> Option<EntryId> {
        self.origins.get(name).copied()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.origins.len()
    }

    /// The offered name of an entry; `None` if it is left out.
    pub fn offered(&self, id: EntryId) -> Option<&Arc<str>> {
        self.offered.get(id.upstream)?.get(id.entry)?.as_ref()
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} of upstream {}", self.own, self.upstream)
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offered, entry, kept_entry, .. } = self;
        write!(
            formatter,
            "{entry} is left out: {kept_entry} is offered as {offered:?}; rename one of them, or \
             set prefix to \"always\""
        )
    }
}

impl fmt::Display for UnusedRename {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is renamed, but the upstream has no entry of this name", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Renames = BTreeMap<String, String>;

    fn renames(pairs: &[[&str; 2]]) -> Renames {
        pairs.iter().map(|[own, offered]| ((*own).to_owned(), (*offered).to_owned())).collect()
    }

    fn rules(prefix: NamePrefix) -> NameRules {
        NameRules { prefix, separator: NameSeparator::default() }
    }

    /// Returns the offered names of each upstream, `-` for what is left out, and checks the map
    /// back.
    fn names(rules: NameRules, upstreams: &[UpstreamEntries<'_>]) -> Vec<String> {
        let map = rules.assign(upstreams);
        let mut texts = Vec::new();
        let mut count = 0;
        for (upstream, entries) in upstreams.iter().enumerate() {
            let ids = (0..entries.names.len()).map(|entry| EntryId { upstream, entry });
            let mut offered = Vec::new();
            for id in ids {
                let name = map.offered(id).map(|name| &**name);
                if let Some(name) = name {
                    assert_eq!(map.origin(name), Some(id), "{name}");
                    assert!((1..=NAME_MAX).contains(&name.len()), "{name}");
                    count += 1;
                }
                offered.push(name.unwrap_or("-").to_owned());
            }
            texts.push(offered.join(" "));
        }
        assert_eq!(map.len(), count);
        texts
    }

    fn upstream<'a>(
        upstream: &'a str,
        names: &'a [&'a str],
        renames: &'a Renames,
    ) -> UpstreamEntries<'a> {
        UpstreamEntries { upstream, names, renames }
    }

    fn name_of(rules: NameRules, own: &str) -> String {
        names(rules, &[upstream("gh", &[own], &Renames::new())]).remove(0)
    }

    #[test]
    fn prefix_mode_decides_names() {
        let none = Renames::new();
        let upstreams =
            [upstream("gh", &["search", "issue"], &none), upstream("web", &["search"], &none)];
        let of = |prefix| names(rules(prefix), &upstreams);
        assert_eq!(of(NamePrefix::Never), ["search issue", "-"]);
        assert_eq!(of(NamePrefix::Collision), ["gh_search issue", "web_search"]);
        assert_eq!(of(NamePrefix::Always), ["gh_search gh_issue", "web_search"]);
        let dot = NameRules { prefix: NamePrefix::Always, separator: NameSeparator::Dot };
        assert_eq!(names(dot, &upstreams), ["gh.search gh.issue", "web.search"]);
        let double = NameRules { separator: NameSeparator::DoubleUnderscore, ..dot };
        assert_eq!(names(double, &upstreams)[1], "web__search");
    }

    #[test]
    fn order_of_upstreams_changes_no_name() {
        let none = Renames::new();
        let rename = renames(&[["y", "find"]]);
        // The prefixed name of `a` and `b_x` is the plain name of an entry of `c`.
        let upstreams = [
            upstream("a", &["b_x", "same", "find", "é"], &none),
            upstream("b", &["b_x", "x", "same", "é"], &none),
            upstream("c", &["a_b_x", "x", "y"], &rename),
            upstream("d", &["c_a_b_x"], &none),
        ];
        let expected = names(rules(NamePrefix::Collision), &upstreams);
        assert_eq!(expected[0].rsplit_once(' ').unwrap().0, "a_b_x a_same a_find");
        assert_eq!(expected[2..], ["c_a_b_x c_x find", "d_c_a_b_x"]);
        let orders = [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1], [0, 2, 1, 3]];
        for order in orders {
            let permuted = order.map(|index| upstreams[index]);
            let offered = names(rules(NamePrefix::Collision), &permuted);
            assert_eq!(offered, order.map(|index| expected[index].clone()), "{order:?}");
        }
    }

    #[test]
    fn other_entries_change_no_prefixed_name() {
        let none = Renames::new();
        let alone = names(rules(NamePrefix::Always), &[upstream("a", &["x y", "z"], &none)]);
        let upstreams = [upstream("b", &["z"], &none), upstream("a", &["q", "x y", "z"], &none)];
        assert_eq!(names(rules(NamePrefix::Always), &upstreams)[1], format!("a_q {}", alone[0]));
    }

    #[test]
    fn long_name_is_cut_with_digest() {
        for [length, prefixed] in [[63, 66], [64, 67], [65, 68], [10_000, 10_003]] {
            let own = "n".repeat(length);
            let name = name_of(rules(NamePrefix::Never), &own);
            assert_eq!(name == own, length <= 64, "{length}");
            assert_eq!(name.len(), length.min(64));
            let name = name_of(rules(NamePrefix::Always), &own);
            assert_eq!((name.len(), name.starts_with("gh_nnn")), (64, true), "{prefixed}");
        }
        let [one, other] =
            ["1", "2"].map(|end| name_of(NameRules::default(), &("n".repeat(64) + end)));
        assert_ne!(one, other);
        assert_eq!(one[..57], other[..57]);
        // Stable over versions of the program: clients remember names.
        assert_eq!(one, format!("{}_dvwdh2", "n".repeat(57)));
    }

    #[test]
    fn other_characters_are_replaced_with_digest() {
        let plain = rules(NamePrefix::Never);
        for (own, beginning) in
            [("a b", "a_b_"), ("a.b", "a_b_"), ("日本語", "__"), ("", "_"), ("a/é/b", "a_b_")]
        {
            let name = name_of(plain, own);
            let digest = name.strip_prefix(beginning).unwrap();
            assert_eq!(digest.len(), 6, "{name}");
            assert!(digest.bytes().all(|byte| BASE32.contains(&byte)), "{name}");
        }
        assert_ne!(name_of(plain, "a b"), name_of(plain, "a.b"));
        let dot = NameRules { separator: NameSeparator::Dot, ..plain };
        assert_eq!(name_of(dot, "a.b"), "a.b");
        assert_eq!(name_of(rules(NamePrefix::Always), ""), "gh_");
    }

    #[test]
    fn equal_names_leave_out_the_later() {
        let (both, none) = (renames(&[["x", "find"], ["y", "find"]]), Renames::new());
        let upstreams = [upstream("a", &["x", "y", "z", "z"], &both), upstream("b", &[], &none)];
        assert_eq!(names(NameRules::default(), &upstreams)[0], "find - z -");
        let map = NameRules::default().assign(&upstreams);
        let reasons: Vec<String> = map.left_out.iter().map(ToString::to_string).collect();
        let expected = "\"y\" of upstream a is left out: \"x\" of upstream a is offered as \
                        \"find\"; rename one of them, or set prefix to \"always\"";
        assert_eq!(reasons[0], expected);
        assert_eq!(map.left_out[1].id, EntryId { upstream: 0, entry: 3 });
    }

    #[test]
    fn rename_to_name_after_replacement_collides() {
        let digested = name_of(rules(NamePrefix::Never), "a b");
        let (rename, none) = (renames(&[["q", &digested]]), Renames::new());
        let upstreams = [upstream("a", &["a b"], &none), upstream("b", &["q"], &rename)];
        assert_eq!(names(rules(NamePrefix::Never), &upstreams), [digested.as_str(), "-"]);
        let offered = names(rules(NamePrefix::Collision), &upstreams);
        assert!(offered[0].starts_with("a_a_b_") && offered[1] == digested, "{offered:?}");
    }

    #[test]
    fn entries_of_one_upstream_collide_too() {
        let (rename, none) = (renames(&[["q", "y"]]), Renames::new());
        let upstreams =
            [upstream("a", &["x", "a_x", "x", "q", "y"], &rename), upstream("b", &["x"], &none)];
        let offered = names(NameRules::default(), &upstreams);
        assert_eq!(offered, ["a_x a_a_x - y a_y", "b_x"]);
    }

    #[test]
    fn rename_without_entry_is_reported() {
        let rename = renames(&[["serach", "find"]]);
        let map = NameRules::default().assign(&[upstream("a", &["search"], &rename)]);
        assert_eq!(map.unused_renames.len(), 1);
        assert!(map.unused_renames[0].to_string().starts_with("\"serach\" of upstream a"));
    }

    #[test]
    fn ten_thousand_names_are_unique() {
        let none = Renames::new();
        let own: Vec<String> = (0..500).map(|index| format!("tool {index}")).collect();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let labels: Vec<String> = (0..20).map(|index| format!("up-{index}")).collect();
        let upstreams: Vec<UpstreamEntries<'_>> =
            labels.iter().map(|label| upstream(label, &own, &none)).collect();
        for prefix in [NamePrefix::Collision, NamePrefix::Always] {
            let map = rules(prefix).assign(&upstreams);
            assert_eq!((map.len(), map.left_out.len()), (10_000, 0));
        }
        assert_eq!(rules(NamePrefix::Never).assign(&upstreams).left_out.len(), 9_500);
    }
}
