//! Reads the syntax of RE2/J 1.8 and writes the same expression for the `regex` crate, over ASCII.
//!
//! What is written consists of few forms, none of which depends on flags or options: classes of bytes (`[\x61-\x7a]`), groups without
//! capture, `|`, `{n,m}` and its like, and assertions. So nothing of the other syntax can slip in. Whether repetitions are greedy plays
//! no part for a match of the whole name.
//!
//! | RE2/J | written |
//! |---|---|
//! | a character, an escape, `\Q…\E`, `.`, `[…]`, `\d`, `\pL`, `[:alpha:]` | the class of what it has of ASCII, with both cases under `(?i)` |
//! | `(…)`, `(?:…)`, `(?P<n>…)`, `(?<n>…)`, `(?i:…)` | `(?:…)` |
//! | `^`, `$`, `\A`, `\z`, `\b`, `\B` | `\A`, `\z`, or `(?m:^)`, `(?m:$)` under `(?m)`; `\b`, `\B` of ASCII |
//!
//! Quirks of RE2/J are kept: `a(?i)*` repeats `a`, and after a `{` that is no repetition and so stands for itself no repetition may
//! follow.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::classes::{self, AsciiSet};

/// How deep groups may nest. Kafka's limit is the stack of its thread.
pub(super) const MAX_DEPTH: usize = 40;

/// The most that a repetition may say.
const MAX_REPEAT: u32 = 1000;

/// Why a pattern is none, in RE2/J's words.
type Reason = &'static str;

const INVALID_RANGE: Reason = "invalid character class range";
const INVALID_ESCAPE: Reason = "invalid escape sequence";
const INVALID_NAME: Reason = "invalid named capture";
const INVALID_PERL: Reason = "invalid or unsupported Perl syntax";
const MISSING_BRACKET: Reason = "missing closing ]";
/// What RE2/J says of a `)` without its `(`.
const UNBALANCED: Reason = "regexp/syntax: internal error";

/// The flags that change what matches. `U` (ungreedy) is read and forgotten.
#[derive(Clone, Copy, Default)]
struct Flags {
    /// `i`
    fold_case: bool,
    /// `m`
    multi_line: bool,
    /// `s`
    dot_matches_newline: bool,
}

/// A group under way, or the whole expression.
#[derive(Default)]
struct Group {
    /// In force when it was opened, and again once it is closed.
    flags: Flags,
    /// What was written before the item that a repetition would apply to.
    before: String,
    /// That item; there is none at the start and after `|`.
    item: Option<String>,
}

impl Group {
    fn push(&mut self, item: String) {
        let before = self.item.replace(item);
        self.before.push_str(before.as_deref().unwrap_or_default());
    }

    fn finish(self) -> String {
        self.before + self.item.as_deref().unwrap_or_default()
    }
}

struct Parser<'a> {
    /// What is still to be read.
    rest: &'a str,
    flags: Flags,
    /// The outermost is the whole expression.
    groups: Vec<Group>,
    names: BTreeSet<&'a str>,
}

/// The expression for the `regex` crate.
pub(super) fn translate(pattern: &str) -> Result<String, Reason> {
    let mut parser =
        Parser { rest: pattern, flags: Flags::default(), groups: vec![Group::default()], names: BTreeSet::new() };
    // Whether a repetition was just read, or a brace that might have begun one.
    let mut repeated = false;
    while let Some(next) = parser.rest.chars().next() {
        repeated = parser.step(next, repeated)?;
    }
    match parser.groups.pop() {
        Some(whole) if parser.groups.is_empty() => Ok(whole.finish()),
        _ => Err("missing closing )"),
    }
}

impl<'a> Parser<'a> {
    /// Reads one piece, beginning with `next`. True if it was a repetition.
    fn step(&mut self, next: char, repeated: bool) -> Result<bool, Reason> {
        match next {
            '(' if self.rest.starts_with("(?") => self.perl_group()?,
            '(' => {
                self.skip(1);
                self.open(self.flags)?;
            }
            '|' => {
                self.skip(1);
                let group = self.group();
                let before = group.item.take().unwrap_or_default();
                group.before.push_str(&before);
                group.before.push('|');
            }
            ')' => {
                self.skip(1);
                self.close()?;
            }
            '^' => {
                self.skip(1);
                self.push(if self.flags.multi_line { "(?m:^)" } else { r"\A" });
            }
            '$' => {
                self.skip(1);
                self.push(if self.flags.multi_line { "(?m:$)" } else { r"\z" });
            }
            '.' => {
                self.skip(1);
                let newline = if self.flags.dot_matches_newline { AsciiSet::EMPTY } else { AsciiSet::of(b"\n") };
                self.push_set(newline.not());
            }
            '[' => {
                let set = self.class()?;
                self.push_set(set);
            }
            '*' | '+' | '?' => {
                self.skip(1);
                self.repeat(next.encode_utf8(&mut [0; 4]), repeated)?;
                return Ok(true);
            }
            '{' => {
                match self.repetition()? {
                    Some(repetition) => self.repeat(&repetition, repeated)?,
                    None => {
                        self.skip(1);
                        self.push_literal('{');
                    }
                }
                return Ok(true);
            }
            '\\' => self.backslash()?,
            literal => {
                self.skip(literal.len_utf8());
                self.push_literal(literal);
            }
        }
        Ok(false)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    /// Reads one character.
    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.skip(next.len_utf8());
        Some(next)
    }

    /// Reads `text` if it comes next.
    fn accept(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn group(&mut self) -> &mut Group {
        self.groups.last_mut().expect("the whole expression is a group that stays")
    }

    fn push(&mut self, item: &str) {
        self.group().push(item.to_string());
    }

    fn push_set(&mut self, set: AsciiSet) {
        let mut item = String::from("[");
        for (first, last) in set.ranges() {
            write!(item, r"\x{first:02x}-\x{last:02x}").expect("a string takes it");
        }
        // A class of nothing has a form of its own.
        item.push_str(if set == AsciiSet::EMPTY { "a&&b]" } else { "]" });
        self.group().push(item);
    }

    fn push_literal(&mut self, literal: char) {
        self.push_set(self.between(literal, literal));
    }

    /// What of ASCII lies between two characters, or is another case of what does.
    fn between(&self, first: char, last: char) -> AsciiSet {
        let set = AsciiSet::between(first, last);
        if !self.flags.fold_case {
            return set;
        }
        // Two characters beyond ASCII have their other case in it: the long s, and the sign for Kelvin.
        let long_s = if (first..=last).contains(&'\u{17f}') { AsciiSet::of(b"s") } else { AsciiSet::EMPTY };
        let kelvin = if (first..=last).contains(&'\u{212a}') { AsciiSet::of(b"k") } else { AsciiSet::EMPTY };
        set.or(long_s).or(kelvin).folded()
    }

    fn open(&mut self, flags_within: Flags) -> Result<(), Reason> {
        if self.groups.len() > MAX_DEPTH {
            return Err("expression nests too deeply");
        }
        self.groups.push(Group { flags: self.flags, ..Group::default() });
        self.flags = flags_within;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Reason> {
        if self.groups.len() == 1 {
            return Err(UNBALANCED);
        }
        let group = self.groups.pop().expect("there is more than one");
        self.flags = group.flags;
        let item = format!("(?:{})", group.finish());
        self.group().push(item);
        Ok(())
    }

    /// `(?…`: a group with a name, a group with flags, or flags for what follows in this group.
    fn perl_group(&mut self) -> Result<(), Reason> {
        for opening in ["(?P<", "(?<"] {
            if self.accept(opening) {
                let (name, rest) = self.rest.split_once('>').ok_or(INVALID_NAME)?;
                if name.is_empty() || !name.bytes().all(|byte| AsciiSet::WORD.contains(byte)) {
                    return Err(INVALID_NAME);
                }
                self.rest = rest;
                self.open(self.flags)?;
                return if self.names.insert(name) { Ok(()) } else { Err("duplicate capture group name") };
            }
        }
        self.skip(2);
        let mut flags = self.flags;
        let mut on = true;
        let mut complete = true;
        loop {
            match self.next() {
                Some('i') => flags.fold_case = on,
                Some('m') => flags.multi_line = on,
                Some('s') => flags.dot_matches_newline = on,
                Some('U') => {}
                Some('-') if on => {
                    on = false;
                    complete = false;
                    continue;
                }
                Some(':') if complete => return self.open(flags),
                Some(')') if complete => {
                    self.flags = flags;
                    return Ok(());
                }
                _ => return Err(INVALID_PERL),
            }
            complete = true;
        }
    }

    /// `{n}`, `{n,}` or `{n,m}`; `None` for a brace that stands for itself.
    fn repetition(&mut self) -> Result<Option<String>, Reason> {
        let Some((inside, rest)) = self.rest[1..].split_once('}') else {
            return Ok(None);
        };
        let (least, most) = match inside.split_once(',') {
            None => (number(inside), number(inside)),
            Some((least, "")) => (number(least), Some(0)),
            Some((least, most)) => (number(least), number(most)),
        };
        let (Some(least), Some(most)) = (least, most) else {
            return Ok(None);
        };
        let open = inside.ends_with(',');
        if least > MAX_REPEAT || most > MAX_REPEAT || (!open && least > most) {
            return Err("invalid repeat count");
        }
        self.rest = rest;
        Ok(Some(format!("{{{inside}}}")))
    }

    /// Has the item before repeated; it may be an assertion or empty.
    fn repeat(&mut self, repetition: &str, repeated: bool) -> Result<(), Reason> {
        self.accept("?");
        if repeated {
            return Err("invalid nested repetition operator");
        }
        let item = self.group().item.as_mut().ok_or("missing argument to repetition operator")?;
        *item = format!("(?:{item}){repetition}");
        Ok(())
    }

    /// An escape outside of a class.
    fn backslash(&mut self) -> Result<(), Reason> {
        for assertion in [r"\A", r"\b", r"\B", r"\z"] {
            if self.accept(assertion) {
                self.push(assertion);
                return Ok(());
            }
        }
        if self.accept(r"\Q") {
            let (literal, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
            self.rest = rest;
            literal.chars().for_each(|character| self.push_literal(character));
            return Ok(());
        }
        match self.class_escape()? {
            Some(set) => self.push_set(set),
            None => {
                let literal = self.escape()?;
                self.push_literal(literal);
            }
        }
        Ok(())
    }

    /// `\pL`, `\p{Greek}`, `\d` and their like; `None` for another escape.
    fn class_escape(&mut self) -> Result<Option<AsciiSet>, Reason> {
        let mut characters = self.rest.chars().skip(1);
        let (set, negated) = match characters.next() {
            Some(kind @ ('p' | 'P')) => return self.unicode_class(kind == 'P').map(Some),
            Some('d') => (AsciiSet::DIGIT, false),
            Some('D') => (AsciiSet::DIGIT, true),
            Some('s') => (AsciiSet::PERL_SPACE, false),
            Some('S') => (AsciiSet::PERL_SPACE, true),
            Some('w') => (AsciiSet::WORD, false),
            Some('W') => (AsciiSet::WORD, true),
            _ => return Ok(None),
        };
        self.skip(2);
        // Each of these has its letters in both cases.
        Ok(Some(if negated { set.not() } else { set }))
    }

    /// `\pN`, `\p{Name}`, `\p{^Name}` and their opposites.
    fn unicode_class(&mut self, mut negated: bool) -> Result<AsciiSet, Reason> {
        self.skip(2);
        let name = if self.accept("{") {
            let (name, rest) = self.rest.split_once('}').ok_or(INVALID_RANGE)?;
            self.rest = rest;
            name
        } else {
            let all = self.rest;
            let letter = self.next().ok_or(INVALID_RANGE)?;
            &all[..letter.len_utf8()]
        };
        let opposite = name.strip_prefix('^');
        negated ^= opposite.is_some();
        let set = classes::unicode(opposite.unwrap_or(name), self.flags.fold_case).ok_or(INVALID_RANGE)?;
        Ok(if negated { set.not() } else { set })
    }

    /// An escape that stands for one character.
    fn escape(&mut self) -> Result<char, Reason> {
        self.skip(1);
        let character = self.next().ok_or("trailing backslash at end of expression")?;
        match character {
            '0' => self.octal(0),
            '1'..='7' if self.rest.starts_with(|next| matches!(next, '0'..='7')) => {
                self.octal(character as u32 - '0' as u32)
            }
            'x' => self.hexadecimal(),
            'a' => Ok('\x07'),
            'f' => Ok('\x0c'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\x0b'),
            _ if !character.is_ascii_alphanumeric() => Ok(character),
            _ => Err(INVALID_ESCAPE),
        }
    }

    /// Up to two more octal digits.
    fn octal(&mut self, mut value: u32) -> Result<char, Reason> {
        for _ in 0..2 {
            let Some(digit) = self.rest.chars().next().and_then(|next| next.to_digit(8)) else {
                break;
            };
            self.skip(1);
            value = value * 8 + digit;
        }
        Ok(char::from_u32(value).expect("three octal digits are below the surrogates"))
    }

    /// What follows `\x`: two digits, or any number of them in braces.
    fn hexadecimal(&mut self) -> Result<char, Reason> {
        let digits = if self.accept("{") {
            let (digits, rest) = self.rest.split_once('}').ok_or(INVALID_ESCAPE)?;
            self.rest = rest;
            digits
        } else {
            let digits = self.rest.get(..2).ok_or(INVALID_ESCAPE)?;
            self.skip(2);
            digits
        };
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(INVALID_ESCAPE);
        }
        match u32::from_str_radix(digits, 16) {
            // Surrogates are characters to Java. None is in ASCII, like their neighbour that stands for them here.
            Ok(0xd800..=0xdfff) => Ok('\u{d7ff}'),
            Ok(value) => char::from_u32(value).ok_or(INVALID_ESCAPE),
            Err(_) => Err(INVALID_ESCAPE),
        }
    }

    /// `[…]`
    fn class(&mut self) -> Result<AsciiSet, Reason> {
        self.skip(1);
        let negated = self.accept("^");
        let mut set = AsciiSet::EMPTY;
        let mut first = true;
        while first || !self.accept("]") {
            first = false;
            set = set.or(self.class_item()?);
        }
        Ok(if negated { set.not() } else { set })
    }

    /// What of ASCII a piece of a class has.
    fn class_item(&mut self) -> Result<AsciiSet, Reason> {
        if self.rest.starts_with("[:")
            && let Some(end) = self.rest.find(":]")
        {
            let (name, rest) = self.rest.split_at(end);
            self.rest = &rest[2..];
            // Nothing is left of `[:]`, whose colon is both the first and the last.
            let name = name.strip_prefix("[:").ok_or(INVALID_RANGE)?;
            let opposite = name.strip_prefix('^');
            let set = classes::posix(opposite.unwrap_or(name)).ok_or(INVALID_RANGE)?;
            let set = if self.flags.fold_case { set.folded() } else { set };
            return Ok(if opposite.is_some() { set.not() } else { set });
        }
        if self.rest.starts_with('\\')
            && let Some(set) = self.class_escape()?
        {
            return Ok(set);
        }
        let first = self.class_character()?;
        let mut last = first;
        if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
            self.skip(1);
            last = self.class_character()?;
            if last < first {
                return Err(INVALID_RANGE);
            }
        }
        Ok(self.between(first, last))
    }

    fn class_character(&mut self) -> Result<char, Reason> {
        if self.rest.starts_with('\\') { self.escape() } else { self.next().ok_or(MISSING_BRACKET) }
    }
}

/// A number of a repetition; `None` for what is none. One that is too large for anything is beyond [`MAX_REPEAT`].
fn number(text: &str) -> Option<u32> {
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if text.is_empty() || leading_zero || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u32::MAX))
}
