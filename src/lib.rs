//! Baton: an A2A-compatible gRPC handoff broker.

pub mod broker;
pub mod core;
pub mod proto;
pub mod server;
pub mod service;
pub mod store;
pub mod wire;
