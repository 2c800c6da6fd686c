//! Skills: instructions for the model with files, which are verified whenever they are read.
//!
//! The extension `io.modelcontextprotocol/skills` (SEP-2640). No file is read before its skill is
//! loaded, and no file of a skill before it is asked for.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use corelane_protocol::eras::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::error::{ClientError, ClientErrorKind};
use super::handle::Client;
use super::request::Listed;

/// Most files of one skill.
const FILES_MAX: usize = 512;
/// Most bytes of all files of one skill.
const BYTES_MAX: u64 = 16 << 20;

/// A skill as the server lists it: `client.pages::<SkillInfo>()`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct SkillInfo {
    /// URI of its `SKILL.md`.
    pub uri: String,
    /// The front matter of `SKILL.md`.
    pub frontmatter: Map<String, Value>,
    /// Its files.
    pub resources: SkillResources,
}

impl SkillInfo {
    /// Returns the member `name` of the front matter, or `None` if it is no text.
    pub fn name(&self) -> Option<&str> {
        self.frontmatter.get("name").and_then(Value::as_str)
    }

    /// Returns the member `description` of the front matter, or `None` if it is no text.
    pub fn description(&self) -> Option<&str> {
        self.frontmatter.get("description").and_then(Value::as_str)
    }

    /// Returns the entry of a file; `None` if the server does not list the files.
    fn find(&self, uri: &str) -> Result<Option<&SkillResource>, ClientError> {
        let SkillResources::Listed(files) = &self.resources else { return Ok(None) };
        let file = files.iter().find(|file| file.uri == uri);
        file.map(Some).ok_or_else(|| {
            let text = format!("the skill {} does not list the file {uri}", self.uri);
            ClientError::new(ClientErrorKind::InvalidInput, text)
        })
    }
}

impl Listed for SkillInfo {
    const METHOD: Method = Method::SkillsList;
    const KEY: &'static str = "skills";
}

/// The files of a skill.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SkillResources {
    /// All of them.
    Listed(Vec<SkillResource>),
    /// The server makes them when they are read (`"dynamic"`): their content is not verified.
    Dynamic(String),
}

/// A file of a skill.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
pub struct SkillResource {
    /// Its URI.
    pub uri: String,
    /// `sha256:` and the SHA-256 of its bytes in hexadecimal digits.
    pub digest: String,
    /// Its length in bytes.
    pub size: u64,
}

impl SkillResource {
    /// Checks that `bytes` are the content of the file.
    fn verify(&self, bytes: &[u8]) -> Result<(), ClientError> {
        if bytes.len() as u64 != self.size {
            let text = format!("{} has {} bytes, not {}", self.uri, bytes.len(), self.size);
            return Err(integrity(text));
        }
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
        let digest = Sha256::digest(bytes);
        let digits = digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        if self.digest.strip_prefix("sha256:").is_some_and(|listed| listed.chars().eq(digits)) {
            return Ok(());
        }
        Err(integrity(format!("{} does not have the digest {}", self.uri, self.digest)))
    }
}

/// A skill whose `SKILL.md` was read and verified.
#[derive(Clone, Debug)]
pub struct Skill {
    client: Client,
    info: SkillInfo,
    instructions: String,
}

impl Skill {
    /// Reads and verifies the `SKILL.md` of a listed skill.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::Integrity`] if its size, digest or front matter is not the listed one, or
    /// the skill is larger than 512 files or 16 MiB; those of a request.
    pub async fn load(client: &Client, info: SkillInfo) -> Result<Self, ClientError> {
        if let SkillResources::Listed(files) = &info.resources {
            let bytes = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size));
            if files.len() > FILES_MAX || bytes > BYTES_MAX {
                let text = format!("the skill {} exceeds 512 files or 16 MiB", info.uri);
                return Err(integrity(text));
            }
        }
        let bytes = read_file(client, &info, &info.uri).await?;
        let invalid = |text: &str| integrity(format!("{}: {text}", info.uri));
        let text = String::from_utf8(bytes).map_err(|_| invalid("the text is not UTF-8"))?;
        let (front_matter, instructions) = split_front_matter(&text).map_err(|it| invalid(&it))?;
        if front_matter != info.frontmatter {
            return Err(invalid("the front matter is not the listed one"));
        }
        let instructions = instructions.to_owned();
        Ok(Self { client: client.clone(), info, instructions })
    }

    /// Reads and verifies a skill by the URI of its `SKILL.md` (`skills/get`).
    ///
    /// # Errors
    ///
    /// Those of [`Skill::load`].
    pub async fn get(client: &Client, uri: &str) -> Result<Self, ClientError> {
        #[derive(Deserialize)]
        struct GetSkillResult {
            skill: SkillInfo,
        }
        let result: GetSkillResult = client.request("skills/get", &json!({ "uri": uri })).await?;
        if result.skill.uri != uri {
            return Err(integrity(format!("the server answered for {}", result.skill.uri)));
        }
        Self::load(client, result.skill).await
    }

    /// Returns the entry of the skill.
    pub const fn info(&self) -> &SkillInfo {
        &self.info
    }

    /// Returns the text of `SKILL.md` after its front matter.
    pub fn instructions(&self) -> &str {
        &self.instructions
    }

    /// Reads and verifies a file of the skill.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::Integrity`] if its size or digest is not the listed one,
    /// [`ClientErrorKind::InvalidInput`] if the skill does not list it, and those of a request.
    pub async fn read(&self, uri: &str) -> Result<Vec<u8>, ClientError> {
        read_file(&self.client, &self.info, uri).await
    }
}

/// Reads and verifies a file.
async fn read_file(client: &Client, info: &SkillInfo, uri: &str) -> Result<Vec<u8>, ClientError> {
    let file = info.find(uri)?;
    let result = client.read_resource(uri).await?;
    let [contents] = &result.contents[..] else {
        return Err(integrity(format!("{uri} does not have one content")));
    };
    let bytes = match (&contents.text, &contents.blob) {
        (Some(text), None) => text.clone().into_bytes(),
        (None, Some(blob)) => BASE64_STANDARD
            .decode(blob)
            .map_err(|_| integrity(format!("{uri} is not valid base64")))?,
        _ => return Err(integrity(format!("{uri} has neither text nor bytes"))),
    };
    if let Some(file) = file {
        file.verify(&bytes)?;
    }
    Ok(bytes)
}

fn integrity(text: String) -> ClientError {
    ClientError::new(ClientErrorKind::Integrity, text)
}

/// Returns the front matter and the text after it, or what is wrong with it.
fn split_front_matter(text: &str) -> Result<(Map<String, Value>, &str), String> {
    let missing = || "the text does not begin with a front matter between lines ---".to_owned();
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line)).ok_or_else(missing)?;
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            let front_matter = serde_saphyr::from_str(&text[first.len()..end])
                .map_err(|error| format!("the front matter is not valid YAML: {error}"))?;
            return Ok((front_matter, &text[end + line.len()..]));
        }
        end += line.len();
    }
    Err(missing())
}

fn is_fence(line: &str) -> bool {
    line.trim_end_matches(['\r', '\n']) == "---"
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn size_and_digest_of_file_are_verified() {
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let file = |digest: &str, size| SkillResource {
            uri: "skill://a/b".into(),
            digest: digest.into(),
            size,
        };
        assert!(file(digest, 3).verify(b"abc").is_ok());
        for (file, bytes) in [
            (file(digest, 4), "abc"),
            (file(digest, 3), "abd"),
            (file(&digest[7..], 3), "abc"),
            (file("sha256:", 3), "abc"),
        ] {
            let error = file.verify(bytes.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::Integrity, "{error}");
        }
    }

    #[test]
    fn front_matter_and_text_are_split() {
        let text = "---\nname: a\ntags: [b, 1]\nmetadata:\n  c: true\n---\n\nText.\n---\n";
        let (front_matter, rest) = split_front_matter(text).unwrap();
        let expected = json!({ "name": "a", "tags": ["b", 1], "metadata": { "c": true } });
        assert_eq!((Value::Object(front_matter), rest), (expected, "\nText.\n---\n"));
        let (front_matter, rest) = split_front_matter("---\r\nname: a\r\n---").unwrap();
        assert_eq!((Value::Object(front_matter), rest), (json!({ "name": "a" }), ""));
    }

    #[test]
    fn text_without_front_matter_is_invalid() {
        for text in ["", "name: a\n", "---\nname: a\n", "---\n- a\n---\n", "---\na: [\n---\n"] {
            assert!(split_front_matter(text).is_err(), "{text}");
        }
    }
}
