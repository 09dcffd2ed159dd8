//! `baton task artifact` and `content`: results, put and fetched.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use crate::cli::connection::{Session, answered, request_id};
use crate::cli::field::location;
use crate::cli::output::{read_file, show};
use crate::cli::task::{OwnerFlags, left_behind, present};
use crate::cli::{Done, Failed};
use crate::proto::baton::v1 as pb;
use crate::wire::canon;
use pb::artifact_part::Content as Part;

/// Content up to this size is kept by the broker, unless told otherwise: its own limit is 1 MiB.
const INLINE_BYTES_MAX: usize = 1024 * 1024;

/// Puts a version of an artifact.
#[derive(Debug, Args)]
#[command(after_help = "Content up to 1 MiB goes to the broker, larger content stays where it is \
and is named by location and digest.

Example:
  baton task artifact TASK --file report.md --id report --version v1 --role report \\
      --media-type text/markdown")]
pub(super) struct Artifact {
    /// The task.
    task: String,
    /// The content.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Identifier, unique in the task.
    #[arg(long)]
    id: String,
    /// Version label.
    #[arg(long)]
    version: String,
    /// The part that it plays among the expected artifacts.
    #[arg(long, default_value = "")]
    role: String,
    /// Media type.
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream")]
    media_type: String,
    /// Kind of thing.
    #[arg(long = "type", value_name = "KIND", default_value = "document")]
    kind: String,
    /// Where it can be fetched; the file's own place if left out.
    #[arg(long, value_name = "URI")]
    location: Option<String>,
    /// Do not send the content, only location and digest.
    #[arg(long)]
    by_reference: bool,
    /// The run that made it.
    #[arg(long, default_value = "")]
    run: String,
    #[command(flatten)]
    owner: OwnerFlags,
}

impl Artifact {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let content = read_file(&self.file)?;
        let descriptor = pb::ArtifactDescriptor {
            id: self.id.clone(),
            r#type: self.kind.clone(),
            media_type: self.media_type.clone(),
            location: match &self.location {
                Some(location) => location.clone(),
                None => location(&self.file)?,
            },
            version: self.version.clone(),
            digest: Some(canon::part_digest_raw(&content).to_string()),
            role: self.role.clone(),
            size_bytes: Some(content.len() as u64),
            digest_algorithm: "sha-256".to_owned(),
            digested: "raw bytes of the file".to_owned(),
            carrier: pb::ArtifactCarrier::Artifact.into(),
        };
        let inline = !self.by_reference && content.len() <= INLINE_BYTES_MAX;
        let part = inline.then(|| pb::ArtifactPart {
            media_type: self.media_type.clone(),
            content: Some(Part::Raw(content)),
        });
        let task = present(session, &self.task).await?;
        let request = pb::PutArtifactRequest {
            request_id: request_id(),
            task_id: self.task.clone(),
            guard: Some(self.owner.guard(&task)),
            descriptor: Some(descriptor),
            parts: part.into_iter().collect(),
            run_id: self.run.clone(),
        };
        let done = answered(session.tasks().put_artifact(session.ask(request)).await)?;
        show(session, &done, |done| {
            let put = done.descriptor.clone().unwrap_or_default();
            let more = [
                ("artifact", put.id),
                ("version", put.version),
                ("digest", put.digest.unwrap_or_default()),
            ];
            left_behind(done.outcome.as_ref(), &more)
        })
    }
}

/// Writes an artifact's content to stdout, if the broker keeps it.
#[derive(Debug, Args)]
pub(super) struct Content {
    /// The task.
    task: String,
    /// The artifact.
    id: String,
}

impl Content {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let found = fetch(session, &self.task, &self.id).await?;
        if session.json {
            return show(session, &found, |_| Ok(()));
        }
        if found.parts.is_empty() {
            let record = found.artifact.unwrap_or_default();
            let place = record.descriptor.unwrap_or_default().location;
            let text = format!("the broker does not keep artifact {}; it is at {place}", self.id);
            return Err(Failed::Fault(anyhow::Error::msg(text)));
        }
        let mut stdout = std::io::stdout().lock();
        for part in &found.parts {
            stdout.write_all(bytes(part)).context("stdout is closed")?;
        }
        stdout.flush().context("stdout is closed")?;
        Ok(())
    }
}

/// An artifact with its content, if the broker keeps it.
pub(super) async fn fetch(
    session: &Session,
    task_id: &str,
    artifact_id: &str,
) -> Result<pb::GetArtifactResponse, Failed> {
    let request =
        pb::GetArtifactRequest { task_id: task_id.to_owned(), artifact_id: artifact_id.to_owned() };
    answered(session.tasks().get_artifact(session.ask(request)).await)
}

/// The digest of content that the broker keeps, computed here; none if it keeps none.
pub(super) fn digest_of(parts: &[pb::ArtifactPart]) -> Result<Option<String>, Failed> {
    if parts.is_empty() {
        return Ok(None);
    }
    let digests: Vec<_> =
        parts.iter().map(|p| (&*p.media_type, canon::part_digest_raw(bytes(p)))).collect();
    let digest = canon::artifact_digest(&digests).context("the artifact cannot be digested")?;
    Ok(Some(digest.to_string()))
}

fn bytes(part: &pb::ArtifactPart) -> &[u8] {
    match &part.content {
        Some(Part::Raw(raw)) => raw,
        Some(Part::Text(text)) => text.as_bytes(),
        None => &[],
    }
}
