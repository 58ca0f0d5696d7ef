//! What does not fit together in the files that are dumped; printed to standard error when all of them were read.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Pairs of one kind, of one file after the other.
#[derive(Debug)]
struct PerFile<T>(Vec<(PathBuf, T)>);

impl<T> Default for PerFile<T> {
    fn default() -> PerFile<T> {
        PerFile(Vec::new())
    }
}

impl<T: Default> PerFile<T> {
    /// Those of a file; files are read one after the other.
    fn of(&mut self, path: &Path) -> &mut T {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if self.0.last().is_none_or(|(last, _)| *last != absolute) {
            self.0.push((absolute, T::default()));
        }
        &mut self.0.last_mut().expect("there is one").1
    }
}

/// See the module's documentation. Offsets are those of batches' last records.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What the index says, and what is in the log there.
    index_mismatches: PerFile<BTreeMap<i64, i64>>,
    /// What the time index says, and the largest timestamp in the batch it names.
    timestamp_mismatches: PerFile<Vec<(i64, i64)>>,
    /// A timestamp, and the one before it in the time index.
    timestamps_out_of_order: PerFile<Vec<(i64, i64)>>,
    /// An offset in the time index, and that of the batch where it should be; -1: none.
    offsets_not_found: PerFile<Vec<(i64, i64)>>,
    /// Offsets of neighbours in a log; -1 stands before the first.
    gaps: PerFile<BTreeMap<i64, i64>>,
}

impl Findings {
    pub fn index_mismatch(&mut self, path: &Path, index_offset: i64, log_offset: i64) {
        self.index_mismatches.of(path).insert(index_offset, log_offset);
    }

    pub fn timestamp_mismatch(&mut self, path: &Path, index_timestamp: i64, log_timestamp: i64) {
        self.timestamp_mismatches.of(path).push((index_timestamp, log_timestamp));
    }

    pub fn timestamp_out_of_order(&mut self, path: &Path, timestamp: i64, previous: i64) {
        self.timestamps_out_of_order.of(path).push((timestamp, previous));
    }

    pub fn offset_not_found(&mut self, path: &Path, index_offset: i64, log_offset: i64) {
        self.offsets_not_found.of(path).push((index_offset, log_offset));
    }

    pub fn gap(&mut self, path: &Path, before: i64, after: i64) {
        self.gaps.of(path).insert(before, after);
    }

    pub fn print(&self, err: &mut dyn Write) -> io::Result<()> {
        for (path, pairs) in &self.index_mismatches.0 {
            writeln!(err, "Mismatches in :{}", path.display())?;
            for (index_offset, log_offset) in pairs.iter().rev() {
                writeln!(err, "  Index offset: {index_offset}, log offset: {log_offset}")?;
            }
        }
        for (path, pairs) in &self.timestamp_mismatches.0 {
            writeln!(err, "Found timestamp mismatch in :{}", path.display())?;
            for (index_timestamp, log_timestamp) in pairs {
                writeln!(err, "  Index timestamp: {index_timestamp}, log timestamp: {log_timestamp}")?;
            }
        }
        for (path, pairs) in &self.timestamps_out_of_order.0 {
            writeln!(err, "Found out of order timestamp in :{}", path.display())?;
            for (timestamp, previous) in pairs {
                writeln!(err, "  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}")?;
            }
        }
        for (path, pairs) in &self.offsets_not_found.0 {
            writeln!(err, "The following indexed offsets are not found in :{}", path.display())?;
            for (index_offset, log_offset) in pairs {
                writeln!(err, "Indexed offset: {index_offset}, found log offset: {log_offset}")?;
            }
        }
        for (path, pairs) in &self.gaps.0 {
            writeln!(err, "Non-consecutive offsets in {}", path.display())?;
            for (before, after) in pairs {
                writeln!(err, "  {before} is followed by {after}")?;
            }
        }
        Ok(())
    }
}
