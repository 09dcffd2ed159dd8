//! `AgentService`: who can receive tasks.

use prost::Message as _;
use tonic::{Request, Response, Status};

use crate::broker::{AgentChange, Change, Error};
use crate::core::contract::{Finding, Presence, TABLE, presence_in_document};
use crate::core::digest::{Digest, Revision};
use crate::core::id::{Capability, PrincipalId, RequestId};
use crate::core::refusal::{Reason, Refusal};
use crate::core::{Caller, Outcome};
use crate::proto::baton::v1 as pb;
use crate::proto::baton::v1::agent_service_server::AgentService;
use crate::proto::lf::a2a::v1 as a2a;
use crate::wire::canon;
use crate::wire::guard;
use crate::wire::scope::parse_scope;
use crate::wire::violations::Violations;
use crate::wire::work::{contract_refusal, policy};

use super::{Desk, answer, content, next_token, page_size, page_token};

/// Capabilities that one agent may declare.
const CAPABILITIES_MAX: usize = 64;

/// Units of work that one template may name.
const UNITS_MAX: usize = 256;

#[tonic::async_trait]
impl AgentService for Desk {
    async fn register_agent(
        &self,
        request: Request<pb::RegisterAgentRequest>,
    ) -> Result<Response<pb::RegisterAgentResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.register(request).await, &id)
    }

    async fn update_agent(
        &self,
        request: Request<pb::UpdateAgentRequest>,
    ) -> Result<Response<pb::UpdateAgentResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.update(request).await, &id)
    }

    async fn remove_agent(
        &self,
        request: Request<pb::RemoveAgentRequest>,
    ) -> Result<Response<pb::RemoveAgentResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.remove(request).await, &id)
    }

    async fn get_agent(
        &self,
        request: Request<pb::GetAgentRequest>,
    ) -> Result<Response<pb::GetAgentResponse>, Status> {
        answer(self.read_agent(request).await, "")
    }

    async fn list_agents(
        &self,
        request: Request<pb::ListAgentsRequest>,
    ) -> Result<Response<pb::ListAgentsResponse>, Status> {
        answer(self.agents(request).await, "")
    }
}

impl Desk {
    async fn register(
        &self,
        request: Request<pb::RegisterAgentRequest>,
    ) -> Result<pb::RegisterAgentResponse, Error> {
        let caller = self.caller(&request).await?;
        let message = request.into_inner();
        let digest = content(&message);
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let agent = pb::Agent {
            agent_id: caller.party.principal.to_string(),
            card: message.card,
            template: message.template,
            policy: message.policy,
            capabilities: message.capabilities,
            ..pb::Agent::default()
        };
        self.check_agent(&agent, &caller, &mut violations)?;
        let id = violations.finish(id)?;
        let change = AgentChange::Register { body: agent.encode_to_vec() };
        let agent = Some(self.change_agent(caller, id, digest, change).await?);
        Ok(pb::RegisterAgentResponse { agent })
    }

    async fn update(
        &self,
        request: Request<pb::UpdateAgentRequest>,
    ) -> Result<pb::UpdateAgentResponse, Error> {
        let caller = self.caller(&request).await?;
        let message = request.into_inner();
        let digest = content(&message);
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let expected =
            guard::counter(message.expected_revision, "expected_revision", &mut violations);
        let agent = pb::Agent {
            agent_id: caller.party.principal.to_string(),
            card: message.card,
            template: message.template,
            policy: message.policy,
            capabilities: message.capabilities,
            ..pb::Agent::default()
        };
        self.check_agent(&agent, &caller, &mut violations)?;
        let (id, expected) = violations.finish(id.zip(expected))?;
        let body = agent.encode_to_vec();
        let change = AgentChange::Update { expected: Revision::new(expected), body };
        let agent = Some(self.change_agent(caller, id, digest, change).await?);
        Ok(pb::UpdateAgentResponse { agent })
    }

    /// Changes the caller's own record, and gives it as it stands then.
    async fn change_agent(
        &self,
        caller: Caller,
        id: RequestId,
        digest: Digest,
        change: AgentChange,
    ) -> Result<pb::Agent, Error> {
        let request = crate::broker::Request { caller: caller.clone(), id, digest };
        self.broker.propose(request, Change::Agent(change), Vec::new()).await?;
        self.agent_of(&caller, &caller.party.principal).await
    }

    async fn remove(
        &self,
        request: Request<pb::RemoveAgentRequest>,
    ) -> Result<pb::RemoveAgentResponse, Error> {
        let caller = self.caller(&request).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let agent = violations.take("agent_id", PrincipalId::parse(&message.agent_id));
        let (id, agent) = violations.finish(id.zip(agent))?;
        let digest = content(&message);
        let request = crate::broker::Request { caller, id, digest };
        let change = Change::Agent(AgentChange::Remove { agent });
        let _done: Outcome = self.broker.propose(request, change, Vec::new()).await?;
        Ok(pb::RemoveAgentResponse {})
    }

    async fn read_agent(
        &self,
        request: Request<pb::GetAgentRequest>,
    ) -> Result<pb::GetAgentResponse, Error> {
        let caller = self.caller(&request).await?;
        let mut violations = Violations::default();
        let agent = PrincipalId::parse(&request.get_ref().agent_id);
        let agent = violations.take("agent_id", agent);
        let agent = violations.finish(agent)?;
        let agent = self.agent_of(&caller, &agent).await?;
        Ok(pb::GetAgentResponse { agent: Some(agent) })
    }

    async fn agent_of(&self, caller: &Caller, id: &PrincipalId) -> Result<pb::Agent, Error> {
        let stored = self.broker.reader().agent(&caller.namespace, id).await?;
        let unknown = || {
            Refusal::new(Reason::NotFound, format!("agent {id} is not registered; check the id"))
                .with("agentId", id)
        };
        let agent = stored.and_then(|stored| stored.agent().cloned());
        Ok(agent.ok_or_else(unknown)?)
    }

    async fn agents(
        &self,
        request: Request<pb::ListAgentsRequest>,
    ) -> Result<pb::ListAgentsResponse, Error> {
        let caller = self.caller(&request).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let size = page_size(message.page_size, &mut violations);
        violations.finish(Some(()))?;
        let token = page_token(&message.page_token)?;
        let page = self.broker.reader().agents(&caller.namespace, token, size).await?;
        let agents = page.items.iter().filter_map(|stored| stored.agent().cloned()).collect();
        Ok(pb::ListAgentsResponse { agents, next_page_token: next_token(page.next) })
    }

    /// Checks a registration: the card has what A2A requires, each capability is allowed, and a
    /// first assignment made from the template would have a valid packet.
    fn check_agent(
        &self,
        agent: &pb::Agent,
        caller: &Caller,
        violations: &mut Violations,
    ) -> Result<(), Error> {
        match &agent.card {
            Some(card) => {
                check_card(card, violations);
                // Or nobody could print it as JSON: not a number, infinite, an unknown enum value.
                violations.take("card", canon::digest(card));
            }
            None => violations.add("card", "is required and missing; send it"),
        }
        if agent.capabilities.len() > CAPABILITIES_MAX {
            violations.add("capabilities", format!("send at most {CAPABILITIES_MAX}"));
        }
        let open = self.broker.directory().is_open();
        for (n, name) in agent.capabilities.iter().enumerate() {
            let field = format!("capabilities[{n}]");
            let Some(capability) = violations.take(&field, Capability::parse(name)) else {
                continue;
            };
            if !open && !caller.capabilities.contains(&capability) {
                return Err(Refusal::new(
                    Reason::CapabilityNotAllowed,
                    format!(
                        "{} may not declare {capability}; the principals file says who may",
                        caller.party.principal
                    ),
                )
                .with("capability", &capability)
                .into());
            }
        }
        if let Some(template) = &agent.template {
            check_template(template, agent, violations)?;
        }
        Ok(())
    }
}

fn check_card(card: &a2a::AgentCard, violations: &mut Violations) {
    for (field, value) in [
        ("card.name", &card.name),
        ("card.description", &card.description),
        ("card.version", &card.version),
    ] {
        guard::text(value, field, violations);
    }
}

/// A template makes the packet of a first handoff, so it must hold everything that the request
/// itself does not: the terms, the units, the first step and the scope.
fn check_template(
    template: &pb::AgentTemplate,
    agent: &pb::Agent,
    violations: &mut Violations,
) -> Result<(), Error> {
    if template.units.is_empty() || template.units.len() > UNITS_MAX {
        violations.add("template.units", format!("send 1 to {UNITS_MAX} units of work"));
    }
    for (n, unit) in template.units.iter().enumerate() {
        guard::text(unit, &format!("template.units[{n}]"), violations);
    }
    guard::text(&template.first_step, "template.first_step", violations);
    match &template.scope {
        Some(scope) => {
            let mut scope = scope.clone();
            scope.principal.clone_from(&agent.agent_id);
            parse_scope(&scope, "template.scope", violations);
        }
        None => violations.add("template.scope", "is required and missing; send it"),
    }
    let Some(contract) = &template.contract else {
        violations.add("template.contract", "is required and missing; send it");
        return Ok(());
    };
    policy(agent.policy.as_ref(), contract, &pb::ContractShape::default(), violations);
    let findings = missing_terms(contract);
    if findings.is_empty() { Ok(()) } else { Err(contract_refusal(&findings).into()) }
}

/// The M0 fields that the terms of a template lack. OBJECTIVE comes with the request,
/// EVIDENCE_LABELS with the assertions.
fn missing_terms(contract: &pb::ContractDocument) -> Vec<Finding> {
    use crate::core::contract::{Field, Profile};
    let asked = TABLE.iter().filter(|row| {
        row.profiles.contains(&Profile::M0)
            && row.field != Field::Objective
            && row.field != Field::EvidenceLabels
    });
    asked
        .filter(|row| !matches!(presence_in_document(contract, row.field), Presence::Value))
        .map(|row| Finding {
            code: "MISSING_FIELD",
            field: row.field.name(),
            description: format!("template.contract lacks {}; send it", row.field.name()),
        })
        .collect()
}
