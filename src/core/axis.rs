//! The independent status axes of a task, their legal moves, and the A2A state that follows.
//!
//! What lives here: the axis enums, the table of runtime moves, the invariants between axes, and
//! the total function to the A2A state. What does not: who may move an axis (the nouns decide
//! that). Invariants: axes are never merged; a bare "completed" has no spelling; a closed task's
//! axes never move. Start reading at [`Axes`].

/// What the execution is doing, or how it ended. Source: requirements D.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    /// Admitted; nobody has begun.
    Submitted,
    /// The owner works on it.
    Working,
    /// Paused on purpose at a checkpoint.
    Paused,
    /// Waits for a permission or an outside answer.
    Blocked,
    /// Execution or verification failed.
    Failed,
    /// A difference was seen, its cause is not established.
    UnknownCause,
    /// The real outside state is being determined.
    Reconciling,
    /// Canceled.
    Canceled,
    /// The engine has ended. Not an acceptance.
    RuntimeCompleted,
    /// The agent declined the task.
    Rejected,
}

/// Whether the result is accepted. Source: requirements D.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Acceptance {
    /// Not said yet; legal only while the runtime axis claims no end.
    Unset,
    /// There is nothing to accept.
    NotApplicable,
    /// Verification is open.
    Verifying,
    /// Accepted by an independent verifier.
    Accepted,
    /// A result condition is shown unmet.
    Rejected,
}

/// How a handoff stands. Source: requirements D.3 and design section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HandoffStatus {
    /// Offered; the sender is still the owner.
    Pending,
    /// The receiver's echo matched.
    Received,
    /// Refused, or ended by the broker for a recorded reason.
    Rejected,
    /// Taken back.
    Withdrawn,
    /// Its deadline passed.
    Expired,
    /// Replaced by a newer offer.
    Superseded,
    /// Something that it binds has changed.
    Stale,
}

impl HandoffStatus {
    /// True for every status but PENDING: the packet is done with.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self != Self::Pending
    }

    /// The status in the catalogue's spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Received => "RECEIVED",
            Self::Rejected => "REJECTED",
            Self::Withdrawn => "WITHDRAWN",
            Self::Expired => "EXPIRED",
            Self::Superseded => "SUPERSEDED",
            Self::Stale => "STALE",
        }
    }
}

/// The human gate. Source: requirements D.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Approval {
    /// No gate was asked for.
    Unset,
    /// The work has no gate.
    NotApplicable,
    /// A decision is awaited.
    Pending,
    /// Granted.
    Granted,
    /// Denied.
    Denied,
    /// What was approved has changed.
    Invalidated,
    /// Its time has passed.
    Expired,
    /// Taken back.
    Revoked,
    /// Used up.
    Consumed,
}

/// Whether the task can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disposition {
    /// Open.
    Open,
    /// Closed for good.
    Closed,
}

/// Who or what ends a pause or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReleasedBy {
    /// Nothing is paused or blocked.
    Nobody,
    /// The client.
    Client,
    /// A human.
    Human,
    /// A credential.
    Credential,
    /// A permission.
    Permission,
    /// Anything else.
    Other,
}

/// The axes of one task, side by side. The handoff axis is the status of the task's latest handoff
/// and is kept with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    /// Runtime.
    pub runtime: Runtime,
    /// Business acceptance.
    pub acceptance: Acceptance,
    /// Approval.
    pub approval: Approval,
    /// Open or closed.
    pub disposition: Disposition,
    /// Who ends the present pause or block.
    pub released_by: ReleasedBy,
    /// True while an outside effect may exist that nobody has confirmed.
    pub effect_uncertain: bool,
}

impl Axes {
    /// The axes of a task that was just created.
    #[must_use]
    pub fn submitted() -> Self {
        Self {
            runtime: Runtime::Submitted,
            acceptance: Acceptance::Unset,
            approval: Approval::Unset,
            disposition: Disposition::Open,
            released_by: ReleasedBy::Nobody,
            effect_uncertain: false,
        }
    }

    /// True while the task can change.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.disposition == Disposition::Open
    }

    /// What must hold between the axes. `Err` names the broken invariant; it is a fault of the
    /// broker, never of a caller.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        use Acceptance as A;
        use Runtime as R;
        if self.runtime == R::RuntimeCompleted && self.acceptance == A::Unset {
            return Err("acceptance is unset on RUNTIME_COMPLETED");
        }
        if self.acceptance == A::Accepted && self.runtime != R::RuntimeCompleted {
            return Err("ACCEPTED without RUNTIME_COMPLETED");
        }
        let waits = matches!(self.runtime, R::Paused | R::Blocked);
        if waits && self.released_by == ReleasedBy::Nobody {
            return Err("PAUSED or BLOCKED without a release");
        }
        if self.is_open() && self.runtime == R::Rejected {
            return Err("REJECTED on an open task");
        }
        if self.is_open() && self.runtime == R::RuntimeCompleted && self.settled() {
            return Err("COMPLETED on an open task");
        }
        if !self.is_open() && !self.closed_legally() {
            return Err("closed in a state that is no end");
        }
        Ok(())
    }

    fn settled(&self) -> bool {
        matches!(self.acceptance, Acceptance::Accepted | Acceptance::NotApplicable)
    }

    fn closed_legally(&self) -> bool {
        match self.runtime {
            Runtime::RuntimeCompleted => self.acceptance != Acceptance::Verifying,
            Runtime::Failed | Runtime::Rejected => true,
            Runtime::Canceled => !self.effect_uncertain,
            Runtime::Submitted
            | Runtime::Working
            | Runtime::Paused
            | Runtime::Blocked
            | Runtime::UnknownCause
            | Runtime::Reconciling => false,
        }
    }
}

/// The A2A task state that the axes show. Source: the table of design section 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum A2aState {
    /// Admitted.
    Submitted,
    /// In progress, or not yet to be called ended.
    Working,
    /// Waits for the client or a human.
    InputRequired,
    /// Waits for a credential or permission.
    AuthRequired,
    /// Ended and accepted, or nothing to accept.
    Completed,
    /// Ended without success.
    Failed,
    /// Canceled, with no effect left open.
    Canceled,
    /// Declined.
    Rejected,
}

/// The A2A state: a total function of stored fields. `RUNTIME_COMPLETED` with unset acceptance is
/// refused by [`Axes::check`] before anything is stored; here it is not yet an end.
#[must_use]
pub fn a2a_state(axes: &Axes) -> A2aState {
    match axes.runtime {
        Runtime::Submitted => A2aState::Submitted,
        Runtime::Working | Runtime::Reconciling | Runtime::UnknownCause => A2aState::Working,
        Runtime::Paused | Runtime::Blocked => waiting_state(axes),
        Runtime::RuntimeCompleted => match (axes.acceptance, axes.disposition) {
            (Acceptance::Accepted | Acceptance::NotApplicable, _) => A2aState::Completed,
            (Acceptance::Rejected, Disposition::Closed) => A2aState::Failed,
            (Acceptance::Rejected | Acceptance::Verifying | Acceptance::Unset, _) => {
                A2aState::Working
            }
        },
        Runtime::Failed if axes.is_open() => A2aState::Working,
        Runtime::Failed => A2aState::Failed,
        Runtime::Canceled if axes.effect_uncertain => A2aState::Working,
        Runtime::Canceled => A2aState::Canceled,
        Runtime::Rejected => A2aState::Rejected,
    }
}

fn waiting_state(axes: &Axes) -> A2aState {
    match (axes.released_by, axes.runtime) {
        (ReleasedBy::Client | ReleasedBy::Human, _) => A2aState::InputRequired,
        (ReleasedBy::Credential | ReleasedBy::Permission, Runtime::Blocked) => {
            A2aState::AuthRequired
        }
        (
            ReleasedBy::Credential
            | ReleasedBy::Permission
            | ReleasedBy::Other
            | ReleasedBy::Nobody,
            _,
        ) => A2aState::Working,
    }
}

/// The moves of the runtime axis that an owner's report may make. Source: requirements D.1; a
/// report of the same value is progress, and CANCELED is reached by a report only after a cancel.
pub const RUNTIME_MOVES: &[(Runtime, &[Runtime])] = &[
    (Runtime::Submitted, &[Runtime::Working, Runtime::Blocked, Runtime::Rejected, Runtime::Failed]),
    (
        Runtime::Working,
        &[
            Runtime::Working,
            Runtime::Paused,
            Runtime::Blocked,
            Runtime::Failed,
            Runtime::UnknownCause,
            Runtime::RuntimeCompleted,
        ],
    ),
    (Runtime::Paused, &[Runtime::Working, Runtime::Paused, Runtime::Blocked, Runtime::Failed]),
    (Runtime::Blocked, &[Runtime::Working, Runtime::Blocked, Runtime::Failed]),
    (Runtime::Failed, &[Runtime::Working, Runtime::Reconciling]),
    (Runtime::UnknownCause, &[Runtime::Reconciling]),
    (Runtime::Reconciling, &[Runtime::Working, Runtime::Failed]),
    (Runtime::RuntimeCompleted, &[Runtime::Working]),
    (Runtime::Canceled, &[]),
    (Runtime::Rejected, &[]),
];

/// The legal next values of the runtime axis.
#[must_use]
pub fn runtime_moves(from: Runtime) -> &'static [Runtime] {
    RUNTIME_MOVES.iter().find(|(at, _)| *at == from).map_or(&[], |(_, to)| *to)
}

impl Runtime {
    /// The value in the catalogue's spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Submitted => "SUBMITTED",
            Self::Working => "WORKING",
            Self::Paused => "PAUSED",
            Self::Blocked => "BLOCKED",
            Self::Failed => "FAILED",
            Self::UnknownCause => "UNKNOWN_CAUSE",
            Self::Reconciling => "RECONCILING",
            Self::Canceled => "CANCELED",
            Self::RuntimeCompleted => "RUNTIME_COMPLETED",
            Self::Rejected => "REJECTED",
        }
    }
}
