//! `baton serve`: run the broker until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;

use crate::cli::{Done, Failed, print, say};
use crate::config::{Config, Overrides};
use crate::principals::Principals;
use crate::server::launch::{Keeping, Launched, launch};
use crate::{server, telemetry};

/// Runs the broker: without arguments on 127.0.0.1:7717, with its data in ./baton-data.
///
/// The first line on stdout is the address: `listening on http://127.0.0.1:7717`, or with --json
/// `{"address":"http://127.0.0.1:7717"}`. SIGTERM and Ctrl-C end it after what is under way.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Configuration file (TOML). Flags and BATON_<KEY> variables go before it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Directory of the store; made if it is not there.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// File of principals and token digests, made by `baton token new`. Without it there is no
    /// authentication, and only this machine is listened to.
    #[arg(long, value_name = "FILE")]
    principals: Option<PathBuf>,
    /// Listen to other machines although there is no authentication.
    #[arg(long)]
    allow_unprotected_bind: bool,
    /// Keep everything in memory: nothing survives the process, and work that needs that is refused
    /// unless --test-mode is given too.
    #[arg(long)]
    memory: bool,
    /// Let a store that keeps nothing hold work that needs a durable one. For tests.
    #[arg(long)]
    test_mode: bool,
    /// How long a claim holds without renewal, in milliseconds.
    #[arg(long, value_name = "MS")]
    lease_ms: Option<i64>,
    /// Print the effective configuration with the origin of each value, and end.
    #[arg(long)]
    print_config: bool,
    /// The first line on stdout is a JSON object.
    #[arg(long)]
    json: bool,
    /// Write the log as JSON lines.
    #[arg(long)]
    log_json: bool,
}

impl Serve {
    fn overrides(&self) -> Overrides {
        Overrides {
            listen: self.listen.clone(),
            data_dir: self.data_dir.clone(),
            principals_file: self.principals.clone(),
            allow_unprotected_bind: self.allow_unprotected_bind.then_some(true),
            lease_ms: self.lease_ms,
            test_mode: self.test_mode.then_some(true),
            ..Overrides::default()
        }
    }

    /// Runs until it is told to stop.
    pub(super) fn run(&self) -> Done {
        let usage = |e: &dyn ToString| Failed::Usage(e.to_string());
        let loaded =
            Config::load(self.config.as_deref(), &self.overrides()).map_err(|e| usage(&e))?;
        if self.print_config {
            for setting in loaded.effective() {
                print(&format!("{} = {}  # {:?}", setting.key, setting.value, setting.origin))?;
            }
            return Ok(());
        }
        let config = loaded.config;
        config.check().map_err(|e| usage(&e))?;
        let form = if self.log_json { telemetry::Form::Json } else { telemetry::Form::Text };
        telemetry::start(form).map_err(|e| usage(&e))?;
        for warning in config.warnings() {
            say(&format!("baton: warning: {warning}"));
        }
        let principals = match &config.principals_file {
            Some(path) => Some(Arc::new(Principals::load(path).map_err(|e| usage(&e))?)),
            None => None,
        };
        for warning in principals.iter().flat_map(|p| p.warnings()) {
            say(&format!("baton: warning: {warning}"));
        }
        // Calls wait for the committer's thread, not for each other: one thread serves them without
        // passing work between cores.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the runtime cannot start")?;
        let served = runtime.block_on(serve(&config, principals, self.memory, self.json));
        runtime.shutdown_background();
        served
    }
}

async fn serve(
    config: &Config,
    principals: Option<Arc<Principals>>,
    memory: bool,
    json: bool,
) -> Done {
    let keeping = if memory {
        say("baton: warning: everything is kept in memory and nothing survives this process");
        Keeping::Volatile
    } else {
        Keeping::Durable
    };
    let launched = launch(config, principals, keeping).await.map_err(anyhow::Error::from)?;
    let Launched { broker, authenticator, listener, options } = launched;
    let bound = listener.local_addr().context("the listener has no address")?;
    let stop = asked_to_stop().context("signals cannot be received")?;
    announce(bound, json)?;
    server::run(broker, authenticator, listener, options, stop)
        .await
        .with_context(|| format!("serving from {} failed", config.data_dir.display()))?;
    Ok(())
}

fn announce(bound: SocketAddr, json: bool) -> Result<(), anyhow::Error> {
    let address = format!("http://{bound}");
    if json {
        print(&serde_json::json!({ "address": address }).to_string())
    } else {
        print(&format!("listening on {address}"))
    }
}

/// Resolves when the process is told to stop. It listens from this call on, so whoever is told the
/// address may already do that.
fn asked_to_stop() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        say("baton: stopping after what is under way");
    })
}
