//! Walks over the batches in a segment's file: by their headers only ([`HeaderScan`]), or over every byte with its
//! checksum ([`FullScan`]).
//!
//! Neither trusts anything: a batch must have a known magic, a size that ends within the file, and offsets that
//! follow those before it. Message sets of the formats v0 and v1, which only a directory that came a long way with Kafka
//! still has, are walked over as well; their one offset is that of the last message in it.
//!
//! No checksum covers a batch's base offset. One that is too low contradicts what was before; one that is too high
//! contradicts what follows, so that [`FullScan`] looks there whenever offsets are left out: a batch that would have its place in
//! front of the next one, but says that it is behind it, is what is wrong.

use std::collections::VecDeque;
use std::io;

use thiserror::Error;

use crate::record::batch::{BatchError, BatchHeader, HEADER_SIZE, MAGIC, NO_TIMESTAMP};
use crate::storage::disk::DiskFile;
use crate::storage::log::Wait;
use crate::types::{LeaderEpoch, Offset};

/// Why a walk ends before the end of the file.
#[derive(Debug, Error)]
pub(super) enum ScanError {
    #[error("the disk must be waited for")]
    WouldBlock,
    /// What stands at `position` is no batch that could stand there.
    #[error("damaged at {position}: {reason}")]
    Damaged { position: u64, reason: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ScanError {
    /// For who knows of no damage but the disk's.
    pub fn into_io(self) -> io::Error {
        match self {
            ScanError::Io(error) => error,
            error => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// A batch, or a message set of an old format.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frame {
    Batch(BatchHeader),
    Old(OldFormat),
}

/// v0 has no timestamp: -1.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldFormat {
    offset: Offset,
    size: usize,
    crc: u32,
    timestamp: i64,
}

/// Up to its magic, and to the end of its header.
const OLD_SIZE_UP_TO_MAGIC: usize = 17;
const OLD_HEADER_SIZE: [usize; 2] = [26, 34];
/// What its CRC covers.
const OLD_CRC_START: usize = 16;

impl Frame {
    /// Reads what starts at the start of `bytes`: as many as a header has, or all that the file still has.
    fn parse(bytes: &[u8]) -> Result<Frame, String> {
        if let Some(&magic @ (0 | 1)) = bytes.get(OLD_SIZE_UP_TO_MAGIC - 1) {
            return OldFormat::parse(bytes, magic).map(Frame::Old);
        }
        match bytes.first_chunk::<HEADER_SIZE>() {
            Some(bytes) => {
                BatchHeader::from_bytes(*bytes).map(Frame::Batch).map_err(|error: BatchError| error.to_string())
            }
            None => Err(format!("{} bytes are too few for a batch", bytes.len())),
        }
    }

    pub fn base_offset(&self) -> Offset {
        match self {
            Frame::Batch(header) => header.base_offset(),
            Frame::Old(old) => old.offset,
        }
    }

    pub fn last_offset(&self) -> Offset {
        match self {
            Frame::Batch(header) => header.last_offset(),
            Frame::Old(old) => old.offset,
        }
    }

    pub fn size(&self) -> usize {
        match self {
            Frame::Batch(header) => header.size_in_bytes(),
            Frame::Old(old) => old.size,
        }
    }

    pub fn max_timestamp(&self) -> i64 {
        match self {
            Frame::Batch(header) => header.max_timestamp(),
            Frame::Old(old) => old.timestamp,
        }
    }

    /// -1 in an old format.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        match self {
            Frame::Batch(header) => header.partition_leader_epoch(),
            Frame::Old(_) => LeaderEpoch::UNKNOWN,
        }
    }

    pub fn has_producer_id(&self) -> bool {
        matches!(self, Frame::Batch(header) if header.has_producer_id())
    }

    /// Some of its offsets have no record: compaction has taken them out.
    pub fn lacks_records(&self) -> bool {
        matches!(self, Frame::Batch(header) if i64::from(header.record_count()) <= header.last_offset().0 - header.base_offset().0)
    }

    fn checksum(&self) -> Checksum {
        match self {
            Frame::Batch(header) => Checksum::Castagnoli { expected: header.crc(), sum: 0 },
            Frame::Old(old) => Checksum::Ieee { expected: old.crc, sum: flate2::Crc::new() },
        }
    }

    /// Why this cannot stand where it stands, if so. `next_offset`: it must not begin before; `room`: bytes left in
    /// the file; `max_offset`: what the segment can hold.
    fn contradiction(&self, next_offset: Offset, max_offset: Offset, room: u64) -> Option<String> {
        let (base, last) = (self.base_offset(), self.last_offset());
        if self.size() as u64 > room {
            Some(format!("a batch of {} bytes ends behind the {room} that are left", self.size()))
        } else if base < next_offset {
            Some(format!("offset {base} is before {next_offset}, which is next"))
        } else if last < base || last > max_offset {
            Some(format!("a batch from {base} to {last} cannot be in this segment"))
        } else {
            None
        }
    }
}

impl OldFormat {
    fn parse(bytes: &[u8], magic: u8) -> Result<OldFormat, String> {
        let header_size = OLD_HEADER_SIZE[usize::from(magic)];
        let Some(header) = bytes.get(..header_size) else {
            return Err(format!("{} bytes are too few for a message", bytes.len()));
        };
        let int = |at: usize| i32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| i64::from_be_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let size = usize::try_from(int(8)).map_err(|_| "a message's size is negative".to_owned())? + 12;
        if size < header_size {
            return Err(format!("a message of {size} bytes is shorter than its header"));
        }
        let timestamp = if magic == 1 { long(18) } else { NO_TIMESTAMP };
        Ok(OldFormat { offset: Offset(long(0)), size, crc: int(12) as u32, timestamp })
    }
}

/// The largest offset that the indexes of a segment of this base can name. No segment grows beyond it, but brokers before Kafka
/// 1.1 made some that do (KAFKA-6264): nobody doubts such an offset if the next segment begins behind it.
pub(super) fn max_offset(base_offset: Offset) -> Offset {
    Offset(base_offset.0.saturating_add(i64::from(i32::MAX)))
}

/// What [`HeaderScan`] reads at once: a stretch between two index entries, usually.
const HEADERS_READ: usize = 4096;

/// Walks over the headers of a file's batches, jumping over what they hold.
pub(super) struct HeaderScan<'a> {
    file: &'a dyn DiskFile,
    /// Where the next batch begins.
    position: u64,
    end: u64,
    next_offset: Offset,
    max_offset: Offset,
    wait: Wait,
    buffer: [u8; HEADERS_READ],
    buffered_at: u64,
    buffered: usize,
}

impl<'a> HeaderScan<'a> {
    /// From `position`, where a batch begins whose offset is at least `next_offset`, to `end`.
    pub fn new(
        file: &'a dyn DiskFile,
        base_offset: Offset,
        position: u64,
        end: u64,
        next_offset: Offset,
        wait: Wait,
    ) -> HeaderScan<'a> {
        HeaderScan {
            file,
            position,
            end,
            next_offset,
            max_offset: max_offset(base_offset),
            wait,
            buffer: [0; HEADERS_READ],
            buffered_at: 0,
            buffered: 0,
        }
    }

    /// Tells where the next segment begins.
    pub fn before(mut self, next: Option<Offset>) -> HeaderScan<'a> {
        self.max_offset = next.map_or(self.max_offset, |next| self.max_offset.max(next.plus(-1)));
        self
    }

    /// Tells where the log ends: no batch reaches there.
    pub fn below(mut self, log_end_offset: Offset) -> HeaderScan<'a> {
        self.max_offset = self.max_offset.min(log_end_offset.plus(-1));
        self
    }

    /// Where the walk ends, and whether it may wait for the disk.
    pub fn bounds(&self) -> (u64, Wait) {
        (self.end, self.wait)
    }

    /// Goes on at `position`, where a batch begins.
    pub fn go_to(&mut self, position: u64) {
        self.position = position;
        self.buffered = 0;
    }

    /// After damage: the next position at which a whole and right batch stands, or the end. Reads all that is between.
    pub fn behind_damage(&self) -> Result<u64, ScanError> {
        let scan = FullScan::new(self.file, Offset(0), self.position, self.end, self.next_offset);
        let mut scan = FullScan { max_offset: self.max_offset, ..scan };
        match scan.skip_damage() {
            Ok(next) => Ok(next.unwrap_or(self.end)),
            // The file is shorter than it was.
            Err(ScanError::Damaged { .. }) => Ok(self.end),
            Err(error) => Err(error),
        }
    }

    /// The next batch and where it begins; `None` at the end. After damage the walk stays where it is.
    pub fn next(&mut self) -> Result<Option<(u64, Frame)>, ScanError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let position = self.position;
        let room = self.end - position;
        let wanted = room.min(HEADER_SIZE as u64) as usize;
        let start = self.buffered_for(position, wanted)?;
        let damaged = |reason| ScanError::Damaged { position, reason };
        let frame = Frame::parse(&self.buffer[start..start + wanted]).map_err(damaged)?;
        if let Some(reason) = frame.contradiction(self.next_offset, self.max_offset, room) {
            return Err(damaged(reason));
        }
        self.position += frame.size() as u64;
        self.next_offset = frame.last_offset().plus(1);
        Ok(Some((position, frame)))
    }

    /// Has `wanted` bytes from `position` on in the buffer, and tells where there.
    fn buffered_for(&mut self, position: u64, wanted: usize) -> Result<usize, ScanError> {
        if position >= self.buffered_at && position + wanted as u64 <= self.buffered_at + self.buffered as u64 {
            return Ok((position - self.buffered_at) as usize);
        }
        let len = (self.end - position).min(HEADERS_READ as u64) as usize;
        self.buffered = 0;
        self.buffered_at = position;
        while self.buffered < wanted {
            let buffer = &mut self.buffer[self.buffered..len];
            let at = position + self.buffered as u64;
            let n = match self.wait {
                Wait::ForDisk => self.file.read_at(buffer, at)?,
                Wait::Never => self.file.read_cached_at(buffer, at)?.ok_or(ScanError::WouldBlock)?,
            };
            if n == 0 {
                // The file was truncated meanwhile, or is not what its directory entry said.
                return Err(ScanError::Damaged { position, reason: "the file ends".to_owned() });
            }
            self.buffered += n;
        }
        Ok(0)
    }
}

/// What [`FullScan`] reads at once.
const BYTES_READ: usize = 1 << 20;

enum Checksum {
    Castagnoli { expected: u32, sum: u32 },
    Ieee { expected: u32, sum: flate2::Crc },
}

impl Checksum {
    /// Where in the batch the bytes begin that are summed.
    fn start(&self) -> usize {
        match self {
            Checksum::Castagnoli { .. } => 21,
            Checksum::Ieee { .. } => OLD_CRC_START,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Checksum::Castagnoli { sum, .. } => *sum = crc32c::crc32c_append(*sum, bytes),
            Checksum::Ieee { sum, .. } => sum.update(bytes),
        }
    }

    fn is_right(&self) -> bool {
        match self {
            Checksum::Castagnoli { expected, sum } => expected == sum,
            Checksum::Ieee { expected, sum } => *expected == sum.sum(),
        }
    }
}

/// Reads every byte of a file's batches and checks them. Uses the same memory for batches of any size.
pub(super) struct FullScan<'a> {
    file: &'a dyn DiskFile,
    position: u64,
    end: u64,
    next_offset: Offset,
    max_offset: Offset,
    /// Where the records of what follows the file begin.
    limit: Option<Offset>,
    /// A batch that begins behind `next_offset` leaves offsets out.
    knows_next: bool,
    /// Headers that were looked at before their turn, and where they stand: one behind the other. In a compacted log most
    /// batches leave offsets out, so that the same ones are asked for again and again.
    ahead: VecDeque<(u64, Frame)>,
    buffer: Vec<u8>,
    buffered_at: u64,
    buffered: usize,
}

/// How many batches behind one that leaves offsets out are asked at most whether it lies.
const WITNESSES: usize = 8;
/// If so many that follow begin behind it, nobody else is asked.
const AGREE: usize = 3;

/// The offsets of a batch.
struct Span {
    base: i64,
    next: i64,
    /// How many it has, wherever that is.
    offsets: i64,
}

impl Span {
    fn of(frame: &Frame) -> Span {
        let (base, next) = (frame.base_offset().0, frame.last_offset().0.saturating_add(1));
        Span { base, next, offsets: next - base }
    }
}

/// How many of these can be right at the same time behind `from`, in this order. There must be room between them for those
/// that are not.
fn longest(from: i64, spans: &[Span]) -> usize {
    let mut best = vec![0; spans.len()];
    for n in (0..spans.len()).rev() {
        best[n] = 1 + longest_behind(spans[n].next, &spans[n + 1..], &best[n + 1..]);
    }
    longest_behind(from, spans, &best)
}

/// `best`: how many if the first one is one of the chosen, for each of the spans.
fn longest_behind(from: i64, spans: &[Span], best: &[usize]) -> usize {
    let (mut room, mut longest) = (from, 0);
    for (span, best) in spans.iter().zip(best) {
        if span.base >= room {
            longest = longest.max(*best);
        }
        room = room.saturating_add(span.offsets);
    }
    longest
}

impl<'a> FullScan<'a> {
    /// From `position`, where a batch begins whose offset is at least `next_offset`, to `end`.
    pub fn new(
        file: &'a dyn DiskFile,
        base_offset: Offset,
        position: u64,
        end: u64,
        next_offset: Offset,
    ) -> FullScan<'a> {
        let buffer = vec![0; BYTES_READ.min(end.saturating_sub(position) as usize)];
        FullScan {
            file,
            position,
            end,
            next_offset,
            max_offset: max_offset(base_offset),
            limit: None,
            // An index entry names the end of its batch, not the beginning.
            knows_next: position == 0 || next_offset > base_offset,
            ahead: VecDeque::new(),
            buffer,
            buffered_at: position,
            buffered: 0,
        }
    }

    /// Tells where the next segment begins, by its name, and where the records from there on begin, if they are to be heeded.
    pub fn before(mut self, next: Option<Offset>, limit: Option<Offset>) -> FullScan<'a> {
        self.limit = limit;
        self.max_offset = next.max(limit).map_or(self.max_offset, |next| self.max_offset.max(next.plus(-1)));
        self
    }

    /// Whatever the segment's name says.
    fn any_offset(mut self) -> FullScan<'a> {
        self.max_offset = Offset(i64::MAX - 1);
        self.knows_next = false;
        self
    }

    /// Where the next batch begins, or would.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next batch, which is whole and right, and where it begins; `None` at the end. After damage the walk stays
    /// where it is.
    pub fn next(&mut self) -> Result<Option<(u64, Frame)>, ScanError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let position = self.position;
        let frame = self.check(position)?;
        if let Some(next) = self.contradicted_by(position, &frame)? {
            let (base, next_offset) = (frame.base_offset(), self.next_offset);
            let reason = format!("offset {base} is between {next_offset}, which is next, and {next}, which follows");
            return Err(ScanError::Damaged { position, reason });
        }
        self.position += frame.size() as u64;
        self.next_offset = frame.last_offset().plus(1);
        self.knows_next = true;
        Ok(Some((position, frame)))
    }

    /// The offset of what follows the batch at `position`, if that shows that the batch's own offset is wrong, and too high: more
    /// of what follows goes together without it than with it. Any of these may be what is wrong, so several are asked.
    fn contradicted_by(&mut self, position: u64, frame: &Frame) -> Result<Option<Offset>, ScanError> {
        if !self.knows_next || frame.base_offset() == self.next_offset {
            return Ok(None);
        }
        let mut at = position + frame.size() as u64;
        if self.ahead.front().is_some_and(|(first, _)| *first != at) {
            self.ahead.clear();
        }
        let mut is_contradicted = false;
        for n in 0..WITNESSES {
            if n == self.ahead.len() {
                match self.header(at)? {
                    Some(witness) => self.ahead.push_back((at, witness)),
                    None => break,
                }
            }
            let (_, witness) = &self.ahead[n];
            is_contradicted |= witness.base_offset() <= frame.last_offset();
            at += witness.size() as u64;
            if !is_contradicted && n + 1 == AGREE {
                return Ok(None);
            }
        }
        let limit = self.limit.filter(|_| at >= self.end);
        if !is_contradicted && limit.is_none_or(|limit| limit > frame.last_offset()) {
            return Ok(None);
        }
        let mut spans = vec![Span::of(frame)];
        for (at, witness) in self.ahead.clone() {
            // One that is damaged says nothing, and one from before was written twice, or lies as well.
            if witness.base_offset() >= self.next_offset && self.has_checksum(at, &witness)? {
                spans.push(Span::of(&witness));
            }
        }
        spans.extend(limit.map(|limit| Span { base: limit.0, next: limit.0, offsets: 0 }));
        let [with, without] =
            [spans[0].next, self.next_offset.0 + spans[0].offsets].map(|from| longest(from, &spans[1..]));
        let next = spans.get(1).map(|next| next.base);
        let lies = without > with + 1 || without == with + 1 && next == Some(self.next_offset.0 + spans[0].offsets);
        Ok(next.filter(|_| lies).map(Offset))
    }

    /// The header at `position`, if there can be one. What is buffered stays, as it is needed first.
    fn header(&mut self, position: u64) -> Result<Option<Frame>, ScanError> {
        let room = self.end.saturating_sub(position);
        if room == 0 {
            return Ok(None);
        }
        let wanted = room.min(HEADER_SIZE as u64) as usize;
        let frame = match self.buffered(position, wanted) {
            Some(header) => Frame::parse(&header[..wanted]),
            None => {
                let mut header = [0; HEADER_SIZE];
                let len = self.file.read_up_to(&mut header[..wanted], position)?;
                Frame::parse(&header[..len])
            }
        };
        let frame = frame.ok();
        Ok(frame.filter(|frame| frame.size() as u64 <= room && frame.last_offset() >= frame.base_offset()))
    }

    /// After damage: moves on to the next position at which a whole and right batch stands, and returns it. `None`:
    /// there is none up to the end.
    pub fn skip_damage(&mut self) -> Result<Option<u64>, ScanError> {
        // Most likely only what the damaged batch holds is damaged, not its size. To look at that first also keeps the
        // search below from taking a batch that somebody stored as a value for one of the log.
        if let Some(next) = self.claimed_end()?
            && self.is_batch(next)?
        {
            self.position = next;
            return Ok(Some(next));
        }
        let mut candidate = self.position + 1;
        while candidate + HEADER_SIZE as u64 <= self.end {
            // The magic tells most places apart, cheaply: look for the next one in what is buffered.
            let have = self.fill(candidate, HEADER_SIZE)?;
            let magics = &have[OLD_SIZE_UP_TO_MAGIC - 1..have.len() - (HEADER_SIZE - OLD_SIZE_UP_TO_MAGIC)];
            match magics.iter().position(|magic| *magic == MAGIC as u8) {
                None => candidate += magics.len() as u64,
                Some(skipped) => {
                    candidate += skipped as u64;
                    if self.is_batch(candidate)? {
                        self.position = candidate;
                        return Ok(Some(candidate));
                    }
                    candidate += 1;
                }
            }
        }
        self.position = self.end;
        Ok(None)
    }

    /// Where the batch at the current position ends by its own size, if that is within the file.
    fn claimed_end(&mut self) -> Result<Option<u64>, ScanError> {
        let room = self.end - self.position;
        let header = self.fill(self.position, room.min(HEADER_SIZE as u64) as usize)?;
        let size = Frame::parse(&header[..header.len().min(HEADER_SIZE)]).map_or(0, |frame| frame.size() as u64);
        Ok((size > 0 && size < room).then_some(self.position + size))
    }

    fn is_batch(&mut self, position: u64) -> Result<bool, ScanError> {
        match self.check(position) {
            Ok(_) => Ok(true),
            Err(ScanError::Damaged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The batch at `position`, if it is whole and right.
    fn check(&mut self, position: u64) -> Result<Frame, ScanError> {
        let damaged = |reason: String| ScanError::Damaged { position, reason };
        let room = self.end - position;
        let frame = match self.ahead.pop_front_if(|(at, _)| *at == position) {
            Some((_, frame)) => frame,
            None => {
                let header = self.fill(position, room.min(HEADER_SIZE as u64) as usize)?;
                Frame::parse(&header[..header.len().min(HEADER_SIZE)]).map_err(damaged)?
            }
        };
        if let Some(reason) = frame.contradiction(self.next_offset, self.max_offset, room) {
            return Err(damaged(reason));
        }
        match self.has_checksum(position, &frame)? {
            true => Ok(frame),
            false => Err(damaged(format!("the checksum of the batch from {} is wrong", frame.base_offset()))),
        }
    }

    fn has_checksum(&mut self, position: u64, frame: &Frame) -> Result<bool, ScanError> {
        let mut checksum = frame.checksum();
        let end = position + frame.size() as u64;
        let mut at = position + checksum.start() as u64;
        while at < end {
            let bytes = self.fill(at, 1)?;
            let bytes = &bytes[..bytes.len().min((end - at) as usize)];
            checksum.update(bytes);
            at += bytes.len() as u64;
        }
        Ok(checksum.is_right())
    }

    /// What is buffered from `position` on, if that is at least `wanted` bytes.
    fn buffered(&self, position: u64, wanted: usize) -> Option<&[u8]> {
        let start = usize::try_from(position.checked_sub(self.buffered_at)?).ok()?;
        self.buffer[..self.buffered].get(start..).filter(|bytes| bytes.len() >= wanted)
    }

    /// What is buffered from `position` on, at least `wanted` bytes; reads it if it is not.
    fn fill(&mut self, position: u64, wanted: usize) -> Result<&[u8], ScanError> {
        if self.buffered(position, wanted).is_none() {
            let len = self.buffer.len().min((self.end - position) as usize);
            self.buffered_at = position;
            self.buffered = self.file.read_up_to(&mut self.buffer[..len], position)?;
            if self.buffered < wanted {
                return Err(ScanError::Damaged { position, reason: "the file ends".to_owned() });
            }
        }
        Ok(&self.buffer[(position - self.buffered_at) as usize..self.buffered])
    }
}

/// The offset of the first batch of a segment that can be read and is where it may be, at `floor` or behind.
pub(super) fn first_sound_offset(
    file: &dyn DiskFile,
    base_offset: Offset,
    size: u64,
    floor: Offset,
) -> Result<Option<Offset>, ScanError> {
    if floor <= base_offset {
        // The name and the first header say the same, most of the time.
        match HeaderScan::new(file, base_offset, 0, size, base_offset, Wait::ForDisk).next() {
            Ok(None) => return Ok(None),
            Ok(Some((_, frame))) if frame.base_offset() == base_offset => return Ok(Some(base_offset)),
            Ok(Some(_)) | Err(ScanError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let mut scan = FullScan::new(file, base_offset, 0, size, floor.max(base_offset));
    loop {
        match scan.next() {
            Ok(frame) => return Ok(frame.map(|(_, frame)| frame.base_offset())),
            Err(ScanError::Damaged { .. }) if scan.skip_damage()?.is_none() => return Ok(None),
            Err(ScanError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Where the records of a segment begin. If what it begins with is damaged, its name says so.
pub(super) fn start_of_records(
    file: &dyn DiskFile,
    base_offset: Offset,
    size: u64,
) -> Result<Option<Offset>, ScanError> {
    let sound = first_sound_offset(file, base_offset, size, base_offset)?;
    if sound.is_none_or(|sound| sound == base_offset) {
        return Ok(sound);
    }
    let first = first_batch(file, size)?.map(|frame| frame.base_offset());
    Ok(if first == sound { sound } else { Some(base_offset) })
}

/// The first batch at the start of a file, whole and right, whatever the file's name says.
pub(super) fn first_batch(file: &dyn DiskFile, size: u64) -> Result<Option<Frame>, ScanError> {
    match FullScan::new(file, Offset(0), 0, size, Offset(0)).any_offset().next() {
        Ok(frame) => Ok(frame.map(|(_, frame)| frame)),
        Err(ScanError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
