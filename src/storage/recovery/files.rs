//! The first look into a partition's directory: what an interrupted deletion or compaction left behind, and which
//! segments there are.
//!
//! - `.deleted`: removed; after a crash what says that a segment was being deleted stays until the others were checked.
//! - `.cleaned`: compaction had not finished writing it: removed, and so are the `.swap` files from its offset on, which
//!   belong to the same, unfinished, exchange.
//! - `.swap`: compaction had finished: the segments that it replaces are removed, and it takes their place.
//! - `.tmp` of an index: it was being built anew beside the one in use: removed.
//! - an index without its segment: removed.
//! - what is no file: where records should be, the log is not opened; else it is set aside, and made anew.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::storage::disk::{DirEntry, OpenMode, not_a_file};
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::leader_epochs;
use crate::storage::log::Wait;
use crate::storage::recovery::Recovery;
use crate::storage::scan::{HeaderScan, ScanError};
use crate::storage::segment::{FilesFound, LogSegment};
use crate::types::Offset;

/// The segments in a directory, and which files each has.
pub(super) type Found = BTreeMap<Offset, FilesFound>;

impl Recovery<'_> {
    /// Clears away what is left over, and finds the segments.
    pub(super) fn tidy_directory(&mut self) -> io::Result<Found> {
        let dir = self.dir.path();
        let entries = self.context.disk.list(&dir)?;
        let lost_txn_indexes = self.set_aside_what_is_no_file(&dir, &entries)?;
        let names = entries.iter().filter(|entry| entry.is_file()).filter_map(|entry| entry.name.to_str());
        let mut names: Vec<FileName> = names.filter_map(FileName::parse).collect();
        names.sort();
        // What was renamed before a kill may have its old name after a power loss. Nothing that took its place then may be gone.
        if !self.params.clean_shutdown && !names.is_empty() {
            self.context.disk.sync_dir(&dir)?;
        }

        let first_cleaned =
            names.iter().filter(|name| name.state == FileState::Cleaned).map(|name| name.base_offset).min();
        let is_unfinished = |name: &FileName| match name.state {
            FileState::InUse => false,
            FileState::Deleted | FileState::Cleaned | FileState::Temporary => true,
            FileState::Swap => first_cleaned.is_some_and(|first| name.base_offset >= first),
        };
        for name in names.extract_if(.., |name| is_unfinished(name)) {
            let tells = !self.params.clean_shutdown && name.kind == FileKind::Log && name.state == FileState::Deleted;
            match tells {
                true => self.empty_deleted(name)?,
                false => self.remove_file(name)?,
            }
        }
        if names.iter().any(|name| name.state == FileState::Swap) {
            self.finish_swap(&mut names)?;
        }

        let mut found = Found::new();
        for name in names.iter().filter(|name| name.kind == FileKind::Log) {
            found.insert(name.base_offset, FilesFound::default());
        }
        for name in names {
            match (name.kind, found.get_mut(&name.base_offset)) {
                (FileKind::Log | FileKind::Snapshot, _) => {}
                (FileKind::OffsetIndex, Some(files)) => files.offset_index = true,
                (FileKind::TimeIndex, Some(files)) => files.time_index = true,
                (FileKind::TxnIndex, Some(files)) => files.txn_index = true,
                (FileKind::OffsetIndex | FileKind::TimeIndex | FileKind::TxnIndex, None) => {
                    self.repaired(name, "an index without its segment", "removed");
                    self.remove_file(name)?;
                }
            }
        }
        self.lost_txn_indexes
            .extend(lost_txn_indexes.into_iter().filter(|base_offset| found.contains_key(base_offset)));
        Ok(found)
    }

    /// Makes room for what is made anew. Records that are not to be had are no reason to go on without them: they may be on a volume that
    /// is missing. Returns the segments whose transaction index went.
    fn set_aside_what_is_no_file(&mut self, dir: &Path, entries: &[DirEntry]) -> io::Result<Vec<Offset>> {
        let mut odd: Vec<(&DirEntry, Option<FileName>)> = Vec::new();
        for entry in entries.iter().filter(|entry| !entry.is_file()) {
            let Some(text) = entry.name.to_str() else { continue };
            let name = FileName::parse(text);
            if name.is_some_and(FileName::holds_records) {
                return Err(not_a_file(&dir.join(&entry.name), entry.kind));
            }
            if name.is_some() || text == leader_epochs::FILE_NAME {
                odd.push((entry, name));
            }
        }
        let mut lost_txn_indexes = Vec::new();
        for (entry, name) in odd {
            self.context.disk.set_aside(&dir.join(&entry.name))?;
            self.has_new_names = true;
            self.repaired(entry.name.to_string_lossy(), format!("is {}, not a file", entry.kind), "set it aside");
            if let Some(name) = name.filter(|name| name.kind == FileKind::TxnIndex && name.state == FileState::InUse) {
                lost_txn_indexes.push(name.base_offset);
            }
        }
        Ok(lost_txn_indexes)
    }

    /// Only its name is of use, and there may be no room left.
    fn empty_deleted(&mut self, name: FileName) -> io::Result<()> {
        self.deleted.insert(name.base_offset);
        let file = self.context.disk.open(&name.path_in(&self.dir.path()), OpenMode::ReadWrite)?;
        match file.file_len()? {
            0 => Ok(()),
            _ => file.set_len(0),
        }
    }

    /// Removes what is left of the segments that were being deleted.
    pub(super) fn remove_deleted(&mut self) -> io::Result<()> {
        for base_offset in std::mem::take(&mut self.deleted) {
            self.remove_file(FileName::new(base_offset, FileKind::Log).with_state(FileState::Deleted))?;
        }
        Ok(())
    }

    fn remove_file(&mut self, name: FileName) -> io::Result<()> {
        self.has_new_names = true;
        self.context.disk.remove_if_exists(&name.path_in(&self.dir.path())).map(drop)
    }

    /// Puts segments that compaction had finished in the place of those that they replace.
    fn finish_swap(&mut self, names: &mut Vec<FileName>) -> io::Result<()> {
        let mut replaced: Option<Range<Offset>> = None;
        for name in names.iter().filter(|name| name.state == FileState::Swap && name.kind == FileKind::Log) {
            let end = self.end_of(*name)?;
            let range = replaced.get_or_insert(name.base_offset..end);
            range.start = range.start.min(name.base_offset);
            range.end = range.end.max(end);
        }
        let is_replaced = |name: &FileName| {
            name.state == FileState::InUse
                && name.kind != FileKind::Snapshot
                && replaced.as_ref().is_some_and(|range| range.contains(&name.base_offset))
        };
        let mut had_txn_index = false;
        let count = names.len();
        for name in names.extract_if(.., |name| is_replaced(name)) {
            had_txn_index |= name.kind == FileKind::TxnIndex;
            self.remove_file(name)?;
        }
        let dir = self.dir.path();
        if names.len() < count {
            // Or a power loss may keep a new name, and bring back what it stands for.
            self.context.disk.sync_dir(&dir)?;
        }
        let has_txn_index = |name: &FileName| name.kind == FileKind::TxnIndex && name.state == FileState::Swap;
        let lacks_txn_index = had_txn_index && !names.iter().any(has_txn_index);
        for name in names.iter_mut().filter(|name| name.state == FileState::Swap) {
            let in_place = name.with_state(FileState::InUse);
            self.context.disk.rename(&name.path_in(&dir), &in_place.path_in(&dir))?;
            if name.kind == FileKind::Log {
                self.repaired(*name, "an exchange of segments was interrupted", "completed it");
                if lacks_txn_index {
                    self.swapped.insert(name.base_offset);
                }
            }
            *name = in_place;
        }
        self.has_new_names = true;
        names.sort();
        names.dedup();
        Ok(())
    }

    /// The offset behind the last batch of a file that is none of the log's segments yet.
    fn end_of(&self, name: FileName) -> io::Result<Offset> {
        let path = name.path_in(&self.dir.path());
        let file = self.context.disk.open(&path, OpenMode::Read)?;
        let mut end = name.base_offset;
        let mut scan = HeaderScan::new(&*file, end, 0, file.file_len()?, end, Wait::ForDisk);
        loop {
            match scan.next() {
                Ok(Some((_, frame))) => end = frame.last_offset().plus(1),
                // Damage is dealt with when the segment is in its place.
                Ok(None) | Err(ScanError::Damaged { .. }) => return Ok(end),
                Err(ScanError::Io(error)) => return Err(error),
                Err(ScanError::WouldBlock) => unreachable!("it was told to wait"),
            }
        }
    }

    /// Opens, so to speak, the segments: nothing is read but their sizes.
    pub(super) fn load_segments(&mut self, found: &Found) -> io::Result<()> {
        let dir = self.dir.path();
        for (base_offset, files) in found {
            let path = FileName::new(*base_offset, FileKind::Log).path_in(&dir);
            let size = self.context.disk.info(&path)?.len;
            let segment = LogSegment::existing(&self.context.files, &self.dir, *base_offset, size, *files);
            self.segments.push(Arc::new(segment));
            if files.txn_index {
                self.check_txn_index(*base_offset)?;
            }
        }
        // Where the log ends is not known yet.
        for (segment, next) in self.segments.iter().zip(self.segments.iter().skip(1)) {
            segment.end_before(next.base_offset(), Offset(0));
        }
        Ok(())
    }

    fn check_txn_index(&mut self, base_offset: Offset) -> io::Result<()> {
        let segment = self.segments.last().expect("it was just added").clone();
        if let Err(reason) = segment.check_txn_index()? {
            self.repaired(FileName::new(base_offset, FileKind::TxnIndex), reason, "built it anew");
            self.lost_txn_indexes.insert(base_offset);
        }
        Ok(())
    }
}
