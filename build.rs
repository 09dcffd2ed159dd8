//! Compiles `proto/` with protox (pure Rust, so no `protoc` is needed), generates the prost and
//! tonic code, and writes the descriptor set that reflection and canonical JSON read.

use std::path::{Path, PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut files = Vec::new();
    collect(Path::new("proto"), &mut files)?;
    files.sort();
    let set = protox::Compiler::new(["proto"])?
        .include_imports(true)
        .include_source_info(true)
        .open_files(&files)?
        .file_descriptor_set();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut bare = set.clone();
    for file in &mut bare.file {
        file.source_code_info = None;
    }
    std::fs::write(out.join("baton.fds"), bare.encode_to_vec())?;
    std::fs::write(out.join("public_protos.rs"), public(&files)?)?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure().include_file("all.rs").compile_fds_with_config(set, config)?;
    Ok(())
}

/// A Rust array of (name below `proto/`, text) of the files that clients are generated from.
fn public(files: &[PathBuf]) -> std::io::Result<String> {
    let mut array = "[".to_owned();
    for path in files.iter().filter(|path| public_path(path)) {
        let name = path.strip_prefix("proto").unwrap_or(path).display().to_string();
        let text = std::fs::canonicalize(path)?.display().to_string();
        array.push_str(&format!("({name:?}, include_str!({text:?})),"));
    }
    array.push(']');
    Ok(array)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "proto") {
            files.push(path);
        }
    }
    Ok(())
}

/// The store's own messages and the bench's yardstick are nobody else's.
fn public_path(path: &Path) -> bool {
    !path.starts_with("proto/baton/store") && !path.starts_with("proto/baton/bench")
}
