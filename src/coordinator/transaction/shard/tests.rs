//! The coordinator's decisions, step by step.

use super::*;
use crate::config::BrokerConfig;
use crate::coordinator::shard::harness::{Harness, START_MS};
use crate::metadata::image::MetadataImage;

struct Coordinator {
    harness: Harness<TransactionShard>,
    next_reply: u64,
}

const ID: &str = "txn";

fn id() -> Arc<str> {
    ID.into()
}

fn partitions(ids: &[i32]) -> BTreeSet<TopicPartition> {
    ids.iter().map(|id| TopicPartition::new("data", *id)).collect()
}

impl Coordinator {
    fn with_version(version: i16) -> Coordinator {
        let mut image = MetadataImage::empty();
        Arc::make_mut(&mut image.features).finalized.insert("transaction.version".to_owned(), version);
        let harness = Harness::new(TransactionShard::default(), image, BrokerConfig::default());
        Coordinator { harness, next_reply: 0 }
    }

    fn new() -> Coordinator {
        Coordinator::with_version(2)
    }

    fn init_as(&mut self, expected: Option<(i64, i16)>, new_id: Option<i64>) -> Initialized {
        let expected = expected.map(|(id, epoch)| (ProducerId(id), ProducerEpoch(epoch)));
        let new_id = new_id.map(ProducerId);
        self.harness.step(|shard, step| shard.init_producer_id(step, &id(), 60_000, expected, new_id)).unwrap()
    }

    fn init(&mut self) -> (i64, i16) {
        match self.init_as(None, Some(100)) {
            Initialized::Producer(producer_id, epoch) => (producer_id.0, epoch.0),
            other => panic!("{other:?}"),
        }
    }

    fn add(&mut self, (producer_id, epoch): (i64, i16), ids: &[i32]) -> Result<(), ErrorCode> {
        let added = partitions(ids);
        self.harness
            .step(|shard, step| {
                let version = TransactionVersion::V2;
                shard.add_partitions(step, &id(), ProducerId(producer_id), ProducerEpoch(epoch), added, version)
            })
            .unwrap()
    }

    /// The answer, if there is one yet.
    fn end(&mut self, producer: (i64, i16), committed: bool) -> Option<EndedTransaction> {
        self.end_with(producer, committed, 2, None)
    }

    fn end_with(
        &mut self,
        (producer_id, epoch): (i64, i16),
        committed: bool,
        version: i16,
        new_id: Option<i64>,
    ) -> Option<EndedTransaction> {
        self.next_reply += 1;
        let reply_to = ReplyTo(self.next_reply);
        let end = EndTransaction {
            transactional_id: id(),
            producer_id: ProducerId(producer_id),
            producer_epoch: ProducerEpoch(epoch),
            committed,
            client_version: TransactionVersion(version),
            new_producer_id: new_id.map(ProducerId),
        };
        self.harness.step(|shard, step| shard.end_transaction(step, &end, reply_to)).unwrap();
        self.reply(self.next_reply)
    }

    fn reply(&mut self, to: u64) -> Option<EndedTransaction> {
        let at = self.harness.replies.iter().position(|(reply_to, _)| reply_to.0 == to)?;
        Some(self.harness.replies.remove(at).1.unwrap())
    }

    fn markers(&mut self) -> MarkersToWrite {
        match self.harness.effects.remove(0) {
            TransactionEffect::WriteMarkers(markers) => markers,
            other => panic!("{other:?}"),
        }
    }

    fn written(&mut self, markers: &MarkersToWrite) {
        let written: Vec<_> = markers.partitions.iter().cloned().collect();
        self.harness.step(|shard, step| shard.markers_written(step, markers, &written)).unwrap();
    }

    fn finish(&mut self) {
        let markers = self.markers();
        self.written(&markers);
    }

    fn transaction(&self) -> &TransactionMetadata {
        self.harness.shard.transaction(ID).unwrap()
    }

    fn states(&mut self) -> Vec<Option<TransactionState>> {
        let records = self.harness.take_records();
        records.into_iter().map(|record| record.metadata.map(|metadata| metadata.state)).collect()
    }
}

fn ended(producer_id: i64, epoch: i16) -> Option<EndedTransaction> {
    Some(EndedTransaction::Ended(ProducerId(producer_id), ProducerEpoch(epoch)))
}

fn refused(error: ErrorCode) -> Option<EndedTransaction> {
    Some(EndedTransaction::Refused(error))
}

#[test]
fn a_transaction_from_its_producers_id_to_its_markers() {
    use TransactionState::*;
    let mut coordinator = Coordinator::new();
    assert_eq!(coordinator.init_as(None, None), Initialized::NeedsProducerId);
    let producer = coordinator.init();
    assert_eq!(producer, (100, 0));
    assert_eq!(coordinator.add(producer, &[0, 1]), Ok(()));
    assert_eq!(coordinator.add(producer, &[1]), Ok(()), "nothing new, nothing written");
    // The answer waits for the markers.
    assert_eq!(coordinator.end(producer, true), None);
    let markers = coordinator.markers();
    assert_eq!((markers.committed, markers.producer_epoch), (true, ProducerEpoch(1)));
    assert_eq!(markers.partitions, partitions(&[0, 1]));
    let half = [TopicPartition::new("data", 0)];
    coordinator.harness.step(|shard, step| shard.markers_written(step, &markers, &half)).unwrap();
    assert_eq!(coordinator.transaction().state, PrepareCommit);
    coordinator.written(&markers);
    assert_eq!(coordinator.reply(1), ended(100, 1));
    assert_eq!(coordinator.states(), [Some(Empty), Some(Ongoing), Some(PrepareCommit), Some(CompleteCommit)]);
    // The next one, in the new epoch.
    assert_eq!(coordinator.add(producer, &[0]), Err(ErrorCode::ProducerFenced));
    assert_eq!(coordinator.add((100, 1), &[0]), Ok(()));
}

#[test]
fn an_answer_does_not_wait_for_markers_for_ever() {
    let mut coordinator = Coordinator::new();
    let producer = coordinator.init();
    coordinator.add(producer, &[0]).unwrap();
    assert_eq!(coordinator.end(producer, false), None);
    coordinator.harness.advance(MARKERS_WAIT);
    assert_eq!(coordinator.reply(1), ended(100, 1));
    assert_eq!(coordinator.add((100, 1), &[0]), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(coordinator.end((100, 1), true), refused(ErrorCode::ConcurrentTransactions));
    assert_eq!(coordinator.init_as(None, None), Initialized::Refused(ErrorCode::ConcurrentTransactions));
    coordinator.finish();
    assert_eq!(coordinator.add((100, 1), &[0]), Ok(()));
}

#[test]
fn a_new_instance_fences_the_old_one() {
    let mut coordinator = Coordinator::new();
    let old = coordinator.init();
    coordinator.add(old, &[3]).unwrap();
    assert_eq!(coordinator.init_as(None, None), Initialized::Refused(ErrorCode::ConcurrentTransactions));
    coordinator.finish();
    assert_eq!(coordinator.transaction().state, TransactionState::CompleteAbort);
    assert_eq!(coordinator.init_as(None, None), Initialized::Producer(ProducerId(100), ProducerEpoch(2)));
    assert_eq!(coordinator.add(old, &[3]), Err(ErrorCode::ProducerFenced));
    assert_eq!(coordinator.end(old, true), refused(ErrorCode::ProducerFenced));
}

#[test]
fn the_table_of_ends_holds() {
    use ErrorCode::{InvalidTxnState, ProducerFenced};
    // Epoch 0, nothing done yet.
    let mut coordinator = Coordinator::new();
    let producer = coordinator.init();
    assert_eq!(coordinator.end((100, -1), false), refused(ProducerFenced));
    assert_eq!(coordinator.end((100, -1), true), refused(ProducerFenced));
    assert_eq!(coordinator.end(producer, true), refused(InvalidTxnState));
    assert_eq!(coordinator.end((7, 0), true), refused(ErrorCode::InvalidProducerIdMapping));
    assert_eq!(coordinator.end(producer, false), None);
    coordinator.finish();
    assert_eq!(coordinator.transaction().start_timestamp_ms, START_MS);
    assert_eq!(coordinator.reply(5), ended(100, 1));

    // CompleteAbort at epoch 1.
    assert_eq!(coordinator.end((100, 0), false), ended(100, 1));
    assert_eq!(coordinator.end((100, 0), true), refused(InvalidTxnState));
    assert_eq!(coordinator.end((100, 1), true), refused(InvalidTxnState));
    assert_eq!(coordinator.end((100, 1), false), None);
    coordinator.finish();
    assert_eq!(coordinator.transaction().producer_epoch, ProducerEpoch(2));

    // CompleteCommit at epoch 3.
    coordinator.add((100, 2), &[0]).unwrap();
    assert_eq!(coordinator.end((100, 2), true), None);
    coordinator.finish();
    assert_eq!(coordinator.end((100, 2), true), ended(100, 3));
    assert_eq!(coordinator.end((100, 2), false), refused(InvalidTxnState));
    assert_eq!(coordinator.end((100, 3), true), refused(InvalidTxnState));
    assert_eq!(coordinator.end((100, 3), false), None);
    coordinator.finish();
    assert_eq!(coordinator.transaction().producer_epoch, ProducerEpoch(4));
}

#[test]
fn clients_without_epoch_bump_keep_their_epoch() {
    let mut coordinator = Coordinator::with_version(0);
    let producer = coordinator.init();
    assert_eq!(coordinator.end_with(producer, true, 0, None), refused(ErrorCode::InvalidTxnState));
    coordinator.add(producer, &[0]).unwrap();
    assert_eq!(coordinator.end_with(producer, true, 0, None), None);
    coordinator.finish();
    assert_eq!(coordinator.reply(2), ended(-1, -1));
    assert_eq!(coordinator.transaction().producer_epoch, ProducerEpoch(0));
    assert_eq!(coordinator.end_with(producer, true, 0, None), ended(-1, -1), "again");
    assert_eq!(coordinator.end_with(producer, false, 0, None), refused(ErrorCode::InvalidTxnState));
    // Another instance fences by an epoch that nobody gets.
    coordinator.add(producer, &[0]).unwrap();
    assert_eq!(coordinator.init_as(None, None), Initialized::Refused(ErrorCode::ConcurrentTransactions));
    let markers = coordinator.markers();
    assert_eq!(markers.producer_epoch, ProducerEpoch(1));
    coordinator.written(&markers);
    assert_eq!(coordinator.init_as(None, None), Initialized::Producer(ProducerId(100), ProducerEpoch(2)));
}

#[test]
fn exhausted_epochs_lead_to_another_id() {
    let mut coordinator = Coordinator::new();
    coordinator.init();
    let last = i16::MAX - 1;
    let exhausted = TransactionMetadata { producer_epoch: ProducerEpoch(last), ..coordinator.transaction().clone() };
    coordinator.harness.step(|_, step| update(&id(), Some(exhausted), step)).unwrap();
    coordinator.add((100, last), &[0]).unwrap();
    assert_eq!(coordinator.end((100, last), true), Some(EndedTransaction::NeedsProducerId));
    assert_eq!(coordinator.end_with((100, last), true, 2, Some(200)), None);
    let markers = coordinator.markers();
    assert_eq!((markers.producer_id, markers.producer_epoch), (ProducerId(100), ProducerEpoch(i16::MAX)));
    coordinator.written(&markers);
    assert_eq!(coordinator.reply(2), ended(200, 0));
    assert_eq!(coordinator.end((100, last), true), ended(200, 0), "again");
    assert_eq!(coordinator.add((200, 0), &[0]), Ok(()));

    // By InitProducerId, which remembers who asked.
    let mut coordinator = Coordinator::new();
    coordinator.init();
    let exhausted = TransactionMetadata { producer_epoch: ProducerEpoch(last), ..coordinator.transaction().clone() };
    coordinator.harness.step(|_, step| update(&id(), Some(exhausted), step)).unwrap();
    assert_eq!(coordinator.init_as(Some((100, last)), None), Initialized::NeedsProducerId);
    let rotated = Initialized::Producer(ProducerId(300), ProducerEpoch(0));
    assert_eq!(coordinator.init_as(Some((100, last)), Some(300)), rotated);
    assert_eq!(coordinator.init_as(Some((100, last)), Some(400)), rotated, "again");
    assert_eq!(coordinator.init_as(Some((100, 5)), Some(400)), Initialized::Refused(ErrorCode::ProducerFenced));
}

#[test]
fn a_producer_goes_on_from_the_epoch_it_knows() {
    let mut coordinator = Coordinator::new();
    coordinator.init();
    let next = |epoch| Initialized::Producer(ProducerId(100), ProducerEpoch(epoch));
    assert_eq!(coordinator.init_as(Some((100, 0)), None), next(1));
    assert_eq!(coordinator.init_as(Some((100, 0)), None), next(1), "again");
    assert_eq!(coordinator.init_as(Some((100, 1)), None), next(2));
    assert_eq!(coordinator.init_as(Some((100, 0)), None), Initialized::Refused(ErrorCode::ProducerFenced));
    assert_eq!(coordinator.init_as(Some((7, 2)), None), Initialized::Refused(ErrorCode::ProducerFenced));
    assert_eq!(coordinator.init_as(None, None), next(3));
    // Whoever was initialized before is fenced, though its epoch is the last one.
    assert_eq!(coordinator.init_as(Some((100, 2)), None), Initialized::Refused(ErrorCode::ProducerFenced));
}

#[test]
fn transactions_that_take_too_long_are_aborted() {
    let mut coordinator = Coordinator::new();
    let producer = coordinator.init();
    coordinator.add(producer, &[0]).unwrap();
    coordinator.harness.advance(Duration::from_secs(59));
    assert!(coordinator.harness.effects.is_empty());
    coordinator.harness.advance(Duration::from_secs(20));
    let TransactionEffect::Abort(abort) = coordinator.harness.effects.remove(0) else { panic!("an abort") };
    // It ended by itself meanwhile: nothing is to be done.
    coordinator.harness.effects.clear();
    assert_eq!(coordinator.end(producer, true), None);
    assert_eq!(coordinator.harness.step(|shard, step| shard.abort_if_timed_out(step, &abort)), Ok(Ok(false)));
    coordinator.finish();
    coordinator.add((100, 1), &[0]).unwrap();
    let abort = EndTransaction { producer_epoch: ProducerEpoch(1), ..abort };
    assert_eq!(coordinator.harness.step(|shard, step| shard.abort_if_timed_out(step, &abort)), Ok(Ok(true)));
    assert_eq!(coordinator.transaction().state, TransactionState::PrepareAbort);
    assert_eq!(coordinator.end((100, 1), true), refused(ErrorCode::ConcurrentTransactions));
    coordinator.finish();
    assert_eq!(coordinator.end((100, 1), true), refused(ErrorCode::InvalidTxnState));
}

#[test]
fn ids_that_nobody_uses_are_forgotten() {
    let mut coordinator = Coordinator::new();
    let producer = coordinator.init();
    coordinator.add(producer, &[0]).unwrap();
    coordinator.harness.take_records();
    let days = |count: u64| Duration::from_secs(count * 24 * 3600);
    coordinator.harness.advance(days(8));
    coordinator.harness.effects.clear();
    assert_eq!(coordinator.states(), [], "an open transaction is not");
    assert_eq!(coordinator.end(producer, false), None);
    coordinator.finish();
    coordinator.harness.take_records();
    coordinator.harness.advance(days(6));
    assert_eq!(coordinator.states(), []);
    coordinator.harness.advance(days(2));
    assert_eq!(coordinator.states(), [None]);
    assert!(coordinator.harness.shard.transaction(ID).is_none());
}

#[test]
fn another_coordinator_reads_what_is_decided_and_goes_on() {
    let mut coordinator = Coordinator::new();
    let producer = coordinator.init();
    coordinator.add(producer, &[0, 4]).unwrap();
    coordinator.end(producer, true);
    let before = coordinator.markers();
    coordinator.harness.reload(TransactionShard::default());
    assert_eq!(coordinator.markers(), before);
    coordinator.written(&before);
    assert_eq!(coordinator.transaction().state, TransactionState::CompleteCommit);
    // Late word of markers is of no harm.
    coordinator.written(&before);
    assert_eq!(coordinator.end(producer, true), ended(100, 1));
}

#[test]
fn what_is_not_written_does_not_happen() {
    let mut coordinator = Coordinator::new();
    let producer = coordinator.init();
    coordinator.add(producer, &[0]).unwrap();
    coordinator.harness.append_error = Some(CoordinatorError::NotAvailable("full".to_owned()));
    let added = partitions(&[1]);
    let version = TransactionVersion::V2;
    let step = coordinator
        .harness
        .step(|shard, step| shard.add_partitions(step, &id(), ProducerId(100), ProducerEpoch(0), added, version));
    assert!(step.is_err());
    let end = EndTransaction {
        transactional_id: id(),
        producer_id: ProducerId(100),
        producer_epoch: ProducerEpoch(0),
        committed: true,
        client_version: version,
        new_producer_id: None,
    };
    assert!(coordinator.harness.step(|shard, step| shard.end_transaction(step, &end, ReplyTo(9))).is_err());
    assert!(coordinator.harness.effects.is_empty());
    assert_eq!(coordinator.transaction().partitions, partitions(&[0]));
    assert_eq!(coordinator.transaction().state, TransactionState::Ongoing);
    coordinator.harness.append_error = None;
    assert_eq!(coordinator.end(producer, true), None);
    coordinator.finish();
}

#[test]
fn partitions_are_verified() {
    let mut coordinator = Coordinator::new();
    let producer = coordinator.init();
    coordinator.add(producer, &[0]).unwrap();
    let verify = |shard: &TransactionShard, (producer_id, epoch): (i64, i16)| {
        shard.verify_partitions(ID, ProducerId(producer_id), ProducerEpoch(epoch), &partitions(&[0, 1]))
    };
    let shard = &coordinator.harness.shard;
    let verified: Vec<ErrorCode> = verify(shard, producer).unwrap().into_values().collect();
    assert_eq!(verified, [ErrorCode::None, ErrorCode::TransactionAbortable]);
    assert_eq!(verify(shard, (100, 1)), Err(ErrorCode::ProducerFenced));
    assert_eq!(verify(shard, (7, 0)), Err(ErrorCode::InvalidProducerIdMapping));
    let unknown = shard.verify_partitions("other", ProducerId(100), ProducerEpoch(0), &partitions(&[0]));
    assert_eq!(unknown, Err(ErrorCode::InvalidProducerIdMapping));
    coordinator.end(producer, true);
    assert_eq!(verify(&coordinator.harness.shard, (100, 1)), Err(ErrorCode::ConcurrentTransactions));
}
