//! The requests that this broker answers, one file for each API.
//!
//! A handler decodes the body, decides, and encodes the answer. The hot ones (Produce, Fetch) do so at once and give a
//! [`Reply`]; the others are futures that must end before the next request of their connection is looked at, so that
//! what a client pipelines happens in its order. Handlers know the replicas, the controller and the image, and never
//! the disk.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod alter_replica_log_dirs;
mod answer_size;
mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod describe_transactions;
mod end_txn;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leader_hints;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod partition_answers;
mod partition_errors;
mod produce;
mod sync_group;
mod transaction_errors;
mod txn_offset_commit;
mod update_features;
mod write_txn_markers;

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use kafka_protocol::protocol::{Encodable, Request};
use tracing::debug;

use super::broker::Broker;
use super::request::{FailableRequest, RequestError};
use crate::coordinator::group::RequestContext;
use crate::net::{ConnectionContext, Reply, Response};
use crate::protocol::versions::ApiKey;
use crate::protocol::{ApiError, DecodeError, RequestHeader, messages};

/// Whether clients ask it of any broker, by the address that a person gave them, before they go to where they are told to.
fn asks_for_the_way(api: ApiKey) -> bool {
    use ApiKey::*;
    matches!(
        api,
        ApiVersions
            | Metadata
            | DescribeCluster
            | FindCoordinator
            | InitProducerId
            | GetTelemetrySubscriptions
            | PushTelemetry
    )
}

/// Answers the request that `header` and `body` make up. Every API of the version table has its line here.
pub fn handle(
    broker: &Arc<Broker>,
    connection: &Arc<ConnectionContext>,
    header: RequestHeader,
    body: Bytes,
) -> Result<Reply, RequestError> {
    if !asks_for_the_way(header.api_key) && connection.set_at_work() {
        broker.addresses.arrived(connection);
    }
    let call = Call { broker: broker.clone(), connection: connection.clone(), header, body };
    match call.header.api_key {
        ApiKey::Produce => produce::handle(broker, connection, call.header, call.body),
        ApiKey::Fetch => fetch::handle(broker, connection, call.header, call.body),
        ApiKey::ApiVersions => call.now(api_versions::handle),
        ApiKey::Metadata => call.in_order(metadata::handle),
        ApiKey::ListOffsets => call.in_order(list_offsets::handle),
        ApiKey::OffsetForLeaderEpoch => call.now(offset_for_leader_epoch::handle),
        ApiKey::FindCoordinator => call.in_order(find_coordinator::handle),
        ApiKey::OffsetCommit => call.in_order(offset_commit::handle),
        ApiKey::OffsetFetch => call.in_order(offset_fetch::handle),
        ApiKey::OffsetDelete => call.in_order(offset_delete::handle),
        ApiKey::ListGroups => call.in_order(list_groups::handle),
        ApiKey::DescribeGroups => call.in_order(describe_groups::handle),
        ApiKey::DeleteGroups => call.in_order(delete_groups::handle),
        ApiKey::JoinGroup => call.in_order(join_group::handle),
        ApiKey::Heartbeat => call.in_order(heartbeat::handle),
        ApiKey::LeaveGroup => call.in_order(leave_group::handle),
        ApiKey::SyncGroup => call.in_order(sync_group::handle),
        ApiKey::InitProducerId => call.in_order(init_producer_id::handle),
        ApiKey::AddPartitionsToTxn => call.in_order(add_partitions_to_txn::handle),
        ApiKey::AddOffsetsToTxn => call.in_order(add_offsets_to_txn::handle),
        ApiKey::EndTxn => call.in_order(end_txn::handle),
        ApiKey::WriteTxnMarkers => call.in_order(write_txn_markers::handle),
        ApiKey::TxnOffsetCommit => call.in_order(txn_offset_commit::handle),
        ApiKey::DescribeProducers => call.in_order(describe_producers::handle),
        ApiKey::DescribeTransactions => call.in_order(describe_transactions::handle),
        ApiKey::ListTransactions => call.in_order(list_transactions::handle),
        ApiKey::CreateTopics => call.in_order(create_topics::handle),
        ApiKey::DeleteTopics => call.in_order(delete_topics::handle),
        ApiKey::AlterReplicaLogDirs => call.in_order(alter_replica_log_dirs::handle),
        ApiKey::DescribeLogDirs => call.in_order(describe_log_dirs::handle),
        ApiKey::CreatePartitions => call.in_order(create_partitions::handle),
        ApiKey::DeleteRecords => call.in_order(delete_records::handle),
        ApiKey::DescribeConfigs => call.now(describe_configs::handle),
        ApiKey::AlterConfigs => call.in_order(alter_configs::handle),
        ApiKey::IncrementalAlterConfigs => call.in_order(incremental_alter_configs::handle),
        ApiKey::UpdateFeatures => call.in_order(update_features::handle),
        ApiKey::ListConfigResources => call.now(list_config_resources::handle),
        ApiKey::ConsumerGroupHeartbeat => call.in_order(consumer_group_heartbeat::handle),
        ApiKey::ConsumerGroupDescribe => call.in_order(consumer_group_describe::handle),
        ApiKey::DescribeCluster => call.now(describe_cluster::handle),
        ApiKey::DescribeTopicPartitions => call.now(describe_topic_partitions::handle),
        _ => Err(RequestError::Refused("the API has no handler")),
    }
}

/// A request, with all that its handler may ask.
pub struct Call {
    pub broker: Arc<Broker>,
    pub connection: Arc<ConnectionContext>,
    pub header: RequestHeader,
    body: Bytes,
}

impl Call {
    /// Reads the body.
    pub fn decode<T: Request>(&mut self) -> Result<T, RequestError> {
        let request = messages::decode(&mut self.body, self.header.api_version)?;
        note_leftover(&self.header, &self.body);
        Ok(request)
    }

    /// Reads the body by a hand-written codec.
    pub fn decode_by_hand<T>(
        &mut self,
        decode: fn(&mut Bytes, i16) -> Result<T, DecodeError>,
    ) -> Result<T, RequestError> {
        let request = decode(&mut self.body, self.header.api_version)?;
        note_leftover(&self.header, &self.body);
        Ok(request)
    }

    /// A refusal whose reason has no place in the answer.
    fn note_refusal(&self, error: &ApiError) {
        debug!(api_key = %self.header.api_key, api_version = self.header.api_version,
            client = self.header.client_id(), %error, "request refused");
    }

    /// Who asks, as the coordinator of groups wants it.
    pub fn request_context(&self) -> RequestContext {
        RequestContext {
            api_version: self.header.api_version,
            client_id: self.header.client_id().to_owned(),
            client_host: client_host(self.connection.peer.ip()),
        }
    }

    /// Writes the answer.
    pub fn encode<T: Encodable>(&self, response: &T) -> Result<Response, RequestError> {
        Ok(messages::encode_response(&self.header, response)?.into())
    }

    /// Writes the answer, or the one that says of everything that was asked for why it failed.
    pub fn answer<T: FailableRequest>(
        &self,
        request: &T,
        outcome: Result<T::Response, RequestError>,
    ) -> Result<Response, RequestError> {
        match outcome {
            Err(RequestError::Failed(error)) => {
                debug!(api_key = %self.header.api_key, api_version = self.header.api_version,
                    client = self.header.client_id(), %error, "request failed");
                self.encode(&request.error_response(&error, self.header.api_version))
            }
            outcome => self.encode(&outcome?),
        }
    }

    /// For an API that is answered from memory.
    fn now(self, handler: impl FnOnce(Call) -> Result<Response, RequestError>) -> Result<Reply, RequestError> {
        Ok(Reply::Now(handler(self)?))
    }

    /// For an API that waits for the controller or the disk.
    fn in_order<F>(self, handler: impl FnOnce(Call) -> F) -> Result<Reply, RequestError>
    where
        F: Future<Output = Result<Response, RequestError>> + Send + 'static,
    {
        Ok(Reply::InOrder(answer(handler(self))))
    }
}

/// An address as Java writes it.
fn client_host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("/{address}"),
        IpAddr::V6(address) => {
            let groups = address.segments().map(|group| format!("{group:x}"));
            format!("/{}", groups.join(":"))
        }
    }
}

/// A future answer; a failed one ends the connection.
fn answer(
    handler: impl Future<Output = Result<Response, RequestError>> + Send + 'static,
) -> BoxFuture<'static, Response> {
    Box::pin(async move { handler.await.unwrap_or_else(RequestError::into_response) })
}

/// Bytes behind a body are ignored, as in Kafka; some clients send them.
fn note_leftover(header: &RequestHeader, body: &Bytes) {
    if !body.is_empty() {
        debug!(api_key = %header.api_key, api_version = header.api_version, client = header.client_id(),
            bytes = body.len(), "bytes left over behind the request");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_java_does() {
        let written = |address: &str| client_host(address.parse().unwrap());
        assert_eq!(written("127.0.0.1"), "/127.0.0.1");
        assert_eq!(written("::1"), "/0:0:0:0:0:0:0:1");
        assert_eq!(written("2001:db8::a0b"), "/2001:db8:0:0:0:0:0:a0b");
    }
}
