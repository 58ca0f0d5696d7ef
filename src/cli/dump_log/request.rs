//! What a dump is asked for, on the command line of either name of the tool.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::decoder::Decoder;
use super::{DumpError, DumpLogArguments};

/// An argument; `Err` says why it is none. As in Kafka's tool it is looked at where a file first needs it.
pub type Argument<T> = Result<T, String>;

/// What a dump is asked for.
#[derive(Debug)]
pub struct Request {
    pub files: Vec<PathBuf>,
    pub deep_iteration: bool,
    /// Keys and values, too.
    pub prints_contents: bool,
    pub skip_record_metadata: bool,
    pub verify_index_only: bool,
    pub index_sanity_check: bool,
    pub decoder: Argument<Decoder>,
    pub max_bytes: Argument<i32>,
    pub max_message_size: Argument<i32>,
}

impl Request {
    /// `Err`: what was asked for cannot be done.
    pub fn of_arguments(arguments: &DumpLogArguments) -> Argument<Request> {
        Ok(Request {
            files: named(arguments.files.clone()),
            deep_iteration: arguments.deep_iteration,
            prints_contents: arguments.prints_contents(),
            skip_record_metadata: arguments.skip_record_metadata,
            verify_index_only: arguments.verify_index_only,
            index_sanity_check: arguments.index_sanity_check,
            decoder: Ok(arguments.decoder()?),
            max_bytes: Ok(arguments.max_bytes),
            max_message_size: Ok(arguments.max_message_size),
        })
    }

    pub(super) fn decoder(&self) -> Result<Decoder, DumpError> {
        self.decoder.clone().map_err(DumpError::Argument)
    }

    pub(super) fn max_bytes(&self) -> Result<i32, DumpError> {
        self.max_bytes.clone().map_err(DumpError::Argument)
    }

    pub(super) fn max_message_size(&self) -> Result<i32, DumpError> {
        self.max_message_size.clone().map_err(DumpError::Argument)
    }
}

/// The files of a list with commas, as Java splits it: commas at its end name nothing, and so do commas alone.
pub fn named(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    if files.len() > 1 {
        let last = files.iter().rposition(|path| !path.as_os_str().is_empty());
        files.truncate(last.map_or(0, |last| last + 1));
    }
    files.iter().map(|path| normal(path)).collect()
}

/// As Java has paths: of slashes that follow each other one counts, and one at the end none.
fn normal(path: &Path) -> PathBuf {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
    if bytes.len() > 1 && bytes.ends_with(b"/") {
        bytes.pop();
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_files_are_split_as_java_splits_them() {
        for (list, expected) in [
            (",", &[][..]),
            ("", &[""]),
            ("a.log", &["a.log"]),
            ("a.log,,", &["a.log"]),
            (",a.log", &["", "a.log"]),
            ("a.log,,b.log", &["a.log", "", "b.log"]),
            ("//d///a.log/,./b.log,/", &["/d/a.log", "./b.log", "/"]),
        ] {
            let files = named(list.split(',').map(PathBuf::from).collect());
            assert_eq!(files, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{list}");
        }
    }
}
