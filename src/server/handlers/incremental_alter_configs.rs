//! IncrementalAlterConfigs (key 44), versions 0 and 1: changes single settings (KIP-339).
//!
//! Forwarded to the controller, whose `configs` has the rules. When it is answered, the settings are in force.

use kafka_protocol::messages::IncrementalAlterConfigsRequest;

use super::Call;
use crate::net::Response;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: IncrementalAlterConfigsRequest = call.decode()?;
    let response = call.broker.controller.incremental_alter_configs(request).await?;
    call.encode(&response)
}
