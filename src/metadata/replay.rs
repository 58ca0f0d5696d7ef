//! From batches to an image: what a node does with its metadata log, and with a snapshot, when it starts.
//!
//! Records between a BeginTransaction and its EndTransaction count only once that is read; an AbortTransaction undoes
//! them (KIP-868). Control records tell of the quorum and do not touch the image.

use super::batch::{BatchContents, MetadataBatch};
use super::image::{ApplyError, MetadataDelta, MetadataImage, Provenance};
use super::records::{
    AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, MetadataRecord, Record as _,
};
use crate::record::control::{ControlRecord, Voter};
use crate::types::Offset;

/// Why a record does not fit behind those before it.
#[derive(Debug, thiserror::Error)]
#[error("the record at offset {offset}: {source}")]
pub struct ReplayError {
    pub offset: Offset,
    pub source: ApplyError,
}

/// An image that grows batch by batch.
#[derive(Debug)]
pub struct Replay {
    image: MetadataImage,
    /// Where the open transaction began, and the image before it.
    transaction: Option<(Offset, MetadataImage)>,
    kraft_version: i16,
    voters: Option<Vec<Voter>>,
}

impl Replay {
    /// Starts from an image and what is known of the quorum then.
    pub fn new(image: MetadataImage) -> Replay {
        Replay { image, transaction: None, kraft_version: 0, voters: None }
    }

    /// Takes in a batch.
    pub fn apply(&mut self, batch: &MetadataBatch) -> Result<(), ReplayError> {
        match &batch.contents {
            BatchContents::Control(records) => {
                for record in records {
                    self.apply_control(record);
                }
            }
            BatchContents::Records(records) => {
                // Who starts anew has no use for what changed.
                let mut delta = MetadataDelta::default();
                let offsets = (batch.base_offset.0..).map(Offset);
                for (record, offset) in records.iter().zip(offsets) {
                    self.apply_record(&record.record, offset, &mut delta)
                        .map_err(|source| ReplayError { offset, source })?;
                }
            }
        }
        self.image.provenance = Provenance {
            offset: batch.last_offset,
            epoch: batch.epoch,
            last_contained_log_time_ms: batch.append_time_ms,
        };
        Ok(())
    }

    fn apply_control(&mut self, record: &ControlRecord) {
        match record {
            ControlRecord::KRaftVersion { kraft_version } => self.kraft_version = *kraft_version,
            ControlRecord::KRaftVoters(voters) => self.voters = Some(voters.clone()),
            ControlRecord::LeaderChange(_)
            | ControlRecord::SnapshotHeader { .. }
            | ControlRecord::SnapshotFooter
            | ControlRecord::EndTxn(_)
            | ControlRecord::Unknown { .. } => {}
        }
    }

    fn apply_record(
        &mut self,
        record: &MetadataRecord,
        offset: Offset,
        delta: &mut MetadataDelta,
    ) -> Result<(), ApplyError> {
        match record {
            MetadataRecord::BeginTransaction(_) => match self.transaction {
                Some(_) => Err(ApplyError::Transaction(BeginTransactionRecord::NAME)),
                None => {
                    self.transaction = Some((offset, self.image.clone()));
                    Ok(())
                }
            },
            MetadataRecord::EndTransaction(_) => match self.transaction.take() {
                Some(_) => Ok(()),
                None => Err(ApplyError::Transaction(EndTransactionRecord::NAME)),
            },
            MetadataRecord::AbortTransaction(_) => match self.transaction.take() {
                Some((_, before)) => {
                    self.image = before;
                    Ok(())
                }
                None => Err(ApplyError::Transaction(AbortTransactionRecord::NAME)),
            },
            record => self.image.apply(record, delta),
        }
    }

    /// Where a transaction began that is not ended.
    pub fn open_transaction(&self) -> Option<Offset> {
        self.transaction.as_ref().map(|(start, _)| *start)
    }

    /// `kraft.version` as recorded; 0 if nothing is.
    pub fn kraft_version(&self) -> i16 {
        self.kraft_version
    }

    /// The voters as recorded, if they are.
    pub fn voters(&self) -> Option<&[Voter]> {
        self.voters.as_deref()
    }

    /// What was taken in, with an open transaction as it is so far.
    pub fn image(&self) -> &MetadataImage {
        &self.image
    }

    pub fn into_image(self) -> MetadataImage {
        self.image
    }

    /// What was taken in, without an open transaction.
    pub fn into_committed_image(self) -> MetadataImage {
        self.transaction.map_or(self.image, |(_, before)| before)
    }

    pub(super) fn set_provenance(&mut self, provenance: Provenance) {
        self.image.provenance = provenance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::image::ConfigResource;
    use crate::metadata::records::{ConfigRecord, VersionedRecord};
    use crate::types::LeaderEpoch;

    fn batch(base_offset: i64, records: Vec<VersionedRecord>) -> MetadataBatch {
        MetadataBatch {
            base_offset: Offset(base_offset),
            last_offset: Offset(base_offset + records.len() as i64 - 1),
            epoch: LeaderEpoch(1),
            append_time_ms: 5,
            contents: BatchContents::Records(records),
        }
    }

    fn config(value: &str) -> VersionedRecord {
        VersionedRecord::lowest(ConfigRecord {
            resource_type: 4,
            resource_name: String::new(),
            name: "key".to_owned(),
            value: Some(value.to_owned()),
        })
    }

    fn value(replay: &Replay) -> Option<&str> {
        replay.image().configs.value(&ConfigResource::cluster(), "key")
    }

    #[test]
    fn transactions_end_or_are_undone() {
        let begin = || VersionedRecord::lowest(BeginTransactionRecord::default());
        let mut replay = Replay::new(MetadataImage::empty());
        replay.apply(&batch(0, vec![config("a"), begin(), config("b")])).unwrap();
        assert_eq!(replay.open_transaction(), Some(Offset(1)));
        let abort = VersionedRecord::lowest(AbortTransactionRecord::default());
        replay.apply(&batch(3, vec![abort])).unwrap();
        assert_eq!((value(&replay), replay.open_transaction()), (Some("a"), None));
        assert_eq!(replay.image().provenance.offset, Offset(3));

        let end = || VersionedRecord::lowest(EndTransactionRecord);
        replay.apply(&batch(4, vec![begin(), config("c"), end()])).unwrap();
        assert_eq!(value(&replay), Some("c"));
        let error = replay.apply(&batch(7, vec![config("d"), end()])).unwrap_err();
        assert_eq!(error.offset, Offset(8));
    }
}
