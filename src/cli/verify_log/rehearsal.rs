//! A disk on which a repair is tried before it is done: it reads what is really there, and what is written to it goes to one
//! file without a name, which is gone with it.
//!
//! So a dry run says what a repair does, in the same words, as it is the same recovery that says it; and a repair knows
//! beforehand which files it will change, and how, and can keep them ([`crate::cli::verify_log::repair`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::storage::disk::{DirEntry, Disk, DiskFile, EntryKind, FileInfo, OpenMode, Space, not_a_file};

/// What becomes of a file that is really there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is removed, or another one takes its place.
    Whole(PathBuf),
    /// Of its bytes some are cut off, from here on. What is before stays.
    CutOff { path: PathBuf, from: u64, to: u64 },
}

/// See above.
pub(super) struct RehearsalDisk {
    real: Arc<dyn Disk>,
    spill: Arc<Spill>,
    files: Mutex<BTreeMap<PathBuf, Option<Arc<Content>>>>,
}

/// So much of a file lies together where the rehearsal keeps what is written.
const BLOCK: u64 = 64 << 10;

/// Where all that is written goes, in blocks. Made with the first of them.
#[derive(Default)]
struct Spill {
    file: OnceLock<File>,
    /// Behind the last block.
    end: Mutex<u64>,
}

impl Spill {
    /// Room for a block more.
    fn allocate(&self) -> io::Result<u64> {
        let mut end = self.end.lock();
        if self.file.get().is_none() {
            let _ = self.file.set(tempfile::tempfile()?);
        }
        *end += BLOCK;
        Ok(*end - BLOCK)
    }

    fn file(&self) -> io::Result<&File> {
        self.file.get().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// What a file holds by now, whatever it is called.
struct Content {
    /// The file that it was, really.
    origin: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    len: u64,
    /// So much of what is really there counts still.
    real_len: u64,
    /// What was written: from where to where it goes, and where its blocks are kept, by their numbers.
    ranges: BTreeMap<u64, u64>,
    blocks: BTreeMap<u64, u64>,
}

impl State {
    /// Where the stretch ends that begins at `position`, and whether it was written.
    fn stretch(&self, position: u64) -> (bool, u64) {
        if let Some((_, end)) = self.ranges.range(..=position).next_back().filter(|(_, end)| **end > position) {
            return (true, *end);
        }
        (false, self.ranges.range(position..).next().map_or(self.len, |(start, _)| *start))
    }

    fn note_written(&mut self, from: u64, to: u64) {
        let (mut from, mut to) = (from, to);
        while let Some((start, end)) = self.ranges.range(..=to).next_back().map(|(start, end)| (*start, *end))
            && end >= from
        {
            self.ranges.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        self.ranges.insert(from, to);
        self.len = self.len.max(to);
    }

    fn cut(&mut self, len: u64) {
        self.real_len = self.real_len.min(len);
        self.ranges.retain(|start, _| *start < len);
        self.ranges.values_mut().for_each(|end| *end = (*end).min(len));
        self.len = len;
    }
}

impl RehearsalDisk {
    /// `gone`: what is taken away before.
    pub fn new(real: Arc<dyn Disk>, gone: impl IntoIterator<Item = PathBuf>) -> RehearsalDisk {
        let files = Mutex::new(gone.into_iter().map(|path| (path, None)).collect());
        RehearsalDisk { real, spill: Arc::default(), files }
    }

    /// How many files there are for what was written.
    #[cfg(test)]
    pub fn spill_files(&self) -> usize {
        usize::from(self.spill.file.get().is_some())
    }

    /// What is there now under a name.
    fn content(&self, path: &Path) -> io::Result<Arc<Content>> {
        let mut files = self.files.lock();
        if let Some(known) = files.get(path) {
            return known.clone().ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let FileInfo { len, kind, .. } = self.real.info(path)?;
        if kind != EntryKind::File {
            return Err(not_a_file(path, kind));
        }
        let state = Mutex::new(State { len, real_len: len, ..State::default() });
        let content = Arc::new(Content { origin: Some(path.to_owned()), state });
        files.insert(path.to_owned(), Some(content.clone()));
        Ok(content)
    }

    /// What happened to files that are really there.
    pub fn changes(&self) -> io::Result<Vec<Change>> {
        let files = self.files.lock();
        let mut changes = Vec::new();
        // What has another name now, and is whole, is not lost.
        let is_whole = |content: &Content, len: u64| {
            let state = content.state.lock();
            state.real_len == len && state.ranges.is_empty()
        };
        let here = files.values().flatten();
        let mut whole = BTreeSet::new();
        for (origin, content) in here.filter_map(|content| Some((content.origin.as_ref()?, content))) {
            if self.real.exists(origin)? && is_whole(content, self.real.info(origin)?.len) {
                whole.insert(origin);
            }
        }
        for (path, now) in files.iter() {
            let Ok(FileInfo { len, kind: EntryKind::File, .. }) = self.real.info(path) else { continue };
            if whole.contains(path) {
                continue;
            }
            let cut = now.as_ref().filter(|content| content.origin.as_ref() == Some(path)).and_then(|content| {
                let state = content.state.lock();
                let only_cut = state.real_len < len && state.ranges.range(..state.real_len).next().is_none();
                only_cut.then_some(state.real_len)
            });
            changes.push(match cut {
                Some(from) => Change::CutOff { path: path.clone(), from, to: len },
                None => Change::Whole(path.clone()),
            });
        }
        Ok(changes)
    }
}

impl Disk for RehearsalDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let content = match (self.content(path), mode) {
            (Ok(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Ok(content), _) => content,
            (Err(error), OpenMode::Create | OpenMode::CreateNew) if error.kind() == io::ErrorKind::NotFound => {
                let content = Arc::new(Content { origin: None, state: Mutex::default() });
                self.files.lock().insert(path.to_owned(), Some(content.clone()));
                content
            }
            (Err(error), _) => return Err(error),
        };
        let real = content.origin.as_ref().map(|origin| self.real.open(origin, OpenMode::Read)).transpose()?;
        Ok(Arc::new(RehearsedFile { content, spill: self.spill.clone(), real }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        if let Some(known) = self.files.lock().get(path) {
            let content = known.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let modified_ms =
                content.origin.as_ref().map_or(Ok(0), |origin| self.real.info(origin).map(|info| info.modified_ms))?;
            return Ok(FileInfo { len: content.state.lock().len, kind: EntryKind::File, modified_ms });
        }
        self.real.info(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = self.real.list(dir)?;
        for (path, now) in self.files.lock().iter().filter(|(path, _)| path.parent() == Some(dir)) {
            let Some(name) = path.file_name() else { continue };
            entries.retain(|entry| entry.name != name);
            if now.is_some() {
                entries.push(DirEntry { name: name.to_owned(), kind: EntryKind::File });
            }
        }
        Ok(entries)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.real.info(dir).map(drop)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let content = self.content(from)?;
        let mut files = self.files.lock();
        files.insert(from.to_owned(), None);
        files.insert(to.to_owned(), Some(content));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.content(path)?;
        self.files.lock().insert(path.to_owned(), None);
        Ok(())
    }

    fn remove_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.real.info(dir).map(drop)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        self.real.space(dir)
    }
}

struct RehearsedFile {
    content: Arc<Content>,
    spill: Arc<Spill>,
    real: Option<Arc<dyn DiskFile>>,
}

impl DiskFile for RehearsedFile {
    fn file_len(&self) -> io::Result<u64> {
        Ok(self.content.state.lock().len)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.content.state.lock();
        if position >= state.len || buffer.is_empty() {
            return Ok(0);
        }
        let (is_written, end) = state.stretch(position);
        let is_real = !is_written && position < state.real_len;
        let end = if is_real { end.min(state.real_len) } else { end };
        let len = buffer.len().min((end - position) as usize);
        let buffer = &mut buffer[..len];
        if is_written && let Some(block) = state.blocks.get(&(position / BLOCK)) {
            let len = len.min((BLOCK - position % BLOCK) as usize);
            return self.spill.file()?.read_at(&mut buffer[..len], block + position % BLOCK);
        }
        match &self.real {
            Some(real) if is_real => real.read_at(buffer, position),
            _ => {
                buffer.fill(0);
                Ok(len)
            }
        }
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, position).map(Some)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let mut state = self.content.state.lock();
        let Some(bytes) = buffers.iter().find(|bytes| !bytes.is_empty()) else { return Ok(0) };
        let block = match state.blocks.get(&(position / BLOCK)) {
            Some(block) => *block,
            None => {
                let block = self.spill.allocate()?;
                state.blocks.insert(position / BLOCK, block);
                block
            }
        };
        let bytes = &bytes[..bytes.len().min((BLOCK - position % BLOCK) as usize)];
        let written = self.spill.file()?.write_at(bytes, block + position % BLOCK)?;
        state.note_written(position, position + written as u64);
        Ok(written)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.content.state.lock().cut(len);
        Ok(())
    }

    fn set_modified(&self, _modified_ms: i64) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::storage::disk::RealDisk;

    /// What is done to a disk, by the number of a file.
    #[derive(Clone, Debug)]
    enum Step {
        Write { file: usize, position: u64, bytes: Vec<u8> },
        SetLen { file: usize, len: u64 },
        Rename { from: usize, to: usize },
        Remove { file: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        let file = || 0..4usize;
        prop_oneof![
            1 => (file(), BLOCK - 10..BLOCK + 10, prop::collection::vec(any::<u8>(), 1..20))
                .prop_map(|(file, position, bytes)| Step::Write { file, position, bytes }),
            4 => (file(), 0..60u64, prop::collection::vec(any::<u8>(), 1..20))
                .prop_map(|(file, position, bytes)| Step::Write { file, position, bytes }),
            2 => (file(), 0..60u64).prop_map(|(file, len)| Step::SetLen { file, len }),
            1 => (file(), file()).prop_map(|(from, to)| Step::Rename { from, to }),
            1 => file().prop_map(|file| Step::Remove { file }),
        ]
    }

    fn take(disk: &dyn Disk, dir: &Path, step: &Step) {
        let path = |file: &usize| dir.join(file.to_string());
        match step {
            Step::Write { file, position, bytes } => {
                disk.open(&path(file), OpenMode::Create).unwrap().write_all_at(bytes, *position).unwrap();
            }
            Step::SetLen { file, len } => {
                disk.open(&path(file), OpenMode::Create).unwrap().set_len(*len).unwrap();
            }
            Step::Rename { from, to } if from != to => drop(disk.rename(&path(from), &path(to))),
            Step::Rename { .. } => {}
            Step::Remove { file } => drop(disk.remove_if_exists(&path(file)).unwrap()),
        }
    }

    /// All files and what is in them.
    fn content(disk: &dyn Disk, dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let names = disk.list(dir).unwrap().into_iter().map(|entry| dir.join(entry.name));
        names.map(|path| (path.clone(), disk.read_file(&path, 1 << 20).unwrap())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// It is a disk like another, nothing happens to the real one, and it knows what would.
        #[test]
        fn a_rehearsal_is_what_happens_then(steps in prop::collection::vec(step(), 1..30), sizes in prop::array::uniform4(0..50u8)) {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            for (file, size) in sizes.iter().enumerate().take(3) {
                std::fs::write(dir.join(file.to_string()), (0..*size).map(|n| n + file as u8).collect::<Vec<u8>>()).unwrap();
            }
            let real = RealDisk::new();
            let before = content(&*real, dir);
            let rehearsal = RehearsalDisk::new(real.clone(), []);
            steps.iter().for_each(|step| take(&rehearsal, dir, step));
            prop_assert_eq!(&content(&*real, dir), &before);
            let changes = rehearsal.changes().unwrap();
            let expected = content(&rehearsal, dir);
            steps.iter().for_each(|step| take(&*real, dir, step));
            let after = content(&*real, dir);
            prop_assert_eq!(&after, &expected);
            for (path, was) in &before {
                let kept = after.values().any(|now| now.starts_with(was));
                let told = changes.iter().any(|change| match change {
                    Change::Whole(changed) => changed == path,
                    Change::CutOff { path: changed, from, to } => {
                        let (from, to) = (*from as usize, *to as usize);
                        changed == path && to == was.len() && after[path].starts_with(&was[..from])
                    }
                });
                prop_assert!(kept || told, "{path:?} is lost: {changes:?}");
            }
        }
    }
}
