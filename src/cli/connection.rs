//! The connection of a client command: its flags, who calls, and one call.
//!
//! What lives here: flags that all client commands share, metadata, deadlines, request ids. What
//! does not: what is asked. Invariants: a token is never printed; every call but a watch ends at
//! the time that --timeout gives.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::Args;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use crate::cli::Failed;
use crate::client::error::Failure;
use crate::proto::baton::v1 as pb;
use pb::agent_service_client::AgentServiceClient;
use pb::handoff_service_client::HandoffServiceClient;
use pb::task_service_client::TaskServiceClient;

/// Largest answer that is read: a packet with its contract in two forms, and room for growth.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Where the broker is, who calls, and how to print.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// Address of the broker.
    #[arg(
        long,
        global = true,
        env = "BATON_ADDRESS",
        default_value = "http://127.0.0.1:7717",
        value_name = "URL"
    )]
    address: String,
    /// Token that proves who calls, as `baton token new` printed it. Safer in the environment or in
    /// a file than on the command line.
    #[arg(long, global = true, env = "BATON_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File that holds the token and nothing else.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Who calls, at a broker without authentication; `local:anonymous` if left out.
    #[arg(long = "as", global = true, env = "BATON_PRINCIPAL", value_name = "PRINCIPAL")]
    principal: Option<String>,
    /// Call as an operator, at a broker without authentication. With a token, the broker knows.
    #[arg(long, global = true)]
    operator: bool,
    /// Print ProtoJSON for programs, one object a line, instead of tables for people.
    #[arg(long, global = true)]
    json: bool,
    /// How long one call may take, in seconds.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 10)]
    timeout: u64,
}

impl Connection {
    /// True if the output is for a program.
    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// Carries out `work` with a session.
    pub(super) fn run<F>(&self, work: impl FnOnce(Session) -> F) -> Result<(), Failed>
    where
        F: Future<Output = Result<(), Failed>>,
    {
        let metadata = self.metadata()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the runtime cannot start")?;
        runtime.block_on(async {
            let timeout = Duration::from_secs(self.timeout.max(1));
            let endpoint = Endpoint::from_shared(self.address.clone())
                .map_err(|e| Failed::Usage(format!("--address {:?}: {e}", self.address)))?
                .connect_timeout(timeout);
            let channel = endpoint
                .connect()
                .await
                .with_context(|| format!("cannot connect to a broker at {}", self.address))?;
            work(Session { channel, metadata, timeout, json: self.json }).await
        })
    }

    /// Who calls, as metadata.
    fn metadata(&self) -> Result<MetadataMap, Failed> {
        let mut metadata = MetadataMap::new();
        let file = match &self.token_file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|e| Failed::Usage(format!("--token-file {}: {e}", path.display())))?;
                Some(text.trim().to_owned())
            }
        };
        // The file was named on this command line, the variable perhaps long ago.
        if let Some(token) = file.or_else(|| self.token.clone()).filter(|t| !t.is_empty()) {
            if self.principal.is_some() || self.operator {
                return Err(Failed::Usage(
                    "a token says who calls; leave out --as, --operator and BATON_PRINCIPAL, or \
                     the token"
                        .to_owned(),
                ));
            }
            metadata.insert("authorization", visible("the token", &format!("Bearer {token}"))?);
        }
        if let Some(principal) = &self.principal {
            metadata.insert("baton-principal", visible("--as", principal)?);
        }
        if self.operator {
            metadata.insert("baton-role", MetadataValue::from_static("operator"));
        }
        Ok(metadata)
    }
}

fn visible(what: &str, text: &str) -> Result<MetadataValue<Ascii>, Failed> {
    text.parse().map_err(|_| Failed::Usage(format!("{what} must be visible ASCII")))
}

/// A connected caller.
#[derive(Clone, Debug)]
pub(super) struct Session {
    channel: Channel,
    metadata: MetadataMap,
    timeout: Duration,
    /// True if the output is for a program.
    pub(super) json: bool,
}

impl Session {
    pub(super) fn agents(&self) -> AgentServiceClient<Channel> {
        AgentServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(super) fn tasks(&self) -> TaskServiceClient<Channel> {
        TaskServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(super) fn handoffs(&self) -> HandoffServiceClient<Channel> {
        HandoffServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// A request of the caller that must be answered in time.
    pub(super) fn ask<T>(&self, message: T) -> Request<T> {
        let mut request = self.follow(message);
        request.set_timeout(self.timeout);
        request
    }

    /// A request of the caller for a stream, which ends when it ends.
    pub(super) fn follow<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        *request.metadata_mut() = self.metadata.clone();
        request
    }
}

/// The message of an answer.
pub(super) fn answered<T>(result: Result<Response<T>, Status>) -> Result<T, Failed> {
    match result {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(Failed::Call(Box::new(Failure::from(status)))),
    }
}

/// A new request id.
pub(super) fn request_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// The present time, by this machine's clock.
pub(super) fn now() -> prost_types::Timestamp {
    // The broker keeps microseconds.
    let mut now = prost_types::Timestamp::from(SystemTime::now());
    now.nanos -= now.nanos % 1000;
    now
}
