//! `CleanedTransactionMetadata`: which transactions the cleaner is in as it goes through a log, and which of their
//! markers may go.
//!
//! | batch | what is decided |
//! |---|---|
//! | records of a transaction that was aborted | they go |
//! | records of another transaction | they may stay; its commit marker then has a reason to stay |
//! | abort marker | may go if no batch of its transaction was seen; else it stays, and so does its index entry |
//! | commit marker | may go if no batch of its transaction was seen |
//! | empty control batch | what was in it went in an earlier cleaning: may go |
//!
//! "May go" is not yet "goes": a marker is first given a delete horizon, so that a consumer on its way through the log
//! still finds it. Pure; fed with the batches of a log in order, from its start.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::record::batch::BatchHeader;
use crate::record::control::ControlRecordType;
use crate::record::record::Records;
use crate::storage::txn_index::AbortedTxn;
use crate::types::{Offset, ProducerId};

/// What becomes of a control batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlBatchFate {
    pub may_go: bool,
    /// The entry that the cleaned segment's transaction index needs.
    pub retained_abort: Option<AbortedTxn>,
}

/// See the module's documentation.
#[derive(Default)]
pub struct CleanedTransactionMetadata {
    ongoing_committed: HashSet<ProducerId>,
    ongoing_aborted: HashMap<ProducerId, OngoingAborted>,
    /// Aborted transactions that the walk has not come to, by their first offset.
    ahead: BTreeMap<(Offset, u64), AbortedTxn>,
    next_number: u64,
}

struct OngoingAborted {
    txn: AbortedTxn,
    has_batches: bool,
}

impl CleanedTransactionMetadata {
    /// Aborted transactions in what the walk comes to next. Those that are named twice do no harm.
    pub fn add_aborted(&mut self, aborted: Vec<AbortedTxn>) {
        for txn in aborted {
            self.ahead.insert((txn.first_offset, self.next_number), txn);
            self.next_number += 1;
        }
    }

    /// A batch that is no control batch; returns whether its transaction was aborted.
    pub fn on_batch(&mut self, header: &BatchHeader) -> bool {
        self.begin_up_to(header.last_offset());
        if !header.is_transactional() {
            return false;
        }
        match self.ongoing_aborted.get_mut(&header.producer_id()) {
            Some(aborted) => {
                aborted.has_batches = true;
                true
            }
            None => {
                self.ongoing_committed.insert(header.producer_id());
                false
            }
        }
    }

    /// A control batch; `body` are its records, never compressed.
    pub fn on_control_batch(&mut self, header: &BatchHeader, body: &[u8]) -> ControlBatchFate {
        self.begin_up_to(header.last_offset());
        let stays = ControlBatchFate { may_go: false, retained_abort: None };
        let goes = ControlBatchFate { may_go: true, ..stays };
        let Some(first) = Records::new(header, body).next() else { return goes };
        // What cannot be read is nobody's marker here, and kept.
        let key = first.ok().and_then(|record| record.key);
        match key.map(ControlRecordType::parse) {
            Some(Ok(ControlRecordType::Abort)) => match self.ongoing_aborted.remove(&header.producer_id()) {
                Some(OngoingAborted { txn, has_batches: true }) => {
                    ControlBatchFate { retained_abort: Some(txn), ..stays }
                }
                Some(_) | None => goes,
            },
            Some(Ok(ControlRecordType::Commit)) => match self.ongoing_committed.remove(&header.producer_id()) {
                true => stays,
                false => goes,
            },
            Some(_) | None => stays,
        }
    }

    fn begin_up_to(&mut self, offset: Offset) {
        while let Some(next) = self.ahead.first_entry().filter(|next| next.key().0 <= offset) {
            let txn = next.remove();
            self.ongoing_aborted.entry(txn.producer_id).or_insert(OngoingAborted { txn, has_batches: false });
        }
    }
}
