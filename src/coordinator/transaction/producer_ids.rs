//! The producer ids that this broker hands out, from blocks that the controller allocates to it (KIP-730).

use kafka_protocol::messages::{AllocateProducerIdsRequest, BrokerId as WireBrokerId};
use thiserror::Error;
use tokio::sync::Mutex;

use crate::controller::{ControllerError, ControllerHandle};
use crate::protocol::ErrorCode;
use crate::types::{BrokerId, ProducerId};

/// Why there is no id.
#[derive(Debug, Error)]
pub enum ProducerIdError {
    #[error(transparent)]
    Controller(#[from] ControllerError),
    #[error("the controller refused: {0:?}")]
    Refused(ErrorCode),
}

/// A block, used from its front.
#[derive(Default)]
struct Block {
    next: i64,
    end: i64,
}

/// What is left of the last block.
pub struct ProducerIds {
    broker_id: BrokerId,
    controller: ControllerHandle,
    /// Held while a new block is asked for, so that it is asked for once.
    block: Mutex<Block>,
}

impl ProducerIds {
    pub fn new(broker_id: BrokerId, controller: ControllerHandle) -> ProducerIds {
        ProducerIds { broker_id, controller, block: Mutex::default() }
    }

    /// An id that no producer has had.
    pub async fn next(&self) -> Result<ProducerId, ProducerIdError> {
        let mut block = self.block.lock().await;
        if block.next == block.end {
            let image = self.controller.metadata().load();
            let broker_epoch = image.broker(self.broker_id).map_or(-1, |broker| broker.epoch);
            let request = AllocateProducerIdsRequest::default()
                .with_broker_id(WireBrokerId(self.broker_id.0))
                .with_broker_epoch(broker_epoch);
            let response = self.controller.allocate_producer_ids(request).await?;
            match ErrorCode::from_code(response.error_code) {
                Some(ErrorCode::None) => {}
                error => return Err(ProducerIdError::Refused(error.unwrap_or(ErrorCode::UnknownServerError))),
            }
            block.next = response.producer_id_start.0;
            block.end = block.next + i64::from(response.producer_id_len);
        }
        let id = ProducerId(block.next);
        block.next += 1;
        Ok(id)
    }
}
