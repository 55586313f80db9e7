//! The tokens of a PTX text, without its comments (PTX ISA, "Lexical Elements").
#![forbid(unsafe_code)]

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// The name of an instruction, a register, a variable, a function or a label.
    Word(&'a str),
    /// A directive, or a part of an instruction's name: `.entry`, `.global`, `.shared::cluster`.
    Dotted(&'a str),
    /// A number.
    Number(&'a str),
    /// A text between quotes.
    Quoted,
    /// Any other character.
    Mark(u8),
}

/// An iterator over the tokens of a text.
#[derive(Debug, Clone)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// The first offset at or after `at` with a byte that is not accepted.
    fn end(&self, at: usize, accepts: impl Fn(u8) -> bool) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or(&[]);
        at + rest.iter().position(|byte| !accepts(*byte)).unwrap_or(rest.len())
    }

    /// The offset after a comment that starts at `at`, if there is one.
    fn comment(&self, at: usize) -> Option<usize> {
        match (self.byte(at)?, self.byte(at + 1)?) {
            (b'/', b'/') => Some(self.end(at, |byte| byte != b'\n')),
            (b'/', b'*') => {
                let inside = self.text.as_bytes().get(at + 2..).unwrap_or(&[]);
                let length = inside.windows(2).position(|pair| pair == b"*/");
                Some(length.map_or(self.text.len(), |length| at + 2 + length + 2))
            }
            _ => None,
        }
    }

    /// The offset after a quoted text that starts at `at`. A quoted text ends at the end of its
    /// line at the latest.
    fn quoted(&self, at: usize) -> usize {
        let mut end = at + 1;
        while let Some(byte) = self.byte(end) {
            match byte {
                b'"' => return end + 1,
                b'\n' => return end,
                b'\\' if self.byte(end + 1).is_some_and(|next| next != b'\n') => end += 2,
                _ => end += 1,
            }
        }
        end
    }

    /// The offset after a dotted name. The parts of the name may be joined by `::`.
    fn dotted(&self, at: usize) -> usize {
        let mut end = self.end(at, continues);
        while self.text.as_bytes().get(end..end + 2) == Some(b"::")
            && self.byte(end + 2).is_some_and(continues)
        {
            end = self.end(end + 2, continues);
        }
        end
    }

    fn number(&self, at: usize) -> usize {
        let mut end = self.end(at, continues);
        if self.byte(end) == Some(b'.') && self.byte(end + 1).is_some_and(|b| b.is_ascii_digit()) {
            end = self.end(end + 1, continues);
        }
        end
    }
}

fn begins(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || b"_$%".contains(&byte)
}

fn continues(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$".contains(&byte)
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let at = self.end(self.at, |byte| byte.is_ascii_whitespace());
            match self.comment(at) {
                Some(end) => self.at = end,
                None => {
                    self.at = at;
                    break;
                }
            }
        }
        let at = self.at;
        let first = self.byte(at)?;
        // Names and numbers have ASCII characters only, so their ends are ends of characters.
        let text = |end: usize| self.text.get(at..end).unwrap_or("");
        let (end, token) = match first {
            b'"' => (self.quoted(at), Token::Quoted),
            b'.' if self.byte(at + 1).is_some_and(begins) => {
                let end = self.dotted(at + 1);
                (end, Token::Dotted(text(end)))
            }
            first if first.is_ascii_digit() => {
                let end = self.number(at);
                (end, Token::Number(text(end)))
            }
            first if begins(first) => {
                let end = self.end(at + 1, continues);
                (end, Token::Word(text(end)))
            }
            first => (at + 1, Token::Mark(first)),
        };
        self.at = end;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::Token::{Dotted, Mark, Number, Quoted, Word};
    use super::{Token, Tokens};

    fn tokens(text: &str) -> Vec<Token<'_>> {
        Tokens::new(text).collect()
    }

    #[test]
    fn instructions_and_directives_are_cut_at_their_dots() {
        let ld = [Word("ld"), Dotted(".global"), Dotted(".nc"), Dotted(".u32"), Word("%r1")];
        assert_eq!(tokens("ld.global.nc.u32 %r1"), ld);
        assert_eq!(tokens("ld .global .nc.u32\t%r1"), ld);
        assert_eq!(tokens(".version 8.0"), [Dotted(".version"), Number("8.0")]);
        assert_eq!(tokens("x[4];"), [Word("x"), Mark(b'['), Number("4"), Mark(b']'), Mark(b';')]);
        assert_eq!(tokens(".shared::cluster.b8"), [Dotted(".shared::cluster"), Dotted(".b8")]);
        assert_eq!(tokens("64.visible"), [Number("64"), Dotted(".visible")]);
    }

    #[test]
    fn comments_and_quoted_texts_have_no_tokens_of_their_own() {
        assert_eq!(tokens("a // b\nc"), [Word("a"), Word("c")]);
        assert_eq!(tokens("a /* b\n* / c */ d/**/e"), [Word("a"), Word("d"), Word("e")]);
        assert_eq!(tokens("a /* b"), [Word("a")]);
        assert_eq!(tokens("\"a // \\\" b\" c"), [Quoted, Word("c")]);
        assert_eq!(tokens("\"a\nb"), [Quoted, Word("b")]);
        assert_eq!(tokens("/"), [Mark(b'/')]);
    }

    #[test]
    fn other_characters_are_marks_and_never_cut_a_name_wrongly() {
        let found = tokens("naïve.ä é\"ü");
        assert_eq!(found.first(), Some(&Word("na")));
        assert_eq!(found.last(), Some(&Quoted));
    }
}
