//! What becomes of a response when the records that it rests on could not be written: the disk is full.
//!
//! Whatever had succeeded has KAFKA_STORAGE_ERROR then, which clients take as a reason to try again; what had failed keeps
//! its own error.

use kafka_protocol::messages::{
    AllocateProducerIdsResponse, AlterConfigsResponse, AssignReplicasToDirsResponse, BrokerHeartbeatResponse,
    BrokerRegistrationResponse, CreatePartitionsResponse, CreateTopicsResponse, DeleteTopicsResponse,
    IncrementalAlterConfigsResponse, UpdateFeaturesResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::protocol::errors::ErrorCode;

const MESSAGE: &str = "The disk of the metadata log is full.";

/// A response that can be made into a refusal.
pub trait Refusable {
    fn refuse(&mut self);
}

fn refuse(code: &mut i16) -> bool {
    let succeeded = *code == ErrorCode::None.code();
    if succeeded {
        *code = ErrorCode::KafkaStorageError.code();
    }
    succeeded
}

fn refuse_with_message(code: &mut i16, message: &mut Option<StrBytes>) -> bool {
    let refused = refuse(code);
    if refused {
        *message = Some(StrBytes::from_static_str(MESSAGE));
    }
    refused
}

impl Refusable for CreateTopicsResponse {
    fn refuse(&mut self) {
        for topic in &mut self.topics {
            if refuse_with_message(&mut topic.error_code, &mut topic.error_message) {
                topic.topic_id = uuid::Uuid::nil();
                topic.num_partitions = -1;
                topic.replication_factor = -1;
                topic.configs = Some(Vec::new());
            }
        }
    }
}

impl Refusable for DeleteTopicsResponse {
    fn refuse(&mut self) {
        for topic in &mut self.responses {
            refuse_with_message(&mut topic.error_code, &mut topic.error_message);
        }
    }
}

impl Refusable for CreatePartitionsResponse {
    fn refuse(&mut self) {
        for topic in &mut self.results {
            refuse_with_message(&mut topic.error_code, &mut topic.error_message);
        }
    }
}

impl Refusable for IncrementalAlterConfigsResponse {
    fn refuse(&mut self) {
        for resource in &mut self.responses {
            refuse_with_message(&mut resource.error_code, &mut resource.error_message);
        }
    }
}

impl Refusable for AlterConfigsResponse {
    fn refuse(&mut self) {
        for resource in &mut self.responses {
            refuse_with_message(&mut resource.error_code, &mut resource.error_message);
        }
    }
}

impl Refusable for AllocateProducerIdsResponse {
    fn refuse(&mut self) {
        refuse(&mut self.error_code);
    }
}

impl Refusable for BrokerRegistrationResponse {
    fn refuse(&mut self) {
        refuse(&mut self.error_code);
    }
}

impl Refusable for BrokerHeartbeatResponse {
    fn refuse(&mut self) {
        refuse(&mut self.error_code);
    }
}

impl Refusable for UpdateFeaturesResponse {
    fn refuse(&mut self) {
        refuse_with_message(&mut self.error_code, &mut self.error_message);
        for feature in &mut self.results {
            refuse_with_message(&mut feature.error_code, &mut feature.error_message);
        }
    }
}

impl Refusable for AssignReplicasToDirsResponse {
    fn refuse(&mut self) {
        refuse(&mut self.error_code);
    }
}
