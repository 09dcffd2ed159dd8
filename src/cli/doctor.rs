//! `baton doctor`: check the store of a stopped broker.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use crate::cli::{Done, Failed, print, say};
use crate::doctor::{Report, examine};

/// Checks the store of a stopped broker: files, checksums and chain as a start would, then that
/// every task's record is what its events give, and that lists and documents fit. Changes nothing:
/// it works on a copy beside the directory, which takes as much room and is removed. Exit code 0 if
/// all is well, 1 if not.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Directory of the store.
    #[arg(long, value_name = "DIR", default_value = "./baton-data")]
    data_dir: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    /// Checks and tells.
    pub(super) fn run(&self) -> Done {
        if !self.data_dir.join("format").exists() {
            return Err(Failed::Usage(format!(
                "--data-dir {} holds no store; name the directory that `baton serve` uses",
                self.data_dir.display()
            )));
        }
        let report = examine(&self.data_dir)
            .with_context(|| format!("the store in {}", self.data_dir.display()))?;
        self.tell(&report)?;
        if report.is_healthy() {
            return Ok(());
        }
        let count = report.left_out.saturating_add(report.findings.len() as u64);
        Err(Failed::Fault(anyhow::anyhow!(
            "the store in {} has {count} findings; keep it as it is and restore a backup",
            self.data_dir.display()
        )))
    }

    fn tell(&self, report: &Report) -> Result<(), anyhow::Error> {
        if self.json {
            return print(
                &serde_json::json!({
                    "ok": report.is_healthy(),
                    "group": report.position.0,
                    "tasks": report.tasks,
                    "events": report.events,
                    "handoffs": report.handoffs,
                    "openOffers": report.open_offers,
                    "findings": report.findings,
                    "findingsLeftOut": report.left_out,
                })
                .to_string(),
            );
        }
        for (name, value) in [
            ("newest group", report.position.0),
            ("tasks", report.tasks),
            ("events", report.events),
            ("handoffs", report.handoffs),
            ("open offers", report.open_offers),
        ] {
            print(&format!("{name:<13}{value}"))?;
        }
        for finding in &report.findings {
            print(finding)?;
        }
        if report.left_out > 0 {
            say(&format!("baton: {} more findings", report.left_out));
        }
        Ok(())
    }
}
