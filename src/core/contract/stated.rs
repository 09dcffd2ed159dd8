//! What a field message says: a value, or why there is none.
//!
//! What lives here: the reading of the `state` oneof of every field message, one `impl` each,
//! because the generated types share a shape and no trait. What does not: what a state means
//! (`presence`). Invariant: nothing is interpreted; a message without a state says nothing.

use crate::proto::baton::v1 as pb;

/// What a field message says. `None`: nothing.
pub(super) type Said<'a, V> = Option<Result<&'a V, &'a pb::Absence>>;

/// A message that holds a value or an absence.
pub(super) trait Stated {
    /// The value's type.
    type Value;
    /// What the message says.
    fn said(&self) -> Said<'_, Self::Value>;
}

/// The value, if the field has one.
pub(super) fn value<F: Stated>(field: &Option<F>) -> Option<&F::Value> {
    field.as_ref().and_then(Stated::said).and_then(Result::ok)
}

impl Stated for pb::TextField {
    type Value = String;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::text_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::TextListField {
    type Value = pb::TextList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::text_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::ScopeField {
    type Value = pb::AuthorizationScope;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::scope_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::ArtifactDescriptorListField {
    type Value = pb::ArtifactDescriptorList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::artifact_descriptor_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::ReadbackEvidenceField {
    type Value = pb::ReadbackEvidence;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::readback_evidence_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::SourceSnapshotField {
    type Value = pb::SourceSnapshot;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::source_snapshot_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::CompletedUnitListField {
    type Value = pb::CompletedUnitList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::completed_unit_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::NotDoneUnitListField {
    type Value = pb::NotDoneUnitList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::not_done_unit_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::UnknownItemListField {
    type Value = pb::UnknownItemList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::unknown_item_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::BlockerListField {
    type Value = pb::BlockerList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::blocker_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::VersionSetField {
    type Value = pb::VersionSet;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::version_set_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::ExecutionActorField {
    type Value = pb::ExecutionActor;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::execution_actor_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::RunTimeWindowField {
    type Value = pb::RunTimeWindow;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::run_time_window_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::SideEffectProfileField {
    type Value = pb::SideEffectProfile;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::side_effect_profile_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::RetryIdempotencyPolicyField {
    type Value = pb::RetryIdempotencyPolicy;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::retry_idempotency_policy_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::SourceRefListField {
    type Value = pb::SourceRefList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::source_ref_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::RuntimeStatusField {
    type Value = i32;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::runtime_status_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::BusinessAcceptanceStatusField {
    type Value = i32;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::business_acceptance_status_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::ExpectedArtifactListField {
    type Value = pb::ExpectedArtifactList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::expected_artifact_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::OutputLineageListField {
    type Value = pb::OutputLineageList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::output_lineage_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::UpdateModeField {
    type Value = pb::UpdateMode;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::update_mode_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::ExecutionEvidenceField {
    type Value = pb::ExecutionEvidence;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::execution_evidence_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::ApprovalEvidenceField {
    type Value = pb::ApprovalEvidence;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::approval_evidence_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::CheckpointIdTimeField {
    type Value = pb::CheckpointIdTime;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::checkpoint_id_time_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::DecisionRecordListField {
    type Value = pb::DecisionRecordList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::decision_record_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::OwnerField {
    type Value = pb::Owner;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::owner_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::HandoffReceiptField {
    type Value = pb::HandoffReceipt;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::handoff_receipt_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::HistoryPointerField {
    type Value = pb::HistoryPointer;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::history_pointer_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::RecoveryRefField {
    type Value = pb::RecoveryRef;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::recovery_ref_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::EvidenceLabelListField {
    type Value = pb::EvidenceLabelList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::evidence_label_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::LastUpdatedField {
    type Value = pb::LastUpdated;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::last_updated_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::CanonicalPointerListField {
    type Value = pb::CanonicalPointerList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::canonical_pointer_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::ExternalSideEffectListField {
    type Value = pb::ExternalSideEffectList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::external_side_effect_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}

impl Stated for pb::ResumeInvariantListField {
    type Value = pb::ResumeInvariantList;
    fn said(&self) -> Said<'_, Self::Value> {
        use pb::resume_invariant_list_field::State;
        Some(match self.state.as_ref()? {
            State::Value(value) => Ok(value),
            State::Absence(absence) => Err(absence),
        })
    }
}
