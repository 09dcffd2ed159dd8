//! `baton token new`: make a principal and the token that proves it.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{Done, Failed, print, say};
use crate::principals::{Entry, append_principal, new_token};

/// Makes principals with their tokens.
#[derive(Debug, Args)]
pub(super) struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a principal: its token goes to stdout once, its digest into the file.
    New(New),
}

#[derive(Debug, Args)]
struct New {
    /// Principal id, for example `agent:writer`.
    id: String,
    /// The file that `baton serve --principals` reads; made if it is not there.
    #[arg(long, value_name = "FILE", default_value = "principals.toml")]
    file: PathBuf,
    /// Namespace that the principal lives in.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Account that it belongs to; its id if left out. Principals of one account do not verify each
    /// other's work.
    #[arg(long)]
    account: Option<String>,
    /// Capability that it may declare as agent. May be repeated.
    #[arg(long = "capability", value_name = "NAME")]
    capabilities: Vec<String>,
    /// It may act as operator: freeze, take over, list everything.
    #[arg(long)]
    operator: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Token {
    /// Makes the principal.
    pub(super) fn run(&self) -> Done {
        let TokenCommand::New(new) = &self.command;
        let failed = |e: &dyn ToString| Failed::Usage(e.to_string());
        let (token, token_sha256) = new_token().map_err(|e| failed(&e))?;
        let entry = Entry {
            id: new.id.clone(),
            namespace: Some(new.namespace.clone()),
            account: new.account.clone(),
            roles: if new.operator { vec!["operator".to_owned()] } else { Vec::new() },
            capabilities: new.capabilities.clone(),
            token_sha256,
        };
        append_principal(&new.file, entry).map_err(|e| failed(&e))?;
        say(&format!(
            "{} is in {}; restart the broker to let it in. The token is shown this once:",
            new.id,
            new.file.display()
        ));
        if new.json {
            print(&serde_json::json!({ "id": new.id, "token": token }).to_string())?;
        } else {
            print(&token)?;
        }
        Ok(())
    }
}
