//! CreateTopics (key 19), versions 2 to 7: forwarded to the controller, whose `topics` has the rules (KIP-4).
//!
//! v5+: the answer tells partitions and configurations (KIP-525); v7+: topic ids (KIP-516). When it is answered, the
//! topic's partitions serve.

use kafka_protocol::messages::CreateTopicsRequest;

use super::Call;
use crate::net::Response;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: CreateTopicsRequest = call.decode()?;
    let response = call.broker.controller.create_topics(request).await?;
    call.encode(&response)
}
