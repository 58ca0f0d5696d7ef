//! AlterConfigs (key 33), versions 0 to 2: replaces all settings of a resource (KIP-4); deprecated for the incremental form.
//!
//! Forwarded to the controller, whose `configs` has the rules. When it is answered, the settings are in force.

use kafka_protocol::messages::AlterConfigsRequest;

use super::Call;
use crate::net::Response;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: AlterConfigsRequest = call.decode()?;
    let response = call.broker.controller.alter_configs(request).await?;
    call.broker.tell_cordoned().await;
    call.encode(&response)
}
