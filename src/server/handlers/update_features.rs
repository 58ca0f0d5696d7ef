//! UpdateFeatures (key 57), versions 0 to 2: sets the levels of the cluster's features (KIP-584), all of a request or none.
//!
//! Forwarded to the controller, whose `feature_updates` has the rules. When it is answered, the levels are in force.
//!
//! - v0: a downgrade is marked by a field that Kafka's controller does not read, and so is refused.
//! - v1+: the type of the update, and requests that only check (KIP-778).
//! - v2+: one answer for all features (KIP-1022).

use kafka_protocol::messages::UpdateFeaturesRequest;

use super::Call;
use crate::net::Response;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: UpdateFeaturesRequest = call.decode()?;
    let response = call.broker.controller.update_features(request, call.header.api_version).await?;
    call.broker.tell_cordoned().await;
    call.encode(&response)
}
