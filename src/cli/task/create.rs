//! `baton task create`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::connection::{Session, answered, request_id};
use crate::cli::field::{ScopeFlags, text, texts};
use crate::cli::output::{read_message, show};
use crate::cli::task::left_behind;
use crate::cli::{Done, Failed};
use crate::proto::baton::v1 as pb;

/// The contract version that this command line writes.
const CONTRACT_VERSION: &str = "0.2";
/// The process of a person who works from a shell, if nothing else is said.
const INSTANCE: &str = "shell";

/// Creates a task, from flags or from a file; flags go before the file.
#[derive(Debug, Args)]
#[command(
    after_help = "From flags the contract says what was given and nothing else: its version \
is 0.2, its tier OC-2 (resumable), and it may change its owner.

Examples:
  baton task create --objective 'Review the README' --criterion 'report put' --allow read \\
      --prohibit delete --stop 'report put' --resource 'file:///srv/project/**' \\
      --operation read --verifier agent:checker --expect report
  baton task create --contract task.json
  {\"contract\":{...},\"shape\":{...},\"policy\":{...},\"scope\":{...}} as in
  baton.v1.CreateTaskRequest, in ProtoJSON"
)]
pub(super) struct Create {
    /// File with contract, shape, policy and scope as ProtoJSON of baton.v1.CreateTaskRequest; `-`
    /// is stdin.
    #[arg(long, value_name = "FILE")]
    contract: Option<PathBuf>,
    /// What is to be changed, produced or decided.
    #[arg(long, value_name = "TEXT", required_unless_present = "contract")]
    objective: Option<String>,
    /// Observable condition of acceptance. May be repeated.
    #[arg(long = "criterion", value_name = "TEXT", required_unless_present = "contract")]
    criteria: Vec<String>,
    /// Permitted action. May be repeated.
    #[arg(long = "allow", value_name = "ACTION", required_unless_present = "contract")]
    allowed: Vec<String>,
    /// Forbidden action. May be repeated.
    #[arg(long = "prohibit", value_name = "ACTION", required_unless_present = "contract")]
    prohibited: Vec<String>,
    /// When to stop, ask or escalate. May be repeated.
    #[arg(long = "stop", value_name = "TEXT", required_unless_present = "contract")]
    stop: Vec<String>,
    /// Role of an artifact that must come: ROLE, or ROLE=COUNT. May be repeated.
    #[arg(long = "expect", value_name = "ROLE", value_parser = expected)]
    expected: Vec<(String, u32)>,
    #[command(flatten)]
    scope: ScopeFlags,
    /// Principal that may record readbacks and decide acceptance. May be repeated.
    #[arg(long = "verifier", value_name = "PRINCIPAL")]
    verifiers: Vec<String>,
    /// Every handoff crosses a trust boundary, so that packets are blind by default.
    #[arg(long)]
    trust_boundary: bool,
    /// The originator may offer the task on behalf of an owner that is absent.
    #[arg(long)]
    originator_may_take_over: bool,
    /// The owner counts as absent after this long without a write: 90s, 15m, 8h, 2d.
    #[arg(long, value_name = "TIME", value_parser = crate::cli::output::span)]
    owner_lease: Option<u64>,
    /// Class for routing.
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Group of tasks that it belongs to.
    #[arg(long, value_name = "ID")]
    context: Option<String>,
    /// The caller's process; `shell` if nothing says otherwise.
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
}

fn expected(text: &str) -> Result<(String, u32), String> {
    match text.split_once('=') {
        None => Ok((text.to_owned(), 1)),
        Some((role, count)) => match count.parse() {
            Ok(count) if count > 0 => Ok((role.to_owned(), count)),
            _ => Err("give ROLE=COUNT with a count from 1".to_owned()),
        },
    }
}

impl Create {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let request = self.request()?;
        let done = answered(session.tasks().create_task(session.ask(request)).await)?;
        show(session, &done, |done| left_behind(done.outcome.as_ref(), &[]))
    }

    fn request(&self) -> Result<pb::CreateTaskRequest, Failed> {
        let mut request = match &self.contract {
            Some(path) => read_message::<pb::CreateTaskRequest>(path)?,
            None => pb::CreateTaskRequest {
                shape: Some(pb::ContractShape {
                    tier: pb::Tier::Oc2.into(),
                    traits: vec![
                        pb::Trait::SessionCrossing.into(),
                        pb::Trait::OwnerTransfer.into(),
                    ],
                }),
                ..Default::default()
            },
        };
        self.put_terms(request.contract.get_or_insert_default());
        self.put_policy(request.policy.get_or_insert_default());
        if !self.scope.is_empty() {
            request.scope = Some(self.scope.scope("", None));
        }
        let put = |to: &mut String, given: Option<&str>| {
            if let Some(given) = given {
                given.clone_into(to);
            }
        };
        put(&mut request.task_class, self.class.as_deref());
        put(&mut request.context_id, self.context.as_deref());
        put(&mut request.instance_id, self.instance.as_deref());
        for (field, default) in
            [(&mut request.request_id, &*request_id()), (&mut request.instance_id, INSTANCE)]
        {
            if field.is_empty() {
                default.clone_into(field);
            }
        }
        Ok(request)
    }

    fn put_terms(&self, contract: &mut pb::OperatingContract) {
        if let Some(objective) = &self.objective {
            contract.objective = text(objective);
        }
        for (field, given) in [
            (&mut contract.completion_criteria, &self.criteria),
            (&mut contract.allowed_actions, &self.allowed),
            (&mut contract.prohibited_actions, &self.prohibited),
            (&mut contract.stop_condition, &self.stop),
        ] {
            if !given.is_empty() {
                *field = texts(given);
            }
        }
        if !self.expected.is_empty() {
            let items = self.expected.iter().map(|(role, count)| pb::ExpectedArtifact {
                role: role.clone(),
                count: *count,
                ..Default::default()
            });
            let list = pb::ExpectedArtifactList { items: items.collect() };
            let state = Some(pb::expected_artifact_list_field::State::Value(list));
            contract.expected_artifacts = Some(pb::ExpectedArtifactListField { state });
        }
        if self.contract.is_some() {
            return;
        }
        contract.contract_version = text(CONTRACT_VERSION);
        // The one assertion that flags make is the objective: it is set, not observed.
        let items =
            vec![pb::EvidenceLabel { assertion: "OBJECTIVE".to_owned(), label: "spec".to_owned() }];
        let state = pb::evidence_label_list_field::State::Value(pb::EvidenceLabelList { items });
        contract.evidence_labels = Some(pb::EvidenceLabelListField { state: Some(state) });
    }

    fn put_policy(&self, policy: &mut pb::TaskPolicy) {
        if !self.verifiers.is_empty() {
            policy.verifiers.clone_from(&self.verifiers);
        }
        policy.trust_boundary |= self.trust_boundary;
        policy.originator_may_offer_on_behalf |= self.originator_may_take_over;
        if let Some(seconds) = self.owner_lease {
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            policy.owner_lease = Some(prost_types::Duration { seconds, nanos: 0 });
        }
    }
}
