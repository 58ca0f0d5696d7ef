//! A disk that is full: records are refused, what is there is read, deletion makes room, and then all goes on without a
//! restart. Nothing that was acknowledged is missing.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kafka_protocol::messages::{CreateTopicsRequest, DescribeClusterRequest};
use ottla::protocol::ErrorCode;
use ottla::storage::disk::{DirEntry, Disk, DiskFile, FileInfo, OpenMode, RealDisk, Space};

use crate::broker::{Broker, Data};
use crate::client::{Client, create_topics, error, until};
use crate::records::{batch, large};

/// The machine's file system, of which only so much may be used.
#[derive(Clone, Default)]
struct LimitedDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// No limit: `None`.
    limit: Option<u64>,
    used: u64,
    /// Bytes that each file takes up.
    files: BTreeMap<PathBuf, Arc<Mutex<u64>>>,
}

impl State {
    /// Lets a file take up so much more, if there is room; returns how much it may.
    fn grant(&mut self, wanted: u64) -> u64 {
        let room = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.used));
        let granted = wanted.min(room);
        self.used += granted;
        granted
    }

    fn removed(&mut self, path: &Path) {
        if let Some(file) = self.files.remove(path) {
            self.used -= *file.lock().unwrap();
        }
    }

    fn below(&self, dir: &Path) -> Vec<PathBuf> {
        self.files.keys().filter(|path| path.starts_with(dir)).cloned().collect()
    }
}

fn full() -> io::Error {
    io::Error::from_raw_os_error(28)
}

impl LimitedDisk {
    /// Leaves so much room.
    fn leave(&self, room: u64) {
        let mut state = self.state.lock().unwrap();
        state.limit = Some(state.used + room);
    }
}

impl Disk for LimitedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = RealDisk::new().open(path, mode)?;
        let mut state = self.state.lock().unwrap();
        let allocated = match state.files.get(path) {
            Some(allocated) => allocated.clone(),
            None => {
                let len = file.file_len()?;
                state.used += len;
                let allocated = Arc::new(Mutex::new(len));
                state.files.insert(path.to_owned(), allocated.clone());
                allocated
            }
        };
        Ok(Arc::new(LimitedFile { file, allocated, state: self.state.clone() }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        RealDisk::new().info(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        RealDisk::new().list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk::new().create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        RealDisk::new().rename(from, to)?;
        state.removed(to);
        for path in state.below(from) {
            let file = state.files.remove(&path).unwrap();
            let new = to.join(path.strip_prefix(from).unwrap());
            state.files.insert(if path == from { to.to_owned() } else { new }, file);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        RealDisk::new().remove_file(path)?;
        state.removed(path);
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        RealDisk::new().remove_dir_all(dir)?;
        for path in state.below(dir) {
            state.removed(&path);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk::new().sync_dir(dir)
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        let state = self.state.lock().unwrap();
        let total = state.limit.unwrap_or(1 << 40);
        Ok(Space { total, usable: total.saturating_sub(state.used) })
    }
}

struct LimitedFile {
    file: Arc<dyn DiskFile>,
    allocated: Arc<Mutex<u64>>,
    state: Arc<Mutex<State>>,
}

impl LimitedFile {
    /// Takes up the first `end` bytes, as far as there is room; returns up to where.
    fn allocate(&self, end: u64) -> u64 {
        let mut state = self.state.lock().unwrap();
        let mut allocated = self.allocated.lock().unwrap();
        if end > *allocated {
            let wanted = end - *allocated;
            *allocated += state.grant(wanted);
        }
        end.min(*allocated)
    }
}

impl DiskFile for LimitedFile {
    fn file_len(&self) -> io::Result<u64> {
        self.file.file_len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.file.read_cached_at(buffer, position)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let bytes: Vec<u8> = buffers.iter().flat_map(|slice| slice.iter().copied()).collect();
        let room = self.allocate(position + bytes.len() as u64).saturating_sub(position) as usize;
        match room {
            0 if !bytes.is_empty() => Err(full()),
            room => self.file.write_vectored_at(&[IoSlice::new(&bytes[..room.min(bytes.len())])], position),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        let mut state = self.state.lock().unwrap();
        let mut allocated = self.allocated.lock().unwrap();
        state.used = state.used - *allocated + len;
        *allocated = len;
        Ok(())
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        self.file.set_modified(modified_ms)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        let before = *self.allocated.lock().unwrap();
        if self.allocate(len) < len {
            let mut state = self.state.lock().unwrap();
            let mut allocated = self.allocated.lock().unwrap();
            state.used -= *allocated - before;
            *allocated = before;
            return Err(full());
        }
        Ok(())
    }

    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        self.file.start_writeback(position, len)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }
}

/// Small segments, whose files go at once, and a retention that looks often.
const TOPIC: [(&str, &str); 2] = [("segment.bytes", "1048576"), ("file.delete.delay.ms", "0")];
const SETTINGS: [(&str, &str); 3] = [
    ("log.initial.task.delay.ms", "100"),
    ("log.retention.check.interval.ms", "100"),
    ("log.flush.offset.checkpoint.interval.ms", "100"),
];

/// Produces until that is refused; returns how many batches were acknowledged.
async fn fill(client: &mut Client, topic: &str, size: usize) -> usize {
    let records = batch(&[large(size)]);
    for count in 0.. {
        let answer = client.produce(topic, 0, -1, records.clone()).await;
        if answer.error_code != 0 {
            assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
            return count;
        }
    }
    unreachable!("it was never refused")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_records_until_something_is_deleted() {
    let disk = LimitedDisk::default();
    let broker = Broker::start_on(Data::new(), &SETTINGS, Arc::new(disk.clone())).await;
    let mut client = broker.client().await;
    for name in ["t", "other"] {
        client.create_topic(name, 1, &TOPIC).await;
        client.produced(name, 0, -1, batch(&["first"])).await;
    }
    disk.leave(5 << 20);
    let mut acknowledged = 1 + fill(&mut client, "t", 100_000).await;
    assert!(acknowledged > 40);
    // To the last byte.
    acknowledged += fill(&mut client, "t", 1000).await;
    acknowledged += fill(&mut client, "t", 1).await;
    for _ in 0..3 {
        // Those that have their file already, and those that need another one.
        assert_eq!(fill(&mut client, "other", 1).await, 0);
        assert_eq!(fill(&mut client, "t", 100_000).await, 0);
    }

    // All of it can be read.
    assert_eq!(client.latest("t", 0).await, acknowledged as i64);
    assert_eq!(client.read_from("t", 0, 0).await.len(), acknowledged);
    assert_eq!(client.read_from("other", 0, 0).await.len(), 1);
    // What changes the cluster has room of its own, but not for ever; then it is refused, too.
    let refused = loop {
        let request: CreateTopicsRequest = create_topics(&["x"], 2000, &[]);
        let answer = client.call(5, &request).await;
        let code = error(answer.topics[0].error_code);
        if code != ErrorCode::None {
            break code;
        }
        client.delete_topic("x").await;
    };
    assert_eq!(refused, ErrorCode::KafkaStorageError);
    assert!(client.is_served(0, &DescribeClusterRequest::default()).await);

    // What is deleted makes room, and all goes on.
    let half = acknowledged as i64 / 2;
    assert_eq!(client.delete_records("t", 0, half).await, Ok(half));
    let small = batch(&["again"]);
    until("room for records", async || client.produce("t", 0, -1, small.clone()).await.error_code == 0).await;
    client.produced("other", 0, -1, small.clone()).await;
    client.create_topic("new", 1, &TOPIC).await;
    client.produced("new", 0, -1, small.clone()).await;

    // The same by the deletion of a topic, on a disk that is full again.
    let more = 1 + fill(&mut client, "t", 10_000).await;
    client.delete_topic("t").await;
    until("room for records", async || client.produce("other", 0, -1, batch(&[large(200_000)])).await.error_code == 0)
        .await;
    assert!(more > 1);
    assert_eq!(client.read_from("other", 0, 0).await.len(), 3);

    let data = broker.shut_down().await;
    let broker = Broker::start_in(data, &[]).await;
    let mut client = broker.client().await;
    assert_eq!(client.read_from("other", 0, 0).await.len(), 3);
    assert_eq!(client.read_from("new", 0, 0).await, [(0, "again".to_owned())]);
    assert_eq!(client.topics().await, ["new", "other"]);
    broker.shut_down().await;
}

/// The process ends while the disk is full, in order or not, and the next one has all that was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_full_disk_acknowledged_is_there_after_a_restart() {
    let disk = LimitedDisk::default();
    let broker = Broker::start_on(Data::new(), &SETTINGS, Arc::new(disk.clone())).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &TOPIC).await;
    disk.leave(3 << 20);
    let mut acknowledged = fill(&mut client, "t", 50_000).await;
    acknowledged += fill(&mut client, "t", 1).await;
    let survivor = broker.survivor().await;
    assert_eq!(survivor.client().await.read_from("t", 0, 0).await.len(), acknowledged);
    survivor.shut_down().await;
    let broker = Broker::start_in(broker.shut_down().await, &[]).await;
    let mut client = broker.client().await;
    assert_eq!(client.read_from("t", 0, 0).await.len(), acknowledged);
    client.produced("t", 0, -1, batch(&["again"])).await;
    broker.shut_down().await;
}
