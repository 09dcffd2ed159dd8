//! The two ways in which the command line speaks: data on stdout, talk on stderr.

/// Writes a line for a person, to stderr.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    // A closed stderr is no reason to fail.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes a line of data, to stdout.
///
/// # Errors
/// stdout is closed.
pub(crate) fn print(line: &str) -> Result<(), anyhow::Error> {
    use std::io::Write as _;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    Ok(())
}
