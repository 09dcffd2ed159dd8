//! A client of the broker, as one in any other language would be.
//!
//! What lives here: what a program in Rust needs to use a broker. What does not: anything that only
//! the broker itself knows.

pub mod error;
