//! Fetch sessions (KIP-227), as a client sees them.

use kafka_protocol::messages::fetch_request::ForgottenTopic;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use ottla::protocol::ErrorCode;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::broker::{Broker, Data};
use crate::client::{Client, FETCH, FETCH_BY_ID, FOR_EVER_MS, Wanted, error, fetch, fetch_topic, topic_name, until};
use crate::records::{batch, values};

/// A session, as its client keeps it.
struct Session {
    id: i32,
    epoch: i32,
}

impl Session {
    /// Begins a session with a full fetch; returns what that told.
    async fn begin(client: &mut Client, topics: &[Wanted<'_>]) -> (Session, Vec<Told>) {
        let request = fetch(topics, 0, 0).with_session_epoch(0);
        let response = client.call(FETCH, &request).await;
        let told = told(&response);
        assert_ne!(response.session_id, 0, "a session is made");
        (Session { id: response.session_id, epoch: 1 }, told)
    }

    /// The next request of the session, which says what is new of these partitions.
    fn next(&mut self, topics: &[Wanted<'_>], max_wait_ms: i32) -> FetchRequest {
        let request = fetch(topics, max_wait_ms, 1).with_session_id(self.id).with_session_epoch(self.epoch);
        self.epoch += 1;
        request
    }

    /// Waits until the broker has taken the last request, though it may not have answered it. `client` is another one.
    async fn taken(&self, client: &mut Client) {
        // The epoch is looked at first, and by such a request nothing is changed.
        let probe = fetch(&[], 0, 0).with_session_id(self.id).with_session_epoch(self.epoch);
        until("the request to be taken", async || match error(client.call(FETCH_BY_ID, &probe).await.error_code) {
            ErrorCode::FetchSessionTopicIdError => true,
            code => {
                assert_eq!(code, ErrorCode::InvalidFetchSessionEpoch);
                false
            }
        })
        .await;
    }

    async fn fetch(&mut self, client: &mut Client, topics: &[Wanted<'_>]) -> Vec<Told> {
        let response = client.call(FETCH, &self.next(topics, 0)).await;
        assert_eq!(response.session_id, self.id);
        told(&response)
    }
}

/// Partition, values, high watermark and error.
type Told = (i32, Vec<String>, i64, ErrorCode);

fn told(response: &FetchResponse) -> Vec<Told> {
    assert_eq!(error(response.error_code), ErrorCode::None);
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let tell = |partition: &PartitionData| {
        (partition.partition_index, values(partition), partition.high_watermark, error(partition.error_code))
    };
    partitions.map(tell).collect()
}

fn news(partition: i32, values: &[&str], high_watermark: i64) -> Told {
    (partition, values.iter().map(|value| (*value).to_owned()).collect(), high_watermark, ErrorCode::None)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_changed_is_told() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 3, &[]).await;
    client.produced("t", 2, 1, batch(&["old"])).await;

    let (mut session, first) = Session::begin(&mut client, &[("t", &[(0, 0), (1, 0), (2, 1)])]).await;
    assert_eq!(first, [news(0, &[], 0), news(1, &[], 0), news(2, &[], 1)], "all at first");
    assert_eq!(session.fetch(&mut client, &[]).await, []);

    client.produced("t", 1, 1, batch(&["a"])).await;
    assert_eq!(session.fetch(&mut client, &[]).await, [news(1, &["a"], 1)]);
    // As long as the client does not say that it goes on, it is told again.
    assert_eq!(session.fetch(&mut client, &[]).await, [news(1, &["a"], 1)]);
    assert_eq!(session.fetch(&mut client, &[("t", &[(1, 1)])]).await, []);

    // Several at once, in the order in which they had records last.
    for partition in [1, 0, 2] {
        client.produced("t", partition, 1, batch(&["b"])).await;
    }
    let all = session.fetch(&mut client, &[]).await;
    assert_eq!(all, [news(0, &["b"], 1), news(2, &["b"], 2), news(1, &["b"], 2)]);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_come_and_are_forgotten() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 3, &[]).await;
    let (mut session, _) = Session::begin(&mut client, &[("t", &[(0, 0)])]).await;
    assert_eq!(session.fetch(&mut client, &[("t", &[(1, 0)])]).await, [news(1, &[], 0)], "new to the session");

    let forget = ForgottenTopic::default().with_topic(topic_name("t")).with_partitions(vec![0]);
    let request = session.next(&[("t", &[(2, 0)])], 0).with_forgotten_topics_data(vec![forget.clone()]);
    assert_eq!(told(&client.call(FETCH, &request).await), [news(2, &[], 0)]);
    for partition in 0..3 {
        client.produced("t", partition, 1, batch(&["a"])).await;
    }
    assert_eq!(session.fetch(&mut client, &[]).await, [news(1, &["a"], 1), news(2, &["a"], 1)]);

    // Named and forgotten in one: forgotten. With its last partition the session ends, and the request is answered alone.
    let forget = forget.with_partitions(vec![0, 1, 2]);
    let request = session.next(&[("t", &[(1, 0)])], 0).with_forgotten_topics_data(vec![forget]);
    let response = client.call(FETCH, &request).await;
    assert_eq!((response.session_id, told(&response)), (0, vec![news(1, &["a"], 1)]));
    let response = client.call(FETCH, &session.next(&[], 0)).await;
    assert_eq!(error(response.error_code), ErrorCode::FetchSessionIdNotFound);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_epoch_by_epoch() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    let (mut session, _) = Session::begin(&mut client, &[("t", &[(0, 0)])]).await;
    assert_eq!(session.fetch(&mut client, &[]).await, []);

    let code = |response: FetchResponse| (error(response.error_code), response.session_id);
    for epoch in [1, 3, -7, i32::MAX] {
        let request = fetch(&[], 0, 0).with_session_id(session.id).with_session_epoch(epoch);
        assert_eq!(code(client.call(FETCH, &request).await), (ErrorCode::InvalidFetchSessionEpoch, 0), "{epoch}");
    }
    let stranger = fetch(&[], 0, 0).with_session_id(session.id ^ 1).with_session_epoch(2);
    assert_eq!(code(client.call(FETCH, &stranger).await), (ErrorCode::FetchSessionIdNotFound, 0));
    let by_id = fetch(&[], 0, 0).with_session_id(session.id).with_session_epoch(2);
    assert_eq!(code(client.call(FETCH_BY_ID, &by_id).await), (ErrorCode::FetchSessionTopicIdError, 0));
    // None of that did it any harm.
    assert_eq!(session.fetch(&mut client, &[]).await, []);

    // A full fetch that names it ends it, with another one or without.
    let another = fetch(&[("t", &[(0, 0)])], 0, 0).with_session_id(session.id).with_session_epoch(0);
    let response = client.call(FETCH, &another).await;
    assert_ne!(response.session_id, 0);
    assert_eq!(code(client.call(FETCH, &session.next(&[], 0)).await).0, ErrorCode::FetchSessionIdNotFound);
    let end = fetch(&[("t", &[(0, 0)])], 0, 0).with_session_id(response.session_id).with_session_epoch(-1);
    assert_eq!(code(client.call(FETCH, &end).await), (ErrorCode::None, 0));
    let gone = fetch(&[], 0, 0).with_session_id(response.session_id).with_session_epoch(1);
    assert_eq!(code(client.call(FETCH, &gone).await), (ErrorCode::FetchSessionIdNotFound, 0));
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_more_sessions_than_configured() {
    let broker = Broker::start(&[("max.incremental.fetch.session.cache.slots", "2")]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    let wanted: &[Wanted<'_>] = &[("t", &[(0, 0)])];
    let (first, _) = Session::begin(&mut client, wanted).await;
    let (mut second, _) = Session::begin(&mut client, wanted).await;
    // Both are young: the third fetch is answered, and gets no session.
    let response = client.call(FETCH, &fetch(wanted, 0, 0).with_session_epoch(0)).await;
    assert_eq!((response.session_id, told(&response)), (0, vec![news(0, &[], 0)]));
    let end = fetch(wanted, 0, 0).with_session_id(first.id).with_session_epoch(-1);
    client.call(FETCH, &end).await;
    Session::begin(&mut client, wanted).await;
    assert_eq!(second.fetch(&mut client, &[]).await, []);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_partitions_only_the_one_that_changed_is_told() {
    const PARTITIONS: i32 = 1000;
    let broker = Broker::start_in(Data::in_memory(), &[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", PARTITIONS, &[]).await;
    let partitions: Vec<(i32, i64)> = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
    let (mut session, first) = Session::begin(&mut client, &[("t", &partitions)]).await;
    assert_eq!(first.len(), PARTITIONS as usize);
    assert_eq!(session.fetch(&mut client, &[]).await, []);

    let mut producer = broker.client().await;
    let mut changed = 777;
    for n in 0..20 {
        client.send(FETCH, &session.next(&[], FOR_EVER_MS)).await;
        producer.produced("t", changed, 1, batch(&["x"])).await;
        assert_eq!(told(&client.receive::<FetchRequest>(FETCH).await), [news(changed, &["x"], 1)], "{n}");
        let read = [(changed, 1)];
        assert_eq!(session.fetch(&mut client, &[("t", &read)]).await, []);
        changed = (changed + 331) % PARTITIONS;
    }
    broker.shut_down().await;
}

/// What came to a partition while a fetch waited that was then given up is told by the session's next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_is_given_up_loses_no_news() {
    let broker = Broker::start(&[]).await;
    let mut producer = broker.client().await;
    producer.create_topic("t", 3, &[]).await;
    let mut client = broker.client().await;
    let (mut session, _) = Session::begin(&mut client, &[("t", &[(0, 0), (1, 0), (2, 0)])]).await;
    for n in 0..20 {
        // More than there will be: it takes note of what comes, and goes on waiting.
        client.send(FETCH, &session.next(&[], FOR_EVER_MS).with_min_bytes(1 << 30)).await;
        session.taken(&mut producer).await;
        producer.produced("t", n % 3, 1, batch(&[n.to_string()])).await;
        client.reset();
        client = broker.client().await;
        let offset = i64::from(n / 3);
        let wanted = session.fetch(&mut client, &[]).await;
        assert_eq!(wanted, [news(n % 3, &[&n.to_string()], offset + 1)]);
        assert_eq!(session.fetch(&mut client, &[("t", &[(n % 3, offset + 1)])]).await, []);
    }
    broker.shut_down().await;
}

/// Nor does one that still waits keep them from the request that the client sends by another connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_by_another_connection() {
    let broker = Broker::start(&[]).await;
    let mut producer = broker.client().await;
    producer.create_topic("t", 2, &[]).await;
    let mut clients = [broker.client().await, broker.client().await];
    let (mut session, _) = Session::begin(&mut clients[0], &[("t", &[(0, 0), (1, 0)])]).await;
    for n in 0..20 {
        let [first, second] = &mut clients;
        first.send(FETCH, &session.next(&[], FOR_EVER_MS).with_min_bytes(1 << 30)).await;
        session.taken(&mut producer).await;
        producer.produced("t", 0, 1, batch(&[n.to_string()])).await;
        second.send(FETCH, &session.next(&[("t", &[(0, n), (1, n)])], FOR_EVER_MS).with_min_bytes(1 << 30)).await;
        let late = first.receive::<FetchRequest>(FETCH).await;
        assert_eq!(error(late.error_code), ErrorCode::InvalidFetchSessionEpoch);
        // By the first connection again, for less: both what was there and what comes.
        first.send(FETCH, &session.next(&[], FOR_EVER_MS).with_min_bytes(100)).await;
        second.receive::<FetchRequest>(FETCH).await;
        producer.produced("t", 1, 1, batch(&["wanted"])).await;
        let answer = told(&first.receive::<FetchRequest>(FETCH).await);
        assert_eq!(answer, [news(0, &[&n.to_string()], n + 1), news(1, &["wanted"], n + 1)]);
        assert_eq!(session.fetch(first, &[("t", &[(0, n + 1), (1, n + 1)])]).await, []);
    }
    broker.shut_down().await;
}

/// As in Kafka, which handles the second request when the first has been answered.
#[tokio::test(flavor = "multi_thread")]
async fn fetches_of_a_session_may_be_pipelined() {
    let broker = Broker::start(&[]).await;
    let mut producer = broker.client().await;
    producer.create_topic("t", 1, &[]).await;
    let mut client = broker.client().await;
    let (mut session, _) = Session::begin(&mut client, &[("t", &[(0, 0)])]).await;
    client.send(FETCH, &session.next(&[], FOR_EVER_MS)).await;
    client.send(FETCH, &session.next(&[("t", &[(0, 1)])], FOR_EVER_MS)).await;
    client.send(FETCH, &session.next(&[("t", &[(0, 2)])], 0)).await;
    producer.produced("t", 0, 1, batch(&["a"])).await;
    assert_eq!(told(&client.receive::<FetchRequest>(FETCH).await), [news(0, &["a"], 1)]);
    assert!(!client.has_answer());
    producer.produced("t", 0, 1, batch(&["b"])).await;
    assert_eq!(told(&client.receive::<FetchRequest>(FETCH).await), [news(0, &["b"], 2)]);
    assert_eq!(told(&client.receive::<FetchRequest>(FETCH).await), []);
    broker.shut_down().await;
}

/// The log's start is told too, though nobody is woken for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_starts_later_is_told() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 2, &[]).await;
    client.produced("t", 1, 1, batch(&["a", "b"])).await;
    let (mut session, _) = Session::begin(&mut client, &[("t", &[(0, 0), (1, 2)])]).await;
    assert_eq!(client.delete_records("t", 1, 1).await, Ok(1));
    let response = client.call(FETCH, &session.next(&[], 0)).await;
    let partition = &response.responses[0].partitions[0];
    assert_eq!((partition.partition_index, partition.log_start_offset), (1, 1));
    assert_eq!(session.fetch(&mut client, &[]).await, []);
    broker.shut_down().await;
}

/// Topics by their ids: the same, and a topic that was made anew is another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_by_topic_ids_tells_of_a_topic_that_was_made_anew() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    let by_id = |id| vec![fetch_topic(("", &[(0, 0)])).with_topic_id(id)];
    let id = client.create_topic("t", 1, &[]).await;
    let request = fetch(&[], 0, 0).with_session_epoch(0).with_topics(by_id(id));
    let response = client.call(FETCH_BY_ID, &request).await;
    let mut session = Session { id: response.session_id, epoch: 1 };
    client.produced("t", 0, 1, batch(&["first life"])).await;
    let response = client.call(FETCH_BY_ID, &session.next(&[], FOR_EVER_MS)).await;
    assert_eq!(told(&response), [news(0, &["first life"], 1)]);

    client.delete_topic("t").await;
    let response = client.call(FETCH_BY_ID, &session.next(&[], FOR_EVER_MS)).await;
    assert_eq!(told(&response)[0].3, ErrorCode::UnknownTopicOrPartition, "it was known by its name by then");
    let new_id = client.create_topic("t", 1, &[]).await;
    assert_ne!(new_id, id);
    let response = client.call(FETCH_BY_ID, &session.next(&[], FOR_EVER_MS)).await;
    assert_eq!(told(&response)[0].3, ErrorCode::InconsistentTopicId);

    let forget = ForgottenTopic::default().with_topic_id(id).with_partitions(vec![0]);
    client.produced("t", 0, 1, batch(&["second life"])).await;
    let request = session.next(&[], 0).with_topics(by_id(new_id)).with_forgotten_topics_data(vec![forget]);
    assert_eq!(told(&client.call(FETCH_BY_ID, &request).await), [news(0, &["second life"], 1)]);
    broker.shut_down().await;
}

/// What a session's client knows of a partition: topic, partition, offset, and the high watermark and log start it was told.
#[derive(Debug)]
struct Known {
    topic: &'static str,
    partition: i32,
    offset: i64,
    told: (i64, i64),
}

/// What an answer says of a partition, with its topic and log start.
type Answer = (String, Told, i64);

/// Random requests of a session between random changes, each answer held against reading every partition of the session anew,
/// alone and without a session, and comparing with what was told last.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_tells_what_reading_everything_again_would() {
    for seed in 0..8 {
        let broker = Broker::start_in(Data::in_memory(), &[]).await;
        random_session(&broker, seed).await;
        broker.shut_down().await;
    }
}

async fn random_session(broker: &Broker, seed: u64) {
    const PLACES: [(&str, i32); 6] = [("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1), ("nowhere", 0)];
    let mut random = StdRng::seed_from_u64(seed);
    let (mut admin, mut client) = (broker.client().await, broker.client().await);
    for topic in ["t", "u"] {
        admin.create_topic(topic, 3, &[]).await;
    }
    // It keeps the session alive.
    let mut known = vec![Known { topic: "t", partition: 0, offset: 0, told: (-1, -1) }];
    let (mut session, _) = Session::begin(&mut client, &[("t", &[(0, 0)])]).await;
    known[0].told = (0, 0);
    for step in 0..60 {
        let (topic, partition) = PLACES[random.random_range(0..PLACES.len())];
        match random.random_range(0..10) {
            0..4 if topic != "nowhere" => {
                admin.produced(topic, partition, 1, batch(&[format!("{step}")])).await;
            }
            4 if topic != "nowhere" => {
                let offset = admin.earliest(topic, partition).await + 1;
                let _ = admin.delete_records(topic, partition, offset).await;
            }
            5 if topic == "u" => {
                admin.delete_topic("u").await;
                admin.create_topic("u", 3, &[]).await;
            }
            _ => {}
        }
        let mut request = session.next(&[], 0);
        for _ in 0..random.random_range(0..3) {
            let (topic, partition) = PLACES[random.random_range(0..PLACES.len())];
            let end = admin.list_offset(topic, partition, -1).await.unwrap_or(0);
            let offset = (end - random.random_range(0..3)).max(0);
            match known.iter_mut().find(|known| (known.topic, known.partition) == (topic, partition)) {
                Some(known) => known.offset = offset,
                None => known.push(Known { topic, partition, offset, told: (-1, -1) }),
            }
            request.topics.push(fetch_topic((topic, &[(partition, offset)])));
        }
        if known.len() > 1 && random.random_range(0..4) == 0 {
            let Known { topic, partition, .. } = known.remove(random.random_range(1..known.len()));
            let forgotten = ForgottenTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition]);
            request.forgotten_topics_data.push(forgotten);
        }
        let mut answered = answers(&client.call(FETCH, &request).await);
        answered.sort();
        let mut expected = Vec::new();
        for known in &mut known {
            let alone = fetch(&[(known.topic, &[(known.partition, known.offset)])], 0, 0);
            let answer = answers(&admin.call(FETCH, &alone).await).remove(0);
            let (_, (_, values, high_watermark, code), log_start) = &answer;
            let is_error = *code != ErrorCode::None;
            let now = (*high_watermark, *log_start);
            let is_told = is_error || !values.is_empty() || known.told != now;
            known.told = (if is_error { -1 } else { now.0 }, now.1);
            if is_told {
                expected.push(answer);
            }
        }
        expected.sort();
        assert_eq!(answered, expected, "seed {seed}, step {step}: {known:?}");
    }
}

fn answers(response: &FetchResponse) -> Vec<Answer> {
    let topics = response.responses.iter().flat_map(|topic| topic.partitions.iter().map(move |of| (&topic.topic, of)));
    let starts: Vec<(String, i64)> =
        topics.map(|(topic, partition)| (topic.as_str().to_owned(), partition.log_start_offset)).collect();
    starts.into_iter().zip(told(response)).map(|((topic, log_start), told)| (topic, told, log_start)).collect()
}
