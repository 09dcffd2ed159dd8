//! `baton task readback`, `accept` and `reject`: what a verifier says, who is not the executor.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::connection::{Session, answered, now, request_id};
use crate::cli::output::{read_file, show};
use crate::cli::task::artifact::{digest_of, fetch};
use crate::cli::task::{left_behind, present};
use crate::cli::{Done, Failed};
use crate::proto::baton::v1 as pb;
use crate::wire::canon;

/// Re-reads an artifact and records what was seen.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --result, the digest that was computed decides: PASS if it is the \
recorded one, FAIL if not.

Examples:
  baton task readback TASK --artifact report --file report.md
  baton task readback TASK --artifact report        (re-reads the content that the broker keeps)
  baton task readback TASK --artifact report --result inconclusive --observed 'not reachable'"
)]
pub(super) struct Readback {
    /// The task.
    task: String,
    /// The artifact.
    #[arg(long, value_name = "ID")]
    artifact: String,
    /// Where it was re-read; the content that the broker keeps if left out.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What was seen, if it is not the digest of what is read now.
    #[arg(long, value_name = "TEXT", requires = "result")]
    observed: Option<String>,
    /// The result, where the digest does not decide it.
    #[arg(long)]
    result: Option<Seen>,
    /// How it was read, in words.
    #[arg(long, value_name = "TEXT")]
    method: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Seen {
    Pass,
    Fail,
    Inconclusive,
}

impl Readback {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let found = fetch(session, &self.task, &self.artifact).await?;
        let recorded = found.artifact.and_then(|a| a.descriptor).unwrap_or_default();
        let digest = recorded.digest.unwrap_or_default();
        let (observed, method) = match (&self.observed, &self.file) {
            (Some(observed), _) => (observed.clone(), "as observed".to_owned()),
            (None, Some(path)) => {
                let seen = canon::part_digest_raw(&read_file(path)?).to_string();
                (seen, format!("read {} and hashed it", path.display()))
            }
            (None, None) => match digest_of(&found.parts)? {
                Some(seen) => (seen, "fetched it from the broker and hashed it".to_owned()),
                None => {
                    return Err(Failed::Usage(format!(
                        "the broker does not keep artifact {}; read it at {} and give --file, or \
                         --observed and --result",
                        self.artifact, recorded.location
                    )));
                }
            },
        };
        let result = match self.result {
            Some(Seen::Pass) => pb::ReadbackResult::Pass,
            Some(Seen::Fail) => pb::ReadbackResult::Fail,
            Some(Seen::Inconclusive) => pb::ReadbackResult::Inconclusive,
            None if observed == digest => pb::ReadbackResult::Pass,
            None => pb::ReadbackResult::Fail,
        };
        let evidence = pb::ReadbackEvidence {
            method: self.method.clone().unwrap_or(method),
            observed: observed.clone(),
            observed_at: Some(now()),
            verifier: String::new(),
            result: result.into(),
        };
        let request = pb::RecordReadbackRequest {
            request_id: request_id(),
            task_id: self.task.clone(),
            artifact_id: self.artifact.clone(),
            version: recorded.version,
            artifact_digest: digest,
            evidence: Some(evidence),
        };
        let done = answered(session.tasks().record_readback(session.ask(request)).await)?;
        let result = result.as_str_name().trim_start_matches("READBACK_RESULT_").to_owned();
        show(session, &done, |done| {
            let more = [("result", result), ("observed", observed)];
            left_behind(done.outcome.as_ref(), &more)
        })
    }
}

/// Accepts the result.
#[derive(Debug, Args)]
pub(super) struct Accept {
    /// The task.
    task: String,
    #[command(flatten)]
    decision: Decision,
}

/// Rejects the result.
#[derive(Debug, Args)]
pub(super) struct Reject {
    /// The task.
    task: String,
    #[command(flatten)]
    decision: Decision,
    /// Close the task; without it, the owner may try again.
    #[arg(long)]
    close: bool,
}

#[derive(Debug, Args)]
struct Decision {
    /// Why, for a person.
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// The acceptance contract that it was judged under, with its version.
    #[arg(long, value_name = "REF", default_value = "")]
    acceptance_contract: String,
    /// Revision that it was judged on; the present one if left out.
    #[arg(long)]
    revision: Option<u64>,
}

impl Accept {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let verdict = pb::BusinessAcceptanceStatus::Accepted;
        self.decision.send(session, &self.task, verdict, false).await
    }
}

impl Reject {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let verdict = pb::BusinessAcceptanceStatus::Rejected;
        self.decision.send(session, &self.task, verdict, self.close).await
    }
}

impl Decision {
    async fn send(
        &self,
        session: &Session,
        task_id: &str,
        verdict: pb::BusinessAcceptanceStatus,
        close: bool,
    ) -> Done {
        let expected_revision = match self.revision {
            Some(revision) => revision,
            None => present(session, task_id).await?.revision,
        };
        let request = pb::DecideAcceptanceRequest {
            request_id: request_id(),
            task_id: task_id.to_owned(),
            expected_revision,
            decision: Some(pb::AcceptanceDecision {
                verdict: verdict.into(),
                comment: self.comment.clone(),
                acceptance_contract_ref: self.acceptance_contract.clone(),
                close,
            }),
        };
        let done = answered(session.tasks().decide_acceptance(session.ask(request)).await)?;
        show(session, &done, |done| left_behind(done.outcome.as_ref(), &[]))
    }
}
