//! Files that decide who has access: keys, tokens, secrets.
//!
//! Invariant: a file that its group or others may write is not read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::options::Options;

/// Mode bits: the group or others may write.
const WRITABLE: u32 = 0o022;
/// Mode bit: others may read.
const READABLE: u32 = 0o004;

/// Reads a file.
///
/// # Errors
///
/// It cannot be read, or its group or others may write it.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    // That of the target of a link, which is the file that is read.
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let mode = metadata.mode() & 0o7777;
    if metadata.is_file() && mode & WRITABLE != 0 {
        return Err(format!(
            "its group or others may write it (mode {mode:04o}), and decide who has access: run \
             chmod go-w"
        ));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// [`read`], as text.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    String::from_utf8(read(path)?).map_err(|_| "it is not UTF-8".to_owned())
}

/// Returns a sentence for each file with secrets that every user of the machine may read.
pub fn find_readable_secrets(options: &Options) -> Vec<String> {
    let Options { limits, auth, tls, traces, admin, .. } = options;
    let sources = [
        ("tls.keys", &tls.keys),
        ("tls.ticket_keys", &tls.ticket_keys),
        ("auth.api_keys", &auth.api_keys),
        ("auth.introspection_client", &auth.introspection_client),
        ("request_state_keys", &limits.request_state_keys),
        ("traces.headers", &traces.headers),
    ];
    let files = sources.into_iter().flat_map(|(key, paths)| paths.iter().map(move |it| (key, it)));
    let files = files.chain(admin.token.as_ref().map(|path| ("admin.token", path)));
    let warning = |(key, path): (&str, &std::path::PathBuf)| {
        let metadata = std::fs::metadata(path).ok()?;
        let mode = metadata.mode() & 0o7777;
        (metadata.is_file() && mode & READABLE != 0).then(|| {
            format!(
                "{key}: {}: every user of this machine may read it (mode {mode:04o}); run chmod \
                 o-r",
                path.display()
            )
        })
    };
    files.filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn writable_file_is_refused_and_readable_warned() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "secret").unwrap();
        symlink(&target, &link).unwrap();
        let mut options = Options::default();
        options.tls.keys = vec![link.clone()];
        for (mode, is_read, warnings) in [
            (0o600, true, 0),
            (0o640, true, 0),
            (0o644, true, 1),
            (0o664, false, 1),
            (0o620, false, 0),
            (0o602, false, 0),
        ] {
            fs::set_permissions(&target, Permissions::from_mode(mode)).unwrap();
            let read = read(&link);
            assert_eq!(read.is_ok(), is_read, "{mode:o}: {read:?}");
            assert_eq!(find_readable_secrets(&options).len(), warnings, "{mode:o}");
        }
        fs::set_permissions(&target, Permissions::from_mode(0o664)).unwrap();
        assert!(read(&link).unwrap_err().contains("(mode 0664)"));
        assert!(read(&folder.path().join("missing")).is_err());
        assert_eq!(read(Path::new("/dev/null")), Ok(Vec::new()));
    }
}
