//! The principals file as operators write it, well and badly.
//!
//! What lives here: loading, refusing, authenticating and adding. What does not: calls over the
//! network.

use super::*;

/// A file with this text in a fresh folder.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("principals.toml");
    if !text.is_empty() {
        std::fs::write(&path, text).unwrap();
    }
    (folder, path)
}

fn entry(id: &str) -> (String, Entry) {
    let (token, token_sha256) = new_token().unwrap();
    (token, Entry { id: id.to_owned(), token_sha256, ..Entry::default() })
}

fn refused(text: &str) -> String {
    let (_folder, path) = file(text);
    let error = Principals::load(&path).unwrap_err().to_string();
    assert!(error.contains("principals.toml"), "{error}");
    error
}

// A token that is not found locks an agent out; one found for another lets it act as that other.
#[test]
fn a_token_leads_to_its_principal_and_no_other() {
    let (_folder, path) = file("");
    let (token, mut writer) = entry("agent:writer");
    writer.namespace = Some("team".to_owned());
    writer.account = Some("acme".to_owned());
    writer.roles = vec!["operator".to_owned()];
    writer.capabilities = vec!["write".to_owned()];
    append_principal(&path, writer).unwrap();
    let (other, reader) = entry("agent:reader");
    append_principal(&path, reader).unwrap();
    let principals = Principals::load(&path).unwrap();
    let caller = principals.authenticate(&token).unwrap();
    assert_eq!(caller.party.principal.as_str(), "agent:writer");
    assert_eq!((caller.party.account.as_str(), caller.namespace.as_str()), ("acme", "team"));
    assert!(caller.operator);
    assert_eq!(caller.capabilities.iter().map(Capability::as_str).collect::<Vec<_>>(), ["write"]);
    let caller = principals.authenticate(&other).unwrap();
    assert_eq!(caller.party.account, "agent:reader");
    assert_eq!(caller.namespace.as_str(), "default");
    assert!(!caller.operator && caller.capabilities.is_empty());
    for bad in
        ["", "baton_", &token[6..], &token[..69], &format!("{token}0"), &token.to_uppercase()]
    {
        assert!(principals.authenticate(bad).is_none(), "{bad}");
    }
    let directory = principals.directory();
    assert!(!directory.is_open());
    let known = directory.principal(&caller.namespace, &caller.party.principal).unwrap();
    assert_eq!(known.account, "agent:reader");
}

// Weak tokens, or one that repeats, would make the hash in the file worth guessing.
#[test]
fn tokens_are_random_and_recognisable() {
    let (token, digest) = new_token().unwrap();
    assert_eq!((token.len(), digest.len()), (70, 64));
    assert!(token.starts_with("baton_"));
    assert_eq!(digest, hex(&Sha256::digest(token.as_bytes())));
    assert_ne!(token, new_token().unwrap().0);
}

// An operator who is shown one problem at a time restarts the broker once for each.
#[test]
fn all_problems_are_told_with_principal_key_and_remedy() {
    let digest = "ab".repeat(32);
    let error = refused(&format!(
        "[[principal]]\nid = \"a b\"\nnamespace = \"Team\"\nroles = [\"root\"]\n\
         capabilities = [\"x y\"]\naccount = \"\"\ntoken_sha256 = \"12\"\n\
         [[principal]]\nid = \"baton:readback\"\ntoken_sha256 = \"{digest}\"\n\
         [[principal]]\nid = \"twice\"\ntoken_sha256 = \"{digest}\"\n\
         [[principal]]\nid = \"twice\"\ntoken_sha256 = \"{}\"\n",
        "cd".repeat(32)
    ));
    for part in [
        "\"a b\" (entry 1): id: PrincipalId",
        "\"a b\" (entry 1): namespace: Namespace \"Team\"",
        "\"a b\" (entry 1): roles: \"root\" is not a role; the only one is \"operator\"",
        "\"a b\" (entry 1): capabilities: Capability \"x y\"",
        "\"a b\" (entry 1): account: ",
        "\"a b\" (entry 1): token_sha256: it is not 64",
        "\"baton:readback\" (entry 2): id: names that begin",
        "\"twice\" (entry 3): token_sha256: another principal has the same",
        "\"twice\" (entry 4): id: it stands twice",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

// A misspelt key that is ignored gives a principal fewer or more rights than was written.
#[test]
fn files_of_another_form_are_refused_with_line_and_key() {
    let error = refused("[[principal]]\nid = \"a\"\nrole = \"operator\"\ntoken_sha256 = \"\"\n");
    assert!(error.contains("line 3") && error.contains("`role`"), "{error}");
    // A token that was put there by mistake must not reach the log.
    let error = refused("[[principal]]\nid = \"a\"\ntoken = \"baton_5ec\"\ntoken_sha256 = \"\"\n");
    assert!(error.contains("`token`") && !error.contains("5ec"), "{error}");
    let error = refused("[[principal]]\nid = \"a\"\ntoken_sha256 = \"baton_5ec\"\n");
    assert!(error.contains("token_sha256") && !error.contains("5ec"), "{error}");
    let error = refused("[[principal]]\nid = \"a\"\n");
    assert!(error.contains("token_sha256"), "{error}");
    assert!(refused("# nobody\n").contains("baton token new"));
    assert!(refused("").contains("cannot be read"));
}

// A file that is rewritten loses the operator's comments; one that is cut loses principals.
#[test]
fn adding_keeps_what_is_there_byte_for_byte() {
    let digest = "ab".repeat(32);
    let text = format!("# ours\n[[principal]] # first\nid = 'a'\ntoken_sha256 = \"{digest}\"");
    let (folder, path) = file(&text);
    let (token, new) = entry("b\u{7e}");
    append_principal(&path, new).unwrap();
    let after = std::fs::read_to_string(&path).unwrap();
    assert!(after.starts_with(&text), "{after}");
    assert!(Principals::load(&path).unwrap().authenticate(&token).is_some());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

// Two entries of one principal would leave open which of them counts.
#[test]
fn adding_twice_or_badly_changes_nothing() {
    let (folder, path) = file("");
    let (_, first) = entry("a");
    append_principal(&path, first).unwrap();
    let before = std::fs::read_to_string(&path).unwrap();
    for id in ["a", "not valid", "baton:x"] {
        let error = append_principal(&path, entry(id).1).unwrap_err();
        assert!(matches!(error, PrincipalsError::Entries { .. }), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

// Without the guard, the later of two writers would drop the other's entry.
#[test]
fn a_second_writer_is_kept_out() {
    let (folder, path) = file("");
    std::fs::write(folder.path().join("principals.toml.new"), "").unwrap();
    let error = append_principal(&path, entry("a").1).unwrap_err().to_string();
    assert!(error.contains("principals.toml.new") && error.contains("remove it"), "{error}");
    assert!(folder.path().join("principals.toml.new").exists());
}

// Hashes that others can read let them see who there is, and replace who is not.
#[cfg(unix)]
#[test]
fn rights_are_narrow_and_wide_ones_are_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = file("");
    append_principal(&path, entry("a").1).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(Principals::load(&path).unwrap().warnings().is_empty());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let warnings = Principals::load(&path).unwrap().warnings().to_vec();
    assert!(warnings[0].contains("0644") && warnings[0].contains("chmod 600"), "{warnings:?}");
}
