//! The disk that the bench runs on: that it is one, and how fast it syncs.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::Measured;

/// Bytes written before each sync: about what one group of the committer writes.
const WRITE_BYTES: usize = 4096;

/// Refuses a directory in memory: a sync there costs nothing and every figure would be a lie.
///
/// # Errors
/// The directory is on tmpfs or ramfs, or cannot be made.
pub(super) fn refuse_memory(dir: &Path) -> anyhow::Result<()> {
    let at = std::fs::canonicalize(dir).with_context(|| format!("no {}", dir.display()))?;
    let mounts = std::fs::read_to_string("/proc/mounts").context("no list of mounts")?;
    let kind = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(point, _)| at.starts_with(point))
        .max_by_key(|(point, _)| point.len())
        .map(|(_, kind)| kind.to_owned());
    match kind.as_deref() {
        Some("tmpfs" | "ramfs") => anyhow::bail!(
            "{} is kept in memory ({}); name a directory on a disk with --data-dir",
            at.display(),
            kind.unwrap_or_default()
        ),
        _ => Ok(()),
    }
}

/// Writes and syncs one after the other, for `span`.
///
/// # Errors
/// The disk refuses.
pub(super) fn syncs(dir: &Path, span: Duration) -> anyhow::Result<Measured> {
    let path = dir.join("syncs");
    let mut file: File = OpenOptions::new().create(true).append(true).open(&path)?;
    let block = [0x5a_u8; WRITE_BYTES];
    let mut latencies = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < span {
        let at = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        latencies.push(at.elapsed());
    }
    let measured = Measured::of(latencies, begun.elapsed());
    std::fs::remove_file(&path)?;
    Ok(measured)
}
