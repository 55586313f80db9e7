//! The scanner, which finds the facts of a PTX text in its tokens.
//!
//! The scanner recognizes where directives, functions and their bodies start and end. It skips all
//! other text. Directives may come in any order, and instructions in any layout (PTX ISA,
//! "Syntax").
#![forbid(unsafe_code)]

use super::facts::{Demands, Module, Target};
use super::flow::{Flow, FlowEvent, Function};
use super::path::{Step, StepKind, is_use};
use super::shared::{Variable, type_bytes, vector, whole};
use super::tokens::{Token, Tokens};
use std::iter::Peekable;

/// The facts of a PTX text. They are empty for a text that is not PTX.
pub(crate) fn scan(ptx: &str) -> Module {
    let mut scanner = Scanner::new(ptx);
    scanner.run();
    Module::new(scanner.version, scanner.targets, scanner.flow.entries())
}

struct Scanner<'a> {
    tokens: Peekable<Tokens<'a>>,
    /// The number of open braces.
    depth: usize,
    /// The function whose body is open.
    open: Option<Function<'a>>,
    /// Whether the current instruction is executed only under a condition.
    is_guarded: bool,
    /// Whether the current declaration has `.extern`.
    is_extern: bool,
    version: Option<(u32, u32)>,
    targets: Vec<Target>,
    flow: Flow<'a>,
}

impl<'a> Scanner<'a> {
    fn new(ptx: &'a str) -> Self {
        Self {
            tokens: Tokens::new(ptx).peekable(),
            depth: 0,
            open: None,
            is_guarded: false,
            is_extern: false,
            version: None,
            targets: Vec::new(),
            flow: Flow::default(),
        }
    }

    fn run(&mut self) {
        while let Some(token) = self.tokens.next() {
            match token {
                Token::Mark(b'{') => self.depth += 1,
                Token::Mark(b'}') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.flow.functions.extend(self.open.take());
                    }
                }
                Token::Mark(b';') => (self.is_extern, self.is_guarded) = (false, false),
                Token::Mark(b'@') if self.open.is_some() => {
                    self.takes(b'!');
                    self.is_guarded = self.take_word().is_some();
                }
                Token::Dotted(".extern") => self.is_extern = true,
                Token::Dotted(".shared") => self.shared(),
                Token::Dotted(directive) if self.depth == 0 => self.outside(directive),
                Token::Word(word) if self.open.is_some() => self.word(word),
                Token::Dotted(_)
                | Token::Word(_)
                | Token::Number(_)
                | Token::Quoted
                | Token::Mark(_) => {}
            }
        }
        self.flow.functions.extend(self.open.take());
    }

    /// Takes the next token if it is this character.
    fn takes(&mut self, mark: u8) -> bool {
        self.tokens.next_if_eq(&Token::Mark(mark)).is_some()
    }

    fn take_word(&mut self) -> Option<&'a str> {
        let Some(Token::Word(word)) = self.tokens.peek().copied() else { return None };
        self.tokens.next();
        Some(word)
    }

    fn take_number(&mut self) -> Option<&'a str> {
        let Some(Token::Number(number)) = self.tokens.peek().copied() else { return None };
        self.tokens.next();
        Some(number)
    }

    fn take_small(&mut self) -> Option<u32> {
        u32::try_from(whole(self.take_number()?)?).ok()
    }

    /// Takes up to three numbers with commas between them. Missing numbers are 1.
    fn take_sides(&mut self) -> Option<[u32; 3]> {
        let mut sides = [self.take_small()?, 1, 1];
        for side in &mut sides[1..] {
            if !self.takes(b',') {
                break;
            }
            *side = self.take_small()?;
        }
        Some(sides)
    }

    /// After an opening parenthesis was taken, skips everything up to the matching closing
    /// parenthesis.
    fn skip_parentheses(&mut self) {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.tokens.next_if(|token| *token != Token::Mark(b'{')) {
                Some(Token::Mark(b'(')) => depth += 1,
                Some(Token::Mark(b')')) => depth -= 1,
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Reads a directive outside of functions.
    fn outside(&mut self, directive: &str) {
        match directive {
            ".version" => {
                let version = self.take_number().and_then(|number| {
                    let (major, minor) = number.split_once('.')?;
                    Some((major.parse().ok()?, minor.parse().ok()?))
                });
                self.version = self.version.or(version);
            }
            ".target" => {
                // Words about textures and debugging may follow the architecture.
                while let Some(word) = self.take_word() {
                    self.targets.extend(Target::read(word));
                    if !self.takes(b',') {
                        break;
                    }
                }
            }
            ".alias" => {
                if let Some(alias) = self.take_word()
                    && self.takes(b',')
                    && let Some(name) = self.take_word()
                {
                    self.flow.aliases.push((alias, name));
                }
            }
            ".entry" => self.function(true),
            ".func" => self.function(false),
            _ => {}
        }
    }

    /// Reads the head of a function, up to its body or the end of its declaration.
    fn function(&mut self, is_entry: bool) {
        let mut name = None;
        let mut demands = Demands::default();
        let has_body = loop {
            let Some(token) = self.tokens.next() else { break false };
            match token {
                Token::Mark(b'{') => break true,
                Token::Mark(b';') => break false,
                Token::Mark(b'(') => self.skip_parentheses(),
                Token::Word(word) => name = name.or(Some(word)),
                // The text of a `.pragma` ends with a semicolon, which does not end the head.
                Token::Dotted(".pragma") => {
                    while !self.takes(b';') && self.tokens.next().is_some() {}
                }
                Token::Dotted(".reqntid") => demands.block = self.take_sides(),
                Token::Dotted(".maxntid") => demands.block_max = self.take_sides(),
                Token::Dotted(".reqnctapercluster") => demands.cluster = self.take_sides(),
                Token::Dotted(".explicitcluster") => demands.gives_cluster = true,
                Token::Dotted(".maxclusterrank") => demands.cluster_max = self.take_small(),
                Token::Dotted(".blocksareclusters") => demands.grid_of_clusters = true,
                Token::Dotted(_) | Token::Number(_) | Token::Quoted | Token::Mark(_) => {}
            }
        };
        self.is_extern = false;
        let name = name.unwrap_or("");
        let function = Function { name, is_entry, demands, ..Function::default() };
        if has_body {
            self.depth = 1;
            self.open = Some(function);
        } else if !name.is_empty() {
            self.flow.functions.push(function);
        }
    }

    /// Reads a word in a body: an instruction with the parts of its name, or an operand.
    fn word(&mut self, word: &'a str) {
        if self.takes(b':') {
            return self.step(StepKind::Label(word));
        }
        let parts = self.parts();
        let has = |part| parts.contains(&part);
        let callee = if word == "call" { self.callee() } else { None };
        match word {
            "griddepcontrol" if has(".wait") => self.step(StepKind::Wait),
            "bra" => {
                let to = self.take_word();
                self.step(StepKind::Branch(to));
            }
            "brx" => self.step(StepKind::Branch(None)),
            "ret" | "exit" => self.step(StepKind::End),
            "trap" => self.step(StepKind::Trap),
            word if is_use(word, &parts) => {
                self.step(StepKind::Use(format!("{word}{}", parts.concat())));
            }
            _ => callee.into_iter().for_each(|callee| self.step(StepKind::Call(callee))),
        }
        let Some(function) = &mut self.open else { return };
        match word {
            "griddepcontrol" if has(".wait") => function.events.push(FlowEvent::Wait),
            "griddepcontrol" if has(".launch_dependents") => {
                function.events.push(FlowEvent::Trigger)
            }
            "call" => {
                if let Some(callee) = callee {
                    function.words.insert(callee);
                    function.events.push(FlowEvent::Call(callee));
                }
            }
            register if register.starts_with('%') => {}
            other => function.names(other),
        }
    }

    /// Reads the parts of the name of an instruction, such as `.global`. A part that begins with a
    /// digit, such as `.2d`, becomes two parts: `.` and `2d`.
    fn parts(&mut self) -> Vec<&'a str> {
        let mut parts = Vec::new();
        loop {
            if self.takes(b'.') {
                parts.push(".");
                parts.extend(self.take_number());
            } else if let Some(Token::Dotted(part)) = self.tokens.peek().copied() {
                self.tokens.next();
                parts.push(part);
            } else {
                return parts;
            }
        }
    }

    fn step(&mut self, kind: StepKind<'a>) {
        let is_guarded = self.is_guarded;
        if let Some(function) = &mut self.open {
            function.steps.push(Step { kind, is_guarded });
        }
    }

    /// Reads the target of a call. The target comes after the parameter for the result of the call.
    fn callee(&mut self) -> Option<&'a str> {
        if self.takes(b'(') {
            self.skip_parentheses();
            self.takes(b',');
        }
        self.take_word()
    }

    /// Reads the variables of a `.shared`, up to the end of their declaration.
    fn shared(&mut self) {
        let (mut align, mut lanes, mut bytes) = (None, 1, 0);
        while let Some(Token::Dotted(part)) = self.tokens.peek().copied() {
            self.tokens.next();
            if part == ".align" {
                align = self.take_number().and_then(whole);
            } else if let Some(count) = vector(part) {
                lanes = count;
            } else if let Some(count) = type_bytes(part) {
                bytes = count;
            } else if part == ".attribute" && self.takes(b'(') {
                self.skip_parentheses();
            }
        }
        let align = align.unwrap_or_else(|| lanes.saturating_mul(bytes));
        while let Some(name) = self.take_word() {
            let mut size = lanes.saturating_mul(bytes);
            while self.takes(b'[') {
                // `[]` has no size here: such memory is dynamic.
                size = size.saturating_mul(self.take_number().and_then(whole).unwrap_or(0));
                self.takes(b']');
            }
            let variable = Variable { name, bytes: size, align };
            if !self.is_extern {
                match &mut self.open {
                    Some(function) => function.shared.push(variable),
                    None => self.flow.shared.push(variable),
                }
            }
            if !self.takes(b',') {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
