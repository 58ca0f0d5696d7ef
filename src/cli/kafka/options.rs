//! Options as most of Kafka's tools read them: by the rules of the library joptsimple, with its messages.
//!
//! ```text
//! --topic x    --topic=x    -topic x        an option and its argument
//! --list       --list=x     -list           an option without: what follows `=` is lost
//! --                                        what follows is no option
//! ```
//!
//! Arguments are only looked at when they are asked for: `--partitions x` fails there, and so does an option that was
//! given twice where one is wanted ([`Options::value`]). A tool is a table of [`Spec`]s and what it does with
//! [`Options`]; `topics.rs` is the pattern.

mod usage;

use std::ffi::OsString;

use super::Stop;
use crate::client::{ClientConfig, Error, config};
use crate::config::java;

/// What an argument is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Integer,
    Long,
    /// One of the values of a Java enumeration, as usages list them.
    OneOf(&'static str),
}

impl Kind {
    /// The short name of its Java class.
    fn name(self) -> &'static str {
        match self {
            Kind::Text => "String",
            Kind::Integer => "Integer",
            Kind::Long => "Long",
            Kind::OneOf(values) => values,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    MaybeArgument,
    Argument,
}

/// One option of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub name: &'static str,
    description: &'static str,
    takes: Takes,
    /// What stands for the argument in the usage.
    argument: &'static str,
    kind: Kind,
    defaults: &'static [&'static str],
    separator: Option<char>,
    required: bool,
}

impl Spec {
    /// `--name`.
    pub const fn flag(name: &'static str, description: &'static str) -> Spec {
        let kind = Kind::Text;
        let takes = Takes::Nothing;
        Spec { name, description, takes, argument: "", kind, defaults: &[], separator: None, required: false }
    }

    /// `--name argument`. Not that the option is required: its argument is.
    pub const fn with_argument(name: &'static str, argument: &'static str, description: &'static str) -> Spec {
        Spec { argument, takes: Takes::Argument, ..Spec::flag(name, description) }
    }

    /// `--name`, or `--name argument`.
    pub const fn with_optional_argument(name: &'static str, argument: &'static str, description: &'static str) -> Spec {
        Spec { argument, takes: Takes::MaybeArgument, ..Spec::flag(name, description) }
    }

    pub const fn of(self, kind: Kind) -> Spec {
        Spec { kind, ..self }
    }

    /// What [`Options::value`] and [`Options::values`] give for an option that is not there.
    pub const fn default(self, values: &'static [&'static str]) -> Spec {
        Spec { defaults: values, ..self }
    }

    /// An argument is several, with this between them.
    pub const fn separated_by(self, separator: char) -> Spec {
        Spec { separator: Some(separator), ..self }
    }

    pub const fn required(self) -> Spec {
        Spec { required: true, ..self }
    }

    /// Whether a word behind an option is its argument, where it may have none: a negative number looks like an option.
    fn may_be_argument(&self, word: &str) -> bool {
        match self.kind {
            Kind::Text | Kind::OneOf(_) => option_text(word).is_none(),
            Kind::Integer => word.parse::<i32>().is_ok(),
            Kind::Long => word.parse::<i64>().is_ok(),
        }
    }
}

/// Those that every tool has.
const COMMON: [Spec; 2] = [
    Spec::flag("help", "Print this text."),
    Spec::flag("version", "Print the version of Kafka that this tool follows."),
];

/// The options of a tool, as a command line gives them.
#[derive(Debug)]
pub struct Options {
    specs: &'static [Spec],
    given: Vec<(&'static str, Option<String>)>,
    /// How many words the command line had.
    pub words: usize,
    /// What belongs to no option.
    pub rest: Vec<String>,
}

impl Options {
    /// Reads a command line.
    pub fn parse(specs: &'static [Spec], words: &[String]) -> Result<Options, Error> {
        Options::read(specs, words, false)
    }

    /// The same for the tools that take the beginning of an option's name for it, where it is the beginning of no other.
    pub fn parse_abbreviated(specs: &'static [Spec], words: &[String]) -> Result<Options, Error> {
        Options::read(specs, words, true)
    }

    fn read(specs: &'static [Spec], words: &[String], abbreviations: bool) -> Result<Options, Error> {
        let mut options = Options { specs, given: Vec::new(), words: words.len(), rest: Vec::new() };
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                options.rest.extend(words.by_ref().cloned());
                break;
            }
            let Some(text) = option_text(word) else {
                options.rest.push(word.clone());
                continue;
            };
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            let spec = match options.find(name, abbreviations) {
                Some(spec) => spec,
                None if word.starts_with("--") => return Err(unrecognized(name)),
                // One letter is one option, and Kafka's tools have none of one letter that could stand in a row.
                None => return Err(unrecognized(&text[..text.chars().next().map_or(0, char::len_utf8)])),
            };
            let value = match (spec.takes, value) {
                (Takes::Nothing, _) => None,
                (_, Some(value)) => Some(value),
                (Takes::Argument, None) => Some(words.next().cloned().ok_or_else(|| {
                    fault(
                        "OptionMissingRequiredArgumentException",
                        format!("Option {} requires an argument", spec.name),
                    )
                })?),
                (Takes::MaybeArgument, None) => words.next_if(|word| spec.may_be_argument(word)).cloned(),
            };
            match (spec.separator, value) {
                (Some(separator), Some(value)) => {
                    for part in value.split(separator) {
                        options.given.push((spec.name, Some(part.to_owned())));
                    }
                }
                (_, value) => options.given.push((spec.name, value)),
            }
        }
        options.check_required()?;
        Ok(options)
    }

    fn find(&self, name: &str, abbreviations: bool) -> Option<&'static Spec> {
        let all = || self.specs.iter().chain(&COMMON);
        if let Some(spec) = all().find(|spec| spec.name == name) {
            return Some(spec);
        }
        let mut candidates = all().filter(|spec| abbreviations && !name.is_empty() && spec.name.starts_with(name));
        candidates.next().filter(|_| candidates.next().is_none())
    }

    fn check_required(&self) -> Result<(), Error> {
        let missing = self.specs.iter().filter(|spec| spec.required && !self.has(spec.name));
        let missing: Vec<&str> = missing.map(|spec| spec.name).collect();
        // Who asks for help need not know what is required.
        if missing.is_empty() || self.has("help") || self.has("version") {
            return Ok(());
        }
        Err(fault("MissingRequiredOptionsException", format!("Missing required option(s) [{}]", missing.join(", "))))
    }

    fn spec(&self, name: &str) -> &'static Spec {
        let spec = self.specs.iter().chain(&COMMON).find(|spec| spec.name == name);
        spec.unwrap_or_else(|| panic!("a tool asks for --{name}, which is not in its table"))
    }

    /// Whether the option is there.
    pub fn has(&self, name: &str) -> bool {
        let name = self.spec(name).name;
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// Whether the option is there with an argument.
    pub fn has_argument(&self, name: &str) -> bool {
        self.given.iter().any(|(given, value)| *given == name && value.is_some())
    }

    /// Some options as the command line has them, in its order.
    pub fn in_order<'o>(&'o self, names: &'o [&str]) -> impl Iterator<Item = (&'static str, Option<&'o str>)> {
        let given = self.given.iter().filter(|(given, _)| names.contains(given));
        given.map(|(name, value)| (*name, value.as_deref()))
    }

    /// The options that are there, each once, in the order of the command line.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for (name, _) in &self.given {
            if !names.contains(name) {
                names.push(name);
            }
        }
        names
    }

    /// All arguments of the option, or its default.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let spec = self.spec(name);
        let given = self.given.iter().filter(|(given, _)| *given == spec.name);
        let given: Vec<&str> = given.filter_map(|(_, value)| value.as_deref()).collect();
        if given.is_empty() { spec.defaults.to_vec() } else { given }
    }

    /// The arguments of an option, or of the one that had its meaning before; `renamed` is `(old, new)`.
    pub fn renamed_values(&self, renamed: &[(&str, &str)], name: &str) -> Vec<&str> {
        let old = renamed.iter().find(|(_, new)| *new == name).map_or(name, |(old, _)| *old);
        self.values(if self.has(old) { old } else { name })
    }

    /// The argument of the option, or its default.
    pub fn value(&self, name: &str) -> Result<Option<&str>, Error> {
        match self.values(name)[..] {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(fault(
                "MultipleArgumentsForOptionException",
                format!("Found multiple arguments for option {name}, but you asked for only one"),
            )),
        }
    }

    /// The argument of an option that has a default or is known to be there.
    pub fn text(&self, name: &str) -> Result<&str, Error> {
        Ok(self.value(name)?.unwrap_or_default())
    }

    pub fn integer(&self, name: &str) -> Result<Option<i32>, Error> {
        self.parsed(name, Kind::Integer)
    }

    pub fn long(&self, name: &str) -> Result<Option<i64>, Error> {
        self.parsed(name, Kind::Long)
    }

    fn parsed<T: TryFrom<i64>>(&self, name: &str, kind: Kind) -> Result<Option<T>, Error> {
        assert_eq!(self.spec(name).kind, kind, "--{name} is read as something else than its table says");
        let Some(text) = self.value(name)? else { return Ok(None) };
        java::parse_integer(text).map(Some).ok_or_else(|| no_number(text, name))
    }

    // --- what the tools check of their options ---------------------------------------------------------------------

    /// Ends the tool if it has no arguments at all, or is asked for help or for the version.
    pub fn help_or_version(&self, about: &str) -> Result<(), Stop> {
        if self.words == 0 || self.has("help") {
            return Err(self.usage(about));
        }
        if self.has("version") {
            return Err(Stop::Version);
        }
        Ok(())
    }

    /// Ends the tool unless all of these are there.
    pub fn require(&self, names: &[&str]) -> Result<(), Stop> {
        match names.iter().find(|name| !self.has(name)) {
            Some(name) => Err(self.usage(format!("Missing required argument \"[{name}]\""))),
            None => Ok(()),
        }
    }

    /// Ends the tool if `used` is there together with one of `others`.
    pub fn exclude(&self, used: &str, others: &[&str]) -> Result<(), Stop> {
        match others.iter().find(|other| self.has(used) && self.has(other)) {
            Some(other) => Err(self.usage(format!("Option \"[{used}]\" can't be used with option \"[{other}]\""))),
            None => Ok(()),
        }
    }

    /// Ends the tool unless exactly one of these is there.
    pub fn one_of(&self, names: &[&str]) -> Result<(), Stop> {
        if names.iter().filter(|name| self.has(name)).count() == 1 {
            return Ok(());
        }
        let names: Vec<String> = names.iter().map(|name| format!("[{name}]")).collect();
        Err(self.usage(format!("Exactly one of the following arguments is required: {}", names.join(", "))))
    }

    /// Ends the tool with a message and its usage.
    pub fn usage(&self, message: impl Into<String>) -> Stop {
        Stop::Usage { message: message.into(), usage: self.usage_text() }
    }

    /// As [`Self::parse`], for tools that tell what is wrong with their usage.
    pub fn parse_or_usage(specs: &'static [Spec], words: &[String]) -> Result<Options, Stop> {
        Options::parse(specs, words).map_err(|error| Stop::Usage {
            message: error.message().to_owned(),
            usage: usage::text(specs.iter().chain(&COMMON)),
        })
    }

    /// Ends the tool unless the option is there and has addresses, `host1:9091,host2:9092`.
    pub fn check_addresses(&self, name: &str) -> Result<(), Stop> {
        let text = self.value(name)?.unwrap_or_default();
        if text.trim().is_empty() {
            return Err(self.usage("Error while validating the bootstrap address\n"));
        }
        match config::addresses(name, text) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.usage("Please provide valid host:port like host1:9091,host2:9092\n")),
        }
    }

    /// The table of the options.
    pub fn usage_text(&self) -> String {
        usage::text(self.specs.iter().chain(&COMMON))
    }

    /// The settings of the client that the tool is to use, from the usual options: `bootstrap-server`, and, if the tool
    /// has them, `bootstrap-controller` and `command-config`.
    pub fn client_config(&self) -> Result<ClientConfig, Error> {
        let has = |name: &str| self.specs.iter().any(|spec| spec.name == name);
        let file = if has("command-config") { self.value("command-config")? } else { None };
        let mut given = config::read_properties_of(file)?;
        if let Some(servers) = self.value("bootstrap-server")? {
            given.insert(config::BOOTSTRAP_SERVERS.to_owned(), servers.to_owned());
            given.remove(config::BOOTSTRAP_CONTROLLERS);
        } else if has("bootstrap-controller")
            && let Some(controllers) = self.value("bootstrap-controller")?
        {
            given.insert(config::BOOTSTRAP_CONTROLLERS.to_owned(), controllers.to_owned());
            given.remove(config::BOOTSTRAP_SERVERS);
        }
        ClientConfig::admin(given)
    }
}

/// What stands behind the dashes; `None` for what is no option. A dash alone is none.
fn option_text(word: &str) -> Option<&str> {
    let text = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    (!text.is_empty()).then_some(text)
}

/// An exception of joptsimple.
fn fault(class: &str, message: String) -> Error {
    Error::new(format!("joptsimple.{class}"), message)
}

fn unrecognized(name: &str) -> Error {
    fault("UnrecognizedOptionException", format!("{name} is not a recognized option"))
}

/// An argument that is not what its option takes.
pub fn cannot_parse(text: &str, name: &str) -> Error {
    fault("OptionArgumentConversionException", format!("Cannot parse argument '{text}' of option {name}"))
}

/// The same of a number, with its reasons.
pub fn no_number(text: &str, name: &str) -> Error {
    let reason = Error::new("java.lang.NumberFormatException", format!("For input string: \"{text}\""));
    let reflected = Error::new("joptsimple.internal.ReflectionException", reason.to_string());
    cannot_parse(text, name).caused_by(reflected.caused_by(reason))
}

/// A command line as texts; what is no Unicode is replaced, as Java does it.
pub fn words(arguments: impl Iterator<Item = OsString>) -> Vec<String> {
    arguments.map(|word| word.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[Spec] = &[
        Spec::flag("list", "List."),
        Spec::with_argument("topic", "topic", "A topic."),
        Spec::with_argument("topics", "topics", "Topics.").separated_by(','),
        Spec::with_argument("partitions", "# of partitions", "A count.").of(Kind::Integer),
        Spec::with_argument("timeout", "ms", "A time.").of(Kind::Long).default(&["5000"]),
        Spec::with_optional_argument("state", "states", "States."),
        Spec::with_optional_argument("size", "bytes", "A size.").of(Kind::Integer).default(&["0"]),
    ];

    fn parse(line: &str) -> Result<Options, Error> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(SPECS, &words)
    }

    fn message<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
        outcome.unwrap_err().message().to_owned()
    }

    #[test]
    fn options_and_arguments() {
        let options = parse("--list=x --topic a -partitions=3 b --topics c,d --topics=e -- --list f").unwrap();
        assert!(options.has("list") && !options.has("state"));
        assert_eq!(options.text("topic").unwrap(), "a");
        assert_eq!(options.integer("partitions").unwrap(), Some(3));
        assert_eq!(options.values("topics"), ["c", "d", "e"]);
        assert_eq!(options.long("timeout").unwrap(), Some(5000));
        assert_eq!(options.rest, ["b", "--list", "f"]);
        // The argument of an option may look like an option, but not one that may be missing.
        assert_eq!(parse("--topic --list").unwrap().text("topic").unwrap(), "--list");
        let options = parse("--state --list").unwrap();
        assert!(options.has("state") && options.has("list") && !options.has_argument("state"));
        assert_eq!(parse("--state a").unwrap().values("state"), ["a"]);
        assert_eq!(parse("--topic=").unwrap().text("topic").unwrap(), "");
        assert_eq!(parse("--size -1 --list").unwrap().integer("size").unwrap(), Some(-1));
        let options = parse("--size x --list").unwrap();
        assert!(options.has("list") && options.integer("size").unwrap() == Some(0) && options.rest == ["x"]);
    }

    #[test]
    fn mistakes_are_told_as_joptsimple_tells_them() {
        assert_eq!(message(parse("--foo=x")), "foo is not a recognized option");
        assert_eq!(message(parse("-foo")), "f is not a recognized option");
        assert_eq!(message(parse("--topi x")), "topi is not a recognized option");
        assert_eq!(message(parse("--topic")), "Option topic requires an argument");
        let options = parse("--topic a --topic b --partitions c").unwrap();
        let multiple = "Found multiple arguments for option topic, but you asked for only one";
        assert_eq!(message(options.value("topic")), multiple);
        assert_eq!(message(options.integer("partitions")), "Cannot parse argument 'c' of option partitions");
    }

    #[test]
    fn the_beginning_of_a_name_is_enough_where_it_is_allowed() {
        let abbreviated = |line: &str| Options::parse_abbreviated(SPECS, &[line.to_owned()]);
        assert!(abbreviated("--li").unwrap().has("list"));
        assert_eq!(abbreviated("--topic=x").unwrap().text("topic").unwrap(), "x");
        assert_eq!(message(abbreviated("--top=x")), "top is not a recognized option");
    }

    #[test]
    fn required_options() {
        const REQUIRED: &[Spec] =
            &[Spec::with_argument("a", "", "").required(), Spec::with_argument("b", "", "").required()];
        let parse =
            |words: &[&str]| Options::parse(REQUIRED, &words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(message(parse(&[])), "Missing required option(s) [a, b]");
        assert!(parse(&["--help"]).is_ok());
        assert!(parse(&["-a", "1", "--b=2"]).is_ok());
    }
}
