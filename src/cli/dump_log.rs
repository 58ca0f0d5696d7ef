//! `ottla dump-log`: prints what is in the files of a log, in the words of Kafka's `kafka-dump-log`.
//!
//! Data goes to standard output, as Kafka prints it to the byte; what does not fit together (an index entry that names no
//! batch, gaps in the offsets) to standard error, at the end. Nothing is written to the files, and no lock is taken: a
//! running broker's files can be looked at.
//!
//! Exit codes: 0, and 1 if a file could not be read to its end, as in Kafka; the dump ends there. Where Kafka prints a
//! stack trace there is a line that names the file and what is wrong. What is not called like a file of a log is passed
//! over, as in Kafka, even if it does not exist.

mod batches;
mod coordinator;
mod decoder;
mod findings;
mod indexes;
mod json;
mod log;
mod old_format;
mod request;

pub(super) use decoder::{DEFAULT_CLASS, Decoder, PlainDecoder};
pub(super) use json::text as json_text;
pub(super) use request::{Request, named};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::TypedValueParser as _;

use self::findings::Findings;
use crate::storage::disk::{Disk, RealDisk};

/// Prints what is in the files of a log
///
/// The options and the output are those of Kafka's kafka-dump-log.
#[derive(Args, Clone, Debug)]
pub struct DumpLogArguments {
    /// The log, index, time index, transaction index, producer snapshot and metadata snapshot files to print
    #[arg(long, required = true, value_delimiter = ',', value_name = "FILE,...", value_parser = clap::builder::OsStringValueParser::new().map(PathBuf::from))]
    pub files: Vec<PathBuf>,

    /// Prints the records of each batch, too
    #[arg(long)]
    pub deep_iteration: bool,

    /// Prints keys and values of the records, too; any decoder does that as well
    #[arg(long)]
    pub print_data_log: bool,

    /// Prints of the records nothing but keys and values
    #[arg(long)]
    pub skip_record_metadata: bool,

    /// Reads of each log file no more than this
    #[arg(long, value_name = "BYTES", default_value_t = i32::MAX, value_parser = clap::value_parser!(i32).range(0..))]
    pub max_bytes: i32,

    /// The largest batch that an index entry may point to
    #[arg(long, value_name = "BYTES", default_value_t = 5 << 20, value_parser = clap::value_parser!(i32).range(0..))]
    pub max_message_size: i32,

    /// Checks the indexes against the logs without printing them
    #[arg(long)]
    pub verify_index_only: bool,

    /// Only looks whether Kafka would build the indexes anew when it starts
    #[arg(long)]
    pub index_sanity_check: bool,

    /// How to read keys: one of Kafka's StringDecoder, IntegerDecoder, LongDecoder, DefaultDecoder (hexadecimal here)
    #[arg(long, value_name = "CLASS", num_args = 0..=1, default_missing_value = DEFAULT_CLASS, value_parser = PlainDecoder::of_class)]
    pub key_decoder_class: Option<PlainDecoder>,

    /// How to read values; as for keys
    #[arg(long, value_name = "CLASS", num_args = 0..=1, default_missing_value = DEFAULT_CLASS, value_parser = PlainDecoder::of_class)]
    pub value_decoder_class: Option<PlainDecoder>,

    /// Reads the records as those of __consumer_offsets
    #[arg(long)]
    pub offsets_decoder: bool,

    /// Reads the records as those of __transaction_state
    #[arg(long)]
    pub transaction_log_decoder: bool,

    /// Reads the records as those of __cluster_metadata
    #[arg(long)]
    pub cluster_metadata_decoder: bool,

    /// Reads the records as those of __share_group_state
    #[arg(long)]
    pub share_group_state_decoder: bool,

    /// Kafka's decoder for the metadata of tiered storage, which Ottla does not have: refused
    #[arg(long)]
    pub remote_log_metadata_decoder: bool,
}

impl DumpLogArguments {
    /// `Err`: what was asked for cannot be done.
    fn decoder(&self) -> Result<Decoder, String> {
        // Kafka's order, if several are asked for.
        if self.offsets_decoder {
            Ok(Decoder::Offsets)
        } else if self.transaction_log_decoder {
            Ok(Decoder::Transactions)
        } else if self.cluster_metadata_decoder {
            Ok(Decoder::ClusterMetadata)
        } else if self.remote_log_metadata_decoder {
            Err(NO_TIERED_STORAGE.to_owned())
        } else if self.share_group_state_decoder {
            Ok(Decoder::ShareGroupState)
        } else {
            let key = self.key_decoder_class.unwrap_or_default();
            Ok(Decoder::Plain { key, value: self.value_decoder_class.unwrap_or_default() })
        }
    }

    fn prints_contents(&self) -> bool {
        self.print_data_log
            || self.offsets_decoder
            || self.transaction_log_decoder
            || self.cluster_metadata_decoder
            || self.share_group_state_decoder
            || self.key_decoder_class.is_some()
            || self.value_decoder_class.is_some()
    }
}

/// Why `--remote-log-metadata-decoder` is refused.
pub(super) const NO_TIERED_STORAGE: &str =
    "--remote-log-metadata-decoder: the metadata of tiered storage cannot be read, Ottla has no tiered storage";

/// What begins the line of a record.
const RECORD_INDENT: &str = "|";

/// Why a dump ends early.
#[derive(Debug, thiserror::Error)]
enum DumpError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is a directory: name the files in it, as {path}/00000000000000000000.log", path = path.display())]
    Directory { path: PathBuf },
    #[error("{}: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// The argument of an option; says all that is to be said.
    #[error("{0}")]
    Argument(String),
    /// Nobody may be there any more to read it.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

impl DumpError {
    fn damaged(path: &Path, reason: impl ToString) -> DumpError {
        DumpError::Damaged { path: path.to_owned(), reason: reason.to_string() }
    }

    /// For `map_err` on what was read from `path`.
    fn reading(path: &Path) -> impl Fn(io::Error) -> DumpError {
        move |source| match path.is_dir() {
            true => DumpError::Directory { path: path.to_owned() },
            false => DumpError::Read { path: path.to_owned(), source },
        }
    }
}

/// A dump that is being made.
struct Dump<'a> {
    request: &'a Request,
    disk: Arc<dyn Disk>,
    out: &'a mut dyn Write,
    findings: Findings,
}

/// Prints the files; returns the process's exit code.
pub(super) fn run(arguments: &DumpLogArguments) -> u8 {
    match Request::of_arguments(arguments) {
        Ok(request) => print(&request),
        Err(reason) => {
            let _ = writeln!(io::stderr(), "ottla: {reason}");
            2
        }
    }
}

/// Prints what is asked for; returns the process's exit code.
pub(super) fn print(request: &Request) -> u8 {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    dump(request, &mut out, &mut io::stderr())
}

fn dump(request: &Request, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let mut dump = Dump { request, disk: RealDisk::new(), out, findings: Findings::default() };
    let dumped = dump.files(err);
    // Also what was printed before an error.
    let flushed = dump.out.flush();
    let result = dumped.and_then(|()| Ok(flushed?)).and_then(|()| Ok(dump.findings.print(err)?));
    match result {
        Ok(()) => 0,
        // As when a pager was left.
        Err(DumpError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(DumpError::Argument(reason)) => {
            let _ = writeln!(err, "{reason}");
            1
        }
        Err(error) => {
            let _ = writeln!(err, "ottla: {error}");
            1
        }
    }
}

impl Dump<'_> {
    fn files(&mut self, err: &mut dyn Write) -> Result<(), DumpError> {
        let request = self.request;
        for path in &request.files {
            writeln!(self.out, "Dumping {}", path.display())?;
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
                "log" | "checkpoint" => self.log(path, name)?,
                "index" => self.offset_index(path, name)?,
                "timeindex" => self.time_index(path, name)?,
                "txnindex" => self.txn_index(path, name, err)?,
                "snapshot" => self.producer_snapshot(path, err)?,
                _ => {
                    self.out.flush()?;
                    write!(err, "Ignoring unknown file {}", path.display())?;
                    // The rest of the line is Ottla's: Kafka has one for all.
                    match std::fs::metadata(path) {
                        Ok(found) if found.is_dir() => {
                            let file = path.join("00000000000000000000.log");
                            writeln!(err, ": a directory; name the files in it, as {}", file.display())?;
                        }
                        Err(error) => writeln!(err, ": {error}")?,
                        Ok(_) => writeln!(err)?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// The base offset in the name of one of a segment's files.
fn base_offset(path: &Path, name: &str) -> Result<i64, DumpError> {
    let digits = name.split('.').next().unwrap_or_default();
    digits.parse().map_err(|_| DumpError::damaged(path, "its name does not begin with an offset"))
}

#[cfg(test)]
mod tests;
