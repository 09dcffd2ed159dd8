//! Baton: an A2A-compatible gRPC handoff broker.

pub mod bench;
pub mod broker;
pub mod cli;
pub mod client;
pub mod config;
pub mod core;
pub mod demo;
pub mod principals;
pub mod proto;
pub mod server;
pub mod service;
pub mod store;
pub mod telemetry;
pub mod wire;
