//! Baton: an A2A-compatible gRPC handoff broker.

pub mod core;
pub mod proto;
pub mod wire;
