//! What the entries of a packet's and a checkpoint's lists must say.
//!
//! What lives here: keys that are there and unique, completed work with its evidence, open
//! questions that can be closed, exactly one next step. What does not: whether a list is there at
//! all (`check`). Invariant: an entry is judged by what it says itself, never by another document.

use std::collections::BTreeSet;

use crate::proto::baton::v1 as pb;

use super::check::{Finding, code};
use super::presence::blank;
use super::stated::value;

/// The lists that a checkpoint and a packet have in common.
pub(super) struct Content<'a> {
    sources: Option<&'a pb::SourceSnapshot>,
    completed: Option<&'a pb::CompletedUnitList>,
    not_done: Option<&'a pb::NotDoneUnitList>,
    artifacts: Option<&'a pb::ArtifactDescriptorList>,
    unknowns: Option<&'a pb::UnknownItemList>,
    blockers: Option<&'a pb::BlockerList>,
    next_action: Option<&'a String>,
    versions: Option<&'a pb::VersionSet>,
}

impl<'a> From<&'a pb::Checkpoint> for Content<'a> {
    fn from(c: &'a pb::Checkpoint) -> Self {
        Self {
            sources: value(&c.source_snapshot),
            completed: value(&c.completed_units),
            not_done: value(&c.not_done),
            artifacts: value(&c.artifact_descriptors),
            unknowns: value(&c.open_unknown),
            blockers: value(&c.blockers),
            next_action: value(&c.next_action),
            versions: value(&c.version_set),
        }
    }
}

impl<'a> From<&'a pb::HandoffPacket> for Content<'a> {
    fn from(p: &'a pb::HandoffPacket) -> Self {
        Self {
            sources: value(&p.source_snapshot),
            completed: value(&p.completed_units),
            not_done: value(&p.not_done),
            artifacts: value(&p.artifact_descriptors),
            unknowns: value(&p.open_unknown),
            blockers: value(&p.blockers),
            next_action: value(&p.next_action),
            versions: value(&p.version_set),
        }
    }
}

impl Content<'_> {
    /// Adds what is wrong with the entries.
    pub(super) fn judge(&self, findings: &mut Vec<Finding>) {
        self.sources(findings);
        self.units(findings);
        self.artifacts(findings);
        self.unknowns(findings);
        let blockers = self.blockers.iter().flat_map(|l| &l.items);
        keys("BLOCKERS", "id", blockers.map(|b| &*b.id), findings);
        if self.next_action.is_some_and(|text| text.chars().any(is_line_break)) {
            let text = "NEXT_ACTION has a line break; name exactly one step, on one line";
            findings.push(Finding::new(code::NOT_ONE_STEP, "NEXT_ACTION", text.to_owned()));
        }
        let components = self.versions.iter().flat_map(|l| &l.items);
        keys("version_set", "component", components.clone().map(|c| &*c.component), findings);
        for c in components.filter(|c| blank(&c.version)) {
            incomplete("version_set", "component", &c.component, "version", findings);
        }
    }

    fn sources(&self, findings: &mut Vec<Finding>) {
        const FIELD: &str = "INPUT_ENTITY_VERSION_SNAPSHOT";
        let entities = self.sources.iter().flat_map(|s| &s.entities);
        keys(FIELD, "entity id", entities.clone().map(|e| &*e.entity_id), findings);
        for e in entities {
            if blank(&e.version) && e.digest.as_deref().is_none_or(blank) {
                incomplete(FIELD, "entity", &e.entity_id, "version or digest", findings);
            }
            // Without it nobody can tell how fresh the checkpoint is.
            if e.obtained_at.is_none() {
                incomplete(FIELD, "entity", &e.entity_id, "obtained_at", findings);
            }
        }
    }

    fn units(&self, findings: &mut Vec<Finding>) {
        let completed = self.completed.iter().flat_map(|l| &l.items);
        keys("COMPLETED_UNITS", "unit", completed.clone().map(|u| &*u.unit), findings);
        for u in completed.filter(|u| blank(&u.evidence)) {
            let text = format!(
                "completed unit `{}` has no evidence; name the evidence, or list it in NOT_DONE as \
                 AWAITING_VERIFICATION",
                u.unit
            );
            findings.push(Finding::new(code::UNVERIFIED_COMPLETED, "COMPLETED_UNITS", text));
        }
        let not_done = self.not_done.iter().flat_map(|l| &l.items);
        keys("NOT_DONE", "unit", not_done.clone().map(|u| &*u.unit), findings);
        for u in not_done.filter(|u| is_unspecified(u.kind, pb::NotDoneKind::Unspecified)) {
            incomplete("NOT_DONE", "unit", &u.unit, "kind", findings);
        }
    }

    fn artifacts(&self, findings: &mut Vec<Finding>) {
        const FIELD: &str = "ARTIFACT_DESCRIPTOR";
        let artifacts = self.artifacts.iter().flat_map(|l| &l.items);
        keys(FIELD, "id", artifacts.clone().map(|a| &*a.id), findings);
        for a in artifacts {
            if blank(&a.location) {
                incomplete(FIELD, "artifact", &a.id, "location", findings);
            }
            if blank(&a.version) && a.digest.as_deref().is_none_or(blank) {
                incomplete(FIELD, "artifact", &a.id, "version or digest", findings);
            }
        }
    }

    fn unknowns(&self, findings: &mut Vec<Finding>) {
        const FIELD: &str = "OPEN_UNKNOWNS";
        let unknowns = self.unknowns.iter().flat_map(|l| &l.items);
        keys(FIELD, "id", unknowns.clone().map(|u| &*u.id), findings);
        for u in unknowns {
            if blank(&u.closure_criterion) {
                let text = format!(
                    "open question `{}` has no closure criterion; say what closes it",
                    u.id
                );
                findings.push(Finding::new(code::UNKNOWN_WITHOUT_CLOSURE, FIELD, text));
            }
            let closed = u.status == pb::UnknownStatus::ClosedWithEvidence as i32;
            let lacks = [
                ("question", blank(&u.question)),
                ("status", is_unspecified(u.status, pb::UnknownStatus::Unspecified)),
                ("evidence although it is CLOSED_WITH_EVIDENCE", closed && blank(&u.evidence)),
            ];
            for (what, _) in lacks.into_iter().filter(|(_, lacking)| *lacking) {
                let text = format!("open question `{}` has no {what}; give it", u.id);
                findings.push(Finding::new(code::UNKNOWN_ITEM_INCOMPLETE, FIELD, text));
            }
        }
    }
}

/// What the entries that only a packet has must say.
pub(super) fn judge_packet(packet: &pb::HandoffPacket, findings: &mut Vec<Finding>) {
    Content::from(packet).judge(findings);
    let effects = value(&packet.external_side_effects).into_iter().flat_map(|l| &l.items);
    let operations = effects.clone().map(|e| &*e.operation_id);
    keys("external_side_effects", "operation id", operations, findings);
    for e in effects.filter(|e| is_unspecified(e.commit_state, pb::CommitState::Unspecified)) {
        incomplete("external_side_effects", "effect", &e.operation_id, "commit state", findings);
    }
    let statements = value(&packet.resume_invariants).into_iter().flat_map(|l| &l.items);
    let names = statements.clone().map(|s| match pb::ResumeInvariant::try_from(s.invariant) {
        Err(_) | Ok(pb::ResumeInvariant::Unspecified) => "",
        Ok(invariant) => invariant.as_str_name(),
    });
    keys("resume_invariants", "invariant", names.clone(), findings);
    for (name, _) in names.zip(statements).filter(|(_, s)| s.holds.is_none()) {
        incomplete("resume_invariants", "invariant", name, "statement whether it holds", findings);
    }
}

/// Each entry has a key, and no two have the same.
pub(super) fn keys<'k>(
    field: &'static str,
    key: &str,
    keys: impl Iterator<Item = &'k str>,
    findings: &mut Vec<Finding>,
) {
    let mut seen = BTreeSet::new();
    for (index, k) in keys.enumerate() {
        if blank(k) {
            let text = format!("entry {} of {field} has no {key}; give it one", index + 1);
            findings.push(Finding::new(code::MISSING_FIELD, field, text));
        } else if !seen.insert(k) {
            let text = format!("{field} has two entries with {key} `{k}`; keep one");
            findings.push(Finding::new(code::DUPLICATE_KEY, field, text));
        }
    }
}

fn incomplete(
    field: &'static str,
    noun: &str,
    key: &str,
    lacking: &str,
    findings: &mut Vec<Finding>,
) {
    let text = format!("{noun} `{key}` of {field} has no {lacking}; give it");
    findings.push(Finding::new(code::MISSING_FIELD, field, text));
}

/// True if an enum's number is its zero value or one that this version does not know.
fn is_unspecified<E: TryFrom<i32> + PartialEq>(number: i32, zero: E) -> bool {
    E::try_from(number).map_or(true, |known| known == zero)
}

fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::contract::{check_checkpoint, check_offer, example};

    type Codes = Vec<(&'static str, &'static str)>;

    fn of_checkpoint(checkpoint: &pb::Checkpoint) -> Codes {
        check_checkpoint(checkpoint).iter().map(|f| (f.code, f.field)).collect()
    }

    /// The same lists, judged in an offer.
    fn of_packet(c: &pb::Checkpoint) -> Codes {
        let packet = pb::HandoffPacket {
            source_snapshot: c.source_snapshot.clone(),
            completed_units: c.completed_units.clone(),
            not_done: c.not_done.clone(),
            artifact_descriptors: c.artifact_descriptors.clone(),
            open_unknown: c.open_unknown.clone(),
            blockers: c.blockers.clone(),
            next_action: c.next_action.clone(),
            version_set: c.version_set.clone(),
            ..example::packet("task-7")
        };
        let findings = check_offer(&example::contract(), &packet, &example::shape(), false);
        findings.iter().map(|f| (f.code, f.field)).collect()
    }

    fn both(change: impl Fn(&mut pb::Checkpoint)) -> Codes {
        let mut checkpoint = example::checkpoint();
        change(&mut checkpoint);
        let codes = of_checkpoint(&checkpoint);
        assert_eq!(codes, of_packet(&checkpoint));
        codes
    }

    fn set_completed(c: &mut pb::Checkpoint, items: Vec<pb::CompletedUnit>) {
        use pb::completed_unit_list_field::State;
        let state = Some(State::Value(pb::CompletedUnitList { items }));
        c.completed_units = Some(pb::CompletedUnitListField { state });
    }

    fn set_unknowns(c: &mut pb::Checkpoint, items: Vec<pb::UnknownItem>) {
        use pb::unknown_item_list_field::State;
        let state = Some(State::Value(pb::UnknownItemList { items }));
        c.open_unknown = Some(pb::UnknownItemListField { state });
    }

    fn set_blockers(c: &mut pb::Checkpoint, ids: &[&str]) {
        use pb::blocker_list_field::State;
        let blocker = |id: &&str| pb::Blocker {
            id: (*id).to_owned(),
            impact: "x".to_owned(),
            ..Default::default()
        };
        let items = ids.iter().map(blocker).collect();
        c.blockers =
            Some(pb::BlockerListField { state: Some(State::Value(pb::BlockerList { items })) });
    }

    fn unknown() -> pb::UnknownItem {
        pb::UnknownItem {
            id: "q-1".to_owned(),
            question: "which revision wins?".to_owned(),
            status: pb::UnknownStatus::Blocked.into(),
            closure_criterion: "the owner of the catalogue answers".to_owned(),
            ..Default::default()
        }
    }

    // Unverified work would be taken as done and never looked at again. REQ-100
    #[test]
    fn a_completed_unit_needs_evidence() {
        let unit = pb::CompletedUnit { unit: "stage-1".to_owned(), evidence: " ".to_owned() };
        let codes = both(|c| set_completed(c, vec![unit.clone()]));
        assert_eq!(codes, [(code::UNVERIFIED_COMPLETED, "COMPLETED_UNITS")]);
    }

    // A question that nothing closes stays open for ever.
    #[test]
    fn an_open_question_needs_what_closes_it() {
        assert_eq!(both(|c| set_unknowns(c, vec![unknown()])), []);
        let codes = both(|c| {
            let open = pb::UnknownItem { closure_criterion: String::new(), ..unknown() };
            set_unknowns(c, vec![open]);
        });
        assert_eq!(codes, [(code::UNKNOWN_WITHOUT_CLOSURE, "OPEN_UNKNOWNS")]);
        let codes = both(|c| {
            let status = pb::UnknownStatus::ClosedWithEvidence.into();
            set_unknowns(c, vec![pb::UnknownItem { status, ..unknown() }]);
        });
        assert_eq!(codes, [(code::UNKNOWN_ITEM_INCOMPLETE, "OPEN_UNKNOWNS")]);
        let codes = both(|c| set_unknowns(c, vec![pb::UnknownItem { status: 0, ..unknown() }]));
        assert_eq!(codes, [(code::UNKNOWN_ITEM_INCOMPLETE, "OPEN_UNKNOWNS")]);
    }

    // Two entries with one key have no single meaning, and a receipt compares sets by key.
    #[test]
    fn keys_are_unique() {
        fn twice<T: Clone>(items: &mut Vec<T>) {
            let again = items.clone();
            items.extend(again);
        }
        let codes = both(|c| {
            if let Some(pb::source_snapshot_field::State::Value(s)) =
                c.source_snapshot.as_mut().and_then(|f| f.state.as_mut())
            {
                twice(&mut s.entities);
            }
            if let Some(pb::artifact_descriptor_list_field::State::Value(l)) =
                c.artifact_descriptors.as_mut().and_then(|f| f.state.as_mut())
            {
                twice(&mut l.items);
            }
            if let Some(pb::version_set_field::State::Value(l)) =
                c.version_set.as_mut().and_then(|f| f.state.as_mut())
            {
                l.items.truncate(1);
                twice(&mut l.items);
            }
            set_unknowns(c, vec![unknown(), unknown()]);
            set_blockers(c, &["b-1", "b-2", "b-1"]);
        });
        let fields = [
            "ARTIFACT_DESCRIPTOR",
            "BLOCKERS",
            "INPUT_ENTITY_VERSION_SNAPSHOT",
            "OPEN_UNKNOWNS",
            "version_set",
        ];
        assert_eq!(codes, fields.map(|field| (code::DUPLICATE_KEY, field)));
    }

    // An entry without a key cannot be compared, closed or released. REQ-254
    #[test]
    fn an_entry_needs_its_key() {
        assert_eq!(both(|c| set_blockers(c, &[""])), [(code::MISSING_FIELD, "BLOCKERS")]);
        let blank = vec![pb::CompletedUnit::default()];
        let codes = both(|c| set_completed(c, blank.clone()));
        let missing = (code::MISSING_FIELD, "COMPLETED_UNITS");
        assert_eq!(codes, [missing, (code::UNVERIFIED_COMPLETED, "COMPLETED_UNITS")]);
    }

    // An output that nobody can find, or a reading of unknown age, is no ground to work on.
    // REQ-055, REQ-100
    #[test]
    fn outputs_have_a_place_and_sources_a_time() {
        let codes = both(|c| {
            if let Some(pb::source_snapshot_field::State::Value(s)) =
                c.source_snapshot.as_mut().and_then(|f| f.state.as_mut())
            {
                s.entities.iter_mut().for_each(|e| e.obtained_at = None);
            }
            if let Some(pb::artifact_descriptor_list_field::State::Value(l)) =
                c.artifact_descriptors.as_mut().and_then(|f| f.state.as_mut())
            {
                l.items.iter_mut().for_each(|a| a.location.clear());
            }
        });
        let fields = ["ARTIFACT_DESCRIPTOR", "INPUT_ENTITY_VERSION_SNAPSHOT"];
        assert_eq!(codes, fields.map(|field| (code::MISSING_FIELD, field)));
    }

    // A list of steps leaves the next owner to choose. REQ-098
    #[test]
    fn the_next_action_is_one_step() {
        let codes = both(|c| c.next_action = example::text("run stage-2\nthen stage-3"));
        assert_eq!(codes, [(code::NOT_ONE_STEP, "NEXT_ACTION")]);
    }

    // An effect of unknown standing would be repeated; an unsaid invariant taken for one that
    // holds. REQ-057
    #[test]
    fn effects_and_invariants_say_how_they_stand() {
        let effect =
            pb::ExternalSideEffect { operation_id: "op-1".to_owned(), ..Default::default() };
        let statement = pb::ResumeInvariantStatement {
            invariant: pb::ResumeInvariant::Identity.into(),
            ..Default::default()
        };
        let effects = pb::ExternalSideEffectList { items: vec![effect] };
        let statements = pb::ResumeInvariantList { items: vec![statement.clone(), statement] };
        let packet = pb::HandoffPacket {
            external_side_effects: Some(pb::ExternalSideEffectListField {
                state: Some(pb::external_side_effect_list_field::State::Value(effects)),
            }),
            resume_invariants: Some(pb::ResumeInvariantListField {
                state: Some(pb::resume_invariant_list_field::State::Value(statements)),
            }),
            ..example::packet("task-7")
        };
        let findings = check_offer(&example::contract(), &packet, &example::shape(), false);
        let codes: Codes = findings.iter().map(|f| (f.code, f.field)).collect();
        let expected = [
            (code::DUPLICATE_KEY, "resume_invariants"),
            (code::MISSING_FIELD, "external_side_effects"),
            (code::MISSING_FIELD, "resume_invariants"),
        ];
        assert_eq!(codes, expected);
    }
}
