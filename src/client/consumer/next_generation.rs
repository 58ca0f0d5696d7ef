//! A member of a group by the protocol `consumer` (KIP-848): one heartbeat for everything, partitions from the coordinator.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, TopicName};
use tokio::time::{Instant, sleep_until, timeout};

use super::shared::{Shared, Topic};
use super::{Rebalance, Subscription, back_off, offsets};
use crate::client::error::{Error, Result};
use crate::client::text;
use crate::protocol::ErrorCode;
use crate::types::{TopicId, TopicPartition};

/// A member that joins has this epoch, one that leaves the other two.
const JOINING: i32 = 0;
const LEAVING: i32 = -1;
const LEAVING_FOR_A_WHILE: i32 = -2;
const FIRST_INTERVAL: Duration = Duration::from_secs(3);

pub async fn run(shared: Rc<Shared>, subscription: Subscription) {
    // In the text form of all of Kafka's ids.
    let id = TopicId::random().to_string();
    let mut member = Member {
        shared,
        subscription,
        id,
        epoch: JOINING,
        names: BTreeMap::new(),
        subscribed: Vec::new(),
        owned: None,
        is_told: false,
    };
    if let Err(error) = member.take_part().await {
        member.shared.fail(error);
    }
    member.leave().await;
}

struct Member {
    shared: Rc<Shared>,
    subscription: Subscription,
    id: String,
    epoch: i32,
    /// Of topics, by their ids.
    names: BTreeMap<TopicId, String>,
    /// What the coordinator was told.
    subscribed: Vec<String>,
    /// What the coordinator knows that it owns; `None` if it knows nothing.
    owned: Option<BTreeMap<TopicId, Vec<i32>>>,
    /// It was told an assignment since it joined, if an empty one.
    is_told: bool,
}

impl Member {
    async fn take_part(&mut self) -> Result<()> {
        let config = self.shared.config.clone();
        let mut look = Instant::now();
        let mut told = BTreeMap::new();
        loop {
            if self.shared.closing.get() {
                return Ok(());
            }
            if Instant::now() >= look
                && let Ok(topics) = self.shared.subscribed(&self.subscription).await
            {
                look = Instant::now() + config.metadata_max_age;
                self.learn(&topics);
                told = topics.into_iter().map(|topic| (topic.name, topic.id)).collect();
            }
            let names: Vec<String> = match &self.subscription {
                Subscription::Topics(names) => names.clone(),
                Subscription::Pattern(_) => told.keys().cloned().collect(),
            };
            let owned = self.owned_now();
            let answer = match self.heartbeat(&names, &owned).await {
                Ok(answer) => answer,
                Err(error) if error.is_retriable() => {
                    back_off(&config).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match ErrorCode::from_code(answer.error_code) {
                Some(ErrorCode::None) => {}
                Some(ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch) => {
                    self.epoch = JOINING;
                    self.owned = None;
                    self.is_told = false;
                    self.shared.give_up();
                    continue;
                }
                Some(code) if code.retriable() => {
                    back_off(&config).await;
                    continue;
                }
                _ => return Err(Error::of(answer.error_code, answer.error_message.as_deref())),
            }
            self.epoch = answer.member_epoch;
            self.subscribed = names;
            self.owned = Some(owned);
            *self.shared.member.borrow_mut() = (self.id.clone(), self.epoch);
            if let Some(assignment) = &answer.assignment {
                let wanted: BTreeMap<TopicId, Vec<i32>> = assignment
                    .topic_partitions
                    .iter()
                    .map(|topic| (TopicId(topic.topic_id), topic.partitions.clone()))
                    .collect();
                if self.reconcile(&wanted).await? {
                    // Told at once, so that others get what was given up.
                    continue;
                }
            }
            let interval = u64::try_from(answer.heartbeat_interval_ms).map_or(FIRST_INTERVAL, Duration::from_millis);
            let next = Instant::now() + interval;
            while !self.shared.closing.get() && Instant::now() < next {
                tokio::select! {
                    () = self.shared.wake_member.notified() => {}
                    () = sleep_until(next) => {}
                }
            }
        }
    }

    async fn heartbeat(
        &self,
        names: &[String],
        owned: &BTreeMap<TopicId, Vec<i32>>,
    ) -> Result<ConsumerGroupHeartbeatResponse> {
        let config = &self.shared.config;
        let joining = self.epoch == JOINING;
        let mut request = self.request(self.epoch);
        if joining {
            request = request
                .with_rebalance_timeout_ms(config.max_poll_interval_ms)
                .with_server_assignor(config.remote_assignor.as_deref().map(text))
                .with_topic_partitions(Some(Vec::new()));
        } else if self.owned.as_ref() != Some(owned) {
            let topics = owned.iter().map(|(id, partitions)| {
                TopicPartitions::default().with_topic_id(id.0).with_partitions(partitions.clone())
            });
            request = request.with_topic_partitions(Some(topics.collect()));
        }
        if joining || names != self.subscribed {
            request =
                request.with_subscribed_topic_names(Some(names.iter().map(|name| TopicName(text(name))).collect()));
        }
        self.shared.client.send(&self.shared.coordinator(), &request).await
    }

    fn request(&self, epoch: i32) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(text(self.shared.group_id())))
            .with_member_id(text(&self.id))
            .with_member_epoch(epoch)
            .with_instance_id(self.shared.config.group_instance_id.as_deref().map(text))
            .with_rebalance_timeout_ms(-1)
            .with_subscribed_topic_names(None)
            .with_topic_partitions(None)
    }

    /// Takes note of topics as the cluster tells them. One of an earlier topic's name takes its place.
    fn learn(&mut self, topics: &[Topic]) {
        self.names.retain(|_, known| topics.iter().all(|topic| topic.name != *known));
        self.names.extend(topics.iter().map(|topic| (topic.id, topic.name.clone())));
    }

    fn owned_now(&self) -> BTreeMap<TopicId, Vec<i32>> {
        let positions = self.shared.positions.borrow();
        let mut owned: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
        for place in positions.keys() {
            if let Some((id, _)) = self.names.iter().find(|(_, name)| **name == *place.topic) {
                owned.entry(*id).or_default().push(place.partition.0);
            }
        }
        owned
    }

    /// Gives up what is not its own any more, and takes what is new. Whether that changed anything.
    async fn reconcile(&mut self, wanted: &BTreeMap<TopicId, Vec<i32>>) -> Result<bool> {
        if wanted.keys().any(|id| !self.names.contains_key(id)) {
            let topics = self.shared.subscribed(&self.subscription).await.unwrap_or_default();
            self.learn(&topics);
        }
        let before = self.owned_now();
        let places: Vec<TopicPartition> = wanted
            .iter()
            .filter_map(|(id, partitions)| Some((self.names.get(id)?, partitions)))
            .flat_map(|(name, partitions)| {
                partitions.iter().map(|&partition| TopicPartition::new(name.as_str(), partition))
            })
            .collect();
        let owned: Vec<TopicPartition> = self.shared.positions.borrow().keys().cloned().collect();
        let given_up: Vec<TopicPartition> = owned.iter().filter(|place| !places.contains(place)).cloned().collect();
        let mut added: Vec<TopicPartition> = places.iter().filter(|place| !owned.contains(place)).cloned().collect();
        added.sort();
        let mut events = Vec::new();
        if !given_up.is_empty() {
            self.shared.until_done().await;
            offsets::auto_commit(&self.shared).await;
            events.push(Rebalance::Revoked(given_up));
        }
        if !self.is_told || !events.is_empty() || !added.is_empty() {
            self.is_told = true;
            events.push(Rebalance::Assigned(added));
        }
        self.shared.take_over(places, &events).await?;
        Ok(self.owned_now() != before)
    }

    /// A static member says that it will be back.
    async fn leave(&self) {
        if self.epoch == JOINING {
            return;
        }
        let epoch = if self.shared.config.group_instance_id.is_some() { LEAVING_FOR_A_WHILE } else { LEAVING };
        let limit = self.shared.config.client.request_timeout;
        // If it cannot be said, the session ends by itself.
        let _ = timeout(limit, self.shared.client.send(&self.shared.coordinator(), &self.request(epoch))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::config;
    use super::*;
    use crate::client::Client;

    /// A member that took a topic for the deleted one of the same name told the coordinator of partitions that it did not
    /// have, which then waited for ever for it to give them up.
    #[test]
    fn a_topic_that_was_made_anew_has_the_name_of_the_old_one() {
        let config = config(&[("group.id", "g")]).unwrap();
        let shared = Rc::new(Shared::new(Client::new(config.client.clone()), config, None));
        let mut member = Member {
            shared: shared.clone(),
            subscription: Subscription::Topics(vec!["t".to_owned()]),
            id: String::new(),
            epoch: JOINING,
            names: BTreeMap::new(),
            subscribed: Vec::new(),
            owned: None,
            is_told: false,
        };
        let topic =
            |id: u128| Topic { name: "t".to_owned(), id: TopicId(uuid::Uuid::from_u128(id)), partitions: vec![0] };
        shared.assign([(TopicPartition::new("t", 0), 5)].into());
        for id in [7, 3, 9] {
            member.learn(&[topic(id)]);
            assert_eq!(member.owned_now(), [(topic(id).id, vec![0])].into());
        }
    }
}
