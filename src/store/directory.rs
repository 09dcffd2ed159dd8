//! The data directory: what must be right before and after sled opens its files.
//!
//! Lives here: the files beside sled's own, and the start and stop protocol around them.
//! Does not live here: comparing chain and witness (`chain`), records (`value`).
//!
//! ```text
//! <dir>/format    the format version of the whole directory
//! <dir>/db/       sled's directory: db, conf, snap.*, blobs/
//! <dir>/witness   the last acknowledged group, synced before every acknowledgement
//! <dir>/clean     the seal of the last orderly stop; absent while the store is open
//! <dir>/aside-n/  sled's files as they were before a start after an unclean stop
//! ```
//!
//! ## Invariants
//! * After an unclean stop sled's files are copied aside before sled sees them, because sled
//!   zeroes what it cannot read. The copy goes once the start is verified.
//! * A file that appears is synced, and so is its directory, before the store serves.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::witness::Seal;
use super::{StoreError, disk};

/// The format of the directory. Another one is refused.
const FORMAT: &str = "baton-store 1\n";

/// The names inside of a data directory.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Makes the directory if it is not there, and checks its format.
    pub(super) fn prepare(root: &Path) -> Result<Self, StoreError> {
        let fresh = !root.exists();
        fs::create_dir_all(root).map_err(|error| StoreError::io(root, &error))?;
        if fresh {
            disk::sync_parent(root)?;
        }
        let directory = Self { root: root.to_path_buf() };
        let format = directory.root.join("format");
        match fs::read_to_string(&format) {
            Ok(found) if found == FORMAT => {}
            Ok(found) => {
                let found = found.trim().chars().take(64).collect();
                return Err(StoreError::UnknownFormat { found });
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let found = "bytes that are no text".to_owned();
                return Err(StoreError::UnknownFormat { found });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => directory.begin(&format)?,
            Err(error) => return Err(StoreError::io(&format, &error)),
        }
        let db = directory.db();
        fs::create_dir_all(&db).map_err(|error| StoreError::io(&db, &error))?;
        disk::sync(&directory.root)?;
        Ok(directory)
    }

    /// Writes the format into a directory that holds no data. A directory that holds some and has
    /// no format was damaged, or is none of ours.
    fn begin(&self, format: &Path) -> Result<(), StoreError> {
        if self.db_file().exists() || self.witness().exists() {
            return Err(StoreError::UnknownFormat {
                found: format!("data in {} and no format file", self.root.display()),
            });
        }
        disk::write_whole(format, FORMAT.as_bytes())
    }

    /// sled's own directory.
    pub(super) fn db(&self) -> PathBuf {
        self.root.join("db")
    }

    /// sled's log.
    pub(super) fn db_file(&self) -> PathBuf {
        self.db().join("db")
    }

    /// The witness.
    pub(super) fn witness(&self) -> PathBuf {
        self.root.join("witness")
    }

    fn clean(&self) -> PathBuf {
        self.root.join("clean")
    }

    /// Takes away the mark of the last orderly stop, so that a crash from now on shows. Gives what
    /// it said; `None` after an unclean stop or before the first start.
    pub(super) fn take_clean(&self) -> Result<Option<Seal>, StoreError> {
        let path = self.clean();
        let seal = match fs::read(&path) {
            Ok(bytes) => Seal::decode(&bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io(&path, &error)),
        };
        fs::remove_file(&path).map_err(|error| StoreError::io(&path, &error))?;
        disk::sync(&self.root)?;
        Ok(seal)
    }

    /// Marks an orderly stop.
    pub(super) fn mark_clean(&self, seal: Seal) -> Result<(), StoreError> {
        disk::write_whole(&self.clean(), &seal.encode())
    }

    /// Removes snapshots that sled had begun and not finished: it would take them for the newest.
    /// Nothing refers to one, because the rename that makes it count has not happened.
    pub(super) fn drop_unfinished(&self) -> Result<(), StoreError> {
        for path in self.sled_files()? {
            if path.extension() == Some(OsStr::new("generating")) {
                fs::remove_file(&path).map_err(|error| StoreError::io(&path, &error))?;
            }
        }
        Ok(())
    }

    /// Copies sled's files aside. Older copies go: the newest start matters.
    pub(super) fn copy_aside(&self) -> Result<(), StoreError> {
        let old = self.asides()?;
        let number = old.iter().filter_map(|path| number_of(path)).max().unwrap_or(0);
        let aside = self.root.join(format!("aside-{}", number.saturating_add(1)));
        fs::create_dir_all(&aside).map_err(|error| StoreError::io(&aside, &error))?;
        for path in self.sled_files()? {
            let Some(name) = path.file_name() else { continue };
            if path.is_file() {
                let to = aside.join(name);
                fs::copy(&path, &to).map_err(|error| StoreError::io(&to, &error))?;
                disk::sync(&to)?;
            }
        }
        disk::sync(&aside)?;
        disk::sync(&self.root)?;
        remove_all(&old)
    }

    /// Removes every copy: the start that it was made for is verified.
    pub(super) fn drop_asides(&self) -> Result<(), StoreError> {
        remove_all(&self.asides()?)
    }

    fn asides(&self) -> Result<Vec<PathBuf>, StoreError> {
        let all = list(&self.root)?;
        Ok(all.into_iter().filter(|path| number_of(path).is_some()).collect())
    }

    fn sled_files(&self) -> Result<Vec<PathBuf>, StoreError> {
        list(&self.db())
    }

    /// Values that sled keeps outside of its log are never synced, so there must be none.
    pub(super) fn check_no_blobs(&self) -> Result<(), StoreError> {
        let blobs = self.db().join("blobs");
        if blobs.is_dir() && !list(&blobs)?.is_empty() {
            return Err(StoreError::corrupt(format!(
                "{} holds values, which are not covered by any sync",
                blobs.display()
            )));
        }
        Ok(())
    }

    /// Syncs what sled wrote while it opened, and the directories.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        for path in self.sled_files()? {
            disk::sync(&path)?;
        }
        disk::sync(&self.db())?;
        disk::sync(&self.root)?;
        disk::sync_parent(&self.root)
    }
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("aside-")?.parse().ok()
}

fn list(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error: std::io::Error| StoreError::io(path, &error);
    let mut all = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        all.push(entry.map_err(failed)?.path());
    }
    all.sort();
    Ok(all)
}

fn remove_all(paths: &[PathBuf]) -> Result<(), StoreError> {
    for path in paths {
        fs::remove_dir_all(path).map_err(|error| StoreError::io(path, &error))?;
    }
    Ok(())
}
