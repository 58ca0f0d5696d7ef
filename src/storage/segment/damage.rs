//! What is no batch in a segment that was trusted, and the way of readers past it.
//!
//! After an orderly end nobody reads the sealed segments once more. A start tells of those that are empty; else it is a reader
//! who finds what has become of them since: a file that was cut short, a stretch of zeros, a batch whose length or place is
//! wrong. There a reader goes on at the next batch that is whole and right, or in the next segment. Kafka gives up what is left
//! of the segment, or never gets past it.
//!
//! | what stands there | |
//! |---|---|
//! | a batch that does not end within the file, of no known format, of offsets that do not follow those before or reach behind the log's end | passed over |
//! | a batch with a wrong checksum | served: the client finds out, as in Kafka |
//! | a first batch with offsets before the one in the segment's name | served: the name is wrong |
//!
//! A person is told of the first such place of a segment, once.
//!
//! A read finds a batch and sends what follows it unseen, so that damage behind that batch may be sent. Two looks that an
//! ordinary read does not pay for keep a client from being sent it for ever: whoever is the first to come near the end of a
//! segment looks how it ends, and where the same bytes are asked for again and again, their headers are looked at.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::storage::disk::DiskFile;
use crate::storage::index_file::IndexError;
use crate::storage::log::{ReadError, Wait};
use crate::storage::scan::{Frame, HeaderScan, ScanError, max_offset};
use crate::storage::segment::read::batch_position;
use crate::storage::segment::{BatchPosition, LogSegment};
use crate::types::Offset;

/// Of how many stretches of a segment it is known where they end. Behind the last of them nothing is read.
const MAX_STRETCHES: usize = 1000;

/// So often nobody asks for the same records one after the other unless they are refused.
const TOO_OFTEN: u32 = 5;

/// The stretches of a segment that are no batches, as far as readers have come upon them.
#[derive(Default)]
pub(super) struct Damage {
    /// In order. `None`: there are none, in all likelihood.
    stretches: ArcSwapOption<Vec<Range<u64>>>,
    /// Held by the one who looks where a stretch ends, and while the file becomes another.
    looking: Mutex<()>,
    /// How often it became another.
    changes: AtomicU64,
    was_told: AtomicBool,
    was_end_checked: AtomicBool,
    /// From where records were last asked for, how often since, and from where their headers were last looked at. Readers
    /// beside each other may miscount.
    asked_from: AtomicU64,
    asked: AtomicU32,
    checked_from: AtomicU64,
    /// Where the next segment began, and the log ended, when it was opened, of a segment that took no more then; 0 of others, and of
    /// all until that is known.
    next_base_offset: AtomicI64,
    log_end_offset: AtomicI64,
}

impl Damage {
    /// The file becomes another by `change`: what was known of it is void.
    pub fn forget<T>(&self, change: impl FnOnce() -> T) -> T {
        let _looking = self.looking.lock();
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.stretches.store(None);
        change()
    }

    /// Where the stretch ends that begins at `position`.
    fn known_end(&self, position: u64) -> Option<u64> {
        let stretches = self.stretches.load();
        let stretches = stretches.as_deref()?;
        let at = stretches.binary_search_by_key(&position, |stretch| stretch.start).ok()?;
        Some(stretches[at].end)
    }

    /// Where the first stretch behind `position` begins.
    fn next_start(&self, position: u64) -> Option<u64> {
        let stretches = self.stretches.load();
        let stretches = stretches.as_deref()?;
        let at = stretches.partition_point(|stretch| stretch.start <= position);
        stretches.get(at).map(|stretch| stretch.start)
    }

    fn add(&self, stretch: Range<u64>) {
        let mut stretches = self.stretches.load().as_deref().cloned().unwrap_or_default();
        let at = stretches.partition_point(|known| known.start < stretch.start);
        stretches.insert(at, stretch);
        self.stretches.store(Some(Arc::new(stretches)));
    }

    fn is_too_much(&self) -> bool {
        self.stretches.load().as_deref().is_some_and(|stretches| stretches.len() >= MAX_STRETCHES)
    }
}

impl LogSegment {
    /// The batches from `position` on, where one begins, up to `end`.
    pub fn readable<'a>(&'a self, file: &'a dyn DiskFile, position: u64, end: u64, wait: Wait) -> Readable<'a> {
        // Whatever its name says: else nothing in a segment with a wrong one could be read.
        let scan = HeaderScan::new(file, self.base_offset, position, end, Offset(0), wait).before(self.trusted_below());
        let log_end_offset = Offset(self.damage.log_end_offset.load(Ordering::Acquire));
        let scan = if log_end_offset > Offset(0) { scan.below(log_end_offset) } else { scan };
        Readable { segment: self, changes: self.damage.changes.load(Ordering::Acquire), scan }
    }

    /// Tells where the next segment begins and the log ends of which this is a segment that takes no more, and that is trusted.
    pub fn end_before(&self, next_base_offset: Offset, log_end_offset: Offset) {
        self.damage.next_base_offset.store(next_base_offset.0, Ordering::Release);
        self.damage.log_end_offset.store(log_end_offset.0, Ordering::Release);
    }

    /// It takes more, from now on.
    pub fn take_more(&self) {
        self.end_before(Offset(0), Offset(0));
    }

    /// Where the next segment begins, if this one is trusted as it was found.
    pub fn trusted_below(&self) -> Option<Offset> {
        Some(Offset(self.damage.next_base_offset.load(Ordering::Acquire))).filter(|next| *next > Offset(0))
    }

    /// Whether it may have offsets that its indexes cannot name.
    pub fn may_outgrow_indexes(&self) -> bool {
        self.trusted_below().is_some_and(|next| next.plus(-1) > max_offset(self.base_offset))
    }

    /// What is to be looked at before the bytes `from..to` are sent, where a batch begins at `from`.
    pub fn check_before_sending(&self, from: u64, to: u64, wait: Wait) -> Result<(), ReadError> {
        let damage = &self.damage;
        if damage.log_end_offset.load(Ordering::Acquire) == 0 {
            // Written by this process, or looked at when the log was opened.
            return Ok(());
        }
        self.check_end(from, to, wait)?;
        if damage.asked_from.swap(from, Ordering::Relaxed) != from {
            damage.asked.store(1, Ordering::Relaxed);
        } else if damage.asked.fetch_add(1, Ordering::Relaxed) + 1 >= TOO_OFTEN
            && damage.checked_from.load(Ordering::Relaxed) != from + 1
        {
            let file = self.log.get()?;
            let mut batches = self.readable(&*file, from, self.size(), wait);
            while batches.next()?.is_some_and(|(position, _)| position < to) {}
            damage.checked_from.store(from + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Looks once at how the segment ends, if what is behind its last batch may be among the bytes `from..to`.
    pub fn check_end(&self, from: u64, to: u64, wait: Wait) -> Result<(), ReadError> {
        if self.damage.was_end_checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let end = self.size();
        let last = match self.offset_index.last(wait) {
            Err(IndexError::Corrupt(_)) => None,
            last => last.map_err(|error| self.index_damaged(error))?,
        };
        let last = last.map(|entry| (u64::from(entry.position), entry.offset));
        if to < end && last.is_none_or(|(position, _)| to <= position) {
            return Ok(());
        }
        let file = self.log.get()?;
        // Who looks for what is not there comes from the end.
        let from = if from < end || last.is_some() { from } else { 0 };
        let mut batches = self.readable(&*file, from, end, wait);
        let (mut wrong_at, mut last_offset) = (None, None);
        match last {
            Some((position, offset)) if (position > from || from >= end) && position < end => {
                let mut behind = self.readable(&*file, position, end, wait);
                match behind.first() {
                    Ok(Some((_, frame))) if names(&frame, offset) => {
                        last_offset = Some(frame.last_offset());
                        batches = behind;
                    }
                    // The way from the last batch that is known may be long.
                    Ok(_) | Err(ScanError::Damaged { .. }) if to < end => return Ok(()),
                    Ok(_) | Err(ScanError::Damaged { .. }) => wrong_at = Some(position),
                    Err(error) => return Err(self.damaged(error)),
                }
            }
            Some((position, _)) if position >= end => wrong_at = Some(position),
            Some(_) | None => {}
        }
        while let Some((_, frame)) = batches.next()? {
            last_offset = Some(frame.last_offset());
        }
        // If it names what is damaged it is not wrong.
        if wrong_at.is_some_and(|position| !self.is_damaged_at(position.min(end.saturating_sub(1)))) {
            self.distrust("the last entry of the offset index points to nothing");
        } else if !self.is_damaged() && self.last_by_time(wait)?.is_some_and(|last| Some(last.offset) > last_offset) {
            self.distrust("the last entry of the time index points to nothing");
        }
        self.damage.was_end_checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether it is known that something cannot be read.
    fn is_damaged(&self) -> bool {
        self.damage.stretches.load().is_some()
    }

    /// How far the batches from `position` on go, up to `limit`, before the first damage that is known.
    pub fn sound_until(&self, position: u64, limit: u64) -> u64 {
        self.damage.next_start(position).map_or(limit, |start| start.min(limit))
    }

    /// Whether it is known that nothing can be read at `position`.
    pub fn is_damaged_at(&self, position: u64) -> bool {
        let stretches = self.damage.stretches.load();
        stretches.as_deref().is_some_and(|stretches| stretches.iter().any(|stretch| stretch.contains(&position)))
    }

    /// Where the damage begins that is known to end at `position`; `position` if there is none.
    pub fn without_damage_before(&self, position: u64) -> u64 {
        let stretches = self.damage.stretches.load();
        let before = stretches.as_deref().and_then(|stretches| stretches.iter().find(|known| known.end == position));
        before.map_or(position, |stretch| stretch.start)
    }

    fn tell_damage(&self, position: u64, reason: &str) {
        if !self.damage.was_told.swap(true, Ordering::Relaxed) {
            let path = self.log.path();
            tracing::warn!(path = %path.display(), position, reason, "segment is damaged; reading what is left of it");
        }
    }
}

/// Whether an entry of the offset index that names `offset` can be one of this batch.
pub(super) fn names(frame: &Frame, offset: Offset) -> bool {
    (frame.base_offset()..=frame.last_offset()).contains(&offset)
}

/// Walks over the headers of those batches of a segment that can be read.
pub(in crate::storage) struct Readable<'a> {
    segment: &'a LogSegment,
    changes: u64,
    scan: HeaderScan<'a>,
}

impl Readable<'_> {
    /// What stands where the walk begins, be it damage.
    pub(super) fn first(&mut self) -> Result<Option<(u64, Frame)>, ScanError> {
        self.scan.next()
    }

    /// The next batch and where it begins; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u64, Frame)>, ReadError> {
        loop {
            match self.scan.next() {
                Ok(Some((0, frame))) if frame.base_offset() < self.segment.base_offset => {
                    let (base, named) = (frame.base_offset(), self.segment.base_offset);
                    self.segment.tell_damage(0, &format!("offset {base} is before {named}, which is in its name"));
                    return Ok(Some((0, frame)));
                }
                Err(ScanError::Damaged { position, reason }) => self.pass(position, reason)?,
                result => return result.map_err(|error| self.segment.damaged(error)),
            }
        }
    }

    /// The first batch whose last offset is `offset` or larger.
    pub fn find(&mut self, offset: Offset) -> Result<Option<BatchPosition>, ReadError> {
        while let Some((position, frame)) = self.next()? {
            if frame.last_offset() >= offset {
                return Ok(Some(batch_position(position, &frame)));
            }
        }
        Ok(None)
    }

    /// Gets past the damage at `position`.
    fn pass(&mut self, position: u64, reason: String) -> Result<(), ReadError> {
        let (segment, damage) = (self.segment, &self.segment.damage);
        if let Some(end) = damage.known_end(position) {
            self.scan.go_to(end);
            return Ok(());
        }
        let (end, wait) = self.scan.bounds();
        if wait == Wait::Never {
            return Err(ReadError::WouldBlock);
        }
        let _looking = damage.looking.lock();
        if self.changes != damage.changes.load(Ordering::Acquire) || end > segment.size() {
            // It was truncated under the reader.
            return Err(segment.damaged(ScanError::Damaged { position, reason }));
        }
        let next = match damage.known_end(position) {
            Some(known) => known,
            None => {
                segment.tell_damage(position, &reason);
                let next = if damage.is_too_much() {
                    end
                } else {
                    self.scan.behind_damage().map_err(|e| segment.damaged(e))?
                };
                damage.add(position..next);
                next
            }
        };
        self.scan.go_to(next);
        Ok(())
    }
}
