//! Writing files so that they are there after a power loss.
//!
//! Lives here: syncing a file or directory by path, and replacing a small file as a whole.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::StoreError;

/// Syncs a file, or the entries of a directory.
pub(super) fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| StoreError::io(path, &error))
}

/// Syncs the directory that holds `path`.
pub(super) fn sync_parent(path: &Path) -> Result<(), StoreError> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync(parent),
        _ => sync(Path::new(".")),
    }
}

/// Writes the file as a whole: after a crash it has its old content or all of the new.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let fresh = with_suffix(path, ".new");
    File::create(&fresh)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .map_err(|error| StoreError::io(&fresh, &error))?;
    std::fs::rename(&fresh, path).map_err(|error| StoreError::io(path, &error))?;
    sync_parent(path)
}

/// The path with `suffix` behind its last name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
