//! `kafka-dump-log`: what is in the files of a log. The dump is that of `ottla dump-log`; the options are read as Kafka's
//! tool reads them.

use super::options::{Kind, Options, Spec};
use super::{Stop, conclude, uncaught_in_main};
use crate::cli::dump_log::{self, DEFAULT_CLASS, Decoder, NO_TIERED_STORAGE, PlainDecoder, Request};
use crate::client::Error;

const ABOUT: &str = "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly corrupt log segment.";

const OPTIONS: &[Spec] = &[
    Spec::flag("print-data-log", "Prints the records with their keys and values. Any decoder does that as well."),
    Spec::flag("verify-index-only", "Checks the indexes against the logs without printing them."),
    Spec::flag("index-sanity-check", "Only looks whether a broker would build the indexes anew when it starts."),
    Spec::with_argument(
        "files",
        "file1, file2, ...",
        "REQUIRED: The files of logs to print, with commas between them.",
    ),
    Spec::with_argument("max-message-size", "size", "The largest batch that an index entry may point to.")
        .of(Kind::Integer)
        .default(&["5242880"]),
    Spec::with_argument("max-bytes", "size", "Reads of each .log file no more than this.")
        .of(Kind::Integer)
        .default(&["2147483647"]),
    Spec::flag("deep-iteration", "Prints the records of each batch, too."),
    Spec::with_optional_argument(
        "value-decoder-class",
        "String",
        "How to read values: org.apache.kafka.tools.api.StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder.",
    )
    .default(&[DEFAULT_CLASS]),
    Spec::with_optional_argument("key-decoder-class", "String", "How to read keys; as for values.")
        .default(&[DEFAULT_CLASS]),
    Spec::flag("offsets-decoder", "Reads the records as those of __consumer_offsets."),
    Spec::flag("transaction-log-decoder", "Reads the records as those of __transaction_state."),
    Spec::flag("cluster-metadata-decoder", "Reads the records as those of __cluster_metadata."),
    Spec::flag("remote-log-metadata-decoder", "Reads the records as those of tiered storage: refused here."),
    Spec::flag("share-group-state-decoder", "Reads the records as those of __share_group_state."),
    Spec::flag("skip-record-metadata", "Prints of records nothing but keys and values, and no control records."),
];

/// Any of these prints keys and values.
const PRINTING: [&str; 8] = [
    "print-data-log",
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "value-decoder-class",
    "key-decoder-class",
    "share-group-state-decoder",
];

pub fn run(words: &[String]) -> u8 {
    match read(words) {
        Ok(request) => dump_log::print(&request),
        Err(stop) => conclude(Err(stop), |error| {
            uncaught_in_main(error);
        }),
    }
}

fn read(words: &[String]) -> Result<Request, Stop> {
    let options = Options::parse(OPTIONS, words)?;
    options.help_or_version(ABOUT)?;
    options.require(&["files"])?;
    let number = |name: &str| options.integer(name).map(|number| number.expect("it has a default"));
    Ok(Request {
        files: dump_log::named(options.text("files")?.split(',').map(Into::into).collect()),
        deep_iteration: options.has("deep-iteration"),
        prints_contents: PRINTING.iter().any(|name| options.has(name)),
        skip_record_metadata: options.has("skip-record-metadata"),
        verify_index_only: options.has("verify-index-only"),
        index_sanity_check: options.has("index-sanity-check"),
        decoder: decoder(&options).map_err(told),
        max_bytes: number("max-bytes").map_err(told),
        max_message_size: number("max-message-size").map_err(told),
    })
}

/// In Kafka's order, if several are asked for.
fn decoder(options: &Options) -> Result<Decoder, Error> {
    let has = |name: &str| options.has(name);
    Ok(if has("offsets-decoder") {
        Decoder::Offsets
    } else if has("transaction-log-decoder") {
        Decoder::Transactions
    } else if has("cluster-metadata-decoder") {
        Decoder::ClusterMetadata
    } else if has("remote-log-metadata-decoder") {
        return Err(Error::new("java.lang.UnsupportedOperationException", NO_TIERED_STORAGE));
    } else if has("share-group-state-decoder") {
        Decoder::ShareGroupState
    } else {
        let value = plain(options, "value-decoder-class")?;
        Decoder::Plain { key: plain(options, "key-decoder-class")?, value }
    })
}

fn plain(options: &Options, name: &str) -> Result<PlainDecoder, Error> {
    let class = options.text(name)?;
    PlainDecoder::of_class(class).map_err(|reason| {
        let cause = Error::new("java.lang.ClassNotFoundException", format!("{class}: {reason}"));
        Error::new("java.lang.RuntimeException", "Failed to load decoder class").caused_by(cause)
    })
}

/// What is printed when a file needs the argument.
fn told(error: Error) -> String {
    format!("Exception in thread \"main\" {}", error.trace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Result<Request, Stop> {
        read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_as_kafkas_tool_reads_them() {
        let request =
            request("-files=a.log,b.index --print-data-log=no --deep-iteration --deep-iteration --max-bytes +7 x")
                .unwrap();
        assert_eq!(request.files, ["a.log", "b.index"].map(std::path::PathBuf::from));
        assert!(request.deep_iteration && request.prints_contents && !request.verify_index_only);
        assert_eq!((request.max_bytes, request.max_message_size), (Ok(7), Ok(5_242_880)));
    }

    #[test]
    fn mistakes_end_the_tool_where_they_end_kafkas() {
        assert!(matches!(request("--deep-iteration"), Err(Stop::Usage { message, .. }) if message.contains("[files]")));
        assert!(matches!(request("--help --version"), Err(Stop::Usage { message, .. }) if message == ABOUT));
        assert!(matches!(request("--version"), Err(Stop::Version)));
        for (line, said) in [
            ("--files a --files b", "Found multiple arguments for option files, but you asked for only one"),
            ("--files a --foo", "foo is not a recognized option"),
            ("--files a --print", "print is not a recognized option"),
            ("--files", "Option files requires an argument"),
        ] {
            assert!(matches!(request(line), Err(Stop::Failed(error)) if error.message() == said), "{line}");
        }
        // These only when a file needs them.
        let odd = request(
            "--files a --max-bytes x --max-message-size 1.5 --value-decoder-class kafka.serializer.StringDecoder",
        );
        let odd = odd.unwrap();
        assert!(odd.max_bytes.unwrap_err().contains("Cannot parse argument 'x' of option max-bytes"));
        assert!(odd.max_message_size.unwrap_err().contains("Cannot parse argument '1.5'"));
        assert!(odd.decoder.unwrap_err().contains("RuntimeException: Failed to load decoder class\nCaused by: "));
        let unused = request("--files a --key-decoder-class no.such.Class --offsets-decoder").unwrap();
        assert_eq!((unused.decoder, unused.prints_contents), (Ok(Decoder::Offsets), true));
        assert!(request("--files a --remote-log-metadata-decoder").unwrap().decoder.is_err());
    }
}
