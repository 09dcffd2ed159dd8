//! The operating contract: 44 fields, which kind of nothing each may hold, and what is missing.
//!
//! What lives here: the field table as data (`field`), the reading of presence (`presence`), and
//! the checks of a contract, a checkpoint and an offer (`check`, `content`). What does not: the
//! parse of ids, digests and scopes (`wire`), whether a packet repeats its checkpoint truly, and
//! every decision about a task. Invariants: documents are read, never changed; all findings come at
//! once, sorted and each once; nothing that was not said is taken for a value.

pub mod check;
mod content;
pub mod example;
pub mod field;
pub mod presence;
mod stated;

pub use check::{Finding, check_checkpoint, check_materialised, check_offer};
pub use field::{Field, Profile, Row, TABLE};
pub use presence::{Presence, presence, presence_in_document, presence_in_packet};

use crate::proto::baton::v1 as pb;

/// The values of `CONTRACT_VERSION` that this broker judges by.
pub const SUPPORTED_CONTRACT_VERSIONS: [&str; 1] = ["0.2"];

/// True if the broker knows the rules of this contract version. Spelling counts.
#[must_use]
pub fn supported_version(version: &str) -> bool {
    SUPPORTED_CONTRACT_VERSIONS.contains(&version)
}

/// The fixed part of a contract, field by field as it stands, absences included.
#[must_use]
pub fn contract_document(contract: &pb::OperatingContract) -> pb::ContractDocument {
    pb::ContractDocument {
        contract_version: contract.contract_version.clone(),
        config_release_ref: contract.config_release_ref.clone(),
        objective: contract.objective.clone(),
        completion_criteria: contract.completion_criteria.clone(),
        acceptance_contract_ref: contract.acceptance_contract_ref.clone(),
        allowed_actions: contract.allowed_actions.clone(),
        prohibited_actions: contract.prohibited_actions.clone(),
        side_effect_profile: contract.side_effect_profile.clone(),
        retry_idempotency_policy: contract.retry_idempotency_policy.clone(),
        authoritative_inputs: contract.authoritative_inputs.clone(),
        source_authority_rule: contract.source_authority_rule.clone(),
        expected_artifacts: contract.expected_artifacts.clone(),
        update_mode: contract.update_mode.clone(),
        stop_condition: contract.stop_condition.clone(),
        recovery_or_fallback_ref: contract.recovery_or_fallback_ref.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A term left out of the document could change without the receiver noticing.
    #[test]
    fn the_document_is_the_fixed_part_and_nothing_else() {
        let contract = example::contract();
        let document = contract_document(&contract);
        let mut fixed = 0;
        for field in Field::all() {
            let there = presence_in_document(&document, field);
            if there != Presence::Absent {
                assert_eq!(there, presence(&contract, field), "{}", field.name());
                fixed += 1;
            }
        }
        assert_eq!(fixed, 10, "of its 15 fields, the example has no condition for five");
        let empty = contract_document(&pb::OperatingContract::default());
        assert_eq!(empty, pb::ContractDocument::default());
    }

    // A contract of unknown rules would be judged by the wrong ones.
    #[test]
    fn only_known_versions_are_supported() {
        assert!(supported_version("0.2"));
        for other in ["0.1", "0.20", " 0.2", "v0.2", ""] {
            assert!(!supported_version(other), "{other:?}");
        }
    }
}
