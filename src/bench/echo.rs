//! The yardstick: a bare call with the same bytes each way as the calls of a cycle.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

use crate::proto::baton::bench::v1 as pb;
use pb::echo_service_client::EchoServiceClient;
use pb::echo_service_server::{EchoService, EchoServiceServer};

use super::Measured;

/// Bytes of one call, each way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    pub(super) sent: usize,
    pub(super) answered: usize,
}

struct Echo;

#[tonic::async_trait]
impl EchoService for Echo {
    async fn echo(
        &self,
        request: Request<pb::EchoRequest>,
    ) -> Result<Response<pb::EchoResponse>, Status> {
        let bytes = usize::try_from(request.get_ref().answer_bytes).unwrap_or_default();
        Ok(Response::new(pb::EchoResponse { payload: vec![0x5a; bytes.min(1 << 20)] }))
    }
}

/// Serves echoes until the process is ended; the first line on stdout is the address.
///
/// # Errors
/// There is no port, or the transport fails.
pub(super) async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("no port")?;
    let address = format!("http://{}", listener.local_addr()?);
    crate::console::print(&serde_json::json!({ "address": address }).to_string())?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .add_service(EchoServiceServer::new(Echo))
        .serve_with_incoming(incoming)
        .await
        .context("the echo failed")
}

/// Echoes with `in_flight` calls at once for `span`, in the mix of `calls`.
///
/// # Errors
/// A call failed.
pub(super) async fn load(
    channels: &[Channel],
    calls: &[Bytes],
    in_flight: usize,
    span: Duration,
) -> anyhow::Result<Measured> {
    let begun = Instant::now();
    let end = begun + span;
    let mut workers = tokio::task::JoinSet::new();
    for n in 0..in_flight {
        let channel = channels.get(n % channels.len()).context("no connection")?.clone();
        let calls = calls.to_vec();
        workers.spawn(async move {
            let mut client = EchoServiceClient::new(channel);
            let mut latencies = Vec::new();
            'all: loop {
                for bytes in &calls {
                    if Instant::now() >= end {
                        break 'all;
                    }
                    let request = pb::EchoRequest {
                        payload: vec![0x5a; bytes.sent],
                        answer_bytes: u32::try_from(bytes.answered).unwrap_or_default(),
                    };
                    let at = Instant::now();
                    client.echo(request).await?;
                    latencies.push(at.elapsed());
                }
            }
            anyhow::Ok(latencies)
        });
    }
    let mut all = Vec::new();
    while let Some(worker) = workers.join_next().await {
        all.extend(worker.context("a worker panicked")??);
    }
    Ok(Measured::of(all, begun.elapsed()))
}
