//! Tells the controller which log directories of this broker are cordoned (KIP-1066), so that it gives no new replicas to
//! a broker of which all are.
//!
//! Kafka's broker tells it with a heartbeat some time after the setting has changed. Here the request that changes it is
//! answered when the controller knows.

use kafka_protocol::messages::{BrokerHeartbeatRequest, BrokerId as WireBrokerId};
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::broker::Broker;
use crate::controller::brokers::BrokerHeartbeat;

/// Who tells the controller.
#[derive(Default)]
pub struct CordonedLogDirs {
    /// Held from the look at the directories until the controller knows: what it is told last is what was seen last.
    telling: Mutex<()>,
}

impl CordonedLogDirs {
    /// Tells the controller if it does not know yet, and can. For a broker that is not fenced.
    pub async fn tell(&self, broker: &Broker) {
        let _one_at_a_time = self.telling.lock().await;
        let image = broker.image();
        if !image.metadata_version().has_cordoned_log_dirs() {
            return;
        }
        let Some(registration) = image.broker(broker.config.node_id).filter(|broker| broker.is_active()) else {
            return;
        };
        let cordoned = broker.replicas.cordoned_log_dirs();
        if registration.has_cordoned(&cordoned) {
            return;
        }
        let request = BrokerHeartbeatRequest::default()
            .with_broker_id(WireBrokerId(broker.config.node_id.0))
            .with_broker_epoch(registration.epoch)
            .with_current_metadata_offset(image.provenance.offset.0);
        let heartbeat = BrokerHeartbeat { request, cordoned_log_dirs: Some(cordoned.clone()) };
        match broker.controller.broker_heartbeat(heartbeat).await {
            Ok(response) if response.error_code == 0 => info!(?cordoned, "cordoned log directories have changed"),
            Ok(response) => {
                warn!(error_code = response.error_code, "the controller was not told of cordoned log directories")
            }
            Err(error) => warn!(%error, "the controller was not told of cordoned log directories"),
        }
    }
}
