//! When a call is sent again, and after which pause.
//!
//! What lives here: the judgement on a failure, and growing pauses within a bound. What does not:
//! the calls. Invariants: a decision of the broker is never repeated, least of all STATE_CONFLICT;
//! pauses end with the deadline.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::Code;

use super::error::Failure;

/// The first pause.
const FIRST: Duration = Duration::from_millis(20);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(1);

/// Growing pauses until a deadline.
pub(super) struct Backoff {
    end: Instant,
    next: Duration,
}

impl Backoff {
    /// Pauses for at most `wait` together.
    pub(super) fn until(wait: Duration) -> Self {
        Self { end: Instant::now() + wait, next: FIRST }
    }

    /// What is left of the deadline.
    pub(super) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Waits; false, at once, if the deadline would pass meanwhile.
    pub(super) async fn pause(&mut self) -> bool {
        let pause = jittered(self.next);
        self.next = (self.next * 2).min(LONGEST);
        if pause >= self.left() {
            return false;
        }
        sleep(pause).await;
        true
    }
}

/// Half of the pause is drawn at random, so that clients of a restarted broker do not come at once.
fn jittered(pause: Duration) -> Duration {
    let [.., drawn] = *uuid::Uuid::new_v4().as_bytes();
    pause / 2 + pause / 2 * u32::from(drawn) / 255
}

/// True if nobody decided anything: the broker was not there, or the connection broke. A status
/// that was made on this side has a source; one that was received has none.
pub(super) fn may_repeat(failure: &Failure) -> bool {
    let broken = failure.reason.is_none() && std::error::Error::source(failure).is_some();
    failure.code == Code::Unavailable || (broken && failure.code != Code::DeadlineExceeded)
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    // A repeated STATE_CONFLICT would be decided on a state that nobody has looked at.
    #[test]
    fn decisions_are_not_repeated() {
        for code in [Code::Aborted, Code::FailedPrecondition, Code::Internal, Code::Unknown] {
            assert!(!may_repeat(&Status::new(code, "decided").into()), "{code:?}");
        }
        assert!(may_repeat(&Status::unavailable("no broker").into()));
    }

    // A client that waits for ever hides that its broker is gone.
    #[tokio::test]
    async fn pauses_end_with_the_deadline() {
        let mut backoff = Backoff::until(Duration::from_millis(200));
        let mut pauses = 0;
        while backoff.pause().await {
            pauses += 1;
        }
        assert!((1..20).contains(&pauses), "{pauses}");
    }
}
