//! Rust text made fit for simple searches.
//!
//! What lives here: blanking of comments, literals and test modules, and finding of words and
//! blocks. What does not: rules. Invariant: blanking keeps every newline and replaces every other
//! character by one space, so that a line number found in the blanked text is one of the file.

/// One source file: its path from the package root, with `/`, and its text.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    /// The room that the file belongs to: `core` for `src/core/task.rs`, `config` for
    /// `src/config.rs`; empty outside of `src/` and for the two roots.
    pub(crate) fn room(&self) -> &str {
        let Some(inside) = self.path.strip_prefix("src/") else {
            return "";
        };
        match inside.split('/').next().unwrap_or_default().trim_end_matches(".rs") {
            "lib" | "main" => "",
            room => room,
        }
    }

    /// A finding at a line, counted from 1.
    pub(crate) fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// The text with comments and the content of string and character literals blanked.
pub(crate) fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = opaque_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Where the comment or literal that begins here ends; `at` itself if none begins here.
fn opaque_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied().unwrap_or(' ');
    match chars[at] {
        '/' if next == '/' => find(chars, at, |c| c == '\n'),
        '/' if next == '*' => block_comment_end(chars, at),
        '"' => string_end(chars, at + 1),
        '\'' if next == '\\' => (find(chars, at + 3, |c| c == '\'') + 1).min(chars.len()),
        '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
        'r' if !at.checked_sub(1).is_some_and(|b| is_word(chars[b]) && chars[b] != 'b') => {
            raw_string_end(chars, at)
        }
        _ => at,
    }
}

fn find(chars: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|at| stop(chars[*at])).unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (at, depth) = (at + 2, depth + 1),
            ('*', '/') => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], from: usize) -> usize {
    let open = find(chars, from + 1, |c| c != '#');
    if chars.get(open) != Some(&'"') {
        return from;
    }
    let hashes = open - from - 1;
    (open + 1..chars.len())
        .find(|at| {
            chars[*at] == '"'
                && chars.iter().skip(at + 1).take(hashes).filter(|c| **c == '#').count() == hashes
        })
        .map_or(chars.len(), |at| at + 1 + hashes)
}

/// Blanked code without test modules (`#[cfg(test)] mod ... { }`) and property blocks.
pub(crate) fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    for opening in ["#[cfg(test)]", "proptest! {"] {
        let mut from = 0;
        while let Some(start) = out[from..].find(opening).map(|at| from + at) {
            let end = block_end(&out, start + opening.len() - 1).unwrap_or(start + 1);
            let blank: String =
                out[start..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
            out.replace_range(start..end, &blank);
            from = end;
        }
    }
    out
}

/// The end of the first `{ }` block at or after `from`; of the item, if a `;` outside of brackets
/// comes before any block.
pub(crate) fn block_end(code: &str, from: usize) -> Option<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (at, c) in code.char_indices().filter(|(at, _)| *at >= from) {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if braces == 0 && brackets == 0 => return Some(at + 1),
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Line number, from 1, of a byte position.
pub(crate) fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// Byte positions at which `word` stands alone, not as a part of a longer name.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let closed = word.ends_with(|c| !is_word(c)) || !after.is_some_and(is_word);
        !before.is_some_and(is_word) && closed
    })
}

/// The name that begins at a byte position; empty if none does.
pub(crate) fn name_at(code: &str, at: usize) -> &str {
    let rest = &code[at..];
    &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[test]
fn blanking_hides_text_and_keeps_lines() {
    let text = "let a = \"x\\\"{\"; // b {\n/* c /* d */ { */ let e = 'f'; let g: &'static str;\n\
                let h = r#\"i\"{\"#; let j = '\\''; let k = br\"{\"; for l in m {}";
    let blank = code(text);
    assert!(!blank.replace("m {}", "").contains('{'), "{blank}");
    assert!(!blank.contains('f') || !blank.contains("'f'"), "{blank}");
    for kept in ["let a", "let e", "&'static str", "let h", "let j", "let k", "for l"] {
        assert!(blank.contains(kept), "{kept} in {blank}");
    }
    assert_eq!(blank.lines().count(), text.lines().count());
}

#[test]
fn test_modules_are_cut_out() {
    let cut = without_tests("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}");
    assert!(cut.contains("fn a") && cut.contains("fn c") && !cut.contains("fn b"), "{cut}");
    let cut = without_tests("#[cfg(test)]\nmod tests;\nfn c() {}");
    assert!(cut.contains("fn c"), "{cut}");
}
