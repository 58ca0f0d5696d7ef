//! AllocateProducerIds: blocks of producer ids for brokers to hand out (KIP-730).

use kafka_protocol::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse, ProducerId};

use super::brokers::check_broker_epoch;
use super::decision::Decision;
use crate::metadata::image::MetadataImage;
use crate::metadata::records::{ProducerIdsRecord, VersionedRecord};
use crate::protocol::errors::ErrorCode;
use crate::types::BrokerId;

/// Ids in a block.
pub const BLOCK_SIZE: i32 = 1000;

/// The next block, for the broker that asks.
pub fn allocate_producer_ids(
    image: &MetadataImage,
    request: &AllocateProducerIdsRequest,
) -> Decision<AllocateProducerIdsResponse> {
    let refuse =
        |code: ErrorCode| Decision::answer(AllocateProducerIdsResponse::default().with_error_code(code.code()));
    let broker_id = BrokerId(request.broker_id.0);
    if check_broker_epoch(image, broker_id, request.broker_epoch).is_err() {
        return refuse(ErrorCode::StaleBrokerEpoch);
    }
    let start = image.next_producer_id.map_or(0, |next| next.0);
    let Some(next_producer_id) = start.checked_add(i64::from(BLOCK_SIZE)) else {
        return refuse(ErrorCode::UnknownServerError);
    };
    let record = ProducerIdsRecord { broker_id, broker_epoch: request.broker_epoch, next_producer_id };
    let response = AllocateProducerIdsResponse::default()
        .with_producer_id_start(ProducerId(start))
        .with_producer_id_len(BLOCK_SIZE);
    Decision { records: vec![VersionedRecord::lowest(record)], response }
}
