//! What a sender knows of its topic: how many partitions there are, and who leads them.

use std::time::Duration;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use tokio::time::{Instant, sleep, timeout};

use super::super::batch::Queue;
use super::Sender;
use crate::client::cluster::Target;
use crate::client::error::{Error, Result};
use crate::client::{log, text};
use crate::protocol::ErrorCode;

impl<T: 'static> Sender<T> {
    /// Asks for the topic until it has partitions, or the time is up.
    pub(super) async fn learn_topic(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let mut reported = None;
        loop {
            let asked = timeout(deadline.saturating_duration_since(Instant::now()), self.ask_topic()).await;
            match asked {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if !error.is_retriable() => return Err(error),
                Ok(Err(error)) => {
                    if let Some(code) = error.code
                        && reported.replace(code) != Some(code)
                    {
                        self.warn(format_args!(
                            "The metadata response from the cluster reported a recoverable issue: {{{}={}}}",
                            self.topic,
                            code.name()
                        ));
                    }
                }
                Err(_) => {}
            }
            if Instant::now() + self.config.client.retry_backoff >= deadline {
                return Err(Error::timeout(format!(
                    "Topic {} not present in metadata after {} ms.",
                    self.topic,
                    limit.as_millis()
                )));
            }
            sleep(self.config.client.retry_backoff).await;
        }
    }

    pub(super) async fn ask_topic(&mut self) -> Result<()> {
        let topic = MetadataRequestTopic::default().with_name(Some(TopicName(text(&self.topic))));
        let request = MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(true);
        let answer = self.client.send(&Target::Any, &request).await?;
        let Some(topic) = answer.topics.first() else {
            return Err(Error::of(ErrorCode::UnknownTopicOrPartition.code(), None::<String>));
        };
        if topic.error_code == ErrorCode::InvalidTopicException.code() {
            // The first time that it is asked for is told apart.
            let named =
                if self.reported_invalid { self.topic.clone() } else { format!("Invalid topics: [{}]", self.topic) };
            if !std::mem::replace(&mut self.reported_invalid, true) {
                log::invalid_topic("Producer", &self.config.client.client_id, None, &self.topic);
            }
            return Err(Error::of(topic.error_code, Some(named)));
        }
        Error::check(topic.error_code, None::<String>)?;
        let count = topic.partitions.len();
        if count == 0 {
            return Err(Error::of(ErrorCode::UnknownTopicOrPartition.code(), None::<String>));
        }
        self.leaders = vec![None; count.max(self.leaders.len())];
        for partition in &topic.partitions {
            if let Some(leader) = self.leaders.get_mut(partition.partition_index as usize) {
                *leader = (partition.leader_id.0 >= 0).then_some(partition.leader_id.0);
            }
        }
        while self.queues.len() < count {
            self.queues.push(Queue::default());
        }
        self.client.take_nodes(&answer);
        self.stale = false;
        Ok(())
    }
}
