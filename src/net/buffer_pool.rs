//! Buffers that sockets are read into, and that small pieces of the log are read into on their way out.
//!
//! A connection holds one only while bytes are moving, so idle connections cost none. The pool keeps what is given back
//! for the next connection; what nobody needed between two calls of [`BufferPool::trim`] is freed there. Only the pages
//! that were ever written to take memory, and the buffer given back last is taken first: a broker with little to do
//! keeps a few pages, not megabytes.

use bytes::BytesMut;
use parking_lot::Mutex;

/// Size of every buffer.
pub(super) const BUFFER_SIZE: usize = 256 << 10;

/// Shelves of buffers, so that many cores do not wait for one lock.
pub(super) struct BufferPool {
    receive: Box<[Mutex<Shelf<BytesMut>>]>,
    send: Box<[Mutex<Shelf<Vec<u8>>>]>,
}

struct Shelf<B> {
    buffers: Vec<B>,
    /// How many lay here untouched since the last trim.
    unused: usize,
}

impl<B> Shelf<B> {
    fn row(length: usize) -> Box<[Mutex<Shelf<B>>]> {
        (0..length).map(|_| Mutex::new(Shelf { buffers: Vec::new(), unused: 0 })).collect()
    }

    fn take(&mut self) -> Option<B> {
        let buffer = self.buffers.pop();
        self.unused = self.unused.min(self.buffers.len());
        buffer
    }

    fn trim(&mut self) -> Vec<B> {
        let freed = self.buffers.drain(..self.unused).collect();
        self.unused = self.buffers.len();
        freed
    }
}

impl BufferPool {
    pub(super) fn new(shelves: usize) -> BufferPool {
        BufferPool { receive: Shelf::row(shelves.max(1)), send: Shelf::row(shelves.max(1)) }
    }

    /// An empty buffer of [`BUFFER_SIZE`]. `hint` (a connection's id) spreads the callers over the shelves.
    pub(super) fn receive_buffer(&self, hint: u64) -> BytesMut {
        let taken = shelf(&self.receive, hint).lock().take();
        taken.unwrap_or_else(|| BytesMut::with_capacity(BUFFER_SIZE))
    }

    /// Takes a buffer back, whatever is in it. One that requests still have slices of is left to them.
    pub(super) fn give_receive_buffer(&self, hint: u64, mut buffer: BytesMut) {
        buffer.clear();
        if buffer.try_reclaim(BUFFER_SIZE) {
            shelf(&self.receive, hint).lock().buffers.push(buffer);
        }
    }

    /// A buffer of exactly [`BUFFER_SIZE`] bytes, of any content.
    pub(super) fn send_buffer(&self, hint: u64) -> Vec<u8> {
        let taken = shelf(&self.send, hint).lock().take();
        taken.unwrap_or_else(|| vec![0; BUFFER_SIZE])
    }

    pub(super) fn give_send_buffer(&self, hint: u64, buffer: Vec<u8>) {
        assert_eq!(buffer.len(), BUFFER_SIZE, "only whole buffers come back");
        shelf(&self.send, hint).lock().buffers.push(buffer);
    }

    /// Frees the buffers that were not needed since the last call.
    pub(super) fn trim(&self) {
        for shelf in &self.receive {
            // Freed after the lock is gone.
            let freed = shelf.lock().trim();
            drop(freed);
        }
        for shelf in &self.send {
            let freed = shelf.lock().trim();
            drop(freed);
        }
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        let received: usize = self.receive.iter().map(|shelf| shelf.lock().buffers.len()).sum();
        let sent: usize = self.send.iter().map(|shelf| shelf.lock().buffers.len()).sum();
        received + sent
    }
}

fn shelf<B>(row: &[Mutex<Shelf<B>>], hint: u64) -> &Mutex<Shelf<B>> {
    &row[(hint % row.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_whole_after_its_slices_are_gone() {
        let pool = BufferPool::new(1);
        let mut buffer = pool.receive_buffer(0);
        buffer.resize(BUFFER_SIZE, 1);
        let slice = buffer.split_to(100_000).freeze();
        drop(slice);
        pool.give_receive_buffer(0, buffer);
        assert_eq!(pool.kept(), 1);
        let again = pool.receive_buffer(0);
        assert_eq!((again.len(), again.capacity()), (0, BUFFER_SIZE));
    }

    #[test]
    fn a_buffer_with_a_slice_outstanding_is_not_reused() {
        let pool = BufferPool::new(1);
        let mut buffer = pool.receive_buffer(0);
        buffer.resize(BUFFER_SIZE, 1);
        let slice = buffer.split_to(100_000).freeze();
        pool.give_receive_buffer(0, buffer);
        assert_eq!(pool.kept(), 0);
        assert!(slice.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn trimming_frees_what_lay_unused_since_the_last_trim() {
        let pool = BufferPool::new(1);
        let taken: Vec<_> = (0..5).map(|_| pool.send_buffer(7)).collect();
        taken.into_iter().for_each(|buffer| pool.give_send_buffer(7, buffer));
        pool.trim();
        assert_eq!(pool.kept(), 5, "all were in use a moment ago");
        let (one, two) = (pool.send_buffer(7), pool.send_buffer(7));
        pool.give_send_buffer(7, one);
        pool.give_send_buffer(7, two);
        pool.trim();
        assert_eq!(pool.kept(), 2);
        pool.trim();
        assert_eq!(pool.kept(), 0);
    }
}
