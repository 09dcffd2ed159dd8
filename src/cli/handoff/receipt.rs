//! `baton handoff ack`: a receipt, of a file, of what is hashed here, or of what is only echoed.
//!
//! What lives here: how each element comes to its value. What does not: the comparison, which is
//! the broker's. Invariant: a digest that is sent was computed here over content that was read
//! here, unless --echo says otherwise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::connection::{Session, answered, now, request_id};
use crate::cli::field::said;
use crate::cli::handoff::{claiming_instance, read};
use crate::cli::output::{named_path, read_file, read_message, show};
use crate::cli::task::fetched;
use crate::cli::task::left_behind;
use crate::cli::{Done, Failed, say};
use crate::proto::baton::v1 as pb;
use crate::wire::canon;
use pb::artifact_descriptor_list_field::State as ArtifactsState;
use pb::source_snapshot_field::State as SourcesState;

/// Presents the receipt of a claimed offer.
#[derive(Debug, Args)]
#[command(after_help = "Task, contract and scope come from the packet; the contract's digest is \
computed here. Sources and artifacts are read and hashed here: from the files that --source and \
--artifact name; with --fetch also from file:// locations in the packet. An artifact that the \
broker keeps \
is fetched from it and hashed, if no file is named.

Examples:
  baton handoff ack HANDOFF --source 'file:README.md=README.md' --artifact draft=draft.md
  baton handoff ack HANDOFF --fetch
  baton handoff ack HANDOFF --receipt receipt.json")]
pub(super) struct Ack {
    /// The handoff.
    id: String,
    /// The receipt as ProtoJSON of baton.v1.HandoffReceipt; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["echo", "sources", "artifacts", "fetch"])]
    receipt: Option<PathBuf>,
    /// Repeat what an open packet shows. This proves that the packet was read, and nothing else.
    #[arg(long, conflicts_with_all = ["sources", "artifacts", "fetch"])]
    echo: bool,
    /// File to hash for a source: ENTITY=PATH. May be repeated.
    #[arg(long = "source", value_name = "ENTITY=PATH", value_parser = named_path)]
    sources: Vec<(String, PathBuf)>,
    /// File to hash for an artifact: ID=PATH. May be repeated.
    #[arg(long = "artifact", value_name = "ID=PATH", value_parser = named_path)]
    artifacts: Vec<(String, PathBuf)>,
    /// Read and hash what the packet locates in file:// on this machine.
    #[arg(long)]
    fetch: bool,
    /// The claiming process; the one of the claim if left out.
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
}

impl Ack {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let found = read(session, &self.id).await?;
        let handoff = found.handoff.unwrap_or_default();
        let receipt = match &self.receipt {
            Some(path) => read_message::<pb::HandoffReceipt>(path)?,
            None => {
                let packet = found.packet.ok_or_else(|| {
                    Failed::Usage(format!(
                        "claim handoff {} first: its packet is shown then",
                        self.id
                    ))
                })?;
                self.receipt(session, &packet, &handoff).await?
            }
        };
        let request = pb::AcknowledgeHandoffRequest {
            request_id: request_id(),
            handoff_id: self.id.clone(),
            packet_digest: handoff.packet_digest.clone(),
            instance_id: match &self.instance {
                Some(instance) => instance.clone(),
                None => claiming_instance(Some(&handoff)),
            },
            receipt: Some(receipt),
        };
        let done = answered(session.handoffs().acknowledge_handoff(session.ask(request)).await)?;
        show(session, &done, |done| {
            let receipt = done.receipt.clone().unwrap_or_default();
            left_behind(done.outcome.as_ref(), &[("owner", receipt.receiver)])
        })
    }

    async fn receipt(
        &self,
        session: &Session,
        packet: &pb::HandoffPacket,
        handoff: &pb::Handoff,
    ) -> Result<pb::HandoffReceipt, Failed> {
        if self.echo {
            if handoff.blind {
                return Err(Failed::Usage(
                    "the packet withholds its digests, so there is nothing to echo; name files \
                     with --source and --artifact, or use --fetch"
                        .to_owned(),
                ));
            }
            say("baton: echoing the packet's own values; this proves nothing about the content");
        }
        let mut missing = Vec::new();
        let source_snapshot = self.sources_read(packet, handoff.blind, &mut missing)?;
        let artifacts = self.artifacts_read(session, packet, &mut missing).await?;
        if !missing.is_empty() {
            return Err(Failed::Usage(format!(
                "a receipt names what was read, and nothing says where to read:\n  {}",
                missing.join("\n  ")
            )));
        }
        let terms = packet.contract.clone().unwrap_or_default();
        Ok(pb::HandoffReceipt {
            task_id: packet.task_id.clone(),
            contract: Some(pb::ContractEcho {
                version: said(terms.contract_version.as_ref()).unwrap_or_default().to_owned(),
                digest: canon::part_digest_raw(&packet.contract_canonical).to_string(),
            }),
            source_snapshot,
            artifacts,
            scope: packet.scope.clone(),
            observed_at: Some(now()),
            ..Default::default()
        })
    }

    fn sources_read(
        &self,
        packet: &pb::HandoffPacket,
        blind: bool,
        missing: &mut Vec<String>,
    ) -> Result<Option<pb::SourceSnapshotEcho>, Failed> {
        let state = packet.source_snapshot.as_ref().and_then(|f| f.state.as_ref());
        let listed = match state {
            Some(SourcesState::Value(snapshot)) => &*snapshot.entities,
            _ => &[],
        };
        let mut files = Files::new("--source", &self.sources);
        let mut entities = Vec::new();
        for entity in listed {
            // A source that has no digest shows its version in every packet.
            let undigested = entity.digest.is_none() && !blind;
            let path = files.take(&entity.entity_id).or_else(|| self.located(&entity.location));
            let digest = match path {
                _ if self.echo => entity.digest.clone(),
                Some(path) => Some(canon::part_digest_raw(&read_file(&path)?).to_string()),
                None if undigested => None,
                // Blind, with neither an algorithm nor words on what is hashed: there is no digest.
                None if entity.digest_algorithm.is_empty() && entity.digested.is_empty() => None,
                None => {
                    missing.push(format!(
                        "--source '{}=PATH'  (at {})",
                        entity.entity_id, entity.location
                    ));
                    None
                }
            };
            entities.push(pb::SourceEcho {
                entity_id: entity.entity_id.clone(),
                version: entity.version.clone(),
                digest,
            });
        }
        files.all_used("the packet has no source")?;
        Ok(state.map(|_| pb::SourceSnapshotEcho { entities }))
    }

    async fn artifacts_read(
        &self,
        session: &Session,
        packet: &pb::HandoffPacket,
        missing: &mut Vec<String>,
    ) -> Result<Option<pb::ArtifactSetEcho>, Failed> {
        let state = packet.artifact_descriptors.as_ref().and_then(|f| f.state.as_ref());
        let listed = match state {
            Some(ArtifactsState::Value(list)) => &*list.items,
            _ => &[],
        };
        let mut files = Files::new("--artifact", &self.artifacts);
        let mut items = Vec::new();
        for artifact in listed {
            let digest = if self.echo {
                artifact.digest.clone()
            } else if let Some(path) = files.take(&artifact.id) {
                Some(canon::part_digest_raw(&read_file(&path)?).to_string())
            } else if let Some(kept) = fetched(session, &packet.task_id, &artifact.id).await? {
                Some(kept)
            } else if let Some(path) = self.located(&artifact.location) {
                Some(canon::part_digest_raw(&read_file(&path)?).to_string())
            } else {
                missing
                    .push(format!("--artifact '{}=PATH'  (at {})", artifact.id, artifact.location));
                None
            };
            items.push(pb::ArtifactEcho {
                id: artifact.id.clone(),
                version: artifact.version.clone(),
                digest: digest.unwrap_or_default(),
            });
        }
        files.all_used("the packet has no artifact")?;
        Ok(state.map(|_| pb::ArtifactSetEcho { items }))
    }

    /// The file that a location names, if this machine is to be looked at.
    fn located(&self, location: &str) -> Option<PathBuf> {
        let path = location.strip_prefix("file://").filter(|_| self.fetch)?;
        path.starts_with('/').then(|| Path::new(path).to_path_buf())
    }
}

/// Files by the name of what they hold.
struct Files<'a> {
    flag: &'static str,
    left: BTreeMap<&'a str, &'a Path>,
}

impl<'a> Files<'a> {
    fn new(flag: &'static str, given: &'a [(String, PathBuf)]) -> Self {
        Self { flag, left: given.iter().map(|(name, path)| (&**name, &**path)).collect() }
    }

    fn take(&mut self, name: &str) -> Option<PathBuf> {
        self.left.remove(name).map(Path::to_path_buf)
    }

    /// A file for something that is not in the packet is a misspelling.
    fn all_used(&self, problem: &str) -> Result<(), Failed> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => Err(Failed::Usage(format!("{} {name}: {problem} {name:?}", self.flag))),
        }
    }
}
