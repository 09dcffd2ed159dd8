//! The generated code of `proto/` and its descriptor set.
//!
//! What lives here: nothing but the output of `build.rs`. What does not: logic of any kind.
//! Invariant: the descriptor set is the one that the code was generated from.

#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::indexing_slicing,
    clippy::use_self,
    clippy::too_many_lines
)]

include!(concat!(env!("OUT_DIR"), "/all.rs"));

/// The encoded `FileDescriptorSet` of every file under `proto/` and of the well-known types used.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/baton.fds"));
