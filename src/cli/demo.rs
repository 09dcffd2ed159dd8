//! `baton demo`, and the processes that it starts.
//!
//! Invariant: the exit code is 0 only if each act ended as it must.

use anyhow::anyhow;

use crate::cli::{Done, Failed};
use crate::demo::{Demo, DemoAgent, DemoError};

/// Plays the demo.
pub(super) fn run(demo: &Demo) -> Done {
    match demo.run() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failed::Fault(anyhow!("an act did not end as it must"))),
        Err(error) => Err(failed(error)),
    }
}

/// Plays one part of it.
pub(super) fn play(part: &DemoAgent) -> Done {
    part.run().map_err(failed)
}

fn failed(error: DemoError) -> Failed {
    match error {
        DemoError::Usage(text) => Failed::Usage(text),
        error => Failed::Fault(error.into()),
    }
}
