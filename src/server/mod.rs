//! Assembly: one port, all services, one end.
//!
//! What lives here: wiring, and the order of starting and stopping. What does not: decisions.
//! Invariants: nothing is bound before the store is open and checked; a fault of the committer ends
//! the server with its cause; draining answers what is under way.

pub mod launch;

use std::future::Future;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

use crate::broker::Broker;
use crate::proto;
use crate::proto::baton::v1::agent_service_server::AgentServiceServer;
use crate::proto::baton::v1::handoff_service_server::HandoffServiceServer;
use crate::proto::baton::v1::task_service_server::TaskServiceServer;
use crate::service::Desk;
use crate::service::auth::Authenticator;

/// How often an idle connection is asked whether its peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How long answers may take to go out after a fault.
const FAULT_DRAIN: Duration = Duration::from_secs(1);

/// How long the end waits for the committer. A process that hangs is not started again by whoever
/// watches over it; what was answered is on disk in any case.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that a connection may have under way. The standard's 64 KiB are a dozen packets, and then
/// every offer waits for a window update.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Largest message that is taken, in bytes.
    pub message_bytes_max: usize,
    /// Streams that may be open at once.
    pub streams_max: usize,
    /// How long open calls may take after the end was asked for.
    pub drain: Duration,
}

impl Default for Options {
    /// 4 MiB, as every gRPC library has it; 4096 streams; 10 s.
    fn default() -> Self {
        Self { message_bytes_max: 4 << 20, streams_max: 4096, drain: Duration::from_secs(10) }
    }
}

/// Why a server ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The transport failed.
    #[error("the server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// Reflection could not be built.
    #[error("reflection failed: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The listener failed.
    #[error("the listener failed: {0}")]
    Listener(String),
    /// The committer stopped because of a fault.
    #[error("the broker stopped after a fault: {0}")]
    Fault(String),
}

/// Serves until `shutdown` resolves, then drains. The broker is stopped before this returns.
///
/// # Errors
/// The transport or the committer failed.
pub async fn run(
    broker: Broker,
    authenticator: Authenticator,
    listener: TcpListener,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let stop = CancellationToken::new();
    let desk = Desk::new(broker.clone(), options.streams_max, stop.clone());
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<TaskServiceServer<Desk>>().await;
    reporter.set_serving::<HandoffServiceServer<Desk>>().await;
    reporter.set_serving::<AgentServiceServer<Desk>>().await;
    // `with_nodelay` matters: without it small answers wait for the peer's delayed acknowledgement.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let limit = options.message_bytes_max;
    let agents = AgentServiceServer::new(desk.clone()).max_decoding_message_size(limit);
    let tasks = TaskServiceServer::new(desk.clone()).max_decoding_message_size(limit);
    let handoffs = HandoffServiceServer::new(desk).max_decoding_message_size(limit);
    let router = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .add_service(health)
        .add_service(reflection()?)
        .add_service(InterceptedService::new(agents, authenticator.clone()))
        .add_service(InterceptedService::new(tasks, authenticator.clone()))
        .add_service(InterceptedService::new(handoffs, authenticator));
    let stopping = stop.clone();
    let asked = async move {
        tokio::select! {
            () = shutdown => {}
            () = stopping.cancelled() => {}
        }
        // Streams never end by themselves; they end now, so that the rest can drain.
        stopping.cancel();
    };
    let mut served = std::pin::pin!(router.serve_with_incoming_shutdown(incoming, asked));
    let drained = async {
        stop.cancelled().await;
        tokio::time::sleep(options.drain).await;
    };
    let result = tokio::select! {
        served = &mut served => served.map_err(Error::from),
        () = drained => Ok(()),
        cause = broker.failed() => {
            stop.cancel();
            // Whoever waits is still told that the outcome of its call is not known.
            let _ = tokio::time::timeout(FAULT_DRAIN, &mut served).await;
            Err(Error::Fault(cause))
        }
    };
    let stopping = tokio::task::spawn_blocking(move || broker.stop());
    let stopped = tokio::time::timeout(STOP_PATIENCE, stopping).await;
    match (result, stopped) {
        (Ok(()), Ok(Err(panic))) => Err(Error::Fault(panic.to_string())),
        (Ok(()), Err(_)) => Err(Error::Fault("the committer did not stop".to_owned())),
        (result, _) => result,
    }
}

/// Reflection of the public services. The store's own messages are not part of it.
fn reflection()
-> Result<ServerReflectionServer<impl ServerReflection>, tonic_reflection::server::Error> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .with_service_name("baton.v1.AgentService")
        .with_service_name("baton.v1.TaskService")
        .with_service_name("baton.v1.HandoffService")
        .with_service_name("grpc.health.v1.Health")
        .build_v1()
}
