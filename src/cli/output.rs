//! What commands print, and ProtoJSON both ways.
//!
//! What lives here: tables, pairs, ProtoJSON lines, messages read from files. What does not: which
//! fields are shown. Invariants: a table is plain ASCII with aligned columns; with `--json` a line
//! of stdout is one object and nothing else stands there; what is shown of other people's text
//! cannot steer a terminal.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use prost::{Message, Name};
use prost_reflect::DynamicMessage;
use serde::Serialize as _;

use crate::cli::connection::Session;
use crate::cli::{Done, Failed, print};
use crate::client::error::Failure;
use crate::wire::canon;

/// Widest cell of a table, in characters; only the last column may be longer.
const CELL_MAX: usize = 48;

/// Prints rows below their titles, the columns aligned.
pub(super) fn table<const N: usize>(titles: [&str; N], rows: &[[String; N]]) -> Done {
    let shown: Vec<[String; N]> = std::iter::once(titles.map(str::to_owned))
        .chain(rows.iter().cloned())
        .map(|row| {
            let mut at = 0;
            row.map(|cell| {
                at += 1;
                if at == N { plain(&cell) } else { short(&plain(&cell)) }
            })
        })
        .collect();
    let mut widths = [0_usize; N];
    for row in &shown {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &shown {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        print(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Prints names and values, one pair a line; what is empty is left out.
pub(super) fn pairs(pairs: &[(&str, String)]) -> Done {
    let said = || pairs.iter().filter(|(_, value)| !value.is_empty());
    let width = said().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in said() {
        print(&format!("{name:<width$}  {}", plain(value)))?;
    }
    Ok(())
}

/// Printable ASCII as it is, everything else escaped.
fn plain(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    let escape = |c: char| match c {
        ' '..='~' => c.to_string(),
        other => other.escape_default().to_string(),
    };
    text.chars().map(escape).collect()
}

fn short(text: &str) -> String {
    if text.chars().count() <= CELL_MAX {
        return text.to_owned();
    }
    let kept: String = text.chars().take(CELL_MAX.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Prints an answer as ProtoJSON, or lets `people` print it.
pub(super) fn show<M: Message + Name>(
    session: &Session,
    message: &M,
    people: impl FnOnce(&M) -> Done,
) -> Done {
    if session.json { Ok(print(&proto_json(message)?)?) } else { people(message) }
}

/// A message as one line of ProtoJSON.
pub(super) fn proto_json<M: Message + Name>(message: &M) -> Result<String, anyhow::Error> {
    let name = M::full_name();
    let descriptor = canon::descriptor(&name).with_context(|| format!("{name} is not known"))?;
    let message = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())?;
    let mut out = Vec::new();
    message.serialize(&mut serde_json::Serializer::new(&mut out))?;
    Ok(String::from_utf8(out)?)
}

/// A message from a file of ProtoJSON; `-` is stdin.
pub(super) fn read_message<M: Message + Name + Default>(path: &Path) -> Result<M, Failed> {
    let usage = |e: &dyn std::fmt::Display| Failed::Usage(format!("{}: {e}", path.display()));
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|e| usage(&e))?;
        text
    } else {
        std::fs::read_to_string(path).map_err(|e| usage(&e))?
    };
    let name = M::full_name();
    let descriptor = canon::descriptor(&name).with_context(|| format!("{name} is not known"))?;
    let mut json = serde_json::Deserializer::from_str(&text);
    let message = DynamicMessage::deserialize(descriptor, &mut json).map_err(|e| usage(&e))?;
    json.end().map_err(|e| usage(&e))?;
    message.transcode_to().map_err(|e| usage(&e))
}

/// A failed call as one object.
pub(super) fn failure_json(failure: &Failure) -> String {
    let violations = failure
        .violations
        .iter()
        .map(|v| serde_json::json!({ "field": v.field, "description": v.description }));
    serde_json::json!({ "error": {
        "reason": reason_name(failure),
        "code": format!("{:?}", failure.code),
        "message": failure.message,
        "violations": violations.collect::<Vec<_>>(),
        "metadata": failure.metadata,
    }})
    .to_string()
}

/// The reason as `ErrorInfo` spells it; none if the broker gave none.
fn reason_name(failure: &Failure) -> Option<&'static str> {
    let name = failure.reason?.as_str_name();
    Some(name.strip_prefix("REASON_").unwrap_or(name))
}

/// A failed call for a person: reason, message, every violation, every fact.
pub(super) fn failure_text(failure: &Failure) -> String {
    let mut text = failure.to_string();
    for (key, value) in &failure.metadata {
        text.push_str(&format!("\n  {key} = {value}"));
    }
    if let Some(wait) = failure.retry_after {
        text.push_str(&format!("\n  try again in {} ms", wait.as_millis()));
    }
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// A time in RFC 3339, or nothing.
pub(super) fn when(time: Option<&prost_types::Timestamp>) -> String {
    time.map(ToString::to_string).unwrap_or_default()
}

/// An enum's name without its prefix.
pub(super) fn word(name: &str, prefix: &str) -> String {
    match name.strip_prefix(prefix).unwrap_or(name) {
        "UNSPECIFIED" => String::new(),
        word => word.to_owned(),
    }
}

/// The bytes of a file that a flag names.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Failed> {
    std::fs::read(path).map_err(|e| Failed::Usage(format!("{}: {e}", path.display())))
}

/// `NAME=PATH`, split at the first `=`.
pub(super) fn named_path(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(path)))
        }
        _ => Err("give NAME=PATH".to_owned()),
    }
}

/// A length of time: `90s`, `15m`, `8h`, `2d`, or seconds alone.
pub(super) fn span(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, _)) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err("give a number with s, m, h or d, for example 15m".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "give a number first, as in 15m".to_owned())?;
    // Beyond this ProtoJSON cannot write it.
    let seconds = number.checked_mul(factor).filter(|s| *s <= 315_576_000_000);
    seconds.ok_or_else(|| "is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // A factor that is off by one unit gives an offer that ends at once, or never.
    #[test]
    fn lengths_of_time_have_a_unit() {
        assert_eq!((span("90"), span("90s"), span("15m")), (Ok(90), Ok(90), Ok(900)));
        assert_eq!((span("8h"), span("2d")), (Ok(28_800), Ok(172_800)));
        for bad in ["", "h", "1w", "-1s", "1.5h", "99999999999999999999", "9999999999d"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    // A name that another agent chose must not move the cursor of the operator who lists it.
    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(plain("\u{e4}\n"), "\\u{e4}\\n");
        assert_eq!(plain(""), "-");
    }
}
