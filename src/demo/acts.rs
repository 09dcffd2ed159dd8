//! The four acts, and how each must end.
//!
//! Invariant: an act is judged by what processes of the product report, most of all by the broker's
//! reasons; an act that ends otherwise does not stop the next one.

use std::fs;
use std::path::{Path, PathBuf};

use super::Fault;
use super::report::{DemoError, Report};
use super::stage::{Actor, DEMO, Stage};
use super::terms::{REVIEWER, WRITER};

/// Plays all acts; true if each ended as it must.
pub(super) async fn play(stage: &mut Stage, paths: &[PathBuf]) -> Result<bool, DemoError> {
    let mut whole = Vec::new();
    for path in paths {
        let path = fs::canonicalize(path)?;
        // A file that is named twice is one source.
        if !whole.contains(&path) {
            whole.push(path);
        }
    }
    let paths = whole;
    let at = stage.address().to_owned();
    stage.teller.headline(&format!(
        "A broker listens on {at}. A writer, a reviewer, a verifier and a checker are processes \
         of\ntheir own with tokens of their own; they meet nowhere but at that port."
    ));
    let listening = Report::new("listening", "the broker listens").with("address", &at);
    stage.teller.step(0, DEMO, &listening, true);
    let mut as_it_must = 0;
    for act in 1..=4 {
        stage.teller.headline(&format!("\nAct {act}. {}", title(act)));
        let played = match act {
            1 => verified_receipt(stage, &paths).await,
            2 => changed_source(stage, &paths).await,
            3 => killed_broker(stage, &paths).await,
            _ => late_owner(stage, &paths).await,
        };
        let ok = played.is_ok();
        let text = match played {
            Ok(text) => text.to_owned(),
            Err(error) => error.to_string(),
        };
        stage.teller.step(act, DEMO, &Report::new("end", text), ok);
        as_it_must += u32::from(ok);
    }
    let ok = as_it_must == 4;
    let text = format!("{as_it_must} of 4 acts ended as they must");
    stage.teller.headline("");
    let report = Report::new("summary", text).with("acts", 4).with("as_it_must", as_it_must);
    stage.teller.step(0, DEMO, &report, ok);
    Ok(ok)
}

fn title(act: u32) -> &'static str {
    match act {
        1 => "Control moves by a verified receipt.",
        2 => "A source changes by one byte between offer and receipt.",
        3 => "The broker is killed between offer and receipt.",
        _ => "The old owner comes back late.",
    }
}

/// A condition on what was reported.
fn must(holds: bool, what: &str) -> Result<(), DemoError> {
    if holds { Ok(()) } else { Err(DemoError::wrong(format!("it does not hold that {what}"))) }
}

/// Starts a writer and waits for its offer.
async fn offered(
    stage: &Stage,
    act: u32,
    more: &[&str],
    paths: &[PathBuf],
) -> Result<(Actor, Report), DemoError> {
    let mut part = vec!["writer"];
    part.extend(more);
    if stage.fault == Some(Fault::CopyInsteadOfHash) {
        part.push("--open-view");
    }
    let mut writer = stage.start(act, "writer", &part, paths)?;
    let offer = writer.expect("offered", None).await?;
    Ok((writer, offer))
}

/// Starts a reviewer and waits for its claim.
async fn claimed(
    stage: &Stage,
    act: u32,
    offer: &Report,
    more: &[&str],
) -> Result<(Actor, Report), DemoError> {
    let mut part = vec!["reviewer", "--task", offer.text_of("task_id")];
    part.extend(more);
    if stage.fault == Some(Fault::CopyInsteadOfHash) {
        part.push("--copy");
    }
    let mut reviewer = stage.start(act, "reviewer", &part, &[])?;
    let claim = reviewer.expect("claimed", None).await?;
    Ok((reviewer, claim))
}

/// A report of the checker on a task.
async fn checked(stage: &Stage, act: u32, offer: &Report) -> Result<Report, DemoError> {
    let part = ["checker", "--task", offer.text_of("task_id")];
    let mut checker = stage.start(act, "checker", &part, &[])?;
    let report = checker.expect("checked", None).await?;
    checker.end().await?;
    Ok(report)
}

/// Lets the verifier read a completed task's artifacts back and decide.
async fn accepted(stage: &Stage, act: u32, offer: &Report) -> Result<(), DemoError> {
    let part = ["verifier", "--task", offer.text_of("task_id")];
    let mut verifier = stage.start(act, "verifier", &part, &[])?;
    let decision = verifier.expect("decided", None).await?;
    let accepted = decision.facts.get("accepted") == Some(&true.into());
    must(accepted, "the verifier accepted")?;
    verifier.end().await
}

async fn ended(mut writer: Actor, status: &str) -> Result<(), DemoError> {
    let seen = writer.expect("ended", None).await?;
    must(seen.text_of("status") == status, &format!("the offer ended as {status}"))?;
    writer.end().await
}

async fn verified_receipt(stage: &Stage, paths: &[PathBuf]) -> Result<&'static str, DemoError> {
    let (writer, offer) = offered(stage, 1, &[], paths).await?;
    let (mut reviewer, claim) = claimed(stage, 1, &offer, &[]).await?;
    let receipt = reviewer.expect("acknowledged", None).await?;
    must(claim.number_of("digests_shown") == 0, "the reviewer was shown no digest")?;
    let all = paths.len() as u64 + 1;
    must(receipt.number_of("fetched_and_hashed") == all, "the reviewer hashed everything itself")?;
    must(receipt.number_of("epoch") == 2, "the receipt raised the epoch")?;
    reviewer.expect("completed", None).await?;
    reviewer.end().await?;
    ended(writer, "RECEIVED").await?;
    accepted(stage, 1, &offer).await?;
    Ok("the reviewer owns the task because it proved what it read, and the result is accepted")
}

async fn changed_source(stage: &Stage, paths: &[PathBuf]) -> Result<&'static str, DemoError> {
    let copies = stage.copies(paths)?;
    let (writer, offer) = offered(stage, 2, &[], &copies).await?;
    let changed = copies.first().ok_or_else(|| DemoError::wrong("there is no file"))?;
    change_one_byte(changed)?;
    let text = "changes one byte of a copy; its size and its time stay as they were";
    stage.teller.step(2, "somebody", &Report::new("changed", text), true);
    let (mut reviewer, _) = claimed(stage, 2, &offer, &[]).await?;
    reviewer.expect("acknowledged", Some("RECEIPT_MISMATCH")).await?;
    ended(writer, "REJECTED").await?;
    let record = checked(stage, 2, &offer).await?;
    must(record.text_of("owner") == WRITER, "control stayed with the writer")?;
    must(record.number_of("epoch") == 1, "the epoch did not move")?;
    must(record.number_of("receipts") == 0, "no receipt was accepted")?;
    Ok("the receipt was refused and control stayed with the writer")
}

/// Changes a byte in the middle, and gives the file its old time back.
fn change_one_byte(path: &Path) -> Result<(), DemoError> {
    let time = fs::metadata(path)?.modified()?;
    let mut bytes = fs::read(path)?;
    let middle = bytes.len() / 2;
    match bytes.get_mut(middle) {
        Some(byte) => *byte ^= 1,
        None => bytes.push(b'\n'),
    }
    fs::write(path, bytes)?;
    fs::File::options().write(true).open(path)?.set_modified(time)?;
    Ok(())
}

async fn killed_broker(stage: &mut Stage, paths: &[PathBuf]) -> Result<&'static str, DemoError> {
    let (writer, offer) = offered(stage, 3, &[], paths).await?;
    let (mut reviewer, _) = claimed(stage, 3, &offer, &["--wait"]).await?;
    let id = stage.kill_broker().await?;
    let text = format!("kills the broker (process {id}) by SIGKILL");
    stage.teller.step(3, "somebody", &Report::new("killed", text).with("pid", id), true);
    stage.restart_broker().await?;
    let text = "starts it again on the same port and data";
    stage.teller.step(3, "somebody", &Report::new("restarted", text), true);
    let before = checked(stage, 3, &offer).await?;
    must(before.text_of("owner") == WRITER, "the writer still owns the task")?;
    must(before.text_of("handoff") == "PENDING", "the offer still stands")?;
    let kept = before.number_of("events") >= offer.number_of("events");
    must(kept, "every event that was acknowledged is in the record")?;
    reviewer.go_on().await?;
    reviewer.expect("completed", None).await?;
    reviewer.end().await?;
    ended(writer, "RECEIVED").await?;
    let after = checked(stage, 3, &offer).await?;
    must(after.text_of("owner") == REVIEWER, "the reviewer owns the task")?;
    must(after.number_of("receipts") == 1, "control moved exactly once")?;
    must(after.number_of("epoch") == 2, "the epoch rose by one")?;
    accepted(stage, 3, &offer).await?;
    Ok("nothing was lost, nothing was doubled, and the task has one owner")
}

async fn late_owner(stage: &Stage, paths: &[PathBuf]) -> Result<&'static str, DemoError> {
    let (mut writer, offer) = offered(stage, 4, &["--late"], paths).await?;
    let (mut reviewer, _) = claimed(stage, 4, &offer, &[]).await?;
    reviewer.expect("completed", None).await?;
    reviewer.end().await?;
    writer.expect("late_write", Some("STALE_EPOCH")).await?;
    writer.end().await?;
    let record = checked(stage, 4, &offer).await?;
    must(record.text_of("owner") == REVIEWER, "the reviewer owns the task")?;
    must(record.number_of("artifacts") == 2, "the late write left nothing behind")?;
    Ok("whoever handed over cannot write any more, however late it comes")
}
