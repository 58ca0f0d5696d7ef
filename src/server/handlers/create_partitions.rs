//! CreatePartitions (key 37), versions 0 to 3: forwarded to the controller, whose `partitions` has the rules (KIP-195).
//!
//! When it is answered, the new partitions serve.

use kafka_protocol::messages::CreatePartitionsRequest;

use super::Call;
use crate::net::Response;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: CreatePartitionsRequest = call.decode()?;
    let response = call.broker.controller.create_partitions(request).await?;
    call.encode(&response)
}
