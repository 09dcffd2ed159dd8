//! The table of reasons as clients see it, and the bounds of an answer.
//!
//! What lives here: the golden table and the properties of the mapping. What does not: which
//! decision gives which reason. Invariant: the table holds every reason of `error.proto` once.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::*;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/errors.txt");
const HEADER: &str = "\
# Every reason that Baton refuses or fails a call with, as it travels. error.proto says cause and
# remedy. Details are those of a refusal that has them; `retry` says how long to wait, if known.
# reason | code | domain | details | retry
";

/// Every reason's status, with what its refusal carries where the core gives it.
fn every_status() -> Vec<Status> {
    let mut all: Vec<Status> = Reason::ALL
        .iter()
        .map(|reason| {
            let mut refusal = Refusal::new(*reason, "no").with("taskId", "t");
            let lists = [
                Reason::InvalidRequest,
                Reason::ContractInvalid,
                Reason::ScopeExceeded,
                Reason::ReceiptMismatch,
                Reason::ReadbackRequired,
                Reason::AcceptanceNotMet,
            ];
            if lists.contains(reason) {
                refusal = refusal.with_violations(violations(1, 8));
            }
            if *reason == Reason::ClaimHeld {
                refusal = refusal.retry_after(Span::from_secs(30));
            }
            status(&refusal.into(), "")
        })
        .collect();
    let problem = "malformed".to_owned();
    for denial in
        [Denial::Missing, Denial::Unknown, Denial::Metadata { key: "baton-principal", problem }]
    {
        all.push(denied(&denial));
    }
    for error in [
        Error::Overloaded,
        Error::Stopping,
        Error::OutcomeUnknown,
        Error::Damaged("secret".to_owned()),
        Error::Internal("secret".to_owned()),
    ] {
        all.push(status(&error, "r-1"));
    }
    all
}

fn violations(count: usize, chars: usize) -> Vec<Violation> {
    let one = |n| Violation { field: format!("f{n}"), description: "\u{e4}".repeat(chars) };
    (0..count).map(one).collect()
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().expect("every answer has one").reason
}

/// `NOT_FOUND` for `NotFound`.
fn code_name(code: Code) -> String {
    let mut name = String::new();
    for c in format!("{code:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

fn row(status: &Status) -> String {
    let details = status.get_error_details();
    let info = details.error_info().expect("every answer has one");
    let mut kinds = vec!["ErrorInfo"];
    if details.bad_request().is_some() {
        kinds.push("BadRequest");
    }
    let retry = details.retry_info().and_then(|r| r.retry_delay);
    if retry.is_some() {
        kinds.push("RetryInfo");
    }
    let retry = retry.map_or_else(|| "-".to_owned(), |wait| format!("{wait:?}"));
    let (reason, domain) = (&info.reason, &info.domain);
    let code = code_name(status.code());
    format!("{reason} | {code} | {domain} | {} | {retry}", kinds.join("+"))
}

/// What the status adds to the headers of an answer, by the count of HTTP/2: name, value and 32.
fn trailer_bytes(status: &Status) -> usize {
    let response = status.clone().into_http::<()>();
    response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

// A client that branches on code or reason breaks when either changes; this shows it in review.
#[test]
fn every_reason_travels_as_the_table_says() {
    let mut rows: Vec<(i32, String)> = every_status()
        .iter()
        .map(|status| {
            let name = format!("REASON_{}", reason(status));
            (pb::Reason::from_str_name(&name).expect(&name) as i32, row(status))
        })
        .collect();
    rows.sort();
    // Every value of error.proto but the first, once, without a gap.
    let numbers: Vec<i32> = rows.iter().map(|(number, _)| *number).collect();
    let known: Vec<i32> = (1..).take_while(|n| pb::Reason::try_from(*n).is_ok()).collect();
    assert_eq!(numbers, known);
    let mut table = HEADER.to_owned();
    for (_, row) in rows {
        writeln!(table, "{row}").unwrap();
    }
    if std::env::var_os("BATON_BLESS").is_some() {
        std::fs::write(GOLDEN, &table).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    assert_eq!(table, golden, "write fixtures/errors.txt anew with BATON_BLESS=1 if that is meant");
}

// The proto's comments are what adapter authors read; a code that differs from them misleads.
#[test]
fn codes_are_those_that_error_proto_promises() {
    let text = include_str!("../../../proto/baton/v1/error.proto");
    let (mut comment, mut promised) = (String::new(), BTreeMap::new());
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("//") {
            comment.push_str(words);
        } else {
            if let Some((name, _)) = line.strip_prefix("REASON_").and_then(|l| l.split_once(" = "))
            {
                promised.insert(name.to_owned(), comment.clone());
            }
            comment.clear();
        }
    }
    let codes: Vec<String> = (1..=16).map(|n| code_name(Code::from_i32(n))).collect();
    for status in every_status() {
        let name = reason(&status);
        let words: Vec<&str> = promised[&name]
            .split(|c: char| !c.is_ascii_uppercase() && c != '_')
            .filter(|word| codes.iter().any(|code| code == word))
            .collect();
        assert_eq!(words, [code_name(status.code())], "{name}");
    }
}

// Details above the limit of a client's HTTP/2 stack reach it as a broken connection, no reason.
#[test]
fn trailers_stay_below_8_kib_whatever_the_refusal_holds() {
    let wide = "\u{1f4c4}".repeat(2000);
    let mut refusal = Refusal::new(Reason::InvalidRequest, wide.clone())
        .with_violations(violations(5000, 2000))
        .retry_after(Span::from_secs(1));
    for key in ["aaaaaaaaaaaa", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] {
        refusal = refusal.with(key, &wide);
    }
    assert!(trailer_bytes(&status(&refusal.into(), "")) < 8192);
    for chars in [0, 1, 60, 100, 200, 512, 513] {
        for metadata in [false, true] {
            let mut refusal = Refusal::new(Reason::InvalidRequest, "\" ".repeat(256))
                .with_violations(violations(40, chars));
            if metadata {
                refusal = refusal.with("taskId", &wide).with("handoffId", &wide);
            }
            let bytes = trailer_bytes(&status(&refusal.into(), ""));
            assert!(bytes < 8192, "{bytes} bytes with findings of {chars}");
        }
    }
}

// Findings that vanish silently make a caller correct some, resend, and be refused again.
#[test]
fn findings_that_are_left_out_are_counted() {
    let refusal = Refusal::new(Reason::ContractInvalid, "the contract lacks something")
        .with_violations(violations(40, 10));
    let status = status(&refusal.clone().into(), "");
    let details = status.get_error_details();
    assert_eq!(details.bad_request().unwrap().field_violations.len(), VIOLATIONS_MAX);
    assert_eq!(details.error_info().unwrap().metadata["violationsLeftOut"], "8");
    assert!(status.message().ends_with("(8 more findings are left out)"), "{}", status.message());
    // Who collected them kept 40 of 3000.
    let status = super::status(&refusal.with("violations", 3000).into(), "");
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.metadata["violationsLeftOut"], "2968");
}

// A stranger who can tell "not there" from "not yours" learns which ids exist.
#[test]
fn unknown_and_invisible_give_the_same_bytes() {
    use crate::core::{id::TaskId, party};
    let id = TaskId::parse("018f4e9a-7b2c-7d3e-8f10-2a3b4c5d6e7f").unwrap();
    let unknown = status(&party::no_such_task(&id).into(), "r-1").into_http::<()>();
    let invisible = status(&party::no_such_task(&id).into(), "r-2").into_http::<()>();
    assert_eq!(unknown.headers(), invisible.headers());
}

// A path, a key or a cause in an answer tells an attacker how the broker is built.
#[test]
fn faults_and_damage_show_the_request_id_and_nothing_of_the_inside() {
    for error in [Error::Internal("secret".to_owned()), Error::Damaged("secret".to_owned())] {
        let status = status(&error, "r-1");
        let info = status.get_details_error_info().unwrap();
        assert_eq!(info.metadata, HashMap::from([("requestId".to_owned(), "r-1".to_owned())]));
        let bytes = String::from_utf8_lossy(status.details()).into_owned();
        assert!(!status.message().contains("secret") && !bytes.contains("secret"));
    }
}

// A wait that has passed must not become one of centuries.
#[test]
fn a_wait_is_never_negative() {
    let refusal = Refusal::new(Reason::ClaimHeld, "held").retry_after(Span::from_secs(-1));
    let status = status(&refusal.into(), "");
    assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(Duration::ZERO));
}
