//! Adding a principal to the file.
//!
//! What lives here: one entry more, written safely. What does not: what an entry may say.
//! Invariants: every byte that was there stays; a crash leaves the old file or the new one; of two
//! writers at the same time one is refused; what is written has been read back first.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::{Document, Entry, PrincipalsError, check, parse, read};

/// Adds an entry at the end of the file, or makes the file. What is there stays byte for byte; the
/// file is then readable by its owner alone.
///
/// # Errors
/// The file as it is, or with the entry, is refused; or it cannot be written. It is then unchanged.
pub fn append_principal(path: &Path, entry: Entry) -> Result<(), PrincipalsError> {
    // A link is followed, so that the file is replaced and not the link.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    // Made before the old one is read: its existence keeps a second writer out.
    let file = create_private(&fresh).map_err(|cause| PrincipalsError::File {
        path: fresh.clone(),
        problem: "cannot be made",
        cause,
        remedy: "if another `baton token new` is not at work, remove it; else check the folder",
    })?;
    let done = extended(&path, entry).and_then(|text| {
        replace(file, &text, &fresh, &path).map_err(|cause| PrincipalsError::File {
            path: path.clone(),
            problem: "cannot be written",
            cause,
            remedy: "check the folder's rights and free space",
        })
    });
    if done.is_err() {
        // The error to tell is the first one.
        let _ = std::fs::remove_file(&fresh);
    }
    done
}

/// The text of the file with the entry.
fn extended(path: &Path, entry: Entry) -> Result<String, PrincipalsError> {
    let mut text = match read(path) {
        Err(PrincipalsError::File { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
            String::new()
        }
        other => other?,
    };
    let form = |detail: String| PrincipalsError::Form { path: path.to_owned(), detail };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let block = Document { principal: vec![entry] };
    text.push_str(&toml::to_string(&block).map_err(|e| form(e.to_string()))?);
    // The whole is read back: a duplicate, or a file that ends in an odd place, shows here.
    let document = parse(path, &text)?;
    check(path, &document.principal)?;
    Ok(text)
}

fn replace(
    mut file: std::fs::File,
    text: &str,
    fresh: &Path,
    path: &Path,
) -> Result<(), std::io::Error> {
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(fresh, path)?;
    // The new name is kept only when the folder is.
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => std::fs::File::open(folder)?.sync_all(),
        None => std::fs::File::open(".")?.sync_all(),
    }
}

fn create_private(path: &Path) -> Result<std::fs::File, std::io::Error> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
