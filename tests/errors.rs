//! Refusals and credentials over a real connection, read by the client's own eyes.
//!
//! What lives here: that a refusal arrives whole, and who gets in. What does not: which decision
//! gives which reason. Invariant: every server ends with its test.

#![allow(clippy::expect_used, reason = "a test that cannot start has to stop")]

use std::sync::Arc;
use std::time::Duration;

use baton::broker::{Broker, Clock, Directory, Setup};
use baton::client::error::Failure;
use baton::principals::{Entry, Principals, append_principal, new_token};
use baton::proto::baton::v1 as pb;
use baton::server;
use baton::service::auth::Authenticator;
use baton::store::{AnyStore, MemoryStore};
use pb::task_service_client::TaskServiceClient;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Code, Request};

struct Served {
    tasks: TaskServiceClient<Channel>,
    stop: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<Result<(), server::Error>>,
}

impl Served {
    async fn start(authenticator: Authenticator, directory: Directory) -> Self {
        let mut setup = Setup::new(Clock::System);
        setup.test_mode = true;
        let store = AnyStore::Memory(MemoryStore::new());
        let broker = Broker::start(store, setup, directory).expect("the broker starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = oneshot::channel::<()>();
        let options = server::Options { drain: Duration::from_secs(2), ..Default::default() };
        let server =
            tokio::spawn(server::run(broker, authenticator, listener, options, async move {
                // An error says that the test has let go, which ends the server as well.
                let _ = stopped.await;
            }));
        let tasks = TaskServiceClient::connect(address).await.expect("the server answers");
        Self { tasks, stop, server }
    }

    async fn failure(&self, request: Request<pb::CreateTaskRequest>) -> Failure {
        let status = self.tasks.clone().create_task(request).await.expect_err("is refused");
        Failure::from(status)
    }

    async fn end(self) {
        drop(self.stop);
        drop(self.tasks);
        self.server.await.expect("the server task").expect("ends in order");
    }
}

/// A request that is wrong in hundreds of places, with long values that triple in a trailer.
fn wrong_everywhere() -> pb::CreateTaskRequest {
    let verifiers = vec!["\u{1f4c4}".repeat(200); 250];
    let policy = pb::TaskPolicy { verifiers, ..Default::default() };
    pb::CreateTaskRequest {
        request_id: uuid::Uuid::now_v7().to_string(),
        contract: Some(pb::OperatingContract::default()),
        policy: Some(policy),
        ..Default::default()
    }
}

// If the details were too large for the client's HTTP/2, it would see a broken connection, no
// reason.
#[tokio::test]
async fn a_refusal_with_hundreds_of_findings_arrives() {
    let served = Served::start(Authenticator::Open, Directory::open()).await;
    let failure = served.failure(Request::new(wrong_everywhere())).await;
    assert!(failure.is(pb::Reason::InvalidRequest), "{failure}");
    assert_eq!(failure.code, Code::InvalidArgument);
    assert!(!failure.violations.is_empty());
    let left_out: usize = failure.metadata["violationsLeftOut"].parse().expect("a number");
    assert!(failure.violations.len() + left_out >= 250, "{failure}");
    served.end().await;
}

// A server that forgets its gate on one service is open to everybody.
#[tokio::test]
async fn with_a_principals_file_only_its_principals_get_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("principals.toml");
    let (token, token_sha256) = new_token().expect("a token");
    let entry = Entry { id: "agent:a".to_owned(), token_sha256, ..Entry::default() };
    append_principal(&path, entry).expect("is added");
    let principals = Arc::new(Principals::load(&path).expect("is read"));
    let directory = principals.directory();
    let served = Served::start(Authenticator::Tokens(principals), directory).await;
    let with = |key: &'static str, value: &str, also: Option<&str>| {
        let mut request = Request::new(wrong_everywhere());
        request.metadata_mut().insert(key, value.parse().expect("metadata"));
        if let Some(token) = also {
            let value = format!("Bearer {token}").parse().expect("metadata");
            request.metadata_mut().insert("authorization", value);
        }
        request
    };
    let failure = served.failure(Request::new(wrong_everywhere())).await;
    assert!(failure.is(pb::Reason::AuthenticationRequired), "{failure}");
    let failure = served.failure(with("authorization", "Bearer baton_0", None)).await;
    assert!(failure.is(pb::Reason::InvalidCredential), "{failure}");
    let failure = served.failure(with("baton-principal", "agent:b", Some(&token))).await;
    assert!(failure.is(pb::Reason::PrincipalMetadataRefused), "{failure}");
    assert_eq!(failure.violations[0].field, "baton-principal");
    // Past the gate: now the request itself is judged.
    let failure = served.failure(with("x-any", "thing", Some(&token))).await;
    assert!(failure.is(pb::Reason::InvalidRequest), "{failure}");
    served.end().await;
}
