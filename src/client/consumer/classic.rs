//! A member of a group by the classic protocol: joins, syncs, heartbeats, and begins anew with each rebalance (KIP-62, KIP-394).

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as AssignedTopic;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, GroupId, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::{Decodable as _, Request};
use tokio::time::{Instant, timeout};

use super::assignor::{Member, range};
use super::shared::{Shared, Topic};
use super::{Rebalance, Subscription, back_off, offsets};
use crate::client::connection::{Connection, in_time};
use crate::client::error::{Error, Result};
use crate::client::groups::{self, malformed};
use crate::client::text;
use crate::protocol::ErrorCode;

const PROTOCOL_TYPE: &str = "consumer";
const RANGE: &str = "range";
/// Of the subscription and the assignment that stand in the requests.
const EMBEDDED_VERSION: i16 = 1;
/// Above it a leave names the members.
const LAST_LEAVE_OF_ONE: i16 = 2;
/// A join is answered when all have joined, which takes as long as they may need for their work.
const MORE_FOR_JOINING: Duration = Duration::from_secs(5);
/// How often topics are looked for that are subscribed to and missing.
const MISSING_TOPICS: Duration = Duration::from_millis(500);

/// What ends a membership for the time being.
enum Ended {
    /// Join again, as whom the group knows.
    Rebalance,
    /// Join again, as somebody new.
    Unknown,
    /// The consumer wants no more.
    Closing,
}

pub async fn run(shared: Rc<Shared>, subscription: Subscription) {
    let mut member = MemberOfGroup { shared, subscription, id: String::new(), connection: None };
    loop {
        match member.take_part().await {
            Ok(Ended::Closing) => break member.leave().await,
            Ok(Ended::Rebalance) => {}
            Ok(Ended::Unknown) => member.id.clear(),
            Err(error) if error.is_retriable() => {
                member.connection = None;
                back_off(&member.shared.config).await;
            }
            Err(error) => break member.shared.fail(error),
        }
        if member.shared.closing.get() {
            break member.leave().await;
        }
    }
}

struct MemberOfGroup {
    shared: Rc<Shared>,
    subscription: Subscription,
    id: String,
    /// Of its own: a join keeps others waiting.
    connection: Option<Connection>,
}

impl MemberOfGroup {
    /// One generation, from the join to what ends it.
    async fn take_part(&mut self) -> Result<Ended> {
        let topics = self.shared.subscribed(&self.subscription).await?;
        let shared = self.shared.clone();
        let joined = tokio::select! {
            joined = self.join(&topics) => joined?,
            () = closing(&shared) => return Ok(Ended::Closing),
        };
        let Some(joined) = joined else { return Ok(Ended::Unknown) };
        let is_leader = joined.leader == joined.member_id && !joined.skip_assignment;
        let (assignments, known) = match is_leader {
            true => self.assign(&joined).await?,
            false => (Vec::new(), topics),
        };
        let sync = SyncGroupRequest::default()
            .with_group_id(self.group())
            .with_generation_id(joined.generation_id)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.shared.config.group_instance_id.as_deref().map(text))
            .with_protocol_type(Some(text(PROTOCOL_TYPE)))
            .with_protocol_name(joined.protocol_name.clone().or(Some(text(RANGE))))
            .with_assignments(assignments);
        let synced = self.send(&sync, self.joining_time()).await?;
        if let Some(ended) = ended_by(synced.error_code)? {
            return Ok(ended);
        }
        *self.shared.member.borrow_mut() = (self.id.clone(), joined.generation_id);
        let mut partitions = groups::embedded(synced.assignment)?;
        partitions.sort();
        // Others must not wait for it while it waits for offsets.
        let events = [Rebalance::Assigned(partitions.clone())];
        let taking_over = pin!(shared.take_over(partitions, &events));
        let mut heartbeats = pin!(self.heartbeat(joined.generation_id, is_leader, known));
        let ended = tokio::select! {
            taken_over = taking_over => {
                taken_over?;
                heartbeats.await
            }
            ended = &mut heartbeats => ended,
        };
        if matches!(ended, Ok(Ended::Rebalance)) {
            shared.until_done().await;
            offsets::auto_commit(&shared).await;
        }
        if !matches!(ended, Ok(Ended::Closing)) {
            shared.give_up();
        }
        ended
    }

    fn group(&self) -> GroupId {
        GroupId(text(self.shared.group_id()))
    }

    fn joining_time(&self) -> Duration {
        Duration::from_millis(self.shared.config.max_poll_interval_ms as u64) + MORE_FOR_JOINING
    }

    async fn send<R: Request>(&mut self, request: &R, limit: Duration) -> Result<R::Response> {
        let connection = match self.connection.take().filter(Connection::is_open) {
            Some(open) => open,
            None => self.shared.client.own_connection(&self.shared.coordinator()).await?,
        };
        let answer = in_time(limit, connection.call(request)).await;
        self.connection = Some(connection);
        answer
    }

    /// `None` if the group does not know the member any more.
    async fn join(&mut self, topics: &[Topic]) -> Result<Option<JoinGroupResponse>> {
        let names = match &self.subscription {
            Subscription::Topics(names) => names.clone(),
            Subscription::Pattern(_) => topics.iter().map(|topic| topic.name.clone()).collect(),
        };
        let subscription = ConsumerProtocolSubscription::default()
            .with_topics(names.iter().map(|name| text(name)).collect())
            .with_user_data(None);
        loop {
            let protocol =
                JoinGroupRequestProtocol::default().with_name(text(RANGE)).with_metadata(embedded(&subscription)?);
            let request = JoinGroupRequest::default()
                .with_group_id(self.group())
                .with_session_timeout_ms(self.shared.config.session_timeout_ms)
                .with_rebalance_timeout_ms(self.shared.config.max_poll_interval_ms)
                .with_member_id(text(&self.id))
                .with_group_instance_id(self.shared.config.group_instance_id.as_deref().map(text))
                .with_protocol_type(text(PROTOCOL_TYPE))
                .with_protocols(vec![protocol]);
            let answer = self.send(&request, self.joining_time()).await?;
            match ErrorCode::from_code(answer.error_code) {
                Some(ErrorCode::MemberIdRequired) => self.id = answer.member_id.to_string(),
                _ => {
                    return match ended_by(answer.error_code)? {
                        Some(Ended::Unknown) => Ok(None),
                        Some(_) => Err(Error::of(answer.error_code, None::<String>)),
                        None => {
                            self.id = answer.member_id.to_string();
                            Ok(Some(answer))
                        }
                    };
                }
            }
        }
    }

    /// The leader's work. With the topics as it knows them.
    async fn assign(&self, joined: &JoinGroupResponse) -> Result<(Vec<SyncGroupRequestAssignment>, Vec<Topic>)> {
        let mut members = Vec::new();
        for member in &joined.members {
            let mut bytes = member.metadata.clone();
            let version = bytes.try_get_i16().map_err(|error| malformed(&error))?;
            let subscription = ConsumerProtocolSubscription::decode(&mut bytes, version.clamp(0, 3))
                .map_err(|error| malformed(&error))?;
            members.push(Member {
                id: member.member_id.to_string(),
                instance_id: member.group_instance_id.as_deref().map(str::to_owned),
                topics: subscription.topics.iter().map(|topic| topic.to_string()).collect(),
            });
        }
        let mut names: Vec<String> = members.iter().flat_map(|member| member.topics.iter().cloned()).collect();
        names.sort();
        names.dedup();
        let topics = self.shared.topics(&names).await?;
        let assigned = range(&members, &topics).into_iter().map(|(id, topics)| {
            let partitions = topics.iter().map(|(topic, partitions)| {
                AssignedTopic::default().with_topic(TopicName(text(topic))).with_partitions(partitions.clone())
            });
            let assignment = ConsumerProtocolAssignment::default()
                .with_assigned_partitions(partitions.collect())
                .with_user_data(None);
            Ok(SyncGroupRequestAssignment::default().with_member_id(text(&id)).with_assignment(embedded(&assignment)?))
        });
        Ok((assigned.collect::<Result<_>>()?, topics))
    }

    /// Tells the coordinator now and then that it lives, until something ends the generation.
    async fn heartbeat(&mut self, generation_id: i32, is_leader: bool, known: Vec<Topic>) -> Result<Ended> {
        let config = self.shared.config.clone();
        let missing = match &self.subscription {
            Subscription::Topics(names) => names.iter().any(|name| known.iter().all(|topic| topic.name != *name)),
            Subscription::Pattern(_) => false,
        };
        let look_every = if missing { MISSING_TOPICS } else { config.metadata_max_age };
        let mut look = Instant::now() + look_every;
        let mut beat = Instant::now() + config.heartbeat_interval;
        loop {
            tokio::select! {
                () = closing(&self.shared) => return Ok(Ended::Closing),
                () = tokio::time::sleep_until(beat.min(look)) => {}
            }
            if Instant::now() >= look {
                look = Instant::now() + look_every;
                if self.topics_changed(is_leader, &known).await {
                    return Ok(Ended::Rebalance);
                }
            }
            if Instant::now() < beat {
                continue;
            }
            beat = Instant::now() + config.heartbeat_interval;
            let request = HeartbeatRequest::default()
                .with_group_id(self.group())
                .with_generation_id(generation_id)
                .with_member_id(text(&self.id))
                .with_group_instance_id(config.group_instance_id.as_deref().map(text));
            match self.send(&request, config.client.request_timeout).await {
                Ok(answer) => {
                    if let Some(ended) = ended_by(answer.error_code)? {
                        return Ok(ended);
                    }
                }
                // The session outlives a broken connection.
                Err(error) if error.is_retriable() => {
                    self.connection = None;
                    beat = Instant::now() + config.client.retry_backoff;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether there is something new to divide.
    async fn topics_changed(&self, is_leader: bool, known: &[Topic]) -> bool {
        let now = match (&self.subscription, is_leader) {
            (Subscription::Pattern(_), _) => self.shared.subscribed(&self.subscription).await,
            (Subscription::Topics(names), true) => {
                let all = known.iter().map(|topic| &topic.name).chain(names);
                let mut all: Vec<String> = all.cloned().collect();
                all.sort();
                all.dedup();
                self.shared.topics(&all).await
            }
            (Subscription::Topics(_), false) => return false,
        };
        match (now, &self.subscription) {
            (Ok(now), Subscription::Pattern(pattern)) => {
                let own: Vec<&Topic> = known.iter().filter(|topic| pattern.is_match(&topic.name)).collect();
                now.iter().collect::<Vec<_>>() != own
            }
            (Ok(now), Subscription::Topics(_)) => now != known,
            (Err(_), _) => false,
        }
    }

    /// A static member stays: another one may come in its place.
    async fn leave(&mut self) {
        if self.id.is_empty() || self.shared.config.group_instance_id.is_some() {
            return;
        }
        let reason = Some(text("the consumer is being closed"));
        let member = MemberIdentity::default().with_member_id(text(&self.id)).with_reason(reason);
        // A join may still be on its way on the connection.
        let Ok(connection) = self.shared.client.connection(&self.shared.coordinator()).await else { return };
        let request = match connection.versions.common::<LeaveGroupRequest>(i16::MAX) {
            Ok(version) if version <= LAST_LEAVE_OF_ONE => {
                LeaveGroupRequest::default().with_group_id(self.group()).with_member_id(text(&self.id))
            }
            _ => LeaveGroupRequest::default().with_group_id(self.group()).with_members(vec![member]),
        };
        // If it cannot be said, the session ends by itself.
        let _ = timeout(self.shared.config.client.request_timeout, connection.call(&request)).await;
    }
}

async fn closing(shared: &Shared) {
    while !shared.closing.get() {
        shared.wake_member.notified().await;
    }
}

/// What an error code means for the generation; `None` for no error.
fn ended_by(code: i16) -> Result<Option<Ended>> {
    match ErrorCode::from_code(code) {
        Some(ErrorCode::None) => Ok(None),
        Some(ErrorCode::RebalanceInProgress) => Ok(Some(Ended::Rebalance)),
        Some(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) => Ok(Some(Ended::Unknown)),
        _ => Err(Error::of(code, None::<String>)),
    }
}

fn embedded(message: &impl kafka_protocol::protocol::Encodable) -> Result<Bytes> {
    let mut bytes = BytesMut::new();
    bytes.put_i16(EMBEDDED_VERSION);
    message.encode(&mut bytes, EMBEDDED_VERSION).map_err(|error| malformed(&error))?;
    Ok(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TopicPartition;

    #[test]
    fn embedded_messages_have_their_version_before_them() {
        let topic = AssignedTopic::default().with_topic(TopicName(text("t"))).with_partitions(vec![1, 2]);
        let assignment =
            ConsumerProtocolAssignment::default().with_assigned_partitions(vec![topic]).with_user_data(None);
        let bytes = embedded(&assignment).unwrap();
        assert_eq!(&bytes[..2], [0, 1]);
        let given = groups::embedded(bytes).unwrap();
        assert_eq!(given, [1, 2].map(|partition| TopicPartition::new("t", partition)));
        assert_eq!(groups::embedded(Bytes::new()).unwrap(), []);
        assert!(groups::embedded(Bytes::from_static(&[0])).is_err());
    }
}
