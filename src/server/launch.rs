//! Starting from a configuration: the store, the broker, the listener, in this order.
//!
//! Invariant: nothing is bound before the store is open and checked.

use std::sync::Arc;

use tokio::net::TcpListener;

use crate::broker::{Broker, Directory, Error as BrokerError};
use crate::config::Config;
use crate::principals::Principals;
use crate::service::auth::Authenticator;
use crate::store::{AnyStore, MemoryStore, SledStore, StoreError};

use super::Options;

/// Where the broker keeps what it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// On disk, in the configured directory.
    Durable,
    /// In memory: nothing survives the process.
    Volatile,
}

/// Why nothing could be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The store cannot be opened.
    #[error("the store in {directory} cannot be opened: {cause}")]
    Store {
        /// The data directory.
        directory: String,
        /// Why.
        cause: StoreError,
    },
    /// What is stored cannot be read.
    #[error("what is stored in {directory} cannot be read: {cause}")]
    Broker {
        /// The data directory.
        directory: String,
        /// Why.
        cause: BrokerError,
    },
    /// The address cannot be used.
    #[error("cannot listen on {address}: {problem}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        problem: String,
    },
}

/// Everything that [`super::run`] needs.
pub struct Launched {
    /// The broker, over its store.
    pub broker: Broker,
    /// The gate of its calls.
    pub authenticator: Authenticator,
    /// The bound listener.
    pub listener: TcpListener,
    /// How the server is set up.
    pub options: Options,
}

/// Opens the store, starts the broker and binds the listener that a configuration asks for.
///
/// # Errors
/// The first of the three that does not work; the others have not been touched then, or are closed.
pub async fn launch(
    config: &Config,
    principals: Option<Arc<Principals>>,
    keeping: Keeping,
) -> Result<Launched, LaunchError> {
    let directory = config.data_dir.display().to_string();
    let store = match keeping {
        Keeping::Volatile => AnyStore::Memory(MemoryStore::new()),
        Keeping::Durable => {
            let cache = u64::try_from(config.cache_mib).unwrap_or(64).saturating_mul(1 << 20);
            let opened = SledStore::open(&config.data_dir, cache);
            let failed = |cause| LaunchError::Store { directory: directory.clone(), cause };
            AnyStore::Sled(Box::new(opened.map_err(failed)?))
        }
    };
    let known = principals.as_ref().map_or_else(Directory::open, |p| p.directory());
    let authenticator = principals.map_or(Authenticator::Open, Authenticator::Tokens);
    let broker = Broker::start(store, config.setup(), known)
        .map_err(|cause| LaunchError::Broker { directory, cause })?;
    let unbound = |address: &str, problem: String| LaunchError::Listen {
        address: address.to_owned(),
        problem,
    };
    let address = config.listen_addr().map_err(|e| unbound(&config.listen, e))?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|e| unbound(&address.to_string(), e.to_string()))?;
    let options = Options {
        message_bytes_max: usize::try_from(config.message_bytes_max).unwrap_or(usize::MAX),
        streams_max: usize::try_from(config.streams_max).unwrap_or(usize::MAX),
        ..Options::default()
    };
    Ok(Launched { broker, authenticator, listener, options })
}
