//! Segments whose offsets and those of what is in front of them do not go together: which of the two is wrong.
//!
//! | what begins before the segment in front of it ends | what becomes of it |
//! |---|---|
//! | a segment's name, not its records | it is named by its records |
//! | a segment, as the one in front of it has a batch too high, or a few | those batches are damaged; the segment stays |
//! | a segment with some records behind that end, and nobody else has them | what is there twice is taken out |
//! | a segment with none, or where others have the records | it goes: it was given up, or cut off, and a power loss has brought it back |

use std::io;
use std::sync::Arc;

use crate::storage::file_name::{FileKind, FileName};
use crate::storage::recovery::segments::{Checked, Damage};
use crate::storage::recovery::{DamagePolicy, Recovery};
use crate::storage::scan::{ScanError, first_batch, first_sound_offset, start_of_records};
use crate::storage::segment::{FilesFound, LogSegment};
use crate::types::Offset;

impl Recovery<'_> {
    /// Where the records of a segment begin, by what is whole and can stand in it.
    fn start_of(&mut self, segment: &LogSegment) -> io::Result<Option<Offset>> {
        let base_offset = segment.base_offset();
        if let Some(start) = self.starts.get(&base_offset) {
            return Ok(*start);
        }
        let start = start_of_records(&*segment.file()?, base_offset, segment.size()).map_err(ScanError::into_io)?;
        self.starts.insert(base_offset, start);
        Ok(start)
    }

    /// Where the records of what follows a segment begin.
    pub(super) fn limit_of(&mut self, segment: &LogSegment, policy: DamagePolicy) -> io::Result<Option<Offset>> {
        // Of a follower's log it may be what follows that is wrong, and in one that is compacted nobody could tell.
        if policy.cuts_off() && self.params.config.cleanup_policy.compact {
            return Ok(None);
        }
        for n in self.behind(segment)..self.segments.len() {
            let next = self.segments[n].clone();
            if let Some(start) = self.start_of(&next)? {
                return Ok(Some(start));
            }
        }
        Ok(None)
    }

    /// Several batches at the end of segment `n` reach into what follows it. If that is more than they are, they are what goes.
    pub(super) fn weigh_overlap(&mut self, n: usize, checked: &mut Checked) -> io::Result<()> {
        let Some((from, next_offset)) = checked.beyond else { return Ok(()) };
        if self.params.damage.cuts_off() || self.params.clean_shutdown {
            return Ok(());
        }
        let mut overlapped = 0;
        for behind in n + 1..self.segments.len() {
            let segment = self.segments[behind].clone();
            if self.start_of(&segment)?.is_some_and(|start| start < checked.next_offset) {
                overlapped += segment.size();
            }
        }
        let to = self.segments[n].size();
        if overlapped <= to - from {
            return Ok(());
        }
        checked.damaged.retain(|damage| damage.from < from);
        let reason = format!("their offsets, up to {}, are those of the segments that follow", checked.next_offset);
        checked.damaged.push(Damage { from, to, reason });
        checked.next_offset = next_offset;
        Ok(())
    }

    /// Segment `n` is looked at next: it must not begin before the log's end so far.
    pub(super) fn settle_overlap(&mut self, n: usize) -> io::Result<()> {
        let end = self.log_end_offset;
        if self.params.clean_shutdown {
            return Ok(());
        }
        while let Some(segment) = self.segments.get(n).cloned() {
            let (base_offset, size) = (segment.base_offset(), segment.size());
            if base_offset == end {
                return Ok(());
            }
            let file = segment.file()?;
            let name = FileName::new(base_offset, FileKind::Log);
            let first = first_batch(&*file, size).map_err(ScanError::into_io)?.map(|frame| frame.base_offset());
            if base_offset > end {
                // Its records go on where the log ends: what it is called is wrong.
                return match first.filter(|first| *first == end && *first < base_offset) {
                    Some(first) => self.rename(n, first, format!("its records begin at {first}")),
                    None => Ok(()),
                };
            }
            let keeps = !self.params.damage.cuts_off() || first.is_some_and(|first| first >= end);
            let start = match keeps {
                true => first_sound_offset(&*file, base_offset, size, end).map_err(ScanError::into_io)?,
                false => None,
            };
            if let Some(start) = start {
                let found = format!(
                    "begins before the segment in front of it ends, at {end}, its records from {start} on do not"
                );
                return self.rename(n, start, found);
            }
            let found = match first {
                None => format!(
                    "begins before the segment in front of it ends, at {end}, and holds nothing that can be read"
                ),
                Some(_) => format!("begins before the segment in front of it ends, at {end}"),
            };
            self.repaired(name, found, "deleted");
            let removed = self.segments.remove(n);
            self.remove_segments(vec![removed])?;
        }
        Ok(())
    }

    /// Names the files of segment `n` by where its records begin. Its indexes are made anew.
    fn rename(&mut self, n: usize, to: Offset, found: String) -> io::Result<()> {
        let segment = self.segments[n].clone();
        let (dir, from) = (self.dir.path(), segment.base_offset());
        let target = FileName::new(to, FileKind::Log);
        let is_between = self.segments.get(n + 1).is_none_or(|next| to < next.base_offset())
            && n.checked_sub(1).is_none_or(|before| self.segments[before].base_offset() < to);
        let name = FileName::new(from, FileKind::Log);
        if !is_between {
            self.repaired(name, found, "kept it");
            return Ok(());
        }
        self.repaired(name, found, "named it by them");
        self.context.disk.rename(&name.path_in(&dir), &target.path_in(&dir))?;
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex] {
            self.context.disk.remove_if_exists(&FileName::new(from, kind).path_in(&dir))?;
        }
        self.has_new_names = true;
        self.starts.remove(&from);
        self.renamed.insert(to);
        self.lost_txn_indexes.remove(&from);
        self.lost_txn_indexes.insert(to);
        if self.swapped.remove(&from) {
            self.swapped.insert(to);
        }
        let renamed = LogSegment::existing(&self.context.files, &self.dir, to, segment.size(), FilesFound::default());
        self.segments[n] = Arc::new(renamed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
