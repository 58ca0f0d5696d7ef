//! What batches say of their producers, read from the segments.

use std::io;
use std::sync::Arc;

use crate::record::batch::HEADER_SIZE;
use crate::storage::disk::DiskFile;
use crate::storage::log::append::producer_batch;
use crate::storage::log::{ReadError, Wait};
use crate::storage::producer_state::ProducerStateManager;
use crate::storage::scan::Frame;
use crate::storage::segment::LogSegment;
use crate::storage::txn_index::AbortedTxn;
use crate::types::Offset;

/// From where on batches say who their producers are: the beginning of the segment in which the log starts.
pub(in crate::storage) fn producers_start(segments: &[Arc<LogSegment>], log_start_offset: Offset) -> Offset {
    let first = segments.partition_point(|segment| segment.base_offset() <= log_start_offset).saturating_sub(1);
    segments.get(first).map_or(log_start_offset, |segment| segment.base_offset().min(log_start_offset))
}

/// Takes over the producers' batches from where their state ends up to `end`. `on_aborted` is told of the aborted
/// transactions, with the segment in which their marker stands.
pub(in crate::storage) fn replay_producers(
    segments: &[Arc<LogSegment>],
    producers: &mut ProducerStateManager,
    end: Offset,
    mut on_aborted: impl FnMut(&LogSegment, &AbortedTxn) -> io::Result<()>,
) -> Result<(), ReadError> {
    let from = producers.map_end_offset();
    let first = segments.partition_point(|segment| segment.base_offset() <= from).saturating_sub(1);
    for segment in segments[first..].iter().filter(|segment| segment.base_offset() < end) {
        let size = segment.size();
        let Some(start) = segment.find(producers.map_end_offset(), size, Wait::ForDisk)? else {
            continue;
        };
        let file = segment.file()?;
        let mut batches = segment.readable(&*file, start.position, size, Wait::ForDisk);
        while let Some((position, frame)) = batches.next()? {
            if frame.base_offset() >= end {
                break;
            }
            if let Frame::Batch(header) = &frame
                && header.has_producer_id()
            {
                let body = match header.is_control() {
                    true => read_body(&*file, position, frame.size())?,
                    false => Vec::new(),
                };
                if let Some(aborted) = producer_batch(header, &body).and_then(|batch| producers.replay(&batch)) {
                    on_aborted(segment, &aborted)?;
                }
            }
            producers.update_map_end_offset(frame.last_offset().plus(1));
        }
    }
    producers.update_map_end_offset(end);
    Ok(())
}

/// A marker is a few bytes; whatever is longer is none.
const MAX_MARKER_SIZE: usize = 4096;

fn read_body(file: &dyn DiskFile, position: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; (size - HEADER_SIZE).min(MAX_MARKER_SIZE)];
    file.read_exact_at(&mut body, position + HEADER_SIZE as u64)?;
    Ok(body)
}
