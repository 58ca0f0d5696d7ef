//! `Background`: the few threads that wait for the disk on behalf of all logs.
//!
//! Owns a bounded queue and the threads that empty it. What goes there: group commits, the syncs of rolled segments,
//! write-back of dirty pages, reservation of blocks, unlinking. There are two lanes, so that an acknowledgement that
//! waits for an fsync does not stand behind the unlinking of a large file. Threads start with the first job of their
//! lane and end with the last handle.
//!
//! A job must not wait for another job. When a lane is full, [`Background::run`] runs the job on the calling thread:
//! whoever writes faster than the disk takes waits for it then.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing::error;

/// Which threads do a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Somebody waits for it: syncs.
    Sync,
    /// Nobody does: unlinking, write-back, reservations.
    Housekeeping,
}

type Job = Box<dyn FnOnce() + Send>;

/// How many jobs may wait in a lane. A log has at most a few at a time.
const MAX_WAITING: usize = 1 << 16;

/// A handle to the threads; cheap to clone.
#[derive(Clone)]
pub struct Background {
    mode: Mode,
}

#[derive(Clone)]
enum Mode {
    Threads(Arc<Handle>),
    /// For tests and simulations: jobs run when [`Background::run_pending`] says so, delayed ones when they are due
    /// by its argument.
    Stepped(Arc<Mutex<Stepped>>),
    /// Jobs run on whoever brings them, but for delayed ones, as above.
    Prompt(Arc<Mutex<Stepped>>),
}

#[derive(Default)]
struct Stepped {
    now: Duration,
    ready: VecDeque<Job>,
    delayed: Vec<(Duration, Job)>,
}

impl Background {
    /// `threads` is the number of threads per lane.
    pub fn new(threads: usize) -> Background {
        assert!(threads > 0, "a lane without threads would keep its jobs for ever");
        let lane = || Arc::new(LaneQueue::new(threads));
        Background { mode: Mode::Threads(Arc::new(Handle { sync: lane(), housekeeping: lane() })) }
    }

    /// Without threads: see [`Background::run_pending`].
    pub fn stepped() -> Background {
        Background { mode: Mode::Stepped(Arc::default()) }
    }

    /// Without threads: what is to be done soon is done at once, by the caller. For tools that do one thing at a time.
    pub fn prompt() -> Background {
        Background { mode: Mode::Prompt(Arc::default()) }
    }

    /// Has `job` done soon. If too much waits already, does it now, on this thread.
    pub fn run(&self, lane: Lane, job: impl FnOnce() + Send + 'static) {
        match &self.mode {
            Mode::Threads(handle) => {
                if let Some(job) = handle.lane(lane).push(Instant::now(), Box::new(job), MAX_WAITING) {
                    job();
                }
            }
            Mode::Stepped(stepped) => stepped.lock().ready.push_back(Box::new(job)),
            Mode::Prompt(_) => job(),
        }
    }

    /// Has `job` done soon, or never if too much waits already: for hints.
    pub fn run_if_idle(&self, lane: Lane, job: impl FnOnce() + Send + 'static) {
        match &self.mode {
            Mode::Threads(handle) => drop(handle.lane(lane).push(Instant::now(), Box::new(job), MAX_WAITING / 16)),
            Mode::Stepped(stepped) => stepped.lock().ready.push_back(Box::new(job)),
            Mode::Prompt(_) => job(),
        }
    }

    /// Has `job` done after `delay`. Jobs that are not due when the process ends are not done.
    pub fn run_after(&self, delay: Duration, job: impl FnOnce() + Send + 'static) {
        match &self.mode {
            Mode::Threads(handle) => {
                let due = Instant::now() + delay.min(Duration::from_secs(365 * 24 * 60 * 60));
                // Without a limit: these are the deletions of files that exist, and they wait in memory for a minute.
                // If no thread can be started the job is lost, and the next start of the node clears up.
                drop(handle.lane(Lane::Housekeeping).push(due, Box::new(job), usize::MAX));
            }
            Mode::Stepped(stepped) | Mode::Prompt(stepped) => {
                let mut stepped = stepped.lock();
                let due = stepped.now.saturating_add(delay);
                stepped.delayed.push((due, Box::new(job)));
            }
        }
    }

    /// Does all jobs that wait, and the delayed ones whose time has come once `elapsed` more has passed, on this
    /// thread. Nothing if there are threads.
    pub fn run_pending(&self, elapsed: Duration) {
        let (Mode::Stepped(stepped) | Mode::Prompt(stepped)) = &self.mode else {
            return;
        };
        stepped.lock().now += elapsed;
        loop {
            let job = {
                let mut stepped = stepped.lock();
                let now = stepped.now;
                match stepped.ready.pop_front() {
                    Some(job) => job,
                    None => match stepped.delayed.iter().position(|(due, _)| *due <= now) {
                        Some(at) => stepped.delayed.remove(at).1,
                        None => return,
                    },
                }
            };
            job();
        }
    }
}

struct Handle {
    sync: Arc<LaneQueue>,
    housekeeping: Arc<LaneQueue>,
}

impl Handle {
    fn lane(&self, lane: Lane) -> &Arc<LaneQueue> {
        match lane {
            Lane::Sync => &self.sync,
            Lane::Housekeeping => &self.housekeeping,
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        for lane in [&self.sync, &self.housekeeping] {
            lane.queue.lock().closed = true;
            lane.changed.notify_all();
        }
    }
}

/// A job that panics is not to end the thread: the others wait for it.
fn do_job(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        error!("a job of the storage threads has panicked");
    }
}

struct LaneQueue {
    max_threads: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: BinaryHeap<Reverse<Entry>>,
    /// Breaks ties, so that jobs of one moment keep their order.
    next: u64,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Entry {
    due: Instant,
    number: u64,
    job: Job,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl LaneQueue {
    fn new(max_threads: usize) -> LaneQueue {
        LaneQueue { max_threads, queue: Mutex::default(), changed: Condvar::new() }
    }

    /// Gives the job back if `limit` of them wait already.
    fn push(self: &Arc<Self>, due: Instant, job: Job, limit: usize) -> Option<Job> {
        let mut queue = self.queue.lock();
        if queue.waiting.len() >= limit {
            return Some(job);
        }
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push(Reverse(Entry { due, number, job }));
        if queue.idle == 0 && queue.threads < self.max_threads {
            let lane = self.clone();
            match thread::Builder::new().name("storage".to_owned()).spawn(move || lane.work()) {
                Ok(_) => queue.threads += 1,
                // The threads that are there will do it; without any, the caller must.
                Err(error) if queue.threads == 0 => {
                    error!(%error, "cannot start a storage thread");
                    return queue.waiting.pop().map(|entry| entry.0.job);
                }
                Err(_) => {}
            }
        }
        drop(queue);
        self.changed.notify_one();
        None
    }

    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            let now = Instant::now();
            let due = queue.waiting.peek().map(|entry| entry.0.due);
            match due {
                Some(due) if due <= now => {
                    let entry = queue.waiting.pop().expect("it was peeked at");
                    drop(queue);
                    do_job(entry.0.job);
                    queue = self.queue.lock();
                }
                _ if queue.closed => {
                    queue.threads -= 1;
                    return;
                }
                Some(due) => {
                    queue.idle += 1;
                    self.changed.wait_until(&mut queue, due);
                    queue.idle -= 1;
                }
                None => {
                    queue.idle += 1;
                    self.changed.wait(&mut queue);
                    queue.idle -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn does_jobs_in_both_lanes_and_late_ones_later() {
        let background = Background::new(1);
        let (sender, receiver) = mpsc::channel();
        let say = |what: &'static str| {
            let sender = sender.clone();
            move || sender.send(what).unwrap()
        };
        background.run_after(Duration::from_millis(30), say("late"));
        background.run(Lane::Housekeeping, say("soon"));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok("soon"));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok("late"));
        background.run(Lane::Sync, say("sync"));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok("sync"));
    }

    #[test]
    fn a_waiting_delayed_job_does_not_keep_the_only_thread() {
        let background = Background::new(1);
        let (sender, receiver) = mpsc::channel();
        background.run_after(Duration::from_secs(3600), || {});
        thread::sleep(Duration::from_millis(5));
        background.run(Lane::Housekeeping, move || sender.send(()).unwrap());
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(()));
    }

    /// Each job that panicked took its thread with it, and after as many as there are threads a lane did nothing any more.
    #[test]
    fn a_job_that_panics_leaves_its_thread() {
        let background = Background::new(2);
        let (sender, receiver) = mpsc::channel();
        for lane in [Lane::Sync, Lane::Housekeeping] {
            (0..5).for_each(|_| background.run(lane, || panic!("on purpose")));
            background.run_after(Duration::ZERO, || panic!("on purpose, later"));
            let sender = sender.clone();
            background.run(lane, move || sender.send(lane).unwrap());
            assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(lane));
        }
    }

    #[test]
    fn a_full_lane_makes_the_caller_work() {
        let lane = Arc::new(LaneQueue::new(1));
        let (release, wait) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        let blocker = Box::new(move || {
            started.send(()).unwrap();
            wait.recv().unwrap();
        });
        assert!(lane.push(Instant::now(), blocker, 1).is_none());
        running.recv().unwrap();
        assert!(lane.push(Instant::now(), Box::new(|| {}), 1).is_none());
        assert!(lane.push(Instant::now(), Box::new(|| {}), 1).is_some());
        release.send(()).unwrap();
    }

    #[test]
    fn stepped_jobs_run_when_told() {
        let background = Background::stepped();
        let (sender, receiver) = mpsc::channel();
        for (n, delay_ms) in [(1, 10), (2, 20)] {
            let sender = sender.clone();
            background.run_after(Duration::from_millis(delay_ms), move || sender.send(n).unwrap());
        }
        background.run_pending(Duration::from_millis(9));
        assert!(receiver.try_recv().is_err());
        background.run_pending(Duration::from_millis(1));
        assert_eq!(receiver.try_recv(), Ok(1));
        assert!(receiver.try_recv().is_err());
    }
}
