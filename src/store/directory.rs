//! The data directory: what must be right before and after sled opens its files.
//!
//! Lives here: the files beside sled's own, and the start and stop protocol around them.
//! Does not live here: comparing chain and witness (`chain`), records (`value`).
//!
//! ```text
//! <dir>/format    the format version of the whole directory, written by the first start that ends
//! <dir>/db/       sled's directory: db, conf, snap.*, blobs/
//! <dir>/journal-n the groups that sled does not have yet, synced before every acknowledgement
//! <dir>/witness   the last acknowledged group
//! <dir>/clean     the seal of the last orderly stop; absent while the store is open
//! <dir>/checking  the same during the start that follows, until the store is verified
//! <dir>/aside-n/  sled's files as they were before a start after an unclean stop
//! ```
//!
//! ## Invariants
//! * After an unclean stop sled's files are copied aside before sled sees them, because sled
//!   zeroes what it cannot read. The copy goes once a start is verified; until then it stays, since
//!   one made by a later start would hold what sled has left.
//! * A start that is refused forgets nothing: the next one judges by the same copy and seal.
//! * A file that appears is synced, and so is its directory, before the store serves.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::witness::{Seal, Witness};
use super::{StoreError, disk};

/// The format of the directory. Another one is refused.
const FORMAT: &str = "baton-store 1\n";

/// What the last stop has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastStop {
    /// Nothing has touched the files since the store was closed in order.
    pub(super) orderly: bool,
    /// Where the store stood when it was closed in order. Also known after starts that were not
    /// verified, since they commit nothing.
    pub(super) seal: Option<Seal>,
}

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
        match fs::read_to_string(directory.format()) {
            Ok(found) if found == FORMAT => {}
            Ok(found) => {
                let found = found.trim().chars().take(64).collect();
                return Err(StoreError::UnknownFormat { found });
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let found = "bytes that are no text".to_owned();
                return Err(StoreError::UnknownFormat { found });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => directory.check_fresh()?,
            Err(error) => return Err(StoreError::io(&directory.format(), &error)),
        }
        let db = directory.db();
        fs::create_dir_all(&db).map_err(|error| StoreError::io(&db, &error))?;
        disk::sync(&directory.root)?;
        Ok(directory)
    }

    /// A directory without a format is new, or its first start has not ended: nothing was ever
    /// acknowledged there. One in which something was, was damaged.
    fn check_fresh(&self) -> Result<(), StoreError> {
        let acknowledged = match Witness::load(&self.witness()) {
            Ok(None) => self.clean().exists(),
            Ok(Some((_, seal))) => seal.position.0 > 0,
            Err(_) => true,
        };
        if acknowledged {
            return Err(StoreError::UnknownFormat {
                found: format!("data in {} and no format file", self.root.display()),
            });
        }
        Ok(())
    }

    /// True if a start has ended here before. Its last step, once there is a witness, writes the
    /// format.
    pub(super) fn is_begun(&self) -> bool {
        self.format().exists()
    }

    fn format(&self) -> PathBuf {
        self.root.join("format")
    }

    /// The directory itself, which the journal's files are in.
    pub(super) fn root(&self) -> &Path {
        &self.root
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

    fn checking(&self) -> PathBuf {
        self.root.join("checking")
    }

    /// Begins a start: from now on a crash shows, because the mark of the last orderly stop has
    /// another name. Removes what a start that died has left unfinished.
    pub(super) fn begin_start(&self) -> Result<LastStop, StoreError> {
        self.drop_unfinished()?;
        let (clean, checking) = (self.clean(), self.checking());
        let orderly = clean.exists();
        if orderly {
            fs::rename(&clean, &checking).map_err(|error| StoreError::io(&clean, &error))?;
            disk::sync(&self.root)?;
        }
        match fs::read(&checking) {
            Ok(bytes) => Ok(LastStop { orderly, seal: Seal::decode(&bytes) }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(LastStop { orderly, seal: None })
            }
            Err(error) => Err(StoreError::io(&checking, &error)),
        }
    }

    /// Ends a start: the store is verified, and what was kept for the case that it is not goes.
    pub(super) fn end_start(&self) -> Result<(), StoreError> {
        if !self.is_begun() {
            disk::write_whole(&self.format(), FORMAT.as_bytes())?;
        }
        for aside in self.asides()? {
            remove_dir(&aside)?;
        }
        match fs::remove_file(self.checking()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(StoreError::io(&self.checking(), &error))
            }
            // Before the first commit, or a crash after it would be judged by the old seal.
            _ => disk::sync(&self.root),
        }
    }

    /// Marks an orderly stop.
    pub(super) fn mark_clean(&self, seal: Seal) -> Result<(), StoreError> {
        disk::write_whole(&self.clean(), &seal.encode())
    }

    /// Removes snapshots that sled had begun and not finished: it would take them for the newest.
    /// Nothing refers to one, because the rename that makes it count has not happened. The same
    /// holds for our own copies.
    fn drop_unfinished(&self) -> Result<(), StoreError> {
        for path in self.sled_files()? {
            if path.extension() == Some(OsStr::new("generating")) {
                fs::remove_file(&path).map_err(|error| StoreError::io(&path, &error))?;
            }
        }
        for path in list(&self.root)? {
            if path.extension() == Some(OsStr::new("partial")) {
                remove_dir(&path)?;
            }
        }
        Ok(())
    }

    /// Copies sled's files aside, unless a start that was not verified has done so: what sled has
    /// left since then is worth less. A copy appears whole or not at all.
    pub(super) fn copy_aside(&self) -> Result<(), StoreError> {
        if !self.asides()?.is_empty() {
            return Ok(());
        }
        let partial = self.root.join("aside-1.partial");
        fs::create_dir_all(&partial).map_err(|error| StoreError::io(&partial, &error))?;
        for path in self.sled_files()? {
            let Some(name) = path.file_name() else { continue };
            if path.is_file() {
                let to = partial.join(name);
                fs::copy(&path, &to).map_err(|error| StoreError::io(&to, &error))?;
                disk::sync(&to)?;
            }
        }
        disk::sync(&partial)?;
        let aside = self.root.join("aside-1");
        fs::rename(&partial, &aside).map_err(|error| StoreError::io(&aside, &error))?;
        disk::sync(&self.root)
    }

    /// Adds to the remedy of a refused start where the untouched files are.
    pub(super) fn advise(&self, error: StoreError) -> StoreError {
        let asides = self.asides().unwrap_or_default();
        match (error, asides.first()) {
            (StoreError::Corrupt { what, remedy }, Some(aside)) => StoreError::Corrupt {
                what,
                remedy: format!(
                    "{remedy}; the files as they were before the first start that was refused \
                     are in {}",
                    aside.display()
                ),
            },
            (error, _) => error,
        }
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

/// Copies what makes a store: neither its lock nor what was put aside.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::create_dir(to).map_err(|error| StoreError::io(to, &error))?;
    for path in list(from)? {
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        let is_sleds = path.is_dir() && (name == "db" || name == "blobs");
        if is_sleds {
            copy(&path, &target)?;
        } else if path.is_file() && name != "lock" {
            fs::copy(&path, &target).map_err(|error| StoreError::io(&target, &error))?;
        }
    }
    Ok(())
}

fn remove_dir(path: &Path) -> Result<(), StoreError> {
    fs::remove_dir_all(path).map_err(|error| StoreError::io(path, &error))
}
