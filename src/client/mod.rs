//! A client of the broker, as one in any other language would be.
//!
//! What lives here: what a program in Rust needs to use a broker: calls that are repeated safely,
//! packets built from a resume set, and the loop of an agent. What does not: anything that only the
//! broker itself knows, and decisions of the agent. Invariants: a change is sent with one
//! `request_id`, however often; only a broken connection and UNAVAILABLE are repeated, within the
//! call's deadline; a refusal is given to the caller as it came.
//!
//! Start reading at [`Agent`] to write an agent, at [`Client`] for single calls.

mod agent;
mod calls;
pub mod error;
mod owned;
pub mod packet;
mod receive;
mod retry;

use std::fmt;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

pub use agent::{Agent, Duties, Step};
pub use error::{Failure, Finding};
pub use owned::Owned;
pub use receive::{Offered, Readings, Verdict};

use retry::Backoff;

/// How long a call may take, with all its repeats.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A bearer token. Its text is never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Takes a token as `baton token new` made it.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Who calls.
#[derive(Clone, Debug)]
pub enum Identity {
    /// Proved by a token. Roles come with it.
    Token(Token),
    /// Stated, to a broker without authentication on this machine.
    Principal {
        /// Principal id, for example `agent:writer`.
        id: String,
        /// True to act as operator.
        operator: bool,
    },
}

impl Identity {
    /// A stated principal without a role.
    #[must_use]
    pub fn principal(id: impl Into<String>) -> Self {
        Self::Principal { id: id.into(), operator: false }
    }

    fn metadata(&self) -> Result<Vec<(&'static str, MetadataValue<Ascii>)>, Failure> {
        let value = |key: &str, text: &str| {
            MetadataValue::try_from(text)
                .map_err(|e| Status::invalid_argument(format!("{key} cannot be sent: {e}")))
        };
        Ok(match self {
            Self::Token(Token(token)) => {
                let mut bearer = value("the token", &format!("Bearer {token}"))?;
                bearer.set_sensitive(true);
                vec![("authorization", bearer)]
            }
            Self::Principal { id, operator } => {
                let mut metadata = vec![("baton-principal", value("the principal", id)?)];
                if *operator {
                    metadata.push(("baton-role", MetadataValue::from_static("operator")));
                }
                metadata
            }
        })
    }
}

/// A connection to a broker under one identity. Cheap to clone; clones share the connection, which
/// is opened again by itself after it broke.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    metadata: Vec<(&'static str, MetadataValue<Ascii>)>,
    deadline: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to `http://host:port`; tries again for 10 s while nobody answers.
    ///
    /// # Errors
    /// The address or the identity cannot be used, or nobody answers there.
    pub async fn connect(address: &str, identity: Identity) -> Result<Self, Failure> {
        Self::connect_within(address, identity, DEADLINE).await
    }

    /// Connects as [`Client::connect`], trying for at most `wait`.
    ///
    /// # Errors
    /// The address or the identity cannot be used, or nobody answers there in time.
    pub async fn connect_within(
        address: &str,
        identity: Identity,
        wait: Duration,
    ) -> Result<Self, Failure> {
        let metadata = identity.metadata()?;
        let bad = |e: tonic::transport::Error| {
            Status::invalid_argument(format!("address {address:?} cannot be used: {e}"))
        };
        let endpoint = Endpoint::from_shared(address.to_owned())
            .map_err(bad)?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true);
        let mut backoff = Backoff::until(wait);
        loop {
            match endpoint.connect().await {
                Ok(channel) => return Ok(Self { channel, metadata, deadline: DEADLINE }),
                Err(error) if !backoff.pause().await => {
                    let why = std::error::Error::source(&error)
                        .map_or_else(|| error.to_string(), ToString::to_string);
                    let text = format!("no broker answers at {address}: {why}");
                    return Err(Status::unavailable(text).into());
                }
                Err(_) => {}
            }
        }
    }

    /// The same client with another deadline per call, repeats included. The default is 10 s.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sends a call, again while the connection is broken or the broker is not there, until the
    /// deadline. The message is the same each time, so a change has one `request_id`.
    async fn send<T, R, F>(
        &self,
        message: T,
        call: impl Fn(Channel, Request<T>) -> F,
    ) -> Result<R, Failure>
    where
        T: Clone,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let mut backoff = Backoff::until(self.deadline);
        loop {
            let mut request = self.request(message.clone());
            request.set_timeout(backoff.left());
            match call(self.channel.clone(), request).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => {
                    let failure = Failure::from(status);
                    if !retry::may_repeat(&failure) || !backoff.pause().await {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// Opens a stream. It has no deadline; opening it has.
    async fn open<T, R, F>(
        &self,
        message: T,
        call: impl FnOnce(Channel, Request<T>) -> F,
    ) -> Result<R, Failure>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let opening = call(self.channel.clone(), self.request(message));
        match tokio::time::timeout(self.deadline, opening).await {
            Ok(opened) => Ok(opened?.into_inner()),
            Err(_) => Err(Status::deadline_exceeded("the stream did not open in time").into()),
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let metadata: &mut MetadataMap = request.metadata_mut();
        for (key, value) in &self.metadata {
            metadata.insert(*key, value.clone());
        }
        request
    }
}

/// A new `request_id`: a UUID of version 7.
#[must_use]
pub fn request_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
