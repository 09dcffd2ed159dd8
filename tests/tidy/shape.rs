//! The shape of a file: sizes, width, characters, and its opening.
//!
//! What lives here: limits that one can count. What does not: names and imports. Invariant: every
//! limit is a constant with its unit and reason.

use crate::source::{Source, block_end, code, line_of, name_at, without_tests, words};

/// Lines of a file; more is more than one subject.
const FILE_LINES_MAX: usize = 600;
/// Lines of a function, from `fn` to its brace; more does not fit on a screen.
const FUNCTION_LINES_MAX: usize = 70;
/// Characters of a line; the formatter's width, which it does not hold in comments and strings.
const LINE_CHARS_MAX: usize = 100;

/// Findings of one Rust file.
pub(crate) fn check(source: Source<'_>) -> Vec<String> {
    let mut findings = lines(source);
    if !source.text.trim_start().starts_with("//!") {
        findings.push(source.at(1, "a module opens with `//!`: what lives here, what does not"));
    }
    let count = source.text.lines().count();
    if count > FILE_LINES_MAX {
        findings.push(source.at(count, &format!("{count} lines, at most {FILE_LINES_MAX}")));
    }
    if !is_test_file(source.path) {
        findings.extend(functions(source));
    }
    findings
}

/// Findings of the lines of any source file, Rust or not.
pub(crate) fn lines(source: Source<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        if !line.is_ascii() {
            findings.push(source.at(at + 1, "a character outside of ASCII"));
        }
        let width = line.chars().count();
        if width > LINE_CHARS_MAX {
            findings.push(source.at(at + 1, &format!("{width} wide, at most {LINE_CHARS_MAX}")));
        }
    }
    findings
}

fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.ends_with("/test.rs") || path.ends_with("/tests.rs")
}

fn functions(source: Source<'_>) -> Vec<String> {
    let code = without_tests(&code(source.text));
    let mut findings = Vec::new();
    for at in words(&code, "fn ") {
        let Some(end) = block_end(&code, at) else {
            continue;
        };
        let (first, last) = (line_of(&code, at), line_of(&code, end));
        let count = last - first + 1;
        if count > FUNCTION_LINES_MAX {
            let name = name_at(&code, at + "fn ".len());
            let what = format!("`{name}` has {count} lines, at most {FUNCTION_LINES_MAX}");
            findings.push(source.at(first, &what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(Source { path, text }).len()
    }

    #[test]
    fn each_limit_can_be_broken() {
        assert_eq!(count("src/a.rs", "//! A.\nfn a() {}\n"), 0);
        assert_eq!(count("src/a.rs", "fn a() {}\n"), 1, "no opening");
        assert_eq!(count("src/a.rs", "//! A.\n// \u{e9}\n"), 1, "not ASCII");
        let wide = format!("//! A.\n// {}\n", "x".repeat(LINE_CHARS_MAX - 2));
        assert_eq!(count("src/a.rs", &wide), 1, "too wide");
        let long = format!("//! A.\n{}", "\n".repeat(FILE_LINES_MAX));
        assert_eq!(count("src/a.rs", &long), 1, "too long");
    }

    #[test]
    fn functions_are_counted_by_their_braces() {
        let body = |lines: usize| {
            format!("//! A.\nfn a(x: [u8; 2]) {{\n{}}}\nfn b() {{}}\n", "//\n".repeat(lines))
        };
        assert_eq!(count("src/a.rs", &body(FUNCTION_LINES_MAX - 2)), 0);
        assert_eq!(count("src/a.rs", &body(FUNCTION_LINES_MAX - 1)), 1);
        let inner = body(FUNCTION_LINES_MAX).replace("//! A.\n", "");
        let tests = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{inner}}}\n");
        assert_eq!(count("src/a.rs", &tests), 0, "test modules may be longer");
    }
}
