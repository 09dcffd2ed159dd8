//! Panics of the storage engine as values.
//!
//! Lives here: running a closure so that a panic in it becomes its message. sled asserts where
//! damaged files should give an error, so every call into it goes through here.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Set while this thread runs a closure whose panic is going to be reported as an error.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Runs `work`; a panic is returned as its message and printed nowhere.
///
/// The caller must not use again what `work` borrowed mutably, since a panic may have left it half
/// changed. The store stops in that case.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // The hook is the only way to keep a panic from printing; it changes nothing for panics
    // outside of this function.
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                previous(panic);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(outer);
    outcome.map_err(|payload| {
        if let Some(text) = payload.downcast_ref::<&str>() {
            (*text).to_owned()
        } else if let Some(text) = payload.downcast_ref::<String>() {
            text.clone()
        } else {
            "a panic without a message".to_owned()
        }
    })
}
