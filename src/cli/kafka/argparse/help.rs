//! Usage and help, laid out as argparse4j does it.

use super::{Action, Argument, Command, Exclusive, Grammar};

const WIDTH: usize = 75;
/// Of a usage and a name with arguments behind them.
const MOST_BEFORE: usize = 30;
/// Where the explanations begin.
const COLUMN: usize = 25;

/// The usage, of the tool or of one of its commands.
pub fn usage(grammar: &Grammar, command: Option<&Command>) -> String {
    let mut pieces = Vec::new();
    if let Some(command) = command {
        // What the tool itself cannot do without.
        let required = |argument: &&Argument| argument.required;
        pieces.extend(grammar.arguments.iter().filter(required).map(form));
        let groups = grammar.exclusive.iter().filter(|group| group.required);
        groups.for_each(|group| pieces.extend(group_forms(group, grammar.arguments)));
        pieces.push(command.name.to_owned());
        pieces.extend(forms(command.arguments, command.exclusive));
    } else {
        pieces.extend(forms(grammar.arguments, grammar.exclusive));
        if !grammar.commands.is_empty() {
            pieces.push(grammar.titled.map_or_else(|| commands(grammar), |(_, metavar)| metavar.to_owned()));
            pieces.push("...".to_owned());
        }
    }
    let mut head = format!("usage: {} ", grammar.program);
    let mut indent = " ".repeat(head.len());
    // Behind a long name nothing stands; all begins below it.
    if head.trim_end().len() > MOST_BEFORE {
        indent = " ".repeat("usage: ".len());
        head = format!("{}\n{indent}", head.trim_end());
    }
    let mut text = head.clone();
    let mut width = indent.len();
    let mut first = true;
    for piece in pieces {
        if !first && width + 1 + piece.len() > WIDTH {
            text.push('\n');
            text.push_str(&indent);
            width = indent.len();
        } else if !first {
            text.push(' ');
            width += 1;
        }
        first = false;
        text.push_str(&piece);
        width += piece.len();
    }
    text
}

fn commands(grammar: &Grammar) -> String {
    let names: Vec<&str> = grammar.commands.iter().map(|command| command.name).collect();
    format!("{{{}}}", names.join(","))
}

/// All arguments as a usage has them.
fn forms(arguments: &[Argument], exclusive: &[Exclusive]) -> Vec<String> {
    let mut forms = vec!["[-h]".to_owned()];
    let alone = |argument: &&Argument| !exclusive.iter().any(|group| group.names.contains(&argument.name()));
    for argument in arguments.iter().filter(alone) {
        forms.push(if argument.required { form(argument) } else { format!("[{}]", form(argument)) });
    }
    exclusive.iter().for_each(|group| forms.extend(group_forms(group, arguments)));
    forms
}

/// The arguments of a group; a line may break between them.
fn group_forms(group: &Exclusive, arguments: &[Argument]) -> Vec<String> {
    let of_group: Vec<&Argument> = arguments.iter().filter(|argument| group.names.contains(&argument.name())).collect();
    if let [alone] = of_group[..]
        && group.required
    {
        return vec![form(alone)];
    }
    let (open, close) = if group.required { ('(', ')') } else { ('[', ']') };
    let last = of_group.len().saturating_sub(1);
    let piece = |(at, argument): (usize, &&Argument)| {
        let opening = if at == 0 { String::from(open) } else { String::new() };
        let ending = if at == last { String::from(close) } else { " |".to_owned() };
        format!("{opening}{}{ending}", form(argument))
    };
    of_group.iter().enumerate().map(piece).collect()
}

fn form(argument: &Argument) -> String {
    flag_form(argument.flags[0], argument)
}

fn flag_form(flag: &str, argument: &Argument) -> String {
    let metavar = match (argument.choices, argument.metavar) {
        ([], "") => argument.name().replace('-', "_").to_uppercase(),
        (choices, "") => format!("{{{}}}", choices.join(",")),
        (_, metavar) => metavar.to_owned(),
    };
    match argument.action {
        Action::StoreTrue | Action::Version => flag.to_owned(),
        Action::StoreMany => format!("{flag} {metavar} [{metavar} ...]"),
        Action::Store | Action::Append => format!("{flag} {metavar}"),
    }
}

/// The whole help.
pub fn text(grammar: &Grammar, command: Option<&Command>) -> String {
    let mut text = usage(grammar, command);
    text.push('\n');
    let about = command.map_or(grammar.about, |command| command.about);
    if !about.is_empty() {
        text.push('\n');
        text.push_str(&wrap(about, "", ""));
    }
    let list_commands = |text: &mut String, heading: &str, name: &str| {
        text.push_str(&format!("\n{heading}:\n  {name}\n"));
        for command in grammar.commands {
            entry(text, &format!("    {}", command.name), command.help);
        }
    };
    let has_commands = command.is_none() && !grammar.commands.is_empty();
    if has_commands && grammar.titled.is_none() {
        list_commands(&mut text, "positional arguments", &commands(grammar));
    }
    text.push_str("\noptional arguments:\n");
    entry(&mut text, "  -h, --help", "show this help message and exit");
    let sections = command.map_or(grammar.sections, |command| command.sections);
    let arguments = command.map_or(grammar.arguments, |command| command.arguments);
    let in_section = |argument: &&Argument| sections.iter().any(|section| section.names.contains(&argument.name()));
    arguments.iter().filter(|argument| !in_section(argument)).for_each(|argument| describe(&mut text, argument));
    for section in sections {
        text.push_str(&format!("\n{}:\n{}\n", section.title, wrap(section.about, "  ", "  ")));
        let of_section = arguments.iter().filter(|argument| section.names.contains(&argument.name()));
        of_section.for_each(|argument| describe(&mut text, argument));
    }
    if let Some((title, metavar)) = grammar.titled.filter(|_| has_commands) {
        list_commands(&mut text, title, metavar);
    }
    text
}

/// The entry of an argument.
fn describe(text: &mut String, argument: &Argument) {
    let flags: Vec<String> = argument.flags.iter().map(|flag| flag_form(flag, argument)).collect();
    let default = match (argument.default, argument.action) {
        (Some(value), _) => format!(" (default: {value})"),
        (None, Action::StoreTrue) => " (default: false)".to_owned(),
        (None, _) => String::new(),
    };
    entry(text, &format!("  {}", flags.join(", ")), &format!("{}{default}", argument.help));
}

/// A name, and what it means in the column for that.
fn entry(text: &mut String, name: &str, help: &str) {
    let indent = " ".repeat(COLUMN);
    let wrapped = wrap(help, &indent, &indent);
    if name.len() + 2 <= COLUMN {
        text.push_str(&format!("{name:COLUMN$}{}", wrapped.trim_start_matches(' ')));
    } else {
        text.push_str(&format!("{name}\n{wrapped}"));
    }
}

/// Lines of at most 75 columns.
pub fn wrap(text: &str, first_indent: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = first_indent.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.len() + 1 + word.len() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = indent.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}
