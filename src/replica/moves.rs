//! `ReplicaMoves`: replicas on their way from one log directory to another (KIP-113), while they serve.
//!
//! A few threads (`num.replica.alter.log.dirs.threads`) take turns with all moves: each turn copies a few batches. When a
//! copy has caught up it is synced, and then, while nobody can append, the rest is copied and the two change places. Then
//! the controller is to be told, see [`super::assignments`]; the metadata may name the old directory for a moment longer, and
//! a start that finds the replica elsewhere tells it again. So, other than in Kafka, no moment exists in which the
//! metadata names a directory whose log ends before what was acknowledged.
//!
//! | a move ends when | then |
//! |---|---|
//! | the copy has taken the log's place | the old directory is removed after `file.delete.delay.ms` |
//! | it is sent elsewhere, or back | the copy is removed |
//! | the partition is deleted, or either directory fails | |
//! | the log cannot be read, or the copy not written | it is told; the log goes on where it is, until it is sent again |

mod turns;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::{debug, error, info, warn};

use self::turns::Turns;
use super::assignments::Assignments;
use super::partition::Partition;
use crate::clock::Clock;
use crate::storage::disk::{is_disk_failure, is_full};
use crate::storage::log::{AppendError, ChangeError, CopyError, HandoverError, Log, ReadError};
use crate::storage::manager::{FutureLog, LogManager};
use crate::storage::throttler::Throttler;

/// How much a turn copies, at most.
const TURN_BYTES: usize = 4 << 20;
/// How much may be copied while nobody can append.
const LAST_BYTES: usize = 1 << 20;
/// How long a move waits that cannot go on: for compaction to end, or for room.
const PAUSE: Duration = Duration::from_millis(200);

/// A replica on its way.
struct Move {
    partition: Arc<Partition>,
    logs: FutureLog,
    lacks_room: bool,
}

/// What a turn has come to.
enum Turn {
    /// There is more to do at once.
    GoOn,
    Wait,
    End,
}

impl Move {
    /// A future log is of one move, which holds it.
    fn key(&self) -> usize {
        Arc::as_ptr(&self.logs.future) as usize
    }
}

#[derive(Default)]
struct Queue {
    turns: Turns<usize, Move>,
    threads: usize,
}

/// See the module.
pub struct ReplicaMoves {
    logs: Arc<LogManager>,
    clock: Arc<dyn Clock>,
    assignments: Arc<Assignments>,
    max_threads: usize,
    throttler: Throttler,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl ReplicaMoves {
    pub fn new(logs: Arc<LogManager>, assignments: Arc<Assignments>, max_threads: usize) -> Arc<ReplicaMoves> {
        let clock = logs.clock();
        Arc::new(ReplicaMoves {
            throttler: Throttler::new(f64::MAX, clock.monotonic()),
            logs,
            clock,
            assignments,
            max_threads: max_threads.max(1),
            queue: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// `replica.alter.log.dirs.io.max.bytes.per.second`
    pub fn set_rate(&self, bytes_per_second: i64) {
        let rate = if bytes_per_second == i64::MAX { f64::MAX } else { bytes_per_second.max(0) as f64 };
        self.throttler.set_rate(rate, self.clock.monotonic());
        self.changed.notify_all();
    }

    /// Moves a replica whose future log is there, unless that is under way.
    pub fn start(self: &Arc<Self>, partition: Arc<Partition>, logs: FutureLog) {
        let mut queue = self.queue.lock();
        let (name, to) = (partition.topic_partition().clone(), logs.future.dir());
        let new = Move { partition, logs, lacks_room: false };
        if !queue.turns.add(new.key(), new) {
            return;
        }
        info!(partition = %name, to = %to.display(), "moving the replica");
        if queue.threads < self.max_threads && queue.turns.len() > queue.threads {
            let this = self.clone();
            match std::thread::Builder::new().name("replica-move".to_owned()).spawn(move || this.run()) {
                Ok(_) => queue.threads += 1,
                Err(error) => error!(%error, "cannot start a thread to move replicas"),
            }
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Ends all work, and waits for it; what was copied stays for the next start.
    pub fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.turns.stop();
        self.changed.notify_all();
        while queue.threads > 0 {
            self.changed.wait(&mut queue);
        }
    }

    /// The work of a thread; it ends when there is none.
    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            let Some((key, mut moved)) = queue.turns.begin() else {
                queue.threads -= 1;
                self.changed.notify_all();
                return;
            };
            drop(queue);
            // Shared with those that append, so a panic here must not take the thread's place in the count with it.
            let turn = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.turn(&mut moved)));
            let mut queue = self.queue.lock();
            let goes_on = match turn {
                Ok(Turn::GoOn | Turn::Wait) => true,
                Ok(Turn::End) => false,
                Err(_) => {
                    error!(partition = %moved.partition.topic_partition(), "a move ended by a panic");
                    false
                }
            };
            queue.turns.end(&key, goes_on.then_some(moved));
            if matches!(turn, Ok(Turn::Wait)) && !queue.turns.is_stopped() {
                self.changed.wait_for(&mut queue, PAUSE);
            }
        }
    }

    fn turn(&self, moved: &mut Move) -> Turn {
        let turn = self.go_on(moved);
        if matches!(turn, Turn::End) {
            // Unless it is sent elsewhere by now.
            let next = self.logs.future(moved.partition.topic_partition());
            if next.is_none_or(|next| next.is_same(&moved.logs)) {
                moved.logs.current.pause_cleaning(false);
            }
        }
        turn
    }

    fn go_on(&self, moved: &mut Move) -> Turn {
        let name = moved.partition.topic_partition().clone();
        let under_way = self.logs.future(&name).filter(|logs| logs.is_same(&moved.logs));
        if under_way.is_none_or(|logs| !Arc::ptr_eq(&logs.current, &moved.partition.log())) {
            debug!(partition = %name, "the move has ended");
            return Turn::End;
        }
        let FutureLog { current, future, .. } = &moved.logs;
        if current.pause_cleaning(true) {
            return Turn::Wait;
        }
        match self.copy(current, future) {
            Ok(Turn::End) => {}
            Ok(turn) => {
                moved.lacks_room = false;
                return turn;
            }
            Err(error) => return self.failed(moved, &error),
        }
        match self.exchange(moved) {
            Ok(turn) => turn,
            Err(error) => self.failed(moved, &error),
        }
    }

    /// Copies some. `End`: there is nothing more to copy now.
    fn copy(&self, current: &Log, future: &Log) -> Result<Turn, CopyError> {
        future.align_with(current)?;
        let mut copied = 0;
        while copied < TURN_BYTES {
            if self.throttler.delay(self.clock.monotonic()).is_some() {
                return Ok(Turn::Wait);
            }
            let bytes = future.copy_from(current)?;
            self.throttler.observe(bytes, self.clock.monotonic());
            copied += bytes;
            if bytes == 0 {
                future.follow_log_start(current)?;
                return Ok(Turn::End);
            }
        }
        future.follow_log_start(current)?;
        Ok(Turn::GoOn)
    }

    /// Puts the copy, which was complete just now, in the log's place.
    fn exchange(&self, moved: &Move) -> Result<Turn, CopyError> {
        let FutureLog { future, topic_id, directory, .. } = &moved.logs;
        let name = moved.partition.topic_partition();
        // What takes long is done before others must wait for it.
        if let Err(error) = future.flush(future.log_end_offset()) {
            debug!(partition = %name, %error, "the copy could not be synced");
            return Ok(Turn::Wait);
        }
        let mut done = None;
        let exchanged = moved.partition.replace_log(|current| {
            let mut left = LAST_BYTES;
            loop {
                match future.copy_from(current).map_err(ExchangeError::Copy)? {
                    0 => break,
                    bytes if bytes > left => return Err(ExchangeError::TooMuch),
                    bytes => left -= bytes,
                }
            }
            let exchange = self.logs.replace_with_future(name, &moved.logs).map_err(ExchangeError::Handover)?;
            let log = exchange.log();
            done = Some(exchange);
            // Its directory may have failed before anybody could know that it has this partition, or the old one while it was
            // left, which harms nobody any more.
            moved.partition.follow_directory(&self.logs);
            Ok(log)
        });
        if let Some(exchange) = done {
            self.logs.finish_exchange(exchange);
        }
        match exchanged {
            Ok(()) => {
                self.assignments.add(*topic_id, name.partition, *directory);
                Ok(Turn::End)
            }
            Err(ExchangeError::TooMuch | ExchangeError::Handover(HandoverError::Differs)) => Ok(Turn::GoOn),
            Err(ExchangeError::Copy(error)) => Err(error),
            Err(ExchangeError::Handover(HandoverError::Offline | HandoverError::Ended)) => Ok(Turn::End),
            Err(ExchangeError::Handover(HandoverError::Copy(error))) => Err(CopyError::Change(ChangeError::Io(error))),
        }
    }

    fn failed(&self, moved: &mut Move, error: &CopyError) -> Turn {
        let partition = moved.partition.topic_partition();
        let io = match error {
            CopyError::Append(AppendError::NoRoom(error) | AppendError::Io(error))
            | CopyError::Change(ChangeError::NoRoom(error) | ChangeError::Io(error)) => Some(error),
            CopyError::Append(_) | CopyError::Change(_) | CopyError::Read(_) | CopyError::Invalid(_) => None,
        };
        if io.is_some_and(is_full) {
            if !std::mem::replace(&mut moved.lacks_room, true) {
                warn!(%partition, %error, "no room to move the replica to; trying again until there is");
            }
            return Turn::Wait;
        }
        match error {
            // Retention was faster than the copy.
            CopyError::Read(ReadError::OutOfRange { .. }) => return Turn::GoOn,
            // Its directory has failed, or it was deleted, and its files are gone.
            CopyError::Read(_) if moved.logs.current.is_offline() => {}
            CopyError::Read(ReadError::Io(error)) if is_disk_failure(error) => moved.logs.current.disk_failed(error),
            CopyError::Append(AppendError::Offline) | CopyError::Change(ChangeError::Offline | ChangeError::Moved) => {}
            error => error!(%partition, %error, "the replica cannot be moved; it stays where it is"),
        }
        Turn::End
    }
}

/// Why the copy did not take the log's place.
enum ExchangeError {
    /// Others append faster than it takes to copy.
    TooMuch,
    Copy(CopyError),
    Handover(HandoverError),
}
