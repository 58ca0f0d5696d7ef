//! What a sender asks coordinators for: its identity, and the beginning and the end of its transactions.

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, TopicName, TransactionalId,
};

use super::super::batch::{Batch, Queue};
use super::Sender;
use crate::client::cluster::Target;
use crate::client::connection::Connection;
use crate::client::error::{Error, Result};
use crate::client::text;
use crate::types::{ProducerEpoch, ProducerId};

/// `transaction.version` 2 begins behind it.
const LAST_END_TXN_BEFORE_V2: i16 = 4;
/// From v4 on the API is for brokers.
const LAST_ADD_PARTITIONS_OF_CLIENTS: i16 = 3;
const TRANSACTION_VERSION: &str = "transaction.version";

impl<T: 'static> Sender<T> {
    /// Gets a producer id, or a new epoch of the one that the transactional id has.
    pub(super) async fn init_producer(&mut self) -> Result<()> {
        let id = self.config.transactional_id.clone();
        let request = InitProducerIdRequest::default()
            .with_transactional_id(id.as_deref().map(|id| TransactionalId(text(id))))
            .with_transaction_timeout_ms(self.config.transaction_timeout_ms);
        let target = id.map_or(Target::Any, Target::TransactionCoordinator);
        let answer = self
            .client
            .retry("initProducerId", async || {
                let answer = self.client.send(&target, &request).await?;
                Error::check(answer.error_code, None::<String>)?;
                Ok(answer)
            })
            .await?;
        self.identity = Some((ProducerId(answer.producer_id.0), ProducerEpoch(answer.producer_epoch)));
        self.broken = false;
        for queue in &mut self.queues {
            queue.renumber();
        }
        Ok(())
    }

    /// Tells the coordinator of the partitions that are new in the transaction.
    pub(super) async fn add_partitions(&mut self, batches: &[(usize, Batch<T>)]) -> Result<()> {
        let (Some(id), Some((producer_id, epoch))) = (self.config.transactional_id.clone(), self.identity) else {
            return Ok(());
        };
        let new: Vec<i32> = batches
            .iter()
            .filter(|(index, _)| !self.queues[*index].in_transaction)
            .map(|(index, _)| *index as i32)
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let topic =
            AddPartitionsToTxnTopic::default().with_name(TopicName(text(&self.topic))).with_partitions(new.clone());
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(TransactionalId(text(&id)))
            .with_v3_and_below_producer_id(producer_id.0.into())
            .with_v3_and_below_producer_epoch(epoch.0)
            .with_v3_and_below_topics(vec![topic]);
        let target = Target::TransactionCoordinator(id);
        self.client
            .retry("addPartitionsToTxn", async || {
                let answer = self.client.send_at_most(&target, &request, LAST_ADD_PARTITIONS_OF_CLIENTS).await?;
                let mut results =
                    answer.results_by_topic_v3_and_below.iter().flat_map(|topic| &topic.results_by_partition);
                results.try_for_each(|result| Error::check(result.partition_error_code, None::<String>))
            })
            .await?;
        for index in new {
            self.queues[index as usize].in_transaction = true;
        }
        Ok(())
    }

    /// Commits what was sent in it.
    pub(super) async fn end_transaction(&mut self) -> Result<()> {
        let (Some(id), Some((producer_id, epoch))) = (self.config.transactional_id.clone(), self.identity) else {
            return Err(Error::new(
                "java.lang.IllegalStateException",
                "Transactional method invoked on a non-transactional producer.",
            ));
        };
        let request = EndTxnRequest::default()
            .with_transactional_id(TransactionalId(text(&id)))
            .with_producer_id(producer_id.0.into())
            .with_producer_epoch(epoch.0)
            .with_committed(true);
        let target = Target::TransactionCoordinator(id);
        let answer = self
            .client
            .retry("endTxn", async || {
                let v2 = uses_transactions_v2(&*self.client.connection(&target).await?);
                let most = if v2 { i16::MAX } else { LAST_END_TXN_BEFORE_V2 };
                let answer = self.client.send_at_most(&target, &request, most).await?;
                Error::check(answer.error_code, None::<String>)?;
                Ok(answer)
            })
            .await?;
        for queue in &mut self.queues {
            queue.in_transaction = false;
        }
        // From v5 on the answer has the epoch to go on with.
        if answer.producer_epoch >= 0 && answer.producer_id.0 >= 0 {
            let next = (ProducerId(answer.producer_id.0), ProducerEpoch(answer.producer_epoch));
            if self.identity.replace(next) != Some(next) {
                self.queues.iter_mut().for_each(Queue::renumber);
            }
        }
        Ok(())
    }
}

/// Whether the cluster has finalized `transaction.version` 2.
pub(super) fn uses_transactions_v2(connection: &Connection) -> bool {
    let features = &connection.versions.0.finalized_features;
    features.iter().any(|feature| feature.name.as_str() == TRANSACTION_VERSION && feature.max_version_level >= 2)
}
