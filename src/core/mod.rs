//! The pure core: values and decisions. No async, no I/O, no clock, no randomness, no logging.

pub mod digest;
pub mod id;
pub mod scope;
pub mod time;
