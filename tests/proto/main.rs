//! The wire contracts: A2A as published, our own without silent change, and both by the rules.
//!
//! What lives here: comparison of descriptors with the fixtures, and the lint of `proto/`. What
//! does not: behaviour of any rpc. Invariant: what is compared is the descriptor set that the
//! program serves by reflection, not a second reading of the files; only comments need the files.

#![allow(clippy::expect_used, reason = "a test that cannot read its input has to stop")]

mod facts;
mod lint;

use std::path::{Path, PathBuf};

use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::FileDescriptorProto;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pool() -> DescriptorPool {
    DescriptorPool::decode(baton::proto::FILE_DESCRIPTOR_SET).expect("the served set is whole")
}

fn fixture(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(path)).unwrap_or_default();
    text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
}

/// The files of `proto/` with their comments.
fn files() -> Vec<FileDescriptorProto> {
    let mut paths = Vec::new();
    collect(&root().join("proto"), &mut paths);
    assert!(paths.len() > 1, "no protos found");
    let mut compiler = protox::Compiler::new([root().join("proto")]).expect("proto/ exists");
    compiler.include_source_info(true);
    compiler.open_files(paths).expect("the protos compile");
    compiler.file_descriptor_set().file
}

fn collect(dir: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder of protos") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|e| e == "proto") {
            paths.push(path);
        }
    }
}

/// A snippet compiled alone, as `baton/v1/sample.proto`.
fn sample(body: &str) -> FileDescriptorProto {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("baton/v1");
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("sample.proto");
    let text = format!("syntax = \"proto3\";\npackage baton.v1;\n{body}");
    std::fs::write(&path, text).expect("a file");
    let mut compiler = protox::Compiler::new([dir.path()]).expect("the folder exists");
    compiler.include_source_info(true);
    compiler.open_file(&path).expect("the sample compiles");
    compiler.file_descriptor_set().file.remove(0)
}

// In production: a stock A2A client reads a wrong field, or gets UNIMPLEMENTED for an rpc.
#[test]
fn a2a_contract_equals_the_published_one() {
    let published: Vec<String> = fixture("fixtures/a2a/published-1.0.1.txt")
        .into_iter()
        .filter(|line| !line.ends_with(" required"))
        .collect();
    assert!(published.iter().filter(|l| l.contains(" rpc ")).count() == 11, "fixture is cut");
    let ours = facts::of_package(&pool(), "lf.a2a.v1");
    let difference = facts::difference(&published, &ours);
    assert!(difference.is_empty(), "published -, ours +:\n{}", difference.join("\n"));
}

// In production: an adapter's author takes a field for optional that every peer must send.
#[test]
fn a2a_comments_say_required_where_the_published_contract_does() {
    let published: Vec<String> = fixture("fixtures/a2a/published-1.0.1.txt")
        .into_iter()
        .filter(|line| line.ends_with(" required"))
        .collect();
    let files = files();
    let file = files.iter().find(|f| f.package() == "lf.a2a.v1").expect("our declaration");
    let mut ours = Vec::new();
    for (m, message) in (0..).zip(&file.message_type) {
        for (f, field) in (0..).zip(&message.field) {
            let comment = lint::comment_at(file, &[4, m, 2, f]).unwrap_or_default();
            if comment.trim_start().starts_with("Required.") {
                ours.push(format!("lf.a2a.v1.{}.{} required", message.name(), field.name()));
            }
        }
    }
    let difference = facts::difference(&published, &ours);
    assert!(difference.is_empty(), "published -, ours +:\n{}", difference.join("\n"));
}

// In production: a renumbered field makes stored records and older clients read something else.
#[test]
fn baton_contract_changes_only_with_its_golden_file() {
    let path = "fixtures/proto/baton-v1.txt";
    let ours = facts::of_package(&pool(), "baton.v1");
    assert!(!ours.is_empty(), "no facts of baton.v1");
    if std::env::var("BATON_BLESS").is_ok_and(|v| v == "1") {
        let head = "# Facts of the wire contract baton.v1; tests/proto rewrites them with \
                    BATON_BLESS=1.\n# A changed or missing line is a change that peers and \
                    stored records notice.\n";
        std::fs::write(root().join(path), format!("{head}{}\n", ours.join("\n"))).expect("blessed");
    }
    let difference = facts::difference(&fixture(path), &ours);
    assert!(difference.is_empty(), "{path} -, proto/ +:\n{}", difference.join("\n"));
}

// In production: generated clients get clashing or unexplained names.
#[test]
fn protos_follow_the_lint_rules() {
    let findings: Vec<String> = files().iter().flat_map(lint::file).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

// In production: the lint above passes because it sees nothing.
#[test]
fn lint_finds_each_kind_of_violation() {
    let cases = [
        ("message Bare {}", "COMMENT: baton.v1.Bare"),
        ("// A.\nmessage A { string b = 1; }", "COMMENT: baton.v1.A.b"),
        ("// A.\nmessage A {\n oneof o {\n // B.\n string b = 1;\n }\n}", "COMMENT: baton.v1.A.o"),
        ("// A.\nmessage A {\n // B.\n string bigB = 1;\n}", "FIELD_LOWER_SNAKE_CASE"),
        ("// A.\nmessage a_b {}", "PASCAL_CASE: baton.v1.a_b"),
        ("// E.\nenum AbC {\n // Z.\n AB_C_NONE = 0;\n}", "ENUM_ZERO_VALUE_SUFFIX"),
        ("// E.\nenum AbC {\n // Z.\n AB_C_UNSPECIFIED = 0;\n ABC_X = 1;\n}", "ENUM_VALUE_PREFIX"),
        ("// E.\nenum E {\n // Z.\n E_UNSPECIFIED = 0;\n E_X = 1;\n}", "COMMENT: baton.v1.E.E_X"),
        (
            "// E.\nenum E {\n // Z.\n E_UNSPECIFIED = 0;\n E_x = 1;\n}",
            "ENUM_VALUE_UPPER_SNAKE_CASE",
        ),
        ("// S.\nservice Things {}", "SERVICE_SUFFIX"),
        ("service AService {}", "COMMENT: baton.v1.AService"),
        (
            "// A.\nmessage A {}\n// S.\nservice AService {\n // R.\n rpc Do(A) returns (A);\n}",
            "RPC_REQUEST_STANDARD_NAME",
        ),
        (
            "// A.\nmessage DoRequest {}\n// S.\nservice AService {\n // R.\n \
             rpc Do(DoRequest) returns (DoRequest);\n}",
            "RPC_RESPONSE_STANDARD_NAME",
        ),
    ];
    for (body, expected) in cases {
        let findings = lint::file(&sample(body));
        assert!(findings.iter().any(|f| f.starts_with(expected)), "{body}\n{findings:?}");
    }
    let mut misplaced = sample("");
    misplaced.name = Some("elsewhere/Sample.proto".to_owned());
    let findings = lint::file(&misplaced);
    assert!(findings.iter().any(|f| f.starts_with("PACKAGE_DIRECTORY_MATCH")), "{findings:?}");
    assert!(findings.iter().any(|f| f.starts_with("FILE_LOWER_SNAKE_CASE")), "{findings:?}");
}

// In production: the comparisons above pass because a change leaves no trace in the lines.
#[test]
fn facts_show_each_kind_of_change() {
    let base = "message A { string b = 1; }\nenum E { E_UNSPECIFIED = 0; }";
    let changed = [
        "message A { string b = 2; }\nenum E { E_UNSPECIFIED = 0; }",
        "message A { bytes b = 1; }\nenum E { E_UNSPECIFIED = 0; }",
        "message A { repeated string b = 1; }\nenum E { E_UNSPECIFIED = 0; }",
        "message A { optional string b = 1; }\nenum E { E_UNSPECIFIED = 0; }",
        "message A { oneof o { string b = 1; } }\nenum E { E_UNSPECIFIED = 0; }",
        "message A { string b = 1 [json_name = \"c\"]; }\nenum E { E_UNSPECIFIED = 0; }",
        "message A { string c = 1; }\nenum E { E_UNSPECIFIED = 0; }",
        "message A { reserved 4; string b = 1; }\nenum E { E_UNSPECIFIED = 0; }",
        "message A { string b = 1; }\nenum E { E_UNSPECIFIED = 0; E_X = 1; }",
    ];
    let facts = |body: &str| {
        let mut pool = DescriptorPool::new();
        pool.add_file_descriptor_proto(sample(body)).expect("a valid file");
        facts::of_package(&pool, "baton.v1")
    };
    for body in changed {
        assert!(!facts::difference(&facts(base), &facts(body)).is_empty(), "{body}");
    }
    let rpc = |signature: &str| format!("message A {{}}\nservice S {{ rpc Do{signature}; }}");
    let plain = facts(&rpc("(A) returns (A)"));
    let stream = facts(&rpc("(A) returns (stream A)"));
    assert!(!facts::difference(&plain, &stream).is_empty());
}
