//! Skills: instructions for the model with files (SEP-2640). The files are resources.

use std::borrow::Cow;

use corelane_protocol::json::ObjectWriter;
use corelane_protocol::model::ListKind;
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value};

use crate::service::entry::Entry;

/// A skill of a catalog: the entry of `skills/list`, which only clients of 2026-07-28 see.
///
/// Clients read its files as resources of the same URIs, and verify them: each is a
/// [`Resource`](crate::Resource) of the catalog whose contents have the size and the digest that
/// are listed here.
#[derive(Clone, Debug)]
pub struct Skill {
    uri: Box<str>,
    front_matter: Map<String, Value>,
    files: Vec<SkillFile>,
}

/// A file of a skill.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkillFile {
    /// URI of its resource.
    pub uri: String,
    /// `sha256:` and the SHA-256 of its bytes in 64 lowercase hexadecimal digits.
    pub digest: String,
    /// Its length in bytes.
    pub size: u64,
}

impl Skill {
    /// A skill whose `SKILL.md` has this URI, `skill://PATH/SKILL.md`, unique in its catalog, and
    /// this front matter. The last component of `PATH` is the `name` in the front matter; `files`
    /// are all files, with `SKILL.md`.
    pub fn new(
        uri: impl Into<Box<str>>,
        front_matter: Map<String, Value>,
        files: impl IntoIterator<Item = SkillFile>,
    ) -> Self {
        Self { uri: uri.into(), front_matter, files: files.into_iter().collect() }
    }

    /// URI of its `SKILL.md`.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The front matter of its `SKILL.md`.
    pub const fn front_matter(&self) -> &Map<String, Value> {
        &self.front_matter
    }

    /// Its files.
    pub fn files(&self) -> &[SkillFile] {
        &self.files
    }
}

impl Entry for Skill {
    const LIST: ListKind = ListKind::Skills;
    const KIND: &'static str = "skill";

    fn key(&self) -> &str {
        &self.uri
    }

    fn prepare(&mut self) -> Result<(), Cow<'static, str>> {
        let Some(folder) = self.uri.strip_suffix("SKILL.md").filter(|it| it.ends_with('/')) else {
            return Err("the URI must end with /SKILL.md".into());
        };
        let name = self.front_matter.get("name").and_then(Value::as_str);
        let last = folder.trim_end_matches('/').rsplit('/').next();
        if name.is_none() || name != last {
            return Err("the name in the front matter must be that of the folder".into());
        }
        if self.files.iter().any(|file| !file.uri.starts_with(folder)) {
            return Err("every file must be in the folder of SKILL.md".into());
        }
        if self.files.iter().filter(|file| *file.uri == *self.uri).count() != 1 {
            return Err("the files must include SKILL.md once".into());
        }
        Ok(())
    }

    fn write(&self, out: &mut Vec<u8>, _: Revision) {
        let mut object = ObjectWriter::open(out);
        object.string("uri", &self.uri);
        object.map_opt("frontmatter", Some(&self.front_matter));
        let files = object.key("resources");
        files.push(b'[');
        for (index, file) in self.files.iter().enumerate() {
            if index > 0 {
                files.push(b',');
            }
            let mut object = ObjectWriter::open(files);
            object.string("uri", &file.uri).string("digest", &file.digest);
            object.unsigned("size", file.size);
            object.close();
        }
        files.push(b']');
        object.close();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn skill(uri: &str, name: &str, files: &[&str]) -> Skill {
        let file = |uri: &&str| SkillFile {
            uri: (*uri).to_owned(),
            digest: "sha256:00".to_owned(),
            size: 1,
        };
        let Value::Object(front_matter) = json!({ "name": name }) else { panic!("an object") };
        Skill::new(uri, front_matter, files.iter().map(file))
    }

    #[test]
    fn skill_entry_lists_front_matter_and_files() {
        let mut skill = skill("skill://a/SKILL.md", "a", &["skill://a/SKILL.md", "skill://a/b"]);
        assert_eq!(skill.prepare(), Ok(()));
        let mut out = Vec::new();
        skill.write(&mut out, Revision::LATEST);
        let entry: Value = serde_json::from_slice(&out).unwrap();
        let file = |uri: &str| json!({ "uri": uri, "digest": "sha256:00", "size": 1 });
        let expected = json!({
            "uri": "skill://a/SKILL.md",
            "frontmatter": { "name": "a" },
            "resources": [file("skill://a/SKILL.md"), file("skill://a/b")],
        });
        assert_eq!(entry, expected);
    }

    #[test]
    fn invalid_skill_is_refused() {
        for (uri, name, files) in [
            ("skill://a/README.md", "a", &["skill://a/README.md"][..]),
            ("skill://a/SKILL.md", "b", &["skill://a/SKILL.md"]),
            ("skill://a/SKILL.md", "a", &["skill://a/b"]),
            ("skill://a/SKILL.md", "a", &["skill://a/SKILL.md", "skill://b/c"]),
        ] {
            assert!(skill(uri, name, files).prepare().is_err(), "{uri} {name} {files:?}");
        }
    }
}
