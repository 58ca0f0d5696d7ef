//! Options as some of Kafka's tools read them, those with commands among them: by the rules of the library argparse4j,
//! with its messages.
//!
//! ```text
//! --id 1    --id=1    -i 1    -i1    --i 1      an argument: the beginning of a name is enough where it is of one only
//! describe --status                             a command, and arguments of its own behind it
//! ```
//!
//! Arguments of the tool stand before the command, those of the command behind it. Texts are broken at 75 columns as
//! argparse4j breaks them, but not spread over the whole line.

mod help;

use crate::client::Error;
use crate::config::java;

use super::{KAFKA_COMMIT, KAFKA_VERSION, complain, say};

/// What becomes of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Store,
    StoreTrue,
    Append,
    /// As many values as follow, at least one.
    StoreMany,
    /// Ends everything: the version is told.
    Version,
}

/// What a value is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Short,
    Integer,
    Long,
    Double,
    Boolean,
}

/// One argument.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// With their dashes. The first one names the argument.
    flags: &'static [&'static str],
    action: Action,
    kind: Kind,
    /// What stands for the value; the name in capitals if empty.
    metavar: &'static str,
    choices: &'static [&'static str],
    default: Option<&'static str>,
    required: bool,
    help: &'static str,
}

impl Argument {
    /// Takes a value.
    pub const fn new(flags: &'static [&'static str], help: &'static str) -> Argument {
        let (action, kind) = (Action::Store, Kind::Text);
        Argument { flags, action, kind, metavar: "", choices: &[], default: None, required: false, help }
    }

    /// Takes none.
    pub const fn flag(flags: &'static [&'static str], help: &'static str) -> Argument {
        Argument { action: Action::StoreTrue, ..Argument::new(flags, help) }
    }

    /// Asks for the version.
    pub const fn version(flags: &'static [&'static str]) -> Argument {
        let help = "show the version of this Kafka distribution and exit";
        Argument { action: Action::Version, ..Argument::new(flags, help) }
    }

    /// May be given many times.
    pub const fn append(self) -> Argument {
        Argument { action: Action::Append, ..self }
    }

    /// Takes all values that follow.
    pub const fn many(self) -> Argument {
        Argument { action: Action::StoreMany, ..self }
    }

    pub const fn of(self, kind: Kind) -> Argument {
        Argument { kind, ..self }
    }

    pub const fn metavar(self, metavar: &'static str) -> Argument {
        Argument { metavar, ..self }
    }

    pub const fn choices(self, choices: &'static [&'static str]) -> Argument {
        Argument { choices, ..self }
    }

    pub const fn default(self, value: &'static str) -> Argument {
        Argument { default: Some(value), ..self }
    }

    pub const fn required(self) -> Argument {
        Argument { required: true, ..self }
    }

    fn name(&self) -> &'static str {
        self.flags[0].trim_start_matches('-')
    }

    fn takes_value(&self) -> bool {
        !matches!(self.action, Action::StoreTrue | Action::Version)
    }
}

/// Arguments of which at most one may be given, or exactly one.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive {
    pub required: bool,
    /// First flags without dashes.
    pub names: &'static [&'static str],
}

/// Arguments that the help has under a heading of their own.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub title: &'static str,
    pub about: &'static str,
    /// First flags without dashes.
    pub names: &'static [&'static str],
}

/// What a tool can be told to do.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub name: &'static str,
    /// In the list of commands.
    pub help: &'static str,
    /// In the command's own help.
    pub about: &'static str,
    pub arguments: &'static [Argument],
    pub exclusive: &'static [Exclusive],
    pub sections: &'static [Section],
}

impl Command {
    pub const EMPTY: Command = Command { name: "", help: "", about: "", arguments: &[], exclusive: &[], sections: &[] };
}

/// Everything that a tool takes.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    pub program: &'static str,
    pub about: &'static str,
    pub arguments: &'static [Argument],
    pub exclusive: &'static [Exclusive],
    /// Where there are any, one must be given.
    pub commands: &'static [Command],
    /// The heading of the commands behind the arguments, and what stands for one of them. Without it they are positional
    /// arguments, and stand first.
    pub titled: Option<(&'static str, &'static str)>,
    pub sections: &'static [Section],
}

impl Grammar {
    pub const EMPTY: Grammar =
        Grammar { program: "", about: "", arguments: &[], exclusive: &[], commands: &[], titled: None, sections: &[] };
}

/// Why there is nothing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Help was asked for.
    Help(String),
    Version,
    /// The command line makes no sense.
    Wrong {
        usage: String,
        program: &'static str,
        message: String,
    },
}

impl End {
    /// Prints it as argparse4j does it; `help` is the exit code after help, which differs between the tools.
    pub fn report(&self, help: u8) -> u8 {
        match self {
            End::Help(text) => {
                say!("{}", text.trim_end_matches('\n'));
                help
            }
            End::Version => {
                say!("{KAFKA_VERSION} (Commit:{KAFKA_COMMIT})");
                0
            }
            End::Wrong { usage, program, message } => {
                complain!("{usage}");
                complain!("{}", help::wrap(&format!("{program}: error: {message}"), "", "").trim_end_matches('\n'));
                1
            }
        }
    }

    /// What is wrong, without the usage.
    pub fn message(&self) -> &str {
        match self {
            End::Help(_) => "Help Screen",
            End::Version => "Version",
            End::Wrong { message, .. } => message,
        }
    }
}

/// What a command line says.
#[derive(Debug)]
pub struct Arguments {
    grammar: &'static Grammar,
    command: Option<&'static Command>,
    given: Vec<(&'static str, String)>,
}

impl Arguments {
    pub fn parse(grammar: &'static Grammar, words: &[String]) -> Result<Arguments, End> {
        let mut arguments = Arguments { grammar, command: None, given: Vec::new() };
        let mut words = words.iter().map(String::as_str).peekable();
        // What is missing is told only if nothing else is wrong.
        let mut missing = None;
        while let Some(word) = words.next() {
            if is_flag(word) {
                if matches!(word, "-h" | "--help") {
                    return Err(End::Help(help::text(grammar, arguments.command)));
                }
                let (argument, value) = arguments.find(word)?;
                arguments.take(argument, value, &mut words)?;
                continue;
            }
            if arguments.command.is_some() || grammar.commands.is_empty() {
                return Err(arguments.wrong(format!("unrecognized arguments: '{word}'")));
            }
            missing = arguments.missing(grammar.arguments, grammar.exclusive);
            match grammar.commands.iter().find(|command| command.name == word) {
                Some(command) => arguments.command = Some(command),
                None => {
                    let names: Vec<String> =
                        grammar.commands.iter().map(|command| format!("'{}'", command.name)).collect();
                    return Err(arguments.wrong(format!("invalid choice: '{word}' (choose from {})", names.join(", "))));
                }
            }
        }
        if arguments.command.is_none() && !grammar.commands.is_empty() {
            return Err(arguments.wrong("too few arguments".to_owned()));
        }
        let exclusive = arguments.command.map_or(grammar.exclusive, |command| command.exclusive);
        match missing.or_else(|| arguments.missing(arguments.known(), exclusive)) {
            Some(missing) => Err(missing),
            None => Ok(arguments),
        }
    }

    /// The same for a tool that takes no arguments for the question what it is.
    pub fn parse_or_help(grammar: &'static Grammar, words: &[String]) -> Result<Arguments, End> {
        match words {
            [] => Err(End::Help(help::text(grammar, None))),
            words => Arguments::parse(grammar, words),
        }
    }

    /// The arguments that may be given at this place.
    fn known(&self) -> &'static [Argument] {
        self.command.map_or(self.grammar.arguments, |command| command.arguments)
    }

    fn find<'w>(&self, word: &'w str) -> Result<(&'static Argument, Option<&'w str>), End> {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word, None),
        };
        let known = self.known();
        if let Some(argument) = known.iter().find(|argument| argument.flags.contains(&flag)) {
            return Ok((argument, value));
        }
        if word.starts_with("--") {
            let begun = |argument: &'static Argument| {
                argument.flags.iter().find(|known| known.starts_with(flag)).map(|flag| (argument, *flag))
            };
            let candidates: Vec<_> = known.iter().filter_map(begun).collect();
            match candidates[..] {
                [] => {}
                [(argument, _)] => return Ok((argument, value)),
                _ => {
                    let flags: Vec<&str> = candidates.iter().map(|(_, flag)| *flag).collect();
                    return Err(self.wrong(format!("ambiguous option: {flag} could match {}", flags.join(", "))));
                }
            }
        } else if let Some(short) = word.get(..2)
            && let Some(argument) = known.iter().find(|argument| argument.flags.contains(&short))
            && argument.takes_value()
        {
            return Ok((argument, Some(&word[2..])));
        }
        Err(self.wrong(format!("unrecognized arguments: '{word}'")))
    }

    fn take<'w>(
        &mut self,
        argument: &'static Argument,
        value: Option<&str>,
        words: &mut std::iter::Peekable<impl Iterator<Item = &'w str>>,
    ) -> Result<(), End> {
        let exclusive = self.command.map_or(self.grammar.exclusive, |command| command.exclusive);
        for others in exclusive.iter().filter(|group| group.names.contains(&argument.name())) {
            let other = others.names.iter().find(|name| **name != argument.name() && self.has(name));
            if let Some(other) = other.and_then(|other| self.known().iter().find(|known| known.name() == *other)) {
                return Err(self.wrong(format!(
                    "argument {}: not allowed with argument {}",
                    argument.flags.join("/"),
                    other.flags.join("/")
                )));
            }
        }
        if argument.action == Action::Version {
            return Err(End::Version);
        }
        if argument.action == Action::StoreTrue {
            self.given.push((argument.name(), String::new()));
            return Ok(());
        }
        let mut values: Vec<String> = value.map(str::to_owned).into_iter().collect();
        if value.is_none() {
            let most = if argument.action == Action::StoreMany { usize::MAX } else { 1 };
            while values.len() < most
                && let Some(word) = words.next_if(|word| !is_flag(word))
            {
                values.push(word.to_owned());
            }
        }
        if values.is_empty() {
            let expected = if argument.action == Action::StoreMany { "at least one argument" } else { "one argument" };
            return Err(self.wrong(format!("argument {}: expected {expected}", argument.flags.join("/"))));
        }
        for value in &values {
            self.check_value(argument, value)?;
        }
        if !matches!(argument.action, Action::Append) {
            self.given.retain(|(name, _)| *name != argument.name());
        }
        self.given.extend(values.into_iter().map(|value| (argument.name(), value)));
        Ok(())
    }

    fn check_value(&self, argument: &Argument, value: &str) -> Result<(), End> {
        let (class, fits, why) = match argument.kind {
            Kind::Text => ("String", true, String::new()),
            Kind::Short => ("Short", java::parse_integer::<i16>(value).is_some(), short_format(value)),
            Kind::Integer => ("Integer", java::parse_integer::<i32>(value).is_some(), number_format(value)),
            Kind::Long => ("Long", java::parse_integer::<i64>(value).is_some(), number_format(value)),
            Kind::Double => ("Double", java::parse_double(value.trim()).is_some(), number_format(value)),
            Kind::Boolean => ("Boolean", matches!(value, "true" | "false"), String::new()),
        };
        let flags = argument.flags.join("/");
        if !fits && argument.kind == Kind::Boolean {
            return Err(
                self.wrong(format!("argument {flags}: could not convert '{value}' (choose from {{true,false}})"))
            );
        }
        if !fits {
            return Err(self.wrong(format!("argument {flags}: could not convert '{value}' to {class} ({why})")));
        }
        if !argument.choices.is_empty() && !argument.choices.contains(&value) {
            let choices = argument.choices.join(",");
            return Err(self.wrong(format!("argument {flags}: invalid choice: '{value}' (choose from {{{choices}}})")));
        }
        Ok(())
    }

    /// Of several that are missing it is the last that argparse4j tells.
    fn missing(&self, known: &[Argument], exclusive: &[Exclusive]) -> Option<End> {
        let is_missing = |argument: &&Argument| argument.required && !self.has(argument.name());
        if let Some(missing) = known.iter().rfind(is_missing) {
            return Some(self.wrong(format!("argument {} is required", missing.flags.join("/"))));
        }
        let none_is_there = |group: &&Exclusive| group.required && !group.names.iter().any(|name| self.has(name));
        let group = exclusive.iter().rfind(none_is_there)?;
        let flags = known.iter().filter(|argument| group.names.contains(&argument.name()));
        let flags: Vec<String> = flags.map(|argument| argument.flags.join("/")).collect();
        Some(self.wrong(format!("one of the arguments {} is required", flags.join(" "))))
    }

    fn wrong(&self, message: String) -> End {
        End::Wrong { usage: help::usage(self.grammar, self.command), program: self.grammar.program, message }
    }

    /// What a tool says itself about its arguments, in argparse4j's form.
    pub fn fault(&self, message: impl Into<String>) -> End {
        self.wrong(message.into())
    }

    /// The command's name; empty for a tool without commands.
    pub fn command(&self) -> &'static str {
        self.command.map_or("", |command| command.name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// The value, or its default.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).last().copied()
    }

    /// All values, or the default.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let given: Vec<&str> =
            self.given.iter().filter(|(given, _)| *given == name).map(|(_, value)| value.as_str()).collect();
        if !given.is_empty() {
            return given;
        }
        let own = self.command.map_or(&[][..], |command| command.arguments);
        let argument = self.grammar.arguments.iter().chain(own).find(|argument| argument.name() == name);
        let argument = argument.unwrap_or_else(|| panic!("a tool asks for --{name}, which is not in its table"));
        argument.default.into_iter().collect()
    }

    pub fn integer(&self, name: &str) -> Option<i32> {
        self.value(name).and_then(java::parse_integer)
    }

    pub fn long(&self, name: &str) -> Option<i64> {
        self.value(name).and_then(java::parse_integer)
    }

    pub fn double(&self, name: &str) -> Option<f64> {
        self.value(name).and_then(|text| java::parse_double(text.trim()))
    }
}

fn number_format(value: &str) -> String {
    format!("For input string: \"{value}\"")
}

/// `Short.parseShort` reads an `int` first.
fn short_format(value: &str) -> String {
    match java::parse_integer::<i32>(value) {
        Some(_) => format!("Value out of range. Value:\"{value}\" Radix:10"),
        None => number_format(value),
    }
}

/// Whether a word is an argument's name. Negative numbers without a point are values.
fn is_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| !rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// An exception that a tool tells without its class.
pub fn terse(message: impl Into<String>) -> Error {
    Error::new(TERSE, message)
}

/// The class of those.
pub const TERSE: &str = "org.apache.kafka.tools.TerseException";

#[cfg(test)]
mod tests;
