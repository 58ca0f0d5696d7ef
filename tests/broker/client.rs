//! A client that says exactly what it is told to, and reads answers in the order they come.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use bytes::{Buf, Bytes};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, FetchRequest,
    FetchResponse, IncrementalAlterConfigsRequest, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest,
    ProduceRequest, TopicName,
};
use kafka_protocol::protocol::{Request, StrBytes};
use ottla::protocol::{ErrorCode, messages};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::records;

/// After so long without what is expected a test has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// A `max_wait_ms` that no test waits for.
pub const FOR_EVER_MS: i32 = 3_600_000;

/// Names topics.
pub const PRODUCE: i16 = 9;
/// Names topics, and has sessions.
pub const FETCH: i16 = 12;
/// The first that names topics by their ids.
pub const FETCH_BY_ID: i16 = 13;
pub const CREATE_TOPICS: i16 = 7;
const LIST_OFFSETS: i16 = 7;
pub const METADATA: i16 = 12;
const DELETE_RECORDS: i16 = 2;
const DELETE_TOPICS: i16 = 6;
const CREATE_PARTITIONS: i16 = 3;
const INCREMENTAL_ALTER_CONFIGS: i16 = 1;
pub const INIT_PRODUCER_ID: i16 = 4;

/// Waits for `future`, and fails the test if that takes too long.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Asks again and again until the answer is yes, and fails the test if that takes too long.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(what, asking).await;
}

pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub fn topic_name(name: &str) -> TopicName {
    text(name).into()
}

/// The code as the protocol's table names it.
pub fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or_else(|| panic!("{code} is no error code of Kafka's"))
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    next_correlation_id: i32,
    /// Correlation ids of the requests that wait for their answers.
    unanswered: VecDeque<i32>,
}

impl Client {
    pub async fn connect(port: u16) -> Client {
        let stream = soon("a connection", TcpStream::connect(("127.0.0.1", port))).await.expect("connect");
        stream.set_nodelay(true).expect("nodelay");
        Client { stream, next_correlation_id: 1, unanswered: VecDeque::new() }
    }

    /// Sends a request whose answer is to be received later.
    pub async fn send<R: Request>(&mut self, version: i16, request: &R) {
        let correlation_id = self.send_unanswered(version, request).await;
        self.unanswered.push_back(correlation_id);
    }

    /// Sends a request that gets no answer.
    pub async fn send_unanswered<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id += 1;
        let frame = messages::encode_request(request, version, correlation_id, Some("broker-tests")).expect("encode");
        let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&frame);
        soon("sending", self.stream.write_all(&bytes)).await.expect("write");
        correlation_id
    }

    /// The answer to the oldest request that has none yet.
    pub async fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        let correlation_id = self.unanswered.pop_front().expect("a request was sent");
        let mut frame = soon("an answer", self.read_frame()).await.expect("an answer, not the end of the connection");
        assert_eq!(frame.get_i32(), correlation_id, "answers come in the order of their requests");
        let api_key = ottla::protocol::ApiKey::from_key(R::KEY).expect("an API");
        if api_key.response_header_version(version) >= 1 {
            assert_eq!(frame.get_u8(), 0, "no tagged fields in the header");
        }
        let response = messages::decode_response::<R>(&mut frame, version).expect("an answer of the version asked for");
        assert!(frame.is_empty(), "{} bytes behind the answer", frame.len());
        response
    }

    pub async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.send(version, request).await;
        self.receive::<R>(version).await
    }

    async fn read_frame(&mut self) -> std::io::Result<Bytes> {
        let length = self.stream.read_u32().await?;
        let mut frame = vec![0; length as usize];
        self.stream.read_exact(&mut frame).await?;
        Ok(frame.into())
    }

    /// Waits until the broker closes the connection; fails on any other bytes.
    pub async fn closed(mut self) {
        let mut byte = [0];
        let read = soon("the end of the connection", self.stream.read(&mut byte)).await;
        assert!(matches!(read, Ok(0) | Err(_)), "an answer instead of the end of the connection");
    }

    /// Whether a request is answered, and not by the end of the connection.
    pub async fn is_served<R: Request>(&mut self, version: i16, request: &R) -> bool {
        let frame = messages::encode_request(request, version, 0, None).expect("encode");
        let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&frame);
        soon("sending", self.stream.write_all(&bytes)).await.is_ok()
            && soon("an answer or the end of the connection", self.read_frame()).await.is_ok()
    }

    /// Ends the connection in a way that the broker notices at once: by a reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().expect("linger");
    }

    /// Whether anything has arrived that was not received yet. Only for the present moment.
    pub fn has_answer(&self) -> bool {
        let mut byte = [0];
        matches!(futures_util::FutureExt::now_or_never(self.stream.peek(&mut byte)), Some(Ok(1)))
    }

    // --- what many tests say -------------------------------------------------------------------------------------

    /// Creates a topic with settings, which must succeed. Returns its id.
    pub async fn create_topic(&mut self, name: &str, partitions: i32, settings: &[(&str, &str)]) -> Uuid {
        let response = self.call(CREATE_TOPICS, &create_topics(&[name], partitions, settings)).await;
        let topic = &response.topics[0];
        assert_eq!(error(topic.error_code), ErrorCode::None, "{:?}", topic.error_message);
        topic.topic_id
    }

    /// Produces one batch.
    pub async fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        acks: i16,
        records: Bytes,
    ) -> PartitionProduceResponse {
        let response = self.call(PRODUCE, &produce(topic, partition, acks, records)).await;
        response.responses[0].partition_responses[0].clone()
    }

    /// Produces one batch, which must be taken. Returns its base offset.
    pub async fn produced(&mut self, topic: &str, partition: i32, acks: i16, records: Bytes) -> i64 {
        let answer = self.produce(topic, partition, acks, records).await;
        assert_eq!(error(answer.error_code), ErrorCode::None, "{topic}-{partition}: {:?}", answer.error_message);
        answer.base_offset
    }

    /// Fetches from one partition, without a session and without waiting.
    pub async fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> PartitionData {
        let response = self.call(FETCH, &fetch(&[(topic, &[(partition, offset)])], 0, 0)).await;
        only_partition(&response)
    }

    /// Offsets and values of all records of a partition from `offset` on.
    pub async fn read_from(&mut self, topic: &str, partition: i32, mut offset: i64) -> Vec<(i64, String)> {
        let mut found = Vec::new();
        loop {
            let answer = self.fetch(topic, partition, offset).await;
            assert_eq!(error(answer.error_code), ErrorCode::None, "{topic}-{partition} at {offset}");
            let read = records::of(&answer);
            let Some((last, _)) = read.last() else { return found };
            let next = last + 1;
            // The first batch may begin before the wanted offset.
            found.extend(read.into_iter().filter(|(at, _)| *at >= offset));
            offset = next;
        }
    }

    /// ListOffsets of one partition.
    pub async fn list_offset(&mut self, topic: &str, partition: i32, timestamp: i64) -> Result<i64, ErrorCode> {
        let partitions =
            vec![ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(timestamp)];
        let topics = vec![ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(partitions)];
        let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(topics);
        let response = self.call(LIST_OFFSETS, &request).await;
        let answer = &response.topics[0].partitions[0];
        match error(answer.error_code) {
            ErrorCode::None => Ok(answer.offset),
            code => Err(code),
        }
    }

    pub async fn earliest(&mut self, topic: &str, partition: i32) -> i64 {
        self.list_offset(topic, partition, -2).await.expect("the earliest offset")
    }

    pub async fn latest(&mut self, topic: &str, partition: i32) -> i64 {
        self.list_offset(topic, partition, -1).await.expect("the latest offset")
    }

    /// DeleteRecords of one partition. Returns the low watermark.
    pub async fn delete_records(&mut self, topic: &str, partition: i32, offset: i64) -> Result<i64, ErrorCode> {
        let partitions = vec![DeleteRecordsPartition::default().with_partition_index(partition).with_offset(offset)];
        let topics = vec![DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(partitions)];
        let request = DeleteRecordsRequest::default().with_topics(topics).with_timeout_ms(60_000);
        let response = self.call(DELETE_RECORDS, &request).await;
        let answer = &response.topics[0].partitions[0];
        match error(answer.error_code) {
            ErrorCode::None => Ok(answer.low_watermark),
            code => Err(code),
        }
    }

    /// Deletes a topic, which must succeed.
    pub async fn delete_topic(&mut self, name: &str) {
        let topic = DeleteTopicState::default().with_name(Some(topic_name(name)));
        let request = DeleteTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(60_000);
        let response = self.call(DELETE_TOPICS, &request).await;
        assert_eq!(error(response.responses[0].error_code), ErrorCode::None);
    }

    /// Gives a topic more partitions.
    pub async fn create_partitions(&mut self, name: &str, count: i32) {
        let topic =
            CreatePartitionsTopic::default().with_name(topic_name(name)).with_count(count).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(60_000);
        let response = self.call(CREATE_PARTITIONS, &request).await;
        let answer = &response.results[0];
        assert_eq!(error(answer.error_code), ErrorCode::None, "{:?}", answer.error_message);
    }

    /// Changes settings of a topic, or with the name of a node those of a broker (IncrementalAlterConfigs), which must
    /// succeed. `None` deletes a setting.
    pub async fn alter(&mut self, resource: Resource<'_>, settings: &[(&str, Option<&str>)]) {
        let configs = settings.iter().map(|(name, value)| {
            AlterableConfig::default()
                .with_name(text(name))
                .with_config_operation(if value.is_some() { 0 } else { 1 })
                .with_value(value.map(text))
        });
        let (kind, name) = resource.parts();
        let resource = AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configs(configs.collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let response = self.call(INCREMENTAL_ALTER_CONFIGS, &request).await;
        let answer = &response.responses[0];
        assert_eq!(error(answer.error_code), ErrorCode::None, "{:?}", answer.error_message);
    }

    /// A new producer id.
    pub async fn producer_id(&mut self) -> i64 {
        let response = self.call(INIT_PRODUCER_ID, &init_producer_id()).await;
        assert_eq!((error(response.error_code), response.producer_epoch), (ErrorCode::None, 0));
        response.producer_id.0
    }

    /// Names of all topics.
    pub async fn topics(&mut self) -> Vec<String> {
        let request = MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(false);
        let response = self.call(METADATA, &request).await;
        response.topics.iter().map(|topic| topic.name.as_ref().expect("a name").to_string()).collect()
    }
}

/// Whose settings are meant.
pub enum Resource<'a> {
    Topic(&'a str),
    /// By its id; empty: all brokers.
    Broker(&'a str),
}

impl<'a> Resource<'a> {
    /// Type and name, as the protocol has them.
    pub fn parts(&self) -> (i8, &'a str) {
        match self {
            Resource::Topic(name) => (2, name),
            Resource::Broker(name) => (4, name),
        }
    }
}

/// A request for topics that all have the same partitions and settings.
pub fn create_topics(names: &[&str], partitions: i32, settings: &[(&str, &str)]) -> CreateTopicsRequest {
    let configs: Vec<_> = settings
        .iter()
        .map(|(name, value)| CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value))))
        .collect();
    let topics = names.iter().map(|name| {
        CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(-1)
            .with_configs(configs.clone())
    });
    CreateTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(PATIENCE.as_millis() as i32)
}

/// Asks for a new producer id.
pub fn init_producer_id() -> InitProducerIdRequest {
    InitProducerIdRequest::default().with_transactional_id(None).with_producer_id((-1).into()).with_producer_epoch(-1)
}

pub fn produce(topic: &str, partition: i32, acks: i16, records: Bytes) -> ProduceRequest {
    produce_all(acks, &[(topic, partition, records)])
}

pub fn produce_all(acks: i16, batches: &[(&str, i32, Bytes)]) -> ProduceRequest {
    let topics = batches.iter().map(|(topic, partition, records)| {
        let partition = PartitionProduceData::default().with_index(*partition).with_records(Some(records.clone()));
        TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![partition])
    });
    ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(PATIENCE.as_millis() as i32)
        .with_topic_data(topics.collect())
}

/// What is wanted of one topic: partitions and offsets.
pub type Wanted<'a> = (&'a str, &'a [(i32, i64)]);

/// A Fetch without a session, of topics by name, with limits that nothing here reaches.
pub fn fetch(topics: &[Wanted<'_>], max_wait_ms: i32, min_bytes: i32) -> FetchRequest {
    FetchRequest::default()
        .with_replica_id((-1).into())
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(min_bytes)
        .with_max_bytes(1 << 30)
        .with_session_id(0)
        .with_session_epoch(-1)
        .with_topics(topics.iter().map(|wanted| fetch_topic(*wanted)).collect())
}

pub fn fetch_topic((name, partitions): Wanted<'_>) -> FetchTopic {
    let partitions = partitions.iter().map(|&(partition, offset)| {
        FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_current_leader_epoch(-1)
            .with_partition_max_bytes(16 << 20)
    });
    FetchTopic::default().with_topic(topic_name(name)).with_partitions(partitions.collect())
}

/// The answer to a fetch of one partition.
pub fn only_partition(response: &FetchResponse) -> PartitionData {
    assert_eq!(error(response.error_code), ErrorCode::None);
    let partitions: Vec<_> = response.responses.iter().flat_map(|topic| &topic.partitions).collect();
    assert_eq!(partitions.len(), 1, "{response:?}");
    partitions[0].clone()
}
