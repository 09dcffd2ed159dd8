//! A task in the caller's hands: the owner's writes with their guard.
//!
//! What lives here: epoch and revision, kept from each answer to the next write. What does not: a
//! repeat after STATE_CONFLICT, which only the owner can decide. Invariants: every write names the
//! last epoch, revision and instance that the broker gave; a refused write changes none of them.

use crate::proto::baton::v1 as pb;

use super::{Client, Failure};

/// A task that this process owns.
#[derive(Clone, Debug)]
pub struct Owned {
    client: Client,
    task_id: String,
    instance_id: String,
    epoch: u64,
    revision: u64,
}

impl Owned {
    /// The task as the answer to a creation, a receipt or a resume left it; `instance_id` is the
    /// one that was named in that call.
    ///
    /// # Errors
    /// The answer has no outcome, so it is not one of a broker.
    pub fn new(
        client: Client,
        instance_id: &str,
        outcome: Option<&pb::Outcome>,
    ) -> Result<Self, Failure> {
        let outcome = outcome.ok_or_else(no_outcome)?;
        Ok(Self {
            client,
            task_id: outcome.task_id.clone(),
            instance_id: instance_id.to_owned(),
            epoch: outcome.epoch,
            revision: outcome.revision,
        })
    }

    /// Takes up a task that this principal owns under a new instance, and fences the old one.
    ///
    /// # Errors
    /// The task is not the caller's, or the epoch is not the present one.
    pub async fn resume(
        client: Client,
        task_id: &str,
        epoch: u64,
        instance_id: &str,
    ) -> Result<Self, Failure> {
        let request = pb::ResumeOwnershipRequest {
            request_id: String::new(),
            task_id: task_id.to_owned(),
            epoch,
            instance_id: instance_id.to_owned(),
        };
        let resumed = client.resume_ownership(request).await?;
        Self::new(client, instance_id, resumed.outcome.as_ref())
    }

    /// The client that writes.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The task.
    #[must_use]
    pub fn task_id(&self) -> &str {
        &self.task_id
    }

    /// The epoch that this process holds the task under.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The revision that the next write names.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The guard of the next write.
    #[must_use]
    pub fn guard(&self) -> pb::OwnerGuard {
        pb::OwnerGuard {
            epoch: self.epoch,
            expected_revision: self.revision,
            instance_id: self.instance_id.clone(),
        }
    }

    /// Reads all that is needed to go on, and takes its revision for the next write. After a
    /// STATE_CONFLICT this is the way on: read, decide again.
    ///
    /// # Errors
    /// The task is no longer visible, or the broker cannot be reached.
    pub async fn resume_set(&mut self) -> Result<pb::GetResumeSetResponse, Failure> {
        let request = pb::GetResumeSetRequest { task_id: self.task_id.clone() };
        let set = self.client.get_resume_set(request).await?;
        // Another epoch is another owner's: the next write must meet STALE_EPOCH.
        if let Some(task) = set.task.as_ref().filter(|task| task.epoch == self.epoch) {
            self.revision = task.revision;
        }
        Ok(set)
    }

    /// Puts a version of an artifact. With `parts` the broker keeps the content and computes
    /// digest and size; without, the descriptor says where it is and what its digest is.
    ///
    /// # Errors
    /// The broker refused.
    pub async fn put_artifact(
        &mut self,
        descriptor: pb::ArtifactDescriptor,
        parts: Vec<pb::ArtifactPart>,
    ) -> Result<pb::ArtifactDescriptor, Failure> {
        let request = pb::PutArtifactRequest {
            task_id: self.task_id.clone(),
            guard: Some(self.guard()),
            descriptor: Some(descriptor.clone()),
            parts,
            ..Default::default()
        };
        let put = self.client.put_artifact(request).await?;
        self.moved(put.outcome.as_ref())?;
        Ok(put.descriptor.unwrap_or(descriptor))
    }

    /// Fixes the resume point.
    ///
    /// # Errors
    /// The broker refused.
    pub async fn checkpoint(
        &mut self,
        checkpoint: pb::Checkpoint,
    ) -> Result<Option<pb::CheckpointRef>, Failure> {
        let request = pb::PutCheckpointRequest {
            request_id: String::new(),
            task_id: self.task_id.clone(),
            guard: Some(self.guard()),
            checkpoint: Some(checkpoint),
        };
        let put = self.client.put_checkpoint(request).await?;
        self.moved(put.outcome.as_ref())?;
        Ok(put.checkpoint)
    }

    /// Moves the runtime axis.
    ///
    /// # Errors
    /// The broker refused.
    pub async fn report_status(&mut self, report: pb::StatusReport) -> Result<(), Failure> {
        let request = pb::ReportStatusRequest {
            request_id: String::new(),
            task_id: self.task_id.clone(),
            guard: Some(self.guard()),
            report: Some(report),
        };
        let done = self.client.report_status(request).await?;
        self.moved(done.outcome.as_ref())
    }

    /// Offers the task. This process stays its owner until the receiver's receipt.
    ///
    /// # Errors
    /// The broker refused.
    pub async fn offer(
        &mut self,
        packet: pb::HandoffPacket,
        options: Option<pb::OfferOptions>,
    ) -> Result<pb::OfferHandoffResponse, Failure> {
        let request = pb::OfferHandoffRequest {
            guard: Some(self.guard()),
            packet: Some(packet),
            options,
            ..Default::default()
        };
        let offered = self.client.offer_handoff(request).await?;
        self.moved(offered.outcome.as_ref())?;
        Ok(offered)
    }

    fn moved(&mut self, outcome: Option<&pb::Outcome>) -> Result<(), Failure> {
        let outcome = outcome.ok_or_else(no_outcome)?;
        self.epoch = outcome.epoch;
        self.revision = outcome.revision;
        Ok(())
    }
}

fn no_outcome() -> Failure {
    tonic::Status::internal("the answer to a change has no outcome").into()
}
