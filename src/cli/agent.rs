//! `baton agent`: register agents and list them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::connection::{Connection, Session, answered, request_id};
use crate::cli::output::{pairs, proto_json, read_message, show, table, when};
use crate::cli::{Done, Failed, print};
use crate::proto::baton::v1 as pb;
use crate::proto::lf::a2a::v1 as a2a;

/// Registers agents and lists them. An agent registers itself: who calls is who is registered.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  baton agent register --as agent:reviewer --name Reviewer --description 'reviews drafts' \\
      --capability review
  baton agent list --json")]
pub(super) struct Agent {
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Register the caller as an agent, so that tasks can be offered to it.
    Register(Box<Registration>),
    /// Replace the caller's registration; what is not given is kept.
    Update {
        /// The caller's principal id.
        id: String,
        /// Revision that the update was decided on; the present one if left out.
        #[arg(long)]
        revision: Option<u64>,
        #[command(flatten)]
        given: Box<Registration>,
    },
    /// List the agents of the namespace.
    List,
    /// Show one agent.
    Show {
        /// The agent's principal id.
        id: String,
    },
    /// Remove a registration: the caller's own, or any for an operator.
    Remove {
        /// The agent's principal id.
        id: String,
    },
}

#[derive(Debug, Args)]
struct Registration {
    /// Name on the agent's card.
    #[arg(long)]
    name: Option<String>,
    /// What the agent does, on its card.
    #[arg(long)]
    description: Option<String>,
    /// Version of the agent, on its card; 1 if nothing says otherwise.
    #[arg(long = "agent-version", value_name = "VERSION")]
    version: Option<String>,
    /// The whole A2A card, as ProtoJSON of lf.a2a.v1.AgentCard; flags go before it.
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// What a first assignment looks like, as ProtoJSON of baton.v1.AgentTemplate.
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Who accepts first assignments, as ProtoJSON of baton.v1.TaskPolicy.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Capability that offers may be addressed to. May be repeated.
    #[arg(long = "capability", value_name = "NAME")]
    capabilities: Vec<String>,
}

impl Agent {
    /// Carries out the command.
    pub(super) fn run(&self) -> Done {
        self.connection.run(|session| async move {
            match &self.command {
                AgentCommand::Register(given) => register(&session, given).await,
                AgentCommand::Update { id, revision, given } => {
                    update(&session, id, *revision, given).await
                }
                AgentCommand::List => list(&session).await,
                AgentCommand::Show { id } => shown(&session, &read(&session, id).await?),
                AgentCommand::Remove { id } => remove(&session, id).await,
            }
        })
    }
}

impl Registration {
    /// The registration with what was given put over what was there.
    fn over(&self, before: pb::Agent) -> Result<pb::Agent, Failed> {
        let mut card = match &self.card {
            Some(path) => read_message::<a2a::AgentCard>(path)?,
            None => before.card.unwrap_or_default(),
        };
        let put = |to: &mut String, given: &Option<String>| {
            if let Some(given) = given {
                to.clone_from(given);
            }
        };
        put(&mut card.name, &self.name);
        put(&mut card.description, &self.description);
        put(&mut card.version, &self.version);
        if card.version.is_empty() {
            "1".clone_into(&mut card.version);
        }
        Ok(pb::Agent {
            card: Some(card),
            template: match &self.template {
                Some(path) => Some(read_message(path)?),
                None => before.template,
            },
            policy: match &self.policy {
                Some(path) => Some(read_message(path)?),
                None => before.policy,
            },
            capabilities: if self.capabilities.is_empty() {
                before.capabilities
            } else {
                self.capabilities.clone()
            },
            ..before
        })
    }
}

async fn register(session: &Session, given: &Registration) -> Done {
    if given.card.is_none() && (given.name.is_none() || given.description.is_none()) {
        return Err(Failed::Usage("give --name and --description, or --card".to_owned()));
    }
    let agent = given.over(pb::Agent::default())?;
    let request = pb::RegisterAgentRequest {
        request_id: request_id(),
        card: agent.card,
        template: agent.template,
        policy: agent.policy,
        capabilities: agent.capabilities,
    };
    let done = answered(session.agents().register_agent(session.ask(request)).await)?;
    shown(session, &done.agent.unwrap_or_default())
}

async fn update(session: &Session, id: &str, revision: Option<u64>, given: &Registration) -> Done {
    let before = read(session, id).await?;
    let revision = revision.unwrap_or(before.revision);
    let agent = given.over(before)?;
    let request = pb::UpdateAgentRequest {
        request_id: request_id(),
        expected_revision: revision,
        card: agent.card,
        template: agent.template,
        policy: agent.policy,
        capabilities: agent.capabilities,
    };
    let done = answered(session.agents().update_agent(session.ask(request)).await)?;
    shown(session, &done.agent.unwrap_or_default())
}

async fn read(session: &Session, id: &str) -> Result<pb::Agent, Failed> {
    let request = pb::GetAgentRequest { agent_id: id.to_owned() };
    let found = answered(session.agents().get_agent(session.ask(request)).await)?;
    Ok(found.agent.unwrap_or_default())
}

async fn remove(session: &Session, id: &str) -> Done {
    let request = pb::RemoveAgentRequest { request_id: request_id(), agent_id: id.to_owned() };
    let done = answered(session.agents().remove_agent(session.ask(request)).await)?;
    show(session, &done, |_| Ok(print(&format!("removed {id}"))?))
}

async fn list(session: &Session) -> Done {
    let mut rows = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListAgentsRequest { page_size: 100, page_token };
        let page = answered(session.agents().list_agents(session.ask(request)).await)?;
        for agent in page.agents {
            if session.json {
                print(&proto_json(&agent)?)?;
                continue;
            }
            let card = agent.card.unwrap_or_default();
            rows.push([
                agent.agent_id,
                card.name,
                agent.capabilities.join(","),
                agent.revision.to_string(),
                card.description,
            ]);
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if session.json {
        return Ok(());
    }
    table(["AGENT", "NAME", "CAPABILITIES", "REVISION", "DESCRIPTION"], &rows)
}

fn shown(session: &Session, agent: &pb::Agent) -> Done {
    show(session, agent, |agent| {
        let card = agent.card.clone().unwrap_or_default();
        pairs(&[
            ("agent", agent.agent_id.clone()),
            ("name", card.name),
            ("description", card.description),
            ("version", card.version),
            ("capabilities", agent.capabilities.join(", ")),
            ("takes first assignments", agent.template.as_ref().map_or("no", |_| "yes").to_owned()),
            ("revision", agent.revision.to_string()),
            ("registered", when(agent.registered_at.as_ref())),
            ("updated", when(agent.updated_at.as_ref())),
        ])
    })
}
