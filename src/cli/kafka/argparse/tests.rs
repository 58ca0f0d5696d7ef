//! Beside what Kafka's `kafka-cluster` and `kafka-metadata-quorum` print.

use super::*;

const CONNECTION: Exclusive = Exclusive { required: true, names: &["bootstrap-server", "bootstrap-controller"] };

static CLUSTER: Grammar = Grammar {
    program: "kafka-cluster",
    about: "The Kafka cluster tool.",
    arguments: &[],
    exclusive: &[],
    commands: &[
        Command {
            name: "cluster-id",
            help: "Its id.",
            arguments: &[
                Argument::new(&["--bootstrap-server", "-b"], "Servers."),
                Argument::new(&["--bootstrap-controller", "-C"], "Controllers."),
                Argument::new(&["--config"], "Old."),
                Argument::new(&["--command-config", "-c"], "New."),
            ],
            exclusive: &[CONNECTION],
            ..Command::EMPTY
        },
        Command {
            name: "unregister",
            help: "Remove.",
            arguments: &[Argument::new(&["--id", "-i"], "Which.").of(Kind::Integer).required()],
            exclusive: &[],
            ..Command::EMPTY
        },
    ],
    ..Grammar::EMPTY
};

static QUORUM: Grammar = Grammar {
    program: "kafka-metadata-quorum",
    about: "",
    arguments: &[
        Argument::new(&["--bootstrap-server"], ""),
        Argument::new(&["--bootstrap-controller"], ""),
        Argument::new(&["--command-config"], ""),
    ],
    exclusive: &[CONNECTION],
    commands: &[Command {
        name: "describe",
        help: "",
        arguments: &[
            Argument::flag(&["--status"], ""),
            Argument::flag(&["--replication"], ""),
            Argument::flag(&["--human-readable"], ""),
        ],
        exclusive: &[],
        ..Command::EMPTY
    }],
    ..Grammar::EMPTY
};

fn parse(grammar: &'static Grammar, line: &str) -> Result<Arguments, End> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Arguments::parse(grammar, &words)
}

fn message(grammar: &'static Grammar, line: &str) -> String {
    parse(grammar, line).unwrap_err().message().to_owned()
}

#[test]
fn commands_and_arguments() {
    let arguments = parse(&CLUSTER, "cluster-id --bootstrap-server=a:1 -cfile").unwrap();
    assert_eq!(arguments.command(), "cluster-id");
    assert_eq!(arguments.value("bootstrap-server"), Some("a:1"));
    assert_eq!(arguments.value("command-config"), Some("file"));
    assert_eq!(arguments.value("config"), None);
    assert_eq!(parse(&CLUSTER, "cluster-id --bootstrap-s a:1").unwrap().value("bootstrap-server"), Some("a:1"));
    assert_eq!(parse(&CLUSTER, "unregister --id -1").unwrap().integer("id"), Some(-1));
    let arguments = parse(&QUORUM, "--bootstrap-server a:1 describe --status").unwrap();
    assert!(arguments.has("status") && !arguments.has("replication"));
}

#[test]
fn mistakes_are_told_as_argparse4j_tells_them() {
    assert_eq!(message(&CLUSTER, ""), "too few arguments");
    assert_eq!(message(&CLUSTER, "foo"), "invalid choice: 'foo' (choose from 'cluster-id', 'unregister')");
    assert_eq!(
        message(&CLUSTER, "cluster-id"),
        "one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required"
    );
    assert_eq!(message(&CLUSTER, "cluster-id -b"), "argument --bootstrap-server/-b: expected one argument");
    assert_eq!(
        message(&CLUSTER, "cluster-id -b a -C b"),
        "argument --bootstrap-controller/-C: not allowed with argument --bootstrap-server/-b"
    );
    assert_eq!(message(&CLUSTER, "cluster-id -b a --foo"), "unrecognized arguments: '--foo'");
    assert_eq!(message(&CLUSTER, "cluster-id -b a foo"), "unrecognized arguments: 'foo'");
    assert_eq!(
        message(&CLUSTER, "unregister --id x"),
        "argument --id/-i: could not convert 'x' to Integer (For input string: \"x\")"
    );
    assert_eq!(message(&CLUSTER, "unregister"), "argument --id/-i is required");
    assert_eq!(
        message(&QUORUM, "--boot a describe"),
        "ambiguous option: --boot could match --bootstrap-server, --bootstrap-controller"
    );
}

#[test]
fn usages_are_argparse4js() {
    assert_eq!(
        help::usage(&CLUSTER, Some(&CLUSTER.commands[0])),
        "usage: kafka-cluster cluster-id [-h] [--config CONFIG]\n\
         \x20                    [--command-config COMMAND_CONFIG]\n\
         \x20                    (--bootstrap-server BOOTSTRAP_SERVER |\n\
         \x20                    --bootstrap-controller BOOTSTRAP_CONTROLLER)"
    );
    assert_eq!(help::usage(&CLUSTER, None), "usage: kafka-cluster [-h] {cluster-id,unregister} ...");
    assert_eq!(
        help::usage(&QUORUM, Some(&QUORUM.commands[0])),
        "usage: kafka-metadata-quorum (--bootstrap-server BOOTSTRAP_SERVER |\n\
         \x20                            --bootstrap-controller BOOTSTRAP_CONTROLLER)\n\
         \x20                            describe [-h] [--status] [--replication]\n\
         \x20                            [--human-readable]"
    );
}

static TITLED: Grammar = Grammar {
    program: "tool",
    arguments: &[Argument::version(&["-v", "--version"]), Argument::new(&["--server"], "").required()],
    commands: &[
        Command {
            name: "a",
            help: "All.",
            about: "Of all.",
            arguments: &[
                Argument::new(&["--topic"], "T.").required(),
                Argument::new(&["--part"], "P.").of(Kind::Short).required(),
            ],
            sections: &[Section { title: "Old", about: "Once.", names: &["part"] }],
            ..Command::EMPTY
        },
        Command { name: "b", help: "Both.", ..Command::EMPTY },
    ],
    titled: Some(("commands", "COMMAND")),
    ..Grammar::EMPTY
};

#[test]
fn of_what_is_missing_the_last_of_the_first_parser_is_told() {
    let told = |line: &str| match parse(&TITLED, line).unwrap_err() {
        End::Wrong { usage, message, .. } => (usage.contains("COMMAND"), message),
        end => panic!("{end:?}"),
    };
    assert_eq!(told("--server x a"), (false, "argument --part is required".to_owned()));
    assert_eq!(told("a --part 1"), (true, "argument --server is required".to_owned()));
    assert_eq!(told("a --nonesuch"), (false, "unrecognized arguments: '--nonesuch'".to_owned()));
    let out_of_range =
        "argument --part: could not convert '70000' to Short (Value out of range. Value:\"70000\" Radix:10)";
    assert_eq!(told("a --part 70000").1, out_of_range);
    assert_eq!(parse(&TITLED, "-v a").unwrap_err(), End::Version);
}

#[test]
fn commands_with_a_heading_stand_last() {
    let help = |line: &str| match parse(&TITLED, line).unwrap_err() {
        End::Help(text) => text,
        end => panic!("{end:?}"),
    };
    let text = help("--help");
    assert!(text.starts_with("usage: tool [-h] [-v] --server SERVER COMMAND ...\n\noptional arguments:\n"), "{text}");
    assert!(
        text.ends_with("\ncommands:\n  COMMAND\n    a                    All.\n    b                    Both.\n"),
        "{text}"
    );
    let text = help("a --help");
    assert!(text.starts_with("usage: tool --server SERVER a [-h] --topic TOPIC --part PART\n\nOf all.\n"), "{text}");
    assert!(
        text.ends_with("\n  --topic TOPIC          T.\n\nOld:\n  Once.\n\n  --part PART            P.\n"),
        "{text}"
    );
}
