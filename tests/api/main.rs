//! The public surface: a real server on a real port, spoken to by generated clients.

// A test stops at the first surprise.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod acceptance;
mod bad_input;
mod blind;
mod doctor;
mod events;
mod idempotency;
mod offers;
mod ownership;
mod packets;
mod prying;
mod races;
mod receipts;
mod recorder;
mod scopes;
mod steps;
mod visibility;
mod world;
