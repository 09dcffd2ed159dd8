//! `baton proto export`: the protobuf files, as this binary was built from them.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use crate::cli::{Done, print};

/// The public protobuf files. The store's own messages are not among them.
const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/public_protos.rs"));

/// Handles the protobuf files.
#[derive(Debug, Args)]
pub(super) struct Proto {
    #[command(subcommand)]
    command: ProtoCommand,
}

#[derive(Debug, Subcommand)]
enum ProtoCommand {
    /// Write all public protobuf files below a directory.
    Export {
        /// The directory; made if it is not there.
        dir: PathBuf,
    },
}

impl Proto {
    /// Writes the files and prints their names.
    pub(super) fn run(&self) -> Done {
        let ProtoCommand::Export { dir } = &self.command;
        for (name, text) in FILES {
            let path = dir.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)
                    .with_context(|| format!("cannot make {}", parent.display()))?;
            }
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
            print(&path.display().to_string())?;
        }
        Ok(())
    }
}
