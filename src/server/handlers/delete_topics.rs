//! DeleteTopics (key 20), versions 1 to 6: forwarded to the controller, whose `topics` has the rules (KIP-4).
//!
//! v5+: error messages; v6+: by name or by id (KIP-516). When it is answered, the topic is gone from this broker.

use kafka_protocol::messages::DeleteTopicsRequest;

use super::Call;
use crate::net::Response;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DeleteTopicsRequest = call.decode()?;
    let response = call.broker.controller.delete_topics(request, call.header.api_version).await?;
    call.encode(&response)
}
