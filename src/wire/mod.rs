//! Where messages and the core's values meet.

pub mod canon;
