//! A scanner that separates code from comments and literals.
//!
//! `mask` keeps every byte offset: comments become spaces and literals become runs of `"`, so a
//! position in the masked text is a position in the file. Line breaks survive inside both.

/// Copies `text` with comments blanked and string and character literals filled with `"`.
pub(crate) fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (end, fill) = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => (line_end(bytes, at), b' '),
            b'/' if bytes[at..].starts_with(b"/*") => (block_comment_end(bytes, at), b' '),
            b'"' => (string_end(bytes, at + 1), b'"'),
            b'\'' => (char_end(text, at), b'"'),
            b'r' | b'b' | b'c' if at == 0 || !is_word(bytes[at - 1]) => {
                (prefixed_end(bytes, at), b'"')
            }
            _ => (at, b' '),
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = fill;
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8(out).expect("whole characters are replaced by ASCII")
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| at + n)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// The end of a string whose first byte of content is at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a character literal, or `at` when the quote starts a lifetime or a label.
fn char_end(text: &str, at: usize) -> usize {
    let mut rest = text[at + 1..].chars();
    match rest.next() {
        Some('\\') => {
            let bytes = text.as_bytes();
            let close = bytes.iter().skip(at + 3).position(|&b| b == b'\'');
            close.map_or(bytes.len(), |n| at + 3 + n + 1)
        }
        Some(c) if rest.next() == Some('\'') => at + 1 + c.len_utf8() + 1,
        _ => at,
    }
}

/// The end of a literal such as `r#"x"#`, `b"x"`, `br"x"`, `c"x"`, `b'x'`; `at` if it is a word.
fn prefixed_end(bytes: &[u8], at: usize) -> usize {
    let letters = bytes[at..].iter().take_while(|b| matches!(b, b'r' | b'b' | b'c')).count();
    let raw = bytes[at..at + letters].contains(&b'r');
    let mut quote = at + letters;
    let hashes = bytes[quote..].iter().take_while(|&&b| b == b'#').count();
    quote += hashes;
    match bytes.get(quote) {
        Some(b'"') if raw => {
            let mut close = vec![b'"'];
            close.resize(1 + hashes, b'#');
            let length = close.len();
            let found = bytes[quote + 1..].windows(length).position(|window| window == close);
            found.map_or(bytes.len(), |n| quote + 1 + n + length)
        }
        Some(b'"') if hashes == 0 => string_end(bytes, quote + 1),
        _ => at,
    }
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The line of a byte offset, counted from one.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count()
}

/// The offsets of `needle` in masked code, where neither side continues a word of the needle.
pub(crate) fn occurrences(code: &str, needle: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    let first = needle.as_bytes()[0];
    let last = needle.as_bytes()[needle.len() - 1];
    let joins = |a: u8, b: u8| is_word(a) && is_word(b);
    code.match_indices(needle)
        .map(|(at, _)| at)
        .filter(|&at| at == 0 || !joins(bytes[at - 1], first))
        .filter(|&at| bytes.get(at + needle.len()).is_none_or(|&next| !joins(last, next)))
        .collect()
}

/// The identifier at `at`, or the empty string.
pub(crate) fn ident_at(code: &str, at: usize) -> &str {
    let rest = &code[at..];
    let length = rest.bytes().take_while(|&b| is_word(b)).count();
    &rest[..length]
}

/// The first offset at or after `at` that is no white space.
pub(crate) fn skip_space(code: &str, at: usize) -> usize {
    code.len() - code[at..].trim_start().len()
}

/// The offset of the `}` that closes the `{` at `open`, or the end of the text.
pub(crate) fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (n, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return n;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// A `mod name` in masked code: `body` spans the braces of an inline module.
pub(crate) struct Module<'a> {
    pub(crate) name: &'a str,
    pub(crate) at: usize,
    pub(crate) body: Option<(usize, usize)>,
}

pub(crate) fn modules(code: &str) -> Vec<Module<'_>> {
    let mut found = Vec::new();
    for at in occurrences(code, "mod") {
        let start = skip_space(code, at + "mod".len());
        let raw = if code[start..].starts_with("r#") { start + 2 } else { start };
        let name = ident_at(code, raw);
        let next = skip_space(code, raw + name.len());
        match code.as_bytes().get(next) {
            Some(b';') if !name.is_empty() => found.push(Module { name, at, body: None }),
            Some(b'{') if !name.is_empty() => {
                found.push(Module { name, at, body: Some((next, closing_brace(code, next))) });
            }
            _ => {}
        }
    }
    found
}

/// The end of the production part of a file: the start of a trailing `#[cfg(test)] mod`, if any.
pub(crate) fn production_end(code: &str) -> usize {
    for module in modules(code) {
        let Some((_, close)) = module.body else { continue };
        if code[close..].trim_start_matches('}').trim().is_empty() {
            let attributes = attributes_before(code, module.at);
            if code[attributes..module.at].contains("cfg(")
                && !occurrences(&code[attributes..module.at], "test").is_empty()
            {
                return attributes;
            }
        }
    }
    code.len()
}

/// The start of the attribute lines directly above the line of `at`.
pub(crate) fn attributes_before(code: &str, at: usize) -> usize {
    let mut start = code[..at].rfind('\n').map_or(0, |n| n + 1);
    while start > 0 {
        let above = code[..start - 1].rfind('\n').map_or(0, |n| n + 1);
        if !code[above..start].trim_start().starts_with("#[") {
            break;
        }
        start = above;
    }
    start
}

/// Replaces a part of the code by spaces. Line breaks stay, and so do offsets.
pub(crate) fn blank(code: String, start: usize, end: usize) -> String {
    let mut bytes = code.into_bytes();
    for byte in &mut bytes[start..end] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
    String::from_utf8(bytes).expect("whole characters are replaced by ASCII")
}

/// Blanks every item that only tests compile: items under a `#[cfg(..)]` that names `test`.
pub(crate) fn blank_tests(code: &str) -> String {
    let mut left = code.to_owned();
    for at in occurrences(code, "#[cfg(") {
        let Some(length) = code[at..].find(']') else { continue };
        let condition = &code[at..at + length];
        if !occurrences(condition, "test").is_empty() && !condition.contains("not(test") {
            left = blank(left, at, item_end(code, at + length + 1));
        }
    }
    left
}

/// The end of the item at `at`: after its closing brace or its semicolon.
fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0_i32;
    let mut is_use = false;
    for (n, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 && !is_use => return (closing_brace(code, n) + 1).min(code.len()),
            b';' if depth == 0 => return n + 1,
            b'u' if ident_at(code, n) == "use" => is_use = true,
            _ => {}
        }
    }
    code.len()
}

#[test]
fn items_of_tests_are_blanked() {
    let text = "fn a() {}\n#[cfg(test)]\n#[path = \"t.rs\"]\nmod tests;\n\
                #[cfg(all(test, loom))]\nmod more { fn b() {} }\n\
                #[cfg(not(test))]\nfn c() {}\n#[cfg(test)]\nuse d::{e, f};\nfn g() {}\n";
    let left = blank_tests(&mask(text));
    let words: Vec<&str> = left.split_whitespace().collect();
    assert_eq!(
        words,
        ["fn", "a()", "{}", "#[cfg(not(test))]", "fn", "c()", "{}", "fn", "g()", "{}"]
    );
    assert_eq!(left.len(), text.len());
}

#[test]
fn mask_hides_comments_and_literals_and_keeps_offsets() {
    let text =
        "a /* x /* y */ z */ b // c\n\"d\\\"{\" r#\"e\"{\"# b'{' '\\'' '{' 'ü' <'f> br\"{\" g";
    let code = mask(text);
    assert_eq!(code.len(), text.len());
    assert!(!code.contains('{'), "{code}");
    let words: Vec<&str> = code.split([' ', '\n']).filter(|word| !word.is_empty()).collect();
    let kept: Vec<&str> = words.into_iter().filter(|word| !word.contains('"')).collect();
    assert_eq!(kept, ["a", "b", "<'f>", "g"]);
}

#[test]
fn mask_keeps_raw_identifiers_and_words_ending_in_prefix_letters() {
    assert_eq!(mask("r#fn b c"), "r#fn b c");
    assert_eq!(mask("expr\"x\" brr"), "expr\"\"\" brr");
}

#[test]
fn production_ends_before_a_trailing_test_module_only() {
    let trailing = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
    assert_eq!(production_end(trailing), 11);
    let middle = "#[cfg(test)]\nmod tests {\n}\nfn a() {}\n";
    assert_eq!(production_end(middle), middle.len());
    let plain = "mod a {\n}\n";
    assert_eq!(production_end(plain), plain.len());
}

#[test]
fn occurrences_respect_word_borders() {
    assert_eq!(occurrences("eprint!( print!( unsafe_code unsafe", "print!("), [9]);
    assert_eq!(occurrences("unsafe_code unsafe", "unsafe"), [12]);
}
