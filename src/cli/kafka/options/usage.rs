//! The table of options that a tool prints with a complaint: two columns, 80 wide, as joptsimple lays them out.

use super::{Spec, Takes};

const WIDTH: usize = 80;
const SEPARATOR: usize = 2;
/// Of a line that goes on.
const INDENT: &str = "  ";

/// The whole table, with a line break at the end of each line.
pub fn text<'a>(specs: impl Iterator<Item = &'a Spec> + Clone) -> String {
    let mut sorted: Vec<&Spec> = specs.collect();
    sorted.sort_by_key(|spec| spec.name);
    let heading = match sorted.iter().any(|spec| spec.required) {
        true => "Option (* = required)",
        false => "Option",
    };
    let mut rows =
        vec![(heading.to_owned(), "Description".to_owned()), ("-".repeat(heading.len()), "-----------".to_owned())];
    rows.extend(sorted.iter().map(|spec| (option(spec), description(spec))));
    let widest = |column: fn(&(String, String)) -> &String, rows: &[(String, String)]| {
        rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0)
    };
    let option_width = widest(|row| &row.0, &rows).min((WIDTH - SEPARATOR) / 2);
    let description_width = widest(|row| &row.1, &rows).min(WIDTH - SEPARATOR - option_width);
    let mut fitted = Vec::new();
    for (option, description) in &rows {
        let (options, descriptions) = (wrap(option, option_width), wrap(description, description_width));
        for line in 0..options.len().max(descriptions.len()) {
            let cell = |cells: &[String]| cells.get(line).cloned().unwrap_or_default();
            fitted.push((cell(&options), cell(&descriptions)));
        }
    }
    let option_width = widest(|row| &row.0, &fitted).min((WIDTH - SEPARATOR) / 2);
    let description_width = widest(|row| &row.1, &fitted).min(WIDTH - SEPARATOR - option_width);
    let line = |(option, description): &(String, String)| {
        format!("{option:option_width$}{:SEPARATOR$}{description:description_width$}\n", "")
    };
    fitted.iter().map(line).collect()
}

fn option(spec: &Spec) -> String {
    let dashes = if spec.name.chars().count() > 1 { "--" } else { "-" };
    let mark = if spec.required { "* " } else { "" };
    let (open, close) = match spec.takes {
        Takes::Nothing => return format!("{mark}{dashes}{}", spec.name),
        Takes::MaybeArgument => ('[', ']'),
        Takes::Argument => ('<', '>'),
    };
    let colon = if spec.argument.is_empty() { "" } else { ": " };
    format!("{mark}{dashes}{} {open}{}{colon}{}{close}", spec.name, spec.kind.name(), spec.argument)
}

fn description(spec: &Spec) -> String {
    match spec.defaults {
        [] => spec.description.to_owned(),
        [value] => format!("{} (default: {value})", spec.description),
        values => format!("{} (default: [{}])", spec.description, values.join(", ")),
    }
}

/// Breaks a text behind blanks and hyphens.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.trim().split('\n') {
        let mut line = String::new();
        for word in words(paragraph) {
            if line.chars().count() + word.chars().count() > width {
                lines.push(line.trim_end().to_owned());
                line = INDENT.to_owned();
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}

/// The pieces between which a line may break, each with what ends it: as Java breaks lines, in so far as names and
/// texts of options show it.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut begin = 0;
    let bytes = text.as_bytes();
    for at in 1..bytes.len() {
        let (before, here) = (bytes[at - 1], bytes[at]);
        let breaks = match before {
            b' ' => here != b' ',
            b'-' => at > 1 && bytes[at - 2].is_ascii_alphanumeric() && here.is_ascii_alphabetic(),
            b',' | b'.' if at > 1 && bytes[at - 2].is_ascii_digit() && here.is_ascii_digit() => false,
            b',' | b'.' | b':' | b';' | b'!' | b'?' | b')' => here.is_ascii_alphanumeric(),
            before if before.is_ascii_digit() => matches!(here, b'(' | b'[' | b'>'),
            before if before.is_ascii_alphabetic() => matches!(here, b'(' | b'['),
            _ => false,
        };
        if breaks {
            words.push(&text[begin..at]);
            begin = at;
        }
    }
    if begin < text.len() {
        words.push(&text[begin..]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn columns_are_joptsimples() {
        let specs = [
            Spec::with_argument(
                "bootstrap-server",
                "server to connect to",
                "REQUIRED: The Kafka server to connect to.",
            ),
            Spec::flag("alter", "Alter the number of partitions and replica assignment."),
            Spec::with_argument("partitions", "# of partitions", "How many.").of(Kind::Integer).default(&["1"]),
        ];
        // As Kafka's tools print such options.
        let expected = [
            "Option                                   Description",
            "------                                   -----------",
            "--alter                                  Alter the number of partitions and",
            "                                           replica assignment.",
            "--bootstrap-server <String: server to    REQUIRED: The Kafka server to connect",
            "  connect to>                              to.",
            "--partitions <Integer: # of partitions>  How many. (default: 1)",
        ];
        let text = text(specs.iter());
        assert_eq!(text.lines().map(str::trim_end).collect::<Vec<_>>(), expected);
        let pieces = words("<String: HOST1:PORT1,...> The server(s), 1,000 of x-y -1");
        let expected =
            ["<String: ", "HOST1:", "PORT1,...> ", "The ", "server", "(s), ", "1,000 ", "of ", "x-", "y ", "-1"];
        assert_eq!(pieces, expected);
        // Both columns are as wide as they need to be, in every line.
        assert!(text.lines().all(|line| line.len() == 41 + 37), "{text}");
    }
}
