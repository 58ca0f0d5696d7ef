//! A file of a simulated disk that somebody has open.

use std::io::{self, IoSlice};
use std::sync::Arc;

use parking_lot::Mutex;

use super::State;
use super::faults::Call;
use super::tree::FileChange;
use crate::storage::disk::DiskFile;

/// A file that is open: it lives on when its name goes.
pub struct SimulatedFile {
    pub state: Arc<Mutex<State>>,
    pub node: usize,
}

impl SimulatedFile {
    fn change(&self, call: Call, change: FileChange) -> io::Result<()> {
        let mut state = self.state.lock();
        let kind = state.tree.kind(self.node);
        let was_dead = state.faults.is_dead;
        let result = state.faults.call(call, &kind);
        // What dies or fails in a write may have written a part of it.
        let torn = (result.is_err() && !was_dead).then(|| change.torn(&mut state.random));
        let file = state.tree.file(self.node);
        match (&result, torn) {
            (Ok(()), _) => {
                change.apply(&mut file.bytes);
                file.pending.push(change);
            }
            (Err(_), Some(torn @ FileChange::Write(..))) => {
                torn.apply(&mut file.bytes);
                file.pending.push(torn);
            }
            (Err(_), _) => {}
        }
        result
    }
}

impl DiskFile for SimulatedFile {
    fn file_len(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        let kind = state.tree.kind(self.node);
        state.faults.call(Call::Len, &kind)?;
        Ok(state.tree.file(self.node).bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        let kind = state.tree.kind(self.node);
        state.faults.call(Call::Read, &kind)?;
        let rest = state.tree.file(self.node).bytes.get(position as usize..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, position).map(Some)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let bytes = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect::<Vec<u8>>();
        let written = bytes.len();
        self.change(Call::Write, FileChange::Write(position, bytes))?;
        Ok(written)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let kind = state.tree.kind(self.node);
        let was_dead = state.faults.is_dead;
        let result = state.faults.call(Call::Sync, &kind);
        let State { tree, random, faults, .. } = &mut *state;
        let file = tree.file(self.node);
        match &result {
            Ok(()) => file.sync(),
            Err(_) if !was_dead && !faults.is_dead => {
                file.fail_to_sync(random);
                faults.has_failed_to_sync = true;
            }
            Err(_) => {}
        }
        result
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let is_cut = self.state.lock().tree.file(self.node).bytes.len() as u64 >= len;
        self.change(if is_cut { Call::Cut } else { Call::SetLen }, FileChange::SetLen(len))
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        let mut state = self.state.lock();
        let kind = state.tree.kind(self.node);
        state.faults.call(Call::SetModified, &kind)?;
        state.tree.file(self.node).modified_ms = modified_ms;
        Ok(())
    }
}
