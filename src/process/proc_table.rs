//! The processes of the system, as `/proc` shows them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The children of this process, zombies included.
#[derive(Debug)]
pub(crate) struct ChildTable {
    /// Those of the first thread, which has those of ended threads, too. `None` if the kernel has
    /// no such file.
    file: Option<File>,
    own: i32,
}

/// Bytes of the list of children that are read at once.
const READ_BYTES: usize = 4 << 10;

impl ChildTable {
    pub(crate) fn new(own: i32) -> Self {
        Self { file: File::open(format!("/proc/self/task/{own}/children")).ok(), own }
    }

    /// Returns the id of this process.
    pub(crate) const fn own(&self) -> i32 {
        self.own
    }

    /// Returns the ids of the children; none without `/proc`.
    pub(crate) fn ids(&self) -> Vec<i32> {
        let listed = self.file.as_ref().map(read_ids);
        if let Some(Ok(ids)) = listed {
            return ids;
        }
        let is_child = |id: &i32| Stat::of(*id).is_some_and(|stat| stat.parent == self.own);
        all_ids().into_iter().filter(is_child).collect()
    }
}

fn read_ids(file: &File) -> io::Result<Vec<i32>> {
    let mut text = Vec::new();
    let mut buf = [0; READ_BYTES];
    loop {
        let offset = u64::try_from(text.len()).unwrap_or(u64::MAX);
        match file.read_at(&mut buf, offset)? {
            0 => break,
            len => text.extend_from_slice(&buf[..len]),
        }
    }
    let words = text.split(|byte| *byte == b' ');
    Ok(words.filter_map(|word| str::from_utf8(word).ok()?.parse().ok()).collect())
}

/// Returns the ids of all processes.
pub(crate) fn all_ids() -> Vec<i32> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// What `/proc/ID/stat` shows of a process.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Stat {
    pub(crate) is_zombie: bool,
    pub(crate) parent: i32,
    pub(crate) session: i32,
}

impl Stat {
    /// Reads that of a process; `None` if it has ended.
    pub(crate) fn of(id: i32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name of the program is in parentheses and may contain any character.
        let mut words = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
        let is_zombie = matches!(words.next()?, "Z" | "X");
        let parent = words.next()?.parse().ok()?;
        let session = words.nth(1)?.parse().ok()?;
        Some(Self { is_zombie, parent, session })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_any_name() {
        let stat = Stat::parse("12 (a) R 1 (b)) Z 3 4 5 6").unwrap();
        assert_eq!(stat, Stat { is_zombie: true, parent: 3, session: 5 });
        assert!(!Stat::of(std::process::id().cast_signed()).unwrap().is_zombie);
        assert_eq!(Stat::parse("12 (a"), None);
    }
}
